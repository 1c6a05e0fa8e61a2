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
from skyband.spark.plan import Plan
from skyband.spark.promises import of_changes, of_rows

__all__ = ["answers_table", "finish"]


def answers_table(plan: Plan, answers: Answers) -> pa.Table:
    """The rows that a job emits for these answers: their tables, or the changes."""
    if not plan.changes:
        if not plan.bounds:
            return answers.table
        return pa.Table.from_arrays([*answers.table.columns, *of_rows(answers)], schema=plan.output)
    pieces = list(_changelog(plan, answers))
    return pa.concat_tables(pieces) if pieces else plan.output.empty_table()


def _changelog(plan: Plan, answers: Answers) -> Iterator[pa.Table]:
    for i in range(len(answers)):
        found = changes(answers.previous(i), answers.slice(i), plan.query, plan.only)
        rows = found.num_rows
        if rows:
            edges = [
                window_column(np.full(rows, int(edge[i])), answers.edge)
                for edge in (answers.start, answers.end)
            ]
            columns = [*edges, *found.columns]
            if plan.bounds:
                columns += of_changes(answers, i, found, plan.query.groups)
            yield pa.Table.from_arrays(columns, schema=plan.output)


def finish(
    plan: Plan,
    pieces: Iterable[tuple[int, Ints, bytes | None]],
    upto: int | None = None,
    before: pa.Table | None = None,
) -> tuple[pa.Table, pa.Table | None]:
    """Merge (shard, windows, piece) of all shards into the windows' rows, and the last answer.

    ``upto`` is the number of the last window to answer; pieces of several buckets may be mixed.
    """
    session = plan.session()
    session.resume(None, [], before)
    by_shard: dict[int, list[Runs]] = {}
    numbers: list[Ints] = []
    for shard, windows, blob in pieces:
        numbers.append(windows)
        if blob is not None:
            by_shard.setdefault(shard, []).append(unpack_runs(blob, session.groups)[0])
    asked = np.unique(np.concatenate(numbers)) if numbers else np.zeros(0, np.int64)
    if upto is not None:
        asked = asked[asked <= upto]
    if not len(asked):
        return plan.output.empty_table(), before
    partials = []
    for shard in sorted(by_shard):
        runs = Runs.concat(by_shard[shard])
        if upto is not None:
            runs = runs.take(runs.stamp <= upto)
        partials.append(runs.ordered(session.groups.ranks))
    answers = session.finish(partials, asked)
    return answers_table(plan, answers), session.last_answer
