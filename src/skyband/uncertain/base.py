"""What UncertainTopK synopses share: columns, summaries, the finished answer; and ``landmark``.

The summary of a pane is its compact set in row order, which is all that a window needs of the pane;
if its rows admit no compact set, it is all rows. The compact set of a union is part of the union of
the compact sets, so one rule merges both summaries of parts of a pane and partial answers of
shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Floats, Ints, Mask
from skyband.contract.accumulated import Accumulated
from skyband.contract.checks import (
    QuickTests,
    faults,
    named,
    no_nan,
    null_tests,
    number_tests,
    numeric,
    plain_key,
    within,
)
from skyband.contract.rows import Faults, Rows
from skyband.contract.runs import Part, Runs
from skyband.contract.synopsis import Synopsis
from skyband.data.columns import output_type, to_numpy
from skyband.data.flat_state import require
from skyband.data.keys import hash_kept
from skyband.data.order import row_order, scores_of, sortable
from skyband.kernels.sorting import sort_runs
from skyband.query.uncertain import UncertainTopK
from skyband.uncertain.kernels.compact import KINDS, answer_runs, prune_runs
from skyband.uncertain.kernels.types import SemanticsCode
from skyband.window import CountWindow

CHANCE = "topk_probability"
_ALL = 1 << 62
_FIRST_LOOK = 3
"""Rows per k in which a pane's compact set is searched for first; then four times as many."""


def rule_of(kind: str, k: int, threshold: float | None = None) -> SemanticsCode:
    """A semantics as kernels know it."""
    return SemanticsCode(KINDS.index(kind), k, 0.0 if threshold is None else float(threshold))


def own(array: Array) -> Array:
    """The array, or a copy if it is read-only, which would be another type to a kernel."""
    return array if array.flags.writeable else array.copy()


