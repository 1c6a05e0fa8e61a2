"""Repeated reports that count by their greatest or their latest: what can be dropped of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.arrays import Floats, Ints, Mask, Saved, State
from skyband.contract.checks import integer_option
from skyband.contract.runs import Part, Runs
from skyband.data.flat_state import Form, admitted
from skyband.fused.base import REPORTS
from skyband.fused.reports import AllReports

__all__ = ["EaaRepeats"]

_SLACK = 256
"""Reports that may accumulate beyond twice what the last sweep left."""
_PARTS = 32
"""Moments at which a sweep looks up the k-th best score: a sweep costs that many partitions."""


class EaaRepeats(AllReports):
    """EAA's dominance for reports that count by their greatest (``"max"``) or latest value.

    Under "max", a report r of object o in stream x, of pane t and with value v, is dropped if

    1. o has a report in x of pane t or a newer one with a value of at least v, or
    2. k other objects have reports of pane t or newer ones that alone give them a score above
       ``combine(v in x, the upper bound in every other stream)``.

    Neither changes an answer: r counts only in windows where it is the greatest report of o in x.
    In case 1 there are none. In case 2 the score of o is at most that bound in all of them, and
    the k objects are still there, because their reports live at least as long; more reports can
    only raise their scores. Under "latest" only the latest report of an object in a stream is
    kept: earlier ones expire earlier. Case 2 does not hold there, since a new report can lower the
    score of a dominator, nor does anything under "mean", for which ``reports`` keeps everything.

    Time: that of ``reports`` over what is left, and amortised O(log r) per report for the sweeps,
    which run whenever the reports have doubled (``slack`` as in EAA). State O(retained). Exact.
    Our own; section 3.2 of the paper has the idea for sums.

    >>> import pyarrow as pa, skyband as sb
    >>> reports = pa.table({"car": ["a", "b", "a"], "cam": ["n", "n", "n"], "v": [0.9, 0.7, 0.4]})
    >>> names = {"id": "car", "stream": "cam", "value": "v", "streams": ("n",)}
    >>> query = sb.FusedTopK(k=2, **names, window=sb.CountWindow(3), repeats="max")
    >>> sb.rank(reports, query).select(["car", "score"]).to_pylist()
    [{'car': 'a', 'score': 0.9}, {'car': 'b', 'score': 0.7}]
    """

    def start(self) -> None:
        super().start()
        self.slack = integer_option(self.query.options, "slack", _SLACK, 0)
        self.swept = 0
        """Reports that the last sweep left."""
        self.dropped = 0

    @classmethod
    def remark(cls, query: Any) -> str:
        if query.repeats == "latest":
            return (
                "keeps the latest report of each object and stream; objects are not dropped, "
                "because under repeats='latest' a new report can lower a score"
            )
        return ""

    def push(self, panes: Runs) -> None:
        super().push(panes)
        assert self.live is not None
        if len(self.live.parts[REPORTS]) > 2 * self.swept + self.slack:
            self.sweep()

    def sweep(self) -> None:
        """Drop every report on which no answer can depend any more."""
        if self.live is None:
            return
        part = self.live.parts[REPORTS]
        pane = np.repeat(self.live.stamp, part.lengths)
        lost = self._beaten_by_own(part, pane)
        if self.query.repeats == "max":
            kept = np.flatnonzero(~lost)
            lost[kept[self._beaten_by_others(part, pane, kept)]] = True
        self.live = self._without(self.live, lost)
        self.dropped += int(lost.sum())
        self.swept = len(self.live.parts[REPORTS])

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
        return super().snapshot() | {"swept": np.array([self.swept, self.dropped])}

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        # A state of ``reports`` can be taken over: it has not been swept yet.
        none = np.zeros(2, np.int64)
        saved = admitted({"swept": none, **arrays}, {"swept": none}, {"swept": Form(2, 0)})
        self.swept, self.dropped = saved["swept"].tolist()

    def stats(self) -> dict[str, int | float]:
        return super().stats() | {"dropped": self.dropped}


def _parts(pane: Ints) -> list[tuple[int, int]]:
    """Cut ascending panes into at most ``_PARTS`` stretches of whole panes, the newest first."""
    starts = np.flatnonzero(np.append(True, pane[1:] != pane[:-1])) if len(pane) else pane[:0]
    if len(starts) > _PARTS:
        wanted = np.searchsorted(starts, np.linspace(0, len(pane), _PARTS, endpoint=False))
        starts = np.unique(starts[np.minimum(wanted, len(starts) - 1)])
    ends = np.append(starts[1:], len(pane))
    return list(zip(starts.tolist(), ends.tolist(), strict=True))[::-1]
