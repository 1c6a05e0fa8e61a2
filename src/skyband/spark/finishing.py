"""From summaries of a batch, or from parts of answers, to the rows that Spark gives the user.

Streams: with several shards ``finisher`` merges their parts of answers; ``rows_unpacker`` unpacks
rows. Batches: ``batch_folder`` folds all summaries of a key, ``batch_finisher`` does the rest. Rows
of a board have window edges and rank as columns, and the rest of each answer as JSON text:

    query     window_start  window_end  rank  answer
    busiest   10:00         10:10       1     {"flow": "a", "bytes": 90}
    talkers   10:00         10:20       1     {"host": "web", "count": 3, "error": 0}

The metadata of the column ``answer`` maps each query's name to its Arrow schema, in base64.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.answers.answer import Answers, Promises
from skyband.answers.changes import changes
from skyband.arrays import Ints
from skyband.contract.runs import Runs
from skyband.data.ipc import schema_from, table_from, table_to_bytes
from skyband.data.json_text import json_text
from skyband.data.keys import hash_columns
from skyband.data.time_axis import window_column
from skyband.engine.fold import Fold
from skyband.spark.parcels import pack_runs, schema_of, unpack_runs
from skyband.spark.plan import EDGES, PROMISE, BoardPlan, QueryPlan


def answers_table(plan: QueryPlan, answers: Answers) -> pa.Table:
    """The rows that a job emits for these answers: their tables, or the changes."""
    if not plan.changes:
        if not plan.bounds:
            return answers.table
        columns = dict(zip(PROMISE.names, of_rows(answers), strict=True))
        columns |= {name: answers.table.column(name) for name in answers.table.column_names}
        return pa.table({name: columns[name] for name in plan.output.names}, schema=plan.output)
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
            if answers.revision is not None:
                edges.append(pa.array([answers.revision[i]] * rows, pa.int32()))
            columns = [*edges, *table.columns]
            if plan.bounds:
                columns += of_changes(answers, i, table, plan.query.groups)
            yield pa.Table.from_arrays(columns, schema=plan.output)


Piece = tuple[int, Ints, bytes | None, bytes | None, bytes | None]
"""Shard, windows, this shard's part of their answers and of the last answer before them, totals."""


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
    shares: list[Runs] = []
    for shard, windows, part, before, totals in pieces:
        numbers.append(windows)
        if totals is not None:
            shares.append(unpack_runs(totals, fold.groups)[0])
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
    every = Runs.concat(shares) if shares else None
    return answers_table(plan, fold.answer(0, partials, fold.windows(due), every))


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
# embedded engine has one ``Answer`` per window: it is exact if every group is, and each of its
# bounds is the greatest over the groups.


def of_rows(answers: Answers) -> list[pa.Array]:
    """The columns of ``PROMISE`` for the rows of the answers' table."""
    promises = answers.promises
    return _columns(promises, np.repeat(np.arange(len(promises.lengths)), promises.lengths))


def of_changes(
    answers: Answers, at: int, found: pa.Table, groups: tuple[str, ...]
) -> list[pa.Array]:
    """The columns of ``PROMISE`` for the changes of the answer at position ``at``."""
    promises = answers.promises
    low, high = answers.offsets[at : at + 2]
    starts = np.cumsum(promises.lengths) - promises.lengths
    mine = np.flatnonzero((starts >= low) & (starts < high) & (promises.lengths > 0))
    run = np.full(found.num_rows, -1)
    if len(mine) and not groups:
        run[:] = mine[0]
    elif len(mine):
        known = hash_columns(answers.table.select(groups).take(pa.array(starts[mine])).columns)
        hashes = hash_columns(found.select(groups).columns)
        order = np.argsort(known)
        place = np.minimum(np.searchsorted(known[order], hashes), len(mine) - 1)
        there = known[order[place]] == hashes
        run[there] = mine[order[place[there]]]
    return _columns(promises, run)


def _columns(promises: Promises, run: Ints) -> list[pa.Array]:
    """The guarantees of these runs; -1 stands for a group without rows, which misses nothing."""
    exact = np.append(promises.exact, promises.empty)[run]
    bounds = {
        name: np.append(value, promises.nothing.get(name, -np.inf))[run]
        if isinstance(value, np.ndarray)
        else value
        for name, value in sorted(promises.bounds.items())
    }
    values = np.empty((len(run), len(bounds)))
    for place, value in enumerate(bounds.values()):
        values[:, place] = value
    names = pa.array(list(bounds) * len(run), pa.string())
    offsets = pa.array(np.arange(len(run) + 1, dtype=np.int32) * len(bounds), pa.int32())
    return [pa.array(exact), pa.MapArray.from_arrays(offsets, names, pa.array(values.ravel()))]


