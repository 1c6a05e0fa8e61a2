"""``landmark``: counts of all rows so far, exact or with a bounded number of items."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Hashes, Ints, Mask
from skyband.contract.accumulated import PARTS, Accumulated
from skyband.contract.rows import Rows
from skyband.contract.runs import Part, Runs, expand, offsets_of, pick
from skyband.data.keys import hash_kept
from skyband.frequency.base import FrequencySynopsis
from skyband.frequency.kernels.counting import count_runs
from skyband.frequency.weights import too_heavy
from skyband.kernels.borrow import frozen
from skyband.query.frequency import HeavyHitters

_PART_SHIFT = np.uint64(58)
"""Bits of a hash that the number of its part, one of 64, leaves out."""
_OPEN = 4
"""The summary of an open pane may hold this many times the capacity, for better counts."""


class RunningCounts(Accumulated, FrequencySynopsis):
    """The count of every item since the landmark, or of ``capacity`` items.

    With ``capacity`` m, the m items with the greatest counts are kept. ``floor``, the greatest
    count ever dropped, is the most that a dropped item can weigh: an item that comes back starts
    with the floor as its count and as its error. So the true count is within ``[count - error,
    count]``, and errors are at most the total weight divided by m + 1. Cost: O(1) per row, and one
    pass over the kept items of a group per pane with rows. State: one entry per distinct item, or m
    per group. Exact without ``capacity``. Space-Saving of Metwally et al. 2005, merged pane by pane
    as in Agarwal et al. 2012 (Mergeable summaries, section 3).

    >>> import pyarrow as pa, skyband as sb
    >>> words = pa.table({"t": [0, 1, 2, 11], "word": ["to", "be", "or", "be"]})
    >>> query = sb.HeavyHitters(k=1, item="word", time="t", window=sb.LandmarkWindow(slide=10))
    >>> sb.rank(words, query).select(["window_end", "word", "count"]).to_pylist()[1]
    {'window_end': 20, 'word': 'be', 'count': 2}
    """

    timed = False
    """Whether an item's latest row comes first when items are counted."""

    def __init__(self, query: HeavyHitters) -> None:
        super().__init__(query)
        self.exact = query.capacity is None
        self.timed = self.timed or bool(query.keep)
        self._dirty = np.zeros(0, np.int64)
        """Parts and groups that have changed since they were last stored, packed."""

    # Summaries --------------------------------------------------------------------------------

    def summarise(self, rows: Rows) -> Runs:
        weights, total = self.weighed(rows)
        hashes, order = self.hashed(rows), np.arange(len(rows))
        if self.timed:
            kept = [rows.arrow(name) for name in self.query.keep]
            order = _latest_first(rows.tie, rows.offsets, kept)
            hashes, weights = hashes[order], weights[order] if len(weights) else weights
        first, counts, offsets = count_runs(frozen(hashes), False, frozen(weights), rows.offsets)
        columns: dict[str, Any] = {"hash": hashes[first]}
        first = order[first]
        columns |= {f"item:{name}": rows.take(name, first) for name in self.items}
        columns |= {"count": counts, "error": np.zeros(len(counts), self.dtype)}
        columns |= self.more_of(rows, first)
        runs = rows.runs({"items": Part(offsets, columns)}, total)
        runs = runs.with_scalars(base=rows.pane, floor=np.zeros(len(runs), self.dtype))
        return self._bounded(runs, _OPEN)

    def more_of(self, rows: Rows, first: Ints) -> dict[str, Any]:
        """Further columns of items, from their latest rows."""
        if not self.query.keep:
            return {}
        columns: dict[str, Any] = {"seen": rows.tie[first]}
        return columns | {f"keep:{name}": rows.take(name, first) for name in self.query.keep}

    def combine(self, runs: Runs) -> Runs:
        self._check_panes(runs)
        return self._bounded(self._merged(runs), _OPEN)

    def scaled(self, runs: Runs, starts: Ints) -> tuple[Ints, Array | None]:
        """The base of each united run, and what to multiply the counts of each run by."""
        return runs.scalars["base"][starts], None

    def _merged(self, runs: Runs) -> Runs:
        """One summary for each repeated run: counts add up; an absent item may weigh the floor."""
        starts = np.flatnonzero(~runs.repeats)
        base, scale = self.scaled(runs, starts)
        part, floor = runs.parts["items"], runs.scalars["floor"]
        count, error = part["count"], part["error"]
        if floor.any():
            count = count - np.repeat(floor, part.lengths)
            error = error - np.repeat(floor, part.lengths)
        if scale is not None:
            floor = floor * scale
            count = count * np.repeat(scale, part.lengths)
            error = error * np.repeat(scale, part.lengths)
        united, floor = runs.united(), np.add.reduceat(floor, starts) if len(starts) else floor
        whole = united.parts["items"]
        hashes, order = part["hash"], None
        if self.timed and (order := _resorted(part, runs.repeats, whole.offsets)) is not None:
            hashes, count, error = hashes[order], count[order], error[order]
        cut = frozen(hashes), False
        first, counts, offsets = count_runs(*cut, frozen(count), whole.offsets)
        errors = np.zeros(len(counts), self.dtype)
        if error.any():
            errors = count_runs(*cut, frozen(error), whole.offsets)[1]
        first = first if order is None else order[first]
        columns = {
            n: pick(c, first) for n, c in part.columns.items() if n not in ("count", "error")
        }
        lowest = np.repeat(floor, np.diff(offsets))
        counts, errors = counts + lowest, errors + lowest
        if counts.min(initial=0) < 0:  # parts of a stored state do not know their total
            items = [part[name] for name in self.item_type.columns]
            raise too_heavy(self.query, [(items, part["count"])])
        columns |= {"count": counts, "error": errors}
        return united.with_parts(items=Part(offsets, columns)).with_scalars(base=base, floor=floor)

    def _bounded(self, runs: Runs, times: int = 1) -> Runs:
        """Keep the items with the greatest counts; the greatest count dropped is the floor."""
        capacity = self.query.capacity
        part = runs.parts["items"]
        if capacity is None or not len(part) or part.lengths.max() <= times * capacity:
            return runs
        run = np.repeat(np.arange(len(runs)), part.lengths)
        order = np.lexsort((part["hash"], -part["count"], run))
        kept = np.minimum(part.lengths, times * capacity)
        over = np.flatnonzero(part.lengths > kept)
        floor = runs.scalars["floor"].copy()
        dropped = part["count"][order[part.offsets[over] + kept[over]]]
        floor[over] = np.maximum(floor[over], dropped)
        rows = np.sort(order[expand(part.offsets[:-1], kept)])
        found = part.rows(rows, offsets_of(kept))
        return runs.with_parts(items=found).with_scalars(floor=floor)

    # The fold ---------------------------------------------------------------------------------

    def push(self, panes: Runs) -> None:
        if self.kept is None:
            self.kept = panes.slice(0, 0)
        cuts = np.flatnonzero(np.diff(panes.stamp)) + 1
        edges = [0, *cuts.tolist(), len(panes)]
        for low, high in pairwise(edges):
            if high > low:
                self._take_pane(panes.slice(low, high))

    def _take_pane(self, pane: Runs) -> None:
        """Merge one pane, which has one run for each of its groups, into the state."""
        assert self.kept is not None
        fresh = pane.stamped(np.zeros(len(pane), np.int64))
        mine = np.isin(self.kept.group, fresh.group)
        known = self.before(self.kept.take(mine), int(pane.stamp[0]))
        fresh = self.returned(fresh, known)
        merged = self._bounded(self._merged(Runs.concat([fresh, known]).ordered()))
        self.kept = Runs.concat([self.kept.take(~mine), merged]).ordered()
        self.touch(pane)

    # Stored parts -----------------------------------------------------------------------------

    def touch(self, panes: Runs) -> None:
        super().touch(panes)
        if self.storing and self.query.capacity is None:
            part = panes.parts["items"]
            changed = _part_of(part["hash"]), np.repeat(panes.group, part.lengths)
            self._dirty = np.unique(np.append(self._dirty, (changed[0] << 32) + changed[1]))

    def changed(self, stable: Hashes) -> list[tuple[int, Runs]]:
        """With ``capacity``, a group is in one part; otherwise, an item of a group is."""
        dirty, self._dirty = self._dirty, self._dirty[:0]
        if self.kept is None or self.query.capacity is not None:
            return super().changed(stable)
        moved = (stable % np.uint64(PARTS)).astype(np.int64)
        found = list(range(PARTS))
        if self.storing:
            found = np.unique(((dirty >> 32) + moved[dirty & 0xFFFFFFFF]) % PARTS).tolist()
        self.storing, self._touched = True, self._touched[:0]
        parts, homes = self.kept.parts, {}
        for name, part in parts.items():
            group = np.repeat(self.kept.group, part.lengths)
            homes[name] = (self.home(name, part) + moved[group]) % PARTS
        kept = self.stored(self.kept)
        pieces = []
        for each in found:
            some = kept.with_parts(**{n: only(p, homes[n] == each) for n, p in parts.items()})
            pieces.append((each, not_empty(some)))
        return pieces

    def home(self, name: str, part: Part) -> Ints:
        """The part of the state that each row of one of its columns belongs to, in group 0."""
        return _part_of(part["hash"])

    def resume(self, parts: Runs) -> None:
        super().resume(parts)
        self._dirty = self._dirty[:0]

    def joined(self, parts: Runs) -> Runs:
        return self._merged(parts) if parts.repeats.any() else parts

    def before(self, kept: Runs, pane: int) -> Runs:
        """The state of some groups just before a pane."""
        return kept

    def returned(self, fresh: Runs, known: Runs) -> Runs:
        """A pane's items, with what is known of those that are no longer in the state."""
        return fresh

    # Answers ----------------------------------------------------------------------------------

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        if self.kept is None:
            return Runs(np.zeros(0, np.int64), np.zeros(0, np.int32), {})
        kept = self.kept if group is None else self.kept.take(self.kept.group == group)
        kept = self.read(kept, end)
        part = kept.parts["items"]
        exact = np.ones(len(kept), np.bool_)
        wrong = np.repeat(np.arange(len(kept)), part.lengths)[part["error"] > 0]
        exact[wrong] = False
        exact &= kept.scalars["floor"] == 0
        more = (f"keep:{name}" for name in self.query.keep)
        names = ("count", "error", *self.item_type.columns, *more)
        part = self._likely(Part(part.offsets, {n: part[n] for n in names}))
        part = self.item_type.settled(part, self.reads)
        scalars: dict[str, Array] = {"exact": exact}
        if self.bounded:
            scalars["bound:mu"] = kept.scalars["floor"]
        return Runs(kept.stamp, kept.group, {"items": part}, scalars)

    def _likely(self, part: Part) -> Part:
        """The items of each run that can be among its best: those with the greatest counts."""
        k, lengths = self.reads, part.lengths
        if not len(part) or lengths.max() <= k:
            return part
        run = np.repeat(np.arange(len(lengths)), lengths)
        if len(lengths) == 1:
            least = np.partition(part["count"], -k)[-k:][:1]
        else:
            ranked = part["count"][np.lexsort((-part["count"], run))]
            at = part.offsets[:-1] + np.minimum(lengths, k) - 1
            least = np.where(lengths > 0, ranked[np.clip(at, 0, None)], 0)
        rows = np.flatnonzero(part["count"] >= least[run])
        return part.rows(rows, offsets_of(np.bincount(run[rows], minlength=len(lengths))))

    def _check(self) -> None:
        super()._check()
        if self.kept is None:
            return
        part = self.kept.parts["items"]
        assert (part["error"] <= part["count"]).all()
        assert self.query.capacity is None or (part.lengths <= self.query.capacity).all()
        for low, high in zip(part.offsets[:-1], part.offsets[1:], strict=True):
            assert len(np.unique(part["hash"][low:high])) == high - low


