"""Jin et al., "Sliding-Window Top-k Queries on Uncertain Streams": Figures 3-10 and Table 2.

Synthetic: distinct scores in random order, uniform probabilities. Real: iceberg sightings drawn at
random into a long stream, as in the paper, of other years and by days since the first sighting.
Space is counted as the paper does: 6 bytes a row and 4 bytes an entry of the array r. Every slide
is one row.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb
from skyband.datasets.real import data_folder
from skyband.datasets.uncertain import icebergs_repeated, random_order
from skyband.experiments.report import Progress, Report
from skyband.uncertain.semantics import Semantics

__all__ = ["reproduce"]

ALGORITHMS = ("bs", "csq", "ccsq", "scsq", "scsq-buffer")
LABELS = ("BS", "CSQ", "CCSQ", "SCSQ", "SCSQ-Buffer")
KINDS = ("pk-topk", "pt-k", "u-kranks", "u-topk")
THRESHOLD = 0.3
ROWS = 1_000_000
KS = (10, 20, 40, 60, 80, 100)
WINDOWS = (1_000, 10_000, 100_000)
ROW_BYTES, ENTRY_BYTES = 6, 4


@dataclass(frozen=True)
class Point:
    """One run: rows kept at its end, the largest compact set, microseconds a row."""

    retained: int
    largest: int
    micros: float

    def space(self, k: int) -> int:
        return ROW_BYTES * self.retained + ENTRY_BYTES * k * self.largest


def measure(table: pa.Table, kind: str, algorithm: str, k: int, size: int, rows: int) -> Point:
    """Fill the window, then time so many rows more."""
    query = sb.UncertainTopK(
        k=k, score="score", probability="p", window=sb.CountWindow(size, slide=1),
        semantics=kind, threshold=THRESHOLD if kind == "pt-k" else None, algorithm=algorithm,
    )  # fmt: skip
    monitor = sb.Monitor(query)
    monitor.push(table.slice(0, size))
    started = time.process_time()
    monitor.push(table.slice(size, rows))
    micros = (time.process_time() - started) * 1e6 / rows
    stats = monitor.stats()
    largest = int(stats.get("largest_compact_set", 0)) or _compact_set(table, kind, k, size)
    return Point(int(stats["retained"]), largest, micros)


def _compact_set(table: pa.Table, kind: str, k: int, size: int) -> int:
    """The size of the compact set of the first window."""
    semantics = Semantics(kind, k, THRESHOLD if kind == "pt-k" else None)
    score = table["score"].to_numpy()[:size]
    order = np.lexsort((-np.arange(len(score)), -score))
    return semantics.end(table["p"].to_numpy()[:size][order]) or len(score)


def reproduce(scale: float, out: Path, progress: Progress) -> None:
    """Write ``uncertain.md`` and its plots to ``out``; ``scale`` 1 is the paper's size."""
    report = Report("Top-k on uncertain streams")
    report.text(__doc__ or "")
    rows = max(2_000, int(100_000 * scale))
    sizes = [size for size in WINDOWS if size <= max(10_000, ROWS * scale)]
    longest = max(sizes) + rows
    streams: dict[str, pa.Table] = {"synthetic": random_order(longest)}
    if data_folder() is not None:
        streams["icebergs"] = icebergs_repeated(longest)
    else:
        report.text(
            "The iceberg sightings were not given (SKYBAND_DATA), so Figures 6-10 are missing."
        )
    verdicts: list[str] = []
    _figure_3(report, verdicts, progress)
    for name, table in streams.items():
        kinds = KINDS if name == "icebergs" else KINDS[:1]
        for kind in kinds:
            _space_and_time(report, verdicts, name, table, kind, sizes, rows, progress)
    _table_2(report, verdicts, streams["synthetic"], sizes, rows, progress)
    report.heading("Verdicts")
    report.bullets(verdicts)
    report.write(out / "uncertain.md")


def _figure_3(report: Report, verdicts: list[str], progress: Progress) -> None:
    progress("Figure 3: compact sets")
    rng = np.random.default_rng(1)
    p = 1.0 - rng.random(20_000)
    ks = (1, *range(10, 101, 10))
    sizes = {kind: [_end(kind, k, p) for k in ks] for kind in KINDS}
    report.heading("Figure 3: the size of the compact set")
    report.text("Does the compact set stay small, and grow linearly with k?")
    report.table(
        ["k", *KINDS], [[k, *(sizes[kind][i] for kind in KINDS)] for i, k in enumerate(ks)]
    )
    report.plot("uncertain-figure-3", "Compact set", sizes, "k = 1, 10, 20, …, 100", "rows")
    fit = sizes["pk-topk"][-1] / sizes["pk-topk"][-6]
    told = "holds" if 1.6 < fit < 2.4 else "does not hold"
    verdicts.append(f"Figure 3, linear in k: {told}; pk-topk grows {fit:.2f} × from k = 50 to 100.")


def _end(kind: str, k: int, p: Any) -> int:
    semantics = Semantics(kind, k, THRESHOLD if kind == "pt-k" else None)
    return semantics.end(p) or len(p)


