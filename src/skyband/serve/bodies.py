"""Reads the body of a request into a table: JSON, lines of it, CSV, or an Arrow stream.

JSON lines and CSV are read by Arrow in one go. If that fails, they are read again line by line,
which is slow but says which line is at fault; both ways accept the same values.
"""

from __future__ import annotations

import base64
import binascii
import csv
import io
import json
import math
import re
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.text_types import typed
from skyband.embedded.text_files import sound
from skyband.serve.limits import DEFAULT, ServiceLimits, UnreadableBody, check_size, shortened

# Reads single values of JSON and CSV as the types of columns -------------------------------------


class ValueProblem(ValueError):  # noqa: N818
    """A problem with a value whose text helps the reader."""


def json_value(value: Any, kind: pa.DataType) -> Any:
    """A JSON value as one of the column's type; raises ValueError or TypeError if it is not."""
    if pa.types.is_boolean(kind):
        return _only(value, bool)
    if isinstance(value, bool):
        raise TypeError
    if pa.types.is_integer(kind):
        return _whole(_only(value, int), kind)
    if pa.types.is_floating(kind):
        return _float(float(_only(value, (int, float))), kind)
    if pa.types.is_decimal(kind):
        return _decimal(str(_only(value, (int, float, str))), kind)
    text = _only(value, str)
    text.encode()  # lone surrogates
    return _text_value(text, kind)


def csv_value(text: str, kind: pa.DataType) -> Any:
    """A cell as a value of the column's type; raises ValueError if it is not."""
    if pa.types.is_boolean(kind):
        known = {"true": True, "false": False, "1": True, "0": False}
        if text.lower() not in known:
            raise ValueError
        return known[text.lower()]
    if pa.types.is_integer(kind):
        return _whole(int(text), kind)
    if pa.types.is_floating(kind):
        return _float(float(text), kind)
    return _decimal(text, kind) if pa.types.is_decimal(kind) else _text_value(text, kind)


