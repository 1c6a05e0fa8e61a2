"""Merges parts of answers into the rows that a job emits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from skyband.answers.answer import Answers
from skyband.answers.changes import changes
from skyband.arrays import Ints
from skyband.contract.runs import Runs
from skyband.data.time_axis import window_column
from skyband.engine.fold import Fold
from skyband.spark.parcels import unpack_runs
from skyband.spark.plan import BoardPlan, QueryPlan
from skyband.spark.promises import of_changes, of_rows

__all__ = [
    "answers_table",
    "finish",
]


def answers_table(plan: QueryPlan, answers: Answers) -> pa.Table:
    """The rows that a job emits for these answers: their tables, or the changes."""
    if not plan.changes:
        if not plan.bounds:
            return answers.table
        return pa.Table.from_arrays([*answers.table.columns, *of_rows(answers)], schema=plan.output)
    pieces = list(_changelog(plan, answers))
    return pa.concat_tables(pieces) if pieces else plan.output.empty_table()


def _changelog(plan: QueryPlan, answers: Answers) -> Iterator[pa.Table]:
    for i in range(len(answers)):
        table = changes(answers.previous(i), answers.slice(i), plan.query, plan.only)
        rows = table.num_rows
        if rows:
            edges = [
                window_column(np.full(rows, int(edge[i])), answers.edge)
                for edge in (answers.start, answers.end)
            ]
            columns = [*edges, *table.columns]
            if plan.bounds:
                columns += of_changes(answers, i, table, plan.query.groups)
            yield pa.Table.from_arrays(columns, schema=plan.output)


Piece = tuple[int, Ints, bytes | None, bytes | None]
"""Shard, windows, this shard's part of their answers and of the last answer before them."""


def finish(
    board: BoardPlan,
    name: str,
    pieces: Iterable[Piece],
    upto: int | None = None,
) -> pa.Table:
    """Merge the pieces of all shards into a query's rows.

    ``upto`` is the number of the last window to answer; pieces of several buckets may be mixed.
    """
    fold, plan = board.fold([name]), board.plans[name]
    parts: dict[int, list[Runs]] = {}
    earlier: dict[int, list[Runs]] = {}
    numbers: list[Ints] = []
    for shard, windows, part, before in pieces:
        numbers.append(windows)
        for blob, by_shard in ((part, parts), (before, earlier)):
            if blob is not None:
                by_shard.setdefault(shard, []).append(unpack_runs(blob, fold.groups)[0])
    due = np.unique(np.concatenate(numbers)) if numbers else np.zeros(0, np.int64)
    if upto is not None:
        due = due[due <= upto]
    if not len(due):
        return plan.output.empty_table()
    if earlier:  # from here on, the fold knows the last answer
        known = _merged(earlier, fold)
        fold.answer(0, known, fold.windows(known[0].stamp[:1]))
    partials = _merged(parts, fold)
    if upto is not None:
        partials = [runs.take(runs.stamp <= upto) for runs in partials]
    return answers_table(plan, fold.answer(0, partials, fold.windows(due)))


def _merged(by_shard: Mapping[int, Sequence[Runs]], fold: Fold) -> list[Runs]:
    """The parts of each shard, which may come from several buckets, as one."""
    return [Runs.concat(by_shard[shard]).ordered(fold.groups.ranks) for shard in sorted(by_shard)]


# The guarantees of an answer, as extra columns of its rows: ``rank(..., bounds=True)`` -----------
#
#     window_end  g  rank  item  count  error   exact   bounds
#     10:00       a  1     x        94      2   false   {}
#     10:00       b  1     y        31      0   true    {}
#
# They apply to the row's window and group, so that no row has to wait for other groups. The
# embedded
# engine has one ``Answer`` per window: it is exact if every group is, and each of its bounds is the
# greatest over the groups.
