"""What all TopK algorithms share: columns, summaries, the finished answer.

A summary holds the best k rows of each (pane, group): for each row a sortable score, a time or
arrival number that breaks ties, and the columns that an answer shows. Rows that tie in both are
sorted by id here, so that kernels can break these ties by position and need not look at ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.arrays import Ints
from skyband.contract.checks import faults, nan_mask, null_mask, numeric, plain_key
from skyband.contract.rows import Faults, Rows
from skyband.contract.runs import Part, Runs, expand, offsets_of, pick
from skyband.contract.synopsis import Synopsis
from skyband.data.columns import native_dtype, output_type
from skyband.data.order import row_order, sortable, unsortable
from skyband.kernels.core.sorting import sort_runs
from skyband.kernels.topk.select import select_runs
from skyband.query.topk import TopK
from skyband.window import CountWindow

__all__ = ["TopKSynopsis"]

_BY_POSITION = np.zeros(0, np.int64)
_ALL = 1 << 31


class TopKSynopsis(Synopsis[TopK]):
    """Everything that TopK algorithms share, except the state over sealed panes."""

    keeps_all: ClassVar[bool] = False
    """Whether a summary holds every row, not only the best k of each pane."""

    def __init__(self, query: TopK) -> None:
        super().__init__(query)
        self.limit = _ALL if self.keeps_all else query.k
        self.counting = isinstance(query.window, CountWindow)

    # Columns ----------------------------------------------------------------------------------

    def columns(self, source: str, schema: pa.Schema) -> tuple[str, ...]:
        query = self.query
        names = (*query.groups, query.id, query.score, query.time)
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def check_types(self, source: str, schema: pa.Schema) -> None:
        numeric("score", schema, self.query.score)
        plain_key("id", schema, self.query.id)

    @property
    def schema(self) -> pa.Schema:
        return self.schemas[""]

    def output(self) -> pa.Schema:
        query = self.query
        names = dict.fromkeys((query.id, query.score, query.time))
        kept = [name for name in names if name is not None]
        return pa.schema([pa.field(n, output_type(self.schema.field(n).type)) for n in kept])

    @property
    def _payload(self) -> tuple[str, ...]:
        """Answer columns that cannot be recovered from key and tie."""
        query = self.query
        names = [query.id, query.time if self.counting else None]
        return tuple(
            name for name in dict.fromkeys(names) if name is not None and name != query.score
        )

    # Rows -------------------------------------------------------------------------------------

    def validate(self, source: str, batch: pa.RecordBatch) -> Faults | None:
        query = self.query
        score = batch.column(query.score)
        tests: list[tuple[str, str, Any]] = [
            (query.score, "the score is null", null_mask(score)),
            (query.score, "the score is not a number", nan_mask(score)),
        ]
        for role, name in (("id", query.id), ("time", query.time)):
            if name is not None:
                tests.append((name, f"the {role} is null", null_mask(batch.column(name))))
        return faults(batch, tests)

    def summarise(self, rows: Rows) -> Runs:
        score = rows.numpy(self.query.score)
        tie = _BY_POSITION if self.counting else rows.tie
        positions, offsets = self._select(rows, score, tie)
        if self.counting:
            assert rows.arrival is not None
            later = np.repeat(rows.arrival - rows.offsets[:-1], np.diff(offsets)) + positions
        else:
            later = tie[positions]
        columns: dict[str, Any] = {
            "key": sortable(score[positions], self.query.largest),
            "tie": later,
        }
        columns |= {f"shown:{name}": rows.take(name, positions) for name in self._payload}
        return rows.runs({"rows": self._settled(Part(offsets, columns))})

    def _select(self, rows: Rows, score: npt.NDArray[Any], tie: Ints) -> tuple[Ints, Ints]:
        """Positions of each run's best k rows and of rows tied with the k-th; their offsets."""
        return select_runs(score, tie, rows.offsets, self.limit, self.query.largest)

    def combine(self, runs: Runs) -> Runs:
        fresh = np.flatnonzero(~runs.repeats)
        part = self._best(runs.parts["rows"].joined(fresh))
        scalars = {n: np.add.reduceat(values, fresh) for n, values in runs.scalars.items()}
        return Runs(runs.stamp[fresh], runs.group[fresh], {"rows": part}, scalars)

    def _best(self, part: Part) -> Part:
        """The best k rows of each run."""
        positions, offsets = select_runs(part["key"], part["tie"], part.offsets, self.limit, True)
        kept = part.rows(positions, offsets)
        return self._settled(kept)

    def _settled(self, part: Part) -> Part:
        """Sort tied rows, so that position decides every tie, and cut each run to k rows."""
        if self.counting or not len(part):
            return part
        key, tie, offsets = part["key"], part["tie"], part.offsets
        tied = np.flatnonzero(sort_runs(key, tie, offsets)[1])
        if len(tied):
            lengths = part.lengths[tied]
            rows = expand(offsets[tied], lengths)
            order = np.arange(len(part))
            ids = part.columns.get(f"shown:{self.query.id}")
            segment = np.repeat(tied, lengths)
            placed = row_order(
                key[rows], tie[rows], pick(ids, rows) if ids is not None else None, segment=segment
            )
            order[rows] = rows[placed]
            part = part.rows(order, offsets)
        if part.lengths.max() > self.limit:
            # Only tied runs can be longer, and those have just been sorted.
            lengths = np.minimum(part.lengths, self.limit)
            kept = expand(offsets[:-1], lengths)
            part = part.rows(kept, offsets_of(lengths))
        return part

    # Answers ----------------------------------------------------------------------------------

    def finish(self, partials: Sequence[Runs]) -> Runs:
        runs = Runs.concat(partials)
        if len(partials) > 1:
            runs = runs.ordered()
            fresh = np.flatnonzero(~runs.repeats)
            part = runs.parts["rows"].joined(fresh)
            ids = part.columns.get(f"shown:{self.query.id}")
            segment = np.repeat(np.arange(len(fresh)), part.lengths)
            order = row_order(part["key"], part["tie"], ids, segment=segment)
            lengths = np.minimum(part.lengths, self.query.k)
            best = order[expand(part.offsets[:-1], lengths)]
            part = part.rows(best, offsets_of(lengths))
            runs = Runs(runs.stamp[fresh], runs.group[fresh], {"rows": part})
        part = runs.parts["rows"]
        columns = {field.name: self._shown(part, field) for field in self.output()}
        return Runs(runs.stamp, runs.group, {"rows": Part(part.offsets, columns)})

    def _shown(self, part: Part, field: pa.Field) -> pa.Array:
        query = self.query
        if field.name == query.score:
            dtype = native_dtype(field.type)
            assert dtype is not None
            values = unsortable(part["key"], dtype, query.largest)
            return pa.array(values).view(field.type)
        if f"shown:{field.name}" in part.columns:
            return part[f"shown:{field.name}"]
        return _from_native(part["tie"], field.type)


def _from_native(values: Ints, kind: pa.DataType) -> pa.Array:
    dtype = native_dtype(kind)
    assert dtype is not None
    return pa.array(values.astype(dtype, copy=False)).view(kind)
