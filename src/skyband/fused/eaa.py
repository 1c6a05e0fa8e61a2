"""EAA: instances of objects, and only those that can still be answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.fused.live import STRETCH, LiveReports
from skyband.kernels.fused_sweep import compact, dominated, instances
from skyband.query.fused import FusedTopK

__all__ = ["Eaa"]

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


class Eaa(LiveReports):
    """Early aggregation: keeps the instances that fewer than k distinct objects dominate.

    Time O(d m) a report for its score and amortised O(k + d m) for the sweep, which runs when what is
    kept has doubled; state O(retained), plus a hash and m panes a live report where the guard is on.
    Exact.

    Section 3.2 of the paper. We depart in the maintenance: the paper counts dominators at every
    arrival and scans its sorted lists for it; here one sweep from the newest pane to the oldest finds
    all instances that are out for good. Dominance is by the total order, so ties decided by ids count,
    and instances of one pane compare among themselves, since they expire together. An instance's best
    score expects every stream's maximum again where reports have been made before it, because an object
    may report again once they expire; with ``returns=False`` it does not.

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

    option_names = (*LiveReports.option_names, "slack")

    def __init__(self, query: FusedTopK) -> None:
        super().__init__(query)
        self.slack = self._option("slack", STRETCH, 0)
        self.swept = 0
        """Reports right after the last sweep."""
        self.work |= {"sweeps": 0, "comparisons": 0, "dropped": 0}
        # What is not known is not bounded: with "estimate" only a sketch could tell.
        self.most = query.recurrences if isinstance(query.recurrences, int) else None

    def _room(self) -> int:
        return max(2 * self.swept + self.slack - (self.size - self.head), 1)

    def _drop(self) -> None:
        if self.size - self.head > 2 * self.swept + self.slack:
            self.sweep()

    def sweep(self) -> None:
        """Drop every report that can no longer be part of an answer."""
        who, owner, offsets, values, seen = self._instances()
        lost, work = self._lost(who, offsets, values, seen)
        kept, hit = compact(self.log, self.head, self.size, lost, owner, self.links, who)
        self.work["dropped"] += self.size - self.head - kept
        self.work["sweeps"] += 1
        self.work["comparisons"] += work
        self.head, self.size, self.swept = 0, kept, kept
        self._rescore(hit)
        self._release(hit)

    def _instances(self) -> tuple[Codes, Codes, Ints, Floats, Codes]:
        found = instances(self.log, self.head, self.size, self.mark, self.serial, self.low)
        self.serial += len(found[2])
        return found

    def _lost(
        self, who: Codes, offsets: Ints, values: Floats, seen: Codes
    ) -> tuple[npt.NDArray[np.bool_], int]:
        """Instances that k distinct objects dominate, and the comparisons made."""
        if self.most is None:
            return np.zeros(len(who), np.bool_), 0
        current, best = self.score(values), self.score(self._best(who, values, seen))
        return dominated(who, offsets, current, best, self.key, self.query.k)

    def _best(self, who: Codes, values: Floats, seen: Codes) -> Floats:
        """The greatest values that instances can still come to."""
        assert self.most is not None
        told = seen if self.query.returns else self.ever[who]
        more = np.maximum(self.most - told, 0)
        best = np.where(seen > 0, values, 0.0) + more * self.high
        return np.where((seen > 0) | (more > 0), best, self.low)

    def retained(self) -> int:
        """Instances that are not dominated, as a sweep would leave them now."""
        if self.head == self.size:
            return 0
        who, _, offsets, values, seen = self._instances()
        lost, _ = self._lost(who, offsets, values, seen)
        return int(len(who) - lost.sum())

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        return super().snapshot() | {"swept": np.array([self.swept])}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super().restore(arrays)
        self.swept = int(arrays["swept"][0])
