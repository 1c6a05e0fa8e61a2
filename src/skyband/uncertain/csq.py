"""CSQ: all distinct compact sets of the newest panes (section 4.1); CCSQ, compressed (4.2)."""

from __future__ import annotations

from skyband.arrays import Ints
from skyband.uncertain.kernels import queue
from skyband.uncertain.kernels.csq import ccsq_fold, ccsq_read, ccsq_set, csq_fold, csq_read
from skyband.uncertain.queue import CompactSets, Kernels
from skyband.uncertain.windowed import WindowedSynopsis


class DistinctSets(CompactSets):
    """All distinct compact sets of the newest panes."""

    kernels = Kernels(csq_fold, csq_read)


class CompactSetQueue(WindowedSynopsis):
    """Keeps all distinct compact sets of the newest panes, so that on expiry the next is there.

    Cost in a random stream, with W rows in the window and H in a compact set: O(kH²) per row and
    O(H² log W) space. Exact.

    Section 4.1, algorithm 1, pane by pane. The newest rows are searched for a compact set until
    they admit none; the paper searches once, but the rows that are left may admit another.

    >>> import pyarrow as pa, skyband as sb
    >>> readings = pa.table({"speed": [5, 6, 8, 2], "p": [0.8, 0.5, 0.4, 0.4]})
    >>> names, window = {"score": "speed", "probability": "p"}, sb.CountWindow(4)
    >>> query = sb.UncertainTopK(k=2, **names, window=window, algorithm="csq")
    >>> sb.rank(readings, query)["speed"].to_pylist()
    [5, 6]
    """

    keeps = DistinctSets


class CompressedSets(CompactSets):
    """The newest compact set, and the rows that each older one adds."""

    kernels = Kernels(ccsq_fold, ccsq_read)
    head_counts = True

    def _sets(self) -> list[Ints]:
        num = self.queue.num
        entries = range(num[queue.FIRST], num[queue.LAST])
        return [ccsq_set(self.store.rows, self.queue, e) for e in entries]

    def _check(self) -> None:
        super()._check()
        arena, entry, num = self.queue
        for begin, size, _, oldest in entry[num[queue.FIRST] : num[queue.LAST]][:-1].tolist():
            added = self.store.rows.pane[arena[begin : begin + size]]
            assert (added == oldest).all(), "an older set adds rows of its oldest pane only"


class CompressedQueue(WindowedSynopsis):
    """Keeps the newest compact set whole, and for every older one only what it adds.

    Cost in a random stream, with W rows in the window and H in a compact set: O(kH²) per row and
    O(H(k + log W)) space. Exact.

    Section 4.2, pane by pane: an older set adds only rows of its oldest pane.

    >>> import pyarrow as pa, skyband as sb
    >>> readings = pa.table({"speed": [5, 6, 8, 2], "p": [0.8, 0.5, 0.4, 0.4]})
    >>> names, window = {"score": "speed", "probability": "p"}, sb.CountWindow(4)
    >>> query = sb.UncertainTopK(k=2, **names, window=window, algorithm="ccsq")
    >>> sb.rank(readings, query)["speed"].to_pylist()
    [5, 6]
    """

    keeps = CompressedSets
