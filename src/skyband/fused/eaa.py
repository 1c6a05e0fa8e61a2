"""EAA: instances of objects, and only those that can still be answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from skyband.contract.runs import Part
from skyband.data.packing import under
from skyband.fused.live import NEVER, STRETCH, LiveReports
from skyband.fused.sketches import SelfJoin
from skyband.kernels.fused.reports import retire
from skyband.kernels.fused.sweep import best_values, compact, dominated, instances
from skyband.query.fused import FusedTopK

__all__ = ["Eaa"]

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


class Eaa(LiveReports):
    """Early aggregation: keeps the instances that fewer than k distinct objects dominate.

    Time O(d m) a report for its score and amortised O(k + d m) for the sweep, which runs when what
    is kept has doubled; state O(retained), and where the guard is on a hash and m panes a live
    report. Exact, but with ``recurrences="estimate"``, where the number of recurrences is an
    estimate (AMS).

    Section 3.2 of the paper. We depart in the maintenance: the paper counts dominators at every
    arrival and scans its sorted lists for it; here one sweep from the newest pane to the oldest
    finds all instances that are out for good. Dominance is by the total order, so ties decided by
    ids count, and instances of one pane compare among themselves, since they expire together. An
    instance's best score expects a stream's maximum again where only reports before it are known,
    because an object may report again once they expire; with ``returns=False`` it does not.

    >>> import pyarrow as pa, skyband as sb
    >>> reports = pa.table({"car": ["a", "b", "a"], "cam": ["n", "n", "s"], "v": [0.5, 0.7, 0.4]})
    >>> query = sb.FusedTopK(
    ...     k=1,
    ...     id="car",
    ...     stream="cam",
    ...     value="v",
    ...     streams=("n", "s"),
    ...     window=sb.CountWindow(3),
    ...     algorithm="eaa",
    ... )
    >>> sb.rank(reports, query).select(["car", "score"]).to_pylist()
    [{'car': 'a', 'score': 0.9}]
    """

    usual_slack: ClassVar[int] = STRETCH // 2
    """Reports that may gather beyond twice what the last sweep left."""

    def __init__(self, query: FusedTopK) -> None:
        super().__init__(query)
        self.slack = self._option("slack", self.usual_slack, 0)
        self.swept = 0
        """Reports right after the last sweep."""
        self.instances_swept = 0
        """Instances that the last sweep left."""
        self.reports_swept = 0
        """Reports that had come by then."""
        self.first = NEVER
        """The first pane of the last window."""
        self.work |= {"sweeps": 0, "comparisons": 0, "dropped": 0}
        self.self_join: SelfJoin | None = None
        if query.recurrences == "estimate":
            # What nobody knows cannot be promised: an object may report more often than ever
            # before.
            self.exact = False
            self.self_join = SelfJoin(len(self.low), self.panes.per_window)

    def _observe(self, part: Part, pane: Ints, row: int, upto: int) -> None:
        if self.self_join is not None:
            rows = slice(row, upto)
            self.self_join.add(part["hash"][rows], part["stream"][rows], pane[rows])

    def _read(self, first: Ints) -> None:
        if len(first):
            self.first = max(self.first, int(first[-1]))

    def _room(self) -> int:
        # Some more than there is: reports expire while others come.
        return max(2 * self.swept + self.slack - (self.size - self.head), self.slack // 2, 1)

    def _drop(self) -> None:
        # At three quarters of the room, because a stretch ends before it is full.
        if 4 * (self.size - self.head) > 3 * (2 * self.swept + self.slack):
            self.sweep()

    def sweep(self) -> None:
        """Drop every report that can no longer be part of an answer."""
        who, owner, panes, offsets, values, seen = self._instances()
        lost, work = self._lost(who, offsets, values, seen)
        self._leave(who, panes, offsets, values, seen, lost)
        kept, dead, hit = compact(self.log, self.head, self.size, lost, owner, self.links, who)
        self.work["dropped"] += self.size - self.head - kept
        self.work["sweeps"] += 1
        self.work["comparisons"] += work
        self.head, self.size, self.swept = 0, kept, kept
        self.instances_swept = int(len(who) - lost.sum())
        self.reports_swept = self.work["reports_in"]
        retire(dead, self.points, self.view, self.place, self.counters)
        self.index.release(dead)
        self.ever[dead] = 0
        self._rescore(hit)

    def _leave(
        self, who: Codes, panes: Ints, offsets: Ints, values: Floats, seen: Codes, lost: Mask
    ) -> None:
        """Told of the instances before some of them are dropped."""

    def _instances(self) -> tuple[Codes, Codes, Ints, Ints, Floats, Codes]:
        found = instances(self.log, self.head, self.size, self.mark, self.serial, self.low)
        self.serial += len(found[3])
        return found

    def _lost(self, who: Codes, offsets: Ints, values: Floats, seen: Codes) -> tuple[Mask, int]:
        """Instances that k distinct objects dominate, and the comparisons made."""
        current, best = self.score(values), self.score(self._best(who, values, seen))
        return dominated(who, offsets, current, best, self.key, self.query.k)

    def _most(self, seen: Codes) -> int:
        """Reports of an object that a stream may hold: given, or estimated from what is there."""
        if self.self_join is None:
            assert isinstance(self.query.recurrences, int)
            return self.query.recurrences
        return max(self.self_join.recurrences(self.first), int(seen.max(initial=1)))

    def _best(self, who: Codes, values: Floats, seen: Codes) -> Floats:
        """The greatest values that instances can still come to."""
        return best_values(
            who, values, seen, self.ever, self.query.returns, self._most(seen), self.low, self.high
        )

    def retained(self) -> int:
        """The instances that the last sweep left and the reports since then, or all live reports.

        The lesser of the two: right after a sweep these are the instances that are not dominated,
        as the paper counts them; until the next one they are at most what is kept.
        """
        since = self.work["reports_in"] - self.reports_swept
        return min(self.instances_swept + since, self.size - self.head)

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        swept = [self.swept, self.first, self.instances_swept, self.reports_swept]
        arrays = super().snapshot() | {"swept": np.array(swept)}
        if self.self_join is not None:
            arrays |= {f"self_join/{name}": a for name, a in self.self_join.state().items()}
        return arrays

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super().restore(arrays)
        self.swept, self.first, *counts = arrays["swept"].tolist()
        # 0.1 did not count: then it is all reports that are live.
        live = [self.size, self.work["reports_in"]]
        self.instances_swept, self.reports_swept = counts or live
        if self.self_join is not None:
            self.self_join.restore(under(arrays, "self_join/"))
