"""EAA: keeps only the instances of objects that can still be part of an answer."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.arrays import Codes, Floats, Ints, Mask
from skyband.contract.checks import integer_option
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs
from skyband.data.flat_state import Form, Forms
from skyband.fused.base import REPORTS, FusedSynopsis
from skyband.fused.kernels.live_reports import retire
from skyband.fused.kernels.sweep import best_values, compact, dominated, instances
from skyband.fused.live_reports import NEVER, LiveReports, is_text
from skyband.fused.sketches import SelfJoin
from skyband.query.fused import FusedTopK
from skyband.window import CountWindow

_SLACK = 2048
"""The most reports that may accumulate beyond twice what the last sweep left: so many that the
fixed cost of a sweep is spread over them, and few enough to take less than 250 kB."""
_SHARE, _LEAST = 4, 64
"""Over a count window it is this part of the window, but at least so many: small windows need less
state than ``sla`` would."""


class Eaa(LiveReports, FusedSynopsis):
    """Early aggregation: keeps the instances that fewer than k distinct objects dominate.

    Time per report: O(d m) for its score and amortised O(k + d m) for the sweep, which runs
    whenever the number of kept reports has doubled. State O(retained); if the guard is on, also a
    hash and m panes per live report. Exact, except with ``recurrences="estimate"``, where the
    number of recurrences is only estimated (AMS).

    Section 3.2 of the paper. We depart from it in the maintenance: the paper counts dominators at
    every arrival by scanning its sorted lists; here one sweep from the newest pane to the oldest
    finds all instances that can never be answered again. Dominance follows the total order, so
    ties broken by ids count, and instances of one pane are compared with each other, since they
    expire together. If a stream has only reports before an instance, the instance's best score
    expects that stream's maximum again, because an object may report again once those reports
    expire; with ``returns=False`` it does not.

    >>> import pyarrow as pa, skyband as sb
    >>> reports = pa.table({"car": ["a", "b", "a"], "cam": ["n", "n", "s"], "v": [0.5, 0.7, 0.4]})
    >>> names = {"id": "car", "stream": "cam", "value": "v", "streams": ("n", "s")}
    >>> query = sb.FusedTopK(k=1, **names, window=sb.CountWindow(3), algorithm="eaa")
    >>> sb.rank(reports, query).select(["car", "score"]).to_pylist()
    [{'car': 'a', 'score': 0.9}]
    """

    saved_arrays: ClassVar[tuple[str, ...]] = ("swept", "first", "instances_swept", "reports_swept")
    saved_forms: ClassVar[Forms] = {"swept": Form(1, 0, 1 << 40)}

    def __init__(self, query: FusedTopK) -> None:
        super().__init__(query)
        window = query.window
        part = window.size // _SHARE if isinstance(window, CountWindow) else _SLACK
        self.slack = integer_option(query.options, "slack", min(_SLACK, max(_LEAST, part)), 0)
        self.swept = 0
        """Reports right after the last sweep."""
        self.instances_swept = 0
        """Instances that the last sweep left."""
        self.reports_swept = 0
        """Reports received up to the last sweep."""
        self.first = NEVER
        """The first pane of the last window."""
        self.self_join: SelfJoin | None = None
        if query.recurrences == "estimate":
            # No promise is possible: an object may report more often than it ever did before.
            self.exact = False
            self.self_join = SelfJoin(len(self.low), self.panes.per_window)
            self.sketches = {"self_join/": self.self_join}

    def start(self) -> None:
        super().start()
        self.work |= {"sweeps": 0, "comparisons": 0, "dropped": 0}

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        part = panes.parts[REPORTS]
        dropped = part["stream"] < 0
        if dropped.any():
            self._recall(panes, np.flatnonzero(dropped))
            panes = self._without(panes, dropped)
        return super().fold(panes, windows)

    # What is stored of a pane -------------------------------------------------------------------

    def needed_rows(self) -> dict[int, int] | None:
        """See ``PaneShrinking``."""
        pane, counts = np.unique(self.log.live()[3], return_counts=True)
        return dict(zip(pane.tolist(), counts.tolist(), strict=True))

    def shrunk(self, runs: Runs) -> Runs:
        """Without the reports that a sweep has dropped.

        Where they are still counted, by the guard or by sketches, their hash and their stream are
        left: the latter as its complement, which is negative. All else takes one value.
        """
        part = runs.parts[REPORTS]
        code, pane = self.log.live()[0], self.log.live()[3]
        stamp = np.repeat(runs.stamp, part.lengths)
        needed = np.zeros(len(part), np.bool_)
        for each in np.unique(runs.stamp):
            mine = stamp == each
            needed[mine] = np.isin(part["hash"][mine], self.index.hashes(code[pane == each]))
        if self.guard is None and not self.sketches:
            rows = np.flatnonzero(needed)
            offsets = np.append(0, np.cumsum(needed))[part.offsets]
            return runs.with_parts(**{REPORTS: part.rows(rows, offsets)})
        left = part["stream"] < 0
        fresh, columns = ~needed & ~left, dict(part.columns)
        columns["stream"] = np.where(fresh, ~part["stream"], part["stream"])
        columns["value"] = np.where(needed, part["value"], self._left_of(stamp))
        columns["tie"] = np.where(needed, part["tie"], part["tie"].min(initial=0))
        if is_text(self.id_type):  # the hash of a number is computed from it
            columns["id"] = pc.if_else(pa.array(needed), part["id"], pa.scalar("", self.id_type))
        return runs.with_parts(**{REPORTS: Part(part.offsets, columns)})

    def _left_of(self, pane: Ints) -> Floats:
        """The value that is stored for dropped reports of these panes."""
        return np.zeros(len(pane))

    def _recall(self, panes: Runs, rows: Ints) -> None:
        """Count reports that were dropped before the panes were stored."""
        part = panes.parts[REPORTS]
        pane = np.repeat(panes.stamp, part.lengths)[rows]
        hashes, stream = part["hash"][rows], ~part["stream"][rows]
        if self.guard is not None:
            self.guard.admit(hashes, stream, pane, self._oldest(pane))
        for sketch in self.sketches.values():
            sketch.add(hashes, stream, pane)

    # Sweeps -------------------------------------------------------------------------------------

    def _read(self, first: Ints, answers: Runs, answered: Ints) -> Runs:
        if len(first):
            self.first = max(self.first, int(first[-1]))
        return answers

    def _room(self) -> int:
        # Somewhat more than is free now: reports expire while others arrive.
        return max(2 * self.swept + self.slack - len(self.log), self.slack // 2, 1)

    def _drop(self) -> None:
        # Sweep at three quarters of the room, because a stretch ends before the room is full.
        if 4 * len(self.log) > 3 * (2 * self.swept + self.slack):
            self.sweep()

    def sweep(self) -> None:
        """Drop every report that can no longer be part of an answer."""
        who, owner, panes, offsets, values, seen = self._instances()
        current, best = self.score(values), self.score(self._best(who, values, seen))
        lost, work = dominated(who, offsets, current, best, self.key, self.query.k)
        self._leave(who, panes, offsets, values, seen, lost)
        log = self.log
        kept, dead, hit = compact(log.columns, log.begin, log.end, lost, owner, self.links, who)
        self.work["dropped"] += len(log) - kept
        self.work["sweeps"] += 1
        self.work["comparisons"] += work
        log.begin, log.end, self.swept = 0, kept, kept
        self.instances_swept = int(len(who) - lost.sum())
        self.reports_swept = self.work["reports_in"]
        retire(dead, self._best_of_all())
        self.index.release(dead)
        self.ever[dead] = 0
        self._rescore(hit)

    def _leave(
        self, who: Codes, panes: Ints, offsets: Ints, values: Floats, seen: Codes, lost: Mask
    ) -> None:
        """Hook: called with the instances before some of them are dropped."""

    def _instances(self) -> tuple[Codes, Codes, Ints, Ints, Floats, Codes]:
        log = self.log
        found = instances(log.columns, log.begin, log.end, self.mark, self.serial, self.low)
        self.serial += len(found[3])
        return found

    def _most(self, seen: Codes) -> int:
        """Reports that an object may have in a stream: given, or estimated from the live ones."""
        if self.self_join is None:
            assert isinstance(self.query.recurrences, int)
            return self.query.recurrences
        return max(self.self_join.recurrences(self.first), int(seen.max(initial=1)))

    def _best(self, who: Codes, values: Floats, seen: Codes) -> Floats:
        """The greatest values that instances can still reach."""
        return self._within(who, values, seen, np.empty(0))

    def _within(self, who: Codes, values: Floats, seen: Codes, share: Floats) -> Floats:
        # Reports before an instance expire before it, so where objects return as many may come
        # again; elsewhere an object never reports more often than ``_most`` says.
        reported = seen if self.query.returns else self.ever[who]
        return best_values(values, seen, reported, self._most(seen), self.low, self.high, share)

    def retained(self) -> int:
        """The instances that the last sweep left plus the reports since, or all live reports.

        The smaller of the two counts: right after a sweep it is the number of instances that are
        not dominated, as in the paper; until the next sweep it never exceeds what is kept.
        """
        since = self.work["reports_in"] - self.reports_swept
        return min(self.instances_swept + since, len(self.log))
