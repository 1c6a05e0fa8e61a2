"""Boards: ten queries over one read, compared with the dearest alone and with all one by one.

Ten TopK of one score (k from 5 to 100, windows from 5 to 60 minutes), ten HeavyHitters of one item
and ten Skylines, without and with groups, keep one state. Ten different queries share the read and
what is computed from columns. All read a table in memory with one thread. Answers are compared
before anything is timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb
from lab.bench import Progress, best_of
from lab.datasets.frequency import hour_of_items

ROWS = 10_000_000
KS = (5, 10, 15, 20, 30, 40, 50, 60, 80, 100)
PLACES = 200
MINUTES = (5, 10, 15, 20, 25, 30, 40, 45, 50, 60)
Board = dict[str, sb.Query]


def run(scale: float, progress: Progress) -> list[dict[str, Any]]:
    rows = max(20_000, int(ROWS * scale))
    rng = np.random.default_rng(7)
    table = hour_of_items(rows).append_column("score", pa.array(rng.random(rows)))
    table = table.append_column("price", pa.array(rng.integers(0, 1_000, rows)))
    placed = table.append_column("place", pa.array(rng.integers(0, PLACES, rows)))
    found = []
    for case, data, board, target in (
        ("ten TopK of one score", table, top_k(), 2.5),
        ("ten HeavyHitters of one item", table, heavy_hitters(), 3.0),
        (f"ten HeavyHitters of {PLACES} groups", placed, heavy_hitters("place"), 3.0),
        ("ten Skylines of one preference", table, skylines(), None),
        (f"ten Skylines of {PLACES} groups", placed, skylines("place"), 3.0),
        ("ten different queries", table, different(), None),
    ):
        progress(case)
        found.append({"case": case, "rows": rows, **measured(data, board), "target": target})
    return found


def measured(table: pa.Table, board: Board) -> dict[str, Any]:
    """Seconds of the board, of its dearest query alone, and of all queries one by one."""
    together = sb.rank(table, board)
    for name, query in board.items():
        if not together[name].equals(sb.rank(table, query)):
            raise AssertionError(f"{name} answers differently on a board")
    work: dict[str, Any] = {name: lambda q=q: sb.rank(table, q) for name, q in board.items()}
    seconds = best_of(work | {"board": lambda: sb.rank(table, board)})
    board_s = seconds.pop("board")
    dearest, one_by_one = max(seconds.values()), sum(seconds.values())
    return {
        "board s": board_s,
        "dearest alone s": dearest,
        "one by one s": one_by_one,
        "times the dearest": board_s / dearest,
        "× one by one": one_by_one / board_s,
    }


def _window(minutes: int) -> sb.TimeWindow:
    return sb.TimeWindow(f"{minutes} minutes", slide="1 minute")


def top_k() -> Board:
    return {
        f"{k} of {m} minutes": sb.TopK(k=k, score="score", id="item", time="ts", window=_window(m))
        for k, m in zip(KS, MINUTES, strict=True)
    }


def heavy_hitters(*by: str) -> Board:
    common: Any = {"item": "item", "time": "ts", "by": by}
    return {
        f"{k} of {m} minutes": sb.HeavyHitters(k=k, window=_window(m), **common)
        for k, m in zip(KS, MINUTES, strict=True)
    }


def skylines(*by: str) -> Board:
    prefer = {"score": "max", "price": "min"}
    return {
        f"{m} minutes": sb.Skyline(prefer=prefer, time="ts", by=by, window=_window(m))
        for m in MINUTES
    }


def different() -> Board:
    every: dict[str, Any] = {"time": "ts", "window": _window(10)}
    prices = sb.HeavyHitters(k=10, item="price", **every)
    return nine("item", "score", "price", every) | {"prices": prices}


def nine(item: str, score: str, weight: str, every: Mapping[str, Any]) -> dict[str, sb.Query]:
    """Nine different queries over rows with these columns and a price."""
    return {
        "best": sb.TopK(k=10, score=score, **every),
        "worst": sb.TopK(k=10, score=score, largest=False, **every),
        "best with its item": sb.TopK(k=10, score=score, id=item, **every),
        "dearest": sb.TopK(k=10, score="price", id=item, **every),
        "cheapest": sb.TopK(k=10, score="price", id=item, largest=False, **every),
        "frequent": sb.HeavyHitters(k=10, item=item, **every),
        "heavy": sb.HeavyHitters(k=10, item=item, weight=weight, **every),
        "front": sb.Skyline(prefer={score: "max", "price": "min"}, **every),
        "sketched": sb.HeavyHitters(k=10, item=item, capacity=1_000, **every),
    }
