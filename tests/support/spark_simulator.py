"""Simulates Spark for the parts of the Spark engine: micro-batches, keys, timers, watermark.

It does what the plan in ``skyband.spark.ranking`` asks Spark to do, in one process and without
delay, so that every query can be compared on thousands of small streams. The tests under
``tests/spark`` show that Spark does the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb
from skyband.engine.intake import Intake
from skyband.engine.per_group import make_synopsis
from skyband.spark.bucket import CACHED_FOLDS, BucketKeeper, PaneStore
from skyband.spark.finishing import answers_from, batch_finisher, batch_folder, finish
from skyband.spark.plan import SHIFT_MS, BoardPlan, QueryPlan
from skyband.spark.summarise import COUNTS, PACKED, summariser


class Memory(PaneStore):
    """A bucket's store in two dicts."""

    def __init__(self) -> None:
        self.blob: bytes | None = None
        self.kept: dict[int, bytes] = {}

    def head(self) -> bytes | None:
        return self.blob

    def set_head(self, blob: bytes) -> None:
        self.blob = blob

    def get(self, slot: int) -> bytes | None:
        return self.kept.get(slot)

    def put(self, slot: int, blob: bytes) -> None:
        self.kept[slot] = blob

    def drop(self, slot: int) -> None:
        del self.kept[slot]

    def clear(self) -> None:
        self.blob, self.kept = None, {}

    def slots(self) -> Iterable[tuple[int, bytes]]:
        return sorted(self.kept.items(), key=lambda item: -item[0])  # the order must not matter


class Timers:
    """Spark's timers of all keys, seen from one of them."""

    def __init__(self, job: Any, key: tuple[Any, ...]) -> None:
        self.job = job
        """What simulates Spark: it has a ``watermark``, and ``timers`` by key."""
        self.key = key

    def registerTimer(self, at: int) -> None:  # noqa: N802 - Spark's names
        assert at > self.job.watermark, "Spark would fire it only a batch later"
        assert self.key not in self.job.timers, "a key has one timer"
        self.job.timers[self.key] = at

    def deleteTimer(self, at: int) -> None:  # noqa: N802
        assert self.job.timers.pop(self.key) == at


def plan_of(
    query: sb.Query,
    sources: Mapping[str, pa.Table],
    *,
    shards: int = 1,
    on_bad: str = "raise",
    changes: Any = False,
    streaming: bool = True,
    bounds: bool = False,
    total: bool = False,
) -> BoardPlan:
    intake = Intake(query, make_synopsis(query))
    for name, table in sources.items():
        intake.bind(name, table.schema)
    plan = QueryPlan(query, dict(intake.bound), shards, on_bad, changes, streaming, bounds, total)
    return BoardPlan({"": plan}, alone=True)


