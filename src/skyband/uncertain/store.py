"""Retained rows by slot: flat arrays, and the ids and kept columns in column stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints, Saved, State, grown
from skyband.contract.runs import Part, Runs
from skyband.data.column_store import ColumnStore
from skyband.data.flat_state import Form, admitted, require
from skyband.data.packing import prefixed, under
from skyband.data.retained_rows import RetainedRows
from skyband.kernels.uncertain.types import Readings

__all__ = ["UncertainRows"]

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
        self.kept = RetainedRows(kept or {}, any_type=kept or ())
        self.rows = self._view()

    def __len__(self) -> int:
        return self.length

    @property
    def nbytes(self) -> int:
        own = sum(array.nbytes for array in self.arrays.values())
        return own + (0 if self.ids is None else self.ids.nbytes) + self.kept.nbytes

    def _view(self) -> Readings:
        """The stored rows as kernels see them."""
        return Readings(*(self.arrays[name][: self.length] for name in ("key", "prob", "pane")))

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
