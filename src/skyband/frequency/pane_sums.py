"""The lists of the window's panes, and what they add up to: the state of ``exact`` and ``fsp``.

Each sealed pane has a list for each group: items with their values, which are a count and, for
lists with errors, more. Items get integer codes; kernels work on codes only. The lists are kept
once, as long as the longest window needs them. For each size of window there are sums of its own:

    lists          ├ 1 ┼ 2 ┼ 3 ┼ 4 ┼ 5 ┼ 6 ┤
    sums           ├───────────────────────┤  the best 10
    sums                           ├───────┤  the best 100

Sums are kept by code (``CodeSums``) or, for integer counts of groups, in blocks (``BlockSums``).
What ranks items by a measure is in ``MeasuredSums``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from skyband.arrays import Array, Ints, Mask, Saved, State, grown
from skyband.contract.rows import NO_WINDOWS, Windows
from skyband.contract.runs import Part, Runs, offsets_of, run_starts
from skyband.data.flat_state import Form, admitted, require
from skyband.frequency.block_sums import BlockSums
from skyband.frequency.items import GroupOrder, ItemCodes, ItemColumns
from skyband.frequency.kernels.counting import grouped_keys
from skyband.frequency.kernels.pane_sums import (
    HEAD,
    PLACES,
    BestCodes,
    Groups,
    PaneEntries,
    Sums,
    fold_lists,
    recount,
)
from skyband.frequency.listed import from_listed
from skyband.frequency.measured_sums import MeasuredSums
from skyband.frequency.tape import Tape
from skyband.kernels.arrange import counting_order

Answer = Callable[[Windows, Part, Array], Runs]
"""Makes answers from the best items of (window, group) pairs and the sums of their values.