class Job:
    """A streaming job; ``push`` is one micro-batch."""

    def __init__(self, plan: BoardPlan, parts: int = 1, forgetful: bool = False) -> None:
        self.plan = plan
        (self.label,) = plan.labels
        self.parts = parts
        self.forgetful = forgetful
        """Whether every step rebuilds its session from the store, as after a restart."""
        self.stores: dict[tuple[int, int], Memory] = {}
        self.timers: dict[tuple[int, int], int] = {}
        self.seen: dict[str, int] = {}
        self.watermark = 0
        self.stats = dict.fromkeys((*COUNTS, "rows_late"), 0)

    def push(self, push: Mapping[str, pa.Table]) -> pa.Table:
        """Run a batch with the watermark of the batches before it, then a batch without rows."""
        table = self._batch(push)
        if len(self.seen) == len(self.plan.schemas):
            plan = self.plan.first
            mark = min(self.seen.values()) - plan.window.lateness_ticks // plan.tick_ms
            self.watermark = max(self.watermark, mark)
        return pa.concat_tables([table, self._batch({})])

    def _batch(self, push: Mapping[str, pa.Table]) -> pa.Table:
        blobs: dict[tuple[int, int], list[bytes]] = {}
        for source, table in push.items():
            for row in self._packed(source, table):
                key = row["bucket"], row["shard"]
                blobs.setdefault(key, [])
                if row["payload"] is not None:
                    blobs[key].append(row["payload"])
                for name in COUNTS:
                    self.stats[name] += row[name]
                seen = row["seen"] // 1000 - SHIFT_MS
                self.seen[source] = max(self.seen.get(source, 0), seen)
        pieces: dict[int, list[Any]] = {}
        for key, mine in blobs.items():
            self._step(key, mine, pieces)
        for key in [key for key, timer in self.timers.items() if timer <= self.watermark]:
            del self.timers[key]
            self._step(key, [], pieces, fired=True)
        return pa.concat_tables([self.plan.output.empty_table(), *self._finished(pieces)])

    def _packed(self, source: str, table: pa.Table) -> Iterator[Any]:
        run = summariser(self.plan, source)
        for part in range(self.parts):
            mine = table.take(pa.array(np.arange(part, table.num_rows, self.parts)))
            for batch in run(iter(mine.to_batches())):
                assert batch.schema == PACKED
                seen = batch.schema.get_field_index("seen")
                ticks = batch.column(seen).cast(pa.int64())
                yield from batch.set_column(seen, "seen", ticks).to_pylist()

    def _step(
        self,
        key: tuple[int, int],
        blobs: list[bytes],
        pieces: dict[int, Any],
        fired: bool = False,
    ) -> None:
        if self.forgetful:
            CACHED_FOLDS.kept.clear()
        store = self.stores.setdefault(key, Memory())
        keeper = BucketKeeper(self.plan, store, Timers(self, key))
        _, outcomes = keeper.step(self.label, self.watermark, blobs, fired)
        (outcome,) = outcomes.values()
        self.stats["rows_late"] += outcome.rows_late
        self.stats["rows_bad"] += outcome.rows_bad
        if len(outcome.windows):
            piece = key[1], outcome.windows, outcome.payload, outcome.before, outcome.totals
            pieces.setdefault(key[0], []).append(piece)

    def _finished(self, pieces: dict[int, list[Any]]) -> Iterator[pa.Table]:
        for mine in pieces.values():
            if self.plan.first.shards == 1:
                yield from (answers_from(p, self.plan.output) for _, _, p, *_ in mine if p)
            else:
                yield finish(self.plan, "", mine)


def run_batch(plan: BoardPlan, sources: Mapping[str, pa.Table], parts: int = 1) -> pa.Table:
    """The result of the plan for batch DataFrames."""
    packed = [
        batch
        for source, table in sources.items()
        for part in range(parts)
        for batch in summariser(plan, source)(
            iter(table.take(pa.array(np.arange(part, table.num_rows, parts))).to_batches())
        )
    ]
    rows = pa.Table.from_batches(packed, schema=PACKED)
    keys = sorted(set(zip(rows["bucket"].to_pylist(), rows["shard"].to_pylist(), strict=True)))
    pieces: list[pa.RecordBatch] = []
    for bucket, shard in keys:
        mask = pa.compute.and_(
            pa.compute.equal(rows["bucket"], bucket), pa.compute.equal(rows["shard"], shard)
        )
        pieces += batch_folder(plan)(rows.filter(mask)).to_batches()
    found = list(batch_finisher(plan)(iter(pieces)))
    return pa.Table.from_batches(found, schema=plan.output)


def by_source(push: Any) -> dict[str, pa.Table]:
    return dict(push) if isinstance(push, Mapping) else {"": push}


def first_tables(pushes: Sequence[Any]) -> dict[str, pa.Table]:
    """The first table of each source, which shows its columns."""
    found: dict[str, pa.Table] = {}
    for push in pushes:
        for name, table in by_source(push).items():
            found.setdefault(name, table)
    return found
