"""State over sealed panes: retained rows, the window's compact set and what an algorithm adds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from skyband.arrays import Floats, Ints, Saved, State, grown
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.data.flat_state import FlatState, Form, Forms, admitted, require
from skyband.data.packing import prefixed, under
from skyband.data.retained_rows import RetainedRows
from skyband.kernels.patient import patient
from skyband.query.uncertain import UncertainTopK
from skyband.uncertain.base import UncertainSynopsis
from skyband.uncertain.kernels import compact, head
from skyband.uncertain.kernels.head import Cursor, Head, WindowAnswers, walk
from skyband.uncertain.kernels.types import FAR, SemanticsCode, UncertainRowsState


class UncertainRows(FlatState):
    """Rows in order of their panes, and within a pane in row order; ``keep`` drops dead ones.

    Appending takes time in proportion to the rows appended, amortised, as arrays double when they
    are full; ``keep`` takes time in proportion to the rows kept, and leaves no spare room.
    """

    saved_arrays = ("key", "tie", "prob", "pane")
    saved_forms: ClassVar[Forms] = {
        **dict.fromkeys(saved_arrays, Form("rows")),
        "pane": Form("rows", ascends=True),
    }
    saved_parts = (("shown/", "shown"),)

    def __init__(self, rule: SemanticsCode, shown: Mapping[str, pa.DataType]) -> None:
        """``shown`` are the columns that only answers need."""
        self.rule = rule
        self.length = 0
        self.key: Ints = np.zeros(0, np.int64)
        self.tie: Ints = np.zeros(0, np.int64)
        self.prob: Floats = np.zeros(0)
        self.pane: Ints = np.zeros(0, np.int64)
        self.shown = RetainedRows(shown)

    def __len__(self) -> int:
        return self.length

    @property
    def rows(self) -> UncertainRowsState:
        """The stored rows as kernels see them."""
        end = self.length
        return UncertainRowsState(self.key[:end], self.prob[:end], self.pane[:end], self.rule)

    def append(self, panes: Runs) -> Ints:
        """Append rows of sealed panes; returns the slots at which the panes begin, and the end."""
        part = panes.parts["rows"]
        start, self.length = self.length, self.length + len(part)
        if len(part):
            fresh = {**part.columns, "pane": np.repeat(panes.stamp, part.lengths)}
            for name in self.saved_arrays:
                column = grown(getattr(self, name), self.length)
                column[start : self.length] = fresh[name]
                setattr(self, name, column)
            self.shown.append(part.columns, len(part))
        return np.asarray(part.offsets + start)

    def gather(
        self, slots: Ints, offsets: Ints, names: Sequence[str] = ("key", "tie", "prob")
    ) -> Part:
        """The rows of these slots, as runs cut at ``offsets``."""
        columns: dict[str, Any] = {name: getattr(self, name).take(slots) for name in names}
        return Part(offsets, columns | self.shown.gather(slots))

    def keep(self, slots: Ints) -> None:
        """Keep only these slots (ascending), which become 0, 1, 2 and so on."""
        for name in self.saved_arrays:
            setattr(self, name, getattr(self, name)[slots])
        self.shown.compact(slots)
        self.length = len(slots)

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        self.length = len(self.key)
        require(((self.prob > 0) & (self.prob <= 1)).all(), "a probability outside of (0, 1]")
        require(len(self.shown) == self.length or not self.shown.stores, "a row has no id")

    def _check(self) -> None:
        key, prob, pane, _ = self.rows
        assert (pane[1:] >= pane[:-1]).all()
        same = pane[1:] == pane[:-1]
        assert (key[1:][same] <= key[:-1][same]).all()
        assert ((prob > 0) & (prob <= 1)).all()
        assert len(self.shown) == self.length or not self.shown.stores

    def check_order(self, slots: Ints) -> None:
        """Assert that slots are in row order; only tests call it."""
        order = np.lexsort((slots, -self.pane[slots], ~self.key[slots]))
        assert np.array_equal(order, np.arange(len(slots)))


_SPARE = 4096
"""How many dead rows are not worth a clean-up."""
_NONE = np.zeros(0, np.int64)

# Kernels call these too and cannot call patient functions, so they are wrapped only here.
set_end, head_of = patient(compact.set_end), patient(head.head_of)


class Reserve(FlatState, ABC):
    """What an algorithm keeps of the window's rows, to find the next compact set in it."""

    def __init__(self, store: UncertainRows) -> None:
        self.store = store

    @abstractmethod
    def take(self, offsets: Ints, gone: Ints) -> None:
        """Take sealed panes; pane i holds the slots from ``offsets[i]`` to ``offsets[i + 1]``.

        Before pane i is taken, all panes before ``gone[i]`` have expired; after the last one, all
        before ``gone[-1]``.
        """

    @abstractmethod
    def find(self, first: int) -> tuple[Ints, bool]:
        """Rows that include the compact set of the panes from ``first`` on, or all their rows.

        Returns the rows in row order, and whether they are known to admit a compact set.
        """

    @abstractmethod
    def live(self) -> Ints:
        """Slots in use, ascending."""

    @abstractmethod
    def renumber(self, live: Ints) -> None:
        """Replace each slot ``live[i]`` by i."""

    @abstractmethod
    def stats(self, head: int, rebuilt: int) -> dict[str, int | float]:
        """Operation counts, and ``retained``; the window's own compact set has ``head`` rows.

        It was found in this reserve ``rebuilt`` times.
        """

    @abstractmethod
    def _check(self) -> None:
        """Assert every invariant; only tests call it."""


