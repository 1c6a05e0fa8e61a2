"""The counts of a window's items: what the states of ``exact`` and ``fsp`` have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from skyband.arrays import Array, Codes, Hashes, Ints, Saved, State, grown
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs
from skyband.data.flat_state import Form, admitted, require
from skyband.data.keys import KeyIndex
from skyband.data.packing import prefixed, under
from skyband.frequency.items import ItemColumns, order_keys

__all__ = ["CodedCounts", "WindowCounts"]

_NONE = np.zeros(0, np.int64)


class WindowCounts(ABC):
    """Takes the lists of sealed panes, and finds the best k items of windows.

    A list has one entry per item of a (pane, group), with its count.
    """

    def __init__(self, item_type: ItemColumns, k: int) -> None:
        self.item_type, self.k = item_type, k
        self.inserts = self.removals = self.updates = 0

    @abstractmethod
    def __len__(self) -> int:
        """Items kept, as ``retained`` counts them."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of the state."""

    @abstractmethod
    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        """Take panes and read windows, as ``Synopsis.fold`` does."""

    @abstractmethod
    def partial(self, first: int, end: int, group: int | None) -> Runs:
        """The best items of each group over the live panes ``[first, end)``."""

    @abstractmethod
    def totals(self, first: int, end: int, group: int) -> Part:
        """The counts of all items of a group over the live panes ``[first, end)``, in any order."""

    @abstractmethod
    def state(self) -> State:
        """Flat arrays for a snapshot."""

    @abstractmethod
    def restore(self, arrays: Saved) -> None:
        """Restore from a snapshot."""

    @abstractmethod
    def _check(self) -> None:
        """Assert every invariant; only tests call it."""

    def stats(self) -> dict[str, int | float]:
        """The state's size and the operation counts."""
        return {
            "retained": len(self),
            "state_bytes": self.nbytes,
            "inserts": self.inserts,
            "removals": self.removals,
            "updates": self.updates,
        }


class CodedCounts(WindowCounts):
    """Counts whose kernels work on codes: each live item, or (group, item), has one."""

    by_code: ClassVar[tuple[str, ...]]
    """Arrays with one entry per code."""
    saved_by_code: ClassVar[tuple[str, ...]]
    """Those of them that a snapshot holds; the others follow from it."""

    def __init__(self, item_type: ItemColumns, k: int) -> None:
        super().__init__(item_type, k)
        self.store = item_type.new_store()
        self.index = KeyIndex()
        self.order_key = np.zeros(0, np.int64)
        self._ranks = self._order = _NONE

    @property
    def nbytes(self) -> int:
        arrays = sum(int(getattr(self, name).nbytes) for name in self.by_code)
        return arrays + self.index.nbytes + self.store.nbytes

    def _encode(self, hashes: Hashes, part: Part) -> tuple[Codes, Ints, Codes]:
        """Codes of entries, and the entries and codes of new items, which go into the store."""
        codes, rows, fresh = self.index.encode(hashes)
        if len(fresh):
            for name in self.by_code:
                setattr(self, name, grown(getattr(self, name), self.index.bound))
            self.store.put(fresh, part.columns, rows)
            self.order_key[fresh] = order_keys(list(self.store.gather(fresh).values()))
        return codes, rows, fresh

    def _summed(self, code: Codes, value: Array) -> Part:
        """All items of these entries, with the sums of their values."""
        codes, item = np.unique(code, return_inverse=True)
        sums = np.zeros(len(codes), value.dtype)
        np.add.at(sums, item, value)
        return Part(np.array([0, len(codes)]), {"count": sums, **self.store.gather(codes)})

    def sequence(self, groups: int, ranks: Ints) -> Ints:
        """Groups in the order of their keys, as answers show them; those without a rank last."""
        if self._ranks is not ranks or len(self._order) < groups:
            order = np.argsort(ranks, kind="stable")
            self._ranks, self._order = ranks, np.append(order, np.arange(len(ranks), groups))
        return self._order if len(self._order) == groups else self._order[self._order < groups]

    def _answers(self, number: Ints, group: Array, part: Part, k: int | None = None) -> Runs:
        """Answers from the best items and their counts, as many as ``k`` says."""
        return Runs(number, group, {"items": self.item_type.ranked(part, k or self.k)})

    def state(self) -> State:
        known = self.index.bound
        arrays = prefixed("index/", self.index.state()) | self.store.state()
        return arrays | {name: getattr(self, name)[:known].copy() for name in self.saved_by_code}

    def restore(self, arrays: Saved) -> None:
        self.index.restore(under(arrays, "index/"))
        self.store.restore(arrays)
        known = self.index.bound
        require(len(self.store) >= known, "an item has no row")
        like = {name: getattr(self, name) for name in self.saved_by_code}
        for name, array in admitted(arrays, like, dict.fromkeys(like, Form(known))).items():
            setattr(self, name, array)

    def _admit(self, code: Codes, refs: Codes | None = None) -> None:
        """Refuse entries of codes that are not in use, or of which there are not as many."""
        known = self.index.bound
        require(not len(code) or 0 <= code.min() <= code.max() < known, "an entry has no item")
        count = np.bincount(code, minlength=known)
        require(np.array_equal(np.flatnonzero(count), self.index.codes()), "an item has no entry")
        require(refs is None or np.array_equal(count, refs), "entries that were not counted")
