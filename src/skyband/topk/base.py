"""What all TopK algorithms share: columns, summaries, the finished answer.

A summary holds the best k rows of each (pane, group): for each row a sortable score, a time or
arrival number that breaks ties, and the columns that an answer shows. Rows that tie in both are
sorted by id, then by the hash of the kept columns, so that kernels can break ties by position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Ints
from skyband.contract.checks import (
    QuickTests,
    faults,
    named,
    no_nan,
    null_tests,
    number_tests,
    numeric,
    plain_key,
)
from skyband.contract.rows import Faults, Rows
from skyband.contract.runs import MORE, Part, Runs, expand, offsets_of, with_ties
from skyband.contract.synopsis import Synopsis
from skyband.data.columns import output_type
from skyband.data.keys import hash_kept
from skyband.data.order import row_order, scores_of, sortable
from skyband.data.time_axis import from_native
from skyband.kernels.select import select_runs
from skyband.kernels.sorting import sort_runs
from skyband.query.topk import TopK
from skyband.topk.payload import Payload
from skyband.topk.pruner import BatchPruner
from skyband.window import CountWindow

_BY_POSITION = np.zeros(0, np.int64)
ALL = 1 << 31
"""The limit of a summary that holds every row."""


class TopKSynopsis(Synopsis[TopK]):
    """Everything that TopK algorithms share, except the state over sealed panes."""

    keeps_all: ClassVar[bool] = False
    """Whether a summary holds every row, not only the best k of each pane."""

    def __init__(self, query: TopK) -> None:
        super().__init__(query)
        self.limit = ALL if self.keeps_all else query.k
        self.counting = isinstance(query.window, CountWindow)
        self.most = query.most_rows
        """How many rows an answer may have, if it also shows what ties with the k-th row."""
        self.pruner: BatchPruner | None = None
        """Drops rows of long batches that no window can show, if the algorithm has one."""

    # Columns ----------------------------------------------------------------------------------

    def columns(self, source: str, schema: pa.Schema) -> tuple[str, ...]:
        query = self.query
        return named(*query.groups, query.id, query.score, query.time, *query.keep)

    def check_types(self, source: str, schema: pa.Schema) -> None:
        numeric("score", schema, self.query.score)
        plain_key("id", schema, self.query.id)

    def output(self) -> pa.Schema:
        return self._output

    @cached_property
    def _output(self) -> pa.Schema:
        names = named(self.query.id, self.query.score, self.query.time, *self.query.keep)
        return pa.schema([pa.field(n, output_type(self.schema.field(n).type)) for n in names])

    @cached_property
    def _payload(self) -> tuple[str, ...]:
        """Answer columns that cannot be recovered from key and tie."""
        query = self.query
        names = named(query.id, query.time if self.counting else None, *query.keep)
        return tuple(name for name in names if name != query.score)

    def _new_payload(self) -> Payload:
        """An empty store of these columns."""
        types = {name: self.schema.field(name).type for name in self._payload}
        return Payload(types)

    # Rows -------------------------------------------------------------------------------------

    def validate(self, source: str, batch: pa.RecordBatch) -> Faults | None:
        query = self.query
        nulls = null_tests(batch, id=query.id, time=query.time)
        return faults(batch, number_tests(batch, "score", query.score) + nulls)

    def quick_tests(self, source: str) -> QuickTests | None:
        return no_nan(self.schema, self.query.score)

    def summarise(self, rows: Rows) -> Runs:
        score = rows.numpy(self.query.score)
        tie = _BY_POSITION if self.counting else rows.tie
        positions, offsets = self._select(rows, score, tie)
        columns: dict[str, Any] = {
            "key": sortable(score[positions], self.query.largest),
            "tie": rows.ties(positions, offsets),
        }
        if self.most is not None:
            columns[MORE] = np.zeros(len(positions), np.int64)
        columns |= {f"shown:{name}": rows.take(name, positions) for name in self._payload}
        return rows.runs({"rows": self._settled(Part(offsets, columns))})

    def prepare(self, stored: bool = False, late: bool = False, positions: bool = False) -> None:
        self.pruner = None if late else self.pruner

    def _select(self, rows: Rows, score: Array, tie: Ints) -> tuple[Ints, Ints]:
        """Positions of each run's best k rows and of rows tied with the k-th; their offsets."""
        if len(rows.offsets) == 2 and len(rows) <= self.limit and not rows.offsets[0]:
            return np.arange(len(rows)), rows.offsets
        if self.most is not None:
            tie = np.zeros(len(score), np.int64)  # then all that ties with the k-th is selected
        chosen = None if self.pruner is None else self.pruner.of(rows, score, tie)
        if chosen is not None:
            return chosen
        return select_runs(score, tie, rows.offsets, self.limit, self.query.largest)

    def combine(self, runs: Runs) -> Runs:
        runs = runs.united()
        return runs.with_parts(rows=self._best(runs.parts["rows"]))

    def _best(self, part: Part) -> Part:
        """The best k rows of each run."""
        if self.most is not None:
            return self._first_in_order(part)
        positions, offsets = select_runs(part["key"], part["tie"], part.offsets, self.limit, True)
        return self._settled(part.rows(positions, offsets))

    def _first_in_order(self, part: Part) -> Part:
        """The best k rows of each run, best first."""
        order = self._order(part, np.repeat(np.arange(len(part.lengths)), part.lengths))
        if self.most is not None:
            return with_ties(part.rows(order, part.offsets), "key", self.query.k, self.most)
        lengths = np.minimum(part.lengths, self.query.k)
        return part.rows(order[expand(part.offsets[:-1], lengths)], offsets_of(lengths))

    def _settled(self, part: Part) -> Part:
        """Sort tied rows, so that position decides every tie, and cut each run to k rows."""
        if self.most is not None:
            return self._first_in_order(part)
        if self.counting or len(part) < 2:
            return part
        tied = np.flatnonzero(sort_runs(part["key"], part["tie"], part.offsets)[1])
        # Only tied runs can be longer than k, and those are sorted first.
        return part.resorted(tied, self._order).first_rows(self.limit)

    def _order(self, part: Part, run: Ints) -> Array:
        """Positions of rows in the order of their runs, best first."""
        ids = part.columns.get(f"shown:{self.query.id}")
        kept = [part[f"shown:{name}"] for name in self.query.keep]
        hashes = hash_kept(kept) if kept else None
        return row_order(part["key"], part["tie"], ids, segment=run, kept=hashes)

    # Answers ----------------------------------------------------------------------------------

    def finish(self, partials: Sequence[Runs]) -> Runs:
        runs = Runs.concat(partials)
        if len(partials) > 1:
            runs = runs.ordered().united()
            part = runs.parts["rows"].resorted(np.arange(len(runs)), self._order)
            if self.most is None:
                part = part.first_rows(self.query.k)
            else:
                part = with_ties(part, "key", self.query.k, self.most)
            runs = runs.with_parts(rows=part)
        part = runs.parts["rows"]
        scalars = {} if self.most is None else {"bound:cut": part.sums(MORE)}
        columns = {field.name: self._shown(part, field) for field in self.output()}
        return Runs(runs.stamp, runs.group, {"rows": Part(part.offsets, columns)}, scalars)

    @property
    def bounds(self) -> Mapping[str, Any]:
        """An answer without rows leaves none out."""
        return {} if self.most is None else {"cut": 0}

    def _shown(self, part: Part, field: pa.Field) -> pa.Array:
        query = self.query
        if field.name == query.score:
            return scores_of(part["key"], field.type, query.largest)
        if f"shown:{field.name}" in part.columns:
            return part[f"shown:{field.name}"]
        return from_native(part["tie"], field.type)
