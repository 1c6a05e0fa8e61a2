"""``decay``: the best rows by a score that shrinks with age."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Floats, Ints, Mask
from skyband.contract.checks import QuickTests, faults, null_tests, number_tests, within
from skyband.contract.rows import Faults, Rows
from skyband.contract.runs import Part, Runs, expand, offsets_of, places
from skyband.data.columns import native_dtype, to_numpy
from skyband.data.decay import Decay
from skyband.data.keys import hash_kept
from skyband.data.order import row_order, sortable, unsortable
from skyband.kernels.core.borrow import frozen
from skyband.kernels.core.sorting import sort_runs
from skyband.kernels.topk.select import select_runs
from skyband.topk.base import ALL
from skyband.topk.outlasting import Outlasting, cut

__all__ = ["DecayedRows"]


class DecayedRows(Outlasting):
    """Keeps the best k rows of each group by ``score * weight``, and rows that may outlast them.

    All weights shrink alike, so the order of two rows never changes. Cost: a few array operations
    per row, then what ``Accumulated`` costs for the best k rows of each pane and group. State: per
    group the best k rows and a reserve of at most about twice as many as the k-skyband in (decayed
    score, time), which has k (1 + ln n) rows if scores come in random order in the n panes of a
    few half-lives. Exact. Cormode, Shkapenyuk, Srivastava and Xu 2009 (forward decay), with an
    order that does not depend on a landmark, and rows that are gone after 1,000 half-lives.

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

    def summarise(self, rows: Rows) -> Runs:
        score, tie = rows.numpy(self.query.score), rows.tie
        weights = self.decay.weights(tie, self._ends(rows.pane, rows.lengths))
        positions, offsets = self._select(rows, score, tie)
        columns: dict[str, Any] = {
            "key": sortable(score[positions]),
            "tie": tie[positions],
        }
        columns |= {f"shown:{name}": rows.take(name, positions) for name in self._payload}
        total = np.add.reduceat(weights, rows.offsets[:-1])
        return rows.runs({"rows": Part(offsets, columns)}, total)

    def _ends(self, pane: Ints, lengths: Ints) -> Ints:
        return np.repeat(self.decay.panes.pane_end(pane), lengths)

    def _select(self, rows: Rows, score: Array, tie: Ints) -> tuple[Ints, Ints]:
        """Positions of each run's best k rows and of rows tied with the k-th; their offsets.

        If rows of one pane are gone at different ends, these are the best k for each end.
        """
        positions, offsets = np.arange(len(rows)), rows.offsets
        splits = self.outlasts and self.decay.splits
        if self.decay.panes.slide > self.decay.panes.memory:
            # Some rows are gone at the end of their own pane already.
            gone = ~self._alive(tie, np.repeat(rows.pane + 1, rows.lengths))
            positions = positions[~gone]
            offsets = offsets_of(rows.lengths - np.add.reduceat(gone, offsets[:-1], dtype=np.int64))
        if self.limit == ALL:
            return positions, offsets
        if splits:
            positions, offsets = self._split(tie, offsets)
        values, ties = score[positions].astype(np.float64, copy=False), tie[positions]
        keys = self.decay.keys(values, ties, offsets)
        best, offsets = select_runs(keys, ties, offsets, self.limit, True)
        return positions[best], offsets[::2] if splits else offsets

    def _split(self, tie: Ints, offsets: Ints) -> tuple[Ints, Ints]:
        """Positions and offsets of two runs for each: rows that are gone at one end or the next."""
        runs = len(offsets) - 1
        run = 2 * np.repeat(np.arange(runs), np.diff(offsets)) + (self.decay.last_seen(tie) & 1)
        cuts = offsets_of(np.bincount(run, minlength=2 * runs))
        return np.argsort(run, kind="stable"), cuts

    def _alive(self, tie: Ints, end: Ints) -> Mask:
        """Which rows are not gone before pane ``end``."""
        found = np.zeros(len(tie), np.bool_)
        for each in np.unique(end).tolist():
            mine = end == each
            found[mine] = self.decay.alive(tie[mine], self.decay.panes.pane_start(each))
        return found

    def _best(self, part: Part) -> Part:
        """The best k rows of the run of each pane, or the best k for each end; see ``_select``."""
        if not len(part):
            return part
        if not (self.outlasts and self.decay.splits):
            return cut(part, *self._ranked(part))
        part = part.rows(*self._split(part["tie"], part.offsets))
        part = cut(part, *self._ranked(part))
        return Part(part.offsets[::2], part.columns)

    def _ranked(self, part: Part) -> tuple[Ints, Mask]:
        order = self._order(part, np.repeat(np.arange(len(part.lengths)), part.lengths))
        return order, places(part.offsets) <= self.query.k

    def _order(self, part: Part, run: Ints) -> Array:
        keys, tie = self._keys(part), part["tie"]
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

    def _keys(self, part: Part) -> Ints:
        return self.decay.keys(self._scores(part), part["tie"], part.offsets)

    def _scores(self, part: Part) -> Floats:
        dtype = native_dtype(self.schema.field(self.query.score).type)
        assert dtype is not None
        return unsortable(part["key"], dtype).astype(np.float64)

    # Answers ----------------------------------------------------------------------------------

    def finish(self, partials: Sequence[Runs]) -> Runs:
        runs = Runs.concat(partials)
        if len(partials) > 1:
            runs = self._best_of(runs)
        part = runs.parts["rows"]
        ends = self.decay.panes.pane_start(np.repeat(runs.scalars["end"], part.lengths))
        shown = pa.array(self.decay.decayed(self._scores(part), part["tie"], ends))
        columns = {
            field.name: shown if field.name == "decayed" else self._shown(part, field)
            for field in self.output()
        }
        return Runs(runs.stamp, runs.group, {"rows": Part(part.offsets, columns)})

    def _best_of(self, runs: Runs) -> Runs:
        runs = runs.ordered().united(np.maximum.reduceat)
        part = runs.parts["rows"].resorted(np.arange(len(runs)), self._order)
        return runs.with_parts(rows=part.first_rows(self.query.k))


def _below_zero(batch: pa.RecordBatch, name: str) -> Mask | None:
    column = batch.column(name)
    values = to_numpy(column)
    if values.dtype.kind == "u":
        return None
    with np.errstate(invalid="ignore"):
        below: Mask = values < 0
    if column.null_count:
        below &= np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
    return below if below.any() else None
