"""``TopK(distinct=...)``: each id once. What the algorithms for "best" and "latest" share.

In a summary each id has one row per pane. Rows are sharded by id, so that a shard knows all rows of
its ids, and a partial answer is the best k ids of a shard.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Hashes, Ints
from skyband.contract.rows import Rows
from skyband.contract.runs import Part, Runs
from skyband.data.keys import best_of_each, hash_array, shards_of
from skyband.data.order import id_ranks, scores_of, sortable
from skyband.topk.base import TopKSynopsis


class DistinctTopK(TopKSynopsis):
    """Everything that algorithms with one row per id share, except the state over sealed panes."""

    many_groups = True

    def shard(self, source: str, batch: pa.RecordBatch, shards: int) -> Ints:
        return shards_of([batch.column(self.query.id)], shards)

    @abstractmethod
    def _rule(self, key: Ints, tie: Ints) -> tuple[Ints, Ints]:
        """What decides which row of an id counts: the greatest of these, one after another."""

    def ids(self, rows: Rows, positions: Ints | None = None) -> Hashes:
        """Hashes of the ids, of all rows or of those at these positions of the run order."""
        assert self.query.id is not None
        if positions is not None:
            return hash_array(rows.take(self.query.id, positions))
        hashes = hash_array(rows.batch.column(self.query.id))
        return hashes if rows.index is None else hashes[rows.index]

    def summarise(self, rows: Rows) -> Runs:
        hashes, kept = self.ids(rows), map(rows.arrow, self.query.keep)
        key = sortable(rows.numpy(self.query.score), self.query.largest)
        keys = self._rule(key, rows.tie)
        positions, offsets = best_of_each(hashes, keys, kept, rows.offsets)
        columns: dict[str, Any] = {
            "key": key[positions],
            "tie": rows.tie[positions],
            "hash": hashes[positions],
        }
        columns |= {f"shown:{name}": rows.take(name, positions) for name in self._payload}
        return rows.runs({"rows": Part(offsets, columns)})

    def combine(self, runs: Runs) -> Runs:
        runs = runs.united()
        return runs.with_parts(rows=self.united(runs.parts["rows"]))

    def position_in(self, part: Part, key: Sequence[pa.Array]) -> tuple[int, Any, int] | None:
        """The position of an id among rows of one group, one per id, in any order."""
        if not len(part):
            return None
        at = np.flatnonzero(part["hash"] == hash_array(key[0])[0])
        if not len(at):
            return None
        keys, ties = part["key"], part["tie"]
        mine, own = keys[at[0]], ties[at[0]]
        better = keys > mine
        kind = self.output().field(self.query.score).type
        value = scores_of(keys[at[:1]], kind, self.query.largest)[0].as_py()
        if self.query.tied_by is not None:
            return int(better.sum()) + 1, value, len(part)
        better |= (keys == mine) & (ties > own)
        tied = np.flatnonzero((keys == mine) & (ties == own))
        some = part.rows(tied, np.array([0, len(tied)]))
        ids = some.columns.get(f"shown:{self.query.id}")
        order = np.argsort(id_ranks(ids), kind="stable") if ids is not None else np.zeros(1, int)
        place = int(np.flatnonzero(tied[order] == at[0])[0])
        return int(better.sum()) + place + 1, value, len(part)

    def united(self, part: Part) -> Part:
        """One row per id of each run, in runs that were joined."""
        if not len(part):
            return part
        names = (f"shown:{name}" for name in self.query.keep)  # positions do not depend on them
        kept = (part[name] for name in names if name in part.columns)
        keys = self._rule(part["key"], part["tie"])
        return part.rows(*best_of_each(part["hash"], keys, kept, part.offsets))
