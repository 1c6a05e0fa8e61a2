"""The watermark of the batch that is worked on, read where the rows are.

Before Spark runs a batch, it plans it in the checkpoint, with the watermark that the stateful
operator will be told. Only that operator is told it. So a worker that has to know which rows are
late reads the plan:

    offsets/7   {"batchWatermarkMs": 1995, ...}
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs
from pyspark import TaskContext

from skyband.errors import EngineError
from skyband.spark.locations import open_location


@dataclass(frozen=True)
class PlannedWatermarks:
    """Where Spark plans the batches of a query; for one whose late rows become dead letters."""

    checkpoint: str
    """The folder of the query, which workers can read."""

    def of_this_batch(self) -> int:
        """The watermark of the batch that this task belongs to, in milliseconds."""
        task = TaskContext.get()
        batch = None if task is None else task.getLocalProperty("streaming.sql.batchId")
        path = f"{self.checkpoint}/offsets/{batch}"
        try:
            system, place = (
                open_location(path, {}) if "://" in path else (pa.fs.LocalFileSystem(), path)
            )
            with system.open_input_stream(place) as file:
                _, planned, *_ = file.read().split(b"\n")
            return int(json.loads(planned)["batchWatermarkMs"])
        except (OSError, ValueError, KeyError, pa.ArrowException) as problem:
            raise EngineError(
                "late = 'letters' needs the checkpoint where the rows are read, to tell which of "
                f"them are late, but {path} cannot be read there ({problem}); give a checkpoint "
                "that all workers can read, or leave out late"
            ) from problem
