"""Sketches hold all groups in one state: each group's answers are those of its rows alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb

SKETCHES = ("ss", "fss", "fsw", "fsw-r", "fsw-f")
GROUPS = 7


def stream(weighted: int = 1) -> pa.Table:
    """Some groups fall silent for longer than a window and come back, one comes late."""
    rng = np.random.default_rng(3)
    rows = 1_200
    ts = np.sort(rng.integers(0, 300, rows))
    group = rng.integers(0, GROUPS, rows)
    group = np.where((group == 2) & (ts > 60) & (ts < 200), 3, group)
    group = np.where((group == 5) & (ts < 150), 0, group)
    item = np.minimum(rng.pareto(0.7, rows).astype(np.int64), 40)
    weight = rng.integers(0, 4, rows) * weighted
    return pa.table({"ts": ts, "g": group, "item": item, "w": weight})


def query(algorithm: str, window: Any = None, **more: Any) -> sb.HeavyHitters:
    sizes: dict[str, Any] = {"capacity": 6}
    if algorithm != "ss":
        sizes["cells"] = 10
    window = window or sb.TimeWindow(40, slide=10)
    return sb.HeavyHitters(
        k=3, item="item", time="ts", window=window, by=("g",), algorithm=algorithm, proof=True,
        **sizes, **more,
    )  # fmt: skip


def alone(asked: sb.HeavyHitters, table: pa.Table) -> list[dict[str, Any]]:
    found = []
    for group in range(GROUPS):
        one = replace(asked, by=(), where={"g": group})
        found += [row | {"g": group} for row in sb.rank(table, one).to_pylist()]
    return sorted(found, key=lambda row: (row["window_end"], row["g"], row["rank"]))


def together(asked: sb.HeavyHitters, table: pa.Table, restarts: bool) -> list[dict[str, Any]]:
    monitor, rows = sb.Monitor(asked), []
    for at in range(0, table.num_rows, 113):
        if restarts:
            monitor = sb.Monitor.restore(monitor.snapshot())
        rows += [row for a in monitor.push(table.slice(at, 113)) for row in a.table.to_pylist()]
        monitor._check()
    return rows + [row for a in monitor.flush() for row in a.table.to_pylist()]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("raw_rows", [9, 10_000])
@pytest.mark.parametrize("algorithm", SKETCHES)
def test_groups_do_not_disturb_each_other(algorithm: str, raw_rows: int, restarts: bool) -> None:
    weight = None if algorithm == "fsw-f" else "w"
    asked = query(algorithm, weight=weight, options={"raw_rows": raw_rows})
    rows = together(asked, stream(), restarts)
    assert rows == alone(asked, stream())
    assert {row["proven"] for row in rows} == {True, False}


@pytest.mark.parametrize("algorithm", SKETCHES)
def test_groups_of_count_windows(algorithm: str) -> None:
    asked = query(algorithm, sb.CountWindow(60, slide=20), keep=("w",))
    key = ("g", "window_end", "rank")
    rows = sorted(together(asked, stream(), True), key=lambda row: [row[n] for n in key])
    wanted = sorted(alone(asked, stream()), key=lambda row: [row[n] for n in key])
    assert rows == wanted


def test_a_group_that_was_forgotten_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new group takes the place, and the code, of one without live rows."""
    monkeypatch.setattr("skyband.data.group_table._FEW_GROUPS", 2)
    parts = []
    for turn in range(6):
        part = stream().slice(0, 400)
        parts.append(
            pa.table(
                {
                    "ts": pa.array(part["ts"].to_numpy() + 400 * turn),
                    "g": pa.array(part["g"].to_numpy() % 4 + 100 * turn),
                    "item": part["item"],
                    "w": part["w"],
                }
            )
        )
    table = pa.concat_tables(parts)
    for algorithm in ("ss", "fsw-r"):
        asked = query(algorithm)
        monitor, rows = sb.Monitor(asked), []
        for at in range(0, table.num_rows, 50):
            rows += [row for a in monitor.push(table.slice(at, 50)) for row in a.table.to_pylist()]
            monitor._check()
        assert len(monitor.session.synopsis.known) < 24  # type: ignore[attr-defined]
        last = [row for row in rows if row["window_end"] > 2_000]
        fresh = sb.rank(parts[-1], asked).to_pylist()
        assert last == [row for row in fresh if row["window_end"] <= last[-1]["window_end"]]


@pytest.mark.parametrize("algorithm", SKETCHES)
def test_room_for_more_groups_is_no_new_type_to_kernels(algorithm: str) -> None:
    """A kernel is compiled once for each memory order of its arrays, ten seconds each time."""
    monitor = sb.Monitor(query(algorithm))
    for turn, groups in enumerate((1, 3, GROUPS)):  # first without groups, then beside others
        later = pa.array(stream()["ts"].to_numpy() + 300 * turn)
        table = stream().set_column(0, "ts", later)
        monitor.push(table.filter(pc.less(table["g"], groups)))
        synopsis: Any = monitor.session.synopsis
        assert len(synopsis.known) >= groups
        orders = {name: getattr(synopsis, name).flags.c_contiguous for name in synopsis.blank}
        assert all(orders.values()), orders


def test_all_groups_widen_together() -> None:
    table = stream(weighted=2**29)
    for algorithm in ("fsw", "fsw-r"):
        asked = query(algorithm, weight="w")
        assert together(asked, table, True) == alone(asked, table)


def test_bytes_per_group_are_as_documented() -> None:
    """(m + h) x p counters of 4 bytes, h x p marks, and some 200 bytes per item of the list."""
    asked = sb.HeavyHitters(
        k=5, item="item", time="ts", window=sb.TimeWindow(60, slide=1), by=("g",), algorithm="fsw"
    )
    monitor = sb.Monitor(asked)
    rng = np.random.default_rng(1)
    table = {"ts": np.zeros(9_000, np.int64), "g": np.arange(9_000) % 900}
    monitor.push(pa.table({**table, "item": rng.integers(0, 50, 9_000)}))
    monitor.push(pa.table({"ts": [1, 2], "g": [0, 0], "item": [1, 1]}))
    m, h, p = 20, 60, 60
    each = monitor.stats()["state_bytes"] / 900
    assert each < 1.13 * (4 * (m + h) * p + h * p + 250 * m)
