"""One set of pane counts for several queries of a board with groups: a state of ``exact``.

The lists of sealed panes and the items are kept once, for as long as any query needs them. Panes
come from a feed, cut wherever a window of any query begins or ends, and are numbered by the time at
which they begin. What a query keeps for itself is only up to which of them it has come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from skyband.arrays import Ints, State, grown
from skyband.contract.one_state import Reader
from skyband.contract.rounds import Rounds
from skyband.contract.rows import Windows
from skyband.contract.runs import PaneFeed, Part, Runs, offsets_of, run_starts
from skyband.frequency.counted_groups import NEVER, CountedGroups
from skyband.frequency.grouped import GroupedCounts, GroupSums
from skyband.frequency.items import ItemColumns
from skyband.frequency.window_counts import SharedCounts
from skyband.kernels.frequency import shared_groups as kernel
from skyband.panes import Panes

__all__ = ["GroupView", "share_groups"]

_NONE = np.zeros(0, np.int64)
_NO_WINDOWS = Windows(_NONE, _NONE, _NONE, _NONE)
_MOST_ROOM = 1 << 24
"""Windows are counted together as long as their answers have no more items than this."""
# What steps cost beside each other, roughly in nanoseconds.
_NUMBER, _ADD, _SELECT = 12, 3, 2  # per entry, per entry of a window, per item of a window
_MOVE, _SCAN = 16, 6  # per entry that comes and goes, per item of a window

Combine = Callable[[Runs], Runs]


def share_groups(
    counts: Sequence[GroupedCounts],
    panes: Sequence[Panes],
    feed: PaneFeed,
    sealed: Sequence[int],
    combine: Combine,
) -> list[GroupView]:
    """Views of one set of lists, one for each of these states, which come from the feed again."""
    lists = SharedGroups(counts[0].item_type, feed)
    first = counts[0]
    lists.inserts, lists.removals, lists.updates = first.inserts, first.removals, first.updates
    each = zip(counts, panes, sealed, strict=True)
    views = [GroupView(lists, state, own, upto, combine) for state, own, upto in each]
    lists.pull(max(sealed))
    return views


class SharedGroups(CountedGroups):
    """The lists of the panes that any query needs.

    Cost: O(1) per entry when its pane arrives and when it expires, however many queries there are.
    Windows that end together are counted from the lists of the longest of them, in one pass for all
    queries. State: 12 bytes per entry of a live list, and each item once.
    """

    def __init__(self, item_type: ItemColumns, feed: PaneFeed) -> None:
        super().__init__(item_type)
        self.feed = feed
        self.views: list[GroupView] = []
        self.rounds: Rounds[GroupView] = Rounds()
        self.moving = False
        """Whether each query keeps the sums of its window, which move with it."""
        self._read_upto = 0
        """How many entries had come when windows were last read."""
        self._unused = np.zeros(0, np.int32)
        self._pairs: dict[GroupView, int] = {}
        """How many items each query retains, if it was asked since something changed."""

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.feed.nbytes

    # Panes ------------------------------------------------------------------------------------

    def changed(self) -> None:
        """A query has come further, so it retains other items."""
        self._pairs = {}

    def pull(self, time: int) -> None:
        """Take the panes that begin before ``time``."""
        panes = None if time == NEVER else self.feed.upto(time)
        if panes is not None and len(panes):
            self.fold(panes, _NO_WINDOWS)

    def expire(self) -> None:
        """Drop the panes that no query needs any more."""
        gone = int(np.searchsorted(self.pane, min(view.needed for view in self.views)))
        if gone:
            self._drop(gone)
            for view in self.views:
                if view.sums is not None:
                    view.sums.dropped(gone)

    # Windows ----------------------------------------------------------------------------------

    def answers_of(self, due: dict[GroupView, Windows]) -> dict[GroupView, Runs]:
        """The answers of windows of several queries, which are counted or kept as sums."""
        for each, own in due.items():
            each.reader.reach(None, own)
        self.pull(max(each.reader.upto for each in due))
        asked, number, time = self._asked(due)
        counting, moving = self._costs(due, asked, time)
        if self.moving != (counting * (2 if self.moving else 0.5) > moving):
            self.moving = not self.moving
            for view in self.views:
                view.sums = None
        self._read_upto = self.updates
        ranks = next(iter(due.values())).ranks
        if self.moving:
            return {view: self._moved(view, windows, ranks) for view, windows in due.items()}
        return self._count(list(due), asked, number, time, ranks)

    def _costs(
        self, due: dict[GroupView, Windows], asked: kernel.Asked, time: Ints
    ) -> tuple[int, int]:
        """What it costs to count windows from the lists, and to keep the sums of each query."""
        longest = _moments(time)[1:] - 1
        added = (self.offsets[self.cuts[each[longest]]].sum() for each in (asked.end, asked.first))
        pairs = sum(len(windows) * view.pairs for view, windows in due.items())
        counting = _NUMBER * len(self.entries) + _ADD * int(next(added) - next(added))
        moving = _MOVE * len(due) * (self.updates - self._read_upto)
        return counting + _SELECT * pairs, moving + _SCAN * pairs

    def _moved(self, view: GroupView, windows: Windows, ranks: Ints) -> Runs:
        """The answers of a query's windows from sums that move with them."""
        start = view.reader.panes.pane_start
        asked = Windows(windows.number, start(windows.first), start(windows.end), ranks)
        if view.sums is None:
            view.sums = GroupSums(int(np.searchsorted(self.pane, asked.first[0])))
        self._unused = grown(self._unused, self.index.bound)
        code, total, group, end, many = view.sums.run(self, self._unused, asked, view.k)
        view.pairs = len(view.sums)
        best = self._best(end, code, total)
        return self._answers(np.repeat(windows.number, many), group, best, view.k)

    def _count(
        self, views: Sequence[GroupView], asked: kernel.Asked, number: Ints, time: Ints, ranks: Ints
    ) -> dict[GroupView, Runs]:
        """The answers of windows of several queries, counted from the lists."""
        room = self.room_of(asked)
        lists = self.by_group(ranks)
        found: dict[GroupView, list[Runs]] = {view: [] for view in views}
        for low, high in _pieces(time, room):
            part = slice(low, high)
            moments = _moments(time[part])
            some = kernel.Asked(moments, *(each[part] for each in asked[1:]))
            answered = self.answered(lists, some, number[part], room[part])
            for place, (runs, pairs) in answered.items():
                found[views[place]].append(runs)
                views[place].pairs = pairs
        return {view: Runs.concat(pieces) for view, pieces in found.items()}

    def _asked(self, due: dict[GroupView, Windows]) -> tuple[kernel.Asked, Ints, Ints]:
        """Windows of several queries, their numbers and ends; edges are places of panes."""
        pieces = []
        for place, (view, own) in enumerate(due.items()):
            edges = (view.reader.panes.pane_start(each) for each in (own.first, own.end))
            pieces.append((np.full(len(own), place), *edges, np.full(len(own), view.k), own.number))
        reader, first, time, k, number = map(np.concatenate, zip(*pieces, strict=True))
        order = np.lexsort((-first, time))
        first, end = np.searchsorted(self.pane, [first[order], time[order]])
        return kernel.Asked(_NONE, reader[order], first, end, k[order]), number[order], time[order]

    def pairs(self, view: GroupView) -> int:
        """How many different items all groups have in the panes that a query may still read."""
        if not self._pairs:
            edges = np.array([(each.needed, each.reader.upto) for each in self.views])
            first, end = np.searchsorted(self.pane, edges.T)
            order, ones = np.lexsort((-first, end)), np.ones(len(self.views), np.int64)
            first, end = first[order], end[order]
            asked = kernel.Asked(_moments(end), 0 * ones, first, end, ones)
            found, _, _ = self.counted(self.by_group(_NONE), asked, self.room_of(asked))
            self._pairs = {self.views[i]: int(n) for i, n in zip(order, found.pairs, strict=True)}
        return self._pairs[view]


