"""The functions that Spark runs on summaries: fold a batch, finish answers, unpack them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.contract.runs import Runs
from skyband.errors import SkybandError
from skyband.spark.answer_bytes import answers_from, answers_to_bytes
from skyband.spark.board_rows import answer_rows
from skyband.spark.finishing import Piece, finish
from skyband.spark.parcels import pack_runs, schema_of, unpack_runs
from skyband.spark.plan import BoardPlan

__all__ = [
    "GIVEN_DDL", "PIECE_DDL", "batch_finisher", "batch_folder", "finisher", "named",
    "rows_unpacker", "unpacker",
]  # fmt: skip

GIVEN_DDL = "query string, payload binary, letters binary"
"""Output columns of a streaming query: packed answers and packed dead letters."""
PIECE_DDL = "query string, shard int, seen bigint, windows binary, payload binary"
_PIECE = schema_of(PIECE_DDL)
Batches = Iterator[pa.RecordBatch]


@contextmanager
def named(name: str) -> Iterator[None]:
    """Begin the messages of errors with a query's name."""
    try:
        yield
    except SkybandError as error:
        raise type(error)(f"query {name!r}: {error}") from error


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
    if board.alone:
        return unpacker(board.output)

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
        held, panes, seen = fold.open.whole(), fold.panes, _seen(packed)
        if held is not None and len(held):
            last = panes.last_window_ending_by(seen) + 1  # all rows are here, so it is known
            if panes.sized:  # the window after the last one that covers a row
                last = int(panes.last_window_of(held.stamp.max())) + 1
            step = fold.begin(int(panes.end_of(last)))
        if step is not None:
            parts = fold.folded(step)
        rows = []
        for i, name in enumerate(names):
            part, windows = parts[i], np.zeros(0, np.int64)
            if step is not None:
                windows = step.windows[i].number
            payload = None if part is None else pack_runs(part, fold.groups)
            shard = packed.column("shard")[0].as_py()
            row = {"query": name, "shard": shard, "seen": seen, "windows": windows.tobytes()}
            rows.append(row | {"payload": payload})
        return pa.Table.from_pylist(rows, schema=_PIECE)

    return run


def _seen(packed: pa.Table) -> Any:
    """The greatest time in packed rows."""
    return pa.compute.max(packed.column("seen")).cast(pa.int64()).as_py()


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
            if board.alone:
                yield from table.cast(plan.output).to_batches(max_chunksize=1 << 16)
            else:
                yield from answer_rows(board, name, table).to_batches(max_chunksize=1 << 16)

    return run


def _pieces(table: pa.Table) -> Iterator[Piece]:
    names = ("shard", "windows", "payload", "before")
    columns = (table.column(name).to_pylist() for name in names if name in table.column_names)
    for shard, windows, payload, *before in zip(*columns, strict=True):
        yield shard, np.frombuffer(windows, np.int64), payload, *(before or [None])
