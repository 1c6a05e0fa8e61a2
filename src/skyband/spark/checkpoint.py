"""What the state of a checkpoint holds, for ``skyband state`` and for jobs that are closed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs

from skyband.arrays import State
from skyband.data.packing import unpack
from skyband.errors import EngineError
from skyband.spark.bucket import pane_table
from skyband.spark.parcels import schema_of
from skyband.spark.sessions import first_line

STATE_SCHEMA = schema_of(
    "bucket int, shard int, panes bigint, first_pane bigint, last_pane bigint, retained bigint, "
    "state_bytes bigint, rows_late bigint, rows_bad bigint, windows_out bigint, query string, "
    "algorithm string"
)


def read_heads(session: Any, checkpoint: str) -> list[tuple[Any, dict[str, Any], State]]:
    """The key and the head of every bucket and shard of a checkpoint, and the head's arrays."""
    reader = session.read.format("statestore").option("stateVarName", "head")
    try:
        rows = reader.load(checkpoint).collect()
    except Exception as problem:
        raise EngineError(
            f"{checkpoint!r} could not be read as the checkpoint of a Skyband query; give the "
            f"folder that was the query's checkpointLocation. Spark says: {first_line(problem)}"
        ) from problem
    return [(row["key"], *unpack(bytes(row["value"]["blob"]))) for row in rows]


def read_state(session: Any, checkpoint: str) -> pa.Table:
    """One row per query, bucket and shard of a checkpoint: panes, retained items, counts."""
    rows = [
        {"bucket": key["bucket"], "shard": key["shard"]} | row
        for key, head, arrays in read_heads(session, checkpoint)
        for row in _rows_of(head, arrays)
    ]
    rows.sort(key=lambda row: (row["bucket"], row["shard"]))
    return pa.Table.from_pylist(rows, schema=STATE_SCHEMA)


def _rows_of(head: dict[str, Any], arrays: State) -> list[dict[str, Any]]:
    """A row of each query; the readers of a fold share its size, so that shares add up to it."""
    rows = []
    for i, fold in enumerate(head["folds"]):
        panes = pane_table(i, arrays)
        sizes = fold["nbytes"], fold["retained"]
        numbers, many = np.unique(panes[:, 0]).tolist(), len(fold["names"])
        for place, name in enumerate(fold["names"]):
            # The first reader also has what is left over.
            size, retained = (whole // many + (0 if place else whole % many) for whole in sizes)
            query = head["queries"][name]
            rows.append({
                "panes": len(numbers),
                "first_pane": min(numbers, default=None),
                "last_pane": max(numbers, default=None),
                "retained": retained,
                "state_bytes": size,
                **query["counts"],
                "query": query["identity"]["query"],
                "algorithm": query["identity"]["algorithm"],
            })  # fmt: skip
    return rows
