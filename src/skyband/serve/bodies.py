"""Reads the body of a request into a table: JSON lines, CSV, or an Arrow stream.

JSON lines and CSV are read by Arrow in one go. If that fails, they are read again line by line,
which is slow but says which line is at fault; both ways accept the same values.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from decimal import InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.data.ipc import table_from
from skyband.embedded.sources import sound
from skyband.serve.values import Said, csv_value, json_value

__all__ = ["CONTENT_TYPES", "Unreadable", "read_body", "same_columns"]

CONTENT_TYPES = {
    "application/x-ndjson": "json",
    "application/ndjson": "json",
    "application/jsonl": "json",
    "text/csv": "csv",
    "application/vnd.apache.arrow.stream": "arrow",
}
"""What a request may contain. None of them can be sent by a page of another site unasked."""
_SHOWN = 60
"""Characters of a value that a message shows."""


class Unreadable(Exception):  # noqa: N818  (a finding about a request, not a failure of ours)
    """A body that cannot be read: where, and why. ``row`` counts from 0, ``line`` from 1."""

    def __init__(
        self,
        reason: str,
        row: int | None = None,
        line: int | None = None,
        column: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason, self.row, self.line, self.column = reason, row, line, column


def read_body(kind: str, body: bytes, schema: pa.Schema) -> pa.Table:
    r"""The rows of a body, with exactly the columns of the schema.

    >>> schema = pa.schema([("id", pa.string()), ("n", pa.int64())])
    >>> read_body("json", b'{"id": "a", "n": 1}\n{"id": "b"}\n', schema).to_pylist()
    [{'id': 'a', 'n': 1}, {'id': 'b', 'n': None}]
    """
    if kind == "arrow":
        return _read_arrow(body, schema)
    if b"\0" in body:
        raise Unreadable("the text contains a NUL character")
    return _read_json(body, schema) if kind == "json" else _read_csv(body, schema)


# JSON lines ---------------------------------------------------------------------------------------


def _read_json(body: bytes, schema: pa.Schema) -> pa.Table:
    table = _json_at_once(body, schema)
    return table if table is not None else _json_by_line(body, schema)


def _json_at_once(body: bytes, schema: pa.Schema) -> pa.Table | None:
    """Read by Arrow; None where only a look at each line can tell what is right."""
    from pyarrow import json as arrow_json

    lines = _records(body)
    if not lines or any(pa.types.is_binary(kind) for kind in schema.types):
        return None
    plain = [
        (each.name, pa.string() if pa.types.is_date(each.type) else each.type) for each in schema
    ]
    options = arrow_json.ParseOptions(
        explicit_schema=pa.schema(plain), unexpected_field_behavior="ignore"
    )
    reading = arrow_json.ReadOptions(block_size=max(1 << 20, min(len(body) + 1, 1 << 24)))
    try:
        table = arrow_json.read_json(
            pa.BufferReader(body), parse_options=options, read_options=reading
        )
        table = table.select(schema.names).cast(schema)
        sound(table)
    except (pa.ArrowException, UnicodeDecodeError, KeyError, ValueError):
        return None
    return table if table.num_rows == lines else None


def _records(body: bytes) -> int:
    """The number of lines, if each is one ``{...}`` without blanks around it; 0 otherwise."""
    octets = np.frombuffer(body, np.uint8)
    if not len(octets):
        return 0
    breaks = np.flatnonzero(octets == ord("\n"))
    ends = (
        breaks if len(breaks) and breaks[-1] == len(octets) - 1 else np.append(breaks, len(octets))
    )
    starts = np.append(0, ends[:-1] + 1)
    last = ends - 1
    last = last - (octets[np.maximum(last, 0)] == ord("\r"))
    if (last <= starts).any():
        return 0
    braces = (octets[starts] == ord("{")) & (octets[last] == ord("}"))
    return len(ends) if braces.all() else 0


def _json_by_line(body: bytes, schema: pa.Schema) -> pa.Table:
    rows: list[list[Any]] = []
    for number, line in enumerate(body.split(b"\n"), start=1):
        text = line.strip()
        if not text:
            continue
        where = len(rows), number
        try:
            found = json.loads(text.decode("utf-8"), object_pairs_hook=_once)
        except (ValueError, RecursionError) as problem:
            said = "is not UTF-8 text" if isinstance(problem, UnicodeDecodeError) else None
            raise Unreadable(said or f"is not JSON: {problem}", *where) from None
        if not isinstance(found, dict):
            raise Unreadable("is not a JSON object", *where)
        rows.append(_values(found, schema, where, json_value))
    return _table(rows, schema)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name appears twice in one object")
    return found


def _values(
    found: dict[str, Any],
    schema: pa.Schema,
    where: tuple[int, int],
    read: Callable[[Any, pa.DataType], Any],
) -> list[Any]:
    row = []
    for each in schema:
        value = found.get(each.name)
        try:
            row.append(None if value is None else read(value, each.type))
        except (ValueError, TypeError, OverflowError, InvalidOperation) as problem:
            shown = repr(value) if len(repr(value)) <= _SHOWN else repr(value)[:_SHOWN] + "…"
            reason = f"{shown} is not of type {each.type}"
            if isinstance(problem, Said):
                reason = f"{reason}: {problem}"
            raise Unreadable(reason, *where, column=each.name) from None
    return row


def _table(rows: list[list[Any]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [
        pa.array(list(values), kind) for values, kind in zip(columns, schema.types, strict=True)
    ]
    return pa.table(arrays, schema=schema)


# CSV ----------------------------------------------------------------------------------------------


def _read_csv(body: bytes, schema: pa.Schema) -> pa.Table:
    body = body.removeprefix(b"\xef\xbb\xbf")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = body[: problem.start].count(b"\n") + 1
        raise Unreadable("is not UTF-8 text", line=line) from None
    header = next(csv.reader(io.StringIO(text, newline="")), None)
    if not header:
        raise Unreadable("has no header line with the names of the columns", line=1)
    for name in schema.names:
        if header.count(name) != 1:
            what = "is missing in" if name not in header else "appears twice in"
            reason = f"column {name!r} {what} the header, which has {', '.join(header)}"
            raise Unreadable(reason, line=1, column=name)
    table = _csv_at_once(body, schema)
    return table if table is not None else _csv_by_line(text, header, schema)


def _csv_at_once(body: bytes, schema: pa.Schema) -> pa.Table | None:
    from pyarrow import csv as arrow_csv

    # Times without a zone count as UTC, which Arrow's reader refuses, so they are read as text.
    plain = {
        each.name: pa.string() if pa.types.is_temporal(each.type) else each.type for each in schema
    }
    if any(pa.types.is_binary(kind) or pa.types.is_boolean(kind) for kind in schema.types):
        return None
    converting = arrow_csv.ConvertOptions(
        column_types=plain,
        include_columns=schema.names,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
    )
    parsing = arrow_csv.ParseOptions(newlines_in_values=True)
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(body), parse_options=parsing, convert_options=converting
        )
        columns = [_moments(table[each.name], each.type) for each in schema]
    except pa.ArrowException:
        return None
    return pa.table(columns, schema=schema)


def _moments(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A column of text as times; raises ArrowInvalid for what only the slow way can read."""
    if not pa.types.is_timestamp(kind) or kind.tz is None:
        return column.cast(kind)
    try:
        return column.cast(kind)  # all of them name a zone
    except pa.ArrowException:
        return column.cast(pa.timestamp("us")).cast(kind)  # none of them does


