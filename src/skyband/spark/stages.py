"""The functions that Spark runs on summaries: fold a batch, finish answers, unpack them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.contract.runs import Runs
from skyband.data.group_table import GroupTable
from skyband.engine.fold import Step
from skyband.spark.answer_bytes import answers_from, answers_to_bytes
from skyband.spark.finishing import finish
from skyband.spark.parcels import pack_runs, schema_of, unpack_runs
from skyband.spark.plan import Plan

__all__ = [
    "GIVEN_DDL", "PIECE_DDL", "batch_finisher", "batch_folder", "finisher", "last_end", "piece_of",
    "unpacked", "unpacker",
]  # fmt: skip

GIVEN_DDL = "payload binary, letters binary"
"""Output columns of a streaming query: packed answers and packed dead letters."""
PIECE_DDL = "shard int, seen bigint, windows binary, payload binary"
_PIECE = schema_of(PIECE_DDL)
Batches = Iterator[pa.RecordBatch]


def unpacker(schema: pa.Schema, column: str = "payload") -> Callable[[Batches], Batches]:
    """Unpack answers (or dead letters) into rows of these columns."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for blob in batch.column(column):
                if blob.is_valid:
                    yield from answers_from(blob.as_buffer(), schema).to_batches()

    return run


def finisher(plan: Plan) -> Callable[[pa.Table], pa.Table]:
    """Merge one batch's pieces from all shards of a bucket into packed answers.

    Dead letters pass through unchanged.
    """

    def run(pieces: pa.Table) -> pa.Table:
        found, _ = finish(plan, _pieces(pieces))
        letters = pieces.column("letters").drop_null().to_pylist()
        answers = [answers_to_bytes(found)] if found.num_rows else []
        blobs = {"payload": answers + [None] * len(letters)}
        blobs["letters"] = [None] * len(answers) + letters
        return pa.table(blobs, schema=schema_of(GIVEN_DDL))

    return run


def batch_folder(plan: Plan) -> Callable[[pa.Table], pa.Table]:
    """Fold all summaries of one bucket and shard of a batch DataFrame into its window pieces."""

    def run(packed: pa.Table) -> pa.Table:
        session, due = plan.session(), None
        for runs in unpacked(packed, session.groups):
            session.take(runs)
        held = session.open.whole()
        if held is not None and len(held):
            panes = plan.window.panes
            if panes.sized:
                upto = last_end(plan, int(panes.pane_start(held.stamp.max())))
            else:  # all rows are here, so the last window is known
                upto = int(panes.end_of(panes.last_window_ending_by(_seen(packed)) + 1))
            due = session.seal(upto, np.zeros(0, np.int64))
        return pa.Table.from_pylist([piece_of(packed, due, session.groups)], schema=_PIECE)

    return run


def unpacked(packed: pa.Table, groups: GroupTable) -> Iterator[Runs]:
    """The summaries in packed rows."""
    for blob in packed.column("payload").to_pylist():
        runs = None if blob is None else unpack_runs(blob, groups)[0]
        if runs is not None and len(runs):
            yield runs


def last_end(plan: Plan, time: int) -> int:
    """The end of the window after the last one that covers a time.

    Which windows are answered depends on the greatest time over all pieces, so a finisher decides.
    """
    panes = plan.window.panes
    return int(panes.end_of(int(panes.last_window_of(panes.pane_of(time))) + 1))


def piece_of(packed: pa.Table, due: Step | None, groups: GroupTable, **more: Any) -> dict[str, Any]:
    """The row for the windows that one bucket and shard of a batch DataFrame answers."""
    windows, payload = np.zeros(0, np.int64), None
    if due is not None:
        windows = due.windows.number
        payload = None if due.partial is None else pack_runs(due.partial, groups)
    shard = packed.column("shard")[0].as_py()
    row = {"shard": shard, "seen": _seen(packed), "windows": windows.tobytes(), "payload": payload}
    return row | more


def _seen(packed: pa.Table) -> Any:
    """The greatest time in packed rows."""
    return pa.compute.max(packed.column("seen")).cast(pa.int64()).as_py()


def batch_finisher(plan: Plan) -> Callable[[Batches], Batches]:
    """Merge all pieces of a batch DataFrame into its answer rows, in order."""

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
