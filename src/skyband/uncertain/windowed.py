"""State over sealed panes: retained rows, the window's compact set and what an algorithm adds."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from skyband.arrays import Floats, Ints, Saved, State
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.data.packing import prefixed, under
from skyband.kernels.core.patient import patient
from skyband.kernels.uncertain import compact, types
from skyband.kernels.uncertain import head as h
from skyband.kernels.uncertain.types import FAR, KEEP
from skyband.query.uncertain import UncertainTopK
from skyband.uncertain.base import UncertainSynopsis
from skyband.uncertain.store import UncertainRows

__all__ = ["WindowedSynopsis"]

_SPARE = 4096
"""How many dead rows are not worth a clean-up."""
_NONE = np.zeros(0, np.int64)

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
    finishes = True

    def __init__(self, query: UncertainTopK) -> None:
        super().__init__(query)
        self._head = _NONE
        self._at = np.zeros(h.PLACES, np.int64)
        self._at[h.OPEN] = 1
        self._at[h.OLDEST] = FAR
        self._rebuilt = 0
        self._cleanings = 0
        self._due = _SPARE
        """The length beyond which the store is next searched for dead rows."""

    def start(self) -> None:
        name = self.id_column
        self.store = UncertainRows(None if name is None else self.schema.field(name).type)

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

    def fold(self, panes: Runs, windows: Windows, final: bool = False) -> Runs | None:
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

        at = self._at
        at[[h.WINDOW, h.PANE, h.WRITTEN]] = 0
        at[h.STALE] = 1
        found = np.empty(len(first) * self.query.k + 64, np.int64)
        chance = np.empty(len(found) if final else 0)
        ends = np.zeros(len(first) + 1, np.int64)
        shown, chances = _NONE, np.zeros(0)
        taken = 0
        while True:
            why = h.walk(
                rows,
                self._head,
                at,
                stamp,
                offsets,
                first,
                end,
                shown,
                chances,
                found,
                chance,
                ends,
            )
            pane = int(at[h.PANE])
            if why == h.ENTERED:
                self._enter(np.arange(offsets[pane], offsets[pane + 1]))
                at[h.PANE] += 1
            elif why == h.EXPIRED:
                start = int(first[at[h.WINDOW]])
                if not at[h.OPEN]:
                    self._take(offsets[taken : pane + 1], np.append(gone[taken:pane], start))
                    taken = pane
                self._expire(start)
            elif why == h.UNREAD:
                shown, chances = self._read(final)
                at[h.SHOWN] = len(shown)
                at[h.STALE] = 0
            elif why == h.FULL:
                room = 2 * len(found) + len(shown)
                found = np.resize(found, room)
                chance = np.resize(chance, room) if final else chance
            else:
                break
        self._take(offsets[taken:], gone[taken:])
        written = int(at[h.WRITTEN])
        return found[:written], chance[:written], ends

    # The head ---------------------------------------------------------------------------------

    def _enter(self, fresh: Ints) -> None:
        """Take the rows of a pane into the head (theorem 3.2)."""
        rows, head, at = self.store.rows, self._head, self._at
        n = len(head)
        count = len(fresh) if at[h.OPEN] else before(rows, fresh, len(fresh), head[-1])
        both = np.empty(n + count, np.int64)
        merged(rows, head, n, fresh, count, both)
        size = compact_end(self.rule, rows.prob, both, len(both), KEEP)
        # If rounding hides an end that must exist, keep all rows.
        self._set_head(both if size < 0 else both[:size], bool(at[h.OPEN]) and size < 0)

    def _expire(self, first: int) -> None:
        """Replace the head by one for the panes from ``first`` on."""
        if self._at[h.OPEN]:
            panes = self.store.arrays["pane"][self._head]
            self._set_head(self._head[panes >= first], True)
        else:
            self._rebuilt += 1
            self._set_head(*self._compact_set(first))

    def _compact_set(self, first: int) -> tuple[Ints, bool]:
        """The compact set of panes from ``first`` on, and False; if none, all rows and True."""
        slots, closed = self._find(first)
        size = compact_end(self.rule, self.store.rows.prob, slots, len(slots), KEEP)
        return (slots, not closed) if size < 0 else (slots[:size], False)

    def _set_head(self, head: Ints, is_open: bool) -> None:
        at = self._at
        self._head = np.ascontiguousarray(head)
        at[h.SIZE], at[h.OPEN] = len(head), is_open
        at[h.OLDEST] = oldest_pane(self.store.rows, self._head, len(head))
        at[h.STALE] = 1

    def _read(self, final: bool) -> tuple[Ints, Floats]:
        """The answer from the head; or, if not ``final``, the head, to merge with other shards."""
        if not final:
            return self._head, np.zeros(0)
        room = max(len(self._head), self.query.k)
        shown, chances = np.empty(room, np.int64), np.empty(room)
        prob = self.store.rows.prob
        count = answer(self.rule, prob, self._head, len(self._head), shown, chances)
        return shown[:count], chances[:count]

    # Slots ------------------------------------------------------------------------------------

    def _clean(self) -> None:
        """Drop dead rows once the store has doubled: O(1) per row that was appended since."""
        if len(self.store) > self._due:
            self._cleanings += 1
            self._compact(np.union1d(self._live(), self._head))

    def _compact(self, live: Ints) -> None:
        self._renumber(live)
        self._head = np.searchsorted(live, self._head)
        self.store.keep(live)
        self._due = 2 * len(live) + _SPARE

    # State ------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        self._compact(np.union1d(self._live(), self._head))
        own = prefixed("own/", self._state()) | {"head": self._head, "at": self._at}
        own = {name: array.copy() for name, array in own.items()}
        own["rebuilt"] = np.array([self._rebuilt, self._cleanings])
        return own | prefixed("rows/", self.store.state())

    def restore(self, arrays: Saved) -> None:
        self.store.restore(under(arrays, "rows/"))
        self._load({name: np.array(a) for name, a in under(arrays, "own/").items()})
        self._head, self._at = np.array(arrays["head"]), np.array(arrays["at"])
        self._rebuilt, self._cleanings = (int(n) for n in (*arrays["rebuilt"], 0)[:2])
        self._due = 2 * len(self.store) + _SPARE

    @property
    def _nbytes(self) -> int:
        return self._head.nbytes + self.store.nbytes

    def _check(self) -> None:
        self.store._check()
        at, rows = self._at, self.store.rows
        assert at[h.SIZE] == len(self._head)
        assert at[h.OLDEST] == rows.pane[self._head].min(initial=FAR)
        self._check_order(self._head)
        end = compact_end(self.rule, rows.prob, self._head, len(self._head), KEEP)
        if at[h.OPEN]:
            assert end < 0, "the window admits a compact set"
        else:
            assert end in (len(self._head), -1), "the head has more than a compact set"

    def _check_order(self, slots: Ints) -> None:
        rows = self.store.rows
        order = np.lexsort((slots, -rows.pane[slots], ~rows.key[slots]))
        assert np.array_equal(order, np.arange(len(slots)))


def _runs(part: Part, windows: Windows) -> Runs:
    return Runs(windows.number, np.zeros(len(windows), np.int32), {"rows": part})
