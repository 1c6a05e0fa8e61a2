"""The functions that Spark runs after the summaries: folding a batch, finishing, unpacking."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.data.ipc import table_from, table_to_bytes
from skyband.spark.bucket import finish
from skyband.spark.parcels import pack_runs, unpack_runs
from skyband.spark.plan import Plan

__all__ = [
    "GIVEN_DDL",
    "PIECE_DDL",
    "batch_finisher",
    "batch_folder",
    "finisher",
    "unpacker",
]

GIVEN_DDL = "payload binary, letters binary"
"""What a streaming query gives: packed answers, packed dead letters."""
_GIVEN = pa.schema([("payload", pa.binary()), ("letters", pa.binary())])
PIECE_DDL = "shard int, seen bigint, windows binary, payload binary"
_PIECE = pa.schema(
    [
        ("shard", pa.int32()),
        ("seen", pa.int64()),
        ("windows", pa.binary()),
        ("payload", pa.binary()),
    ]
)
Batches = Iterator[pa.RecordBatch]


def unpacker(schema: pa.Schema, column: str = "payload") -> Callable[[Batches], Batches]:
    """Packed answers (or letters) to rows."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for blob in batch.column(column):
                if blob.is_valid:
                    yield from table_from(blob.as_py()).cast(schema).to_batches()

    return run


def finisher(plan: Plan) -> Callable[[pa.Table], pa.Table]:
    """Pieces of all shards of a bucket, of one batch, to packed answers; letters pass."""

    def run(pieces: pa.Table) -> pa.Table:
        found, _ = finish(plan, _pieces(pieces))
        letters = pieces.column("letters").drop_null().to_pylist()
        answers = [table_to_bytes(found)] if found.num_rows else []
        blobs = {"payload": answers + [None] * len(letters)}
        blobs["letters"] = [None] * len(answers) + letters
        return pa.table(blobs, schema=_GIVEN)

    return run


def batch_folder(plan: Plan) -> Callable[[pa.Table], pa.Table]:
    """All summaries of a bucket and shard of a batch DataFrame to its piece of every window."""

    def run(packed: pa.Table) -> pa.Table:
        fold = plan.fold()
        panes = plan.window.panes
        for blob in packed.column("payload").to_pylist():
            if blob is not None:
                fold.take(unpack_runs(blob, fold.groups)[0])
        windows, payload = np.zeros(0, np.int64), None
        held = fold.open.whole()
        if held is not None and len(held):
            # Past the last window that has rows; how far answers go is known when all have come.
            last = int(panes.last_window_of(held.stamp.max())) + 1
            due = fold.seal(int(panes.end_of(last)))
            if due is not None:
                windows = due.windows.number
                payload = None if due.partial is None else pack_runs(due.partial, fold.groups)
        seen = pa.compute.max(packed.column("seen")).cast(pa.int64()).as_py()
        rows = [packed.column("shard")[0].as_py()], [seen], [windows.tobytes()], [payload]
        arrays = [pa.array(values, f.type) for values, f in zip(rows, _PIECE, strict=True)]
        return pa.Table.from_arrays(arrays, schema=_PIECE)

    return run


def batch_finisher(plan: Plan) -> Callable[[Batches], Batches]:
    """All pieces of a batch DataFrame to its rows, in order."""

    def run(batches: Batches) -> Batches:
        pieces = pa.Table.from_batches(batches, schema=_PIECE)
        seen = [time for time in pieces.column("seen").to_pylist() if time is not None]
        if not seen:
            return
        upto = plan.window.panes.last_window_ending_by(max(seen)) + 1
        found, _ = finish(plan, _pieces(pieces), upto)
        yield from found.cast(plan.output).to_batches(max_chunksize=1 << 16)

    return run


def _pieces(table: pa.Table) -> Iterator[tuple[int, Any, bytes | None]]:
    columns = (table.column(name).to_pylist() for name in ("shard", "windows", "payload"))
    for shard, windows, payload in zip(*columns, strict=True):
        yield shard, np.frombuffer(windows, np.int64), payload
