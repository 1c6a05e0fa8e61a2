"""Exact top-k by skyband monitoring with a grid to rescan (Mouratidis et al. 2006)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.kernels import sma as kernel
from skyband.kernels.sma import Monitored, fold_monitored, new_monitored
from skyband.query.topk import TopK
from skyband.runs import Runs
from skyband.synopsis import Windows
from skyband.topk.single import SingleGroup

__all__ = ["Sma"]

Ints = npt.NDArray[np.int64]


class Sma(SingleGroup):
    """All live rows in a grid, the skyband of those above a threshold, a rescan when it runs dry.

    A row costs O(1) to file and O(skyband) if it is above the threshold; a rescan reads the best
    cells. State: every row of the window, as the paper has it. Exact. Mouratidis et al. 2006, with
    one score in place of several attributes, so that the grid has one dimension.

    >>> import pyarrow as pa, skyband as sb
    >>> query = sb.TopK(k=1, score="x", window=sb.CountWindow(2, slide=1), algorithm="sma")
    >>> sb.rank(pa.table({"x": [3, 1, 2]}), query)["x"].to_pylist()
    [3, 3, 2]
    """

    keeps_all = True

    def __init__(self, query: TopK) -> None:
        super().__init__(query)
        self.state = new_monitored(query.k)

    def _run(self, panes: Runs, slots: Ints, windows: Windows) -> tuple[Ints, Ints]:
        part = panes.parts["rows"]
        self.state, rows, cuts = fold_monitored(
            self.state,
            self.query.k,
            panes.stamp,
            part.offsets,
            part["key"],
            part["tie"],
            slots,
            windows.first,
            windows.end,
        )
        return rows, cuts

    def _live(self) -> Ints:
        """Places of the live rows in the ring, the oldest first."""
        head, count = int(self.state.meta[kernel.HEAD]), int(self.state.meta[kernel.LIVE])
        return np.arange(head, head + count) % len(self.state.live)

    def _slots(self) -> Ints:
        slots: Ints = self.state.live[self._live(), kernel.SLOT]
        return slots

    def _renumber(self, place: Ints) -> None:
        live, slots = self._live(), self._slots()
        self.state.live[live, kernel.SLOT] = place[slots]
        band = self.state.band[: self.state.meta[kernel.BAND]]
        band[:, kernel.SLOT] = place[band[:, kernel.SLOT]]

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        rows = self.state.live[self._live()]
        live = rows[rows[:, kernel.PANE] >= first]
        return self._read(live[:, : kernel.SLOT + 1])

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        own = {name: getattr(self.state, name).copy() for name in Monitored._fields}
        return {**super().snapshot(), **own}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super().restore(arrays)
        self.state = Monitored(*(arrays[name].copy() for name in Monitored._fields))

    def stats(self) -> dict[str, int | float]:
        meta = self.state.meta
        own = sum(array.nbytes for array in self.state)
        return {
            "retained": int(meta[kernel.LIVE]),
            "state_bytes": own + self.payload.nbytes,
            "skyband": int(meta[kernel.BAND]),
            "rescans": int(meta[kernel.RESCANS]),
            "rows_rescanned": int(meta[kernel.SCANNED]),
        }

    def _check(self) -> None:
        meta = self.state.meta
        live = self.state.live[self._live()]
        band = self.state.band[: meta[kernel.BAND]]
        assert (np.diff(live[:, kernel.PANE]) >= 0).all()
        order = np.lexsort((~band[:, kernel.TIE], ~band[:, kernel.KEY]))
        assert (band[:, :2] == band[order][:, :2]).all()
        assert set(band[:, kernel.SLOT].tolist()) <= set(live[:, kernel.SLOT].tolist())
        queued = 0
        for at in self.state.cells[:, 0].copy():
            while at >= 0:
                queued += 1
                at = self.state.live[at, kernel.NEXT]  # noqa: PLW2901  along the queue
        assert queued == len(live)
