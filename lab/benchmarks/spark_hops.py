"""Where the time and the bytes of a batch go on Spark, hop by hop, without Spark itself.

    python -m lab.benchmarks.spark_hops --rows 2000000

One process does what workers do with a batch of an hour of events, in pieces: read and summarise
(``parts`` tasks), pack, unpack, take in, write to the state, seal and answer. Spark adds the
exchange, pandas, and the socket to its state store, which carry the bytes that are shown here.
"Plain" are the same summaries as version 0.1 packed them. Times are processor time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb
from lab.benchmarks.spark_cases import flows, queries, reports
from skyband.engine.intake import Intake
from skyband.engine.per_group import make_synopsis
from skyband.spark.bucket import CACHED_FOLDS, Bucket
from skyband.spark.parcels import unpack_runs
from skyband.spark.plan import BoardPlan, QueryPlan
from skyband.spark.summarise import CHUNK_ROWS, Summariser

BATCHES = 6
"""Batches of an hour; panes of a minute are touched by one or two of them."""


class Memory:
    """A store that counts the bytes written to it."""

    def __init__(self) -> None:
        self.blob: bytes | None = None
        self.kept: dict[int, bytes] = {}
        self.written = 0

    def head(self) -> bytes | None:
        return self.blob

    def set_head(self, blob: bytes) -> None:
        self.blob = blob
        self.written += len(blob)

    def get(self, slot: int) -> bytes | None:
        return self.kept.get(slot)

    def put(self, slot: int, blob: bytes) -> None:
        self.kept[slot] = blob
        self.written += len(blob)

    def drop(self, slot: int) -> None:
        del self.kept[slot]

    def slots(self) -> list[tuple[int, bytes]]:
        return list(self.kept.items())


class Hops:
    """Seconds by hop."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def hop(self, name: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - began


def plan_of(query: sb.Query, table: pa.Table) -> BoardPlan:
    intake = Intake(query, make_synopsis(query))
    intake.bind("", table.schema)
    schemas = {name: schema.remove_metadata() for name, schema in intake.bound.items()}
    plan = QueryPlan(query, schemas, 1, "raise", False, streaming=True)
    return BoardPlan({"": plan}, alone=True)


def measured(query: sb.Query, table: pa.Table, parts: int) -> dict[str, Any]:
    """One run over the table in batches; the state is that of one key."""
    plan, hops, store = plan_of(query, table), Hops(), Memory()
    (label,) = plan.labels
    sent = plain = 0
    size = -(-table.num_rows // BATCHES)
    watermark = 0
    CACHED_FOLDS.kept.clear()
    for start in range(0, table.num_rows, size):
        batch = table.slice(start, size)
        blobs: list[bytes] = []
        for part in range(parts):
            low, high = part * len(batch) // parts, (part + 1) * len(batch) // parts
            worker = Summariser(plan, label, "")
            with hops.hop("summarise"):
                for at in range(low, high, CHUNK_ROWS):
                    worker.summarise(batch.slice(at, min(CHUNK_ROWS, high - at)))
                whole = worker.shards[0].whole()
            if whole is not None:
                plain += len(whole.pack())
            with hops.hop("pack"):
                packed = worker.flush().column("payload").to_pylist()
            blobs += [blob for blob in packed if blob is not None]
        sent += sum(map(len, blobs))
        with hops.hop("unpack (part of take in)"):
            for blob in blobs:
                unpack_runs(blob, plan.first.groups())
        bucket = Bucket(plan, label, store)
        with hops.hop("take in, write the state, answer"):
            bucket.step(watermark, blobs)
            bucket.save(None)
        watermark = int(pa.compute.max(batch["ts"]).cast(pa.int64()).as_py())
    rows = table.num_rows
    return {
        "bytes a row, plain": plain / rows,
        "bytes a row": sent / rows,
        "state bytes written a row": store.written / rows,
        **{f"ns a row: {name}": seconds / rows * 1e9 for name, seconds in hops.seconds.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--parts", type=int, default=2)
    told = parser.parse_args()
    tables = {"count top-k": flows(told.rows), "fused top-k": reports(told.rows)}
    for name, table in tables.items():
        measured(queries()[name], table, told.parts)  # compiles
        found = measured(queries()[name], table, told.parts)
        print(f"\n{name}, {told.rows:,} rows")
        for what, value in found.items():
            print(f"  {what:45} {np.round(value, 2)}")


if __name__ == "__main__":
    main()
