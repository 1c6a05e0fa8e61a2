"""BS: every row of the window, in row order (section 4 of the paper)."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Ints, Saved, State
from skyband.data.flat_state import Form, admitted, require
from skyband.uncertain.kernels import bs as o
from skyband.uncertain.kernels.bs import SortedRows, sorted_fold, sorted_read
from skyband.uncertain.kernels.compact import set_end
from skyband.uncertain.windowed import Reserve, UncertainRows, WindowedSynopsis


class SortedReserve(Reserve):
    """All rows, in blocks that are sorted in row order."""

    def __init__(self, store: UncertainRows) -> None:
        super().__init__(store)
        one = np.zeros(1, np.int64)
        num = np.zeros(o.NUMBERS, np.int64)
        self.sorted = SortedRows(np.empty((1, o.BLOCK), np.int64), one, one.copy(), num)

    def take(self, offsets: Ints, gone: Ints) -> None:
        self.sorted = sorted_fold(self.store.rows, self.sorted, offsets, gone)

    def find(self, first: int) -> tuple[Ints, bool]:
        rows, most = self.store.rows, 4 * self.store.rule.k
        while True:
            slots = sorted_read(rows, self.sorted, first, most)
            if len(slots) < most:
                return slots, False
            if set_end(rows, slots, len(slots)) > 0:
                return slots, True
            most *= 4

    def live(self) -> Ints:
        num = self.sorted.num
        return np.arange(num[o.LOW], num[o.HIGH])

    def renumber(self, live: Ints) -> None:
        # The head may hold rows that have expired, so there may be gaps between live slots.
        block, count, chain, num = self.sorted
        for b in chain[: num[o.BLOCKS]]:
            block[b, : count[b]] = np.searchsorted(live, block[b, : count[b]])
        num[[o.LOW, o.HIGH]] = np.searchsorted(live, num[[o.LOW, o.HIGH]])

    def state(self) -> State:
        return {"num": self.sorted.num}

    def restore(self, arrays: Saved) -> None:
        # A snapshot does not hold the order of rows: they are taken again.
        num = admitted(arrays, {"num": self.sorted.num}, {"num": Form(o.NUMBERS, 0)})["num"]
        require(num[o.LOW] <= num[o.HIGH] == len(self.store), "rows that are not there")
        self.sorted.num[[o.LOW, o.HIGH]] = num[o.LOW]
        self.take(num[[o.LOW, o.HIGH]], np.full(2, np.iinfo(np.int64).min))
        self.sorted.num[[o.INSERTED, o.DELETED]] = num[[o.INSERTED, o.DELETED]]

    def stats(self, head: int, rebuilt: int) -> dict[str, int | float]:
        num = self.sorted.num
        return {
            "retained": int(num[o.HIGH] - num[o.LOW]),
            "rows_inserted": int(num[o.INSERTED]),
            "rows_deleted": int(num[o.DELETED]),
            "compact_sets_built": rebuilt,
        }

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.sorted)

    def _check(self) -> None:
        block, count, chain, num = self.sorted
        chained = [block[b, : count[b]] for b in chain[: num[o.BLOCKS]]]
        assert all(len(each) for each in chained)
        assert sorted(chain.tolist()) == list(range(len(chain)))
        assert num[o.HIGH] == len(self.store)
        slots = np.concatenate([np.zeros(0, np.int64), *chained])
        assert np.array_equal(np.sort(slots), self.live())
        if len(slots):
            self.store.check_order(slots)


class SortedWindow(WindowedSynopsis):
    """Keeps all rows sorted, and searches for the compact set again when a row of it expires.

    Cost in a random stream, with W rows in the window and H in a compact set: O(log W) per row
    for the order and O(kH²/W) for the compact set; O(W) space. Exact.

    Section 4, lemma 4.1. Sorted blocks replace the paper's balanced trees, and an arriving row is
    merged into the compact set (theorem 3.2), which need not be searched for again.

    >>> import pyarrow as pa, skyband as sb
    >>> readings = pa.table({"speed": [5, 6, 8, 2], "p": [0.8, 0.5, 0.4, 0.4]})
    >>> query = sb.UncertainTopK(
    ...     k=2, score="speed", probability="p", window=sb.CountWindow(3, slide=1), algorithm="bs"
    ... )
    >>> sb.rank(readings, query).select(["window_end", "speed"]).to_pydict()["speed"]
    [5, 5, 6, 5, 6, 6, 8]
    """

    keeps = SortedReserve
    keeps_all = True
