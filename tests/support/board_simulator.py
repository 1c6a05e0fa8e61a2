"""Simulates Spark for the parts of a board: micro-batches, keys, timers, one watermark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

import skyband as sb
from skyband.spark.bucket import CACHED_FOLDS, BucketKeeper
from skyband.spark.finishing import (
    answer_rows,
    answers_from,
    batch_finisher,
    batch_folder,
    finisher,
    typed_rows,
)
from skyband.spark.plan import SHIFT_MS, BoardPlan
from skyband.spark.summarise import summariser
from support import spark_simulator

Key = tuple[str, int, int]


def board_plan_of(
    board: Mapping[str, sb.Query], sources: Mapping[str, pa.Table], **settings: Any
) -> BoardPlan:
    """The plan of a board; ``settings`` are those of ``spark_simulator.plan_of``."""
    plans = {n: spark_simulator.plan_of(q, sources, **settings).first for n, q in board.items()}
    return BoardPlan(plans)


class BoardJob:
    """A streaming job of a board; ``push`` is one micro-batch."""

    def __init__(
        self,
        board: Mapping[str, sb.Query],
        sources: Mapping[str, pa.Table],
        forgetful: bool = False,
        **settings: Any,
    ) -> None:
        """``forgetful`` means that every step rebuilds its sessions, as after a restart."""
        self.sources = dict(sources)
        self.forgetful = forgetful
        self.settings = settings
        self.stores: dict[Key, spark_simulator.Memory] = {}
        self.timers: dict[Key, int] = {}
        self.seen: dict[str, int] = {}
        self.watermark = 0
        self.counts: dict[str, dict[str, int]] = {}
        """Late rows and windows of each query."""
        self.restart(board)

    def restart(self, board: Mapping[str, sb.Query]) -> None:
        """Go on with another board, as after a restart from the checkpoint."""
        self.plan = board_plan_of(board, self.sources, **self.settings)
        for name in board:
            self.counts.setdefault(name, {"rows_late": 0, "windows_out": 0})

    def push(self, push: Mapping[str, pa.Table]) -> dict[str, list[Any]]:
        """Run a batch with the watermark of the batches before it, then a batch without rows."""
        found: dict[str, list[Any]] = {name: [] for name in self.plan.plans}
        self._batch(push, found)
        if len(self.seen) == len(self.sources):
            self.watermark = max(self.watermark, min(self.seen.values()))
        self._batch({}, found)
        return found

    def _batch(self, push: Mapping[str, pa.Table], found: dict[str, list[Any]]) -> None:
        frames: dict[Key, list[pd.DataFrame]] = {}
        for source, table in push.items():
            for batch in summariser(self.plan, source)(iter(table.to_batches())):
                ticks = batch.column("seen").cast(pa.int64()).to_pylist()
                for row, seen in zip(batch.drop_columns(["seen"]).to_pylist(), ticks, strict=True):
                    key = row["label"], row["bucket"], row["shard"]
                    frames.setdefault(key, []).append(pd.DataFrame([row]))
                    self.seen[source] = max(self.seen.get(source, 0), seen // 1000 - SHIFT_MS)
        given: list[pd.DataFrame] = []
        for key, rows in frames.items():
            given += self._keeper(key).take(key, iter(rows), self.watermark)
        for key in [key for key, timer in self.timers.items() if timer <= self.watermark]:
            del self.timers[key]
            given += self._keeper(key).fire(key, self.watermark)
        self._told(given, found)

    def _keeper(self, key: Key) -> BucketKeeper:
        if self.forgetful:
            CACHED_FOLDS.kept.clear()
        store = self.stores.setdefault(key, spark_simulator.Memory())
        return BucketKeeper(self.plan, store, spark_simulator.Timers(self, key))

    def _told(self, given: list[pd.DataFrame], found: dict[str, list[Any]]) -> None:
        rows = [row for frame in given for row in frame.to_dict("records")]
        for row in rows:
            for name in ("rows_late", "windows_out"):
                self.counts[row["query"]][name] += row[name]
        if self.plan.first.shards > 1:
            rows = self._finished([row for row in rows if row["windows_out"]])
        for row in rows:
            if row["payload"] is not None:
                plan = self.plan.plans[row["query"]]
                table = answers_from(row["payload"], plan.output)
                table = answer_rows(self.plan, row["query"], table)
                for batch in typed_rows(plan.output)(iter(table.to_batches())):
                    found[row["query"]] += batch.to_pylist()

    def _finished(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The answers of all shards of each query and bucket."""
        by_bucket: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for row in rows:
            by_bucket.setdefault((row["query"], row["bucket"]), []).append(row)
        finish = finisher(self.plan)
        return [row for mine in by_bucket.values() for row in finish(_pieces(mine)).to_pylist()]

    def kept(self) -> dict[Key, dict[str, Any]]:
        """The heads of all keys."""
        from skyband.data.packing import unpack

        return {k: unpack(store.blob)[0] for k, store in self.stores.items() if store.blob}


def _pieces(rows: list[dict[str, Any]]) -> pa.Table:
    columns = ("query", "shard", "windows", "payload", "before", "totals", "letters")
    made = pa.table({name: [row[name] for row in rows] for name in columns})
    for place in (4, 5, 6):
        made = made.set_column(place, columns[place], made[columns[place]].cast(pa.binary()))
    return made


def ranked_batch(board: Mapping[str, sb.Query], table: pa.Table, **settings: Any) -> dict[str, Any]:
    """What a batch DataFrame gives: the rows of each query."""
    plan = board_plan_of(board, {"": table}, streaming=False, **settings)
    packed: dict[Key, list[pa.RecordBatch]] = {}
    for batch in summariser(plan, "")(iter(table.to_batches())):
        for i, row in enumerate(batch.select(["label", "bucket", "shard"]).to_pylist()):
            packed.setdefault(tuple(row.values()), []).append(batch.slice(i, 1))
    fold = batch_folder(plan)
    pieces = [fold(pa.Table.from_batches(rows)) for rows in packed.values()]
    batches = [batch for piece in pieces for batch in piece.to_batches()]
    found: dict[str, list[Any]] = {name: [] for name in board}
    for given in batch_finisher(plan)(iter(batches)):
        for name in board:
            mine = pa.Table.from_batches([given]).filter(pa.compute.field("query") == name)
            for typed in typed_rows(plan.plans[name].output)(iter(mine.to_batches())):
                found[name] += typed.to_pylist()
    return found
