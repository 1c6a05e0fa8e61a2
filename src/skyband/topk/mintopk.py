"""Exact top-k from predicted result sets (Yang et al. 2011)."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Ints, Saved, State
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs
from skyband.data.flat_state import Form, admitted, require
from skyband.query.topk import TopK
from skyband.topk.kernels import mintopk as kernel
from skyband.topk.kernels.mintopk import MinTopKState, fold_predicted, new_predicted
from skyband.topk.single import SingleGroup, kernel_runs


class MinTopK(SingleGroup):
    """Keeps the predicted top k of every future window, in one list.

    Cost: for each row that can matter, two binary searches, a move of the rows after it in the
    list, and for each window that it enters a step back over rows of other windows to the new last
    row of that one; so this suits slides of many rows. State: the rows of the predicted sets, the
    least that any exact algorithm can keep. Exact. Yang et al. 2011, with ties in the same order as
    in all of Skyband's answers.

    >>> import pyarrow as pa, skyband as sb
    >>> query = sb.TopK(k=1, score="x", window=sb.CountWindow(2, slide=1), algorithm="mintopk")
    >>> sb.rank(pa.table({"x": [3, 1, 2]}), query)["x"].to_pylist()
    [3, 3, 2]
    """

    peeks = False  # it drops rows that no future window shows, but peek would need them

    def __init__(self, query: TopK) -> None:
        super().__init__(query)
        panes = query.window.panes
        # Panes may lie in different numbers of windows: make room for the pane that has the most.
        most = max(int(panes.last_window_of(p) - panes.first_window_of(p)) + 1 for p in (0, 1))
        self.state = new_predicted(max(most, 1))

    def _run(self, panes: Runs, slots: Ints, windows: Windows) -> tuple[Ints, Ints]:
        cuts = self.query.window.panes
        first, last = cuts.first_window_of(panes.stamp), cuts.last_window_of(panes.stamp)
        runs = kernel_runs(panes, slots)
        self.state, rows, offsets = fold_predicted(
            self.state, self.query.k, runs, first, last, windows.number, windows.end
        )
        return rows, offsets

    def _slots(self) -> Ints:
        return self.state.rows[: self._length, kernel.SLOT].copy()

    def _renumber(self, place: Ints) -> None:
        rows = self.state.rows[: self._length]
        rows[:, kernel.SLOT] = place[rows[:, kernel.SLOT]]

    @property
    def _length(self) -> int:
        return int(self.state.meta[kernel.LENGTH])

    def snapshot(self) -> State:
        own = self.state._replace(rows=self.state.rows[: self._length])._asdict()
        return super().snapshot() | {name: array.copy() for name, array in own.items()}

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        meta, windows = self.state.meta, len(self.state.low)
        forms = {"low": Form(windows), "size": Form(windows), "meta": Form(len(meta))}
        self.state = MinTopKState(**admitted(arrays, self.state._asdict(), forms))
        rows, low, size, meta = self.state
        first, last = int(meta[kernel.NEXT_WINDOW]), int(meta[kernel.KNOWN_WINDOW])
        known = 0 <= self._length <= len(rows) and last - first < windows
        require(known, "windows that it does not know")
        if first > np.iinfo(np.int64).min:
            at = np.arange(first, last + 1) % windows
            require(((size[at] >= 0) & (size[at] <= self.query.k)).all(), "too many rows")
            at = at[size[at] > 0]
            require(((low[at] >= 0) & (low[at] < self._length)).all(), "a window without rows")
        require(self.payload.has(self._slots()), "a row has no slot")

    def stats(self) -> dict[str, int | float]:
        own = sum(array.nbytes for array in self.state)
        return {
            "retained": self._length,
            "state_bytes": own + self.payload.nbytes,
            "inserted": int(self.state.meta[kernel.INSERTED]),
            "window_updates": int(self.state.meta[kernel.UPDATES]),
        }

    def _check(self) -> None:
        rows = self.state.rows[: self._length]
        order = np.lexsort((~rows[:, kernel.TIE], ~rows[:, kernel.KEY]))
        assert (rows[:, :2] == rows[order][:, :2]).all()
        low, size, meta = self.state.low, self.state.size, self.state.meta
        for w in range(int(meta[kernel.NEXT_WINDOW]), int(meta[kernel.KNOWN_WINDOW]) + 1):
            if meta[kernel.NEXT_WINDOW] < -(1 << 62):
                break
            inside = (rows[:, kernel.START] <= w) & (w <= rows[:, kernel.END])
            members = np.flatnonzero(inside)
            assert len(members) == size[w % len(size)] <= self.query.k
            assert not len(members) or members[-1] == low[w % len(low)]
