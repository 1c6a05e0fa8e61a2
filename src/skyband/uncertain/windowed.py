"""State over sealed panes: retained rows, the window's compact set and what an algorithm adds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Floats, Ints, Saved, State, grown
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.data.column_store import ColumnStore
from skyband.data.flat_state import Form, admitted, require
from skyband.data.packing import prefixed, under
from skyband.data.retained_rows import RetainedRows
from skyband.kernels.patient import patient
from skyband.query.uncertain import UncertainTopK
from skyband.uncertain.base import UncertainSynopsis
from skyband.uncertain.kernels import compact, types
from skyband.uncertain.kernels.head import (
    ENTERED,
    EXPIRED,
    FULL,
    UNREAD,
    Cursor,
    Head,
    HeadAnswer,
    WindowAnswers,
    walk,
)
from skyband.uncertain.kernels.types import FAR, KEEP, UncertainRowsState

__all__ = [
    "UncertainRows",
    "WindowedSynopsis",
]

# Retained rows by slot: flat arrays, and the ids and kept columns in column stores ---------------


_COLUMNS = {"key": np.int64, "tie": np.int64, "prob": np.float64, "pane": np.int64}


class UncertainRows:
    """Rows in order of their panes, and within a pane in row order; ``keep`` drops dead ones.

    Appending takes time in proportion to the rows appended, amortised, as arrays double when they
    are full; ``keep`` takes time in proportion to the rows kept.
    """

    def __init__(
        self, id_type: pa.DataType | None, kept: Mapping[str, pa.DataType] | None = None
    ) -> None:
        self.length = 0
        self.arrays: State = {n: np.zeros(0, d) for n, d in _COLUMNS.items()}
        self.ids = None if id_type is None else ColumnStore(id_type)
        self.kept = RetainedRows(kept or {})
        self.rows = self._view()

    def __len__(self) -> int:
        return self.length

    @property
    def nbytes(self) -> int:
        own = sum(array.nbytes for array in self.arrays.values())
        return own + (0 if self.ids is None else self.ids.nbytes) + self.kept.nbytes

    def _view(self) -> UncertainRowsState:
        """The stored rows as kernels see them."""
        return UncertainRowsState(
            *(self.arrays[name][: self.length] for name in ("key", "prob", "pane"))
        )

    def append(self, panes: Runs) -> Ints:
        """Append rows of sealed panes; returns the slots at which the panes begin, and the end."""
        part = panes.parts["rows"]
        start, end = self.length, self.length + len(part)
        self.arrays = {name: grown(array, end) for name, array in self.arrays.items()}
        if end > start:
            for name in ("key", "tie", "prob"):
                self.arrays[name][start:end] = part[name]
            self.arrays["pane"][start:end] = np.repeat(panes.stamp, part.lengths)
            if self.ids is not None:
                self.ids.append(part["shown"])
            self.kept.append(part.columns, end - start)
        self.length = end
        self.rows = self._view()
        return np.asarray(part.offsets + start)

    def gather(
        self, slots: Ints, offsets: Ints, names: Sequence[str] = ("key", "tie", "prob")
    ) -> Part:
        """The rows of these slots, as runs cut at ``offsets``."""
        columns: dict[str, Any] = {name: self.arrays[name].take(slots) for name in names}
        if self.ids is not None:
            columns["shown"] = self.ids.gather(slots)
        columns |= self.kept.gather(slots)
        return Part(offsets, columns)

    def keep(self, slots: Ints) -> None:
        """Keep only these slots (ascending), which become 0, 1, 2 and so on."""
        self.arrays = {name: array[slots] for name, array in self.arrays.items()}
        if self.ids is not None:
            self.ids.compact(slots)
        self.kept.compact(slots)
        self.length = len(slots)
        self.rows = self._view()

    def state(self) -> State:
        """A copy of everything, as flat arrays."""
        state = {name: array[: self.length].copy() for name, array in self.arrays.items()}
        if self.ids is not None:
            state |= prefixed("ids/", self.ids.state())
        return state | prefixed("kept/", self.kept.state())

    def restore(self, state: Saved) -> None:
        """Restore what ``state`` returned."""
        like = {name: np.zeros(0, dtype) for name, dtype in _COLUMNS.items()}
        forms = dict.fromkeys(like, Form("rows")) | {"pane": Form("rows", ascends=True)}
        self.arrays = admitted(state, like, forms)
        self.length = len(self.arrays["key"])
        prob = self.arrays["prob"]
        require(((prob > 0) & (prob <= 1)).all(), "a probability outside of (0, 1]")
        self.rows = self._view()
        if self.ids is not None:
            self.ids.restore(under(state, "ids/"))
        self.kept.restore(under(state, "kept/"))
        known = [] if self.ids is None else [len(self.ids)]
        known += [len(self.kept)] if self.kept.stores else []
        require(all(each == self.length for each in known), "a row has no id")

    def _check(self) -> None:
        pane, key = self.arrays["pane"][: self.length], self.arrays["key"][: self.length]
        assert (pane[1:] >= pane[:-1]).all()
        same = pane[1:] == pane[:-1]
        assert (key[1:][same] <= key[:-1][same]).all()
        prob = self.arrays["prob"][: self.length]
        assert ((prob > 0) & (prob <= 1)).all()
        assert self.ids is None or len(self.ids) == self.length


_SPARE = 4096
"""How many dead rows are not worth a clean-up."""
_NONE = np.zeros(0, np.int64)
_UNREAD = HeadAnswer(_NONE, np.zeros(0), is_stale=True)

# Kernels call these too and cannot call patient functions, so they are wrapped only here.
answer, compact_end = patient(compact.answer), patient(compact.compact_end)
before, merged = patient(types.before), patient(types.merged)
oldest_pane = patient(types.oldest_pane)


class WindowedSynopsis(UncertainSynopsis):
    """Keeps rows by slot and the *head*: the window's compact set, from which answers are read.

    Panes whose rows do not enter the head leave it unchanged. When the head's oldest pane expires,
    a new head is made from what the algorithm keeps for this purpose; until then the algorithm need
    not be given new panes.
    """

    shortens = True

    def __init__(self, query: UncertainTopK) -> None:
        super().__init__(query)
        self._head = Head(_NONE, is_open=True, oldest=int(FAR))
        self._answer = _UNREAD
        self._rebuilt = 0
        self._cleanings = 0
        self._due = _SPARE
        """The length beyond which the store is next searched for dead rows."""

    def start(self) -> None:
        name = self.id_column
        kept = {f"keep:{each}": self.schema.field(each).type for each in self.query.keep}
        self.store = UncertainRows(None if name is None else self.schema.field(name).type, kept)

    # What an algorithm supplies ---------------------------------------------------------------

    @abstractmethod
    def _take(self, offsets: Ints, gone: Ints) -> None:
        """Take sealed panes; pane i holds the slots from ``offsets[i]`` to ``offsets[i + 1]``.

        Before pane i is taken, all panes before ``gone[i]`` have expired; after the last one, all
        before ``gone[-1]``.
        """

    @abstractmethod
    def _find(self, first: int) -> tuple[Ints, bool]:
        """Rows that include the compact set of the panes from ``first`` on, or all their rows.

        Returns the rows in row order, and whether they are known to admit a compact set.
        """

    @abstractmethod
    def _live(self) -> Ints:
        """Slots in use apart from those of the head, ascending."""

    @abstractmethod
    def _renumber(self, live: Ints) -> None:
        """Replace each slot ``live[i]`` by i."""

    @abstractmethod
    def _state(self) -> Saved:
        """What the algorithm keeps in addition to the rows."""

    @abstractmethod
    def _load(self, arrays: Saved) -> None:
        """Restore what ``_state`` returned."""

    # Panes ------------------------------------------------------------------------------------

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        slots = self._compact_set(first)[0]
        lengths = np.array([len(slots)]) if len(slots) else _NONE
        stamp = np.zeros(len(lengths), np.int64)
        rows = self.store.gather(slots, offsets_of(lengths))
        return Runs(stamp, stamp.astype(np.int32), {"rows": rows})

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        return self._fold(panes, windows, final=False)

    def answers(self, panes: Runs, windows: Windows) -> Runs | None:
        # Most windows show what the one before them did, so an answer is computed once for them.
        return self._fold(panes, windows, final=True)

    def _fold(self, panes: Runs, windows: Windows, final: bool) -> Runs | None:
        slots, chance, ends = self._run(panes, windows.first, windows.end, final)
        if final:
            part = self._shown(self.store.gather(slots, ends, ("key", "prob")), chance)
        else:
            part = self.store.gather(slots, ends)
        self._clean()
        return _runs(part, windows) if len(windows) else None

    def _run(self, panes: Runs, first: Ints, end: Ints, final: bool) -> tuple[Ints, Floats, Ints]:
        """Take panes, read windows; returns slots, chances (if ``final``) and windows' offsets."""
        # Copies, because other code's arrays may be read-only, which is another type to a kernel.
        stamp = np.array(panes.stamp, np.int64)
        first, end = np.array(first, np.int64), np.array(end, np.int64)
        offsets = self.store.append(panes)
        rows = self.store.rows
        # When a pane arrives, all panes before the window that was read last have expired.
        starts = np.append(np.iinfo(np.int64).min, first)
        gone = np.append(starts[np.searchsorted(end, stamp, side="right")], starts[-1])

        out = _room_to_write(len(first), self.query.k, final)
        self._answer = _UNREAD
        cursor = Cursor(0, 0, 0)
        taken = 0
        while True:
            why, cursor = walk(
                rows, self._head, self._answer, cursor, stamp, offsets, first, end, out
            )
            pane = cursor.pane
            if why == ENTERED:
                self._enter(np.arange(offsets[pane], offsets[pane + 1]))
                cursor = cursor._replace(pane=pane + 1)
            elif why == EXPIRED:
                start = int(first[cursor.window])
                if not self._head.is_open:
                    self._take(offsets[taken : pane + 1], np.append(gone[taken:pane], start))
                    taken = pane
                self._expire(start)
            elif why == UNREAD:
                self._answer = self._read(final)
            elif why == FULL:
                out = _with_more_room(out, len(self._answer.slots))
            else:
                break
        self._take(offsets[taken:], gone[taken:])
        return out.slots[: cursor.written], out.chances[: cursor.written], out.ends

    # The head ---------------------------------------------------------------------------------

    def _enter(self, fresh: Ints) -> None:
        """Take the rows of a pane into the head (theorem 3.2)."""
        rows, head = self.store.rows, self._head
        n = len(head.slots)
        count = len(fresh) if head.is_open else before(rows, fresh, len(fresh), head.slots[-1])
        both = np.empty(n + count, np.int64)
        merged(rows, head.slots, n, fresh, count, both)
        size = compact_end(self.rule, rows.prob, both, len(both), KEEP)
        # If rounding hides an end that must exist, keep all rows.
        self._set_head(both if size < 0 else both[:size], head.is_open and size < 0)

    def _expire(self, first: int) -> None:
        """Replace the head by one for the panes from ``first`` on."""
        slots = self._head.slots
        if self._head.is_open:
            self._set_head(slots[self.store.arrays["pane"][slots] >= first], True)
        else:
            self._rebuilt += 1
            self._set_head(*self._compact_set(first))
            # Of a forged snapshot it may have rows that have expired, and would do so for ever.
            require(self._head.oldest >= first, "a compact set with rows that have expired")

    def _compact_set(self, first: int) -> tuple[Ints, bool]:
        """The compact set of panes from ``first`` on, and False; if none, all rows and True."""
        slots, closed = self._find(first)
        size = compact_end(self.rule, self.store.rows.prob, slots, len(slots), KEEP)
        return (slots, not closed) if size < 0 else (slots[:size], False)

    def _set_head(self, head: Ints, is_open: bool) -> None:
        slots = np.ascontiguousarray(head)
        oldest = oldest_pane(self.store.rows, slots, len(slots))
        self._head = Head(slots, bool(is_open), int(oldest))
        self._answer = self._answer._replace(is_stale=True)

    def _read(self, final: bool) -> HeadAnswer:
        """The answer from the head; or, if not ``final``, the head, to merge with other shards."""
        head = self._head.slots
        if not final:
            return HeadAnswer(head, np.zeros(0), is_stale=False)
        room = max(len(head), self.query.k)
        shown, chances = np.empty(room, np.int64), np.empty(room)
        count = answer(self.rule, self.store.rows.prob, head, len(head), shown, chances)
        return HeadAnswer(shown[:count], chances[:count], is_stale=False)

    # Slots ------------------------------------------------------------------------------------

    def _clean(self) -> None:
        """Drop dead rows once the store has doubled: O(1) per row that was appended since."""
        if len(self.store) > self._due:
            self._cleanings += 1
            self._compact(np.union1d(self._live(), self._head.slots))

    def _compact(self, live: Ints) -> None:
        self._renumber(live)
        self._head = self._head._replace(slots=np.searchsorted(live, self._head.slots))
        self.store.keep(live)
        self._due = 2 * len(live) + _SPARE

    # State ------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        self._compact(np.union1d(self._live(), self._head.slots))
        own = prefixed("own/", self._state())
        own |= {"head": self._head.slots, "at": self._places()}
        own = {name: array.copy() for name, array in own.items()}
        own["rebuilt"] = np.array([self._rebuilt, self._cleanings])
        return own | prefixed("rows/", self.store.state())

    def _places(self) -> Ints:
        """The head as snapshots have it: see ``restore``.

        The first three were a cursor. The last two were an answer; it is computed again, so that
        two snapshots of the same rows have the same bytes.
        """
        head = self._head
        places = [0, 0, 0, len(head.slots), head.is_open, head.oldest, 1, 0]
        return np.array(places, np.int64)

    def restore(self, arrays: Saved) -> None:
        self.store.restore(under(arrays, "rows/"))
        self._load({name: np.array(a) for name, a in under(arrays, "own/").items()})
        like = {"at": _NONE, "head": _NONE, "rebuilt": _NONE}
        forms = {"at": Form(8), "head": Form("head", 0, len(self.store))}
        saved = admitted(arrays, like, forms)
        *_, is_open, oldest, _, _ = saved["at"].tolist()
        require(is_open or len(saved["head"]), "a compact set without rows")
        self._head = Head(saved["head"], bool(is_open), oldest)
        self._rebuilt, self._cleanings = (int(n) for n in (*arrays["rebuilt"], 0)[:2])
        self._due = 2 * len(self.store) + _SPARE

    @property
    def _nbytes(self) -> int:
        return self._head.slots.nbytes + self.store.nbytes

    def _check(self) -> None:
        self.store._check()
        rows, (head, is_open, oldest) = self.store.rows, self._head
        assert oldest == rows.pane[head].min(initial=FAR)
        self._check_order(head)
        end = compact_end(self.rule, rows.prob, head, len(head), KEEP)
        if is_open:
            assert end < 0, "the window admits a compact set"
        else:
            assert end in (len(head), -1), "the head has more than a compact set"

    def _check_order(self, slots: Ints) -> None:
        rows = self.store.rows
        order = np.lexsort((slots, -rows.pane[slots], ~rows.key[slots]))
        assert np.array_equal(order, np.arange(len(slots)))


def _runs(part: Part, windows: Windows) -> Runs:
    return Runs(windows.number, np.zeros(len(windows), np.int32), {"rows": part})


def _room_to_write(windows: int, k: int, final: bool) -> WindowAnswers:
    slots = np.empty(windows * k + 64, np.int64)
    return WindowAnswers(
        slots, np.empty(len(slots) if final else 0), np.zeros(windows + 1, np.int64)
    )


def _with_more_room(out: WindowAnswers, needed: int) -> WindowAnswers:
    room = 2 * len(out.slots) + needed
    chances = np.resize(out.chances, room) if len(out.chances) else out.chances
    return out._replace(slots=np.resize(out.slots, room), chances=chances)
