"""Merges parts of answers into the rows that a job emits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from skyband.answers.answer import Answers
from skyband.answers.changes import changes
from skyband.arrays import Ints
from skyband.contract.runs import Runs
from skyband.data.time_axis import window_column
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


def finish(
    board: BoardPlan,
    name: str,
    pieces: Iterable[tuple[int, Ints, bytes | None]],
    upto: int | None = None,
    before: pa.Table | None = None,
) -> tuple[pa.Table, pa.Table | None]:
    """Merge (shard, windows, piece) of all shards into a query's rows, and the last answer.

    ``upto`` is the number of the last window to answer; pieces of several buckets may be mixed.
    """
    fold, plan = board.fold([name]), board.plans[name]
    (reader,) = fold.readers
    if before is not None:
        reader.last = {0: before}
    by_shard: dict[int, list[Runs]] = {}
    numbers: list[Ints] = []
    for shard, windows, blob in pieces:
        numbers.append(windows)
        if blob is not None:
            by_shard.setdefault(shard, []).append(unpack_runs(blob, fold.groups)[0])
    due = np.unique(np.concatenate(numbers)) if numbers else np.zeros(0, np.int64)
    if upto is not None:
        due = due[due <= upto]
    if not len(due):
        return plan.output.empty_table(), before
    partials = []
    for shard in sorted(by_shard):
        runs = Runs.concat(by_shard[shard])
        if upto is not None:
            runs = runs.take(runs.stamp <= upto)
        partials.append(runs.ordered(fold.groups.ranks))
    answers = fold.answer(0, partials, fold.windows(due))
    return answers_table(plan, answers), reader.last_tables.get(0)


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
