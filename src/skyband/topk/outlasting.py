"""The state of decayed top-k: the best k rows, and a reserve of rows that may outlast them.

The order of two rows never changes, but rows are gone after 1,000 half-lives, older ones first:

    rows       a 100    b 10                                        a is better, b is younger
    ends   ────┬────────┬───── ... ─────┬────────┬──────
               a        a               a        b                  the best row at each end

So a row can be dropped only if k others are better and are gone no earlier: what is left is the
k-skyband in (decayed score, time). Usually the best k never come near their end, so they are kept
apart from the others, which go to the reserve unread. It is reduced to the skyband only when it has
doubled, and read only when one of the best is gone.
"""

from __future__ import annotations

from abc import abstractmethod
from itertools import pairwise

import numpy as np

from skyband.arrays import Codes, Ints, Mask, Saved, State
from skyband.contract.accumulated import Accumulated
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.data.decay import Decay
from skyband.data.time_axis import native_ticks
from skyband.kernels.core.borrow import frozen
from skyband.kernels.core.sorting import sort_runs
from skyband.kernels.topk.outlasting import outlasting
from skyband.query.topk import TopK
from skyband.topk.base import TopKSynopsis

__all__ = ["Outlasting", "cut", "within_runs"]

_NO_OWNERS = np.zeros(0, np.int64)
_SLACK = 256
"""Rows that the reserve may have beyond twice what was left of it, and beyond the best rows."""
_PIECES = 256
"""Pieces that the reserve may be in."""


class Reserve:
    """Rows that are not among the best k of their group, in pieces as they came."""

    def __init__(self) -> None:
        self.pieces: list[Runs] = []
        self.rows = 0
        self.nbytes = 0
        self.settled = 0
        """Rows that were left when it was last reduced to the skyband."""

    def add(self, group: Codes, part: Part) -> None:
        """Add rows of these groups, each of which has one run of the part."""
        runs = Runs(np.zeros(len(group), np.int64), group, {"rows": part})
        if (part.lengths == 0).any():
            runs = runs.take(part.lengths > 0)
        if len(runs):
            self.pieces.append(runs)
            self.rows += len(part)
            self.nbytes += runs.nbytes

    def replace(self, runs: Runs) -> None:
        """Hold these rows in place of all others."""
        self.pieces, self.rows, self.nbytes = [], 0, 0
        self.add(runs.group, runs.part("rows"))

    def whole(self) -> Runs:
        """All rows, with one run per group."""
        if len(self.pieces) > 1:
            self.replace(Runs.concat(self.pieces).ordered().united())
        return self.pieces[0] if self.pieces else _no_runs()

    def without(self, groups: Codes) -> Runs:
        """Take out the rows of some groups, and return them."""
        found, others = _divided(self.whole(), groups)
        if len(found):
            self.replace(others)
        return found