class GroupView(SharedCounts):
    """What one query reads from shared lists: the best k items of each group in its own windows."""

    def __init__(
        self, lists: SharedGroups, counts: GroupedCounts, panes: Panes, upto: int, combine: Combine
    ) -> None:
        super().__init__(counts.item_type, counts.k)
        self.lists, self.combine = lists, combine
        self.reader = Reader(panes, counts.k, upto)
        self.needed = self.reader.needed
        """Panes that begin before this are in no window that the query may still read."""
        self.sums: GroupSums | None = None
        """The sums of its last window, if that costs less than counting each window."""
        self.pairs = 0
        """How many (group, item) pairs its last window had."""
        lists.views.append(self)

    def __len__(self) -> int:
        return self.lists.pairs(self)

    @property
    def nbytes(self) -> int:
        own = 0 if self.sums is None else self.sums.nbytes
        return own + self.lists.nbytes // len(self.lists.views)

    def expect(self, round_: object, windows: Windows) -> None:
        """These windows will be asked for in this round."""
        self.lists.rounds.expect(round_, self, windows)

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        self.lists.changed()
        self.reader.reach(panes, windows)
        self.lists.pull(self.reader.upto)
        if not len(windows):
            return None
        answers = self.lists.rounds.read(self, windows, self.lists.answers_of)
        self.needed = int(self.reader.panes.pane_start(windows.first[-1]))
        self.lists.expire()
        return answers

    def partial(self, first: int, end: int, group: int | None) -> Runs:
        return self.lists.partial(*self._times(first, end), group, self.k)

    def totals(self, first: int, end: int, group: int) -> Part:
        return self.lists.totals(*self._times(first, end), group)

    def _times(self, first: int, end: int) -> tuple[int, int]:
        panes = self.reader.panes
        return int(panes.pane_start(first)), int(panes.pane_start(end))

    # State ------------------------------------------------------------------------------------

    def stats(self) -> dict[str, int | float]:
        lists = self.lists
        self.inserts, self.removals, self.updates = lists.inserts, lists.removals, lists.updates
        return super().stats()

    def alone(self) -> GroupedCounts:
        counts = GroupedCounts(self.item_type, self.k)
        if self.reader.upto != NEVER:
            runs = self.lists.panes(self.needed, self.reader.upto)
            runs = runs.stamped(np.asarray(self.reader.panes.pane_of(runs.stamp))).ordered()
            counts.fold(self.combine(runs) if runs.repeats.any() else runs, _NO_WINDOWS)
        lists = self.lists
        counts.inserts, counts.removals, counts.updates = (
            lists.inserts, lists.removals, lists.updates,
        )  # fmt: skip
        return counts

    def state(self) -> State:
        """That of a ``GroupedCounts`` with the panes that this query needs."""
        return self.alone().state()

    def _check(self) -> None:
        self.lists._check()
        if self.sums is not None:
            self.sums._check(self.lists)


def _moments(end: Ints) -> Ints:
    """Where the windows of each end begin."""
    return np.append(run_starts(end), len(end))


def _pieces(end: Ints, room: Ints) -> list[tuple[int, int]]:
    """Windows cut into pieces of limited room; those that end together stay together."""
    starts = _moments(end).tolist()
    used, found, low = offsets_of(room), [], 0
    for at, after in zip(starts[1:], [*starts[2:], len(end)], strict=True):
        if at == len(end) or used[after] - used[low] > _MOST_ROOM:
            found.append((low, at))
            low = at
    return found
