"""The stateful operators: they connect Spark's state with a bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from skyband.data.ipc import table_from, table_to_bytes
from skyband.spark.answer_bytes import answers_to_bytes
from skyband.spark.board_plan import BoardPlan
from skyband.spark.board_stages import named
from skyband.spark.finishing import finish
from skyband.spark.parcels import schema_of
from skyband.spark.plan import Plan
from skyband.spark.steps import step

__all__ = [
    "ANSWERED_DDL", "BOARD_ANSWERED_DDL", "BoardProcessor", "BucketProcessor", "ChangesProcessor",
]  # fmt: skip

ANSWERED_DDL = (
    "bucket int, shard int, windows binary, payload binary, letters binary, "
    "rows_late bigint, rows_bad bigint, windows_out bigint, marks binary, unmarked bigint, "
    "retained bigint, retained_more bigint, state_bytes bigint, state_bytes_more bigint"
)
BOARD_ANSWERED_DDL = f"query string, {ANSWERED_DDL}"


class SparkStore:
    """A bucket's store in Spark's state: a value state for the head, a map state for the panes."""

    def __init__(self, head: Any, panes: Any) -> None:
        self._head = head
        self._panes = panes

    def head(self) -> bytes | None:
        found = self._head.get()
        return None if found is None else bytes(found[0])

    def set_head(self, blob: bytes) -> None:
        self._head.update((blob,))

    def pane(self, pane: int) -> bytes | None:
        found = self._panes.getValue((pane,))
        return None if found is None else bytes(found[0])

    def set_pane(self, pane: int, blob: bytes) -> None:
        self._panes.updateValue((pane,), (blob,))

    def drop_pane(self, pane: int) -> None:
        self._panes.removeKey((pane,))

    def clear(self) -> None:
        self._head.clear()
        self._panes.clear()

    def panes(self) -> Iterable[tuple[int, bytes]]:
        return [(int(key[0]), bytes(value[0])) for key, value in self._panes.iterator()]


class Given(NamedTuple):
    """What a step starts from, as ``steps.step`` takes it."""

    watermark_ms: int
    blobs: Sequence[bytes] = ()
    fired: bool = False
    latest_ms: int | None = None


class BucketProcessor(StatefulProcessor):
    """Keeps the state of a bucket and shard; each step emits a packed row with the answers due."""

    output = schema_of(ANSWERED_DDL)
    key_names: tuple[str, ...] = ("bucket", "shard")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark before anything else."""
        self.handle = handle
        head = handle.getValueState("head", "blob binary")
        panes = handle.getMapState("panes", "pane bigint", "blob binary")
        self.store = SparkStore(head, panes)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """New summaries arrived: seal up to the watermark first, then take them."""
        blobs: list[bytes] = []
        latest: list[int] = []
        for frame in rows:
            latest += [int(time) for time in frame["latest"].dropna()]
            blobs += [bytes(blob) for blob in frame["payload"] if blob is not None]
            for letters in frame["letters"]:
                if letters is not None:
                    yield self._answered(key, letters=bytes(letters))
        newest = max(latest, default=None)
        watermark = timerValues.getCurrentWatermarkInMs()
        yield from self._step(key, Given(watermark, blobs, latest_ms=newest))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """The watermark has reached the end of a window."""
        yield from self._step(key, Given(timerValues.getCurrentWatermarkInMs(), fired=True))

    def close(self) -> None:
        """Nothing to give back."""

    def _step(self, key: Any, given: Given) -> Iterator[pd.DataFrame]:
        yield from self._stepped(self.plan, key, given, given.watermark_ms)

    def _stepped(
        self, plan: Plan, key: Any, given: Given, reached: int, **board: Any
    ) -> Iterator[pd.DataFrame]:
        bucket, outcome = step(plan, self.store, self.handle, *given, **board)
        newest = bucket.panes.last_window_ending_by(max(reached, 0) * plan.tick_ms)
        marks, unmarked = outcome.marks(newest)
        retained, state_bytes = bucket.retained, bucket.state_bytes
        for letters in outcome.letters:
            yield self._answered(key, letters=table_to_bytes(self._told(key, letters)))
        yield self._answered(
            key,
            windows=outcome.windows.tobytes(),
            payload=outcome.payload,
            rows_late=outcome.rows_late,
            rows_bad=outcome.rows_bad,
            windows_out=len(outcome.windows),
            marks=marks,
            unmarked=unmarked,
            retained=retained,
            retained_more=retained - bucket.known[0],
            state_bytes=state_bytes,
            state_bytes_more=state_bytes - bucket.known[1],
        )

    def _told(self, key: Any, letters: pa.Table) -> pa.Table:
        """The letters of rows that were refused in this step."""
        return letters

    def _answered(self, key: Any, **told: Any) -> pd.DataFrame:
        """One row of the output; columns that are not given are empty or 0."""
        told |= dict(zip(self.key_names, key, strict=True))
        empty = {"payload": None, "letters": None, "windows": b"", "marks": b""}
        row = {name: told.get(name, empty.get(name, 0)) for name in self.output.names}
        return pd.DataFrame({name: [value] for name, value in row.items()})


class BoardProcessor(BucketProcessor):
    """Keeps the state of a query, bucket and shard of a board."""

    output = schema_of(BOARD_ANSWERED_DDL)
    key_names = ("query", "bucket", "shard")

    def __init__(self, board: BoardPlan) -> None:
        self.board = board

    def _step(self, key: Any, given: Given) -> Iterator[pd.DataFrame]:
        plan = self.board.plans.get(key[0])
        if plan is None:  # the query was removed from the board
            self.store.clear()
            return
        reached = self.board.reached_ms(key[0], given.watermark_ms)
        board = {"held_ms": self.board.held_ms(key[0]), "reached_ms": reached, "joins": True}
        with named(key[0]):
            yield from self._stepped(plan, key, given, reached, **board)

    def _told(self, key: Any, letters: pa.Table) -> pa.Table:
        """Each letter says which query refused the row."""
        reasons = [f"{key[0]}: {reason}" for reason in letters["reason"].to_pylist()]
        place = letters.schema.get_field_index("reason")
        return letters.set_column(place, letters.schema.field(place), pa.array(reasons))


class ChangesProcessor(StatefulProcessor):
    """Merges the pieces of all shards of a bucket and compares them with the previous answer."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark before anything else."""
        self.before = handle.getValueState("before", "blob binary")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """All pieces of a window arrive in the same batch, because there is one watermark."""
        pieces = []
        for frame in rows:
            for letters in frame["letters"]:
                if letters is not None:
                    yield pd.DataFrame({"payload": [None], "letters": [bytes(letters)]})
            columns = (frame[name] for name in ("shard", "windows", "payload"))
            for shard, windows, payload in zip(*columns, strict=True):
                pieces.append((int(shard), np.frombuffer(windows, np.int64), payload))
        found = self.before.get()
        before = None if found is None else table_from(bytes(found[0]))
        table, last = finish(self.plan, pieces, before=before)
        if last is not None and last is not before:
            self.before.update((table_to_bytes(last),))
        payload = answers_to_bytes(table) if table.num_rows else None
        yield pd.DataFrame({"payload": [payload], "letters": [None]})

    def close(self) -> None:
        """Nothing to give back."""
