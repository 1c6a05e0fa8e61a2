"""What the stateful operators do with rows and timers: they connect Spark's state with a bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from skyband.data.ipc import table_from, table_to_bytes
from skyband.errors import EngineError
from skyband.spark.answer_bytes import answers_to_bytes
from skyband.spark.board_stages import named
from skyband.spark.bucket import Outcome
from skyband.spark.family_plan import FamilyPlan
from skyband.spark.finishing import finish
from skyband.spark.parcels import schema_of
from skyband.spark.plan import Plan
from skyband.spark.processor import ANSWERED_DDL, BOARD_ANSWERED_DDL
from skyband.spark.steps import Timers, family_step, step

__all__ = ["BoardKeeper", "BucketKeeper", "ChangesKeeper", "SparkStore"]


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


class BucketKeeper:
    """Takes the rows and timers of state keys; each step gives a packed row with what is due."""

    output = schema_of(ANSWERED_DDL)
    key_names: tuple[str, ...] = ("bucket", "shard")

    def __init__(self, plan: Any, store: SparkStore, timers: Timers) -> None:
        self.plan = plan
        self.store = store
        self.timers = timers

    def take(
        self, key: Any, rows: Iterator[pd.DataFrame], watermark_ms: int
    ) -> Iterator[pd.DataFrame]:
        """Seal up to the watermark first, then take new summaries."""
        blobs: list[bytes] = []
        latest: list[int] = []
        for frame in rows:
            latest += [int(time) for time in frame["latest"].dropna()]
            blobs += [bytes(blob) for blob in frame["payload"] if blob is not None]
            for letters in frame["letters"]:
                if letters is not None:
                    yield self._answered(key, letters=bytes(letters))
        newest = max(latest, default=None)
        yield from self._step(key, Given(watermark_ms, blobs, latest_ms=newest))

    def fire(self, key: Any, watermark_ms: int) -> Iterator[pd.DataFrame]:
        """Answer what is due: a timer has fired."""
        yield from self._step(key, Given(watermark_ms, fired=True))

    def _step(self, key: Any, given: Given) -> Iterator[pd.DataFrame]:
        yield from self._stepped(self.plan, key, given, given.watermark_ms)

    def _stepped(
        self, plan: Plan, key: Any, given: Given, reached: int, **board: Any
    ) -> Iterator[pd.DataFrame]:
        bucket, outcome = step(plan, self.store, self.timers, *given, **board)
        for letters in outcome.letters:
            yield self._answered(key, letters=table_to_bytes(self._told(key, letters)))
        kept = bucket.retained, bucket.state_bytes
        told = _told_of(plan, outcome, reached)
        yield self._answered(key, **told, **_kept(kept, bucket.known))

    def _told(self, key: Any, letters: pa.Table) -> pa.Table:
        """The letters of rows that were refused in this step."""
        return letters

    def _answered(self, key: Any, **told: Any) -> pd.DataFrame:
        """One row of the output; columns that are not given are empty or 0."""
        return self._rows([dict(zip(self.key_names, key, strict=True)) | told])

    def _rows(self, told: Sequence[dict[str, Any]]) -> pd.DataFrame:
        empty = {"payload": None, "letters": None, "windows": b"", "marks": b""}
        columns = {name: empty.get(name, 0) for name in self.output.names}
        return pd.DataFrame({n: [row.get(n, none) for row in told] for n, none in columns.items()})


def _told_of(plan: Plan, outcome: Outcome, reached_ms: int) -> dict[str, Any]:
    """What a row of the output says of a step."""
    newest = plan.window.panes.last_window_ending_by(max(reached_ms, 0) * plan.tick_ms)
    marks, unmarked = outcome.marks(newest)
    return {
        "windows": outcome.windows.tobytes(),
        "payload": outcome.payload,
        "rows_late": outcome.rows_late,
        "rows_bad": outcome.rows_bad,
        "windows_out": len(outcome.windows),
        "marks": marks,
        "unmarked": unmarked,
    }


def _kept(now: tuple[int, int], before: tuple[int, int]) -> dict[str, int]:
    """What a key keeps, and how much that has changed."""
    retained, size = now
    return {
        "retained": retained,
        "retained_more": retained - before[0],
        "state_bytes": size,
        "state_bytes_more": size - before[1],
    }


class BoardKeeper(BucketKeeper):
    """The same for a board, whose keys begin with the label of a family or the name of a query."""

    output = schema_of(BOARD_ANSWERED_DDL)
    key_names = ("query", "bucket", "shard")

    def _step(self, key: Any, given: Given) -> Iterator[pd.DataFrame]:
        board, label = self.plan, key[0]
        if label not in board.labels:
            if label in board.plans:
                raise EngineError(
                    "this checkpoint was written by Skyband 0.2.0, which kept the state of boards "
                    "query by query; use that version, or start from a new checkpoint"
                )
            self.store.clear()  # its queries were removed from the board
        elif label in board.families:
            yield from self._family(board.families[label], key, given)
        else:
            reached = board.reached_ms(label, given.watermark_ms)
            settings = {"held_ms": board.held_ms(label), "reached_ms": reached, "joins": True}
            with named(label):
                yield from self._stepped(board.plans[label], key, given, reached, **settings)

    def _family(self, family: FamilyPlan, key: Any, given: Given) -> Iterator[pd.DataFrame]:
        """A step of all queries of a family; one row of the output for each of them."""
        reached = {n: self.plan.reached_ms(n, given.watermark_ms) for n in family.plans}
        with named(next(iter(family.plans))):
            bucket, outcomes = family_step(
                family, self.store, self.timers, *given, reached, self.plan.plans
            )
        rows = [
            {"query": name, "bucket": key[1], "shard": key[2]}
            | _told_of(family.plans[name], outcome, reached[name])
            for name, outcome in outcomes.items()
        ]
        rows[0] |= _kept((bucket.retained, bucket.state_bytes), bucket.known)
        yield self._rows(rows)

    def _told(self, key: Any, letters: pa.Table) -> pa.Table:
        """Each letter says which query refused the row."""
        reasons = [f"{key[0]}: {reason}" for reason in letters["reason"].to_pylist()]
        place = letters.schema.get_field_index("reason")
        return letters.set_column(place, letters.schema.field(place), pa.array(reasons))


class ChangesKeeper:
    """Merges the pieces of all shards of a bucket and compares them with the previous answer."""

    def __init__(self, plan: Plan, before: Any) -> None:
        self.plan = plan
        self.before = before

    def take(self, rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Pieces of all windows that are due in a batch."""
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