def _csv_by_line(text: str, header: list[str], schema: pa.Schema) -> pa.Table:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[list[Any]] = []
    next(reader)
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as problem:
            raise Unreadable(f"is not CSV: {problem}", len(rows), reader.line_num) from None
        if cells is None:
            return _table(rows, schema)
        if not cells:
            continue
        where = len(rows), reader.line_num
        if len(cells) != len(header):
            reason = f"has {len(cells)} values, and the header names {len(header)} columns"
            raise Unreadable(reason, *where)
        found = {name: cell or None for name, cell in zip(header, cells, strict=True)}
        rows.append(_values(found, schema, where, csv_value))


# Arrow --------------------------------------------------------------------------------------------


def _read_arrow(body: bytes, schema: pa.Schema) -> pa.Table:
    try:
        table = sound(table_from(body))
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise Unreadable(f"the body is not an Arrow stream: {problem}") from None
    columns = []
    for each in schema:
        if len(table.schema.get_all_field_indices(each.name)) != 1:
            there = ", ".join(table.schema.names)
            reason = f"column {each.name!r} is missing or appears twice; the columns are {there}"
            raise Unreadable(reason, column=each.name)
        column = table[each.name]
        try:
            columns.append(column if column.type == each.type else _cast(column, each.type))
        except (pa.ArrowException, NotImplementedError) as problem:
            reason = (
                f"column {each.name!r} of type {column.type} cannot become {each.type}: {problem}"
            )
            raise Unreadable(reason, column=each.name) from None
    return pa.table(columns, schema=schema)


def same_columns(body: bytes, schema: pa.Schema) -> bool:
    """Whether an Arrow stream has exactly these columns, in any order."""
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        found = {each.name: each.type for each in reader.schema}
        return len(reader.schema) == len(found) and found == dict(
            zip(schema.names, schema.types, strict=True)
        )


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_floating(column.type) and pa.types.is_integer(kind):
        raise pa.ArrowInvalid("numbers with fractions are not whole numbers")
    return column.cast(kind)
