"""Reads the body of a request into a table: JSON lines, CSV, or an Arrow stream.

JSON lines and CSV are read by Arrow in one go. If that fails, they are read again line by line,
which is slow but says which line is at fault; both ways accept the same values.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from decimal import InvalidOperation
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.embedded.sources import sound
from skyband.serve.arrow_bodies import read_arrow
from skyband.serve.limits import Limits, TooLarge, Unreadable, check_size, shortened
from skyband.serve.values import Said, csv_value, json_value

__all__ = ["CONTENT_TYPES", "TooLarge", "Unreadable", "read_body"]

CONTENT_TYPES = {
    "application/x-ndjson": "json",
    "application/ndjson": "json",
    "application/jsonl": "json",
    "text/csv": "csv",
    "application/vnd.apache.arrow.stream": "arrow",
}
"""What a request may contain. None of them can be sent by a page of another site unasked."""
_HEXADECIMAL = re.compile(rb"[,\s\"]0[xX]")
_SHOWN = 60
"""Characters of a value that a message shows."""
_MOST_VALUES = 1_000_000
"""Values in one line of JSON or one record of CSV that is read by itself."""
_ROWS_AT_ONCE = 1 << 16
"""Rows that are held as Python's values."""


def read_body(kind: str, body: bytes, schema: pa.Schema, limits: Limits | None = None) -> pa.Table:
    r"""The rows of a body, with exactly the columns of the schema.

    Raises TooLarge before it builds what would be beyond the limits.

    >>> schema = pa.schema([("id", pa.string()), ("n", pa.int64())])
    >>> read_body("json", b'{"id": "a", "n": 1}\n{"id": "b"}\n', schema).to_pylist()
    [{'id': 'a', 'n': 1}, {'id': 'b', 'n': None}]
    """
    if kind == "arrow":
        return read_arrow(body, schema, limits)
    if b"\0" in body:
        raise Unreadable("the text contains a NUL character")
    lines = body.count(b"\n") + 1
    if kind == "csv":
        lines += body.count(b"\r") - body.count(b"\r\n") - 1  # the first one is the header
    check_size(limits, schema, lines)
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
    return _table(_json_rows(body, schema), schema)


def _json_rows(body: bytes, schema: pa.Schema) -> Iterator[list[Any]]:
    rows = 0
    for number, line in enumerate(io.BytesIO(body), start=1):
        text = line.strip()
        if not text:
            continue
        where = rows, number
        if sum(map(text.count, (b",", b"[", b"{"))) > _MOST_VALUES:
            raise Unreadable(f"has more than {_MOST_VALUES:,} values", *where)
        try:
            found = json.loads(text.decode("utf-8"), object_pairs_hook=_once)
        except (ValueError, RecursionError) as problem:
            said = "is not UTF-8 text" if isinstance(problem, UnicodeDecodeError) else None
            raise Unreadable(said or f"is not JSON: {problem}", *where) from None
        if not isinstance(found, dict):
            raise Unreadable("is not a JSON object", *where)
        yield _values(found, schema, where, json_value)
        rows += 1


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
            reason = f"{shortened(repr(value), 60)} is not of type {each.type}"
            if isinstance(problem, Said):
                reason = f"{reason}: {problem}"
            raise Unreadable(reason, *where, column=each.name) from None
    return row


def _table(rows: Iterator[list[Any]], schema: pa.Schema) -> pa.Table:
    tables = [schema.empty_table()]
    while some := list(islice(rows, _ROWS_AT_ONCE)):
        columns = zip(zip(*some, strict=True), schema.types, strict=True)
        arrays = [pa.array(list(values), kind) for values, kind in columns]
        tables.append(pa.table(arrays, schema=schema))
    return pa.concat_tables(tables)


# CSV ----------------------------------------------------------------------------------------------


_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")


def _read_csv(body: bytes, schema: pa.Schema) -> pa.Table:
    body = body.removeprefix(b"\xef\xbb\xbf")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = body[: problem.start].count(b"\n") + 1
        raise Unreadable("is not UTF-8 text", line=line) from None
    header, _ = next(_csv_records(text), ([], 0))
    if not header:
        raise Unreadable("has no header line with the names of the columns", line=1)
    for name in schema.names:
        if header.count(name) != 1:
            what = "is missing in" if name not in header else "appears twice in"
            names = shortened(", ".join(header))
            reason = f"column {name!r} {what} the header, which has {names}"
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
    if any(map(pa.types.is_integer, schema.types)) and _HEXADECIMAL.search(body):
        return None  # Arrow reads 0x10 as 16
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
    return _table(_csv_rows(text, header, schema), schema)


def _csv_rows(text: str, header: list[str], schema: pa.Schema) -> Iterator[list[Any]]:
    records = enumerate(_csv_records(text), start=-1)
    next(records)  # the header
    for row, (cells, line) in records:
        if len(cells) != len(header):
            reason = f"has {len(cells)} values, and the header names {len(header)} columns"
            raise Unreadable(reason, row, line)
        found = {name: cell or None for name, cell in zip(header, cells, strict=True)}
        yield _values(found, schema, (row, line), csv_value)


def _csv_records(text: str) -> Iterator[tuple[list[str], int]]:
    """The records, without empty ones, and the line in which each ends."""
    commas, rows = 0, -1

    def lines() -> Iterator[str]:
        nonlocal commas
        for line in _LINE.finditer(text):
            commas += line[0].count(",")
            if commas > _MOST_VALUES:
                raise csv.Error(f"a record has more than {_MOST_VALUES:,} values")
            yield line[0]

    reader = csv.reader(lines(), strict=True)
    try:
        for cells in reader:
            commas = 0
            if cells:
                yield cells, reader.line_num
                rows += 1
    except csv.Error as problem:
        row = rows if rows >= 0 else None
        raise Unreadable(f"is not CSV: {problem}", row, reader.line_num) from None
