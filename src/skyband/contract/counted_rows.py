"""Rows of groups that count their own arrivals, in common arrays.

The rows of each group lie together. A batch takes those of its groups out, and writes them behind
the last one, until half of the room is unused:

    before   ├ a ┼ b ┼── c ──┼ d ┤
    after    ├ a ┼···┼── c ──┼···┼─ b ─┼─ d ─┤      a batch with rows of b and d
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Ints, grown
from skyband.contract.counted_state import CountedState, Each, Turns, ends_of, turns_of
from skyband.contract.one_state import Reader
from skyband.contract.runs import PaneFeed, Runs, expand, offsets_of

__all__ = ["CountedRows", "Pushed"]

_SPARE = 4096
_NEVER = np.iinfo(np.int64).min


class Pushed(NamedTuple):
    """What a kernel needs of the groups that a batch has rows or windows of."""

    laid: Any  # the rows of each group, and room for its new ones
    starts: Ints
    sizes: Ints  # how many rows each group has; the kernel writes how many are left
    panes: Runs
    turns: Turns
    reading: Each
    ends: Ints  # see ``ends_of``
    expired: Ints  # panes before this one are dropped at the end


class CountedRows(CountedState):
    """A mixin for states with rows of each group in ``held``, one group after the other."""

    held: Any
    """Arrays with an entry per row, as a named tuple."""
    sizes: Ints
    """How many rows each group has."""

    def __init__(self, readers: Sequence[Reader], feed: PaneFeed, *family: Any) -> None:
        super().__init__(readers, feed, *family)
        self.starts: Ints = np.zeros(1, np.int64)
        self.used = 0

    def __len__(self) -> int:
        recent = 0 if self.recent is None else len(self.recent.parts["rows"])
        return int(self.sizes.sum()) + recent

    @abstractmethod
    def push_rows(self, pushed: Pushed, which: Ints, room: Any, settle: bool) -> None:
        """Let a kernel push panes, and read the windows at these places."""

    def reserve(self, groups: int) -> None:
        super().reserve(groups)
        many = self.upto.shape[1]
        self.sizes, self.starts = grown(self.sizes, many), grown(self.starts, many)

    def push(
        self, panes: Runs, asked: Each, which: Ints, room: Any, expired: Ints | None = None
    ) -> None:
        reading, kind = asked.take(which), type(self.held)
        groups = np.unique(np.concatenate([panes.group.astype(np.int64), reading.group]))
        sizes, fresh = self.sizes[groups], np.zeros(len(groups), np.int64)
        np.add.at(fresh, np.searchsorted(groups, panes.group), panes.parts["rows"].lengths)
        starts = offsets_of(sizes + fresh)
        laid = kind(*(np.empty((starts[-1], *old.shape[1:]), np.int64) for old in self.held))
        to, source = expand(starts[:-1], sizes), expand(self.starts[groups], sizes)
        for each, old in zip(laid, self.held, strict=True):
            each[to] = old[source]
        gone = np.full(len(groups), _NEVER) if expired is None else expired[groups]
        turns, ends = turns_of(panes, groups), ends_of(reading, groups)
        pushed = Pushed(laid, starts, sizes, panes, turns, reading, ends, gone)
        self.push_rows(pushed, which, room, expired is not None)
        if expired is not None:
            kept = expand(starts[:-1], sizes)
            self._put(groups, sizes, kind(*(each[kept] for each in laid)))

    def _put(self, groups: Ints, sizes: Ints, rows: Any) -> None:
        """Write the rows of these groups, one after the other, behind all others."""
        self.sizes[groups] = 0
        fresh, others = len(rows[0]), int(self.sizes.sum())
        # It costs little if there are few others.
        if others <= fresh or self.used + fresh > 2 * (others + fresh) + _SPARE:
            self._tidy()
        upto = self.used + fresh
        self.held = type(rows)(*(grown(each, upto) for each in self.held))
        for each, new in zip(self.held, rows, strict=True):
            each[self.used : upto] = new
        self.starts[groups] = self.used + offsets_of(sizes)[:-1]
        self.sizes[groups], self.used = sizes, upto

    def _tidy(self) -> None:
        """Let the rows of all groups lie in order, without room between them."""
        kept = expand(self.starts, self.sizes)
        self.held = type(self.held)(*(each[kept] for each in self.held))
        self.starts, self.used = offsets_of(self.sizes)[:-1].copy(), len(kept)

    # State ------------------------------------------------------------------------------------

    def rows(self) -> Runs:
        self._tidy()
        return super().rows()  # type: ignore[safe-super]

    def compact(self) -> None:
        if self.crowded:
            self._tidy()
            super().compact()  # type: ignore[safe-super]

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.starts.nbytes

    def _check(self) -> None:
        self._tidy()
        super()._check()  # type: ignore[safe-super]

    def check_recent(self, pane: Ints) -> None:
        if self.recent is not None:
            for group in np.unique(self.recent.group):
                stamp = self.recent.stamp[self.recent.group == group]
                assert (np.diff(stamp) > 0).all()
                low = self.starts[group]
                assert stamp[0] > pane[low : low + self.sizes[group]].max(initial=-1)
