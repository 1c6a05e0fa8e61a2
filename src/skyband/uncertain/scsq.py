"""SCSQ: a few compact sets and the segments between them (sections 4.3 and 4.4 of the paper)."""

from __future__ import annotations

import numpy as np

from skyband.uncertain.kernels import queue
from skyband.uncertain.kernels.scsq import buffer_fold, scsq_fold, scsq_read
from skyband.uncertain.queue import CompactSets, Kernels
from skyband.uncertain.windowed import WindowedSynopsis


class Segments(CompactSets):
    """A few compact sets, and the rows between them that may still enter one."""

    kernels = Kernels(scsq_fold, scsq_read)
    head_counts = True

    def _check(self) -> None:
        super()._check()
        arena, entry, num = self.queue
        rows = self.store.rows
        live = entry[num[queue.FIRST] : num[queue.LAST]]
        sizes, segments = live[:, queue.SIZE], live[:, queue.MORE]
        largest, h = sizes.max(initial=0), num[queue.LARGEST]
        assert h <= 2 * largest, "footnote 1: H has shrunk"
        assert largest <= 2 * h, "footnote 1: H has grown"
        assert (segments[1:] + segments[:-1] >= h).all(), "invariant 7"
        older = np.iinfo(np.int64).min
        for begin, size, more, oldest in live.tolist():
            segment = arena[begin + size : begin + size + more]
            self.store.check_order(np.append(segment, arena[begin + size - 1]))
            panes = rows.pane[segment]
            assert ((panes > older) & (panes < oldest)).all()
            # A merge adds the rows that a compact set has of one pane to fewer than H rows.
            of_one_pane = np.unique(panes, return_counts=True)[1].max(initial=0)
            assert more <= num[queue.BOUND] + of_one_pane, "invariant 6"
            older = oldest


class SegmentalQueue(WindowedSynopsis):
    """Keeps O(log W) compact sets and, between them, the rows that may still enter one.

    Cost in a random stream, with W rows in the window and H in a compact set: O(kH log W) per row
    and O(H(k + log W)) space. Exact.

    Section 4.3. If panes hold many rows, a merge adds all rows of the older set's oldest pane, so
    invariant 6 becomes: a segment has at most H rows plus those of one pane. H is updated as in
    footnote 1, and the H that counts is the one in force when the segment was filled.

    >>> import pyarrow as pa, skyband as sb
    >>> readings = pa.table({"speed": [5, 6, 8, 2], "p": [0.8, 0.5, 0.4, 0.4]})
    >>> names, window = {"score": "speed", "probability": "p"}, sb.CountWindow(4)
    >>> query = sb.UncertainTopK(k=2, **names, window=window, algorithm="scsq")
    >>> sb.rank(readings, query)["speed"].to_pylist()
    [5, 6]
    """

    keeps = Segments


class BufferedSegments(Segments):
    """The same, with a buffer for new rows."""

    kernels = Kernels(buffer_fold, scsq_read)
    waits = True

    def _check(self) -> None:
        super()._check()
        num = self.queue.num
        assert num[queue.TAIL] <= num[queue.FRESH] <= num[queue.HIGH]
        assert num[queue.HIGH] - num[queue.FRESH] < num[queue.ROOM], "the buffer is full"


class BufferedQueue(WindowedSynopsis):
    """SCSQ with a buffer for new rows; only the window's compact set is updated at once.

    Cost in a random stream, with W rows in the window and H in a compact set: O(kH²/W + log W)
    amortised per row and O(H(k + log W)) space. Exact.

    Section 4.4, algorithm 2, with a buffer of kH rows that is resized as in footnote 2. Departures:
    panes that arrive together, with no window between them that needs the queue, fill the buffer
    together, and it is emptied once; when it is emptied, the rows after the newest compact set's
    oldest pane stay in it (the paper drops them, but windows that start among them need them); if
    kH rows admit no compact set, the buffer grows, so that the algorithm turns into BS.

    >>> import pyarrow as pa, skyband as sb
    >>> readings = pa.table({"speed": [5, 6, 8, 2], "p": [0.8, 0.5, 0.4, 0.4]})
    >>> names, window = {"score": "speed", "probability": "p"}, sb.CountWindow(4)
    >>> query = sb.UncertainTopK(k=2, **names, window=window, algorithm="scsq-buffer")
    >>> sb.rank(readings, query)["speed"].to_pylist()
    [5, 6]
    """

    keeps = BufferedSegments
