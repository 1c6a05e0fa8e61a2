"""How a stream is sent: its pushes as tables for an engine, and as rows for the oracle."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import oracle
from skyband.data.keys import hash_kept
from support import streams

Sent = streams.Stream | Mapping[str, streams.Stream]
"""One stream, or one per source."""


def sent(stream: Sent, settings: Mapping[str, Any]) -> tuple[list[Any], list[Any], pa.Table]:
    """The pushes of a stream as tables and as rows, and a table that shows its columns."""
    if isinstance(stream, Mapping):
        rows = pushes({name: each.row_batches for name, each in stream.items()})
        tables = pushes({name: each.batches for name, each in stream.items()})
        return tables, rows, next(iter(stream.values())).table
    if settings.get("stream", "") is None:
        return *stream.by_source("stream"), stream.table
    return stream.batches, marked(stream, settings.get("keep", ())).row_batches, stream.table


def marked(stream: streams.Stream, keep: Sequence[str]) -> streams.Stream:
    """The stream, its rows marked with the hash of their kept columns, as the oracle needs it."""
    if not keep or not stream.rows:
        return stream
    return dataclasses.replace(stream, rows=marked_rows(stream.rows, stream.table, keep))


def marked_rows(
    rows: Sequence[oracle.Row], table: pa.Table, keep: Sequence[str]
) -> list[oracle.Row]:
    """The rows of a table, marked with the hash of their kept columns."""
    if not keep or not rows:
        return list(rows)
    hashes = hash_kept([table[name] for name in keep]).tolist()
    return [row | {oracle.KEPT: each} for row, each in zip(rows, hashes, strict=True)]


def pushes(batches: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Pushes of several streams: alternately all streams in one push, and one after the other."""
    found: list[dict[str, Any]] = []
    for number in range(max(len(each) for each in batches.values())):
        turn = {name: each[number] for name, each in batches.items() if number < len(each)}
        found += [turn] if number % 2 else [{name: batch} for name, batch in turn.items()]
    return found
