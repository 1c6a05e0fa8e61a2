"""The invariants of FSW's state; only tests check them."""

from __future__ import annotations

import numpy as np

from skyband.frequency.histograms import flat
from skyband.kernels.frequency import fsw_rows as kernel
from skyband.kernels.frequency.item_heap import table_find

__all__ = ["check_group"]


def check_group(s: kernel.Sketch, panes: int, ratio: int) -> None:
    """Assert every invariant of the state of one group."""
    size = int(s.control[kernel.SIZE])
    assert sorted(s.heap.tolist()) == list(range(len(s.item)))
    live = s.heap[:size]
    for slot in live.tolist():
        assert table_find(s.table, s.shift, s.item[slot]) == slot
    assert np.count_nonzero(s.table[1::2]) == size
    item_hist, cell_hist = flat(s.item_hist, panes), flat(s.cell_hist, panes)
    assert np.allclose(s.base[live], item_hist[live].sum(axis=1))  # f = sum of item_hist
    assert np.allclose(s.hist, cell_hist.sum(axis=1))  # alpha = sum of cell_hist
    assert not item_hist[s.heap[size:]].any(), "a slot without an item counts nothing"
    empty = s.held == kernel.NEVER
    assert not item_hist[live][:, empty].any()
    assert not cell_hist[:, empty].any()
    assert np.array_equal(s.marks.T != 0, cell_hist != 0)
    assert (s.err[live] >= 0).all()
    assert (s.err[live] <= s.base[live] * (1 + 1e-12)).all()
    if len(s.item_err):
        item_err = flat(s.item_err, panes)
        assert np.allclose(s.err[live], item_err[live].sum(axis=1))
        assert (item_err[live] <= item_hist[live] * (1 + 1e-12)).all()
    held = s.held[~empty]
    if len(held):
        assert held.max() - held.min() < panes
    for slot in live.tolist():
        coarse = kernel.cell_of(s.item[slot], len(s.fine)) // ratio
        if not len(s.item_err) and not len(s.bits):  # Lemma 4
            assert s.err[slot] <= s.hist[coarse] * (1 + 1e-12)