# Answers as bytes ---------------------------------------------------------------------------------


_LARGE = 1 << 20
"""Bytes from which on a table of answers is compressed."""


def answers_to_bytes(table: pa.Table) -> bytes:
    """A table of answers as an Arrow stream.

    With many groups, a batch can have more answer rows than input rows, and each byte is copied a
    dozen times between the process that keeps the state and the one that hands rows to Spark.
    """
    return table_to_bytes(table, "lz4" if table.nbytes >= _LARGE else None)


def answers_from(data: Any, schema: pa.Schema) -> pa.Table:
    """The columns of ``schema`` from bytes that ``answers_to_bytes`` made."""
    return table_from(data).select(schema.names).cast(schema)


# The functions that Spark runs --------------------------------------------------------------------


GIVEN_DDL = "query string, payload binary, letters binary"
"""Output columns of a streaming query: packed answers and packed dead letters."""
PIECE_DDL = (
    "query string, shard int, seen bigint, windows binary, payload binary, before binary, "
    "totals binary"
)
_PIECE = schema_of(PIECE_DDL)
Batches = Iterator[pa.RecordBatch]


def unpacker(schema: pa.Schema, column: str = "payload") -> Callable[[Batches], Batches]:
    """Unpack answers (or dead letters) of one query into rows of these columns."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for blob in batch.column(column):
                if blob.is_valid:
                    yield from answers_from(blob.as_buffer(), schema).to_batches()

    return run


def rows_unpacker(board: BoardPlan) -> Callable[[Batches], Batches]:
    """Unpack the answers of all queries: into a query's own rows, or into rows of a board."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("query", "payload"))
            for name, blob in zip(*columns, strict=True):
                if blob is not None:
                    table = answers_from(blob, board.plans[name].output)
                    yield from answer_rows(board, name, table).to_batches()

    return run


def finisher(board: BoardPlan) -> Callable[[pa.Table], pa.Table]:
    """Merge one batch's pieces from all shards of a query's bucket into packed answers.

    Dead letters pass through unchanged.
    """

    def run(pieces: pa.Table) -> pa.Table:
        name = pieces.column("query")[0].as_py()
        table = finish(board, name, _pieces(pieces))
        letters = pieces.column("letters").drop_null().to_pylist()
        answers = [answers_to_bytes(table)] if table.num_rows else []
        blobs = {"query": [name] * (len(answers) + len(letters))}
        blobs["payload"] = answers + [None] * len(letters)
        blobs["letters"] = [None] * len(answers) + letters
        return pa.table(blobs, schema=schema_of(GIVEN_DDL))

    return run


def batch_folder(board: BoardPlan) -> Callable[[pa.Table], pa.Table]:
    """Fold all summaries of one label, bucket and shard of a batch DataFrame.

    Gives a piece of each query's windows. Which windows are answered depends on the greatest time
    over all pieces, so a finisher decides.
    """

    def run(packed: pa.Table) -> pa.Table:
        names = board.labels[packed.column("label")[0].as_py()]
        fold, step = board.fold(names), None
        parts: list[Runs | None] = [None] * len(names)
        for blob in packed.column("payload").to_pylist():
            runs = None if blob is None else unpack_runs(blob, fold.groups)[0]
            if runs is not None and len(runs):
                fold.take(runs)
        held, panes = fold.open.whole(), fold.panes
        seen: Any = pa.compute.max(packed.column("seen")).cast(pa.int64()).as_py()
        if held is not None and len(held):
            last = panes.last_window_ending_by(seen) + 1  # all rows are here, so it is known
            if panes.sized:  # the window after the last one that covers a row
                last = int(panes.last_window_of(held.stamp.max())) + 1
            step = fold.begin(int(panes.end_of(last)))
        if step is not None:
            parts = fold.folded(step)
        key = {"shard": packed.column("shard")[0].as_py(), "seen": seen}
        rows = []
        for i, (name, part) in enumerate(zip(names, parts, strict=True)):
            windows = np.zeros(0, np.int64) if step is None else step.windows[i].number
            payload = None if part is None else pack_runs(part, fold.groups)
            row = {"query": name, "windows": windows.tobytes(), "payload": payload} | key
            if step is not None and board.plans[name].total:
                row["totals"] = pack_runs(fold.shares(step.windows[i]), fold.groups)
            rows.append(row)
        return pa.Table.from_pylist(rows, schema=_PIECE)

    return run


