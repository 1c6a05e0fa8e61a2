"""One set of pane counts for several queries of a board: a state of ``exact``.

The queries differ in k and in the size of their windows; panes are the same for all. The lists of
sealed panes, the codes of items and the items themselves are kept once, for as long as any query
needs them. A query reads its windows from them:

    shared lists     ├ 1 ┼ 2 ┼ 3 ┼ 4 ┼ 5 ┼ 6 ┤
    query a          ├───────────────────────┤  the best 100
    query b                          ├───────┤  the best 10
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.arrays import Array, Ints, State, grown
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.data.packing import prefixed
from skyband.frequency.pane_sums import PaneSums
from skyband.frequency.tape import Tape
from skyband.frequency.window_counts import SharedCounts
from skyband.kernels.frequency import shared_counts as kernel
from skyband.kernels.frequency.pane_sums import recount
from skyband.kernels.frequency.shared_counts import HIGH, LOW, PAUSE, PRUNED, WINDOW, Heavy, Room

__all__ = ["NEVER", "OwnView", "SharedLists", "share"]

_HEAVY = 2048
"""How many of the most frequent items are listed."""
NEVER = int(np.iinfo(np.int64).min)


def share(counts: Sequence[PaneSums]) -> list[OwnView]:
    """Views of one set of lists, one for each of these states; none if they differ in their panes.

    They differ if the queries did not see the same rows.
    """
    longest = max(counts, key=lambda each: len(each.pane))
    entries = np.diff(longest.starts)
    for each in counts:
        from_ = len(longest.pane) - len(each.pane)
        same = np.array_equal(each.pane, longest.pane[from_:])
        if not same or not np.array_equal(np.diff(each.starts), entries[from_:]):
            return []
    lists = SharedLists(longest)
    return [OwnView(lists, each) for each in counts]


class SharedLists(PaneSums):
    """The lists of the panes that any query needs.

    Cost: O(1) per entry when its pane arrives and when it expires, however many queries there are.
    State: the entries of the live lists, and each item once.
    """

    by_code = ("order_key", "group", "refs", "last", "total")

    def __init__(self, counts: PaneSums) -> None:
        """Take over the lists of a state, which must not be used any more."""
        super().__init__(counts.item_type, counts.k, counts.dtype, grouped=False)
        self.views: list[OwnView] = []
        self.base = 0
        """The number of the first entry on the tape."""
        self.newest = int(counts.pane[-1]) if len(counts.pane) else NEVER
        self.pane, self.starts = counts.pane, counts.starts
        self.index, self.store = counts.index, counts.store
        self.order_key, self.group = counts.order_key, counts.group
        self.inserts, self.removals, self.updates = counts.inserts, counts.removals, counts.updates
        self.refs = np.zeros(len(self.order_key), np.int32)
        self.last = np.zeros(len(self.order_key), np.int64)
        self.total = np.zeros(len(self.order_key), self.dtype)
        self._room: Room | None = None
        self._heavy: Heavy | None = None
        self.tape = self._new_tape()
        self._link(counts.tape["code"], counts.tape["value"])

    def _new_tape(self) -> Tape:
        value = np.zeros((0, 1), self.dtype)
        return Tape({"code": np.zeros(0, np.int32), "value": value, "prev": np.zeros(0, np.int64)})

    def _link(self, codes: Array, values: Array) -> None:
        known, start = self.index.bound, len(self.tape)
        self.tape.append(code=codes, value=values, prev=np.full(len(codes), -1))
        kernel.link(
            self.tape["code"], self.tape["value"], self.tape["prev"], start, self.base,
            self.last[:known], self.refs[:known], self.total[:known],
        )  # fmt: skip

    def take(self, panes: Runs) -> None:
        """Take the panes that no other query has brought yet; all queries bring the same ones."""
        if not len(panes) or int(panes.stamp[-1]) <= self.newest:
            return
        panes = panes.slice(int(np.searchsorted(panes.stamp, self.newest, "right")), len(panes))
        codes, values = self._entries(panes)
        self.starts = np.concatenate(
            [self.starts, len(self.tape) + panes.parts["items"].offsets[1:]]
        )
        self.pane = np.concatenate([self.pane, panes.stamp])
        self.newest = int(self.pane[-1])
        self._heavy = None  # sums have grown; panes that leave only make them smaller
        self._link(codes, values)

    def expire(self) -> None:
        """Drop the panes that no query needs any more."""
        gone = int(np.searchsorted(self.pane, min(view.needed for view in self.views)))
        if not gone:
            return
        entries, known = int(self.starts[gone]), self.index.bound
        for view in self.views:
            view.forget(self.base + entries)
        dead = kernel.unlink(
            self.tape["code"], self.tape["value"], entries, self.refs[:known], self.total[:known]
        )
        self.index.release(dead)
        self.removals += len(dead)
        self.tape.drop(entries)
        self.base += entries
        self.pane, self.starts = self.pane[gone:], self.starts[gone:] - entries

    def entries(self) -> tuple[kernel.Entries, kernel.Known, Heavy]:
        """What ``read_windows`` reads, the same for all queries."""
        known, tape = self.index.bound, self.tape
        entries = kernel.Entries(tape["code"], tape["value"], tape["prev"], self.base)
        last, refs, total = self.last[:known], self.refs[:known], self.total[:known]
        return entries, kernel.Known(last, refs, total, self.order_key[:known]), self.heavy()

    def room(self) -> Room:
        """Arrays for ``read_windows`` to work in, the same for all queries."""
        known = self.index.bound
        if self._room is None or len(self._room.seen) < known:
            many = known + known // 4
            sums, seen = np.empty((many, 1), self.dtype), np.zeros(many, np.int32)
            self._room = Room(
                sums, seen, np.empty(many + 1, np.int64), np.empty(many + 1, np.int64)
            )
        return self._room

    def heavy(self) -> Heavy:
        """Codes with the greatest sums over all panes, descending; and the most of any other."""
        if self._heavy is None:
            total = self.total[: self.index.bound]
            many = max(_HEAVY, 4 * max(view.k for view in self.views))
            floor, codes = -1, np.arange(len(total))
            if len(total) > 2 * many:
                at = len(total) - many
                codes = np.argpartition(total, at)
                floor, codes = int(total[codes[:at]].max()), codes[at:]
            codes = codes[np.argsort(-total[codes])]
            self._heavy = Heavy(codes, total[codes], floor)
        return self._heavy

    def between(self, first: Any, end: Any) -> tuple[Ints, Ints]:
        """Places on the tape where the panes from ``first`` to ``end`` begin and end."""
        low, high = np.searchsorted(self.pane, first), np.searchsorted(self.pane, end)
        return self.starts[low], self.starts[high]

    def _check(self) -> None:
        self._check_codes()
        code, value, known = self.tape["code"], self.tape["value"][:, 0], self.index.bound
        assert len(self.pane) == len(self.starts) - 1
        assert self.starts[0] == 0
        assert self.starts[-1] == len(code)
        assert (np.diff(self.pane) > 0).all()
        totals, last = np.zeros(known, self.dtype), np.full(known, -1)
        np.add.at(totals, code, value)
        assert np.array_equal(totals[self.index.codes()], self.total[self.index.codes()])
        last[code] = self.base + np.arange(len(code))
        assert np.array_equal(last[self.index.codes()], self.last[self.index.codes()])


class OwnView(SharedCounts):
    """What one query reads from shared lists: the best k items of its own windows.

    Cost: per window, a pass over the items that compares one number of each, and one step per pane
    for those that can be among the best; if they are many, as much as ``PaneSums``. State: at most
    one sum per item. Counts are whole numbers, so subtracting leaves no rounding error behind.
    """

    def __init__(self, lists: SharedLists, counts: PaneSums) -> None:
        super().__init__(counts.item_type, counts.k)
        self._read(lists, counts)

    def _read(self, lists: SharedLists, counts: PaneSums) -> None:
        self.lists = lists
        lists.views.append(self)
        self.needed = int(counts.pane[0]) if len(counts.pane) else lists.newest + 1
        """The first pane that this query may still read."""
        if lists.newest == NEVER:
            self.needed = NEVER
        self.place = np.zeros(kernel.PLACES, np.int64)
        self.place[[LOW, HIGH, PAUSE]] = -1, -1, kernel.FIRST_PAUSE
        self.winners = np.zeros(self.k, np.int64)
        self.sums = np.zeros((0, 1), lists.dtype)
        self.there = np.zeros(0, np.int32)

    def on_tape(self, pane: Any) -> Any:
        """A pane of this query as the lists number it."""
        return pane

    def __len__(self) -> int:
        known = self.lists.index.codes()
        low, _ = self.lists.between(self.needed, self.needed)
        return int(np.count_nonzero(self.lists.last[known] >= self.lists.base + low))

    @property
    def nbytes(self) -> int:
        own = self.sums.nbytes + self.there.nbytes + self.winners.nbytes
        return own + self.lists.nbytes // len(self.lists.views)

    @property
    def pruned(self) -> int:
        """Windows for which most items were left out at once."""
        return int(self.place[PRUNED])

    def forget(self, base: int) -> None:
        """Entries before number ``base`` are about to go, and their codes may be used again."""
        if self.place[LOW] < base:
            self.place[LOW] = self.place[HIGH] = -1

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        self._take(panes, windows)
        if not len(windows):
            return None
        answers = self._answers(windows)
        self.needed = int(self.on_tape(windows.first[-1]))
        self.lists.expire()
        return answers

    def _take(self, panes: Runs, windows: Windows) -> None:
        """Let the lists have all panes up to the end of these."""
        self.lists.take(panes)

    def _answers(self, windows: Windows) -> Runs:
        lists, known = self.lists, self.lists.index.bound
        low, high = lists.between(self.on_tape(windows.first), self.on_tape(windows.end))
        low, high = low + lists.base, high + lists.base
        found = []
        while len(low):
            self.place[WINDOW] = 0
            code, value, ends = kernel.read_windows(
                *lists.entries(),
                kernel.Asked(low, high, self.k, self.item_type.decided),
                kernel.Reader(self.place, self.winners, self.sums[:known], self.there[:known]),
                lists.room(),
            )
            found.append((code, value, np.diff(ends, prepend=0)))
            low, high = low[len(ends) :], high[len(ends) :]
            if len(low):  # it stopped, as most items can win; now their sums are kept
                self.sums, self.there = grown(self.sums, known), grown(self.there, known)
        columns = [np.concatenate(pieces) for pieces in zip(*found, strict=True)]
        return self._ranked(windows.number, *columns)

    def _ranked(self, number: Ints, code: Array, value: Array, lengths: Ints) -> Runs:
        some = lengths > 0
        columns: dict[str, Any] = {"count": value[:, 0], **self.lists.store.gather(code)}
        best = self.item_type.ranked(Part(offsets_of(lengths[some]), columns), self.k)
        number = number[some]
        return Runs(number, np.zeros(len(number), np.int32), {"items": best})

    def partial(self, first: int, end: int, group: int | None) -> Runs:
        lists = self.lists
        known, tape = lists.index.bound, lists.tape
        low, high = lists.between(*self.on_tape(np.array([[first], [end]])))
        keys = lists.order_key[:known]
        code, value, ends, _ = recount(
            tape["code"], tape["value"], low, high, known, keys, self.k, self.item_type.decided
        )
        return self._ranked(np.zeros(1, np.int64), code, value, np.diff(ends, prepend=0))

    def totals(self, first: int, end: int, group: int) -> Part:
        return self.lists.totals(int(self.on_tape(first)), int(self.on_tape(end)), group)

    # State ------------------------------------------------------------------------------------

    def stats(self) -> dict[str, int | float]:
        lists = self.lists
        self.inserts, self.removals, self.updates = lists.inserts, lists.removals, lists.updates
        return super().stats()

    def state(self) -> State:
        """That of a ``PaneSums`` with the panes that this query needs."""
        lists, known = self.lists, self.lists.index.bound
        code, value, pane, starts = self._own_lists()
        refs = np.bincount(code, minlength=known).astype(np.int32)
        fresh = np.zeros((known, 1), lists.dtype)
        np.add.at(fresh, code, value)
        live, index = lists.index.codes(), lists.index.state()
        unused = live[refs[live] == 0].astype(np.int32)
        index["free"] = np.concatenate([index["free"], unused])
        tape = {"code": code, "value": value, "rest": np.zeros_like(value)}
        counts = [0, lists.inserts, lists.removals, lists.updates]
        return prefixed("index/", index) | lists.store.state() | prefixed("tape/", tape) | {
            "order_key": lists.order_key[:known].copy(),
            "group": lists.group[:known].copy(),
            "refs": refs,
            "old": np.zeros_like(fresh),
            "fresh": fresh,
            "pane": pane,
            "starts": starts,
            "counts": np.array(counts, np.int64),
        }  # fmt: skip

    def _own_lists(self) -> tuple[Array, Array, Ints, Ints]:
        """Codes and values of the panes that this query needs, the panes, and where they begin."""
        lists = self.lists
        from_ = int(np.searchsorted(lists.pane, self.needed))
        entries = int(lists.starts[from_])
        code, value = lists.tape["code"][entries:].copy(), lists.tape["value"][entries:].copy()
        return code, value, lists.pane[from_:].copy(), lists.starts[from_:] - entries

    def alone(self) -> PaneSums:
        counts = PaneSums(self.item_type, self.k, self.lists.dtype, grouped=False)
        counts.restore(self.state())
        return counts

    def _check(self) -> None:
        self.lists._check()
        low, high = int(self.place[LOW]) - self.lists.base, int(self.place[HIGH]) - self.lists.base
        if low >= 0:
            known = self.lists.index.bound
            code = self.lists.tape["code"][low:high]
            sums = np.zeros(known, self.lists.dtype)
            np.add.at(sums, code, self.lists.tape["value"][low:high, 0])
            here = min(known, len(self.there))
            assert np.array_equal(np.bincount(code, minlength=known)[:here], self.there[:here])
            assert np.array_equal(sums[:here], self.sums[:here, 0])
