"""What else a ranking can do: each id once, kept columns, decay; compared with plain TopK.

All queries read the same table in memory with one thread: an hour of rows in order of time, whose
ids occur ten times in a window of ten minutes. ``plain`` is the same query without the addition.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb
from lab.bench import Progress, compared

rank = partial(sb.rank, threads=1)
ROWS = 10_000_000
HOUR = 3_600_000_000
LIVE = 100_000
SLIDING = 20_000
"""Rows where every row ends a window: ``latest`` takes long there."""
WINDOW = sb.TimeWindow("10 minutes", slide="1 minute")
DECAY = sb.DecayWindow("10 minutes", slide="1 minute")
ONCE, KEPT, DECAYED = "Each id once", "Kept columns", "Decay"


def run(scale: float, progress: Progress) -> list[dict[str, Any]]:
    rows = max(20_000, int(ROWS * scale))
    return [*once(rows, progress), *kept(rows, progress), *decayed(rows, progress)]


def _table(rows: int, ids: int) -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "ts": pa.array(np.sort(rng.integers(0, HOUR, rows))).view(pa.timestamp("us", "UTC")),
            "id": rng.integers(0, ids, rows),
            "score": rng.random(rows),
        }
    )


def _measured(
    group: str, case: str, table: pa.Table, query: sb.Query, plain: sb.Query, **targets: float
) -> dict[str, Any]:
    work = {"skyband": lambda: rank(table, query), "plain": lambda: rank(table, plain)}
    row = compared({"group": group, "case": case}, dict.fromkeys(work, len(table)), work)
    return row | {name.replace("_", " "): value for name, value in targets.items()}


def once(rows: int, progress: Progress) -> list[dict[str, Any]]:
    """``distinct`` over time and count windows, and at a slide of one row."""
    progress("each id once")
    common: dict[str, Any] = {"k": 10, "score": "score", "id": "id"}
    timed = common | {"time": "ts", "window": WINDOW}
    table, live = _table(rows, max(10, rows // 60)), _table(rows, LIVE)
    few = live.slice(0, min(SLIDING, rows // 10))
    sliding = common | {"window": sb.CountWindow(len(few) // 2, slide=1)}
    plain = sb.TopK(**timed)
    found = []
    for distinct, ids, data, targets in (
        ("best", "ids ten times per window", table, {"target_×_plain": 1 / 3}),
        ("latest", "ids ten times per window", table, {}),
        ("latest", "100,000 live ids", live, {"target_M_rows/s": 5.0}),
    ):
        case, query = f"{distinct}, {ids}", sb.TopK(**timed, distinct=distinct)
        progress(case)
        found.append(_measured(ONCE, case, data, query, plain, **targets))
    for distinct in ("best", "latest"):
        case = f"{distinct}, count window, slide 1"
        progress(case)
        query = sb.TopK(**sliding, distinct=distinct)
        found.append(_measured(ONCE, case, few, query, sb.TopK(**sliding)))
    return found


def kept(rows: int, progress: Progress) -> list[dict[str, Any]]:
    """Columns that are carried only for rows that are retained: text, and lists of text."""
    progress("kept columns")
    table = _table(rows, max(10, rows // 60))
    rng = np.random.default_rng(6)
    titles = pa.array([f"a title of some length, number {i}" for i in range(10_000)])
    title = titles.take(pa.array(rng.integers(0, len(titles), rows)))
    lists = pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32)), title)
    table = table.append_column("title", title).append_column("tags", lists)
    common: dict[str, Any] = {"time": "ts", "window": WINDOW}
    top = common | {"k": 10, "score": "score", "id": "id"}
    counted = common | {"k": 10, "item": "id"}
    found = []
    for case, kind, settings, keep in (
        ("TopK, text", sb.TopK, top, ("title",)),
        ("TopK, text and lists", sb.TopK, top, ("title", "tags")),
        ("HeavyHitters, text", sb.HeavyHitters, counted, ("title",)),
    ):
        progress(case)
        aim = {"target_×_plain": 0.9} if kind is sb.TopK else {}
        query, plain = kind(**settings, keep=keep), kind(**settings)
        found.append(_measured(KEPT, case, table, query, plain, **aim))
    return found


def decayed(rows: int, progress: Progress) -> list[dict[str, Any]]:
    """Windows with a half-life, compared with windows of ten minutes."""
    table = _table(rows, max(10, rows // 60))
    found = []
    top, counted = {"k": 10, "score": "score", "id": "id"}, {"k": 10, "item": "id"}
    for case, kind, settings in (
        ("TopK", sb.TopK, top),
        ("TopK, each id once", sb.TopK, top | {"distinct": "best"}),
        ("HeavyHitters", sb.HeavyHitters, counted),
        ("HeavyHitters, 1,000 counters", sb.HeavyHitters, counted | {"capacity": 1_000}),
    ):
        progress(f"decay: {case}")
        common: dict[str, Any] = {"time": "ts", **settings}
        query, plain = kind(window=DECAY, **common), kind(window=WINDOW, **common)
        found.append(_measured(DECAYED, case, table, query, plain))
    return found
