"""Sums over the lists of the window's panes: a state of ``exact``, and that of ``fsp``.

Each sealed pane is a list of items with their values: a count and, for lists with errors, more.
Each live (group, item) gets an integer code; kernels work on codes only. The lists are kept once,
as long as the longest window needs them. For each size of window there are sums of its own:

    lists          ├ 1 ┼ 2 ┼ 3 ┼ 4 ┼ 5 ┼ 6 ┤
    sums           ├───────────────────────┤  the best 10
    sums                           ├───────┤  the best 100
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from skyband.arrays import Array, Codes, Ints, Mask, Saved, State, grown
from skyband.contract.rows import NO_WINDOWS, Windows
from skyband.contract.runs import Part, Runs, offsets_of, run_starts
from skyband.data.flat_state import Form, admitted, require
from skyband.data.packing import prefixed, under
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
from skyband.frequency.tape import Tape
from skyband.kernels.arrange import counting_order

__all__ = ["OwnWindows", "PaneSums"]

Answer = Callable[[Windows, Part, Array], Runs]
"""Makes answers from the best items of (window, group) pairs and the sums of their values.

The array has, for lists with errors, the greatest count minus ``absent`` of the other items."""

_STRETCH = 1 << 16
_PANE_BITS = 40
"""Bits for the pane in a sort key of (group, pane): 2^40 panes per group are enough."""
_NONE = np.zeros(0, np.int64)


class WindowSums:
    """The sums of the window of one size, by code. State: a sum per code.

    For floating-point numbers, also one for each code and entry of its old panes.
    """

    def __init__(self, k: int, dtype: np.dtype[Any], columns: int) -> None:
        self.k = k
        self.last = np.full(k, -1)
        """The codes of its last answer."""
        self.place = np.zeros(PLACES, np.int64)
        """Its first pane, its first fresh pane and the end of its panes, in the lists."""
        self.refs = np.zeros(0, np.int32)
        self.fresh = self.old = np.zeros((0, columns), dtype)
        self.rest = Tape({"rest": self.old})

    @property
    def nbytes(self) -> int:
        arrays = (self.refs, self.fresh, self.old, self.last)
        return sum(int(array.nbytes) for array in arrays) + self.rest.nbytes

    def run(self, lists: PaneSums, windows: Windows, groups: Groups) -> tuple[Array, ...]:
        """Take all panes of the lists, and read windows; see ``fold_lists``."""
        known, first = lists.items.bound, int(self.place[HEAD])
        low = int(lists.starts[first])
        self.refs, self.fresh = grown(self.refs, known), grown(self.fresh, known)
        if lists.dtype.kind == "f":
            self.old = grown(self.old, known)
            new = len(lists.tape) - low - len(self.rest)
            self.rest.append(rest=np.zeros((new, self.old.shape[1]), lists.dtype))
        code, value, place = lists.tape["code"], lists.tape["value"], self.place - first
        starts = lists.starts[first:] - low
        best = fold_lists(
            PaneEntries(code[low:], value[low:], self.rest["rest"], lists.pane[first:], starts),
            place,
            Sums(self.old[:known], self.fresh[:known], self.refs[:known]),
            windows.first,
            windows.end,
            groups,
            BestCodes(lists.items.order_key, self.k, lists.items.item_type.decided, self.last),
        )
        if len(self.rest):
            self.rest.drop(int(starts[place[HEAD]]))
        self.place = place + first
        return best

    def _check(self, lists: PaneSums) -> None:
        head, flip, tail = self.place.tolist()
        assert 0 <= head <= tail == len(lists.pane)
        known, (low, old, high) = lists.items.bound, lists.starts[[head, max(head, flip), tail]]
        code, value = lists.tape["code"], lists.tape["value"]
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

    def __init__(
        self,
        item_type: ItemColumns,
        ks: Sequence[int],
        dtype: np.dtype[Any],
        grouped: bool,
        values: Sequence[str] = ("count",),
        answer: Answer | None = None,
    ) -> None:
        """``ks`` say how many items the windows of each size show; the first is the longest."""
        self.items = ItemCodes(item_type)
        self.dtype, self.grouped, self.values = dtype, grouped, values
        self.answer = self._counted if answer is None else answer
        self.group = np.zeros(0, np.int32)
        """The group of each code."""
        self.order = GroupOrder()
        self.tape = self._new_tape()
        self.pane, self.starts = np.zeros(0, np.int64), np.zeros(1, np.int64)
        self.sums = [WindowSums(k, dtype, len(values)) for k in ks]
        self.inserts = self.removals = self.updates = 0

    def _new_tape(self) -> Tape:
        values = np.zeros((0, len(self.values)), self.dtype)
        return Tape({"code": np.zeros(0, np.int32), "value": values})

    def __len__(self) -> int:
        return len(self.items)

    @property
    def most(self) -> int:
        """The most items that the windows of any size show."""
        return max(sums.k for sums in self.sums)

    @property
    def nbytes(self) -> int:
        arrays = sum(int(each.nbytes) for each in (self.group, self.pane, self.starts))
        return arrays + self.items.nbytes + self.tape.nbytes + sum(s.nbytes for s in self.sums)

    def stats(self) -> dict[str, int | float]:
        """The state's size and the operation counts."""
        counts = {"inserts": self.inserts, "removals": self.removals, "updates": self.updates}
        return {"retained": len(self), "state_bytes": self.nbytes, **counts}

    def keep(self, sizes: Sequence[int], ks: Sequence[int]) -> None:
        """Go on with the windows of some of the sizes only, which show so many items."""
        self.sums = [self.sums[i] for i in sizes]
        for sums, k in zip(self.sums, ks, strict=True):
            sums.k, sums.last = k, np.full(k, -1)
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
        for some, asked in self._stretches(panes, windows):
            groups = self._take(some, next((own.ranks for own in asked if len(own)), _NONE))
            for sums, own, answers in zip(self.sums, asked, pieces, strict=True):
                answers.append(self._read(sums, own, groups))
            self._expire()
        return [_joined(answers) for answers in pieces]

    def _early(self, panes: Runs, windows: Sequence[Windows]) -> list[Runs | None] | None:
        """The answers of all windows but the last, if they do not need the counts of all items.

        Panes that leave before the last window then never enter the state.
        """
        if self.grouped or self.dtype.kind != "i" or len(self.values) > 1:
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
        asked = [0 for _ in windows]
        while start < len(panes):
            most = offsets[start] + max(_STRETCH, len(self.items))
            stop = max(start + 1, int(np.searchsorted(offsets, most, side="right")) - 1)
            stop = int(np.searchsorted(stamp, stamp[stop - 1], side="right"))
            if stop == len(panes):
                break
            upto = [int(np.searchsorted(own.end, stamp[stop], side="right")) for own in windows]
            cuts = zip(windows, asked, upto, strict=True)
            yield panes.slice(start, stop), [own.slice(low, high) for own, low, high in cuts]
            start, asked = stop, upto
        rest = [own.slice(low, len(own)) for own, low in zip(windows, asked, strict=True)]
        yield panes.slice(start, len(panes)), rest

    def _take(self, panes: Runs, ranks: Ints) -> Groups:
        """Append panes to the lists; how answers go through the codes then."""
        codes, values = self._entries(panes)
        if len(panes):
            fresh = run_starts(panes.stamp)
            ends = np.append(panes.parts["items"].offsets[fresh[1:]], len(codes))
            self.starts = np.concatenate([self.starts, self.starts[-1] + ends])
            self.pane = np.concatenate([self.pane, panes.stamp[fresh]])
            self.tape.append(code=codes, value=values)
        known = self.items.bound
        if not self.grouped:  # then members, which would be all codes, are left out
            return Groups(_NONE, np.array([0, known], np.int64), np.zeros(1, np.int64))
        owners = self.group[:known].astype(np.int64)
        members, starts = counting_order(owners, int(owners.max()) + 1 if known else 0)
        return Groups(members, starts, self.order.of(len(starts) - 1, ranks))

    def _entries(self, panes: Runs) -> tuple[Codes, Array]:
        """Codes and values of the entries of new panes."""
        part = panes.parts["items"]
        hashes = self.items.item_type.hashes(part)
        if self.grouped:
            hashes = grouped_keys(hashes, panes.group, part.offsets)
        codes, rows, fresh = self.items.take(hashes, part)
        self.group = grown(self.group, self.items.bound)
        self.group[fresh] = panes.group[np.searchsorted(part.offsets, rows, side="right") - 1]
        self.inserts += len(fresh)
        self.updates += len(codes) - len(fresh)
        values = [np.asarray(part[name], self.dtype) for name in self.values]
        return codes, np.stack(values, axis=1)

    def _expire(self) -> None:
        """Drop the panes that have left the windows of all sizes."""
        gone = min(int(sums.place[HEAD]) for sums in self.sums)
        if not gone:
            return
        entries = int(self.starts[gone])
        self.removals += self.items.drop(self.tape["code"][:entries])
        self.tape.drop(entries)
        self.pane, self.starts = self.pane[gone:], self.starts[gone:] - entries
        for sums in self.sums:
            sums.place -= gone

    # Answers ----------------------------------------------------------------------------------

    def _read(self, sums: WindowSums, windows: Windows, groups: Groups) -> Runs | None:
        code, value, ended, end, per_window, rest = sums.run(self, windows, groups)
        if not len(windows):
            return None
        which = np.repeat(np.arange(len(windows)), per_window)
        cut = (windows.number[which], windows.first[which], windows.end[which])
        return self._best(Windows(*cut, windows.ranks, ended), end, code, value, rest)

    def partial(self, first: int, end: int, group: int | None) -> Runs:
        """The best items of each group over the live panes ``[first, end)``."""
        code, value = self.tape["code"], self.tape["value"]
        inside = self._inside(first, end)
        if group is not None:
            inside &= self.group[code] == group
        code, value = code[inside], value[inside]
        order = np.argsort(self.group[code], kind="stable")
        code, value = code[order], value[order]
        low = run_starts(self.group[code])
        whole = np.full(len(low), first), np.full(len(low), end)
        asked = Windows(np.zeros(len(low), np.int64), *whole, _NONE, self.group[code[low]])
        stop = np.append(low[1:], len(code))[: len(low)]
        items, ks = self.items, np.full(len(low), self.most)
        keys, decided = items.order_key, items.item_type.decided
        code, value, stop, rest = recount(code, value, low, stop, ks, keys, decided)
        return self._best(asked, stop, code, value, rest)

    def totals(self, first: int, end: int, group: int) -> Part:
        """The counts of all items of a group over the live panes ``[first, end)``, in any order."""
        code, value = self.tape["code"], self.tape["value"]
        inside = self._inside(first, end) & (self.group[code] == group)
        return self.items.summed(code[inside], value[inside, 0])

    def _inside(self, first: int, end: int) -> Mask:
        """Which entries are in the panes ``[first, end)``."""
        low, high = np.searchsorted(self.pane, [first, end])
        inside = np.zeros(len(self.tape), np.bool_)
        inside[self.starts[low] : self.starts[high]] = True
        return inside

    def _best(self, asked: Windows, end: Ints, code: Array, value: Array, rest: Array) -> Runs:
        """Answers from the best codes and their sums, one for each (window, group) of ``asked``."""
        columns: dict[str, Any] = {name: value[:, i] for i, name in enumerate(self.values)}
        offsets = offsets_of(np.diff(end, prepend=0))
        return self.answer(asked, Part(offsets, columns | self.items.store.gather(code)), rest)

    def _counted(self, asked: Windows, part: Part, rest: Array) -> Runs:
        assert asked.group is not None
        best = self.items.item_type.ranked(part, self.most)
        return Runs(asked.number, asked.group, {"items": best})

    # State ------------------------------------------------------------------------------------

    def state(self) -> State:
        """Flat arrays for a snapshot; sums are made again from the lists."""
        return self.items.state() | prefixed("tape/", self.tape.state()) | {
            "group": self.group[: self.items.bound].copy(),
            "pane": self.pane,
            "starts": self.starts,
            "heads": np.array([sums.place[HEAD] for sums in self.sums]),
            "counts": np.array([self.inserts, self.removals, self.updates], np.int64),
        }  # fmt: skip

    def restore(self, arrays: Saved) -> None:
        """Restore from a snapshot."""
        like = {"group": self.group, "pane": _NONE, "starts": _NONE, "heads": _NONE}
        like |= {"counts": _NONE, **prefixed("tape/", self._new_tape().state())}
        saved = admitted(arrays, like, self._forms(len(arrays["pane"])))
        self.tape = Tape(under(saved, "tape/"))
        self.items.restore(arrays, self.tape["code"])
        self.group, self.pane, self.starts = (saved[n] for n in ("group", "pane", "starts"))
        require(len(self.group) == self.items.bound, "an item has no group")
        inside = self.starts[0] == 0 and self.starts[-1] in (0, len(self.tape))
        require(inside, "entries of no pane")
        self.inserts, self.removals, self.updates = saved["counts"].tolist()
        self.sums = [WindowSums(sums.k, self.dtype, len(self.values)) for sums in self.sums]
        for sums, head in zip(self.sums, saved["heads"].tolist(), strict=True):
            sums.place[:] = head
            self._make(sums)

    def _forms(self, panes: int) -> dict[str, Form]:
        tape = dict.fromkeys(("tape/code", "tape/value"), Form("entries"))
        return tape | {
            "group": Form("group", 0),
            "pane": Form(panes, ascends=True),
            "starts": Form(panes + 1, 0, ascends=True),
            "heads": Form(len(self.sums), 0, panes + 1),
            "counts": Form(3),
        }

    def _make(self, sums: WindowSums) -> None:
        """Add up the lists from its first pane on."""
        sums.run(self, NO_WINDOWS, Groups(_NONE, _NONE, _NONE))

    def _check(self) -> None:
        self.items._check(self.tape["code"])
        assert len(self.pane) == len(self.starts) - 1
        assert self.starts[0] == 0
        assert self.starts[-1] == len(self.tape)
        assert (np.diff(self.pane) > 0).all()
        for sums in self.sums:
            sums._check(self)


