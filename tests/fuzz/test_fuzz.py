"""The short form of ``make fuzz``: the same cases, always the same seeds."""

from __future__ import annotations

import random
import sys
from typing import Any

import pyarrow as pa
import pytest

import fuzz
import oracle
import skyband as sb
from fuzz import checks, driver, jobs, streams, values
from skyband import registry

COUNTS = {
    "answers": 110,
    "boards": 25,
    "specs": 50,
    "snapshots": 25,
    "files": 25,
    "commands": 15,
    "processes": 1,
    "jobs": 8,
}
"""Cases of each kind; most cases make several inputs."""


def test_every_kind_of_case_is_run() -> None:
    assert set(COUNTS) == set(fuzz.CASES)


@pytest.mark.filterwarnings("default")  # as for users, and as in make fuzz
@pytest.mark.parametrize("kind", COUNTS)
def test_random_inputs(kind: str) -> None:
    if kind in ("commands", "processes", "jobs"):
        pytest.importorskip("typer")
    made: set[str] = set()
    for number in range(COUNTS[kind]):
        seed = f"short-{number}"
        try:
            made.update(fuzz.run(kind, seed))
        except Exception as problem:
            problem.add_note(f'again: make fuzz FUZZ_ARGS="--case {kind}:{seed}"')
            raise
    assert made == ({"batches", "tables"} if kind == "answers" else {kind})
    assert made <= set(fuzz.INPUTS)


def test_every_algorithm_is_drawn() -> None:
    queries = [streams.draw(random.Random(n)).query for n in range(900)]
    drawn = {(query.kind, registry.choose(query)) for query in queries}
    known = {
        (kind, name)
        for kind in registry.kinds()
        for sort in ("sized", "decay", "landmark")
        for name in registry.algorithms(kind, sort)
    }
    assert known == drawn


def test_everything_that_a_query_may_ask_is_drawn() -> None:
    drawn = [streams.draw(random.Random(n)) for n in range(300)]
    asked = {name for each in drawn for name in each.settings}
    assert {"where", "keep", "ties", "repeats", "distinct", "largest"} <= asked
    assert "estimate" in {each.settings.get("recurrences") for each in drawn}
    texts = [each.settings.get(name) or "" for each in drawn for name in ("score", "weight")]
    assert any("*" in text or "(" in text for text in texts)
    windows = {type(each.window).__name__ for each in drawn}
    assert windows == {"TimeWindow", "CountWindow", "DecayWindow", "LandmarkWindow"}


def test_reports_that_where_leaves_out_do_not_separate_others() -> None:
    """In a window of two rows, the rows between two reports of one object have to count."""
    columns = {name: values.Column(pa.string(), lambda rng: "") for name in ("id", "s", "w")}
    rows = [{"id": key, "s": "a", "w": w} for key, w in (("x", "in"), ("y", ""), ("x", "in"))]
    stream = streams.Stream(columns, rows, [True] * 3)
    settings = {"id": "id", "stream": "s", "by": (), "recurrences": 1, "returns": True}
    settings["where"] = {"w": "in"}
    streams._thin({"": stream}, settings, oracle.CountWindow(2, 1), "")
    assert [row["id"] for row in stream.rows] == ["x", "y"]


def test_a_board_that_answers_otherwise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sb.Monitor.push

    def without_the_last(self: sb.Monitor, batch: Any) -> Any:
        found = list(right(self, batch))
        return found[:-1] if isinstance(self.query, dict) else found

    monkeypatch.setattr(sb.Monitor, "push", without_the_last)
    assert any("answers of" in found for found in _failures("boards", 15))


def test_a_job_that_writes_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("typer")
    right = sb.rank

    def without_the_first(*given: Any) -> pa.Table:
        return right(*given)[1:]

    monkeypatch.setattr(sb, "rank", without_the_first)
    assert any("AssertionError" in found for found in _failures("jobs", 3))


def test_a_job_that_ends_with_a_traceback_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("typer")

    def fails(*given: Any) -> None:
        raise KeyError("x")

    monkeypatch.setattr("skyband.jobs.explain", fails)
    assert any("KeyError" in found for found in _failures("jobs", 3))


def test_mistakes_in_jobs_do_not_depend_on_earlier_ones() -> None:
    """A table of junk was spoilt itself, and in the end held itself."""
    before = repr(jobs.JUNK)
    told: dict[str, Any] = {"name": "x", "source": {"kind": "files"}}
    for seed in range(300):
        jobs._spoil(random.Random(seed), told)
    assert repr(jobs.JUNK) == before
    assert jobs.toml(told)


def test_a_wrong_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sb.Monitor.flush

    def without_the_last(self: sb.Monitor) -> list[sb.Answer]:
        return right(self)[:-1]

    monkeypatch.setattr(sb.Monitor, "flush", without_the_last)
    assert _failures("answers", 30)


def test_a_wrong_peek_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sb.Monitor.peek
    monkeypatch.setattr(sb.Monitor, "peek", lambda self, last=None: right(self))
    assert any("windows" in found for found in _failures("answers", 60))


def test_a_bad_row_that_is_not_counted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sb.Monitor.stats
    monkeypatch.setattr(sb.Monitor, "stats", lambda self: right(self) | {"rows_bad": 0})
    assert any("counts" in found for found in _failures("answers", 60))


def test_a_broken_bound_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*given: Any) -> None:
        raise AssertionError("a bound")

    monkeypatch.setattr(checks, "BOUNDS", dict.fromkeys(checks.BOUNDS, wrong))
    assert _failures("answers", 60)


def test_a_snapshot_without_checksum_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import zlib

    from skyband.data import packing

    class NoChecksum:
        crc32 = staticmethod(lambda data, start=0: 0)

    assert not _failures("snapshots", 5)
    monkeypatch.setattr(packing, "zlib", NoChecksum)
    assert _failures("snapshots", 15)
    assert zlib.crc32(b"x")


def _failures(kind: str, count: int) -> list[str]:
    found = []
    for number in range(count):
        try:
            list(fuzz.run(kind, f"short-{number}"))
        except Exception as problem:  # noqa: BLE001  any exception is a finding
            found.append(driver.signature(problem))
    return found


def test_crashes_hangs_and_failures_are_told_apart(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert driver.main(["--count", "12", "--only", "snapshots", "--seed", "short"]) == 0
    said = capsys.readouterr().out
    assert "12 inputs" in said
    assert "0 failures" in said
    head, _, line = (row.split("|") for row in said.splitlines() if row.startswith("|"))
    cells = {name.strip(): cell.strip() for name, cell in zip(head, line, strict=True)}
    assert cells["snapshots"] == cells["inputs"] == "12"
    assert cells["run"] == "`--seed short`"
    with monkeypatch.context() as patience:
        patience.setattr(driver, "BUSY", -1)
        assert driver.main(["--count", "1", "--only", "snapshots"]) == 1
        assert "a hang" in capsys.readouterr().out
    # A process that fails before it reaches its first case counts as a crash.
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert driver.main(["--count", "2", "--only", "snapshots"]) == 1
    assert "a crash (exit code 1)" in capsys.readouterr().out


def test_a_process_that_has_become_too_large_is_replaced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[int] = []
    start = driver.Worker._start

    def noted(self: driver.Worker) -> None:
        began.append(self.next)
        start(self)

    monkeypatch.setattr(driver.Worker, "_start", noted)
    words = ["--count", "15", "--only", "snapshots", "--seed", "short", "--memory", "1"]
    assert driver.main(words) == 0
    assert began == [0, 1]  # a case makes 12 or 13 inputs
    assert "0 failures" in capsys.readouterr().out
