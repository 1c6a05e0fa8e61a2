"""SLA: all live reports, one sorted list per stream, the threshold algorithm for refills."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from skyband.arrays import Codes, Floats, Ints, Mask, grown
from skyband.data.flat_state import Form, Forms
from skyband.fused.base import FusedSynopsis
from skyband.fused.kernels.live_reports import LIMIT, REFILLS, VIEW
from skyband.fused.kernels.sla import first_of_lists, move_in_lists
from skyband.fused.live_reports import LiveReports, ObjectChanges


class Sla(LiveReports, FusedSynopsis):
    """Sorted lists: keeps every live report and finds the best objects with Fagin's threshold.

    Time O(live objects of a stream) per report, to move its entry in a sorted array, and O(k_max)
    per window; the threshold algorithm runs when fewer than k of the k_max materialised results
    are left. State O(reports in the window). Exact, whatever the number of recurrences.

    Section 3.1 of the paper. We depart from it in two points. A list has one entry per object,
    with the sum of its reports; the paper (section 5) leaves the older sums in the list and reads
    the largest. And the lists are read to depths that double each time, using the scores that the
    view keeps anyway instead of random accesses.

    >>> import pyarrow as pa, skyband as sb
    >>> reports = pa.table({"car": ["a", "b", "a"], "cam": ["n", "n", "s"], "v": [0.5, 0.7, 0.4]})
    >>> names = {"id": "car", "stream": "cam", "value": "v", "streams": ("n", "s")}
    >>> query = sb.FusedTopK(k=2, **names, window=sb.CountWindow(3), algorithm="sla", combine="max")
    >>> sb.rank(reports, query).select(["car", "score"]).to_pylist()
    [{'car': 'b', 'score': 0.7}, {'car': 'a', 'score': 0.5}]
    """

    scans = False
    saved_arrays = ("list_work",)
    saved_forms: ClassVar[Forms] = {"list_work": Form(2)}

    def start(self) -> None:
        super().start()
        self.work |= {"ta_runs": 0, "sorted_accesses": 0}
        d = len(self.low)
        self._pending: tuple[Codes, Floats, Ints] | None = None
        self.known = np.zeros((0, d))
        self.list_values = np.zeros((d, 0))
        self.list_codes = np.zeros((d, 0), np.int32)
        self.list_sizes = np.zeros(d, np.int64)
        self.list_work = np.zeros(2, np.int64)
        """How many entries were inserted into the lists, and how many were removed."""

    def _reserve(self, objects: int, reports: int) -> None:
        super()._reserve(objects, reports)
        more = (0, 0), (0, len(self.key) - len(self.known))
        if more[1][1]:
            self.known = grown(self.known, len(self.key), np.nan)
            self.list_values = np.pad(self.list_values, more)
            self.list_codes = np.pad(self.list_codes, more)

    def _settle(self, changed: ObjectChanges, reads: Mask) -> tuple[Codes, Floats, Ints]:
        self._pending = changed.codes, changed.known, changed.offsets
        found = super()._settle(changed, reads)
        self._move(len(reads))
        self._pending = None
        return found

    def _move(self, step: int) -> None:
        """Bring the lists to their state after ``step`` steps."""
        assert self._pending is not None
        touched, rows, offsets = self._pending
        upto = int(offsets[step])
        move_in_lists(
            touched[:upto], rows[:upto], self.known, self.list_values, self.list_codes,
            self.list_sizes, self.list_work,
        )  # fmt: skip
        left = np.maximum(offsets - upto, 0)
        self._pending = touched[upto:], rows[upto:], left

    def _refill(self, step: int) -> None:
        """The threshold algorithm: read the lists until k_max objects beat everything unread."""
        self._move(step + 1)
        depth = self.aim
        while True:
            self.serial += 1
            codes, accesses = first_of_lists(
                depth, self.list_codes, self.list_sizes, self.mark, self.serial
            )
            inside = self.list_sizes > depth
            last = np.where(inside, self.list_values[:, min(depth, len(self.key)) - 1], self.low)
            points = self.points[codes]
            enough = len(codes) >= self.aim
            floor = np.partition(points, -self.aim)[-self.aim] if enough else -np.inf
            if not inside.any() or (enough and floor > self.score(last[None, :])[0]):
                break
            depth *= 2
        self.work["ta_runs"] += 1
        self.work["sorted_accesses"] += accesses
        self.place[self.view[: self.counters[VIEW]]] = -1
        kept = codes[points >= floor]
        self.view[: len(kept)] = kept
        self.place[kept] = np.arange(len(kept))
        self.floor[0] = floor
        self.counters[VIEW] = len(kept)
        self.counters[LIMIT] = 2 * max(len(kept), self.aim)
        self.counters[REFILLS] += 1

    def retained(self) -> int:
        """Reports in the window."""
        return len(self.log)

    def stats(self) -> dict[str, int | float]:
        lists = self.known.nbytes + self.list_values.nbytes + self.list_codes.nbytes
        found = super().stats()
        inserts, removals = self.list_work.tolist()
        counts = {"list_inserts": inserts, "list_removals": removals}
        return {**found, **counts, "state_bytes": found["state_bytes"] + lists}

    def _check(self) -> None:
        super()._check()
        codes = self.index.codes()
        for s, size in enumerate(self.list_sizes.tolist()):
            values, owners = self.list_values[s, :size], self.list_codes[s, :size]
            entries = list(zip(-values, owners, strict=True))
            assert entries == sorted(entries)
            assert sorted(owners) == codes[~np.isnan(self.known[codes, s])].tolist()
            assert np.array_equal(self.known[owners, s], values)
