"""UncertainTopK: the buffered queue beside the base synopsis that keeps the whole window.

No library answers these queries over windows, so the peer is `bs`, the best that was known: all
rows in row order. Random order, pk-topk; one thread. Both read the same Arrow table in memory, and
their answers are compared, to the last digit, before anything is timed.
"""

from __future__ import annotations

from typing import Any

import skyband as sb
from skyband.bench import Progress, compared
from skyband.datasets.uncertain import random_order

ROWS = 2_000_000

# W, slide, k, the rate asked for in million rows a second.
CASES = (
    (100_000, 100, 10, 5.0),
    (100_000, 1, 10, 1.0),
    (100_000, 100, 100, 0.2),
    (10_000, 100, 10, None),
    (1_000_000, 100, 10, None),
)


def run(scale: float, progress: Progress) -> list[dict[str, Any]]:
    found = []
    for size, slide, k, target in CASES:
        progress(f"W = {size:,}, slide {slide}, k = {k}")
        rows = max(2 * size, int(ROWS * scale))
        if slide == 1:
            rows = max(size + size // 2, rows // 4)
        found.append(case(rows, size, slide, k) | {"target M rows/s": target})
    return found


def case(rows: int, size: int, slide: int, k: int) -> dict[str, Any]:
    table = random_order(rows)
    queries = {name: query(size, slide, k, name) for name in ("scsq-buffer", "bs")}
    few = table.slice(0, min(rows, 2 * size, 50_000))
    answers = [sb.rank(few, each) for each in queries.values()]
    if not answers[0].equals(answers[1]):
        raise AssertionError("scsq-buffer and bs disagree")
    retained = {name: kept(table, each) for name, each in queries.items()}
    work = {
        "skyband": lambda: sb.rank(table, queries["scsq-buffer"]),
        "bs": lambda: sb.rank(table, queries["bs"]),
    }
    settings = {"group": "Uncertain, pk-topk", "case": f"W {size:,}, slide {slide}, k {k}"}
    share = 100.0 * retained["scsq-buffer"] / retained["bs"]
    return compared(settings, dict.fromkeys(work, rows), work, repeat=1) | {
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