def batch_finisher(board: BoardPlan) -> Callable[[Batches], Batches]:
    """Merge all pieces of a batch DataFrame into answer rows, in order, query by query."""

    def run(batches: Batches) -> Batches:
        pieces = pa.Table.from_batches(batches, schema=_PIECE)
        for name, plan in board.plans.items():
            mine: Any = pa.compute.equal(pieces.column("query"), name)
            own = pieces.filter(mine)
            seen = [time for time in own.column("seen").to_pylist() if time is not None]
            if not seen:
                continue
            upto = plan.window.panes.last_window_ending_by(max(seen)) + 1
            table = finish(board, name, _pieces(own), upto)
            yield from answer_rows(board, name, table).to_batches(max_chunksize=1 << 16)

    return run


def _pieces(table: pa.Table) -> Iterator[Piece]:
    names = ("shard", "windows", "payload", "before", "totals")
    columns = (table.column(name).to_pylist() for name in names)
    for shard, windows, *blobs in zip(*columns, strict=True):
        yield shard, np.frombuffer(windows, np.int64), *blobs


# Rows of a board ----------------------------------------------------------------------------------


def schema_texts(board: BoardPlan) -> dict[str, str]:
    """Each query's Arrow schema, as the metadata of the column ``answer``."""
    plain = {name: plan.output.remove_metadata() for name, plan in board.plans.items()}
    return {n: base64.b64encode(s.serialize().to_pybytes()).decode() for n, s in plain.items()}


def schema_from_text(text: str) -> pa.Schema:
    """An Arrow schema from its text."""
    return schema_from(base64.b64decode(text))


def answer_rows(board: BoardPlan, name: str, table: pa.Table) -> pa.Table:
    """A query's output as rows of the board; a query that stands alone has its own rows."""
    schema = board.output
    if board.alone:
        return table.cast(schema)
    inner = [field for field in table.schema if field.name not in (*EDGES, "rank")]
    columns = {field.name: _to_json(table.column(field.name)) for field in inner}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    ranked = "rank" in table.column_names
    found = {
        "query": pa.array([name] * table.num_rows, pa.string()),
        **{edge: table.column(edge) for edge in EDGES},
        "rank": table.column("rank") if ranked else pa.nulls(table.num_rows, pa.int32()),
        "answer": pa.array([json_text(row) for row in rows], pa.string()),
    }
    return pa.table(found).cast(schema)


def typed_rows(schema: pa.Schema) -> Callable[[Batches], Batches]:
    """The function that turns rows of a board, all of one query, into the query's own columns."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            rows = [json.loads(text) for text in batch.column("answer").to_pylist()]
            columns = []
            for field in schema:
                if field.name in (*EDGES, "rank"):
                    columns.append(batch.column(field.name).cast(field.type))
                else:
                    columns.append(_from_json([row[field.name] for row in rows], field.type))
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return run


def _in_microseconds(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.duration("us") if pa.types.is_duration(kind) else None


def _to_json(column: pa.ChunkedArray) -> list[Any]:
    """Values for JSON; times are written in microseconds."""
    exact = _in_microseconds(column.type)
    if exact is not None:
        return list(column.cast(exact).cast(pa.int64()).to_pylist())
    values = column.to_pylist()
    if pa.types.is_map(column.type):
        return [None if value is None else dict(value) for value in values]
    return list(values)


def _from_json(values: list[Any], kind: pa.DataType) -> pa.Array:
    exact = _in_microseconds(kind)
    if exact is not None:
        return pa.array(values, pa.int64()).cast(exact).cast(kind)
    read: Callable[[Any], Any] = lambda value: value  # noqa: E731
    if pa.types.is_floating(kind):
        read = float
    elif pa.types.is_decimal(kind):
        read = Decimal
    elif pa.types.is_date(kind):
        read = date.fromisoformat
    elif pa.types.is_map(kind):
        read = lambda value: [(name, float(each)) for name, each in value.items()]  # noqa: E731
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        read = base64.b64decode
    return pa.array([None if value is None else read(value) for value in values], kind)
