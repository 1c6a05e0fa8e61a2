"""All live reports, or those that can still matter, scored again for every window.

So are repeated reports answered that do not add up: the mean, the greatest or the latest counts.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from skyband import registry
from skyband.arrays import Floats, Ints, Mask, Saved, State
from skyband.contract.checks import integer_option
from skyband.contract.pane_by_pane import LivePanes
from skyband.contract.runs import Part, Runs, pick
from skyband.data.flat_state import Form, Forms
from skyband.data.packing import prefixed, under
from skyband.fused.base import REPORTS, FusedSynopsis
from skyband.query.fused import FusedTopK

_SLACK = 256
"""Reports that may accumulate beyond twice what the last sweep left."""
_PARTS = 32
"""Moments at which a sweep looks up the k-th best score: a sweep costs that many partitions."""


class RepeatedReports(LivePanes, FusedSynopsis):
    """Keeps live reports, and scores every live object for each window.

    ``reports`` keeps them all. It is chosen for ``repeats="mean"``, where a new report can lower an
    object's score: the dominance of EAA, which relies on scores that only grow until something
    expires, would drop objects that can still win.

    ``eaa-repeats`` has EAA's dominance for reports that count by their greatest (``"max"``) or
    latest value. Under "max", a report r of object o in stream x, of pane t and with value v, is
    dropped if

    1. o has a report in x of pane t or a newer one with a value of at least v, or
    2. k other objects have reports of pane t or newer ones that alone give them a score above
       ``combine(v in x, the upper bound in every other stream)``.

    Neither changes an answer: r counts only in windows where it is the greatest report of o in x.
    In case 1 there are none. In case 2 the score of o is at most that bound in all of them, and
    the k objects are still there, because their reports live at least as long; more reports can
    only raise their scores. Under "latest" only the latest report of an object in a stream is
    kept: earlier ones expire earlier. Case 2 does not hold there, since a new report can lower the
    score of a dominator.

    Time O(r log r) per window of r reports that are kept; with ``eaa-repeats`` also amortised O(log
    r) per report for the sweeps, which run whenever the reports have doubled (``slack`` as in EAA).
    State O(r). Exact. Our own; section 3.2 of the paper has the idea for sums.

    >>> import pyarrow as pa, skyband as sb
    >>> reports = pa.table({"car": ["a", "b", "a"], "cam": ["n", "n", "n"], "v": [0.9, 0.7, 0.4]})
    >>> names = {"id": "car", "stream": "cam", "value": "v", "streams": ("n",)}
    >>> for repeats in ("mean", "max"):
    ...     query = sb.FusedTopK(k=2, **names, window=sb.CountWindow(3), repeats=repeats)
    ...     print(sb.rank(reports, query).select(["car", "score"]).to_pylist())
    [{'car': 'b', 'score': 0.7}, {'car': 'a', 'score': 0.65}]
    [{'car': 'a', 'score': 0.9}, {'car': 'b', 'score': 0.7}]
    """

    shortens = True
    saved_arrays = ("counts", "swept", "dropped")
    saved_forms: ClassVar[Forms] = {
        "counts": Form(2),
        "swept": Form(1, 0, 1 << 40),
        "dropped": Form(1, 0),
    }

    def __init__(self, query: FusedTopK) -> None:
        super().__init__(query)
        self.sweeps = registry.choose(query) == "eaa-repeats"
        self.slack = integer_option(query.options, "slack", _SLACK, 0)
        self.counts = np.zeros(2, np.int64)
        """Reports taken and objects scored so far."""
        self.swept = 0
        """Reports that the last sweep left."""
        self.dropped = 0

    @classmethod
    def remark(cls, query: Any) -> str:
        if registry.choose(query) == "reports":
            why = "a new report can lower a score, so nothing can be dropped before it expires"
            mean = f": under repeats='mean' {why}" if query.repeats == "mean" else ""
            return f"keeps every live report{mean}"
        if query.repeats == "latest":
            return (
                "keeps the latest report of each object and stream; objects are not dropped, "
                "because under repeats='latest' a new report can lower a score"
            )
        return ""

    # Panes ------------------------------------------------------------------------------------

    def push(self, panes: Runs) -> None:
        self.note_reports(panes)
        self.counts[0] += len(panes.part(REPORTS))
        super().push(panes)
        if self.sweeps and len(self.live.part(REPORTS)) > 2 * self.swept + self.slack:
            self.sweep()

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        part = self.between(first, end).part(REPORTS)
        if not len(part):
            columns = self.rows_of(pa.array([], self.id_type), np.zeros(0), self.low[None][:0])
            empty = Part(np.zeros(1, np.int64), columns)
            return Runs(np.zeros(0, np.int64), np.zeros(0, np.int32), {"rows": empty})
        _, named, owner = np.unique(part["hash"], return_index=True, return_inverse=True)
        values, seen = self._values(part, owner, len(named))
        scores = self.score(values)
        self.counts[1] += len(scores)
        best = np.argsort(-scores, kind="stable")
        if len(best) > self.query.k:  # ``finish`` sorts ties by id
            best = best[: np.count_nonzero(scores >= scores[best[self.query.k - 1]])]
        known = np.where(seen[best], values[best], np.nan)
        columns = self.rows_of(pick(part["id"], named[best]), scores[best], known)
        rows = Part(np.array([0, len(best)]), columns)
        return Runs(np.zeros(1, np.int64), np.zeros(1, np.int32), {"rows": rows})

    def _values(self, part: Part, owner: Ints, objects: int) -> tuple[Floats, Mask]:
        """One value per object and stream, made of all its reports there, and where it has any."""
        stream = part["stream"].astype(np.int64)
        order = np.lexsort((part["value"], part["tie"], stream, owner))
        value, pair = part["value"][order], (owner * len(self.low) + stream)[order]
        starts = np.flatnonzero(np.append(True, pair[1:] != pair[:-1]))
        ends = np.append(starts[1:], len(pair))
        repeats = self.query.repeats
        if repeats == "latest":  # of reports at the same time, the greater one
            found = value[ends - 1]
        elif repeats == "max":
            found = np.maximum.reduceat(value, starts)
        else:
            found = np.add.reduceat(value, starts)
            found = found / (ends - starts) if repeats == "mean" else found
        values, seen = np.tile(self.low, (objects, 1)), np.zeros((objects, len(self.low)), np.bool_)
        values.ravel()[pair[starts]] = found
        seen.ravel()[pair[starts]] = True
        return values, seen

    # Sweeps -----------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Drop every report on which no answer can depend any more."""
        part = self.live.part(REPORTS)
        pane = np.repeat(self.live.stamp, part.lengths)
        lost = self._beaten_by_own(part, pane)
        if self.query.repeats == "max":
            kept = np.flatnonzero(~lost)
            lost[kept[self._beaten_by_others(part, pane, kept)]] = True
        self.live = self._without(self.live, lost)
        self.dropped += int(lost.sum())
        self.swept = len(self.live.part(REPORTS))

    def _beaten_by_own(self, part: Part, pane: Ints) -> Mask:
        """Reports that a report of the same object and stream makes useless."""
        lost = np.ones(len(part), np.bool_)
        _, owner = np.unique(part["hash"], return_inverse=True)
        pair = owner * len(self.low) + part["stream"]
        if self.query.repeats == "latest":
            order = np.lexsort((part["value"], part["tie"], pair))
            lost[order[np.append(pair[order][1:] != pair[order][:-1], True)]] = False
            return lost
        # Newest pane first, within it the greatest first: a report is kept if it exceeds all
        # before it. Ranks instead of values, so that one running maximum serves all pairs.
        order = np.lexsort((-part["value"], -pane, pair))
        _, rank = np.unique(part["value"][order], return_inverse=True)
        _, number = np.unique(pair[order], return_inverse=True)
        level = number * (len(rank) + 1) + rank
        highest = np.maximum.accumulate(level)
        lost[order[np.append(True, level[1:] > highest[:-1])]] = False
        return lost

    def _beaten_by_others(self, part: Part, pane: Ints, rows: Ints) -> Mask:
        """Which of these reports, ordered by pane, k other objects make useless."""
        stream, value = part["stream"][rows], part["value"][rows]
        bound = np.tile(self.high, (len(rows), 1))
        bound[np.arange(len(rows)), stream] = value
        best = self.score(bound)
        _, owner = np.unique(part["hash"][rows], return_inverse=True)
        objects = int(owner.max(initial=-1)) + 1
        values = np.tile(self.low, (objects, 1))
        scores = np.full(objects, -np.inf)
        lost = np.zeros(len(rows), np.bool_)
        floor = -np.inf
        for low, high in _parts(pane[rows]):
            # What is newer than this part is in ``scores``. If the part is one pane, add it first.
            alone = pane[rows[low]] == pane[rows[high - 1]]
            if alone:
                floor = self._floor(values, scores, owner, stream, value, slice(low, high))
            lost[low:high] = best[low:high] < floor
            if not alone:
                floor = self._floor(values, scores, owner, stream, value, slice(low, high))
        return lost

    def _floor(
        self, values: Floats, scores: Floats, owner: Ints, stream: Ints, value: Floats, at: slice
    ) -> float:
        """Add reports to the objects' values and scores; returns the k-th best score."""
        np.maximum.at(values, (owner[at], stream[at]), value[at])
        changed = np.unique(owner[at])
        scores[changed] = self.score(values[changed])
        k = self.query.k
        return float(np.partition(scores, -k)[-k]) if len(scores) >= k else -np.inf

    # State ------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        state = super().snapshot()
        return state if self.guard is None else state | prefixed("guard/", self.guard.state())

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        if self.guard is not None:
            self.guard.restore(under(arrays, "guard/"))

    def stats(self) -> dict[str, int | float]:
        taken, scored = self.counts.tolist()
        return {
            "retained": len(self.live.part(REPORTS)),
            "state_bytes": self.live.nbytes + (0 if self.guard is None else self.guard.nbytes),
            "reports_in": taken,
            "objects_scored": scored,
            "dropped": self.dropped,
        }

    def _check(self) -> None:
        assert (np.diff(self.live.stamp) >= 0).all()
        if self.guard is not None:
            self.guard._check()


def _parts(pane: Ints) -> list[tuple[int, int]]:
    """Cut ascending panes into at most ``_PARTS`` stretches of whole panes, the newest first."""
    starts = np.flatnonzero(np.append(True, pane[1:] != pane[:-1])) if len(pane) else pane[:0]
    if len(starts) > _PARTS:
        wanted = np.searchsorted(starts, np.linspace(0, len(pane), _PARTS, endpoint=False))
        starts = np.unique(starts[np.minimum(wanted, len(starts) - 1)])
    ends = np.append(starts[1:], len(pane))
    return list(zip(starts.tolist(), ends.tolist(), strict=True))[::-1]
