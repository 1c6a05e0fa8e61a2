"""A window of pane lists: the state that ``exact`` and ``fsp`` share.

Each sealed pane is a list of items with their values: a count and, for lists with errors, more.
Each live (group, item) gets an integer code; kernels work on codes only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.arrays import Array, Ints
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.data.keys import KeyIndex
from skyband.data.packing import under
from skyband.frequency.base import FrequencySynopsis
from skyband.frequency.items import ItemStore, keys_decide, order_keys, ranked
from skyband.kernels.core.arrange import counting_order
from skyband.kernels.core.hashing import hash_int64
from skyband.kernels.frequency.counting import grouped_keys
from skyband.kernels.frequency.pane_sums import FLIP, HEAD, TAIL, dead_codes, fold_lists, recount
from skyband.window import CountWindow

__all__ = ["PaneLists"]


class Tape:
    """Columns that grow at the end and shrink at the front, both in O(1) amortised."""

    def __init__(self, columns: Mapping[str, Array]) -> None:
        self._columns = {name: np.array(column) for name, column in columns.items()}
        self._low = 0
        self._high = len(next(iter(self._columns.values())))

    def __len__(self) -> int:
        return self._high - self._low

    def __getitem__(self, name: str) -> Array:
        return self._columns[name][self._low : self._high]

    def append(self, **columns: Array) -> None:
        """Add rows at the end."""
        count = len(next(iter(columns.values())))
        room = len(next(iter(self._columns.values())))
        if self._high + count > room:
            live = len(self)
            size = max(room, 2 * (live + count))
            for name, column in self._columns.items():
                moved = np.zeros((size, *column.shape[1:]), column.dtype)
                moved[:live] = column[self._low : self._high]
                self._columns[name] = moved
            self._low, self._high = 0, live
        for name, column in columns.items():
            self._columns[name][self._high : self._high + count] = column
        self._high += count

    def drop(self, count: int) -> None:
        """Remove rows at the front."""
        self._low += count

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self._columns.values())


class PaneLists(FrequencySynopsis):
    """Sums each item over the lists of the window's panes, and finds the best k sums."""

    many_groups = True
    values = 1
    """The number of values per list entry: the count comes first, then errors, if any."""

    def start(self) -> None:
        self.store: ItemStore = self.new_store()
        self.index = KeyIndex()
        self.order_key = np.zeros(0, np.int64)
        self.group = np.zeros(0, np.int32)
        self.refs = np.zeros(0, np.int32)
        self.old = np.zeros((0, self.values), self.dtype)
        self.fresh = np.zeros((0, self.values), self.dtype)
        self.tape = self._new_tape(0)
        self.pane = np.zeros(0, np.int64)
        self.starts = np.zeros(1, np.int64)
        self.flip = 0
        self.ranks = self.order = _NONE
        self.inserts = self.removals = self.updates = 0

    def _new_tape(self, size: int) -> Tape:
        values = np.zeros((size, self.values), self.dtype)
        return Tape({"code": np.zeros(size, np.int32), "value": values, "rest": values})

    @property
    def own_windows(self) -> bool:
        """Whether each group has its own windows, so that panes expire group by group."""
        return isinstance(self.query.window, CountWindow) and bool(self.query.groups)

    @property
    def decided(self) -> bool:
        """Whether order keys alone can order any two items."""
        return keys_decide(self.store.kinds)

    # Panes ------------------------------------------------------------------------------------

    def fold(self, panes: Runs, windows: Windows, final: bool = False) -> Runs | None:
        if self.own_windows:
            return self._fold_own(panes, windows)
        found = []
        for some, asked in self._stretches(panes, windows):
            answers = self._fold_some(some, asked)
            if len(asked):
                found.append(answers)
        return Runs.concat(found) if found else None

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
            yield panes.slice(start, stop), _some(windows, asked, upto)
            start, asked = stop, upto
        yield panes.slice(start, len(panes)), _some(windows, asked, len(windows))

    def _fold_some(self, panes: Runs, windows: Windows) -> Runs:
        part = panes.parts["items"]
        codes = self._encode(panes, part)
        values = self._values(panes, part)
        self._append(panes.stamp, part.offsets, codes, values)
        place = np.array([0, self.flip, len(self.pane)], np.int64)
        place[TAIL] = self._pushed
        members, groups = self._members()
        known = self.index.bound
        code, value, ended, end, per_window = fold_lists(
            self.tape["code"], self.tape["value"], self.tape["rest"], self.pane, self.starts, place,
            self.old[:known], self.fresh[:known], self.refs[:known], windows.first, windows.end,
            members, groups, self._sequence(len(groups) - 1, windows), self.order_key[:known],
            self.query.k, self.decided,
        )  # fmt: skip
        which = np.repeat(np.arange(len(windows)), per_window)
        asked = Windows(
            windows.number[which], windows.first[which], windows.end[which], windows.ranks, ended
        )
        answers = self._answers(asked, offsets_of(np.diff(end, prepend=0)), code, value)
        self._expire(place)
        return answers

    def hashes_of(self, part: Part) -> npt.NDArray[np.uint64]:
        """Hashes of the items of a part."""
        if not len(part):
            return np.zeros(0, np.uint64)
        if "hash" in part.columns:
            return np.ascontiguousarray(part["hash"])
        return hash_int64(self.integers(part).view(np.int64))

    def _encode(self, panes: Runs, part: Part) -> npt.NDArray[np.int32]:
        """Codes of the entries of new panes; items seen for the first time go into the store."""
        hashes = self.hashes_of(part)
        if self.query.groups:
            hashes = grouped_keys(hashes, panes.group, part.offsets)
        codes, rows, fresh = self.index.encode(hashes)
        if len(fresh):
            self._reserve(self.index.bound)
            self.store.put(fresh, part, rows)
            kept = self.store.gather(fresh)
            self.order_key[fresh] = order_keys([kept[f"item:{name}"] for name in self.items])
            runs = np.searchsorted(part.offsets, rows, side="right") - 1
            self.group[fresh] = panes.group[runs]
            self.inserts += len(fresh)
        self.updates += len(codes) - len(fresh)
        return codes

    def _values(self, panes: Runs, part: Part) -> Array:
        """The values of the entries of new panes, one row per entry."""
        return np.asarray(part["count"], self.dtype).reshape(-1, 1)

    def _reserve(self, codes: int) -> None:
        if codes <= len(self.refs):
            return
        size = max(codes, 2 * len(self.refs))
        for name in ("order_key", "group", "refs", "old", "fresh"):
            column = getattr(self, name)
            grown = np.zeros((size, *column.shape[1:]), column.dtype)
            grown[: len(column)] = column
            setattr(self, name, grown)

    def _append(self, stamp: Ints, offsets: Ints, codes: Array, values: Array) -> None:
        self._pushed = len(self.pane)
        if not len(stamp):
            return
        changed = np.append(True, stamp[1:] != stamp[:-1])
        cuts = np.append(offsets[:-1][changed], offsets[-1])
        self.starts = np.concatenate([self.starts, self.starts[-1] + cuts[1:]])
        self.pane = np.concatenate([self.pane, stamp[changed]])
        self.tape.append(code=codes, value=values, rest=np.zeros_like(values))

    def _members(self) -> tuple[Ints, Ints]:
        """Codes by group, and the groups' offsets; with a single group the codes are omitted."""
        known = self.index.bound
        if not self.query.groups:
            return np.zeros(0, np.int64), np.array([0, known], np.int64)
        owners = self.group[:known].astype(np.int64)
        return counting_order(owners, int(owners.max()) + 1 if known else 0)

    def _sequence(self, many: int, windows: Windows) -> Ints:
        """Groups in the order of their keys, as answers show them."""
        if len(windows.ranks) < many or many <= 1:
            return np.arange(many)
        if self.ranks is not windows.ranks:
            self.ranks, self.order = windows.ranks, np.argsort(windows.ranks, kind="stable")
        return self.order if many == len(self.order) else self.order[self.order < many]

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

    def _release(self, codes: npt.NDArray[np.int32]) -> None:
        dead = dead_codes(codes, self.refs)
        if len(dead):
            self.old[dead] = 0
            self.fresh[dead] = 0
            self.index.release(dead)
            self.removals += len(dead)

    # Count windows of groups ------------------------------------------------------------------

    def _fold_own(self, panes: Runs, windows: Windows) -> Runs | None:
        """Entries are kept in order of (group, pane); each window is counted from scratch."""
        codes = self._encode(panes, panes.parts["items"])
        values = self._values(panes, panes.parts["items"])
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
        self.tape = self._new_tape(0)
        self.tape.append(code=code, value=value, rest=np.zeros_like(value))
        self.pane = stamp
        return answers

    def _recounted(self, asked: Windows, code: Array, value: Array, low: Ints, high: Ints) -> Runs:
        known = self.index.bound
        keys = self.order_key[:known]
        found, sums, end = recount(code, value, low, high, known, keys, self.query.k, self.decided)
        return self._answers(asked, offsets_of(np.diff(end, prepend=0)), found, sums)

    # Answers ----------------------------------------------------------------------------------

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        code, value = self.tape["code"], self.tape["value"]
        if self.own_windows:
            inside = (self.pane >= first) & (self.pane < end)
        else:
            low, high = np.searchsorted(self.pane, [first, end])
            inside = np.zeros(len(code), np.bool_)
            inside[self.starts[low] : self.starts[high]] = True
        if group is not None:
            inside &= self.group[code] == group
        code, value = code[inside], value[inside]
        order = np.argsort(self.group[code], kind="stable")
        code, value = code[order], value[order]
        owner = self.group[code]
        cuts = np.flatnonzero(np.diff(owner)) + 1
        low = np.append(0, cuts) if len(code) else np.zeros(0, np.int64)
        high = np.append(cuts, len(code)) if len(code) else low
        whole = np.full(len(low), first), np.full(len(low), end)
        asked = Windows(np.zeros(len(low), np.int64), *whole, _NONE, owner[low])
        return self._recounted(asked, code, value, low, high)

    def _answers(self, asked: Windows, offsets: Ints, code: Array, value: Array) -> Runs:
        """Answers from the best codes and their sums, one for each (window, group) of ``asked``."""
        columns: dict[str, Any] = {"count": value[:, 0], **self.store.gather(code)}
        part = Part(offsets, columns)
        if not self.decided:
            part = ranked(part, self.items, self.query.k)
        assert asked.group is not None
        return Runs(asked.number, asked.group, {"items": part})

    # State ------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Array]:
        known = self.index.bound
        arrays = {f"index/{name}": value for name, value in self.index.state().items()}
        arrays |= self.store.state()
        for name in ("order_key", "group", "refs", "old", "fresh"):
            arrays[name] = getattr(self, name)[:known].copy()
        arrays |= {f"tape/{name}": self.tape[name].copy() for name in ("code", "value", "rest")}
        counts = [self.flip, self.inserts, self.removals, self.updates]
        return arrays | {
            "pane": self.pane, "starts": self.starts, "counts": np.array(counts, np.int64)
        }  # fmt: skip

    def restore(self, arrays: Mapping[str, Array]) -> None:
        self.index = KeyIndex.from_state(under(arrays, "index/"))
        self.store.restore(arrays)
        for name in ("order_key", "group", "refs", "old", "fresh"):
            setattr(self, name, arrays[name].copy())
        self.tape = Tape({name: arrays[f"tape/{name}"] for name in ("code", "value", "rest")})
        self.pane, self.starts = arrays["pane"].copy(), arrays["starts"].copy()
        self.flip, self.inserts, self.removals, self.updates = arrays["counts"].tolist()

    def stats(self) -> dict[str, int | float]:
        arrays = (self.order_key, self.group, self.refs, self.old, self.fresh)
        held = sum(array.nbytes for array in (*arrays, self.pane, self.starts))
        return {
            "retained": len(self.index),
            "state_bytes": held + self.tape.nbytes + self.index.nbytes + self.store.nbytes,
            "inserts": self.inserts,
            "removals": self.removals,
            "updates": self.updates,
        }

    def _check(self) -> None:
        self.index._check()
        code, value = self.tape["code"], self.tape["value"]
        known = self.index.bound
        assert np.array_equal(np.bincount(code, minlength=known), self.refs[:known])
        live = self.index.codes()
        assert (self.refs[live] > 0).all()
        assert len(live) == np.count_nonzero(self.refs[:known])
        if self.own_windows:
            return
        assert len(self.pane) == len(self.starts) - 1
        assert self.starts[0] == 0
        assert self.starts[-1] == len(code)
        assert (np.diff(self.pane) > 0).all()
        for v in range(self.values):
            sums = np.bincount(code, weights=value[:, v], minlength=known)
            assert np.allclose(sums, self.old[:known, v] + self.fresh[:known, v])
            before = int(self.starts[self.flip])
            sums = np.bincount(code[:before], weights=value[:before, v], minlength=known)
            assert np.allclose(sums, self.old[:known, v])


_STRETCH = 1 << 16
_PANE_BITS = 40
"""Bits for the pane in a sort key of (group, pane): 2^40 panes per group are enough."""

_NONE = np.zeros(0, np.int64)


def _some(windows: Windows, start: int, stop: int) -> Windows:
    """A slice of windows that all groups share."""
    return Windows(
        windows.number[start:stop],
        windows.first[start:stop],
        windows.end[start:stop],
        windows.ranks,
    )