class WindowedSynopsis(UncertainSynopsis):
    """Keeps rows by slot and the *head*: the window's compact set, from which answers are read.

    Panes whose rows do not enter the head leave it unchanged. When the head's oldest pane expires,
    a new head is made from the algorithm's *reserve*; until then that need not be given new panes.
    """

    shortens = True
    keeps: ClassVar[type[Reserve]]
    """The algorithm's reserve."""

    def __init__(self, query: UncertainTopK) -> None:
        super().__init__(query)
        self._head = Head(_NONE, is_open=True, oldest=int(FAR))
        self._rebuilt = 0
        self._cleanings = 0
        self._due = _SPARE
        """The length beyond which the store is next searched for dead rows."""

    def start(self) -> None:
        kept = {f"keep:{each}": self.schema.field(each).type for each in self.query.keep}
        name = self.id_column
        ids = {} if name is None else {"shown": self.schema.field(name).type}
        self.store = UncertainRows(self.rule, ids | kept)
        self.reserve = type(self).keeps(self.store)

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
        if len(self.store) > self._due:  # it has doubled: O(1) per row that was appended since
            self._cleanings += 1
            self._compact()
        group = np.zeros(len(windows), np.int32)
        return Runs(windows.number, group, {"rows": part}) if len(windows) else None

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

        room = len(first) * self.query.k + 64
        out = WindowAnswers(
            np.empty(room, np.int64), np.empty(room), np.zeros(len(first) + 1, np.int64)
        )
        cursor = Cursor(0, 0, 0)
        taken = 0
        while True:
            self._head, cursor, out = walk(
                rows, self._head, cursor, stamp, offsets, first, end, out, final
            )
            if cursor.window == len(first):
                break
            start, pane = int(first[cursor.window]), cursor.pane
            self.reserve.take(offsets[taken : pane + 1], np.append(gone[taken:pane], start))
            taken = pane
            self._rebuilt += 1
            self._head = head_of(rows, *self._compact_set(start))
            # Of a forged snapshot it may have rows that have expired, and would do so for ever.
            require(self._head.oldest >= start, "a compact set with rows that have expired")
        self.reserve.take(offsets[taken:], gone[taken:])
        return out.slots[: cursor.written], out.chances[: cursor.written], out.ends

    def _compact_set(self, first: int) -> tuple[Ints, bool]:
        """The compact set of panes from ``first`` on, and False; if none, all rows and True."""
        slots, closed = self.reserve.find(first)
        size = set_end(self.store.rows, slots, len(slots))
        return (slots, not closed) if size < 0 else (slots[:size], False)

    # Slots ------------------------------------------------------------------------------------

    def _compact(self) -> None:
        """Drop dead rows."""
        live = np.union1d(self.reserve.live(), self._head.slots)
        self.reserve.renumber(live)
        self._head = self._head._replace(slots=np.searchsorted(live, self._head.slots))
        self.store.keep(live)
        self._due = 2 * len(live) + _SPARE

    # State ------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        self._compact()
        own = prefixed("own/", self.reserve.state())
        own |= {"head": self._head.slots}
        own = {name: array.copy() for name, array in own.items()}
        own["at"] = np.array([self._head.is_open, self._head.oldest])
        own["counts"] = np.array([self._rebuilt, self._cleanings])
        return own | prefixed("rows/", self.store.state())

    def restore(self, arrays: Saved) -> None:
        self.store.restore(under(arrays, "rows/"))
        self.reserve.restore({name: np.array(a) for name, a in under(arrays, "own/").items()})
        like = {"at": _NONE, "head": _NONE, "counts": _NONE}
        forms = {"at": Form(2), "head": Form("head", 0, len(self.store)), "counts": Form(2)}
        saved = admitted(arrays, like, forms)
        is_open, oldest = saved["at"].tolist()
        require(is_open or len(saved["head"]), "a compact set without rows")
        panes = self.store.rows.pane[saved["head"]]
        require(oldest == panes.min(initial=FAR), "a compact set whose oldest row is not there")
        self._head = Head(saved["head"], bool(is_open), oldest)
        self._rebuilt, self._cleanings = saved["counts"].tolist()
        self._due = 2 * len(self.store) + _SPARE

    def stats(self) -> dict[str, int | float]:
        own = self.reserve.stats(len(self._head.slots), self._rebuilt)
        size = self._head.slots.nbytes + self.store.nbytes + self.reserve.nbytes
        return own | {"state_bytes": size, "cleanings": self._cleanings}

    def _check(self) -> None:
        self.store._check()
        self.reserve._check()
        rows, (head, is_open, oldest) = self.store.rows, self._head
        assert oldest == rows.pane[head].min(initial=FAR)
        self.store.check_order(head)
        end = set_end(rows, head, len(head))
        if is_open:
            assert end < 0, "the window admits a compact set"
        else:
            assert end in (len(head), -1), "the head has more than a compact set"