The array has, for lists with errors, the greatest count minus ``absent`` of the other items."""

_STRETCH = 1 << 16
_PANE_BITS = 40
"""Bits for the pane in a sort key of (group, pane): 2^40 panes per group are enough."""
_NONE = np.zeros(0, np.int64)


class CodeSums:
    """The sums of the window of one size, by code. State: a sum per code.

    For floating-point numbers, also one for each code and entry of its old panes.
    """

    def __init__(self, k: int, dtype: np.dtype[Any], columns: int, first: int) -> None:
        """Sums over no panes yet; ``first`` is the place of the first one in the lists."""
        self.k = k
        self.last = np.full(k, -1)
        """The codes of its last answer."""
        self.place = np.full(PLACES, first, np.int64)
        """Its first pane, its first fresh pane and the end of its panes, in the lists."""
        self.refs = np.zeros(0, np.int32)
        self.fresh = self.old = np.zeros((0, columns), dtype)
        self.rest = Tape({"rest": self.old})

    @property
    def nbytes(self) -> int:
        arrays = (self.refs, self.fresh, self.old, self.last)
        return sum(int(array.nbytes) for array in arrays) + self.rest.nbytes

    @property
    def head(self) -> int:
        """The place of its first pane in the lists."""
        return int(self.place[HEAD])

    def live(self, lists: PaneSums) -> int:
        """How many items are counted, each once per group."""
        return len(lists.items)

    def show(self, k: int) -> None:
        """Answer with so many items from now on."""
        self.k, self.last = k, np.full(k, -1)

    def drop(self, panes: int) -> None:
        """These panes, which it has left, are no longer in the lists."""
        self.place -= panes

    def run(self, lists: PaneSums, windows: Windows) -> tuple[Array, ...]:
        """Take all panes of the lists, and read windows; see ``fold_lists``."""
        known, first, starts = lists.items.bound, self.head, lists.starts
        low = int(starts[first])
        self.refs, self.fresh = grown(self.refs, known), grown(self.fresh, known)
        code, value = lists.entries["code"], lists.entries["value"]
        if lists.dtype.kind == "f":
            self.old = grown(self.old, known)
            new = len(code) - low - len(self.rest)
            self.rest.append(rest=np.zeros((new, self.old.shape[1]), lists.dtype))
        place, starts = self.place - first, starts[first:] - low
        best = fold_lists(
            PaneEntries(code[low:], value[low:], self.rest["rest"], lists.pane[first:], starts),
            place,
            Sums(self.old[:known], self.fresh[:known], self.refs[:known]),
            windows.first,
            windows.end,
            lists.groups(windows),
            BestCodes(lists.items.order_key, self.k, lists.items.item_type.decided, self.last),
        )
        if len(self.rest):
            self.rest.drop(int(starts[place[HEAD]]))
        self.place = place + first
        return best[0], best[1].T, *best[2:]

    def _check(self, lists: PaneSums) -> None:
        head, flip, tail = self.place.tolist()
        assert 0 <= head <= tail == len(lists.pane)
        known, (low, old, high) = lists.items.bound, lists.starts[[head, max(head, flip), tail]]
        code, value = lists.entries["code"], lists.entries["value"]
        assert np.array_equal(np.bincount(code[low:high], minlength=known), self.refs[:known])
        whole, before = np.zeros((2, known, value.shape[1]), lists.dtype)
        np.add.at(whole, code[low:high], value[low:high])
        np.add.at(before, code[low:old], value[low:old])
        if not len(self.old):
            assert np.array_equal(whole, self.fresh[:known])
            return
        assert np.allclose(whole, self.old[:known] + self.fresh[:known])
        assert np.allclose(before, self.old[:known])
        assert not self.old[:known][self.refs[:known] == 0].any()
        assert not self.fresh[:known][self.refs[:known] == 0].any()
        assert len(self.rest) == high - low


class PaneSums:
    """Sums each item over the lists of the window's panes, and finds the best k sums.

    Cost: O(1) per list entry when its pane arrives and, for each size of window, when it enters and
    leaves the window; and one pass over the items per answer. State: the entries of the live lists
    and each item once, and the sums of each size of window.
    """

    pane_by_pane = True
    """Whether panes are in order; otherwise they are in the order of their groups."""

    def __init__(
        self,
        item_type: ItemColumns,
        ks: Sequence[int],
        dtype: np.dtype[Any],
        grouped: bool,
        blocks: bool = False,
        values: Sequence[str] = ("count",),
        scalars: Sequence[str] = (),
        answer: Answer | None = None,
        measured: MeasuredSums | None = None,
    ) -> None:
        """``ks`` say how many items the windows of each size show; the first is the longest.

        With ``blocks``, which are for integers of groups, an item has one code in all groups;
        otherwise each group has codes of its own. ``values`` are the columns that are added up;
        ``scalars``, of the same type, are kept for each list. ``measured``, if items are not ranked
        by the first of the values, is a model of the sums.
        """
        self.items, self.order = ItemCodes(item_type), GroupOrder()
        self.dtype, self.values, self.grouped, self.blocks = dtype, values, grouped, blocks
        self.own_codes = grouped and not blocks
        """Whether each group has codes of its own."""
        self.answer = self._counted if answer is None else answer
        self.measured = measured
        self.shown = values if measured is None else ("estimate", *measured.measure.values)
        """The columns of answers."""
        self.group = np.zeros(0, np.int32)
        """The group of each code, if each group has codes of its own."""
        self.members, self.bounds = _NONE, np.zeros(1, np.int64)
        """Then also the codes by group, and where those of each group start."""
        self.entries = Tape({
            "code": np.zeros(0, np.int32), "value": np.zeros((0, len(values)), dtype)
        })  # fmt: skip
        self.scalars = tuple(scalars)
        none = {name: np.zeros(0, dtype) for name in self.scalars}
        self.runs = Tape({"owner": np.zeros(0, np.int32), **none})
        self.offsets, self.cuts, self.pane = np.zeros(1, np.int64), np.zeros(1, np.int64), _NONE
        self.sums = [self._new_sums(k) for k in ks]
        self.inserts = self.removals = self.updates = 0

    def _new_sums(self, k: int, first: int = 0) -> CodeSums | BlockSums | MeasuredSums:
        if self.measured is not None:
            return self.measured.fresh(k, first)
        if self.blocks:
            return BlockSums(k, first)
        return CodeSums(k, self.dtype, len(self.values), first)

    def __len__(self) -> int:
        return self.sums[0].live(self)

    @property
    def starts(self) -> Ints:
        """Where the entries of each pane start."""
        return self.offsets[self.cuts]

    @property
    def run_panes(self) -> Ints:
        """The pane of each list."""
        return np.repeat(self.pane, np.diff(self.cuts))

    @property
    def most(self) -> int:
        """The most items that the windows of any size show."""
        return max(sums.k for sums in self.sums)

    @property
    def nbytes(self) -> int:
        lists = (self.items, self.entries, self.runs, self.offsets, self.cuts, self.pane)
        groups = (self.group, self.members, self.bounds)
        return sum(int(each.nbytes) for each in (*lists, *groups, *self.sums))

    def stats(self) -> dict[str, int | float]:
        """The state's size and the operation counts."""
        counts = {"inserts": self.inserts, "removals": self.removals, "updates": self.updates}
        return {"retained": len(self), "state_bytes": self.nbytes, **counts}

    def keep(self, sizes: Sequence[int], ks: Sequence[int]) -> None:
        """Go on with the windows of some of the sizes only, which show so many items."""
        self.sums = [self.sums[i] for i in sizes]
        for sums, k in zip(self.sums, ks, strict=True):
            sums.show(k)
        self._expire()

    # Panes ------------------------------------------------------------------------------------

    def fold(self, panes: Runs, windows: Sequence[Windows]) -> list[Runs | None]:
        """Take panes, and read the windows of each size."""
        early = self._early(panes, windows)
        if early is None:
            return self.fold_all(panes, windows)
        stay = min(int(np.searchsorted(panes.stamp, own.first[-1])) for own in windows)
        last = [own.slice(len(own) - 1, len(own)) for own in windows]
        answers = self.fold_all(panes.slice(stay, len(panes)), last)
        return [_joined(pair) for pair in zip(early, answers, strict=True)]

    def fold_all(self, panes: Runs, windows: Sequence[Windows]) -> list[Runs | None]:
        """Take all entries of the panes, and read the windows of each size."""
        pieces: list[list[Runs | None]] = [[] for _ in windows]
        for some, due in self._stretches(panes, windows):
            self._append(some)
            for sums, own, answers in zip(self.sums, due, pieces, strict=True):
                answers.append(self._read(sums, own))
            self._expire()
        return [_joined(answers) for answers in pieces]

    def _early(self, panes: Runs, windows: Sequence[Windows]) -> list[Runs | None] | None:
        """The answers of all windows but the last, if they do not need the counts of all items.

        Panes that leave before the last window then never enter the state.
        """
        if self.grouped or self.dtype.kind != "i" or self.shown != ("count",):
            return None
        if max(map(len, windows)) < 2 or not all(map(len, windows)):
            return None
        ks = [sums.k for sums in self.sums]
        empty = PaneSums(self.items.item_type, ks, self.dtype, grouped=False)
        return from_listed(self, empty, panes, [own.slice(0, len(own) - 1) for own in windows])

    def _stretches(
        self, panes: Runs, windows: Sequence[Windows]
    ) -> Iterator[tuple[Runs, list[Windows]]]:
        """Split panes and windows into stretches that add no more entries than are live.

        Answering a window takes a pass over all codes, which should not include those of items
        that come only much later. A stretch of ``_STRETCH`` entries is always allowed.
        """
        offsets, stamp, start = panes.parts["items"].offsets, panes.stamp, 0
        answered = [0 for _ in windows]
        while start < len(panes):
            most = offsets[start] + max(_STRETCH, len(self))
            stop = max(start + 1, int(np.searchsorted(offsets, most, side="right")) - 1)
            stop = int(np.searchsorted(stamp, stamp[stop - 1], side="right"))
            if stop == len(panes):
                break
            upto = [int(np.searchsorted(own.end, stamp[stop], side="right")) for own in windows]
            cuts = zip(windows, answered, upto, strict=True)
            yield panes.slice(start, stop), [own.slice(low, high) for own, low, high in cuts]
            start, answered = stop, upto
        rest = [own.slice(low, len(own)) for own, low in zip(windows, answered, strict=True)]
        yield panes.slice(start, len(panes)), rest

    def _append(self, panes: Runs) -> None:
        """Append panes to the lists."""
        part = panes.parts["items"]
        hashes = self.items.item_type.hashes(part)
        if self.own_codes:
            hashes = grouped_keys(hashes, panes.group, part.offsets)
        codes, rows, fresh = self.items.take(hashes, part)
        self.inserts += len(fresh)
        self.updates += len(codes) - len(fresh)
        if self.own_codes:
            self.group = grown(self.group, self.items.bound)
            self.group[fresh] = panes.group[np.searchsorted(part.offsets, rows, side="right") - 1]
            self._arrange()
        if not len(panes):
            return
        values = [np.asarray(part[name], self.dtype) for name in self.values]
        self.entries.append(code=codes, value=np.stack(values, axis=1))
        starts = self._pane_starts(panes.stamp)
        ends = np.append(starts[1:], len(panes)) + len(self.runs)
        self.cuts = np.concatenate([self.cuts, ends])
        self.pane = np.concatenate([self.pane, panes.stamp[starts]])
        self.offsets = np.concatenate([self.offsets, self.offsets[-1] + part.offsets[1:]])
        scalars = {name: panes.scalars[name] for name in self.scalars}
        self.runs.append(owner=panes.group, **scalars)

    def _pane_starts(self, stamps: Ints) -> Ints:
        """Which of these runs are the first of their pane."""
        return run_starts(stamps)

    def _arrange(self) -> None:
        """Sort the codes by their groups."""
        owners = self.group[: self.items.bound].astype(np.int64)
        self.members, self.bounds = counting_order(owners, int(owners.max(initial=-1)) + 1)

    def groups(self, windows: Windows) -> Groups:
        """How answers go through the codes; no members stand for all codes."""
        if not self.grouped:
            return Groups(_NONE, np.array([0, self.items.bound]), np.zeros(1, np.int64))
        return Groups(self.members, self.bounds, self.sequence(len(self.bounds) - 1, windows))

    def sequence(self, groups: int, windows: Windows) -> Ints:
        """So many groups in the order of answers."""
        return self.order.of(groups, windows.ranks) if len(windows) else _NONE

    def _expire(self) -> None:
        """Drop the panes that have left the windows of all sizes."""
        gone = min(sums.head for sums in self.sums)
        if not gone:
            return
        runs = int(self.cuts[gone])
        entries = int(self.offsets[runs])
        self.removals += self.items.drop(self.entries["code"][:entries])
        self.entries.drop(entries)
        self.runs.drop(runs)
        self.pane, self.cuts = self.pane[gone:], self.cuts[gone:] - runs
        self.offsets = self.offsets[runs:] - entries
        for sums in self.sums:
            sums.drop(gone)

    # Answers ----------------------------------------------------------------------------------

    def _read(self, sums: CodeSums | BlockSums | MeasuredSums, windows: Windows) -> Runs | None:
        code, columns, group, end, per_window, rest = sums.run(self, windows)
        if not len(windows):
            return None
        which = np.repeat(np.arange(len(windows)), per_window)
        cut = (windows.number[which], windows.first[which], windows.end[which])
        return self._best(Windows(*cut, windows.ranks, group), end, code, columns, rest)

    def _measured(self, first: int, end: int, group: int | None, k: int) -> Runs:
        """As ``partial``, by the measure."""
        number, low, high = (np.array([each]) for each in (0, first, end))
        answers = self._read(self._new_sums(k), Windows(number, low, high, _NONE))
        assert answers is not None
        return answers if group is None else answers.take(answers.group == group)

    def partial(self, first: int, end: int, group: int | None) -> Runs:
        """The best items of each group over the live panes ``[first, end)``."""
        if self.measured is not None:
            return self._measured(first, end, group, self.most)
        owner, part = self._between(first, end, group)
        low = run_starts(owner)
        high = np.append(low[1:], len(owner))[: len(low)]
        whole = np.full(len(low), first), np.full(len(low), end)
        windows = Windows(np.zeros(len(low), np.int64), *whole, _NONE, owner[low])
        cuts, ks = (part.offsets[low], part.offsets[high]), np.full(len(low), self.most)
        code, value, stop, rest = self._recount(part, *cuts, ks)
        return self._best(windows, stop, code, value.T, rest)

    def totals(self, first: int, end: int, group: int) -> Part:
        """The counts of all items of a group over the live panes ``[first, end)``, in any order."""
        if self.measured is not None:
            return self._measured(first, end, group, max(self.items.bound, 1)).parts["items"]
        _, part = self._between(first, end, group)
        return self.items.summed(part["code"], part["value"][:, 0])

    def _between(self, first: int, end: int, group: int | None) -> tuple[Array, Part]:
        """The runs of the panes ``[first, end)`` by group: the group and the entries of each."""
        runs = self._inside(first, end)
        owner = self.runs["owner"][runs]
        if group is not None:
            runs, owner = runs[owner == group], owner[owner == group]
        order = np.argsort(owner, kind="stable")
        return owner[order], self._lists.take(runs[order])

    def _inside(self, first: int, end: int) -> Ints:
        """The runs of the panes ``[first, end)``."""
        low, high = self.cuts[np.searchsorted(self.pane, [first, end])]
        return np.arange(low, high)

    @property
    def _lists(self) -> Part:
        return Part(self.offsets, {name: self.entries[name] for name in ("code", "value")})

    def _recount(self, part: Part, low: Ints, high: Ints, ks: Ints) -> tuple[Array, ...]:
        """The best codes of some stretches of entries, counted from scratch."""
        keys, decided = self.items.order_key, self.items.item_type.decided
        return recount(part["code"], part["value"], low, high, ks, keys, decided)

    def _best(
        self, windows: Windows, end: Ints, code: Array, columns: Iterable[Array], rest: Array
    ) -> Runs:
        """Answers from the best codes and their sums, one for each window and group."""
        named: dict[str, Any] = dict(zip(self.shown, columns, strict=True))
        offsets = offsets_of(np.diff(end, prepend=0))
        return self.answer(windows, Part(offsets, named | self.items.store.gather(code)), rest)

    def _counted(self, windows: Windows, part: Part, rest: Array) -> Runs:
        assert windows.group is not None
        part = part if self.measured is None else self.measured.measure.ranked(part)
        best = self.items.item_type.ranked(part, self.most)
        return Runs(windows.number, windows.group, {"items": best})

    # State ------------------------------------------------------------------------------------

    def _arrays(self) -> State:
        """The lists, from which sums are rebuilt."""
        group = {"group": self.group[: self.items.bound]} if self.own_codes else {}
        return group | {
            "code": self.entries["code"], "value": self.entries["value"],
            **{name: self.runs[name] for name in ("owner", *self.scalars)},
            "offsets": self.offsets, "cuts": self.cuts, "pane": self.pane,
            "heads": np.array([sums.head for sums in self.sums]),
            "counts": np.array([self.inserts, self.removals, self.updates]),
        }  # fmt: skip

    def state(self) -> State:
        """Flat arrays for a snapshot."""
        arrays = {name: array.copy() for name, array in self._arrays().items()}
        return self.items.state() | arrays

    def restore(self, arrays: Saved) -> None:
        """Restore from a snapshot."""
        runs, panes = (len(arrays[name]) for name in ("owner", "pane"))
        saved = admitted(arrays, self._arrays(), {
            "code": Form("entries"), "value": Form("entries"), "owner": Form("runs", 0),
            "offsets": Form(runs + 1, 0, ascends=True), "cuts": Form(panes + 1, 0, ascends=True),
            "pane": Form("panes", ascends=self.pane_by_pane), "counts": Form(3),
            "heads": Form(len(self.sums), 0, panes + 1),
            **dict.fromkeys(self.scalars, Form("runs")),
        })  # fmt: skip
        self.entries = Tape({name: saved[name] for name in ("code", "value")})
        self.runs = Tape({name: saved[name] for name in ("owner", *self.scalars)})
        self.items.restore(arrays, self.entries["code"])
        self.offsets, self.cuts, self.pane = (saved[name] for name in ("offsets", "cuts", "pane"))
        ends = self.offsets[0], self.offsets[-1], self.cuts[0], self.cuts[-1]
        require(ends == (0, len(self.entries), 0, runs), "entries of no pane")
        self.inserts, self.removals, self.updates = saved["counts"].tolist()
        if self.own_codes:
            self.group = saved["group"]
            require(len(self.group) == self.items.bound, "an item has no group")
            self._arrange()
        heads = zip(self.sums, saved["heads"].tolist(), strict=True)
        self.sums = [self._new_sums(sums.k, head) for sums, head in heads]
        self._add_up()

    def _add_up(self) -> None:
        """Make the sums from the lists."""
        for sums in self.sums:
            sums.run(self, NO_WINDOWS)

    def _check(self) -> None:
        self.items._check(self.entries["code"])
        assert len(self.pane) == len(self.cuts) - 1
        assert len(self.runs) == len(self.offsets) - 1 == self.cuts[-1]
        assert self.offsets[-1] == len(self.entries)
        if self.pane_by_pane:
            assert (np.diff(self.pane) > 0).all()
            for sums in self.sums:
                sums._check(self)


