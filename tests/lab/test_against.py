"""Comparing this checkout with another revision: workloads, turns, the least times, the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.bench import against, workloads


def test_a_workload_is_measured_after_a_run_that_warms_up() -> None:
    (found,) = workloads.measured(["pushes of 1 row"], 1)
    assert found["name"] == "pushes of 1 row"
    assert 0 < found["processor"] < 60
    assert found["wall"] > 0
    assert list(workloads.measured(["pushes of 1 row"], 0)) == []


def test_both_take_turns_and_the_least_times_count(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, int]] = []
    wall = iter([0.0, 0.0, 5.0, 2.0, 3.0, 4.0])

    def measured(source: Path, names: list[str], repeat: int) -> against.Times:
        calls.append((source.name, repeat))
        took = next(wall)
        return {name: {"processor": 2 * took, "wall": took} for name in names} if repeat else {}

    monkeypatch.setattr(against, "_measured", measured)
    found = against.compare({"old": Path("a"), "new": Path("b")}, ["x"], rounds=2)
    assert calls == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 1), ("b", 1)]
    assert found == {
        "old": {"x": {"processor": 6.0, "wall": 3.0}},
        "new": {"x": {"processor": 4.0, "wall": 2.0}},
    }
    assert "| x | 4.0000 | 6.0000 | 0.67 | 0.67 |" in against.table_of(found["new"], found["old"])


def test_a_revision_is_checked_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (against.ROOT / ".git").exists():
        pytest.skip("not a checkout")
    monkeypatch.setattr(against, "BUILD", tmp_path)
    source = against.checked_out("HEAD")
    assert (source / "skyband" / "__init__.py").is_file()
    (source / "mark").touch()
    assert (against.checked_out("HEAD") / "mark").exists()
    assert [each.name for each in tmp_path.iterdir()] == [source.parent.name], "no archive is left"


def test_what_got_slower_is_listed_worst_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    took = {"old": [1.0, 1.0, 1.0, 2.0], "new": [1.3, 1.09, 2.0, 1.0]}
    names = ["a", "b", "c", "d"]
    times = {
        side: {n: {"processor": t, "wall": t} for n, t in zip(names, each, strict=True)}
        for side, each in took.items()
    }
    found = against.slower(times["new"], times["old"])
    assert found == ["c takes 2.00 times as long", "a takes 1.30 times as long"]
    monkeypatch.setattr("sys.argv", ["against"])
    monkeypatch.setattr(against, "last_release", lambda: "v1")
    monkeypatch.setattr(against, "checked_out", Path)
    monkeypatch.setattr(against, "compare", lambda *_: times)
    against.main()
    assert "slower than v1: c takes 2.00" in capsys.readouterr().out
    monkeypatch.setattr(against, "compare", lambda *_: {"old": times["old"], "new": times["old"]})
    against.main()
    assert "slower than v1: nothing" in capsys.readouterr().out


def test_the_last_release_can_be_checked_out() -> None:
    if not (against.ROOT / ".git").exists():
        pytest.skip("not a checkout")
    assert against._git("cat-file", "-t", f"{against.last_release()}^{{commit}}") == b"commit\n"
