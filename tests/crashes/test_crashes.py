"""Jobs stopped at every step; ``make crashes`` tries many more."""

from __future__ import annotations

import ast
import errno
import io
import os
import random
from contextlib import suppress
from pathlib import Path

import pytest

import skyband
from crashes.__main__ import every_point
from crashes.enumerate import HOWS, Client, Enumeration, MismatchError, Point, refused_beside
from crashes.faults import FaultPoint, FaultyRuns
from crashes.scripts import Script
from crashes.world import Crash, SimulatedWorld
from skyband.embedded.formats import readable
from skyband.errors import EngineError, SchemaError
from skyband.jobs.allowed_keys import SINKS, SOURCES
from skyband.jobs.world import World

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
    outcome = every_point(0, batches=2)
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
"""What only the world of a job may do."""
HOLDERS = {"self._world", "self.world", "world", "self._files", "MACHINE", "sink"}
"""What the steps of a world may be called on; a sink is opened, too."""
MADE_OF_STEPS = {
    "exists", "read", "read_safely", "append", "write_whole", "make_folders", "is_empty", "clear",
    "forget_drafts",
}  # fmt: skip


def test_every_step_of_a_world_is_simulated() -> None:
    steps = {name for name in vars(World) if not name.startswith("_")} - MADE_OF_STEPS
    assert steps <= set(vars(SimulatedWorld))


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


def test_every_source_and_sink_is_stopped_at_every_step() -> None:
    """A new one has to be in the scripts, or among those that promise nothing after a crash."""
    scripts = [Script(seed) for seed in range(40)]
    sources = {script.jobs[0].sources[""].kind for script in scripts}
    sinks = {kind for script in scripts for kind in script.sinks.values()}
    assert sources | {"rate", "socket"} == set(SOURCES)
    assert sinks | {"console", "table"} == set(SINKS)


# What was found -----------------------------------------------------------------------------------


def test_a_checkpoint_is_emptied_so_that_a_crash_leaves_its_mark() -> None:
    """Names may vanish in any order; without its mark the folder is not a checkpoint any more."""
    folder = Path("/state")
    for seed in range(40):
        world = SimulatedWorld()
        for name in ("mark", "journal-0", "files-source"):
            world.disk.put(folder / name, b"", 0)
        world.stop = 1 + seed % 4
        with suppress(Crash):
            world.clear(folder, "mark")
        world.crash("power", random.Random(seed))
        left = set(world.disk.files(folder))
        assert "mark" in left or not left


def test_what_a_killed_process_wrote_is_made_safe_before_it_is_used() -> None:
    world, path = SimulatedWorld(), Path("/lots")
    world.stop = 3  # it is created and written, but never forced to disk
    with suppress(Crash):
        world.append(path, b"[]\n")
    world.crash("kill", random.Random(2))
    assert world.read_safely(path) == b"[]\n"
    world.crash("worst", random.Random(0))
    assert world.read_safely(path) == b"[]\n"


@pytest.mark.parametrize(("code", "kind"), [(errno.EIO, EngineError), (errno.ENOENT, SchemaError)])
def test_a_file_that_the_machine_cannot_read_is_not_a_bad_file(
    code: int, kind: type[Exception]
) -> None:
    """A job that skips bad records would leave out all of its rows."""

    def read() -> None:
        raise OSError(code, os.strerror(code))

    with pytest.raises(kind, match=os.strerror(code)):
        readable(Path("a.csv"), read)()


# Faults of the world ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_a_fault_stops_the_job_and_it_goes_on_when_the_fault_is_gone(seed: int) -> None:
    runs = FaultyRuns(Enumeration(Script(seed, batches=3)))
    by_kind: dict[str, list[FaultPoint]] = {}
    for point in runs.points():
        by_kind.setdefault(point.kind, []).append(point)
    chance = random.Random(seed)
    stopped = {
        kind: [runs.run(point) for point in chance.sample(points, min(len(points), 8))]
        for kind, points in by_kind.items()
    }
    assert all(stopped["full"])
    assert all(stopped["read-only"])
    assert not any(stopped["slow"] + stopped["forward"] + stopped["back"])
