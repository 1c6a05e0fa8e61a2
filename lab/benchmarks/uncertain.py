"""UncertainTopK: the buffered queue compared with the base synopsis, which keeps the whole window.

No library answers these queries over windows, so the peer is `bs`, the best method known before: it
keeps all rows in row order. The stream is in random order, the semantics is pk-topk, and both use
one thread. Both read the same Arrow table in memory, and their answers are compared to the last
digit before anything is timed. The second table compares the project's targets with what was
measured.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import skyband as sb
from lab.bench import Progress, compared
from lab.datasets.uncertain import random_order

rank = partial(sb.rank, threads=1)
ROWS = 2_000_000
STEADY = 1_000_000
"""Rows that are timed after a full window."""

# W, slide, k, the target rate in million rows per second.
CASES = (
    (100_000, 100, 10, 5.0),
    (100_000, 1, 10, 1.0),
    (100_000, 100, 100, 0.2),
    (10_000, 100, 10, None),
    (1_000_000, 100, 10, None),
)
FLAT = 1.2
"""The cost per row in the largest window may be at most this multiple of the smallest's."""


def run(scale: float, progress: Progress) -> list[dict[str, Any]]:
    found, asked = [], []
    for size, slide, k, target in CASES:
        progress(f"W = {size:,}, slide {slide}, k = {k}")
        rows = max(2 * size, int(ROWS * scale))
        if slide == 1:
            rows = max(size + size // 2, rows // 4)
        row = case(rows, size, slide, k)
        found.append(row)
        if target is not None:
            rate = row["skyband M rows/s"]
            asked.append(told(row["case"], f"≥ {target:g} M rows/s", f"{rate:.2f}", rate >= target))
        ratio = row["× bs"]
        asked.append(told(row["case"], "faster than bs", f"{ratio:.1f} ×", ratio > 1))
        if size == max(each[0] for each in CASES):
            share = row["retained, % of bs"]
            asked.append(told(row["case"], "≤ 1 % of bs' rows", f"{share:.2f} %", share <= 1))
    progress("time per row against W")
    sizes = sorted({size for size, slide, k, _ in CASES if (slide, k) == (100, 10)})
    micros = [steady(size, int(STEADY * scale)) for size in sizes]
    shown = ", ".join(f"{each:.3f}" for each in micros) + " µs"
    where = f"W {', '.join(f'{size:,}' for size in sizes)}, slide 100, k 10"
    flat = micros[-1] <= FLAT * micros[0]
    asked.append(told(where, f"no more time per row (within {FLAT - 1:.0%})", shown, flat))
    return found + asked


def told(case: str, asked: str, measured: str, met: bool) -> dict[str, Any]:
    return {
        "group": "Uncertain, what was asked", "case": case, "asked": asked, "measured": measured,
        "met": met,
    }  # fmt: skip


def case(rows: int, size: int, slide: int, k: int) -> dict[str, Any]:
    table = random_order(rows)
    queries = {name: query(size, slide, k, name) for name in ("scsq-buffer", "bs")}
    few = table.slice(0, min(rows, 2 * size, 50_000))
    answers = [rank(few, each) for each in queries.values()]
    if not answers[0].equals(answers[1]):
        raise AssertionError("scsq-buffer and bs disagree")
    retained = {name: kept(table, each) for name, each in queries.items()}
    work = {
        "skyband": lambda: rank(table, queries["scsq-buffer"]),
        "bs": lambda: rank(table, queries["bs"]),
    }
    settings = {"group": "Uncertain, pk-topk", "case": f"W {size:,}, slide {slide}, k {k}"}
    share = 100.0 * retained["scsq-buffer"] / retained["bs"]
    return compared(settings, dict.fromkeys(work, rows), work, repeat=2) | {
        "retained": retained["scsq-buffer"],
        "retained, % of bs": round(share, 3),
    }


def query(size: int, slide: int, k: int, algorithm: str) -> sb.UncertainTopK:
    window = sb.CountWindow(size, slide=slide)
    return sb.UncertainTopK(
        k=k, score="score", probability="p", id="id", window=window, algorithm=algorithm
    )


def kept(table: Any, query: sb.UncertainTopK) -> int:
    """Rows that the synopsis keeps after a full window."""
    monitor = sb.Monitor(query)
    monitor.push(table.slice(0, query.window.panes.size))
    return int(monitor.stats()["retained"])


def steady(size: int, rows: int) -> float:
    """Microseconds of CPU per row once the window is full; the least of three measurements."""
    table = random_order(size + 3 * rows)
    monitor = sb.Monitor(query(size, 100, 10, "scsq-buffer"))
    monitor.push(table.slice(0, size))
    taken = []
    for turn in range(3):
        some = table.slice(size + turn * rows, rows)
        began = time.process_time()
        monitor.push(some)
        taken.append((time.process_time() - began) * 1e6 / rows)
    return min(taken)
