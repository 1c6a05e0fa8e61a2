"""What a checkpoint holds: for ``skyband state``, and for errors that say what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from skyband.errors import EngineError, SkybandError
from skyband.packing import unpack
from skyband.spark.plan import Plan

__all__ = ["STATE_SCHEMA", "check_checkpoint", "mark_checkpoint", "read_state"]

STATE_SCHEMA = pa.schema(
    [
        ("bucket", pa.int32()),
        ("shard", pa.int32()),
        ("panes", pa.int64()),
        ("first_pane", pa.int64()),
        ("last_pane", pa.int64()),
        ("retained", pa.int64()),
        ("state_bytes", pa.int64()),
        ("rows_late", pa.int64()),
        ("rows_bad", pa.int64()),
        ("windows_out", pa.int64()),
        ("query", pa.string()),
        ("algorithm", pa.string()),
    ]
)
_MARK = "skyband.json"


def read_state(session: Any, checkpoint: str, operator: int = 0) -> pa.Table:
    """One row for each bucket and shard of a checkpoint: panes, what is retained, counts."""
    reader = session.read.format("statestore").option("stateVarName", "head")
    try:
        rows = reader.option("operatorId", operator).load(checkpoint).collect()
    except Exception as problem:
        raise EngineError(
            f"{checkpoint!r} could not be read as the checkpoint of a Skyband query; give the "
            "folder that was the query's checkpointLocation. "
            f"Spark says: {str(problem).splitlines()[0]}"
        ) from problem
    told = []
    for row in rows:
        head, _ = unpack(bytes(row["value"]["blob"]))
        panes = sorted(int(pane) for pane in head["panes"])
        told.append(
            {
                "bucket": row["key"]["bucket"],
                "shard": row["key"]["shard"],
                "panes": len(panes),
                "first_pane": panes[0] if panes else None,
                "last_pane": panes[-1] if panes else None,
                "retained": int(head["stats"].get("retained", 0)),
                "state_bytes": sum(head["panes"].values()),
                **head["counts"],
                "query": head["identity"]["query"],
                "algorithm": head["identity"]["algorithm"],
            }
        )
    told.sort(key=lambda row: (row["bucket"], row["shard"]))
    return pa.Table.from_pylist(told, schema=STATE_SCHEMA)


def check_checkpoint(folder: str, plan: Plan) -> None:
    """Raise EngineError where a local checkpoint was not made by this query.

    Workers find the same when they read their state; this says it before the job starts.
    """
    path = Path(folder)
    if not path.is_dir() or not any(path.iterdir()):
        return
    mark = path / _MARK
    if not mark.exists():
        raise EngineError(
            f"{folder!r} is not empty and no Skyband pipeline made it; give an empty folder as "
            "checkpoint, or the one that this pipeline was started with"
        )
    from skyband.spark.bucket import check_identity

    try:
        found = json.loads(mark.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise EngineError(
            f"{mark} is damaged ({problem}); restore the checkpoint from a copy, or start from a "
            "new one"
        ) from problem
    try:
        check_identity(found, plan.identity)
    except SkybandError as problem:
        raise EngineError(f"checkpoint {folder!r}: {problem}") from None


def mark_checkpoint(folder: str, plan: Plan) -> None:
    """Write down whose checkpoint a new local folder is."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    mark = path / _MARK
    if not mark.exists():
        draft = path / f"{_MARK}.part"
        draft.write_text(json.dumps(plan.identity, indent=1), encoding="utf-8")
        draft.replace(mark)
