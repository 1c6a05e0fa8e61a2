"""The streams of the PABF experiments, and the measurements on them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import skyband as sb
from lab.datasets import topk as data
from lab.datasets.real import data_folder
from lab.experiments.pabf_paper import DELTAS, EPSILONS
from lab.experiments.report import Progress
from lab.experiments.seeds import SEEDS, Sample
from skyband.errors import EngineError
from skyband.topk.pabf import zeta

__all__ = [
    "EXACT",
    "FALLING",
    "FILTERS",
    "LABELS",
    "PARTS",
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
KS = (0.1, 0.5, 1, 2, 5, 7.5, 10)
"""The paper's 10 to 1,000, as multiples of its default k = 100."""
SLIDES = (0.0001, 0.0005, 0.001, 0.01, 0.02, 0.05, 0.1)
"""As shares of the window."""
FEWER = 0.5
"""Below this scale, only some values of a parameter are measured."""
FEW_SIZES, FEW_KS, FEW_SLIDES = (0.1, 1, 5), (0.1, 1, 10), (0.0001, 0.001, 0.01, 0.1)
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
PER_K = 10
"""Rows of a slide for each of the best k at the paper's default: s = 1,000 and k = 100. With fewer
rows in a slide than k, no filter has anything to do."""
PARTS = 8
"""A stream is cut into so many parts to see how much the share of rescans varies."""


@dataclass(frozen=True)
class Case:
    """One setting. Epsilon is a share of the range of scores."""

    size: int
    slide: int
    k: int
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

    @property
    def filtered(self) -> int:
        """Slides that were filtered."""
        return int(self.stats["filter_panes"] - self.stats["filter_unfiltered"])

    @property
    def rescans(self) -> float:
        """The share of the filtered slides that were scanned again."""
        return float(self.stats["filter_rescans"] / max(1, self.filtered))

    @property
    def pruned(self) -> float:
        """Of the s - k rows of a slide that no window can show, the share that was pruned."""
        panes, stats = self.stats["filter_panes"], self.stats
        if not panes or self.case.slide <= self.case.k:
            return 0.0
        survived = stats["filter_survivors"] / max(1, self.filtered)
        used = (self.filtered - stats["filter_rescans"]) / panes
        return float(used * (self.case.slide - survived) / (self.case.slide - self.case.k))

    def cut(self, steps: int) -> Run:
        """The same run, as if it had ended after so many steps."""
        return Run.of(self.case, self.steps[:steps], self.filled, self.stats)


@dataclass(frozen=True)
class Quality:
    """Time, answers and rows kept of PABF in one setting; answers with several seeds."""

    seconds: float
    deviation: Sample
    """Mean difference from the true score of the rank, in % of the range."""
    accuracy: Sample
    """Share of the returned rows that are in the exact answer, in %."""
    within: float
    """Share of (window, rank) pairs within epsilon, with the seed where it is least."""
    kept: float
    near: float
    """Live rows within epsilon below the k-th best score: the mean over windows."""
    filtered: int = 0
    """Slides that were filtered."""
    rescans: float = 0.0
    """The share of these that were scanned again."""


