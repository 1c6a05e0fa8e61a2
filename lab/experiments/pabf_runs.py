"""The streams of the PABF experiments, and the measurements on them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import skyband as sb
from lab.datasets import topk as data
from lab.datasets.real import data_folder
from lab.experiments.pabf_paper import DELTAS, EPSILONS
from lab.experiments.report import Progress

__all__ = [
    "EXACT",
    "FALLING",
    "FILTERS",
    "LABELS",
    "PERIODS",
    "PRE",
    "Case",
    "Quality",
    "Run",
    "Step",
    "Study",
]

Scores = npt.NDArray[np.float64]
ROWS = 10_000_000
"""Times are stated for so many rows."""
SIZE = 1_000_000
"""The paper's default window: 0.1 % of 1 GB objects, if that means a thousand million of them."""
SIZES = (0.1, 0.5, 1, 2, 5, 10)
"""Table 1, as multiples of the default window; slides are in proportion."""
KS = (10, 50, 100, 200, 500, 750, 1_000)
SLIDES = (0.0001, 0.0005, 0.001, 0.01, 0.02, 0.05, 0.1)
"""As shares of the window."""
FEWER = 0.5
"""Below this scale, only some values of a parameter are measured."""
FEW_SIZES, FEW_KS, FEW_SLIDES = (0.1, 0.5, 1, 5), (10, 100, 1_000), (0.0005, 0.001, 0.01, 0.1)
FALLING = "falling"
PERIODIC = "TIME^R"
"""What this stream costs depends on its phase, so algorithms are compared over the same rows."""
PERIODS = 5
"""How much longer it is measured."""
FILTERS = {"stationary": "TIME^U", "time": "TIME^R", "none-known": "STOCK"}
"""Each filter, and the stream that is its own case."""
PRE = "preselected"
LABELS = {
    "pabf": "PABF", PRE: "PABF, preselected",
    "skyband": "skyband (ours)", "mintopk": "MinTopK", "sma": "SMA",
}  # fmt: skip
EXACT = ("skyband", "mintopk", "sma")
PANES = 1_000
"""Windows per slide at the paper's default, and the least size that keeps a slide of one row."""


@dataclass(frozen=True)
class Case:
    """One setting. Epsilon is a share of the range of scores."""

    size: int
    slide: int
    k: int = 100
    epsilon: float = 0.001
    delta: float = 0.99
    filter: str = "auto"


class Step(NamedTuple):
    """One push: its rows and seconds, and the rows that are kept after it."""

    rows: int
    seconds: float
    kept: int
    fresh: int


@dataclass(frozen=True)
class Run:
    """What was measured for one algorithm on one stream."""

    case: Case
    seconds: float
    """For 10 M rows."""
    candidates: float
    """Rows kept, those that wait for a merge included: the mean over the run."""
    fresh: float
    """Of these, rows that wait for a merge."""
    filled: bool
    """Whether the first window was full before the time was up; if not, seconds are too few."""
    stats: Mapping[str, Any]
    steps: Sequence[Step] = ()

    @staticmethod
    def of(case: Case, steps: Sequence[Step], filled: bool, stats: Mapping[str, Any]) -> Run:
        """Add up the steps."""
        rows, seconds = sum(step.rows for step in steps), sum(step.seconds for step in steps)
        kept = float(np.mean([step.kept for step in steps]))
        fresh = float(np.mean([step.fresh for step in steps]))
        return Run(case, seconds / rows * ROWS, kept, fresh, filled, stats, steps)

    def cut(self, steps: int) -> Run:
        """The same run, as if it had ended after so many steps."""
        return Run.of(self.case, self.steps[:steps], self.filled, self.stats)


@dataclass(frozen=True)
class Quality:
    """Time, answers and rows kept of PABF in one setting."""

    seconds: float
    deviation: float
    """Mean difference from the true score of the rank, in % of the range."""
    accuracy: float
    """Share of the returned rows that are in the exact answer, in %."""
    within: float
    """Share of (window, rank) pairs within epsilon."""
    kept: float
    near: float
    """Live rows within epsilon below the k-th best score: the mean over windows."""


