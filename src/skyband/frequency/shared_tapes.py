"""One set of pane counts for queries over count windows with groups: a state of ``exact``.

Each group counts its own arrivals, so its panes are sealed when it has filled them, whatever other
groups do. Panes come from a feed, cut wherever a window of any query begins or ends, and are
numbered by the arrival with which they begin. The lists of a group lie one after the other, in the
order of its panes; a window of a group is a stretch of them:

    lists            ├ a 0 ┼ a 3 ┼ a 6 ┼ b 0 ┼ b 3 ┼ b 6 ┼ b 9 ┤
    windows                ├───────────┤           ├───────────┤
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from skyband.arrays import Array, Codes, Ints, State, grown
from skyband.contract.rounds import Rounds
from skyband.contract.rows import Windows
from skyband.contract.runs import PaneFeed, Part, Runs, expand, offsets_of
from skyband.data.keys import hash_columns
from skyband.frequency.counted_groups import comparison
from skyband.frequency.items import ItemColumns
from skyband.frequency.pane_sums import OwnWindows
from skyband.frequency.window_counts import CodedCounts, SharedCounts
from skyband.kernels.frequency import shared_tapes as kernel
from skyband.kernels.frequency.pane_sums import dead_codes
from skyband.panes import Panes

__all__ = ["TapeView", "share_tapes"]

_STAMP_BITS = 40
"""Bits for the arrival in a sort key of (group, arrival)."""
_LAST = (1 << _STAMP_BITS) - 1
_NONE = np.zeros(0, np.int64)
_NO_WINDOWS = Windows(_NONE, _NONE, _NONE, _NONE)
Combine = Callable[[Runs], Runs]


def share_tapes(
    counts: Sequence[OwnWindows],
    panes: Sequence[Panes],
    feed: PaneFeed,
    sealed: Sequence[Ints],
    combine: Combine,
) -> list[TapeView]:
    """Views of one set of lists, one for each of these states, which come from the feed again.

    ``sealed`` are the ends of the panes that each query has sealed of each group.
    """
    first = counts[0]
    lists = GroupTapes(first.item_type, feed, len(counts), max(map(len, sealed)))
    lists.inserts, lists.removals, lists.updates = first.inserts, first.removals, first.updates
    views = []
    for place, (state, own, upto) in enumerate(zip(counts, panes, sealed, strict=True)):
        lists.upto[place, : len(upto)] = lists.needed[place, : len(upto)] = upto
        owner = state.group[state.tape["code"]]
        np.minimum.at(lists.needed[place], owner, own.pane_start(state.pane))
        views.append(TapeView(lists, place, state.k, own, combine))
    lists.pull()
    return views


class GroupTapes(CodedCounts):
    """The lists of the panes that any query needs, by (group, pane); an item has one code.

    Cost: a copy of the lists per batch of answers, however many queries there are. Windows of a
    group that end together are counted from the lists of the longest of them. State: 12 bytes per
    entry of a live list, 16 per list, and each item once.
    """

    by_code = ("order_key", "item_refs")
    saved_by_code = ()

    def __init__(self, item_type: ItemColumns, feed: PaneFeed, views: int, groups: int) -> None:
        super().__init__(item_type, 0)
        self.feed = feed
        self.item_refs = np.zeros(0, np.int32)
        self.key = _NONE
        """The group and the first arrival of each list."""
        self.offsets = np.zeros(1, np.int64)
        self.code, self.value = np.zeros(0, np.int32), _NONE
        self.total = 0
        """The sum of all counts in the lists."""
        self.upto, self.needed = np.zeros((2, views, max(groups, 1)), np.int64)
        """The end of what each query has sealed of each group, and the first arrival it needs."""
        self.retained: dict[int, int] = {}
        """How many items each query retains, if it was asked since something changed."""
        self._behind = True
        self.rounds: Rounds[TapeView] = Rounds()
        self._numbers = np.zeros(0, np.int32)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def nbytes(self) -> int:
        owned = (self.key, self.offsets, self.code, self.value, self.upto, self.needed, self.feed)
        return super().nbytes + sum(int(each.nbytes) for each in owned)

    # Panes ------------------------------------------------------------------------------------

    def reach(self, view: TapeView, panes: Runs | None, windows: Windows) -> None:
        """Note that a query has sealed these panes, and all up to the end of these windows."""
        reached = [(windows.group, windows.end)] if len(windows) else []
        if panes is not None and len(panes):
            reached.append((panes.group, panes.stamp + 1))
        for group, end in reached:
            assert group is not None
            self.reserve(int(group.max()) + 1)
            np.maximum.at(self.upto[view.place], group, view.panes.pane_start(end))
            self._behind, self.retained = True, {}

    def reserve(self, groups: int) -> None:
        """Have room for this many groups."""
        known = self.upto.shape[1]
        if groups > known:
            more = ((0, 0), (0, max(groups, 2 * known) - known))
            self.upto, self.needed = np.pad(self.upto, more), np.pad(self.needed, more)

    def pull(self) -> None:
        """Take the panes that some query has sealed."""
        fresh = self.feed.upto(self.upto.max(axis=0)) if self._behind else None
        self._behind = False
        if fresh is None or not len(fresh):
            return
        self.reserve(int(fresh.group.max()) + 1)
        part = fresh.parts["items"]
        codes, _, _ = self._encode(self.item_type.hashes(part), part)
        self.updates += len(codes)
        np.add.at(self.item_refs, codes, 1)
        value = np.asarray(part["count"], np.int64)
        self.total += int(value.sum())
        key = np.concatenate([self.key, _keys(fresh.group, fresh.stamp)])
        lengths = np.concatenate([np.diff(self.offsets), part.lengths])
        self.code = np.concatenate([self.code, codes])
        self.value = np.concatenate([self.value, value])
        self._keep(np.argsort(key, kind="stable"), key, offsets_of(lengths))

    def _keep(self, lists: Ints, key: Ints, offsets: Ints) -> None:
        """Keep these lists, in this order."""
        lengths = np.diff(offsets)[lists]
        entries = expand(offsets[lists], lengths)
        self.code, self.value = self.code[entries], self.value[entries]
        self.key, self.offsets = key[lists], offsets_of(lengths)

    def _expire(self) -> None:
        """Drop the panes that no query needs any more."""
        needed = self.needed.min(axis=0)
        live = (self.key & _LAST) >= needed[self.key >> _STAMP_BITS]
        entries = np.repeat(~live, np.diff(self.offsets))
        gone = self.code[entries]
        self.total -= int(self.value[entries].sum())
        np.subtract.at(self.item_refs, gone, 1)
        dead = dead_codes(gone, self.item_refs)
        if len(dead):
            self.index.release(dead)
        self.removals += len(gone)
        self._keep(np.flatnonzero(live), self.key, self.offsets)

    # Windows ----------------------------------------------------------------------------------

    def answers_of(self, due: dict[TapeView, Windows]) -> dict[TapeView, Runs]:
        """The answers of windows of several queries; panes that none needs any more are dropped."""
        for view, own in due.items():
            self.reach(view, None, own)
        self.pull()
        found = self._count(due)
        for view, own in due.items():
            # Until a group's next window, the panes of its last one may be read again.
            assert own.group is not None
            np.maximum.at(self.needed[view.place], own.group, view.panes.pane_start(own.first))
        self._expire()
        return found

    def _count(self, due: dict[TapeView, Windows]) -> dict[TapeView, Runs]:
        """The answers of windows of several queries."""
        pieces = []
        for view, own in due.items():
            edges = (view.panes.pane_start(each) for each in (own.first, own.end))
            pieces.append((own.group, *edges, np.full(len(own), view.k)))
        group, first, end, k = map(np.concatenate, zip(*pieces, strict=True))
        best = self.best(group, first, end, k)
        found, start = {}, 0
        for view, own in due.items():
            assert own.group is not None
            mine = best.slice(start, start + len(own))
            found[view] = self._answers(own.number, own.group, self._shown(mine), view.k)
            start += len(own)
        return found

    def best(self, group: Array, first: Ints, end: Ints, k: Ints) -> Part:
        """The codes and counts of the best items of windows, each a run."""
        order = np.lexsort((-first, end, group))
        low, high = self.between(group[order], first[order], end[order])
        fresh = np.ones(len(order), np.bool_)
        fresh[1:] = (np.diff(group[order]) != 0) | (np.diff(end[order]) != 0)
        keys = self.order_key[: self.index.bound]
        compared = comparison(keys, self.item_type.decided, self.total)
        asked = kernel.Asked(low, high, fresh, k[order])
        code, count, ends = kernel.count_tapes(
            self.code, self.value, keys, asked, compared, self._unseen()
        )
        part = Part(offsets_of(np.diff(ends, prepend=0)), {"code": code, "count": count})
        return part.take(np.argsort(order))

    def _shown(self, best: Part) -> Part:
        return Part(best.offsets, {"count": best["count"], **self.store.gather(best["code"])})

    def between(self, group: Any, first: Any, end: Any) -> tuple[Ints, Ints]:
        """Where the entries of groups begin and end, from one arrival to another."""
        edges = np.searchsorted(self.key, [_keys(group, first), _keys(group, end)])
        low, high = self.offsets[edges]
        return low, high

    def _unseen(self) -> Codes:
        """Room for a number of each code; none has one."""
        self._numbers = grown(self._numbers, self.index.bound, -1)
        return self._numbers

    def totals(self, first: int, end: int, group: int) -> Part:
        self.pull()
        (low,), (high,) = self.between(np.array([group]), first, end)
        return self._summed(self.code[low:high], self.value[low:high])

    def partial(self, first: int, end: int, group: int | None, k: int = 1) -> Runs:
        assert group is not None
        self.pull()
        one = np.array([group], np.int32)
        best = self.best(one, np.array([first]), np.array([end]), np.array([k]))
        return self._answers(np.zeros(1, np.int64), one, self._shown(best), k)

    def fold(self, panes: Runs, windows: Windows) -> None:
        """Never called: panes come from the feed, and views read windows."""
        raise NotImplementedError

    # State ------------------------------------------------------------------------------------

    def pairs(self, place: int) -> int:
        """How many different items all groups have in the panes that a query may still read."""
        if place not in self.retained:
            self.pull()
            groups = np.arange(self.upto.shape[1])
            low, high = self.between(groups, self.needed[place], self.upto[place])
            self.retained[place] = int(kernel.count_pairs(self.code, low, high, self._unseen()))
        return self.retained[place]

    def panes(self, place: int | None = None) -> Runs:
        """The lists as they came from the feed: all, or those that a query may still read."""
        group, stamp = self.key >> _STAMP_BITS, self.key & _LAST
        lists = np.arange(len(self.key))
        if place is not None:
            needed, upto = self.needed[place][group], self.upto[place][group]
            lists = np.flatnonzero((stamp >= needed) & (stamp < upto))
        part = Part(self.offsets, {"code": self.code, "count": self.value}).take(lists)
        columns: dict[str, Any] = dict(self.store.gather(part["code"]))
        if not self.item_type.raw:
            columns = {"hash": hash_columns(list(columns.values()))} | columns
        items = Part(part.offsets, columns | {"count": part["count"]})
        return Runs(stamp[lists], group[lists].astype(np.int32), {"items": items})

    def _check(self) -> None:
        self.index._check()
        known, group = self.index.bound, self.key >> _STAMP_BITS
        assert len(self.key) == len(self.offsets) - 1
        assert self.offsets[-1] == len(self.code) == len(self.value)
        assert (np.diff(self.key) > 0).all()
        assert ((self.key & _LAST) >= self.needed.min(axis=0)[group]).all()
        assert np.array_equal(np.bincount(self.code, minlength=known), self.item_refs[:known])
        assert np.array_equal(np.flatnonzero(self.item_refs[:known]), self.index.codes())
        assert self.total == self.value.sum()
        assert (self._numbers == -1).all()


class TapeView(SharedCounts):
    """What one query reads from shared lists: the best k items of its own windows."""

    def __init__(
        self, lists: GroupTapes, place: int, k: int, panes: Panes, combine: Combine
    ) -> None:
        super().__init__(lists.item_type, k)
        self.lists, self.place, self.panes, self.combine = lists, place, panes, combine

    def __len__(self) -> int:
        return self.lists.pairs(self.place)

    @property
    def nbytes(self) -> int:
        return self.lists.nbytes // len(self.lists.upto)

    def expect(self, round_: object, windows: Windows) -> None:
        """These windows will be asked for in this round."""
        self.lists.rounds.expect(round_, self, windows)

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        self.lists.reach(self, panes, windows)
        lists = self.lists
        return lists.rounds.read(self, windows, lists.answers_of) if len(windows) else None

    def partial(self, first: int, end: int, group: int | None) -> Runs:
        return self.lists.partial(*self._arrivals(first, end), group, self.k)

    def totals(self, first: int, end: int, group: int) -> Part:
        return self.lists.totals(*self._arrivals(first, end), group)

    def _arrivals(self, first: int, end: int) -> tuple[int, int]:
        return int(self.panes.pane_start(first)), int(self.panes.pane_start(end))

    # State ------------------------------------------------------------------------------------

    def stats(self) -> dict[str, int | float]:
        self.inserts, self.removals, self.updates = self._operations()
        return super().stats()

    def _operations(self) -> tuple[int, int, int]:
        return self.lists.inserts, self.lists.removals, self.lists.updates

    def alone(self) -> OwnWindows:
        self.lists.pull()
        runs = self.lists.panes(self.place)
        counts = OwnWindows(self.item_type, self.k, np.dtype(np.int64), grouped=True)
        if len(runs):
            runs = runs.stamped(np.asarray(self.panes.pane_of(runs.stamp))).ordered()
            counts.fold(self.combine(runs) if runs.repeats.any() else runs, _NO_WINDOWS)
        counts.inserts, counts.removals, counts.updates = self._operations()
        return counts

    def state(self) -> State:
        """That of an ``OwnWindows`` with the panes that this query needs."""
        return self.alone().state()

    def _check(self) -> None:
        self.lists._check()


def _keys(group: Any, stamp: Any) -> Ints:
    return np.asarray((group.astype(np.int64) << _STAMP_BITS) + stamp)