class Study:
    """Streams and measurements at one scale."""

    def __init__(self, scale: float, progress: Progress) -> None:
        self.size = max(PANES, int(SIZE * scale) // PANES * PANES)
        self.slide = max(1, self.size // PANES)
        self.k = max(1, self.slide // PER_K)
        self.few = scale < FEWER
        self.rows = max(10 * self.size, 3 * self.sizes[-1])
        self.quality_rows = 2 * self.size
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
        return Case(self.size, self.slide, self.k)

    @cached_property
    def sizes(self) -> list[int]:
        factors = FEW_SIZES if self.few else SIZES
        return sorted({int(self.size * factor) for factor in factors})

    @cached_property
    def ks(self) -> Sequence[int]:
        return sorted({max(1, int(self.k * factor)) for factor in (FEW_KS if self.few else KS)})

    @cached_property
    def slides(self) -> list[int]:
        shares = FEW_SLIDES if self.few else SLIDES
        return sorted({max(1, int(self.size * share)) for share in shares})

    # Streams ----------------------------------------------------------------------------------

    def stream(self, name: str) -> Scores:
        if self._made is None or self._made[0] != name:
            self._made = name, self._stream(name, self.rows)
        return self._made[1]

    @staticmethod
    def seeds(name: str) -> range:
        """The seeds of a stream; trades and the curve have none."""
        return range(1 if name in ("STOCK", PERIODIC) else SEEDS)

    def _stream(self, name: str, rows: int, seed: int = 0) -> Scores:
        if name == FALLING:
            noise = np.random.default_rng(5).random(rows)
            return 1 - np.arange(rows) / rows + 0.01 * noise
        if name == "STOCK":
            values = data.stock() if self.real else data.stock_like(rows)
            return np.resize(values, rows)
        if name == "TIME^U":
            return data.time_u(rows, seed)
        if name == "TIME^R":
            return data.time_r(rows, self.size)
        letter = name[-2]
        if name.startswith("SKEW-II"):
            return data.skew_ii(letter, rows, self.size, seed)
        return data.skew_i(letter, rows, seed)

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
            scores = self.stream(name)
            found = self._runs[name, case, algorithm] = self._run(name, scores, case, algorithm)
        return found

    def other_seeds(self, name: str, algorithms: Sequence[str]) -> dict[str, list[Run]]:
        """The usual setting with every seed."""
        self.progress(f"{name}: {SEEDS} seeds")
        found: dict[str, list[Run]] = {algorithm: [] for algorithm in algorithms}
        for seed in self.seeds(name):
            scores = self._stream(name, 3 * self.size, seed)
            for algorithm, runs in found.items():
                runs.append(self._run(name, scores, self.usual, algorithm))
        return found

    def _run(self, name: str, scores: Scores, case: Case, algorithm: str) -> Run:
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
        tables = [self.table(name, seed) for seed in self.seeds(name)]
        truths = [self.answers(name, self.usual, table) for table in tables]
        pairs = list(zip(tables, truths, strict=True))
        known = {case.epsilon: self._against(name, case, pairs) for case in by_epsilon}
        by_delta = []
        for delta in DELTAS:  # answers are the same at every delta
            run = self.run(name, replace(self.usual, delta=delta), "pabf")
            self._must_filter(run)
            by_delta.append(replace(
                known[self.usual.epsilon], seconds=run.seconds, kept=run.candidates,
                filtered=run.filtered, rescans=run.rescans,
            ))  # fmt: skip
        return {"epsilon": list(known.values()), "delta": by_delta}

    @staticmethod
    def _must_filter(run: Run) -> None:
        """Refuse a measurement of delta in which no slide was filtered, though it was possible."""
        case = run.case
        if case.slide > zeta(case.k, case.delta) and not run.filtered:
            raise EngineError(f"the filter did nothing in {case}; please report this as a bug")

    def table(self, name: str, seed: int) -> pa.Table:
        """The first rows of a stream."""
        rows = self.quality_rows
        scores = self._stream(name, rows, seed) if seed else self.stream(name)[:rows]
        return pa.table({"x": scores, "row": np.arange(len(scores))})

    def answers(self, name: str, case: Case, table: pa.Table) -> pa.Table:
        """The exact answers."""
        return sb.rank(table, self.query(name, case, "skyband"))

    def _against(
        self, name: str, case: Case, pairs: Sequence[tuple[pa.Table, pa.Table]]
    ) -> Quality:
        """PABF compared with exact answers, which are given for the rows of each seed."""
        query = self.query(name, case, "pabf")
        deviation, accuracy, within, near = [], [], [], []
        for table, true in pairs:
            scores = table["x"].to_numpy()
            got = sb.rank(table, query)
            gap = true["x"].to_numpy() - got["x"].to_numpy()
            ends = true["window_end"].to_numpy().astype(np.int64) * len(scores)
            mine, exact = (ends + each["row"].to_numpy() for each in (got, true))
            same = np.isin(mine, exact, assume_unique=True, kind="sort")
            deviation.append(100 * float(gap.mean()) / self.spread(name))
            accuracy.append(100 * float(same.mean()))
            within.append(float(np.mean((gap >= 0) & (gap < query.epsilon))))
            near.append(_near(scores, case, query.epsilon, true))
        run = self.run(name, case, "pabf")
        return Quality(
            run.seconds, Sample(tuple(deviation)), Sample(tuple(accuracy)), min(within),
            run.candidates, float(np.mean(near)), run.filtered, run.rescans,
        )  # fmt: skip

    def sweep(self, name: str, algorithms: Sequence[str], slides: bool = True) -> Any:
        """Figures 9 to 12: algorithms over N and, if asked for, k and s."""
        usual = self.usual
        cases: dict[str, dict[int, Case]] = {
            "N": {n: replace(usual, size=n, slide=max(1, n // PANES)) for n in self.sizes},
        }
        if slides or not self.few:
            cases["k"] = {k: replace(usual, k=k) for k in self.ks}
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

    def false_pruning(self) -> dict[tuple[str, float], Sample]:
        """How often each filter rescans in its own case, by name and delta; parts of a stream."""
        found = {}
        case = next(iter(self.filters().values())).case
        for name, stream in FILTERS.items():
            self.progress(f"{stream}: rescans of the filter {name}")
            scores = self.stream(stream)
            table = pa.table({"x": scores, "row": np.arange(len(scores))})
            length = len(scores) // PARTS
            for delta in DELTAS:
                one = replace(case, filter=name, delta=delta)
                monitor = sb.Monitor(self.query(stream, one, "pabf"))
                counts = [(0.0, 0.0)]
                for part in range(PARTS):
                    monitor.push(table.slice(part * length, length))
                    stats = monitor.stats()
                    tried = stats["filter_panes"] - stats["filter_unfiltered"]
                    counts.append((stats["filter_rescans"], tried))
                shares = [(b - a) / max(1, n - m) for (a, m), (b, n) in pairwise(counts)]
                found[name, delta] = Sample(tuple(shares))
        return found

    def falling(self) -> dict[tuple[int, float], dict[str, Run]]:
        """Falling scores, for which an exact algorithm must keep k rows per pane: by k, epsilon."""
        usual = replace(self.usual, slide=max(1, self.size // 100))
        ks = (self.k, 10 * self.k)
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