class OwnWindows(PaneSums):
    """For count windows of groups: each group has its own windows, so its panes expire by itself.

    Entries are kept in order of (group, pane), with a pane for each; each window is counted from
    scratch, so that no sums are kept.
    """

    def fold(self, panes: Runs, windows: Sequence[Windows]) -> list[Runs | None]:
        codes, values = self._entries(panes)
        stamps = np.repeat(panes.stamp, panes.parts["items"].lengths)
        code = np.concatenate([self.tape["code"], codes])
        value = np.concatenate([self.tape["value"], values])
        stamp = np.concatenate([self.pane, stamps])
        order = np.argsort(self.group[code], kind="stable")
        code, value, stamp = code[order], value[order], stamp[order]
        owner = self.group[code].astype(np.int64)
        answers: list[Runs | None] = [None for _ in windows]
        if len(windows[0]):
            answers = self._recounted(windows, code, value, (owner << _PANE_BITS) + stamp)
            live = self._needed(owner, stamp, windows[0])
            self.removals += self.items.drop(code[~live])
            code, value, stamp = code[live], value[live], stamp[live]
        self.tape = self._new_tape()
        self.tape.append(code=code, value=value)
        self.pane = stamp
        return answers

    def _recounted(
        self, windows: Sequence[Windows], code: Array, value: Array, key: Ints
    ) -> list[Runs | None]:
        """The answers of windows of each size; ``key`` has the group and pane of each entry."""
        cuts = []
        for own in windows:
            assert own.group is not None
            group = own.group.astype(np.int64) << _PANE_BITS
            cuts.append([np.searchsorted(key, group + edge) for edge in (own.first, own.end)])
        low, high = np.concatenate(cuts, axis=1)
        ks = np.repeat([sums.k for sums in self.sums], [len(own) for own in windows])
        order = np.lexsort((-low, high))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        keys, decided = self.items.order_key, self.items.item_type.decided
        code, value, end, rest = recount(
            code, value, low[order], high[order], ks[order], keys, decided
        )
        best = Part(offsets_of(np.diff(end, prepend=0)), {"code": code, "value": value}).take(back)
        answers: list[Runs | None] = []
        start = 0
        for own in windows:
            some, left = best.slice(start, start + len(own)), rest[back[start : start + len(own)]]
            answers.append(self._best(own, some.offsets[1:], some["code"], some["value"], left))
            start += len(own)
        return answers

    def _needed(self, owner: Ints, stamp: Ints, longest: Windows) -> Mask:
        """Until a group's next window, the panes of its last one may be read again."""
        assert longest.group is not None
        groups = longest.group
        needed = np.zeros(int(max(owner.max(initial=0), groups.max())) + 1, np.int64)
        np.maximum.at(needed, groups, longest.first)
        return stamp >= needed[owner]

    def _expire(self) -> None:
        """What has left the windows of all sizes goes with the next panes."""

    def _inside(self, first: int, end: int) -> Mask:
        return (self.pane >= first) & (self.pane < end)

    def _make(self, sums: WindowSums) -> None:
        """There are none."""

    def _forms(self, panes: int) -> dict[str, Form]:
        one = {"starts": Form(1, 0, 1), "heads": Form(len(self.sums), 0, 1)}
        return super()._forms(panes) | {"pane": Form("entries"), **one}

    def _check(self) -> None:
        self.items._check(self.tape["code"])
        assert len(self.pane) == len(self.tape)


def _joined(pieces: Sequence[Runs | None]) -> Runs | None:
    some = [each for each in pieces if each is not None]
    return Runs.concat(some) if some else None