def _text_value(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_string(kind):
        return text
    if pa.types.is_binary(kind):
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            raise ValueProblem("binary columns are written in base64") from None
    if pa.types.is_date(kind):
        return date.fromisoformat(text)
    moment = datetime.fromisoformat(text)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment if kind.tz is not None else moment.replace(tzinfo=None)


def _only(value: Any, kinds: Any) -> Any:
    if not isinstance(value, kinds):
        raise TypeError
    return value


def _whole(value: int, kind: pa.DataType) -> int:
    if not -(1 << kind.bit_width - 1) <= value < 1 << kind.bit_width - 1:
        raise ValueProblem("it is out of range")
    return value


def _float(value: float, kind: pa.DataType) -> float:
    return float(np.float32(value)) if kind.bit_width == 32 and math.isfinite(value) else value


def _decimal(text: str, kind: pa.DataType) -> Decimal:
    value = Decimal(text)
    pa.array([value], kind)
    return value


CONTENT_TYPES = {
    "application/x-ndjson": "json",
    "application/ndjson": "json",
    "application/jsonl": "json",
    "application/json": "document",
    "text/csv": "csv",
    "application/vnd.apache.arrow.stream": "arrow",
}
"""What a request may contain. None of them can be sent by a page of another site unasked."""
_HEXADECIMAL = re.compile(rb"[,\s\"]0[xX]")
_MOST_VALUES = 1_000_000
"""Values in one line of JSON or one record of CSV that is read by itself."""
_ROWS_AT_ONCE = 1 << 16
"""Rows that are held as Python's values."""


def read_body(
    kind: str, body: bytes, schema: pa.Schema, limits: ServiceLimits = DEFAULT
) -> pa.Table:
    r"""The rows of a body, with exactly the columns of the schema.

    Raises TooLarge before it builds what would be beyond the limits.

    >>> schema = pa.schema([("id", pa.string()), ("n", pa.int64())])
    >>> read_body("json", b'{"id": "a", "n": 1}\n{"id": "b"}\n', schema).to_pylist()
    [{'id': 'a', 'n': 1}, {'id': 'b', 'n': None}]
    """
    if kind == "arrow":
        return _read_arrow(body, schema, limits)
    if b"\0" in body:
        raise UnreadableBody("the text contains a NUL character")
    if kind == "document":
        return _read_document(body, schema, limits)
    lines = body.count(b"\n") + 1
    if kind == "csv":
        lines += body.count(b"\r") - body.count(b"\r\n") - 1  # the first one is the header
    check_size(limits, schema, lines)
    return _read_json(body, schema) if kind == "json" else _read_csv(body, schema)


# JSON lines ---------------------------------------------------------------------------------------


def _read_json(body: bytes, schema: pa.Schema) -> pa.Table:
    table = _json_at_once(body, schema)
    return table if table is not None else _table(_json_rows(body, schema), schema)


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


def _json_rows(body: bytes, schema: pa.Schema) -> Iterator[list[Any]]:
    rows = 0
    for number, line in enumerate(io.BytesIO(body), start=1):
        text = line.strip()
        if not text:
            continue
        where = rows, number
        if sum(map(text.count, (b",", b"[", b"{"))) > _MOST_VALUES:
            raise UnreadableBody(f"has more than {_MOST_VALUES:,} values", *where)
        try:
            record = json.loads(text.decode("utf-8"), object_pairs_hook=_once)
        except (ValueError, RecursionError) as problem:
            said = "is not UTF-8 text" if isinstance(problem, UnicodeDecodeError) else None
            raise UnreadableBody(said or f"is not JSON: {problem}", *where) from None
        if not isinstance(record, dict):
            raise UnreadableBody("is not a JSON object", *where)
        yield _values(record, schema, where, json_value)
        rows += 1


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a name appears twice in one object")
    return record


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
            if isinstance(problem, ValueProblem):
                reason = f"{reason}: {problem}"
            raise UnreadableBody(reason, *where, column=each.name) from None
    return row


def _table(rows: Iterator[list[Any]], schema: pa.Schema) -> pa.Table:
    tables = [schema.empty_table()]
    while some := list(islice(rows, _ROWS_AT_ONCE)):
        columns = zip(zip(*some, strict=True), schema.types, strict=True)
        arrays = [pa.array(list(values), kind) for values, kind in columns]
        tables.append(pa.table(arrays, schema=schema))
    return pa.concat_tables(tables)


# A JSON document: an object, or a list of objects, which become lines -----------------------------

_STEP = 1 << 22
"""Bytes of a document that are looked at together."""
_NESTS = np.zeros(256, np.int8)
_NESTS[list(b"[{")], _NESTS[list(b"]}")] = 1, -1
_BLANK = np.isin(np.arange(256), list(b" \t\r\n"))


def _read_document(body: bytes, schema: pa.Schema, limits: ServiceLimits) -> pa.Table:
    body = body.strip(b" \t\r\n")
    alone = body.startswith(b"{")
    lines = _lines_of(body if not alone else b"[" + body + b"]")
    if lines is None or (alone and b"\n" in lines):
        raise UnreadableBody("the body is not JSON: send one object, or a list of objects")
    check_size(limits, schema, lines.count(b"\n") + 1)
    try:
        return _read_json(lines, schema)
    except UnreadableBody as problem:
        raise UnreadableBody(problem.reason, problem.row, None, problem.column) from None


def _lines_of(body: bytes) -> bytes | None:
    """A JSON list with each of its values on one line; None if its brackets or commas are wrong."""
    if not (body.startswith(b"[") and body.endswith(b"]")):
        return None
    marks = body.replace(b"\\\\", b"__").replace(b'\\"', b"__")  # of the same length
    pieces, depth, quoted = list[bytes](), 0, False
    for start in range(0, len(body), _STEP):
        octets = np.frombuffer(marks, np.uint8, min(_STEP, len(body) - start), start)
        text = np.frombuffer(body, np.uint8, len(octets), start).copy()
        inside = np.bitwise_xor.accumulate(octets == ord('"')) ^ quoted
        plain = ~inside
        depths = depth + np.cumsum(_NESTS[octets] * plain, dtype=np.int32)
        ended = depths[: max(len(body) - 1 - start, 0)] == 0
        blanks = plain & _BLANK[octets]
        if ended.any() or (inside & (octets == ord("\n"))).any():
            return None
        text[blanks] = ord(" ")
        text[plain & (depths == 1) & (octets == ord(","))] = ord("\n")
        between = blanks & (depths == 1)
        between[0] |= not start
        pieces.append(text[~between].tobytes())
        depth, quoted = int(depths[-1]), bool(inside[-1])
    lines = b"".join(pieces)[:-1]
    empty = lines.startswith(b"\n") or lines.endswith(b"\n") or b"\n\n" in lines
    return None if depth or empty else lines


# CSV ----------------------------------------------------------------------------------------------


_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")


def _read_csv(body: bytes, schema: pa.Schema) -> pa.Table:
    body = body.removeprefix(b"\xef\xbb\xbf")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = body[: problem.start].count(b"\n") + 1
        raise UnreadableBody("is not UTF-8 text", line=line) from None
    header, _ = next(_csv_records(text), ([], 0))
    if not header:
        raise UnreadableBody("has no header line with the names of the columns", line=1)
    for name in schema.names:
        if header.count(name) != 1:
            what = "is missing in" if name not in header else "appears twice in"
            names = shortened(", ".join(header))
            reason = f"column {name!r} {what} the header, which has {names}"
            raise UnreadableBody(reason, line=1, column=name)
    table = _csv_at_once(body, schema)
    return table if table is not None else _table(_csv_rows(text, header, schema), schema)


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
        columns = []
        for each in schema:
            column, wrong = typed(table[each.name].combine_chunks(), each.type)
            if wrong.any():
                return None
            columns.append(column)
    except pa.ArrowException:
        return None
    return pa.table(columns, schema=schema)


def _csv_rows(text: str, header: list[str], schema: pa.Schema) -> Iterator[list[Any]]:
    records = enumerate(_csv_records(text), start=-1)
    next(records)  # the header
    for row, (cells, line) in records:
        if len(cells) != len(header):
            reason = f"has {len(cells)} values, and the header names {len(header)} columns"
            raise UnreadableBody(reason, row, line)
        record = {name: cell or None for name, cell in zip(header, cells, strict=True)}
        yield _values(record, schema, (row, line), csv_value)


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
        raise UnreadableBody(f"is not CSV: {problem}", row, reader.line_num) from None


# Reads the body of a request that is an Arrow stream, and measures it before that ----------------
#
# Few bytes of Arrow can say a lot: columns of nulls have none at all, a compressed buffer may grow
# a thousandfold, and many rows can refer to one text. So the head of each message is read first. It
# has the number of rows and the place of each buffer, and a compressed buffer begins with the size
# that it will have.


_SCHEMA_BYTES = 1 << 20
"""Bytes of the head that names the columns: one may be named many times in it."""
_BATCH_BYTES = 2 << 10
"""What a batch costs besides its rows."""
_SMALL = (pa.types.is_primitive, pa.types.is_decimal, pa.types.is_null)
_V5 = 4
"""The number of the format's fifth version."""


def _read_arrow(body: Any, schema: pa.Schema, limits: ServiceLimits) -> pa.Table:
    """The rows of an Arrow stream, with exactly these columns."""
    buffer = pa.py_buffer(body)
    try:
        check_size(limits, schema, *_measure(buffer))
        with pa.ipc.open_stream(buffer) as reader:
            there = reader.schema
        for name in there.names:  # reading the names decodes them
            name.encode()
    except (pa.ArrowException, OSError, ValueError, IndexError, struct.error) as problem:
        raise _no_stream(problem) from None
    for each in schema:
        if len(there.get_all_field_indices(each.name)) != 1:
            names = shortened(", ".join(there.names))
            reason = f"column {each.name!r} is missing or appears twice; the columns are {names}"
            raise UnreadableBody(reason, column=each.name)
        if not _flat(there.field(each.name).type):
            raise _not_of(each, there.field(each.name).type, "it is not one value per row")
    wanted = [there.get_field_index(name) for name in schema.names]
    options = pa.ipc.IpcReadOptions(included_fields=wanted)
    try:
        with pa.ipc.open_stream(buffer, options=options) as reader:
            table = sound(reader.read_all())
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise _no_stream(problem) from None
    columns, text = [], 0
    for each in schema:
        column = table[each.name]
        try:
            text += _text_bytes(column)
            check_size(limits, schema, table.num_rows, text)
            columns.append(column if column.type == each.type else _cast(column, each.type))
        except (pa.ArrowException, NotImplementedError) as problem:
            raise _not_of(each, column.type, problem) from None
    return pa.table(columns, schema=schema)


def _no_stream(problem: Exception) -> UnreadableBody:
    return UnreadableBody(f"the body is not an Arrow stream: {shortened(str(problem))}")


def _not_of(field: pa.Field, kind: pa.DataType, problem: Any) -> UnreadableBody:
    there, why = shortened(str(kind)), shortened(str(problem))
    reason = f"column {field.name!r} of type {there} cannot become {field.type}: {why}"
    return UnreadableBody(reason, column=field.name)


def _flat(kind: pa.DataType) -> bool:
    """Whether a type has one value per row, so that rows bound what a column can become."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        return _flat(kind.value_type)
    return not (pa.types.is_nested(kind) or pa.types.is_run_end_encoded(kind))


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_floating(column.type) and pa.types.is_integer(kind):
        raise pa.ArrowInvalid("numbers with fractions are not whole numbers")
    return column.cast(kind)


def _text_bytes(column: pa.ChunkedArray) -> int:
    """Bytes of the text that rows refer to, which may be the same for many of them."""
    size, kind = 0, column.type
    views = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    coded = pa.types.is_dictionary(kind) and not _is_small(kind.value_type)
    for chunk in column.chunks if views or coded else ():
        if coded:
            size += pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0
        elif len(chunk):
            first, last = 4 * chunk.offset, 4 * (chunk.offset + len(chunk))
            words = np.frombuffer(chunk.buffers()[1], np.int32, last)
            size += int(words[first::4].sum(dtype=np.int64))  # a view begins with its length
    return size


def _is_small(kind: pa.DataType) -> bool:
    """Whether a value has no more bytes than the number of rows accounts for."""
    return any(test(kind) for test in _SMALL)


# Heads: flatbuffers, of which only what is needed is read -----------------------------------------


def _measure(stream: pa.Buffer) -> tuple[int, int]:
    """How many rows a stream has, and how many bytes its buffers take once they are read."""
    rows = size = dictionaries = 0
    for message in pa.ipc.MessageReader.open_stream(stream):
        head = message.metadata
        if message.type == "schema":
            if head.size > _SCHEMA_BYTES:
                raise ValueError("it names too many columns")
            continue
        count, decoded = _batch(message, head)
        if message.type == "dictionary":
            dictionaries += decoded
            continue
        rows += count
        size += decoded + dictionaries + _BATCH_BYTES  # each batch looks at its dictionaries
    return rows, size + dictionaries


def _batch(message: Any, head: pa.Buffer) -> tuple[int, int]:
    """The rows of a batch or a dictionary, and the bytes of its buffers once they are read."""
    root = _follow(head, 0)
    if message.metadata_version < _V5 and _field(head, root, 4):
        raise ValueError("its messages have metadata of their own, as before Arrow 1.0")
    batch = _follow(head, _field(head, root, 2))
    if message.type == "dictionary":
        batch = _follow(head, _field(head, batch, 1))
    at = _field(head, batch, 0)
    rows = struct.unpack_from("<q", head, at)[0] if at else 0
    at = _field(head, batch, 2)
    if not at:
        return rows, 0
    at = _follow(head, at)
    (count,) = struct.unpack_from("<I", head, at)
    buffers = np.frombuffer(head, "<i8", 2 * count, at + 4).reshape(-1, 2)
    sizes = buffers[:, 1]
    if _field(head, batch, 3):  # each that is not empty begins with its size, or with -1
        begins = buffers[sizes > 0, :1] + np.arange(8)
        stated = np.frombuffer(message.body, np.uint8)[begins].copy().view("<i8")[:, 0]
        sizes = np.where(stated == -1, sizes[sizes > 0], stated)
    if rows < 0 or (sizes < 0).any():
        raise ValueError("a size in it is less than 0")
    return rows, sum(sizes.tolist())  # of Python's integers, which do not overflow


def _follow(head: pa.Buffer, at: int) -> int:
    """The place that an offset leads to."""
    return at + int(struct.unpack_from("<I", head, at)[0])


def _field(head: pa.Buffer, table: int, number: int) -> int:
    """The place of a field in a table; 0 if the table does not have it."""
    fields = table - struct.unpack_from("<i", head, table)[0]
    (size,) = struct.unpack_from("<H", head, fields)
    if 4 + 2 * number >= size:
        return 0
    (offset,) = struct.unpack_from("<H", head, fields + 4 + 2 * number)
    return table + offset if offset else 0
