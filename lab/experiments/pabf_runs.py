"""The streams of the PABF experiments, and the measurements on them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import skyband as sb
from lab.datasets import topk as data
from lab.datasets.real import data_folder
from lab.experiments.pabf_paper import PAPER
from lab.experiments.report import Progress

Scores = npt.NDArray[np.float64]
ROWS = 10_000_000
SIZES = (10_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)
KS = (10, 50, 100, 200, 500, 750, 1_000)
FALLING = "falling"
SLIDES = (10, 50, 100, 1_000, 2_000, 5_000, 10_000)
EPSILONS = (0.0001, 0.0005, 0.001, 0.005, 0.01)
DELTAS = (0.9999, 0.999, 0.99, 0.95, 0.9)
EXACT = ("skyband", "mintopk", "sma")
FEWER = 0.1
"""Below this scale, every second value of a parameter is left out."""
PRE = "preselected"
LABELS = {
    "pabf": "PABF", PRE: "PABF, preselected",
    "skyband": "skyband (ours)", "mintopk": "MinTopK", "sma": "SMA",
}  # fmt: skip
SLOW = ("mintopk", "sma")
"""Measured for half as long, over fewer rows; their times, too, are stated for 10 M rows."""


@dataclass(frozen=True)
class Case:
    """One setting; the defaults apply unless a parameter is varied."""

    size: int = 100_000
    slide: int = 1_000
    k: int = 100
    epsilon: float = 0.001
    """As a share of the range of scores."""
    delta: float = 0.99


@dataclass(frozen=True)
class Run:
    """What was measured for one algorithm on one stream."""

    seconds: float
    """For 10 M rows."""
    candidates: float
    fresh: float
    stats: Mapping[str, Any]


class Study:
    """Streams and measurements at one scale."""

    def __init__(self, scale: float, progress: Progress) -> None:
        self.rows = max(int(ROWS * scale), 300_000)
        self.seconds = max(0.2, 2 * scale)
        """How long one algorithm is measured on one stream."""
        self.progress = progress
        self.thin = 2 if scale < FEWER else 1
        self._made: tuple[str, int, Scores] | None = None
        self.real = data_folder() is not None

    def stream(self, name: str, rows: int | None = None) -> Scores:
        rows = rows or self.rows
        if self._made is None or self._made[:2] != (name, rows):
            self._made = name, rows, self._stream(name, rows)
        return self._made[2]

    def _stream(self, name: str, rows: int) -> Scores:
        if name == FALLING:
            noise = np.random.default_rng(5).random(rows)
            return 1 - np.arange(rows) / rows + 0.01 * noise
        if name == "STOCK":
            values = data.stock() if self.real else data.stock_like(rows)
            return np.resize(values, rows)
        if name == "TIME^U":
            return data.time_u(rows)
        if name == "TIME^R":
            return data.time_r(rows, Case().size)
        letter = name[-2]
        if name.startswith("SKEW-II"):
            return data.skew_ii(letter, rows, Case().size)
        return data.skew_i(letter, rows)

    def query(self, case: Case, algorithm: str, scores: Scores) -> sb.TopK:
        spread = float(scores.max() - scores.min())
        name = "pabf" if algorithm == PRE else algorithm
        loose: dict[str, Any] = (
            {"epsilon": case.epsilon * spread, "delta": case.delta} if name == "pabf" else {}
        )
        return sb.TopK(
            k=case.k, score="x", id="row", window=sb.CountWindow(case.size, slide=case.slide),
            algorithm=name, options={"preselect": True} if algorithm == PRE else {}, **loose,
        )  # fmt: skip

    def run(self, name: str, case: Case, algorithm: str) -> Run:
        """The time once the first window is full (stated for 10 M rows), and the rows kept."""
        scores = self.stream(name, max(self.rows, 2 * case.size))
        self.progress(f"{name}: {algorithm}, N {case.size:,}, k {case.k}, s {case.slide:,}")
        query = self.query(case, algorithm, scores)
        table = pa.table({"x": scores, "row": np.arange(len(scores))})
        monitor = sb.Monitor(query)
        monitor.push(table.slice(0, case.size))
        step = max(case.slide, min(case.size // 2, 100 * case.slide))
        spent, done, kept, fresh = 0.0, 0, [], []
        for start in range(case.size, len(scores), step):
            piece = table.slice(start, step)
            began = time.process_time()
            monitor.push(piece)
            spent += time.process_time() - began
            done += piece.num_rows
            stats = monitor.stats()
            kept.append(stats["retained"])
            fresh.append(stats.get("fresh", 0))
            if spent > self.seconds / (2 if algorithm in SLOW else 1):
                break
        return Run(
            spent / done * ROWS, float(np.mean(kept)), float(np.mean(fresh)), monitor.stats()
        )

    def quality(self) -> dict[str, dict[str, list[tuple[float, float, float, float]]]]:
        """Per stream, for each epsilon and delta: seconds, deviation, accuracy, share in bounds."""
        found: dict[str, dict[str, list[tuple[float, float, float, float]]]] = {}
        for name in PAPER:
            scores = self.stream(name, min(self.rows, 1_000_000))
            table = pa.table({"x": scores, "row": np.arange(len(scores))})
            true = sb.rank(table, self.query(Case(), "skyband", scores))
            by_epsilon = [replace(Case(), epsilon=epsilon) for epsilon in EPSILONS]
            by_delta = [replace(Case(), delta=delta) for delta in DELTAS]
            found[name] = {
                kind: [self._against(name, case, scores, table, true) for case in cases]
                for kind, cases in (("epsilon", by_epsilon), ("delta", by_delta))
            }
        return found

    def _against(
        self, name: str, case: Case, scores: Scores, table: pa.Table, true: pa.Table
    ) -> tuple[float, float, float, float]:
        query = self.query(case, "pabf", scores)
        got = sb.rank(table, query)
        gap = np.asarray(true["x"]) - np.asarray(got["x"])
        ends = np.asarray(true["window_end"]).astype(np.int64) * len(scores)
        same = np.isin(ends + np.asarray(got["row"]), ends + np.asarray(true["row"]))
        spread = float(scores.max() - scores.min())
        seconds = self.run(name, case, "pabf").seconds
        within = float(np.mean((gap >= 0) & (gap < query.epsilon)))
        return seconds, 100 * float(gap.mean()) / spread, 100 * float(same.mean()), within

    def sweep(self, name: str) -> dict[str, dict[int, dict[str, Run]]]:
        """Figures 9 to 11: all algorithms over N, k and s."""
        cases: dict[str, dict[int, Case]] = {
            "N": {size: replace(Case(), size=size) for size in SIZES[:: self.thin]},
            "k": {k: replace(Case(), k=k) for k in KS[:: self.thin]},
            "s": {
                slide: replace(Case(), slide=slide) for slide in SLIDES[self.thin - 1 :: self.thin]
            },
        }
        return {
            axis: {
                value: {a: self.run(name, case, a) for a in LABELS}
                for value, case in points.items()
            }
            for axis, points in cases.items()
        }

    def skew(self) -> dict[str, dict[str, Run]]:
        """Figure 12: all algorithms over the skewed streams."""
        names = [name for name in PAPER if name.startswith("SKEW")]
        return {n: {a: self.run(n, Case(), a) for a in LABELS} for n in names}

    def falling(self) -> dict[tuple[int, float], dict[str, Run]]:
        """Falling scores, for which an exact algorithm must keep k rows per pane: by k, epsilon."""
        cases = [replace(Case(), k=k, epsilon=e) for k in (100, 1_000) for e in (0.001, 0.01, 0.1)]
        names = ("pabf", PRE, "skyband")
        return {(c.k, c.epsilon): {a: self.run(FALLING, c, a) for a in names} for c in cases}
