"""What all UncertainTopK synopses share: columns, summaries, the finished answer.

The summary of a pane is its compact set in row order, which is all that a window needs of the pane;
if its rows admit no compact set, it is all rows. The compact set of a union is part of the union of
the compact sets, so one rule merges both summaries of parts of a pane and partial answers of
shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.arrays import Floats, Ints
from skyband.contract.checks import faults, nan_mask, null_mask, numeric, plain_key
from skyband.contract.rows import Faults, Rows
from skyband.contract.runs import Part, Runs, expand, offsets_of
from skyband.contract.synopsis import Synopsis
from skyband.data.columns import native_dtype, output_type, to_numpy
from skyband.data.order import row_order, sortable, unsortable
from skyband.kernels.core.sorting import sort_runs
from skyband.kernels.topk.select import select_runs
from skyband.kernels.uncertain.compact import answer_runs, prune_runs
from skyband.query.uncertain import UncertainTopK
from skyband.uncertain.semantics import Semantics
from skyband.window import CountWindow

__all__ = ["CHANCE", "UncertainSynopsis"]

CHANCE = "topk_probability"
_BY_POSITION = np.zeros(0, np.int64)
_FIRST_LOOK = 3
"""Rows per k in which a pane's compact set is searched for first; then four times as many."""


