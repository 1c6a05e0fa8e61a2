"""Sums over the lists of the window's panes: a state of ``exact``, and that of ``fsp``.

Each sealed pane is a list of items with their values: a count and, for lists with errors, more.
Each live (group, item) gets an integer code; kernels work on codes only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from skyband.arrays import Array, Codes, Ints, Mask, Saved, State
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, offsets_of, run_starts
from skyband.data.flat_state import Form, admitted, require
from skyband.data.packing import prefixed, under
from skyband.frequency.items import ItemColumns
from skyband.frequency.listed import from_listed
from skyband.frequency.tape import Tape
from skyband.frequency.window_counts import CodedCounts
from skyband.kernels.core.arrange import counting_order
from skyband.kernels.frequency.counting import grouped_keys
from skyband.kernels.frequency.pane_sums import (
    FLIP,
    HEAD,
    TAIL,
    Best,
    Groups,
    Lists,
    Sums,
    dead_codes,
    fold_lists,
    recount,
)

__all__ = ["OwnWindows", "PaneSums"]

Answer = Callable[[Windows, Part, Array], Runs]
"""Makes answers from the best items of (window, group) pairs and the sums of their values.

The array has, for lists with errors, the greatest count minus ``absent`` of the other items."""

_STRETCH = 1 << 16
_PANE_BITS = 40
"""Bits for the pane in a sort key of (group, pane): 2^40 panes per group are enough."""
_NONE = np.zeros(0, np.int64)


class PaneSums(CodedCounts):
    """Sums each item over the lists of the window's panes, and finds the best k sums.

    Cost: O(1) per list entry when its pane arrives and when it expires, and one pass over the
    window's items per answer. State: the entries of the live lists, and each item once.
    """

    by_code = saved_by_code = ("order_key", "group", "refs", "old", "fresh")

    def __init__(
        self,
        item_type: ItemColumns,
        k: int,
        dtype: np.dtype[Any],
        grouped: bool,
        values: Sequence[str] = ("count",),
        answer: Answer | None = None,
    ) -> None:
        super().__init__(item_type, k)
        self.dtype, self.grouped, self.values = dtype, grouped, values
        self.answer = self._counted if answer is None else answer
        self.group = np.zeros(0, np.int32)
        self.refs = np.zeros(0, np.int32)
        self.old = np.zeros((0, len(values)), dtype)
        self.fresh = np.zeros((0, len(values)), dtype)
        self.tape = self._new_tape()
        self.pane = np.zeros(0, np.int64)
        self.starts = np.zeros(1, np.int64)
        self.flip = 0

    def _new_tape(self) -> Tape:
        values = np.zeros((0, len(self.values)), self.dtype)
        return Tape({"code": np.zeros(0, np.int32), "value": values, "rest": values})

    def __len__(self) -> int:
        return len(self.index)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.tape.nbytes + self.pane.nbytes + self.starts.nbytes

    # Panes ------------------------------------------------------------------------------------

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        early = self._early(panes, windows)
        if early is None:
            return self.fold_all(panes, windows)
        stay = int(np.searchsorted(panes.stamp, windows.first[-1]))
        last = windows.slice(len(windows) - 1, len(windows))
        answers = self.fold_all(panes.slice(stay, len(panes)), last)
        return early if answers is None else Runs.concat([early, answers])

    def fold_all(self, panes: Runs, windows: Windows) -> Runs | None:
        """Take all entries of the panes, and read the windows."""
        found = []
        for some, asked in self._stretches(panes, windows):
            answers = self._fold_some(some, asked)
            if len(asked):
                found.append(answers)
        return Runs.concat(found) if found else None

    def _early(self, panes: Runs, windows: Windows) -> Runs | None:
        """The answers of all windows but the last, if they do not need the counts of all items.

        Panes that leave before the last window then never enter the state.
        """
        if len(windows) < 2 or self.grouped or self.dtype.kind != "i" or len(self.values) > 1:
            return None
        empty = PaneSums(self.item_type, self.k, self.dtype, grouped=False)
        return from_listed(self, empty, panes, windows.slice(0, len(windows) - 1))

    def _stretches(self, panes: Runs, windows: Windows) -> Iterator[tuple[Runs, Windows]]:
        """Split panes and windows into stretches that add no more entries than are live.

        Answering a window takes a pass over all codes, which should not include those of items
        that come only much later. A stretch of ``_STRETCH`` entries is always allowed.
        """
        offsets, stamp, start, asked = panes.parts["items"].offsets, panes.stamp, 0, 0
        while start < len(panes):
            most = offsets[start] + max(_STRETCH, len(self.index))
            stop = max(start + 1, int(np.searchsorted(offsets, most, side="right")) - 1)
            stop = int(np.searchsorted(stamp, stamp[stop - 1], side="right"))
            if stop == len(panes):
                break
            upto = int(np.searchsorted(windows.end, stamp[stop], side="right"))
            yield panes.slice(start, stop), windows.slice(asked, upto)
            start, asked = stop, upto
        yield panes.slice(start, len(panes)), windows.slice(asked, len(windows))

    def _fold_some(self, panes: Runs, windows: Windows) -> Runs:
        pushed = len(self.pane)
        self._append(panes)
        place = np.array([0, self.flip, len(self.pane)], np.int64)
        place[TAIL] = pushed
        members, groups = self._members()
        known, many = self.index.bound, len(groups) - 1
        code, value, ended, end, per_window, rest = fold_lists(
            Lists(self.tape["code"], self.tape["value"], self.tape["rest"], self.pane, self.starts),
            place,
            Sums(self.old[:known], self.fresh[:known], self.refs[:known]),
            windows.first,
            windows.end,
            Groups(members, groups, self.sequence(many, windows.ranks)),
            Best(self.order_key[:known], self.k, self.item_type.decided),
        )
        which = np.repeat(np.arange(len(windows)), per_window)
        asked = Windows(
            windows.number[which], windows.first[which], windows.end[which], windows.ranks, ended
        )
        answers = self._best(asked, end, code, value, rest)
        self._expire(place)
        return answers

    def _entries(self, panes: Runs) -> tuple[Codes, Array]:
        """Codes and values of the entries of new panes."""
        part = panes.parts["items"]
        hashes = self.item_type.hashes(part)
        if self.grouped:
            hashes = grouped_keys(hashes, panes.group, part.offsets)
        codes, rows, fresh = self._encode(hashes, part)
        self.group[fresh] = panes.group[np.searchsorted(part.offsets, rows, side="right") - 1]
        self.inserts += len(fresh)
        self.updates += len(codes) - len(fresh)
        values = [np.asarray(part[name], self.dtype) for name in self.values]
        return codes, np.stack(values, axis=1)

    def _append(self, panes: Runs) -> None:
        codes, values = self._entries(panes)
        if not len(panes):
            return
        fresh = run_starts(panes.stamp)
        ends = np.append(panes.parts["items"].offsets[fresh[1:]], len(codes))
        self.starts = np.concatenate([self.starts, self.starts[-1] + ends])
        self.pane = np.concatenate([self.pane, panes.stamp[fresh]])
        self.tape.append(code=codes, value=values, rest=np.zeros_like(values))

    def _members(self) -> tuple[Ints, Ints]:
        """Codes by group, and the groups' offsets; with a single group the codes are omitted."""
        known = self.index.bound
        if not self.grouped:
            return np.zeros(0, np.int64), np.array([0, known], np.int64)
        owners = self.group[:known].astype(np.int64)
        return counting_order(owners, int(owners.max()) + 1 if known else 0)

    def _expire(self, place: Ints) -> None:
        """Drop the entries of panes that left the window, and the items that left with them."""
        gone = int(place[HEAD])
        if gone:
            entries = int(self.starts[gone])
            self._release(self.tape["code"][:entries])
            self.tape.drop(entries)
            self.pane = self.pane[gone:]
            self.starts = self.starts[gone:] - entries
        self.flip = int(place[FLIP]) - gone

    def _release(self, codes: Codes) -> None:
        dead = dead_codes(codes, self.refs)
        if len(dead):
            self.old[dead] = 0
            self.fresh[dead] = 0
            self.index.release(dead)
            self.removals += len(dead)

    # Answers ----------------------------------------------------------------------------------

    def partial(self, first: int, end: int, group: int | None) -> Runs:
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
        return self._recounted(asked, code, value, low, np.append(low[1:], len(code))[: len(low)])

    def totals(self, first: int, end: int, group: int) -> Part:
        code, value = self.tape["code"], self.tape["value"]
        inside = self._inside(first, end) & (self.group[code] == group)
        return self._summed(code[inside], value[inside, 0])

    def _inside(self, first: int, end: int) -> Mask:
        """Which entries are in the panes ``[first, end)``."""
        low, high = np.searchsorted(self.pane, [first, end])
        inside = np.zeros(len(self.tape), np.bool_)
        inside[self.starts[low] : self.starts[high]] = True
        return inside

    def _recounted(self, asked: Windows, code: Array, value: Array, low: Ints, high: Ints) -> Runs:
        """Answers counted from scratch, each over the entries from ``low`` to ``high``."""
        known, decided = self.index.bound, self.item_type.decided
        keys = self.order_key[:known]
        found, sums, end, rest = recount(code, value, low, high, known, keys, self.k, decided)
        return self._best(asked, end, found, sums, rest)

    def _best(self, asked: Windows, end: Ints, code: Array, value: Array, rest: Array) -> Runs:
        """Answers from the best codes and their sums, one for each (window, group) of ``asked``."""
        columns: dict[str, Any] = {name: value[:, i] for i, name in enumerate(self.values)}
        offsets = offsets_of(np.diff(end, prepend=0))
        return self.answer(asked, Part(offsets, columns | self.store.gather(code)), rest)

    def _counted(self, asked: Windows, part: Part, rest: Array) -> Runs:
        assert asked.group is not None
        return self._answers(asked.number, asked.group, part)

    # State ------------------------------------------------------------------------------------

    def state(self) -> State:
        counts = [self.flip, self.inserts, self.removals, self.updates]
        return super().state() | prefixed("tape/", self.tape.state()) | {
            "pane": self.pane, "starts": self.starts, "counts": np.array(counts, np.int64)
        }  # fmt: skip

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        like = dict.fromkeys(("pane", "starts", "counts"), _NONE)
        like |= prefixed("tape/", self._new_tape().state())
        saved = admitted(arrays, like, self._forms(len(arrays["pane"])))
        self.tape = Tape(under(saved, "tape/"))
        self.pane, self.starts = saved["pane"], saved["starts"]
        self.flip, self.inserts, self.removals, self.updates = saved["counts"].tolist()
        inside = 0 == self.starts[0] <= self.flip < len(self.starts) and (self.group >= 0).all()
        require(inside and self.starts[-1] in (0, len(self.tape)), "entries of no pane")
        self._admit(self.tape["code"], self.refs)

    def _forms(self, panes: int) -> dict[str, Form]:
        starts, pane = Form(panes + 1, 0, ascends=True), Form(panes, ascends=True)
        tape = dict.fromkeys(("tape/code", "tape/value", "tape/rest"), Form("entries"))
        return tape | {"pane": pane, "starts": starts, "counts": Form(4)}

    def _check(self) -> None:
        self._check_codes()
        code, value = self.tape["code"], self.tape["value"]
        known = self.index.bound
        assert len(self.pane) == len(self.starts) - 1
        assert self.starts[[0, -1]].tolist() == [0, len(code)]
        assert (np.diff(self.pane) > 0).all()
        for v in range(len(self.values)):
            sums = np.bincount(code, weights=value[:, v], minlength=known)
            assert np.allclose(sums, self.old[:known, v] + self.fresh[:known, v])
            before = int(self.starts[self.flip])
            sums = np.bincount(code[:before], weights=value[:before, v], minlength=known)
            assert np.allclose(sums, self.old[:known, v])

    def _check_codes(self) -> None:
        """Assert that the codes in use are those of the tape."""
        self.index._check()
        known, live = self.index.bound, self.index.codes()
        assert np.array_equal(np.bincount(self.tape["code"], minlength=known), self.refs[:known])
        assert (self.refs[live] > 0).all()
        assert len(live) == np.count_nonzero(self.refs[:known])


