"""The stateful operator as Spark sees it: which states it has, and who works with those.

Before the first batch, Spark starts a Python process only to ask which states a query has. To keep
it from importing everything for that, the plan travels as bytes here, and what works with the
states (``bucket``) is imported when the first rows come.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    import pandas as pd

    from skyband.spark.bucket import BucketKeeper
    from skyband.spark.plan import BoardPlan

ANSWERED_DDL = (
    "query string, bucket int, shard int, windows binary, payload binary, before binary, "
    "totals binary, letters binary, rows_late bigint, rows_bad bigint, windows_out bigint, "
    "marks binary, unmarked bigint, retained bigint, retained_more bigint, state_bytes bigint, "
    "state_bytes_more bigint"
)


class BucketProcessor(StatefulProcessor):
    """Keeps the state of a label, bucket and shard; a step emits packed rows with what is due."""

    def __init__(self, plan: BoardPlan) -> None:
        self.packed: bytes = cloudpickle.dumps(plan)  # type: ignore[no-untyped-call]

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark before anything else."""
        self.handle = handle
        self.head = handle.getValueState("head", "blob binary")
        self.slots = handle.getMapState("slots", "slot bigint", "blob binary")

    @cached_property
    def keeper(self) -> BucketKeeper:
        """What works with the states."""
        from skyband.spark.bucket import BucketKeeper, PaneStore

        store = PaneStore(self.head, self.slots)
        plan = pickle.loads(self.packed)  # noqa: S301 - Spark itself sends functions like this
        return BucketKeeper(plan, store, self.handle)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """New summaries arrived."""
        yield from self.keeper.take(key, rows, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """The watermark has reached the end of a window."""
        yield from self.keeper.fire(key, timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        """Nothing to give back."""
