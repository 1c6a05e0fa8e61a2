"""Drop the rows of a batch that no window can show, block by block instead of pane by pane.

A row of a pane matters only if some window that covers the pane has fewer than k better rows. In a
batch of many panes, the batch itself can show that. It is cut into *blocks* of an eighth of a
window, and the best k rows of each block are found in one pass. Every window that covers a row
also covers several whole blocks, so the row must reach the k-th best score of those. The lowest
such score, over all windows that touch a block, is the block's *bar*:

    blocks       ├──0──┼──1──┼──2──┼──3──┼──4──┤
    windows that touch block 2, each with the blocks it surely covers:
                 ├─···─┼──1──┼─···─┤
                       ├─···─┼──2──┼─···─┤
                             ├─···─┼──3──┼─···─┤      bar of 2 = least k-th best of {1}, {2}, {3}

If a block's bar is above its own k-th best score, as it usually is for random scores, then its rows
that reach the bar are among the k found, and the block is done. So is a block of a single pane,
which needs no more than its best k. The other blocks, such as those at the edges of a batch or
under falling scores, are searched pane by pane. Later rows can only raise
the bar, so no dropped row is ever needed again. Shorter windows that end now (n-of-N) lose nothing
either, because panes that may still be open do not raise a bar.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from skyband.arrays import Array, Ints, Mask
from skyband.contract.rows import Rows
from skyband.contract.runs import offsets_of
from skyband.data.order import sortable
from skyband.kernels.select import select_runs
from skyband.query.topk import TopK

_LOWEST = np.iinfo(np.int64).min

_BLOCKS = 8  # blocks per window, roughly
_ROWS_PER_RESULT = 32  # rows per result that a block must have to be worth a separate pass
_PATIENCE = 8  # batches to skip after an attempt that dropped few rows


class BatchPruner:
    """Selects the rows of single-group batches that can be in an answer, if that saves work.

    Batches should be long (``long_chunks``): blocks within a window of an edge have low bars.
    """

    def __init__(self, query: TopK, others: Sequence[TopK] = ()) -> None:
        """Select for a query, or for several that differ only in k and window.

        The panes are those of the first query, which have all cuts of the others. Every window that
        covers a row covers an interval around it that is as long as the shortest window, so bars
        are computed for the shortest window and the greatest k.
        """
        queries = [query, *others]
        self.panes = query.window.panes
        self.k = max(each.k for each in queries)
        self.largest = query.largest
        # A query with longer panes seals them later than the first one.
        behind = [each.window.panes.slide - self.panes.slide for each in queries]
        lateness = [getattr(each.window, "lateness_ticks", 0) for each in queries]
        self.lateness = max(sum(pair) for pair in zip(lateness, behind, strict=True))
        self.span = self.panes.per_window
        if others:
            self.span = min(each.window.panes.size // self.panes.slide for each in queries)
        self.per_block = max(1, self.span // _BLOCKS)
        self._pause = 0

    def of(self, rows: Rows, score: Array, tie: Ints) -> tuple[Ints, Ints] | None:
        """``select`` for the rows of a batch; None also if they belong to several groups."""
        if len(rows.pane) < 3 or rows.group.any():
            return None
        closed = self._closed(int(rows.pane[-1])) if len(rows) else 0
        return self.select(score, tie, rows.offsets, rows.pane, closed)

    def _closed(self, newest: int) -> int:
        """The pane before which all panes are sealed once a row of the newest pane has arrived."""
        return int(self.panes.pane_of(self.panes.pane_start(newest) - self.lateness))

    def select(
        self, score: Array, tie: Ints, offsets: Ints, pane: Ints, closed: int
    ) -> tuple[Ints, Ints] | None:
        """Like ``select_runs``, with one run per pane; None if it would not pay off.

        ``closed`` is a pane before which all panes are known to be sealed after this batch.
        """
        rows = int(offsets[-1] - offsets[0])
        block = (pane - pane[0]) // self.per_block if len(pane) else pane
        blocks = int(block[-1]) + 1 if len(block) else 0
        if blocks < 3 or self.span < 4 or rows < _ROWS_PER_RESULT * self.k * blocks:
            return None
        if self._pause:
            self._pause -= 1
            return None
        edges = np.searchsorted(block, np.arange(blocks + 1))
        cuts = offsets[edges]
        best, ends = select_runs(score, tie, cuts, self.k, self.largest)
        keys = sortable(score[best], self.largest)
        lengths = np.diff(ends)
        own = np.repeat(np.arange(blocks), lengths)
        bars, kth = self._bars(keys, own, ends, (closed - int(pane[0])) // self.per_block)
        done = (bars > kth) | (lengths == np.diff(cuts)) | (self.per_block == 1)
        kept = best[done[own] & (keys >= bars[own])]
        left = int(np.diff(cuts)[~done].sum())
        if left > rows // 2:
            self._pause = _PATIENCE
        if left:
            kept = np.concatenate([kept, *self._pane_by_pane(score, tie, offsets, edges, done)])
            kept.sort()
        counts = np.diff(np.searchsorted(kept, offsets))
        return kept, offsets_of(counts)

    def _bars(self, keys: Ints, own: Ints, ends: Ints, closed: int) -> tuple[Ints, Ints]:
        """The bar and the k-th best score of each block; ``_LOWEST`` if it has none."""
        k, blocks = self.k, len(ends) - 1
        # A window that starts within block j surely covers j+1 ... j+whole and touches at most
        # j ... j+touched.
        whole = self.span // self.per_block - 1
        touched = (self.per_block + self.span - 2) // self.per_block
        table = np.full((touched + blocks + whole, k), _LOWEST)
        place = np.arange(len(keys)) - ends[own]
        # Of several rows that tie with the k-th any will do: every choice gives a valid bar.
        counts = (place < k) & (own < closed)
        table[touched + own[counts], place[counts]] = keys[counts]
        several = sliding_window_view(table[1:], whole, axis=0).reshape(-1, whole * k)
        reached = np.partition(several, whole * k - k, axis=1)[:, whole * k - k]
        bars: Ints = sliding_window_view(reached, touched + 1).min(axis=1)
        kth = np.full(blocks, _LOWEST)
        lengths = np.diff(ends)
        filled = np.flatnonzero(lengths)
        kth[filled] = np.minimum.reduceat(keys, ends[filled])
        kth[lengths < k] = _LOWEST
        return bars, kth

    def _pane_by_pane(
        self, score: Array, tie: Ints, offsets: Ints, edges: Ints, done: Mask
    ) -> list[Ints]:
        """The best k of each pane of the blocks that are not done."""
        found = []
        turns = np.flatnonzero(np.diff(done, prepend=True, append=True))
        for first, last in zip(turns[::2], turns[1::2], strict=True):
            runs = offsets[edges[first] : edges[last] + 1]
            found.append(select_runs(score, tie, runs, self.k, self.largest)[0])
        return found