class Study:
    """Streams and measurements at one scale."""

    def __init__(self, scale: float, progress: Progress) -> None:
        self.size = max(PANES, int(SIZE * scale) // PANES * PANES)
        self.slide = max(1, self.size // PANES)
        self.few = scale < FEWER
        self.rows = max(10 * self.size, 3 * self.sizes[-1])
        self.quality_rows = 4 * self.size
        self.seconds = min(0.5, max(0.02, 2 * scale))
        """How long one algorithm is measured on one stream, after the first window."""
        self.patience = min(20.0, max(1.0, 20 * scale))
        """How long the first window may take."""
        self.progress = progress
        self.real = data_folder() is not None
        self._made: tuple[str, Scores] | None = None
        self._runs: dict[tuple[str, Case, str], Run] = {}

    @property
    def usual(self) -> Case:
        """The paper's default setting."""
        return Case(self.size, self.slide)

    @cached_property
    def sizes(self) -> list[int]:
        factors = FEW_SIZES if self.few else SIZES
        return sorted({int(self.size * factor) for factor in factors})

    @cached_property
    def ks(self) -> Sequence[int]:
        return FEW_KS if self.few else KS

    @cached_property
    def slides(self) -> list[int]:
        shares = FEW_SLIDES if self.few else SLIDES
        return sorted({max(1, int(self.size * share)) for share in shares})

    # Streams ----------------------------------------------------------------------------------

    def stream(self, name: str) -> Scores:
        if self._made is None or self._made[0] != name:
            self._made = name, self._stream(name)
        return self._made[1]

    def _stream(self, name: str) -> Scores:
        rows = self.rows
        if name == FALLING:
            noise = np.random.default_rng(5).random(rows)
            return 1 - np.arange(rows) / rows + 0.01 * noise
        if name == "STOCK":
            values = data.stock() if self.real else data.stock_like(rows)
            return np.resize(values, rows)
        if name == "TIME^U":
            return data.time_u(rows)
        if name == "TIME^R":
            return data.time_r(rows, self.size)
        letter = name[-2]
        if name.startswith("SKEW-II"):
            return data.skew_ii(letter, rows, self.size)
        return data.skew_i(letter, rows)

    def spread(self, name: str) -> float:
        """The range of a stream's scores."""
        return float(np.ptp(self.stream(name)))

    def query(self, name: str, case: Case, algorithm: str) -> sb.TopK:
        named = "pabf" if algorithm == PRE else algorithm
        loose: dict[str, Any] = {}
        if named == "pabf":
            options: dict[str, Any] = {"filter": case.filter}
            if algorithm == PRE:
                options["preselect"] = True
            loose = {"epsilon": case.epsilon * self.spread(name), "delta": case.delta}
            loose["options"] = options
        return sb.TopK(
            k=case.k, score="x", id="row", window=sb.CountWindow(case.size, slide=case.slide),
            algorithm=named, **loose,
        )  # fmt: skip

    # Measurements -----------------------------------------------------------------------------

    def run(self, name: str, case: Case, algorithm: str) -> Run:
        """The time once the first window is full (stated for 10 M rows), and the rows kept."""
        found = self._runs.get((name, case, algorithm))
        if found is None:
            self.progress(f"{name}: {algorithm}, N {case.size:,}, k {case.k}, s {case.slide:,}")
            found = self._runs[name, case, algorithm] = self._run(name, case, algorithm)
        return found

    def _run(self, name: str, case: Case, algorithm: str) -> Run:
        scores = self.stream(name)
        if name == PERIODIC:  # in any case, the first window ends at the top of the curve
            scores = scores[(self.size - case.size) % (4 * self.size) :]
        table = pa.table({"x": scores, "row": np.arange(len(scores))})
        monitor = sb.Monitor(self.query(name, case, algorithm))
        step = max(case.slide, min(case.size // 4, 100 * case.slide))
        enough = self.seconds * (PERIODS if name == PERIODIC else 1)
        steps: list[Step] = []
        spent, filled = 0.0, False
        for start in range(0, len(scores), step):
            if not filled and start >= case.size:
                steps, spent, filled = [], 0.0, True
            piece = table.slice(start, step)
            began = time.process_time()
            monitor.push(piece)
            took = time.process_time() - began
            stats = monitor.stats()
            steps.append(Step(piece.num_rows, took, stats["retained"], stats.get("fresh", 0)))
            spent += took
            if spent > (enough if filled else self.patience):
                break
        return Run.of(case, steps, filled, monitor.stats())

    def warm_up(self) -> None:
        """Run everything once, so that no compilation is timed."""
        table = pa.table({"x": np.random.default_rng(0).random(4_000), "row": np.arange(4_000)})
        for algorithm in LABELS:
            name = "pabf" if algorithm == PRE else algorithm
            loose: dict[str, Any] = {"epsilon": 0.01, "delta": 0.99} if name == "pabf" else {}
            if algorithm == PRE:
                loose["options"] = {"preselect": True}
            window = sb.CountWindow(1_000, slide=100)
            query = sb.TopK(k=5, score="x", id="row", window=window, algorithm=name, **loose)
            monitor = sb.Monitor(query)
            for start in range(0, 4_000, 1_000):
                monitor.push(table.slice(start, 1_000))

    def quality(self, name: str) -> dict[str, list[Quality]]:
        """Tables 2 and 3: for each epsilon and for each delta."""
        by_epsilon = [replace(self.usual, epsilon=epsilon) for epsilon in EPSILONS]
        by_delta = [replace(self.usual, delta=delta) for delta in DELTAS]
        table, true = self._exact(name)
        known = {case: self._against(name, case, table, true) for case in by_epsilon}
        for case in by_delta:
            if case not in known:
                known[case] = self._against(name, case, table, true)
        return {
            "epsilon": [known[case] for case in by_epsilon],
            "delta": [known[case] for case in by_delta],
        }

    def _exact(self, name: str) -> tuple[pa.Table, pa.Table]:
        """The stream and its exact answers."""
        scores = self.stream(name)[: self.quality_rows]
        table = pa.table({"x": scores, "row": np.arange(len(scores))})
        return table, self.answers(name, self.usual, table)

    def answers(self, name: str, case: Case, table: pa.Table) -> pa.Table:
        """The exact answers."""
        return sb.rank(table, self.query(name, case, "skyband"))

    def _against(self, name: str, case: Case, table: pa.Table, true: pa.Table) -> Quality:
        scores = table["x"].to_numpy()
        query = self.query(name, case, "pabf")
        got = sb.rank(table, query)
        gap = true["x"].to_numpy() - got["x"].to_numpy()
        ends = true["window_end"].to_numpy().astype(np.int64) * len(scores)
        mine, exact = (ends + each["row"].to_numpy() for each in (got, true))
        same = np.isin(mine, exact, assume_unique=True, kind="sort")
        run = self.run(name, case, "pabf")
        return Quality(
            run.seconds, 100 * float(gap.mean()) / self.spread(name), 100 * float(same.mean()),
            float(np.mean((gap >= 0) & (gap < query.epsilon))), run.candidates,
            _near(scores, case, query.epsilon, true),
        )  # fmt: skip

    def sweep(self, name: str, algorithms: Sequence[str], slides: bool = True) -> Any:
        """Figures 9 to 12: algorithms over N, k and, if asked for, s."""
        usual = self.usual
        cases: dict[str, dict[int, Case]] = {
            "N": {n: replace(usual, size=n, slide=max(1, n // PANES)) for n in self.sizes},
            "k": {k: replace(usual, k=k) for k in self.ks},
        }
        if slides:
            cases["s"] = {slide: replace(usual, slide=slide) for slide in self.slides}
        return {
            axis: {value: self._point(name, case, algorithms) for value, case in points.items()}
            for axis, points in cases.items()
        }

    def _point(self, name: str, case: Case, algorithms: Sequence[str]) -> dict[str, Run]:
        """Several algorithms in one setting; over the same rows if it matters which ones."""
        runs = {a: self.run(name, case, a) for a in algorithms}
        if name == PERIODIC:
            least = min((len(run.steps) for run in runs.values() if run.filled), default=0)
            runs = {a: run.cut(least) if run.filled else run for a, run in runs.items()}
        return runs

    def filters(self) -> dict[tuple[str, str], Run]:
        """Each filter alone on each of the three streams: s is 1 % of N, and k a tenth of s."""
        slide = max(20, self.size // 100)
        case = Case(self.size, slide, k=slide // 10)
        return {
            (each, name): self.run(name, replace(case, filter=each), "pabf")
            for name in FILTERS.values()
            for each in (*FILTERS, "auto", "off")
        }

    def falling(self) -> dict[tuple[int, float], dict[str, Run]]:
        """Falling scores, for which an exact algorithm must keep k rows per pane: by k, epsilon."""
        usual = replace(self.usual, slide=max(1, self.size // 100))
        ks = (10, 100) if self.size < 100 * PANES else (100, 1_000)
        cases = [replace(usual, k=k, epsilon=e) for k in ks for e in (0.001, 0.01, 0.1)]
        names = ("pabf", PRE, "skyband")
        return {(c.k, c.epsilon): {a: self.run(FALLING, c, a) for a in names} for c in cases}


def _near(scores: Scores, case: Case, epsilon: float, true: pa.Table) -> float:
    """Rows that are not in the exact answer, but within epsilon of its last; some full windows."""
    ends = true["window_end"].to_numpy()
    last = np.flatnonzero(np.append(ends[1:] != ends[:-1], True))
    full = last[ends[last] >= case.size]
    counts = []
    for at in full[:: max(1, len(full) // 20)]:
        live = scores[ends[at] - case.size : ends[at]]
        kth = true["x"][int(at)].as_py()
        counts.append(int(((live < kth) & (live > kth - epsilon)).sum()))
    return float(np.mean(counts))
