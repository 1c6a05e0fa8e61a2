"""Queries and pushes of the shared suites, moved to times that Spark can stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import oracle
import skyband as sb
from support import conformance, sending, streams


def settings_of(kind: str, name: str, number: int) -> dict[str, Any]:
    chosen = {"algorithm": name, "options": conformance.OPTIONS.get(name, {})}
    return conformance.SETTINGS[kind][number] | chosen | conformance.NEEDED.get(name, {})


def modern(table: pa.Table) -> pa.Table:
    """Shift the table to after 1970, with one tick per millisecond, so that Spark can stream it."""
    at = table.schema.get_field_index("ts")
    kind = table.schema.field(at).type
    ticks = pc.add(table["ts"].cast(pa.int64()), 1_000)
    if pa.types.is_timestamp(kind):
        ticks = pc.multiply(ticks, 1_000).cast(kind)
    return table.set_column(at, "ts", ticks)


def window_of(window: oracle.TimeWindow, table: pa.Table) -> sb.TimeWindow:
    names = ("size", "slide", "lateness", "offset", "revise")
    given = {name: getattr(window, name) for name in names}
    if pa.types.is_timestamp(table.schema.field("ts").type):
        given = {n: v if v is None else f"{v} ms" for n, v in given.items()}
    return sb.TimeWindow(**given)


def pushes_of(stream: sending.Sent, chosen: Mapping[str, Any]) -> list[Any]:
    tables, _, _ = sending.sent(stream, chosen)
    return [
        {name: modern(table) for name, table in push.items()}
        if isinstance(push, Mapping)
        else modern(push)
        for push in tables
    ]


def query_of(
    kind: str, window: oracle.TimeWindow, chosen: Mapping[str, Any], stream: sending.Sent
) -> sb.Query:
    _, _, table = sending.sent(stream, chosen)
    query: sb.Query = getattr(sb, kind)(window=window_of(window, table), **chosen)
    return query


def ranked(table: pa.Table, query: sb.Query) -> list[dict[str, Any]]:
    """Rows sorted by window and group, otherwise in their original order."""
    names = ("window_end", *query.groups)
    rows = streams.rows_of(table)
    return sorted(rows, key=lambda row: [repr(row[name]).rjust(40) for name in names])


def topk(**given: Any) -> sb.TopK:
    window = sb.TimeWindow(10, slide=5)
    chosen: dict[str, Any] = {"k": 1, "score": "score", "id": "id", "time": "ts", "window": window}
    return sb.TopK(**(chosen | given))


def some_rows() -> pa.Table:
    return modern(streams.stream(3, 40).table)