def _part_of(hashes: Any) -> Ints:
    return np.asarray(hashes >> _PART_SHIFT).astype(np.int64)


def not_empty(runs: Runs) -> Runs:
    """The runs that have rows in some part."""
    held = np.sum([part.lengths for part in runs.parts.values()], axis=0)
    return runs if held.all() else runs.take(held > 0)


def only(part: Part, rows: Any) -> Part:
    """Only some rows of each run."""
    places = np.flatnonzero(rows)
    return part.rows(places, np.searchsorted(places, part.offsets))


def _latest_first(times: Ints, offsets: Ints, kept: Sequence[pa.Array] = ()) -> Ints:
    """Positions of rows in the order of runs and, within a run, from the latest row back.

    Of rows of the same time, the one whose ``kept`` columns have the smaller hash is first.
    """
    lengths = np.diff(offsets)
    if len(kept):
        return np.lexsort((hash_kept(kept), ~times, np.repeat(np.arange(len(lengths)), lengths)))
    ascending: Mask = times[1:] >= times[:-1]
    ascending[offsets[1:-1] - 1] = True
    if ascending.all():
        return np.asarray(
            np.repeat(offsets[:-1] + offsets[1:] - 1, lengths) - np.arange(len(times))
        )
    return np.lexsort((~times, np.repeat(np.arange(len(lengths)), lengths)))


def _resorted(part: Part, repeats: Mask, offsets: Ints) -> Ints | None:
    """An order in which an item's latest row is first in each united run; None if it is already.

    An item occurs once in a run, so this holds if each run is later than the next one.
    """
    seen, some = part["seen"], part.lengths > 0
    kept = [column for name, column in part.columns.items() if name.startswith("keep:")]
    if kept and repeats.any() and len(seen):
        return _latest_first(seen, offsets, kept)
    if not repeats.any() or not len(seen):
        return None
    starts = part.offsets[:-1][some]
    least, most = np.minimum.reduceat(seen, starts), np.maximum.reduceat(seen, starts)
    if not (repeats[some][1:] & (most[1:] > least[:-1])).any():
        return None
    return np.lexsort((~seen, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))))