def own(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array, or a copy if it is read-only, which would be another type to a kernel."""
    return array if array.flags.writeable else array.copy()


class UncertainSynopsis(Synopsis[UncertainTopK]):
    """Everything that UncertainTopK algorithms share, except the state over sealed panes."""

    keeps_all: ClassVar[bool] = False
    """Whether summaries hold every row of a pane."""

    def __init__(self, query: UncertainTopK) -> None:
        super().__init__(query)
        self.counting = isinstance(query.window, CountWindow)
        self.semantics = Semantics.of(query)
        self.rule = self.semantics.rule

    # Columns ----------------------------------------------------------------------------------

    def columns(self, source: str, schema: pa.Schema) -> tuple[str, ...]:
        query = self.query
        names = (*query.groups, query.id, query.score, query.probability, query.time)
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def check_types(self, source: str, schema: pa.Schema) -> None:
        numeric("score", schema, self.query.score)
        numeric("probability", schema, self.query.probability)
        plain_key("id", schema, self.query.id)

    @property
    def schema(self) -> pa.Schema:
        return self.schemas[""]

    def output(self) -> pa.Schema:
        query = self.query
        names = dict.fromkeys((query.id, query.score, query.probability))
        kept = [name for name in names if name is not None]
        shown = [pa.field(n, output_type(self.schema.field(n).type)) for n in kept]
        return pa.schema([*shown, pa.field(CHANCE, pa.float64())])

    @property
    def id_column(self) -> str | None:
        """The id column, unless it is also the score or the probability."""
        query = self.query
        return None if query.id in (query.score, query.probability) else query.id

    # Rows -------------------------------------------------------------------------------------

    def validate(self, source: str, batch: pa.RecordBatch) -> Faults | None:
        query = self.query
        score, chance = batch.column(query.score), batch.column(query.probability)
        values = to_numpy(chance)
        outside = ~((values > 0) & (values <= 1))
        tests: list[tuple[str, str, Any]] = [
            (query.score, "the score is null", null_mask(score)),
            (query.score, "the score is not a number", nan_mask(score)),
            (query.probability, "the probability is null", null_mask(chance)),
            (
                query.probability,
                "the probability is outside (0, 1]",
                outside if outside.any() else None,
            ),
        ]
        for role, name in (("id", query.id), ("time", query.time)):
            if name is not None:
                tests.append((name, f"the {role} is null", null_mask(batch.column(name))))
        return faults(batch, tests)

    def summarise(self, rows: Rows) -> Runs:
        score = rows.numpy(self.query.score)
        prob = rows.numpy(self.query.probability)
        tie = _BY_POSITION if self.counting else rows.tie
        look = _FIRST_LOOK * self.query.k + 16
        pieces: list[tuple[Ints, Part]] = []
        runs = np.arange(len(rows.pane))
        while len(runs):
            part, whole = self._best(rows, score, prob, tie, runs, look)
            if self.keeps_all:
                return rows.runs({"rows": part})
            ends = prune_runs(self.rule, part["prob"], part.offsets)
            done = whole | (ends >= 0)
            lengths = np.where(ends >= 0, ends, part.lengths)
            kept = expand(part.offsets[:-1][done], lengths[done])
            pieces.append((runs[done], part.rows(kept, offsets_of(lengths[done]))))
            runs, look = runs[~done], 4 * look
        if len(pieces) == 1:
            return rows.runs({"rows": pieces[0][1]})
        found = Runs.concat(
            [Runs(numbers, rows.group[numbers], {"rows": part}) for numbers, part in pieces]
        )
        return rows.runs({"rows": found.take(np.argsort(found.stamp)).parts["rows"]})

    def _best(
        self, rows: Rows, score: Any, prob: Any, tie: Ints, runs: Ints, look: int
    ) -> tuple[Part, npt.NDArray[np.bool_]]:
        """The best ``look`` rows of some runs, in row order, and which runs these rows complete."""
        lengths = rows.lengths[runs]
        if self.keeps_all or not len(lengths) or lengths.max() <= look:
            positions, offsets = expand(rows.offsets[:-1][runs], lengths), offsets_of(lengths)
        elif len(runs) == len(rows.pane):
            positions, offsets = select_runs(score, tie, rows.offsets, look, True)
        else:
            some = expand(rows.offsets[:-1][runs], lengths)
            some_ties = tie[some] if len(tie) else tie
            positions, offsets = select_runs(
                score[some], some_ties, offsets_of(lengths), look, True
            )
            positions = some[positions]
        if self.counting:
            assert rows.arrival is not None
            later = np.repeat(rows.arrival[runs] - rows.offsets[:-1][runs], np.diff(offsets))
            later += positions
        else:
            later = tie[positions]
        columns: dict[str, Any] = {
            "key": sortable(score[positions]),
            "tie": later,
            "prob": prob[positions].astype(np.float64, copy=False),
        }
        if np.diff(offsets).max(initial=0) > 1:
            order, tied = sort_runs(columns["key"], columns["tie"], offsets)
            columns = {name: column[order] for name, column in columns.items()}
            positions = positions[order]
        else:
            tied = np.zeros(len(runs), np.bool_)
        if self.id_column is not None:
            columns["shown"] = rows.take(self.id_column, positions)
        return self._settled(Part(offsets, columns), tied), np.diff(offsets) == lengths

    def _settled(self, part: Part, tied: npt.NDArray[np.bool_]) -> Part:
        """Sort runs with ties: by score and time, then by id, then by probability."""
        runs = np.flatnonzero(tied)
        if not len(runs):
            return part
        lengths = part.lengths[runs]
        rows = expand(part.offsets[:-1][runs], lengths)
        some = part.rows(rows, offsets_of(lengths))
        order = np.arange(len(part))
        order[rows] = rows[self._order(some, np.repeat(runs, lengths))]
        return part.rows(order, part.offsets)

    def _order(self, part: Part, segment: Ints) -> npt.NDArray[np.intp]:
        query = self.query
        ids = part.columns.get("shown")
        if query.id == query.score:
            ids = None  # equal scores are equal ids
        elif query.id is not None and query.id == query.probability:
            ids = pa.array(part["prob"])
        return row_order(part["key"], part["tie"], ids, part["prob"], segment)

    def combine(self, runs: Runs) -> Runs:
        fresh = np.flatnonzero(~runs.repeats)
        lengths = np.diff(np.append(fresh, len(runs)))
        # Most panes come in one piece: only the others need sorting.
        whole, parts = np.repeat(lengths == 1, lengths), fresh[lengths > 1]
        some = runs.take(~whole)
        part = self._merged(some.parts["rows"], np.flatnonzero(~some.repeats))
        if not self.keeps_all:
            ends = prune_runs(self.rule, own(part["prob"]), own(part.offsets))
            kept = np.where(ends >= 0, ends, part.lengths)
            part = part.rows(expand(part.offsets[:-1], kept), offsets_of(kept))
        joined = Runs(runs.stamp[parts], runs.group[parts], {"rows": part})
        single = runs.take(whole)
        both = Runs.concat([Runs(single.stamp, single.group, single.parts), joined]).ordered()
        scalars = {n: np.add.reduceat(values, fresh) for n, values in runs.scalars.items()}
        return both.with_scalars(**scalars)

    def _merged(self, part: Part, fresh: npt.NDArray[np.intp]) -> Part:
        """Merge repeated runs, in row order; ``fresh`` has the first run of each repetition."""
        offsets = np.append(part.offsets[fresh], len(part))
        segment = np.repeat(np.arange(len(fresh)), np.diff(offsets))
        return part.rows(self._order(part, segment), offsets)

    # Answers ----------------------------------------------------------------------------------

    def finish(self, partials: Sequence[Runs]) -> Runs:
        runs = Runs.concat(partials)
        if len(partials) > 1:
            runs = runs.ordered()
            fresh = np.flatnonzero(~runs.repeats)
            part = self._merged(runs.parts["rows"], fresh)
            runs = Runs(runs.stamp[fresh], runs.group[fresh], {"rows": part})
        part = runs.parts["rows"]
        positions, chance, offsets = answer_runs(self.rule, own(part["prob"]), own(part.offsets))
        shown = self._shown(part.rows(positions, offsets), chance)
        return Runs(runs.stamp, runs.group, {"rows": shown})

    def _shown(self, part: Part, chance: Floats) -> Part:
        """The columns of an answer."""
        query, columns = self.query, {}
        for field in self.output():
            if field.name == CHANCE:
                columns[CHANCE] = pa.array(chance)
            elif field.name == query.score:
                dtype = native_dtype(field.type)
                assert dtype is not None
                columns[field.name] = pa.array(unsortable(part["key"], dtype)).view(field.type)
            elif field.name == query.probability:
                columns[field.name] = pa.array(part["prob"]).cast(field.type)
            else:
                columns[field.name] = part["shown"]
        return Part(part.offsets, columns)
