"""BS: every row of the window, in row order (section 4 of the paper)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.kernels.uncertain import base
from skyband.kernels.uncertain.base import Sorted, expire_sorted, fold_sorted, read_sorted
from skyband.query.uncertain import UncertainTopK
from skyband.uncertain.windowed import Floats, Ints, WindowedSynopsis

__all__ = ["BaseSynopsis"]


class BaseSynopsis(WindowedSynopsis):
    """Keeps all rows sorted and finds the window's compact set again when a change touches it.

    O(log W) a row for the order and O(kH²/W) for the compact set in a random stream; O(W) space
    (H is the size of a compact set). Exact.

    Section 4, lemma 4.1. Sorted blocks stand in for the paper's balanced trees.

    >>> import pyarrow as pa, skyband as sb
    >>> readings = pa.table({"speed": [5, 6, 8, 2], "p": [0.8, 0.5, 0.4, 0.4]})
    >>> query = sb.UncertainTopK(
    ...     k=2, score="speed", probability="p", window=sb.CountWindow(3, slide=1), algorithm="bs"
    ... )
    >>> sb.rank(readings, query).select(["window_end", "speed"]).to_pydict()["speed"]
    [5, 5, 6, 5, 6, 6, 8]
    """

    keeps_all = True

    def __init__(self, query: UncertainTopK) -> None:
        super().__init__(query)
        self._start(np.zeros(base.NUMBERS, np.int64))

    def _start(self, num: Ints) -> None:
        self._sorted = Sorted(
            np.empty((1, base.BLOCK), np.int64),
            np.zeros(1, np.int64),
            np.zeros(1, np.int64),
            np.zeros(0, np.int64),
            num,
        )

    def _run(
        self, stamp: Ints, offsets: Ints, first: Ints, end: Ints, final: bool
    ) -> tuple[Ints, Floats, Ints]:
        self._sorted, slots, chance, ends = fold_sorted(
            self.rule, self.store.rows, self._sorted, stamp, offsets, first, end, final
        )
        return slots, chance, ends

    def _expire(self, first: int) -> None:
        if self.schemas:
            self._sorted = expire_sorted(self.store.rows, self._sorted, first)

    def _read(self, first: int) -> Ints:
        return read_sorted(self.rule, self.store.rows, self._sorted, first)

    def _live(self) -> Ints:
        num = self._sorted.num
        return np.arange(num[base.LOW], num[base.HIGH])

    def _renumber(self, live: Ints) -> None:
        _, _, _, head, num = self._sorted
        gone = num[base.LOW]
        self._sorted.block[:] -= gone
        head -= gone
        num[base.LOW] -= gone
        num[base.HIGH] -= gone

    def _state(self) -> Mapping[str, npt.NDArray[Any]]:
        _, _, _, head, num = self._sorted
        return {"head": head[: num[base.HEAD]], "num": num}

    def _load(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        # The order of rows is worth no room in a snapshot: it is made again.
        num = arrays["num"]
        rows = self.store.rows
        order = np.lexsort((np.arange(len(rows.key)), -rows.pane, ~rows.key))
        blocks = [order[i : i + base.BLOCK // 2] for i in range(0, len(order), base.BLOCK // 2)]
        block = np.empty((max(1, len(blocks)), base.BLOCK), np.int64)
        for i, slots in enumerate(blocks):
            block[i, : len(slots)] = slots
        count = np.array([len(slots) for slots in blocks] or [0], np.int64)
        num[base.BLOCKS] = len(blocks)
        self._sorted = Sorted(block, count, np.arange(len(count)), arrays["head"], num)

    def stats(self) -> dict[str, int | float]:
        num = self._sorted.num
        own = sum(array.nbytes for array in self._sorted)
        return {
            "retained": int(num[base.HIGH] - num[base.LOW]),
            "state_bytes": own + (self.store.nbytes if self.schemas else 0),
            "rows_inserted": int(num[base.INSERTED]),
            "rows_deleted": int(num[base.DELETED]),
            "compact_sets_built": int(num[base.REBUILT]),
        }

    def _check(self) -> None:
        super()._check()
        block, count, chain, head, num = self._sorted
        chained = [block[b, : count[b]] for b in chain[: num[base.BLOCKS]]]
        assert all(len(each) for each in chained)
        assert sorted(chain.tolist()) == list(range(len(chain)))
        assert num[base.HIGH] == (len(self.store) if self.schemas else 0)
        slots = np.concatenate([np.zeros(0, np.int64), *chained])
        assert np.array_equal(np.sort(slots), self._live())
        if len(slots):
            rows = self.store.rows
            order = np.lexsort((slots, -rows.pane[slots], ~rows.key[slots]))
            assert np.array_equal(order, np.arange(len(slots)))
            n = num[base.HEAD]
            if n and not num[base.STALE]:
                assert np.array_equal(head[:n], slots[:n])
                assert num[base.HEAD_OLDEST] == rows.pane[head[:n]].min()