class OwnWindows(PaneSums):
    """For count windows of groups: each group has its own windows, so its panes expire by itself.

    Entries are kept in order of (group, pane), with a pane for each; each window is counted from
    scratch.
    """

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        codes, values = self._entries(panes)
        stamps = np.repeat(panes.stamp, panes.parts["items"].lengths)
        np.add.at(self.refs, codes, 1)
        code = np.concatenate([self.tape["code"], codes])
        value = np.concatenate([self.tape["value"], values])
        stamp = np.concatenate([self.pane, stamps])
        order = np.argsort(self.group[code], kind="stable")
        code, value, stamp = code[order], value[order], stamp[order]
        owner = self.group[code].astype(np.int64)
        answers = None
        if len(windows):
            assert windows.group is not None
            groups = windows.group.astype(np.int64)
            key = (owner << _PANE_BITS) + stamp
            low = np.searchsorted(key, (groups << _PANE_BITS) + windows.first)
            high = np.searchsorted(key, (groups << _PANE_BITS) + windows.end)
            answers = self._recounted(windows, code, value, low, high)
            # Until a group's next window, the panes of its last one may be read again.
            needed = np.zeros(int(max(owner.max(initial=0), groups.max())) + 1, np.int64)
            np.maximum.at(needed, groups, windows.first)
            live = stamp >= needed[owner]
            np.subtract.at(self.refs, code[~live], 1)
            self._release(code[~live])
            code, value, stamp = code[live], value[live], stamp[live]
        self.tape = self._new_tape()
        self.tape.append(code=code, value=value, rest=np.zeros_like(value))
        self.pane = stamp
        return answers

    def _forms(self, panes: int) -> dict[str, Form]:
        return super()._forms(panes) | {"pane": Form("entries"), "starts": Form(1, 0, 1)}

    def _inside(self, first: int, end: int) -> Mask:
        return (self.pane >= first) & (self.pane < end)

    def _check(self) -> None:
        self._check_codes()