def _space_and_time(
    report: Report,
    verdicts: list[str],
    name: str,
    table: pa.Table,
    kind: str,
    sizes: Sequence[int],
    rows: int,
    progress: Progress,
) -> None:
    figure = {"synthetic": "4 and 5"}.get(name, f"{'6 and 7' if kind == 'pk-topk' else '8-10'}")
    report.heading(f"Figures {figure}: {kind}, {name}")
    middle = sizes[len(sizes) // 2]
    sweeps: tuple[tuple[str, Sequence[int], Any], ...] = (
        ("k", KS[: 3 if rows < 20_000 else None], lambda x: (x, middle)),
        ("W", sizes, lambda x: (20, x)),
    )
    for axis, values, setting in sweeps:
        found: dict[str, list[Point]] = {label: [] for label in LABELS}
        for value in values:
            k, size = setting(value)
            for label, algorithm in zip(LABELS, ALGORITHMS, strict=True):
                progress(f"{name}, {kind}, {axis} = {value}: {algorithm}")
                timed = rows if algorithm in ("bs", "scsq-buffer") else max(500, rows // 20)
                found[label].append(measure(table, kind, algorithm, k, size, timed))
        fixed = f"W = {middle:,}" if axis == "k" else "k = 20"
        _tables(report, axis, values, found, fixed, f"uncertain-{name}-{kind}-{axis}")
        if axis == "W":
            verdicts += _judge(name, kind, found, values)


def _tables(
    report: Report,
    axis: str,
    values: Sequence[int],
    found: Mapping[str, Sequence[Point]],
    fixed: str,
    stem: str,
) -> None:
    ks = values if axis == "k" else [20] * len(values)
    space = {
        label: [point.space(k) / 1000 for point, k in zip(points, ks, strict=True)]
        for label, points in found.items()
    }
    micros = {label: [point.micros for point in points] for label, points in found.items()}
    for what, unit, data in (("Space", "kB", space), ("Time a row", "µs", micros)):
        report.text(f"{what} ({unit}), {fixed}:")
        report.table(
            [axis, *data], [[v, *(data[label][i] for label in data)] for i, v in enumerate(values)]
        )
        report.plot(
            f"{stem}-{'space' if unit == 'kB' else 'time'}",
            f"{what}, {fixed}",
            {
                label: [math.log10(max(value, 1e-6)) for value in line]
                for label, line in data.items()
            },
            f"{axis} = {', '.join(f'{v:,}' for v in values)}",
            f"log10 {unit}",
        )


def _judge(
    name: str, kind: str, found: Mapping[str, Sequence[Point]], sizes: Sequence[int]
) -> list[str]:
    last = {label: points[-1] for label, points in found.items()}
    orders = math.log10(last["BS"].space(20) / last["SCSQ-Buffer"].space(20))
    fastest = min(last, key=lambda label: last[label].micros)
    first = found["SCSQ-Buffer"][0].micros
    slow = max(last["CSQ"].micros, last["CCSQ"].micros)
    return [
        f"{name}, {kind}: SCSQ-Buffer takes {orders:.1f} orders of magnitude less space than BS at "
        f"W = {sizes[-1]:,} (the paper: 2 to 3 at its largest windows).",
        f"{name}, {kind}: CSQ and CCSQ slowest: "
        f"{'holds' if slow >= last['SCSQ'].micros else 'does not hold'}; the fastest is {fastest} "
        "(the paper: SCSQ-Buffer, then BS).",
        f"{name}, {kind}: SCSQ-Buffer needs {last['SCSQ-Buffer'].micros / first:.2f} × the time a "
        f"row at W = {sizes[-1]:,} that it needs at {sizes[0]:,} (the paper: the same or less).",
    ]


def _table_2(
    report: Report,
    verdicts: list[str],
    table: pa.Table,
    sizes: Sequence[int],
    rows: int,
    progress: Progress,
) -> None:
    """Retained rows against the growth that Table 2 gives them."""
    report.heading("Table 2: growth with W")
    report.text(
        "Rows kept at k = 10, divided by what Table 2 lets them grow with: W for BS, H² log W for "
        "CSQ, H log W for the others. A bound holds where the quotient does not rise."
    )
    lines = []
    for label, algorithm in zip(LABELS, ALGORITHMS, strict=True):
        progress(f"Table 2: {algorithm}")
        points = [
            measure(table, "pk-topk", algorithm, 10, size, max(500, rows // 50)) for size in sizes
        ]
        quotients = []
        for point, size in zip(points, sizes, strict=True):
            growth = {
                "bs": float(size),
                "csq": point.largest**2 * math.log2(size),
            }.get(algorithm, point.largest * math.log2(size))
            quotients.append(point.retained / growth)
        lines.append([label, *quotients])
        told = "holds" if quotients[-1] <= 1.5 * quotients[0] else "does not hold"
        verdicts.append(f"Table 2, space of {label}: {told}.")
    report.table(["", *(f"W = {size:,}" for size in sizes)], lines)
