"""``decay``: the best rows by a score that shrinks with age."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Floats, Ints, Mask
from skyband.contract.accumulated import Accumulated
from skyband.contract.checks import QuickTests, faults, null_tests, number_tests, within
from skyband.contract.rows import Faults, Rows
from skyband.contract.runs import Part, Runs, expand, offsets_of
from skyband.data.columns import mask_of, native_dtype, to_numpy
from skyband.data.decay import Decay
from skyband.data.keys import hash_kept, shards_of
from skyband.data.order import row_order, sortable, unsortable
from skyband.kernels.borrow import frozen
from skyband.kernels.select import select_runs
from skyband.kernels.sorting import sort_runs
from skyband.topk.base import ALL, TopKSynopsis


class DecayedRows(Accumulated, TopKSynopsis):
    """Keeps the best k rows of each group by ``score * weight``.

    All weights shrink alike, so the order of two rows never changes and a row leaves only when it
    is beaten. Groups without a row for 1,000 half-lives are forgotten. Cost: a few array operations
    per row, then what ``Accumulated`` costs for the best k rows of each pane and group. State: k
    rows per group. Exact. Cormode, Shkapenyuk, Srivastava and Xu 2009 (forward decay), with an
    order that does not depend on a landmark.

    >>> import pyarrow as pa, skyband as sb
    >>> rows = pa.table({"t": [0, 3, 12], "x": [9.0, 5.0, 4.0]})
    >>> window = sb.DecayWindow(4, slide=10)
    >>> query = sb.TopK(k=1, score="x", time="t", window=window)
    >>> sb.rank(rows, query).select(["window_end", "x", "decayed"]).to_pylist()[1]
    {'window_end': 20, 'x': 4.0, 'decayed': 1.0}
    """

    @cached_property
    def decay(self) -> Decay:
        """The window's decay, once the type of the time column is known."""
        window: Any = self.query.window
        return Decay(window.panes, self.axes[""].kind)

    # Columns ----------------------------------------------------------------------------------

    def output(self) -> pa.Schema:
        shown = super().output()
        after = shown.get_field_index(self.query.score) + 1
        return shown.insert(after, pa.field("decayed", pa.float64()))

    def validate(self, source: str, batch: pa.RecordBatch) -> Faults | None:
        query = self.query
        tests = number_tests(batch, "score", query.score)
        tests.append(
            (
                query.score,
                "the score is below 0, so it cannot decay",
                _below_zero(batch, query.score),
            )
        )
        return faults(batch, tests + null_tests(batch, id=query.id, time=query.time))

    def quick_tests(self, source: str) -> QuickTests | None:
        return {self.query.score: within(0, np.inf)}

    # Rows -------------------------------------------------------------------------------------

    def shard(self, source: str, batch: pa.RecordBatch, shards: int) -> Ints:
        groups = self.query.groups
        if not groups:
            return super().shard(source, batch, shards)
        # Only a shard that has all rows of a group can tell whether the group is forgotten.
        return shards_of([batch.column(name) for name in groups], shards)

    def summarise(self, rows: Rows) -> Runs:
        score, tie = rows.numpy(self.query.score), rows.tie
        ends = np.repeat(self.decay.panes.pane_end(rows.pane), rows.lengths)
        total = np.add.reduceat(self.decay.weights(tie, ends), rows.offsets[:-1])
        positions, offsets = self._select(rows, score, tie)
        columns: dict[str, Any] = {
            "key": sortable(score[positions]),
            "tie": tie[positions],
        }
        columns |= {f"shown:{name}": rows.take(name, positions) for name in self._payload}
        runs = rows.runs({"rows": Part(offsets, columns)}, total)
        return runs.with_scalars(seen=np.maximum.reduceat(tie, rows.offsets[:-1]))

    def _select(self, rows: Rows, score: Array, tie: Ints) -> tuple[Ints, Ints]:
        if self.limit == ALL:
            return np.arange(len(rows)), rows.offsets
        keys = self.decay.keys(score.astype(np.float64, copy=False), tie, rows.offsets)
        return select_runs(keys, tie, rows.offsets, self.limit, True)

    def combine(self, runs: Runs) -> Runs:
        seen = np.maximum.reduceat(runs.scalars["seen"], np.flatnonzero(~runs.repeats))
        return super().combine(runs).with_scalars(seen=seen)

    def _best(self, part: Part) -> Part:
        return self._first_in_order(part)

    def _order(self, part: Part, run: Ints) -> Array:
        tie = part["tie"]
        keys = self.decay.keys(self._scores(part), tie, part.offsets)
        order, tied = sort_runs(frozen(keys), frozen(tie), frozen(part.offsets))
        if tied.any():  # ids decide, then kept columns
            runs = np.flatnonzero(tied)
            rows = expand(part.offsets[runs], part.lengths[runs])
            some = part.rows(rows, offsets_of(part.lengths[runs]))
            same = self.query.id == self.query.score
            ids = pa.array(some["key"]) if same else some.columns.get(f"shown:{self.query.id}")
            kept = [some[f"shown:{name}"] for name in self.query.keep]
            hashes = hash_kept(kept) if kept else None
            order[rows] = rows[row_order(keys[rows], tie[rows], ids, None, run[rows], hashes)]
        return order

    def _scores(self, part: Part) -> Floats:
        dtype = native_dtype(self.schema.field(self.query.score).type)
        assert dtype is not None
        return unsortable(part["key"], dtype).astype(np.float64)

    # Forgetting -------------------------------------------------------------------------------

    def push(self, panes: Runs) -> None:
        edges = [0, *(np.flatnonzero(np.diff(panes.stamp)) + 1).tolist(), len(panes)]
        for low, high in pairwise(edges):
            pane = panes.slice(low, high)
            if self.kept is not None and len(pane):
                self.kept = self._remembered(self.kept, int(pane.stamp[0]))
            super().push(pane)

    def read(self, kept: Runs, end: int) -> Runs:
        return super().read(self._remembered(kept, end), end)

    def _remembered(self, kept: Runs, end: int) -> Runs:
        """The state without groups whose newest row is older than 1,000 half-lives at a pane."""
        if not self.query.groups:
            return kept
        alive = self.decay.alive(kept.scalars["seen"], self.decay.panes.pane_start(end))
        return kept if alive.all() else kept.take(alive)

    # Answers ----------------------------------------------------------------------------------

    def finish(self, partials: Sequence[Runs]) -> Runs:
        runs = Runs.concat(partials)
        if len(partials) > 1:
            runs = runs.ordered().united(np.maximum.reduceat)
            part = runs.parts["rows"].resorted(np.arange(len(runs)), self._order)
            runs = runs.with_parts(rows=part.first_rows(self.query.k))
        part = runs.parts["rows"]
        ends = self.decay.panes.pane_start(np.repeat(runs.scalars["end"], part.lengths))
        shown = pa.array(self.decay.decayed(self._scores(part), part["tie"], ends))
        columns = {
            field.name: shown if field.name == "decayed" else self._shown(part, field)
            for field in self.output()
        }
        return Runs(runs.stamp, runs.group, {"rows": Part(part.offsets, columns)})


def _below_zero(batch: pa.RecordBatch, name: str) -> Mask | None:
    column = batch.column(name)
    values = to_numpy(column)
    if values.dtype.kind == "u":
        return None
    with np.errstate(invalid="ignore"):
        below: Mask = values < 0
    if column.null_count:
        below &= mask_of(column.is_valid())
    return below if below.any() else None