class Outlasting(Accumulated, TopKSynopsis):
    """A mixin: ``kept`` are the best rows of each group, best first, and none of them is gone.

    Every other row that may be shown at a later end is in the reserve. If it holds rows of a group
    that are not gone, then ``kept`` has k rows (or ids) of the group.
    """

    outlasts = True
    """Whether a row that is behind others can be shown once they are gone."""

    def __init__(self, query: TopK) -> None:
        super().__init__(query)
        self.reserve = Reserve()

    @property
    @abstractmethod
    def decay(self) -> Decay:
        """The window's decay."""

    @abstractmethod
    def _ranked(self, part: Part) -> tuple[Ints, Mask]:
        """The rows of each run, best first, and which of them are shown if there are no others."""

    @abstractmethod
    def _keys(self, part: Part) -> Ints:
        """Integers in the order of rows, greater is better, within each run."""

    def _owners(self, part: Part) -> Ints:
        """Codes of the ids of rows, if each id is shown once."""
        return _NO_OWNERS

    # Panes ------------------------------------------------------------------------------------

    def _take(self, panes: Runs) -> None:
        edges = [0, *(np.flatnonzero(np.diff(panes.stamp)) + 1).tolist(), len(panes)]
        for low, high in pairwise(edges):
            self._take_pane(panes.slice(low, high))

    def _take_pane(self, pane: Runs) -> None:
        if self.kept is None:
            self.kept = _plain(pane.slice(0, 0))
        if not len(pane):
            return
        number = int(pane.stamp[0])
        self._expire(number + 1)  # what is compared must be within 1,000 half-lives
        self._merge(_plain(pane), number)
        self.touch(pane)
        many = 2 * self.reserve.settled + len(self.kept.parts["rows"]) + _SLACK
        if self.reserve.rows > max(many, 0):
            self._reduce(number + 1)
        elif len(self.reserve.pieces) > _PIECES:
            self.reserve.whole()

    def _merge(self, fresh: Runs, pane: int | None = None) -> None:
        """Merge rows of some groups, those of one pane or others, with the best of these groups."""
        assert self.kept is not None
        known, others = _divided(self.kept, fresh.group)
        merged = Runs.concat([known, fresh]).ordered().united()
        part = merged.parts["rows"]
        order, shown = self._ranked(part)
        best = merged.with_parts(rows=cut(part, order, shown))
        self.kept = Runs.concat([others, best]).ordered() if len(others) else best
        if self.outlasts and not shown.all():
            rest = ~shown
            if pane is not None:
                rest &= ~self._passed(part["tie"][order], part.offsets, pane)
            if rest.any():
                self.reserve.add(merged.group, cut(part, order, rest))

    def _passed(self, tie: Ints, offsets: Ints, pane: int) -> Mask:
        """Which rows have k rows of the newest pane before them, which are gone no earlier."""
        k, panes = self.query.k, self.decay.panes
        ticks = native_ticks(tie, self.decay.kind)
        if not self.decay.splits:
            fresh = ticks >= panes.pane_start(pane)
            return np.asarray(within_runs(fresh, offsets) - fresh >= k)
        fresh = ticks >= panes.pane_end(pane) - panes.memory % panes.slide
        found: Mask = within_runs(fresh, offsets) - fresh >= k
        early = (ticks >= panes.pane_start(pane)) & ~fresh
        found |= ~fresh & (within_runs(early, offsets) - early >= k)
        return found

    # Rows that are gone -----------------------------------------------------------------------

    def _expire(self, end: int) -> None:
        """Replace rows that are gone before pane ``end`` by those of the reserve that are not."""
        kept = self.kept
        assert kept is not None
        alive = self._alive_in(kept, end)
        if alive.all():
            return
        lost = np.unique(np.repeat(kept.group, kept.parts["rows"].lengths)[~alive])
        self.kept = _only(kept, alive)
        if self.reserve.rows:
            again = self.reserve.without(lost)
            again = _only(again, self._alive_in(again, end))
            if len(again):
                self._merge(again)

    def _alive_in(self, runs: Runs, end: int) -> Mask:
        part = runs.part("rows")
        if not len(part):
            return np.zeros(0, np.bool_)
        return self.decay.alive(part["tie"], self.decay.panes.pane_start(end))

    def _reduce(self, end: int) -> None:
        """Reduce the reserve to the rows of the skyband that are not gone before pane ``end``."""
        held, part = self._both(end)
        keys, tie, offsets = frozen(self._keys(part)), frozen(part["tie"]), frozen(part.offsets)
        order, _ = sort_runs(keys, tie, offsets)
        last, owners = frozen(self.decay.last_seen(tie)), frozen(self._owners(part))
        found, _ = outlasting(frozen(order), keys, tie, last, owners, offsets, self.query.k)
        number = part["number"][found]
        needed = np.zeros(len(held.part("rows")), np.bool_)
        needed[number[number >= 0]] = True
        self.reserve.replace(_only(held, needed))
        self.reserve.settled = self.reserve.rows

    def _both(self, end: int) -> tuple[Runs, Part]:
        """The rows of the reserve that are not gone, and those together with the best rows.

        Of the latter, ``number`` is the position in the reserve, or -1.
        """
        assert self.kept is not None
        held = self.reserve.whole()
        held = _only(held, self._alive_in(held, end))
        kept = self.kept.take(np.isin(self.kept.group, held.group))
        both = Runs.concat([_numbered(kept, held=False), _numbered(held, held=True)])
        return held, both.ordered().united().parts["rows"]

    # Answers ----------------------------------------------------------------------------------

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        if self.kept is not None:
            self._expire(end)  # ends never go back
        return super().partial(first, end, group)

    # State ------------------------------------------------------------------------------------

    def forget(self, groups: Codes) -> None:
        super().forget(groups)
        if self.reserve.rows:
            self.reserve.without(groups)

    def snapshot(self) -> State:
        state = super().snapshot()
        if self.reserve.rows:
            state["reserve"] = np.frombuffer(self.reserve.whole().pack(), np.uint8)
        return state

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        self.kept = None if self.kept is None else _plain(self.kept)
        if "reserve" in arrays:
            self._hold(Runs.unpack(arrays["reserve"].tobytes())[0])

    def _hold(self, held: Runs) -> None:
        self.reserve = Reserve()
        self.reserve.replace(held)
        self.reserve.settled = self.reserve.rows

    def stored(self, kept: Runs) -> Runs:
        """These groups with their rows of the reserve, stamped with the newest pane of each."""
        held = self.reserve.whole()
        at = np.searchsorted(held.group, kept.group)
        there = np.isin(kept.group, held.group)
        lengths = np.zeros(len(kept), np.int64)
        some = held.take(at[there]).part("rows")
        lengths[there] = some.lengths
        reserve = Part(offsets_of(lengths), some.columns)
        return super().stored(kept.with_parts(reserve=reserve))

    def joined(self, parts: Runs) -> Runs:
        reserve = parts.part("reserve")
        held = Runs(parts.stamp, parts.group, {"rows": reserve})
        self._hold(held.take(reserve.lengths > 0))
        return _plain(parts)

    def stats(self) -> dict[str, int | float]:
        own = super().stats()
        own["retained"] += self.reserve.rows
        own["state_bytes"] += self.reserve.nbytes
        return own

    def _check(self) -> None:
        """Assert that no row of the reserve is among the best."""
        super()._check()
        assert len(self.reserve.whole().part("rows")) == self.reserve.rows
        if self.kept is None or not self.reserve.rows:
            return
        assert self.outlasts
        ties = [runs.part("rows")["tie"] for runs in (self.kept, self.reserve.whole())]
        ticks = native_ticks(np.concatenate(ties), self.decay.kind)
        end = int(self.decay.panes.pane_of(ticks.max())) + 1
        _, part = self._both(end)
        order, shown = self._ranked(part)
        assert (part["number"][order[shown]] == -1).all()


