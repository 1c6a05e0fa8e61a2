"""``Monitor.stats``: the same after a restore, at a cost that does not grow with the state."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband import registry
from skyband.fused.eaa import Eaa
from support import conformance, make_snapshots
from support.results import COUNTED

CASES = [pytest.param(*case[1:], id=case[0]) for case in make_snapshots.cases()]
NAMES = [(kind, name) for kind in registry.kinds() for name in registry.algorithms(kind)]


def test_every_algorithm_has_a_case() -> None:
    queries: list[Any] = [case.values[0] for case in CASES]
    assert {(query.kind, query.algorithm) for query in queries} == set(NAMES)


@pytest.mark.parametrize(("query", "batches"), CASES)
def test_statistics_survive_a_restore(query: sb.Query, batches: list[Any]) -> None:
    monitor = sb.Monitor(query)
    for batch in batches[:-2]:
        monitor.push(batch)
    before = monitor.stats()
    again = sb.Monitor.restore(monitor.snapshot())
    assert known(again) == known_of(before) == known(monitor)
    counts = {n: v for n, v in before.items() if n not in (*COUNTED, "state_bytes")}
    if query.kind != "TopK" or query.algorithm in ("mintopk", "sma", "pabf"):  # others have none
        assert any(counts.values()), counts
    for batch in batches[-2:]:
        again.push(batch)
    # All counts continue from where they were.
    assert set(again.stats()) == set(before)
    assert again.stats()["rows_in"] > before["rows_in"]


def known(monitor: sb.Monitor) -> dict[str, int | float]:
    return known_of(monitor.stats())


def known_of(stats: dict[str, int | float]) -> dict[str, int | float]:
    """All statistics except the bytes: a restored state has different spare room."""
    return {name: value for name, value in stats.items() if name != "state_bytes"}


# Cost ---------------------------------------------------------------------------------------------

ROWS = 12_000


def large(kind: str, algorithm: str) -> tuple[sb.Query, Any]:
    """A query over a window that holds all rows, and the rows."""
    rng = np.random.default_rng(3)
    ts = np.arange(ROWS) // 3
    falling = {"ts": ts, "id": np.arange(ROWS), "score": -np.arange(ROWS) / 7.0}
    window: dict[str, Any] = {"window": sb.TimeWindow(ROWS, slide=500), "time": "ts"}
    window |= {"algorithm": algorithm}
    if kind == "TopK":
        more: dict[str, Any] = {"epsilon": 1.0} if algorithm == "pabf" else {}
        more |= {**conformance.NEEDED.get(algorithm, {}), "id": "id"}
        return sb.TopK(k=50, score="score", **window, **more), pa.table(falling)
    if kind == "HeavyHitters":
        table = pa.table({"ts": ts, "item": rng.integers(0, ROWS, ROWS)})
        return sb.HeavyHitters(
            k=5, item="item", **window, **make_snapshots.MORE.get(algorithm, {})
        ), table
    if kind == "UncertainTopK":
        table = pa.table({**falling, "p": 1.0 - rng.random(ROWS)})
        rows = (
            ROWS if algorithm == "bs" else 2_000
        )  # the others keep few rows, and are slow on falling scores
        query = sb.UncertainTopK(k=5, score="score", id="id", probability="p", **window)
        return query, table.slice(0, rows)
    if kind == "FusedTopK":
        table = pa.table({
            "ts": ts, "id": np.arange(ROWS) // 2, "value": rng.random(ROWS),
            "stream": np.where(np.arange(ROWS) % 2, "a", "b"),
        })  # fmt: skip
        given: dict[str, Any] = {
            "id": "id",
            "stream": "stream",
            "value": "value",
            "streams": ("a", "b"),
        }
        return sb.FusedTopK(
            k=3, options={"slack": 10**6} if algorithm.startswith("eaa") else {}, **given, **window,
            **conformance.NEEDED.get(algorithm, {}),
        ), table  # fmt: skip
    if kind == "Skyline":
        # All of these are on the skyline.
        table = pa.table({"ts": ts, "a": np.arange(ROWS), "b": np.arange(ROWS)})
        return sb.Skyline(prefer={"a": "min", "b": "max"}, **window), table.slice(0, 3_000)
    side = {"ts": ts, "key": rng.integers(0, 500, ROWS)}
    sides = {
        name: pa.table({**side, name[0]: rng.random(ROWS)}).slice(0, 6_000)
        for name in ("left", "right")
    }
    prefer = {"l": "min", "r": "min"}
    return sb.SkylineJoin(left="left", right="right", on="key", prefer=prefer, **window), sides


@pytest.mark.parametrize(("kind", "algorithm"), NAMES)
def test_statistics_take_no_room_that_grows_with_the_state(kind: str, algorithm: str) -> None:
    """Progress bars read them after every batch; a mask over all rows would fail this test."""
    query, rows = large(kind, algorithm)
    monitor = sb.Monitor(query)
    monitor.push(rows)
    monitor.stats()
    tracemalloc.start()
    try:
        monitor.stats()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 8_000


@pytest.mark.parametrize("algorithm", ["eaa", "eaa-approx"])
def test_statistics_do_not_sweep(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    instances = Eaa._instances

    def look(self: Eaa) -> Any:
        looks.append(1)
        return instances(self)

    monkeypatch.setattr(Eaa, "_instances", look)
    query, rows = large("FusedTopK", algorithm)
    monitor = sb.Monitor(query)
    monitor.push(rows)
    before = monitor.stats()
    looks.clear()
    assert monitor.stats() == before
    assert not looks
    monitor.session.synopsis.sweep()  # type: ignore[attr-defined]
    assert looks, "a sweep would be noticed"
    after = monitor.stats()
    assert after["sweeps"] == before["sweeps"] + 1
    # Before a sweep, everything since the last sweep counts; after it, only what is not dominated.
    assert 3 <= after["retained"] < before["retained"] == before["reports"]
