"""Merges parts of answers into the rows that a job emits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from skyband.answers.answer import Answers, Promises
from skyband.answers.changes import changes
from skyband.arrays import Ints
from skyband.contract.runs import Runs
from skyband.data.keys import hash_columns
from skyband.data.time_axis import window_column
from skyband.spark.parcels import unpack_runs
from skyband.spark.plan import BoardPlan, QueryPlan

__all__ = [
    "PROMISE",
    "answers_table",
    "finish",
    "of_changes",
    "of_rows",
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


PROMISE = pa.schema([("exact", pa.bool_()), ("bounds", pa.map_(pa.string(), pa.float64()))])
"""The same columns for every query and algorithm; most exact algorithms leave ``bounds`` empty."""


def of_rows(answers: Answers) -> list[pa.Array]:
    """The columns of ``PROMISE`` for the rows of the answers' table."""
    told = answers.promises
    return _columns(told, np.repeat(np.arange(len(told.lengths)), told.lengths))


def of_changes(
    answers: Answers, at: int, found: pa.Table, groups: tuple[str, ...]
) -> list[pa.Array]:
    """The columns of ``PROMISE`` for the changes of the answer at position ``at``."""
    told = answers.promises
    low, high = answers.offsets[at : at + 2]
    starts = np.cumsum(told.lengths) - told.lengths
    mine = np.flatnonzero((starts >= low) & (starts < high) & (told.lengths > 0))
    run = np.full(found.num_rows, -1)
    if len(mine) and not groups:
        run[:] = mine[0]
    elif len(mine):
        known = hash_columns(answers.table.select(groups).take(pa.array(starts[mine])).columns)
        asked = hash_columns(found.select(groups).columns)
        order = np.argsort(known)
        place = np.minimum(np.searchsorted(known[order], asked), len(mine) - 1)
        there = known[order[place]] == asked
        run[there] = mine[order[place[there]]]
    return _columns(told, run)


def _columns(told: Promises, run: Ints) -> list[pa.Array]:
    """The guarantees of these runs; -1 stands for a group without rows, which misses nothing."""
    exact = np.append(told.exact, told.empty)[run]
    bounds = {
        name: np.append(value, told.nothing.get(name, -np.inf))[run]
        if isinstance(value, np.ndarray)
        else value
        for name, value in sorted(told.bounds.items())
    }
    values = np.empty((len(run), len(bounds)))
    for place, value in enumerate(bounds.values()):
        values[:, place] = value
    names = pa.array(list(bounds) * len(run), pa.string())
    offsets = pa.array(np.arange(len(run) + 1, dtype=np.int32) * len(bounds), pa.int32())
    return [pa.array(exact), pa.MapArray.from_arrays(offsets, names, pa.array(values.ravel()))]
