"""``distinct`` over windows that no row leaves: decay and landmark windows.

The order of two rows never changes there, so for ``distinct="best"`` k ids per group suffice. For
"latest" every id counts, because the row that ranks it may be replaced by a worse one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from skyband.arrays import Hashes, Ints
from skyband.contract.accumulated import Accumulated
from skyband.contract.rows import Rows
from skyband.contract.runs import Part, Runs
from skyband.data.keys import best_of_each, hash_array, shards_of
from skyband.kernels.select import select_runs
from skyband.query.topk import TopK
from skyband.topk.base import ALL, TopKSynopsis
from skyband.topk.decay import DecayedRows


class _Ids(Accumulated, TopKSynopsis):
    """One row per id in every summary and in the state. Exact.

    Cost: one pass over the rows of each pane and of the groups of the state that have rows in it.
    State: k ids per group for "best", all ids for "latest".
    """

    def __init__(self, query: TopK) -> None:
        super().__init__(query)
        self.limit = ALL

    def shard(self, source: str, batch: pa.RecordBatch, shards: int) -> Ints:
        return shards_of([batch.column(self.query.id)], shards)

    def summarise(self, rows: Rows) -> Runs:
        runs = super().summarise(rows)
        return runs.with_parts(rows=self._best(runs.parts["rows"]))

    def _best(self, part: Part) -> Part:
        """The row that counts of each id; for "best" only those of the best k ids of each run."""
        if not len(part):
            return part
        latest, rank, tie = self.query.distinct == "latest", self._rank(part), part["tie"]
        kept = (part[f"shown:{name}"] for name in self.query.keep)
        keys = (tie, rank) if latest else (rank, tie)
        rows, offsets = best_of_each(self._ids(part), keys, kept, part.offsets)
        part = part.rows(rows, offsets)
        return part if latest else self._first_ids(part, rank[rows])

    def _first_ids(self, part: Part, rank: Ints, answered: bool = False) -> Part:
        """The best k rows of each run, best first, if there is one row per id."""
        tie = part["tie"] if self.most is None else np.zeros(len(part), np.int64)
        some = part.rows(*select_runs(rank, tie, part.offsets, self.query.k, True))
        return self._first_in_order(some) if self.most is None or answered else some

    def _settled(self, part: Part) -> Part:
        """If ties are shown, all are kept: an id that was cut may come again."""
        return part if self.most is not None else super()._settled(part)

    def _rank(self, part: Part) -> Ints:
        """Integers in the order of the rows of each run, greater is better; times break ties."""
        return np.asarray(part["key"])

    def _ids(self, part: Part) -> Hashes:
        same = self.query.id == self.query.score
        return hash_array(pa.array(part["key"]) if same else part[f"shown:{self.query.id}"])

    def read(self, kept: Runs, end: int) -> Runs:
        live = super().read(kept, end)
        if (self.query.distinct == "best" and self.most is None) or not len(live):
            return live
        part = live.parts["rows"]
        return live.with_parts(rows=self._first_ids(part, self._rank(part), answered=True))


class LandmarkIds(_Ids):
    """``landmark-distinct``: each id once, with the best or the latest of its rows since a moment.

    >>> import pyarrow as pa, skyband as sb
    >>> rows = pa.table({"t": [0, 3, 12], "id": ["a", "b", "a"], "x": [9, 5, 7]})
    >>> window = sb.LandmarkWindow(slide=10)
    >>> query = sb.TopK(k=2, score="x", id="id", time="t", distinct="latest", window=window)
    >>> sb.rank(rows, query)["x"].to_pylist()
    [9, 5, 7, 5]
    """


class DecayedIds(_Ids, DecayedRows):
    """``decay-distinct``: each id once, with its best row by decayed score, or its latest one.

    Ids of "latest" are forgotten once their latest row is older than 1,000 half-lives.

    >>> import pyarrow as pa, skyband as sb
    >>> rows = pa.table({"t": [0, 3, 9], "id": ["a", "b", "a"], "x": [9.0, 5.0, 1.0]})
    >>> window = sb.DecayWindow(4, slide=10)
    >>> query = sb.TopK(k=2, score="x", id="id", time="t", distinct="best", window=window)
    >>> sb.rank(rows, query)["x"].to_pylist()
    [9.0, 5.0]
    """

    def shard(self, source: str, batch: pa.RecordBatch, shards: int) -> Ints:
        if self.query.groups:
            return DecayedRows.shard(self, source, batch, shards)
        return super().shard(source, batch, shards)

    def _rank(self, part: Part) -> Ints:
        return self.decay.keys(self._scores(part), part["tie"], part.offsets)

    def _remembered(self, kept: Runs, end: int) -> Runs:
        part = kept.part("rows")
        if self.query.distinct == "best" or not len(part):
            return super()._remembered(kept, end)
        alive = self.decay.alive(part["tie"], self.decay.panes.pane_start(end))
        if alive.all():
            return kept
        ends = np.append(0, np.cumsum(alive))[part.offsets]
        kept = kept.with_parts(rows=part.rows(np.flatnonzero(alive), ends))
        return kept.take(kept.parts["rows"].lengths > 0)