def cut(part: Part, order: Ints, chosen: Mask) -> Part:
    """Some rows of each run, in this order."""
    ends = np.append(0, np.cumsum(chosen))[part.offsets]
    return part.rows(order[chosen], ends)


def within_runs(mask: Mask, offsets: Ints) -> Ints:
    """How many rows of a run are in the mask, up to and including each row."""
    counts: Ints = np.cumsum(mask)
    if len(offsets) == 2:
        return counts
    before = np.append(0, counts)[offsets[:-1]]
    return np.asarray(counts - np.repeat(before, np.diff(offsets)))


def _only(runs: Runs, rows: Mask) -> Runs:
    """Only these rows, and the groups that have some."""
    if rows.all():
        return runs
    part = runs.part("rows")
    found = runs.with_parts(rows=cut(part, np.arange(len(part)), rows))
    return found.take(found.parts["rows"].lengths > 0)


def _divided(runs: Runs, groups: Codes) -> tuple[Runs, Runs]:
    """The runs of these groups, and the others."""
    if np.array_equal(runs.group, groups):
        return runs, runs.slice(0, 0)
    mine = np.isin(runs.group, groups)
    return runs.take(mine), runs.take(~mine)


def _plain(runs: Runs) -> Runs:
    """The rows of groups, whatever their panes."""
    return Runs(np.zeros(len(runs), np.int64), runs.group, {"rows": runs.part("rows")})


def _numbered(runs: Runs, held: bool) -> Runs:
    """What rows are compared by, and their positions if they are held in the reserve."""
    part = runs.part("rows")
    number = np.arange(len(part)) if held else np.full(len(part), -1)
    return runs.with_parts(rows=Part(part.offsets, {**part.columns, "number": number}))


def _no_runs() -> Runs:
    return Runs(np.zeros(0, np.int64), np.zeros(0, np.int32), {})
