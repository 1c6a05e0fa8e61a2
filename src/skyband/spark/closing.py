"""Closing a finite job: its last windows are answered by one more batch, which reads nothing.

Spark plans a batch (a file under ``offsets``), runs it and commits it. A batch that is planned but
not committed is run by the next start, with the watermark that its plan names:

    offsets/6   {"batchWatermarkMs": 1995, ...}   {"logOffset": 4}     committed
    offsets/7   {"batchWatermarkMs": 2040, ...}   {"logOffset": 4}     nothing new, all windows due

So this writes the plan of such a batch. Spark runs it as any other: the timers of all keys fire,
the answers reach the sinks once, and rows that come later for those windows are late.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow.fs

from skyband.errors import EngineError
from skyband.spark.checkpoint import read_heads
from skyband.spark.locations import open_location
from skyband.spark.plan import BoardPlan, Closing

__all__ = ["closing_of", "next_watermark", "plan_closing", "read_closing"]

_RECORD = "skyband-closing.json"
_WATERMARK = "batchWatermarkMs"


def plan_closing(session: Any, checkpoint: str, plan: BoardPlan) -> bool:
    """Plan the batch that answers the last windows; False if none are left.

    The query must have ended. ``checkpoint`` is the folder of the job; the query's is inside.
    """
    system, root = _opened(checkpoint)
    folder = f"{root}/answers"
    last = _last_batch(system, f"{folder}/offsets")
    if last is None:
        return False
    if last != _last_batch(system, f"{folder}/commits"):
        raise EngineError(
            f"the last batch of {checkpoint!r} was not finished, so the job cannot be closed; "
            "start it again"
        )
    closing = closing_of(plan, _latest(session, f"{checkpoint}/answers"))
    if closing is None or closing.watermark_ms <= _reached(system, folder, last):
        return False
    record = {"watermark": closing.watermark_ms, "ends": dict(closing.ends_ms)}
    _write(system, f"{root}/{_RECORD}", json.dumps(record))
    offsets = _lines(system, f"{folder}/offsets/{last}")
    told = json.loads(offsets[1]) | {_WATERMARK: closing.watermark_ms}
    planned = "\n".join([offsets[0], json.dumps(told, separators=(",", ":")), *offsets[2:]])
    _write(system, f"{folder}/offsets/{last + 1}", planned)
    return True


def next_watermark(checkpoint: str) -> int | None:
    """The watermark with which a job goes on; None if it has finished no batch."""
    system, root = _opened(checkpoint)
    last = _last_batch(system, f"{root}/answers/commits")
    return None if last is None else _reached(system, f"{root}/answers", last)


def _reached(system: Any, folder: str, batch: int) -> int:
    """The watermark after a batch."""
    planned = json.loads(_lines(system, f"{folder}/offsets/{batch}")[1])
    committed = json.loads(_lines(system, f"{folder}/commits/{batch}")[1])
    return int(max(planned[_WATERMARK], committed.get("nextBatchWatermarkMs", 0)))


def closing_of(plan: BoardPlan, latest_ms: int | None) -> Closing | None:
    """The watermark at which every query has answered its last window."""
    if latest_ms is None:
        return None
    ends = {name: each.last_end_ms(latest_ms) for name, each in plan.plans.items()}
    return Closing(max(end + plan.held_ms(name) for name, end in ends.items()), ends)


def read_closing(checkpoint: str) -> Closing | None:
    """How a job was last closed; None if it never was."""
    try:
        system, root = _opened(checkpoint)
        told = json.loads("\n".join(_lines(system, f"{root}/{_RECORD}")))
    except (OSError, ValueError):
        return None
    return Closing(int(told["watermark"]), told["ends"])


def _latest(session: Any, checkpoint: str) -> int | None:
    """The greatest time of all rows, bad and late ones too; None if there was no row."""
    heads = (head for _, head, _ in read_heads(session, checkpoint))
    found = [head["latest"] for head in heads if head.get("latest") is not None]
    return max(found, default=None)


# Files of a checkpoint ----------------------------------------------------------------------------


def _opened(checkpoint: str) -> tuple[Any, str]:
    if "://" in checkpoint:
        return open_location(checkpoint, {})
    return pyarrow.fs.LocalFileSystem(), checkpoint


def _last_batch(system: Any, folder: str) -> int | None:
    chosen = pyarrow.fs.FileSelector(folder, allow_not_found=True)
    names = [each.base_name for each in system.get_file_info(chosen)]
    return max((int(name) for name in names if name.isdigit()), default=None)


def _lines(system: Any, path: str) -> list[str]:
    with system.open_input_stream(path) as file:
        return list(file.read().decode().split("\n"))


def _write(system: Any, path: str, text: str) -> None:
    """Write a file whole: readers see all of it, or none."""
    folder, _, name = path.rpartition("/")
    draft = f"{folder}/.{name}.part"
    with system.open_output_stream(draft) as out:
        out.write(text.encode())
    system.move(draft, path)
