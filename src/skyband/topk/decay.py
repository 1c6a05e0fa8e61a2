"""``decay``: the best rows by a score that shrinks with age."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Floats, Ints, Mask
from skyband.contract.accumulated import Accumulated
from skyband.contract.checks import QuickTests, faults, null_tests, number_tests, within
from skyband.contract.rows import Faults, Rows
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.data.columns import native_dtype, to_numpy
from skyband.data.decay import Decay
from skyband.data.keys import hash_kept
from skyband.data.order import id_ranks, sortable, unsortable
from skyband.kernels.topk.select import select_runs
from skyband.topk.base import TopKSynopsis

__all__ = ["DecayedRows"]

_ROOM = 1_000
"""The exponent that the best row of a run gets when rows are compared as doubles."""


class DecayedRows(Accumulated, TopKSynopsis):
    """Keeps the best k rows of each group by ``score * weight``.

    All weights shrink alike, so the order of two rows never changes and a row that k others have
    passed never comes back. Cost: a few array operations per row, then what ``Accumulated`` costs
    for the best k rows of each pane and group. State: k rows per group. Exact, as long as no row
    outlives k better and older ones: rows are gone after 1,000 half-lives, so that takes a stream
    with fewer than k rows in about as many half-lives. Cormode, Shkapenyuk, Srivastava and Xu 2009
    (forward decay), with an order that does not depend on a landmark.

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
        """Positions of each run's best k rows and of rows tied with the k-th; their offsets."""
        positions, offsets = np.arange(len(rows)), rows.offsets
        if self.decay.panes.slide > self.decay.panes.memory:
            # Some rows are gone at the end of their own pane already.
            gone = ~self._alive(tie, np.repeat(rows.pane + 1, rows.lengths))
            positions = positions[~gone]
            offsets = offsets_of(rows.lengths - np.add.reduceat(gone, offsets[:-1], dtype=np.int64))
        exponent, mantissa = self.decay.order(score[positions].astype(np.float64), tie[positions])
        value = _as_doubles(exponent, mantissa, offsets)
        if value is None:
            return positions, offsets  # they differ too much for doubles; ``combine`` sorts them
        best, offsets = select_runs(value, tie[positions], offsets, self.limit, True)
        return positions[best], offsets

    def _alive(self, tie: Ints, end: Ints) -> Mask:
        """Which rows are not gone before pane ``end``."""
        found = np.zeros(len(tie), np.bool_)
        for each in np.unique(end).tolist():
            mine = end == each
            found[mine] = self.decay.alive(tie[mine], self.decay.panes.pane_start(each))
        return found

    def combine(self, runs: Runs) -> Runs:
        runs = runs.united()
        part = runs.parts["rows"].resorted(np.arange(len(runs)), self._order)
        return runs.with_parts(rows=part.first_rows(self.query.k))

    def _order(self, part: Part, run: Ints) -> Array:
        exponent, mantissa = self.decay.order(self._scores(part), part["tie"])
        keys: list[Array] = [~part["tie"], -mantissa, ~exponent, run]
        kept = [part[f"shown:{name}"] for name in self.query.keep]
        ids = part.columns.get(f"shown:{self.query.id}")
        if ids is not None:
            keys.insert(0, id_ranks(ids))
        elif self.query.id == self.query.score:
            keys.insert(0, part["key"])
        if kept and len(part):
            keys.insert(0, hash_kept(kept))
        return np.lexsort(keys)

    def _scores(self, part: Part) -> Floats:
        dtype = native_dtype(self.schema.field(self.query.score).type)
        assert dtype is not None
        return unsortable(part["key"], dtype).astype(np.float64)

    # Answers ----------------------------------------------------------------------------------

    def read(self, kept: Runs, end: int) -> Runs:
        return self._live(kept, end)

    def _live(self, kept: Runs, end: int) -> Runs:
        """Without the rows that are gone before pane ``end``."""
        part = kept.parts["rows"]
        if not len(part):
            return kept.slice(0, 0)
        alive = self.decay.alive(part["tie"], self.decay.panes.pane_start(end))
        if alive.all():
            return kept
        counts = np.add.reduceat(np.append(alive, False), part.offsets[:-1], dtype=np.int64)
        counts[part.lengths == 0] = 0
        found = kept.with_parts(rows=part.rows(np.flatnonzero(alive), offsets_of(counts)))
        return found.take(counts > 0)

    def _take(self, panes: Runs) -> None:
        if self.kept is not None and len(panes):  # rows that are gone must keep no others out
            self.kept = self._live(self.kept, int(panes.stamp[-1]) + 1)
        super()._take(panes)

    def fold(self, panes: Runs, windows: Any, final: bool = False) -> Runs | None:
        found = super().fold(panes, windows, final)
        if len(windows) and self.kept is not None:
            self.kept = self._live(self.kept, int(windows.end[-1]))
        return found

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


def _as_doubles(exponent: Ints, mantissa: Floats, offsets: Ints) -> Floats | None:
    """Doubles in the order of the pairs within each run; None if a double cannot tell them."""
    lengths = np.diff(offsets)
    finite = (mantissa > 0) & np.isfinite(mantissa)
    if not finite.any():
        return mantissa
    known = np.where(finite, exponent, np.iinfo(np.int64).min)
    starts = offsets[:-1][lengths > 0]
    best = np.repeat(np.maximum.reduceat(known, starts), lengths[lengths > 0])
    behind = np.where(finite, best - np.where(finite, exponent, best), 0)
    if behind.max() > 2 * _ROOM:
        return None
    return np.asarray(np.ldexp(mantissa, np.where(finite, _ROOM - behind, 0)))


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