class UncertainSynopsis(Synopsis[UncertainTopK]):
    """Everything that UncertainTopK algorithms share, except the state over sealed panes."""

    keeps_all: ClassVar[bool] = False
    """Whether summaries hold every row of a pane."""

    def __init__(self, query: UncertainTopK) -> None:
        super().__init__(query)
        self.counting = isinstance(query.window, CountWindow)
        self.rule = rule_of(query.semantics, query.k, query.threshold)

    # Columns ----------------------------------------------------------------------------------

    def columns(self, source: str, schema: pa.Schema) -> tuple[str, ...]:
        query = self.query
        names = (query.id, query.score, query.probability, query.time)
        return named(*query.groups, *names, *query.keep)

    def check_types(self, source: str, schema: pa.Schema) -> None:
        numeric("score", schema, self.query.score)
        numeric("probability", schema, self.query.probability)
        plain_key("id", schema, self.query.id)

    def output(self) -> pa.Schema:
        names = named(self.query.id, self.query.score, self.query.probability)
        shown, kept = (
            [pa.field(n, output_type(self.schema.field(n).type)) for n in each]
            for each in (names, self.query.keep)
        )
        return pa.schema([*shown, pa.field(CHANCE, pa.float64()), *kept])

    @property
    def id_column(self) -> str | None:
        """The id column, unless it is also the score or the probability."""
        query = self.query
        return None if query.id in (query.score, query.probability) else query.id

    # Rows -------------------------------------------------------------------------------------

    def validate(self, source: str, batch: pa.RecordBatch) -> Faults | None:
        query = self.query
        values = to_numpy(batch.column(query.probability))
        outside: Any = ~((values > 0) & (values <= 1))
        if not outside.any():
            outside = None
        return faults(batch, [
            *number_tests(batch, "score", query.score),
            *null_tests(batch, probability=query.probability),
            (query.probability, "the probability is outside (0, 1]", outside),
            *null_tests(batch, id=query.id, time=query.time),
        ])  # fmt: skip

    def quick_tests(self, source: str) -> QuickTests | None:
        query = self.query
        tests = no_nan(self.schema, query.score)
        chances = within(np.nextafter(0.0, 1.0), 1)
        if query.score == query.probability:
            return {query.score: chances}
        return tests | {query.probability: chances}

    def saved_runs(self, runs: Runs, sealed: bool = True) -> Runs:
        prob = super().saved_runs(runs, sealed).part("rows").columns.get("prob", np.zeros(0))
        require(((prob > 0) & (prob <= 1)).all(), "a probability outside of (0, 1]")
        return runs

    def summarise(self, rows: Rows) -> Runs:
        score = rows.numpy(self.query.score)
        prob = rows.numpy(self.query.probability)
        if self.keeps_all:
            every = np.arange(len(rows.pane))
            return rows.runs({"rows": self._best(rows, score, prob, every, _ALL)})

        def search(runs: Ints, look: int) -> tuple[Part, Mask]:
            part = self._best(rows, score, prob, runs, look)
            ends = prune_runs(self.rule, part["prob"], part.offsets)
            done = (part.lengths == rows.lengths[runs]) | (ends >= 0)
            return part.first_rows(np.where(ends >= 0, ends, part.lengths)), done

        return rows.widened(_FIRST_LOOK * self.query.k + 16, search)

    def _best(self, rows: Rows, score: Array, prob: Array, runs: Ints, look: int) -> Part:
        """The best ``look`` rows of some runs, in row order."""
        positions, offsets = rows.best(score, runs, look, self.query.largest)
        columns: dict[str, Any] = {
            "key": sortable(score[positions], self.query.largest),
            "tie": rows.ties(positions, offsets, runs),
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
        columns |= {f"keep:{name}": rows.take(name, positions) for name in self.query.keep}
        return Part(offsets, columns).resorted(np.flatnonzero(tied), self._order)

    def _order(self, part: Part, segment: Ints) -> Array:
        """Row order within runs: score, time, id, probability, hash of the kept columns."""
        query = self.query
        ids = part.columns.get("shown")
        if query.id == query.score:
            ids = None  # equal scores are equal ids
        elif query.id is not None and query.id == query.probability:
            ids = pa.array(part["prob"])
        kept = [part[f"keep:{name}"] for name in query.keep]
        hashes = hash_kept(kept) if kept else None
        return row_order(part["key"], part["tie"], ids, part["prob"], segment, hashes)

    def combine(self, runs: Runs) -> Runs:
        # Most panes come in one piece: only the others need sorting.
        repeated = runs.repeats
        repeated[:-1] |= repeated[1:]
        joined = self._merged(runs.take(repeated))
        if not self.keeps_all:
            part = joined.parts["rows"]
            ends = prune_runs(self.rule, own(part["prob"]), own(part.offsets))
            part = part.first_rows(np.where(ends >= 0, ends, part.lengths))
            joined = joined.with_parts(rows=part)
        return Runs.concat([runs.take(~repeated), joined]).ordered()

    def _merged(self, runs: Runs) -> Runs:
        """Merge repeated runs, in row order."""
        runs = runs.united()
        part = runs.parts["rows"]
        return runs.with_parts(rows=part.resorted(np.arange(len(runs)), self._order))

    # Answers ----------------------------------------------------------------------------------

    def finish(self, partials: Sequence[Runs]) -> Runs:
        runs = Runs.concat(partials)
        if len(partials) > 1:
            runs = self._merged(runs.ordered())
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
                columns[field.name] = scores_of(part["key"], field.type, query.largest)
            elif field.name == query.probability:
                columns[field.name] = pa.array(part["prob"]).cast(field.type)
            elif field.name in query.keep:
                columns[field.name] = part[f"keep:{field.name}"]
            else:
                columns[field.name] = part["shown"]
        return Part(part.offsets, columns)


class CompactSet(Accumulated, UncertainSynopsis):
    """Keeps the compact set of all rows so far, for each group.

    The compact set of a union is part of the union of the compact sets (theorem 3.2 of the paper),
    so a window that no row leaves needs one set only. Cost: one sort of the compact set per pane
    with rows. State: the compact set, or all rows if they admit none. Exact. Jin et al. 2008.

    >>> import pyarrow as pa, skyband as sb
    >>> rows = pa.table({"t": [0, 3, 12], "speed": [9, 5, 7], "p": [0.5, 1.0, 0.25]})
    >>> window = sb.LandmarkWindow(slide=10)
    >>> query = sb.UncertainTopK(k=1, score="speed", probability="p", time="t", window=window)
    >>> sb.rank(rows, query)["topk_probability"].to_pylist()
    [0.5, 0.5]
    """
