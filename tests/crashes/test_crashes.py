"""Jobs stopped at every step; ``make crashes`` tries many more."""

from __future__ import annotations

import ast
import io
import random
from pathlib import Path

import pytest

import skyband
from crashes.__main__ import every_point
from crashes.enumerate import HOWS, Client, Enumeration, MismatchError, Point, refused_beside
from crashes.scripts import Script
from crashes.world import SimulatedWorld

POINTS = 2_000
SEEDS = range(24)
"""Scripts of each family, of jobs that are served and not."""


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_and_nothing_comes_twice(seed: int) -> None:
    """Points of each script, drawn anew for each, so that all of them are two thousand."""
    made = Enumeration(Script(seed, batches=4))
    chance = random.Random(seed)
    points = [(point, how) for point in made.reference() for how in HOWS]
    for point, how in chance.sample(points, -(-POINTS // len(SEEDS))):
        made.crash_at(point, how)


def test_every_step_of_a_short_job() -> None:
    for seed in (0, 2):
        outcome = every_point(seed, batches=2)
        assert outcome.points > 100
        assert outcome.problems == []


class Forgetful(SimulatedWorld):
    """A disk that only says that it has kept something."""

    def sync(self, file: io.RawIOBase) -> None:
        self.step("sync")


class Nameless(SimulatedWorld):
    """A disk that keeps contents, but no names."""

    def sync_folder(self, path: Path) -> None:
        self.step("sync")


@pytest.mark.parametrize("broken", [Forgetful, Nameless])
def test_a_job_that_forces_nothing_to_disk_is_noticed(
    broken: type[SimulatedWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Enumeration, "new", lambda self: broken(self.script.pace, self.script.lazy))
    monkeypatch.setattr(SimulatedWorld, "copy", _copy_of(broken))
    made = Enumeration(Script(1), again=0)
    points = made.reference()
    with pytest.raises(MismatchError, match="repeat: make crashes"):
        _crash_at_all(made, points)


def _crash_at_all(made: Enumeration, points: list[Point]) -> None:
    for point in points:
        made.crash_at(point, "worst")


def _copy_of(kind: type[SimulatedWorld]) -> object:
    plain = SimulatedWorld.copy

    def copy(self: SimulatedWorld) -> SimulatedWorld:
        made = plain(self)
        made.__class__ = kind
        return made

    return copy


@pytest.mark.parametrize("seed", range(6))
def test_a_second_process_is_refused_at_every_step(seed: int) -> None:
    script = Script(seed, batches=4)
    made = Enumeration(script)
    assert refused_beside(made.new(), script, Client()) > 20


# The seam -----------------------------------------------------------------------------------------

SOURCE = Path(skyband.__file__).parent
BEHIND_THE_SEAM = sorted(
    path
    for path in (
        *(SOURCE / "jobs" / "local").glob("*.py"),
        *(SOURCE / "jobs" / "sinks").glob("*.py"),
        SOURCE / "serve" / "history.py",
    )
    if path.name not in ("on_spark.py", "__init__.py")
)
MODULES = {"os", "shutil", "time", "fcntl", "tempfile", "subprocess", "glob"}
CALLS = {"open", "read_bytes", "read_text", "write_bytes", "write_text", "unlink", "mkdir"} | {
    "exists", "is_dir", "is_file", "stat", "iterdir", "replace", "rename", "touch", "urlopen",
    "create_connection", "ThreadPoolExecutor", "rglob",
}  # fmt: skip
HOLDERS = {"self._world", "self.world", "world", "self._files", "MACHINE", "sink"}
"""What the steps of a world may be called on; a sink is opened, too."""
"""What only the world of a job may do."""


@pytest.mark.parametrize("path", BEHIND_THE_SEAM, ids=lambda path: path.stem)
def test_a_job_does_nothing_past_its_world(path: Path) -> None:
    """A new source or sink has to go through it, and so meets every test here."""
    past: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            past += [each.name for each in node.names if each.name in MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            past.append(node.module)
        elif isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else ast.unparse(called)
            holder = ast.unparse(called.value) if isinstance(called, ast.Attribute) else ""
            if name in CALLS and holder not in HOLDERS and not _is_text(node):
                past.append(ast.unparse(node))
    assert past in ([], ["os"]), past


def _is_text(call: ast.Call) -> bool:
    """Whether this is a method of a text or a date with the name of one of a path."""
    return ast.unparse(call.func).endswith(".replace") and (len(call.args) == 2 or not call.args)
