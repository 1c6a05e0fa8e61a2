"""How many shards the state of a query needs: one, until its summaries are too much for one key.

    bytes of summaries per batch    one key takes in 20 MB within a second or so
    score top-k    20 M rows  3 kB  ─► 1 shard
    exact counts   60 M rows 84 MB  ─► 5 shards
    fused top-k    4 M rows  29 MB  ─► 2 shards, but no more than cores on one machine

The bytes are an estimate from some rows of the first batch. The number becomes part of the state,
so a checkpoint keeps the number that it was started with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from skyband.engine.intake import Intake
from skyband.engine.per_group import make_synopsis
from skyband.errors import SkybandError
from skyband.query.base import Query
from skyband.spark.plan import BoardPlan, QueryPlan, buckets_of
from skyband.spark.summarise import Summariser

KEY_BYTES = 20_000_000
"""Bytes of summaries that one state key takes in within a second or so."""
_MOST = 64
"""More shards than this have to be asked for."""


@dataclass(frozen=True)
class FirstRows:
    """What is known of a source's first batch: some of its rows, and how many there are."""

    some: pa.Table
    rows: int


@dataclass(frozen=True)
class ShardChoice:
    """A number of shards, and why it was chosen."""

    shards: int
    why: str


def choose_shards(summaries: float, buckets: int, cores: int | None = None) -> ShardChoice:
    """The number of shards for so many bytes of summaries per batch.

    ``buckets`` are the state keys that groups are spread over anyway. ``cores`` are those of a
    single machine, where further shards would only take turns; None for a cluster.

    >>> choose_shards(3_000, buckets=1).shards
    1
    >>> choose_shards(84_000_000, buckets=1)
    ShardChoice(shards=5, why='about 84 MB of summaries in the first batch, 20 MB per state key')
    >>> choose_shards(84_000_000, buckets=16).shards
    1
    >>> choose_shards(720_000_000, buckets=1, cores=4).why
    'about 720 MB of summaries in the first batch, 20 MB per state key, at most one per core'
    """
    needed = max(1, math.ceil(summaries / (KEY_BYTES * buckets)))
    most = min(_MOST, cores or _MOST)
    why = f"about {megabytes(summaries)} of summaries in the first batch"
    if needed > 1:
        why += f", {megabytes(KEY_BYTES)} per state key"
    if needed > most:
        why += ", at most one per core" if most == cores else f", at most {_MOST}"
    return ShardChoice(min(needed, most), why)


def looked_split(
    queries: Sequence[Query],
    looks: Mapping[str, Callable[[], FirstRows | str]],
    cores: Callable[[], int | None],
) -> ShardChoice:
    """As ``split_of``; each look gives the first rows of a source, or why there are none."""
    first = {}
    for name, look in looks.items():
        try:
            rows = look()
        except Exception:  # noqa: BLE001 - reading the rows will say what is wrong
            rows = "the first rows could not be read"
        if isinstance(rows, str):
            return ShardChoice(1, rows)
        first[name] = rows
    return split_of(queries, first, cores())


def split_of(
    queries: Sequence[Query], first: Mapping[str, FirstRows], cores: int | None = None
) -> ShardChoice:
    """The number of shards for queries that share a read: what the most demanding one needs."""
    if not any(each.rows for each in first.values()):
        return ShardChoice(1, "there are no rows to look at yet")
    found = []
    for query in queries:
        try:
            summaries = summary_bytes(query, first)
        except (SkybandError, pa.ArrowException) as problem:
            return ShardChoice(1, f"the first rows could not be summarised: {problem}")
        found.append(choose_shards(summaries, buckets_of(query), cores))
    return max(found, key=lambda each: each.shards)


def summary_bytes(query: Query, first: Mapping[str, FirstRows]) -> float:
    """Bytes of the summaries of a first batch, from those of some of its rows."""
    schemas = {name: each.some.schema for name, each in first.items()}
    intake = Intake(query, make_synopsis(query))
    for name, schema in schemas.items():
        intake.bind(name, schema)
    bound = {name: schema.remove_metadata() for name, schema in intake.bound.items()}
    board = BoardPlan({"": QueryPlan(query, bound, 1, "skip", False, streaming=True)}, alone=True)
    (label,) = board.labels
    total = 0.0
    for source, each in first.items():
        if each.some.num_rows:
            worker = Summariser(board, label, source)
            worker.summarise(each.some)
            packed = worker.flush().column("payload")
            size = sum(len(blob.as_buffer()) for blob in packed if blob.is_valid)
            total += size * each.rows / each.some.num_rows
    return total


def megabytes(value: float) -> str:
    """A number of bytes, roughly.

    >>> megabytes(84_123_456), megabytes(12)
    ('84 MB', '1 MB or less')
    """
    return f"{value / 1e6:,.0f} MB" if value >= 1e6 else "1 MB or less"
