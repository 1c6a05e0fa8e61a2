"""What the stateful operator does with rows and timers: it connects Spark's state with a bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa

from skyband.data.ipc import table_to_bytes
from skyband.spark.bucket import Bucket, PaneStore, QueryOutcome
from skyband.spark.parcels import schema_of
from skyband.spark.plan import BoardPlan, QueryPlan
from skyband.spark.processor import ANSWERED_DDL
from skyband.spark.stages import named

__all__ = ["BucketKeeper", "SparkStore", "Timers", "step"]


class Timers(Protocol):
    """The timers of the current state key, in milliseconds of event time; Spark's names."""

    def registerTimer(self, at: int) -> None: ...  # noqa: N802
    def deleteTimer(self, at: int) -> None: ...  # noqa: N802


class SparkStore:
    """A bucket's store in Spark's state: a value for the head, a map for the summaries."""

    def __init__(self, head: Any, slots: Any) -> None:
        self._head = head
        self._slots = slots

    def head(self) -> bytes | None:
        value = self._head.get()
        return None if value is None else bytes(value[0])

    def set_head(self, blob: bytes) -> None:
        self._head.update((blob,))

    def get(self, slot: int) -> bytes | None:
        value = self._slots.getValue((slot,))
        return None if value is None else bytes(value[0])

    def put(self, slot: int, blob: bytes) -> None:
        self._slots.updateValue((slot,), (blob,))

    def drop(self, slot: int) -> None:
        self._slots.removeKey((slot,))

    def clear(self) -> None:
        self._head.clear()
        self._slots.clear()

    def slots(self) -> Iterable[tuple[int, bytes]]:
        return [(int(key[0]), bytes(value[0])) for key, value in self._slots.iterator()]


def step(
    board: BoardPlan,
    label: str,
    store: PaneStore,
    timers: Timers,
    watermark_ms: int,
    blobs: Sequence[bytes] = (),
    fired: bool = False,
    latest_ms: int | None = None,
) -> tuple[Bucket, dict[str, QueryOutcome]]:
    """Answer what is due, then take new summaries; ``fired`` if a timer caused this step.

    A key has one timer, at the end of the next window that it has to answer, later by as much as
    its queries' watermark is behind Spark's. ``latest_ms`` is the greatest time of the rows behind
    the new summaries. Queries without state join the board now, if the sources were read before.
    """
    bucket = Bucket(board, label, store)
    name, tick_ms = bucket.names[0], bucket.plan.tick_ms
    joins = bool(bucket.added) and not board.alone and watermark_ms > 0
    if joins:
        bucket.join(watermark_ms * tick_ms)
    # A query that is new is not in the record of how the job was closed; the others are.
    reached = max(board.reached_ms(each, watermark_ms) for each in bucket.names)
    outcomes = bucket.step(reached * tick_ms, blobs, latest_ms)
    end = bucket.next_end
    due_ms = None if end is None else end // tick_ms + board.held_ms(name)
    timer = _move_timer(timers, bucket.head["timer"], due_ms, watermark_ms, fired)
    bucket.save(timer)
    return bucket, outcomes


def _move_timer(
    timers: Timers, known: int | None, due_ms: int | None, watermark_ms: int, fired: bool
) -> int | None:
    """Set the timer of a key to when it has something to answer; ``known`` is where it stands."""
    timer = None if due_ms is None else max(due_ms, watermark_ms + 1)
    if timer != known:
        # Spark deletes a timer that has fired. Any other is deleted here, even if it is due: this
        # step has already answered its windows.
        if known is not None and not (fired and known <= watermark_ms):
            timers.deleteTimer(known)
        if timer is not None:
            timers.registerTimer(timer)
    return timer


class BucketKeeper:
    """Takes the rows and timers of state keys; each step gives a packed row for each query."""

    output = schema_of(ANSWERED_DDL)

    def __init__(self, board: BoardPlan, store: SparkStore, timers: Timers) -> None:
        self.board, self.store, self.timers = board, store, timers

    def take(
        self, key: Any, rows: Iterator[pd.DataFrame], watermark_ms: int
    ) -> Iterator[pd.DataFrame]:
        """Seal up to the watermark first, then take new summaries."""
        blobs: list[bytes] = []
        latest: list[int] = []
        for frame in rows:
            latest += [int(time) for time in frame["latest"].dropna()]
            blobs += [bytes(blob) for blob in frame["payload"] if blob is not None]
            letters = [bytes(blob) for blob in frame["letters"] if blob is not None]
            yield from (self._letters(key, blob) for blob in letters)
        yield from self._step(key, watermark_ms, blobs, latest_ms=max(latest, default=None))

    def fire(self, key: Any, watermark_ms: int) -> Iterator[pd.DataFrame]:
        """Answer what is due: a timer has fired."""
        yield from self._step(key, watermark_ms, fired=True)

    def _step(
        self, key: Any, watermark_ms: int, blobs: Sequence[bytes] = (), **more: Any
    ) -> Iterator[pd.DataFrame]:
        board, (label, bucket_number, shard) = self.board, key
        if label not in board.labels:
            self.store.clear()  # its queries were removed from the board
            return
        with self._named(board.labels[label][0]):
            bucket, outcomes = step(
                board, label, self.store, self.timers, watermark_ms, blobs, **more
            )
        rows = []
        for name, outcome in outcomes.items():
            for letters in outcome.letters:
                yield self._letters(key, table_to_bytes(self._told(name, letters)))
            plan, reached = board.plans[name], board.reached_ms(name, watermark_ms)
            row = {"query": name, "bucket": bucket_number, "shard": shard}
            rows.append(row | _row_of(plan, outcome, reached))
        rows[0] |= {
            "retained": bucket.retained,
            "retained_more": bucket.retained - bucket.known[0],
            "state_bytes": bucket.state_bytes,
            "state_bytes_more": bucket.state_bytes - bucket.known[1],
        }
        yield self._frame(rows)

    def _named(self, name: str) -> AbstractContextManager[None]:
        return nullcontext() if self.board.alone else named(name)

    def _letters(self, key: Any, blob: bytes) -> pd.DataFrame:
        label, bucket, shard = key
        name = self.board.labels.get(label, [label])[0]
        return self._frame([{"query": name, "bucket": bucket, "shard": shard, "letters": blob}])

    def _told(self, name: str, letters: pa.Table) -> pa.Table:
        """On a board, each letter says which query refused the row."""
        if self.board.alone:
            return letters
        reasons = [f"{name}: {reason}" for reason in letters["reason"].to_pylist()]
        place = letters.schema.get_field_index("reason")
        return letters.set_column(place, letters.schema.field(place), pa.array(reasons))

    def _frame(self, rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
        """Rows of the output; columns that are not given are empty or 0."""
        empty = {"payload": None, "before": None, "letters": None, "windows": b"", "marks": b""}
        columns = {name: empty.get(name, 0) for name in self.output.names}
        return pd.DataFrame({n: [row.get(n, none) for row in rows] for n, none in columns.items()})


def _row_of(plan: QueryPlan, outcome: QueryOutcome, reached_ms: int) -> dict[str, Any]:
    """What a row of the output says of a step."""
    newest = plan.window.panes.last_window_ending_by(max(reached_ms, 0) * plan.tick_ms)
    marks, unmarked = outcome.marks(newest)
    return {
        "windows": outcome.windows.tobytes(),
        "payload": outcome.payload,
        "before": outcome.before,
        "rows_late": outcome.rows_late,
        "rows_bad": outcome.rows_bad,
        "windows_out": len(outcome.windows),
        "marks": marks,
        "unmarked": unmarked,
    }