class OwnWindows(PaneSums):
    """For count windows of groups: each group has its own windows, so its panes expire by itself.

    Each window is counted from scratch, so that no sums are kept. Once windows are read, the lists
    are in order of (group, pane).
    """

    pane_by_pane = False

    def fold(self, panes: Runs, windows: Sequence[Windows]) -> list[Runs | None]:
        self._append(panes)
        if not len(windows[0]):
            return [None for _ in windows]
        owner = self.runs["owner"]
        order = np.lexsort((self.pane, owner))
        scalars = {name: self.runs[name][order] for name in self.scalars}
        lists = Runs(self.pane[order], owner[order], {"items": self._lists.take(order)}, scalars)
        answers = self._recounted(windows, lists)
        live = self._needed(lists, windows[0])
        self.removals += self.items.drop(lists.take(~live).parts["items"]["code"])
        self._hold(lists.take(live))
        return answers

    def _pane_starts(self, stamps: Ints) -> Ints:
        return np.arange(len(stamps))

    def _hold(self, lists: Runs) -> None:
        """Let these be all lists."""
        part, self.pane = lists.parts["items"], lists.stamp
        self.entries, self.runs = Tape(part.columns), Tape({"owner": lists.group, **lists.scalars})
        self.offsets, self.cuts = part.offsets, np.arange(len(lists) + 1)

    def _recounted(self, windows: Sequence[Windows], lists: Runs) -> list[Runs | None]:
        """The answers of windows of each size."""
        part, key = lists.parts["items"], (lists.group.astype(np.int64) << _PANE_BITS) + lists.stamp
        cuts = []
        for own in windows:
            assert own.group is not None
            group = own.group.astype(np.int64) << _PANE_BITS
            cuts.append([np.searchsorted(key, group + edge) for edge in (own.first, own.end)])
        low, high = part.offsets[np.concatenate(cuts, axis=1)]
        ks = np.repeat([sums.k for sums in self.sums], [len(own) for own in windows])
        order = np.lexsort((-low, high))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        code, value, end, rest = self._recount(part, low[order], high[order], ks[order])
        best = Part(offsets_of(np.diff(end, prepend=0)), {"code": code, "value": value}).take(back)
        answers: list[Runs | None] = []
        start = 0
        for own in windows:
            some, left = best.slice(start, start + len(own)), rest[back[start : start + len(own)]]
            answers.append(self._best(own, some.offsets[1:], some["code"], some["value"].T, left))
            start += len(own)
        return answers

    def _needed(self, lists: Runs, longest: Windows) -> Mask:
        """Until a group's next window, the panes of its last one may be read again."""
        assert longest.group is not None
        groups = longest.group
        needed = np.zeros(int(max(lists.group.max(initial=0), groups.max())) + 1, np.int64)
        np.maximum.at(needed, groups, longest.first)
        return lists.stamp >= needed[lists.group]

    def _inside(self, first: int, end: int) -> Ints:
        return np.flatnonzero((self.pane >= first) & (self.pane < end))

    def _expire(self) -> None:
        """What has left the windows of all sizes goes when windows are read."""

    def _add_up(self) -> None:
        """There are no sums."""


def _joined(pieces: Sequence[Runs | None]) -> Runs | None:
    some = [each for each in pieces if each is not None]
    return Runs.concat(some) if some else None
