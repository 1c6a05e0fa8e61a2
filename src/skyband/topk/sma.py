"""SMA: exact top-k by skyband monitoring with a grid to rescan (Mouratidis et al. 2006)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints, Saved, State
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs
from skyband.data.columns import native_dtype
from skyband.data.flat_state import Form, admitted, require
from skyband.query.topk import TopK
from skyband.topk.kernels import sma as kernel
from skyband.topk.kernels.sma import SmaState, fold_monitored, new_monitored
from skyband.topk.single import SingleGroup, kernel_runs


class Sma(SingleGroup):
    """Keeps all live rows in a grid, and the skyband of the rows above a threshold.

    The threshold is the k-th best row of the last rescan, which computes the best k rows from the
    grid. The first window with k rows starts one. So does a window that finds fewer than k rows in
    the skyband, or a quarter more live rows than at the last rescan: the paper starts with a full
    window, while we also answer windows that are still filling. ``rescans`` counts all rescans,
    ``rows_rescanned`` the rows they read.

    Cost: O(1) per row to put it into the grid, and O(skyband) more if it is above the threshold; a
    rescan reads only the best cells. State: every row of the window, as in the paper, so
    ``retained`` counts them all. Exact. Mouratidis et al. 2006, with one score in place of several
    attributes, so the grid has one dimension; its cells are laid out again over the live scores
    once per window of arrivals.

    >>> import pyarrow as pa, skyband as sb
    >>> query = sb.TopK(k=1, score="x", window=sb.CountWindow(2, slide=1), algorithm="sma")
    >>> sb.rank(pa.table({"x": [3, 1, 2]}), query)["x"].to_pylist()
    [3, 3, 2]
    """

    keeps_all = True

    def __init__(self, query: TopK) -> None:
        super().__init__(query)
        self.state = new_monitored(query.k)

    def check_types(self, source: str, schema: pa.Schema) -> None:
        super().check_types(source, schema)
        dtype = native_dtype(schema.field(self.query.score).type)
        assert dtype is not None
        self.state.meta[kernel.FLOATS] = dtype.kind == "f"

    def _run(self, panes: Runs, slots: Ints, windows: Windows) -> tuple[Ints, Ints]:
        runs = kernel_runs(panes, slots)
        self.state, rows, cuts = fold_monitored(
            self.state, self.query.k, runs, windows.first, windows.end
        )
        return rows, cuts

    def _live(self) -> Ints:
        """Positions of the live rows in the ring buffer, oldest first."""
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

    def snapshot(self) -> State:
        own = self.state._asdict()
        return super().snapshot() | {name: array.copy() for name, array in own.items()}

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        floats = self.state.meta[kernel.FLOATS]
        found = {name: array.copy() for name, array in arrays.items() if name in SmaState._fields}
        lengths = {"cells": kernel.CELLS, "meta": len(self.state.meta), "step": 1}
        forms = {name: Form(length) for name, length in lengths.items()}
        forms["cells"] = Form(kernel.CELLS, -1, len(found["live"]))
        self.state = SmaState(**admitted(found, self.state._asdict(), forms))
        self._admit()
        self.state.meta[kernel.FLOATS] = floats

    def _admit(self) -> None:
        """Refuse a state whose rows or queues lie outside of it."""
        (live, _, band, meta, _), room = self.state, len(self.state.live)
        inside = 0 <= meta[kernel.HEAD] < room and 0 <= meta[kernel.LIVE] <= room
        require(inside and 0 <= meta[kernel.BAND] <= len(band), "more rows than it has")
        ahead = live[self._live(), kernel.NEXT]
        require(((ahead >= -1) & (ahead < room)).all(), "a queue leaves its rows")
        self._check_sealed(live[self._live(), kernel.PANE])
        slots = np.append(self._slots(), band[: meta[kernel.BAND], kernel.SLOT])
        require(self.payload.has(slots), "a row has no slot")

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
        self._check_band(live, band)
        queued: list[int] = []
        for cell, at in enumerate(self.state.cells[:, 0].tolist()):
            while at >= 0:
                assert kernel.cell_of(self.state, self.state.live[at, kernel.KEY]) == cell
                queued.append(at)
                at = int(self.state.live[at, kernel.NEXT])  # noqa: PLW2901  along the queue
        assert sorted(queued) == sorted(self._live().tolist())

    def _check_band(self, live: Ints, band: Ints) -> None:
        """Assert that the band has only live rows, and all that matter above the threshold."""
        slots = set(band[:, kernel.SLOT].tolist())
        assert len(slots) == len(band)
        assert slots <= set(live[:, kernel.SLOT].tolist())
        floor = tuple(self.state.meta[[kernel.FLOOR_KEY, kernel.FLOOR_TIE]].tolist())
        key, tie, pane = live[:, kernel.KEY], live[:, kernel.TIE], live[:, kernel.PANE]
        for at in range(len(live)):
            better = (key > key[at]) | ((key == key[at]) & (tie > tie[at]))
            better[:at] |= (key[:at] == key[at]) & (tie[:at] == tie[at])
            kept = (better & (pane >= pane[at])).sum() < self.query.k
            if (key[at], tie[at]) > floor:
                assert (live[at, kernel.SLOT] in slots) == kept
            elif live[at, kernel.SLOT] in slots:
                assert kept
                assert (key[at], tie[at]) == floor, "a row below the threshold"
