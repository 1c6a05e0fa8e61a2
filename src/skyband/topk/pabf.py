"""``pabf``: approximate top-k (Zhu et al. 2017): filters, merges by level, and answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from skyband.arrays import Array, Ints, Saved, State
from skyband.contract.rows import Rows, Windows
from skyband.contract.runs import Part, Runs, expand, offsets_of
from skyband.data.columns import native_dtype
from skyband.data.flat_state import Form, admitted, require
from skyband.data.packing import prefixed
from skyband.errors import QueryError
from skyband.kernels.borrow import frozen
from skyband.kernels.select import select_runs
from skyband.query.topk import TopK
from skyband.topk.kernels import pabf as kernel
from skyband.topk.kernels.pabf import LOWEST, Candidates, fold_candidates, new_candidates, room_for
from skyband.topk.pruner import BatchPruner
from skyband.topk.single import SingleGroup, kernel_runs

_NARROWER = 1 - 2.0**-10
"""Leaves room for rounding in score / step: at most 3 / 2^13 of a step, see ``pabf_merge``."""


def steps(epsilon: float, dtype: np.dtype[Any]) -> tuple[float, int]:
    """The step for float scores and that for integer scores, which is 0 if scores are floats.

    Integers in one level differ by less than ``ceil(epsilon)``, so by less than epsilon.

    >>> steps(2.5, np.dtype(np.int64))
    (2.49755859375, 3)
    """
    whole = 0 if dtype.kind == "f" else max(1, min(math.ceil(epsilon), 1 << 62))
    return epsilon * _NARROWER, whole


FILTERS = {
    "auto": kernel.AUTO,
    "stationary": kernel.STATIONARY,
    "time": kernel.TIME,
    "none-known": kernel.NONE_KNOWN,
    "off": None,
}
_SUREST = 1 - 1e-9
"""The greatest delta used: 1 would filter out nothing. A rescan makes up for the rare misses."""


def zeta(k: int, delta: float) -> int:
    """The z for which k rows of a pane pass the last pane's z-th best with probability delta.

    Both that score and the number of rows that pass it are random, hence the 2 in
    Phi((zeta - k) / sqrt(2 zeta)) = delta; the paper's Theorem 1 considers only one of them.

    >>> zeta(100, 0.99), zeta(100, 0.5)
    (139, 100)
    """
    margin = _quantile(delta) / math.sqrt(2)
    return math.ceil((margin + math.sqrt(margin * margin + k)) ** 2)


def _quantile(delta: float) -> float:
    return max(0.0, NormalDist().inv_cdf(min(delta, _SUREST)))


class Filter:
    """What a filter has learned about each group. These are hints: no answer depends on them."""

    def __init__(self, name: object, k: int, delta: float) -> None:
        if not isinstance(name, str) or name not in FILTERS:
            raise QueryError(f"option 'filter' must be one of {', '.join(FILTERS)}, not {name!r}")
        self.kind = FILTERS[name]
        self.k = k
        self.zeta = zeta(k, delta)
        self.quantile = _quantile(delta)
        self.learned = kernel.new_learned(1)
        self.counts = np.zeros(8, np.int64)

    def select(self, rows: Rows, score: Array, tie: Ints, largest: bool) -> tuple[Ints, Ints]:
        """The best k rows of every run, in the form that ``select_runs`` returns."""
        if self.kind is None:
            return select_runs(score, tie, rows.offsets, self.k, largest)
        groups = int(rows.group.max(initial=0)) + 1
        if groups > len(self.learned):
            more = kernel.new_learned(max(groups, 2 * len(self.learned)) - len(self.learned))
            self.learned = np.concatenate([self.learned, more])
        # The kernel computes with floats; it is compiled for one width of integers.
        narrow = score.dtype.kind in "iu" and score.dtype.itemsize < 8
        score = frozen(score.astype(np.int64) if narrow else score)
        found, offsets = kernel.filter_runs(
            score, 1.0 if largest else -1.0, rows.offsets, rows.pane, rows.group, self.k, self.kind,
            self.zeta, self.quantile, self.learned, self.counts,
        )  # fmt: skip
        return self._untied(found, offsets, score, tie, largest)

    def _untied(
        self, found: Ints, offsets: Ints, score: Array, tie: Ints, largest: bool
    ) -> tuple[Ints, Ints]:
        """If several rows of a run have the k-th best score, keep only the latest of them."""
        lengths = np.diff(offsets)
        long = np.flatnonzero(lengths > self.k)
        if not len(long):
            return found, offsets
        inside = found[expand(offsets[long], lengths[long])]
        ties = tie[inside] if len(tie) else tie
        kept, ends = select_runs(score[inside], ties, offsets_of(lengths[long]), self.k, largest)
        chosen = np.ones(len(found), np.bool_)
        chosen[expand(offsets[long], lengths[long])] = False
        chosen[np.searchsorted(found, inside[kept])] = True
        lengths[long] = np.diff(ends)
        return found[chosen], offsets_of(lengths)

    def tallies(self) -> dict[str, Ints]:
        """Operation counts by name, each a view of one number."""
        names = ("panes", "rescans", "relearned", "survivors", "unfiltered")
        found = {f"filter_{n}": self.counts[i : i + 1] for i, n in enumerate(names)}
        used = enumerate(("stationary", "time", "sample"), start=kernel.BY_STATIONARY)
        return found | {f"filter_by_{n}": self.counts[i : i + 1] for i, n in used}


class Pabf(SingleGroup):
    """Keeps rows in buckets, sorted by level of width epsilon, and a list of ready results.

    Cost: one comparison per row that the filter stops, O(log k) amortised per candidate, O(k) per
    answer. State: from each level, the rows that are followed by fewer than k newer rows of that
    level or a higher one; so at most k per level, whatever the order of scores. Guarantee: at every
    rank the returned score is at most the true one and less than epsilon below it, with certainty;
    delta only controls how often a pane may be scanned twice. Returned rows are live rows with
    their own scores. Zhu et al. 2017, with three changes (decision record 0006): levels are fixed,
    while the paper's drift; dominators are counted per row, not per node; and filters are checked,
    while the paper's may lose rows.

    Option ``filter``: "auto" (the default), "stationary", "time", "none-known" or "off". Option
    ``preselect`` (default False): in a batch of many panes, first drop the rows that no window can
    show, as the exact algorithm does. The guarantee still holds, but which of the rows within
    epsilon are returned then depends on how the input is cut into batches.

    >>> import pyarrow as pa, skyband as sb
    >>> window = sb.CountWindow(2, slide=1)
    >>> query = sb.TopK(k=1, score="x", window=window, algorithm="pabf", epsilon=2.0, delta=0.99)
    >>> sb.rank(pa.table({"x": [3.5, 1.5, 9.0, 2.0]}), query)["x"].to_pylist()
    [3.5, 3.5, 9.0, 9.0]
    """

    exact = False
    shortens = True
    parallel = False  # the filter learns from every batch

    def __init__(self, query: TopK) -> None:
        super().__init__(query)
        self.filter = Filter(query.options.get("filter", "auto"), query.k, query.delta)
        preselect = query.options.get("preselect", False)
        if not isinstance(preselect, bool):
            raise QueryError(f"option 'preselect' must be True or False, not {preselect!r}")
        self.pruner = BatchPruner(query) if preselect else None
        self.long_chunks = preselect and not query.groups
        self.state = new_candidates(query.k)
        self.room = room_for(query.k, query.window.panes.per_window)
        self.width, self.whole = 0.0, 0

    def start(self) -> None:
        super().start()
        dtype = native_dtype(self.schema.field(self.query.score).type)
        assert dtype is not None
        self.width, self.whole = steps(self.query.epsilon, dtype)

    @property
    def bounds(self) -> Mapping[str, Any]:
        return {"epsilon": self.query.epsilon, "delta": self.query.delta}

    # Rows -------------------------------------------------------------------------------------

    def _select(self, rows: Rows, score: Array, tie: Ints) -> tuple[Ints, Ints]:
        chosen = None if self.pruner is None else self.pruner.of(rows, score, tie)
        return chosen or self.filter.select(rows, score, tie, self.query.largest)

    def _settled(self, part: Part) -> Part:
        """Only cut runs that are too long: ties are sorted when they are answered."""
        if len(part) and part.lengths.max() > self.limit:
            return super()._settled(part)
        return part

    # Panes ------------------------------------------------------------------------------------

    def _run(self, panes: Runs, slots: Ints, windows: Windows) -> tuple[Ints, Ints]:
        cuts = self.query.window.panes
        # A read right after a pane (``peek`` too) reaches back by the window's size from the
        # pane's end.
        first = cuts.first_since(panes.stamp + 1, cuts.size)
        self.state, found, ends = fold_candidates(
            self.state, self.query.k, self.room, self.width, self.whole, kernel_runs(panes, slots),
            first, windows.first, windows.end,
        )  # fmt: skip
        return found.T, ends

    def _slots(self) -> Ints:
        slot = kernel.SLOT
        return np.unique(np.concatenate([self._rows[:, slot], self._results[:, slot]]))

    def _renumber(self, place: Ints) -> None:
        for rows in (self._rows, self._results):
            rows[:, kernel.SLOT] = place[rows[:, kernel.SLOT]]

    @property
    def _rows(self) -> Ints:
        return self.state.rows[: self.state.meta[kernel.USED]]

    @property
    def _results(self) -> Ints:
        return self.state.best[: self.state.meta[kernel.RESULTS]]

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        meta = self.state.meta
        ready = meta[kernel.RESULTS] >= self.query.k or meta[kernel.FLOOR] == LOWEST
        rows = self._results if ready and first <= meta[kernel.FIRST] else self._rows
        live = rows[rows[:, kernel.PANE] >= first]
        if len(live) < self.query.k and rows is not self._rows:
            rows = self._rows
            live = rows[rows[:, kernel.PANE] >= first]
        return self._read(live[:, : kernel.SLOT + 1])

    # Answers ----------------------------------------------------------------------------------

    def finish(self, partials: Sequence[Runs]) -> Runs:
        if len(partials) == 1 and not self.counting:
            partials = [self._by_id(partials[0])]
        return super().finish(partials)

    def _by_id(self, runs: Runs) -> Runs:
        """Sort rows with equal score and time by id, then by the hash of their kept columns."""
        part = runs.parts["rows"]
        settled = f"shown:{self.query.id}" not in part.columns and not self.query.keep
        if settled or len(part) < 2:
            return runs
        key, tie = part["key"], part["tie"]
        same = np.flatnonzero((key[1:] == key[:-1]) & (tie[1:] == tie[:-1]))
        mine = np.unique(np.searchsorted(part.offsets, same, side="right") - 1)
        return runs.with_parts(rows=part.resorted(mine, self._order))

    # State ------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        rows = self._rows.copy()
        rows[self.state.cut[0] :, kernel.LEVEL :] = 0  # set only when rows are merged into buckets
        own = self.state._replace(rows=rows, best=self._results)._asdict()
        own |= prefixed("tally/", self.filter.tallies())
        return super().snapshot() | {name: array.copy() for name, array in own.items()}

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        lengths = {"cut": kernel.BUCKETS + 1, "head": kernel.BUCKETS, "newest": kernel.BUCKETS}
        forms = {name: Form(length) for name, length in lengths.items()}
        forms["meta"] = Form(len(self.state.meta))
        own = admitted(arrays, self.state._asdict(), forms)
        cut, head, used = own["cut"], own["head"], own["meta"][kernel.USED]
        inside = 0 == cut[-1] <= cut[0] <= used <= len(own["rows"])
        within = (cut[1:] <= head) & (head <= cut[:-1])
        require(inside and within.all(), "rows outside of buckets")
        results = own["meta"][kernel.RESULTS] == len(own["best"]) <= 2 * self.query.k
        require(results, "results that are not there")
        best = np.empty((2 * self.query.k, 4), np.int64)
        best[: len(own["best"])] = own["best"]
        self.state = Candidates(**(own | {"best": best}))
        require(self.payload.has(self._slots()), "a row has no slot")
        self._check_sealed(self._rows[:, kernel.PANE])
        for name, count in self.filter.tallies().items():
            saved = arrays[f"tally/{name}"]
            require(saved.shape == count.shape and saved.dtype == count.dtype, name)
            count[:] = saved

    def stats(self) -> dict[str, int | float]:
        """``retained`` includes expired rows until they are skipped or dropped in a merge."""
        state, meta = self.state, self.state.meta
        own = sum(array.nbytes for array in state)
        fresh = int(meta[kernel.USED] - state.cut[0])
        return {
            "retained": int((state.cut[:-1] - state.head).sum()) + fresh,
            "state_bytes": own + self.payload.nbytes,
            "fresh": fresh,
            "buckets": len(set(state.cut.tolist())) - 1,
            "local_merges": int(meta[kernel.LOCAL_MERGES]),
            "global_merges": int(meta[kernel.GLOBAL_MERGES]),
            "rows_merged": int(meta[kernel.MERGED]),
            "results_inserted": int(meta[kernel.INSERTED]),
            "refills": int(meta[kernel.REFILLS]),
            "rows_refilled": int(meta[kernel.REFILLED]),
            **{name: int(count[0]) for name, count in self.filter.tallies().items()},
        }

    def _buckets(self) -> list[Ints]:
        """The rows of each bucket, newest bucket first, without those skipped as expired."""
        state = self.state
        return [state.rows[state.head[j] : state.cut[j]] for j in range(kernel.BUCKETS)]

    def _check(self) -> None:
        state, k = self.state, self.query.k
        assert (np.diff(state.cut) <= 0).all()
        assert state.cut[0] <= state.meta[kernel.USED] <= len(state.rows)
        newer = np.iinfo(np.int64).max
        for rows in [state.rows[state.cut[0] : state.meta[kernel.USED]], *self._buckets()]:
            if len(rows):
                assert rows[:, kernel.PANE].max() < newer
                newer = int(rows[:, kernel.PANE].min())
        for rows in self._buckets():
            columns = [~rows[:, c] for c in (kernel.KEY, kernel.PANE, kernel.LEVEL)]
            assert (np.lexsort(columns) == np.arange(len(rows))).all()
            assert (rows[:, kernel.DOMINATORS] < k).all()
            same = np.diff(rows[:, kernel.LEVEL]) == 0
            assert (np.diff(rows[:, kernel.DOMINATORS])[same] > 0).all()
        best, meta = self._results, state.meta
        order = np.lexsort((~best[:, kernel.TIE], ~best[:, kernel.KEY]))
        assert (best[:, :2] == best[order][:, :2]).all()
        assert len(best) <= 2 * k
        assert len(set(best[:, kernel.SLOT].tolist())) == len(best)
        if len(best):
            assert meta[kernel.OLDEST] <= best[:, kernel.PANE].min()
            assert best[:, kernel.KEY].min() >= meta[kernel.AT_FLOOR]
        known = set(best[:, kernel.SLOT].tolist())
        live = self._rows[self._rows[:, kernel.PANE] >= meta[kernel.FIRST]]
        aside = live[[slot not in known for slot in live[:, kernel.SLOT].tolist()]]
        if meta[kernel.FLOOR] == LOWEST:
            assert not len(aside)
        else:
            assert (aside[:, kernel.KEY] < meta[kernel.ABOVE_FLOOR]).all()
