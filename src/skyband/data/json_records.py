"""JSON records (from Kafka, sockets, files of JSON lines) as columns.

Arrow's JSON reader is fast, but it must be guarded. A block that begins with ``null`` crashes the
process, records that run into one another shift rows against records, and one bad record fails
a whole block:

    records ─► those that look like an object on one line ─► one block ─► as many rows as records?
       │                │ others                               no │             │ yes
       │ alike          ▼                                         ▼             ▼
       ▼           one by one  ◄── at most 256 records ─── each half       columns
    record_layout

Records that are written alike need no parser, see ``record_layout``; the others come this way.
Reading a record on its own gives what its block would have given, so a record does not depend on
its neighbours.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from skyband.arrays import Ints, Mask
from skyband.data.columns import mask_of
from skyband.data.record_layout import read_alike
from skyband.data.text_types import read_as, typed

ONE_BY_ONE = 256
"""A block of at most so many records that fails is read record by record."""
_SPECIAL = {
    "NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf,
    "INF": math.inf, "+INF": math.inf, "-INF": -math.inf,
}  # fmt: skip
"""Text that stands for a number, as Spark reads it too."""
_PIECE = 1 << 20
"""Bytes that a thread reads at a time, where several may read."""
_BREAK = r"[\r\n]"
_BLANK = b" \t\r\n"


class _BadError(ValueError):
    """A value does not fit its column."""


class _MinusZero(int):
    """The whole number -0, which is a zero with a sign in a column of floating-point numbers."""

    def __float__(self) -> float:
        return -0.0


def _whole(text: str) -> int:
    return _MinusZero() if text == "-0" else int(text)


def read_records(
    values: pa.Array, schema: pa.Schema, threads: bool = False
) -> tuple[pa.RecordBatch, Mask]:
    """The columns of records, and which records could not be read; their row is null.

    ``schema`` has types of ``text_types.TYPES``. Fields that it does not name are ignored, fields
    that a record lacks are null. Names are compared exactly. With ``threads`` all cores read.
    """
    kinds = pa.schema([(field.name, read_as(field.type)) for field in schema])
    raw = values.cast(pa.binary()) if values.type != pa.binary() else values
    alike, left = read_alike(raw, np.flatnonzero(mask_of(raw.is_valid())), kinds)
    parts: list[pa.Table] = [table for table, _ in alike]
    rows: list[Ints] = [of for _, of in alike]
    bad = np.zeros(len(raw), np.bool_)
    if alike and raw.null_count:
        left = np.sort(np.concatenate([left, np.flatnonzero(mask_of(raw.is_null()))]))
    if not alike:
        left = np.arange(len(raw))
    whole = _looks_whole(raw.take(pa.array(left)) if alike else raw)
    _blocks(raw, left[whole], kinds, threads, parts, rows, bad)
    _one_by_one(raw, left[~whole], kinds, parts, rows, bad)
    found = pa.concat_tables(parts) if parts else kinds.empty_table()
    if len(parts) > 1:
        found = found.take(pa.array(np.argsort(np.concatenate(rows), kind="stable")))
    columns = []
    for field in schema:
        column = found.column(field.name).combine_chunks()
        if column.type != field.type:
            column, wrong = typed(column, field.type)
            bad |= wrong
        columns.append(column)
    if bad.any():
        keep = pa.array(~bad)
        columns = [pc.if_else(keep, column, None) for column in columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema), bad


def _looks_whole(raw: pa.Array) -> Mask:
    """Whether each record begins with { and ends with } and is on one line."""
    if not len(raw):
        return np.zeros(0, np.bool_)
    plain = pc.and_(pc.starts_with(raw, b"{"), pc.ends_with(raw, b"}"))
    found = mask_of(pc.fill_null(plain, False)).copy()
    for row in np.flatnonzero(~found & mask_of(raw.is_valid())):
        text = raw[int(row)].as_py().strip(_BLANK)  # blanks around a record are rare
        found[row] = text.startswith(b"{") and text.endswith(b"}")
    if _has_break(raw):
        broken = pc.fill_null(pc.match_substring_regex(raw, _BREAK), False)
        found &= ~np.asarray(broken)
    return found


def _has_break(raw: pa.Array) -> bool:
    """Whether there is a line break in any record; much faster than to ask record by record."""
    _, offsets, data = raw.buffers()
    if data is None:
        return False
    ends = np.frombuffer(offsets, np.int32)[[raw.offset, raw.offset + len(raw)]]
    text = np.frombuffer(data, np.uint8)[ends[0] : ends[1]]
    return bool((text == ord("\n")).any() or (text == ord("\r")).any())


def _blocks(
    raw: pa.Array, rows: Ints, kinds: pa.Schema, threads: bool, parts: list[pa.Table],
    of: list[Ints], bad: Mask,
) -> None:  # fmt: skip
    """Read records that look whole, all at once; each half on its own if that fails."""
    if not len(rows):
        return
    table = _block(raw if len(rows) == len(raw) else raw.take(pa.array(rows)), kinds, threads)
    if table is not None:
        parts.append(table)
        of.append(rows)
    elif len(rows) <= ONE_BY_ONE:
        _one_by_one(raw, rows, kinds, parts, of, bad)
    else:
        middle = len(rows) // 2
        _blocks(raw, rows[:middle], kinds, threads, parts, of, bad)
        _blocks(raw, rows[middle:], kinds, threads, parts, of, bad)


def _block(raw: pa.Array, kinds: pa.Schema, threads: bool = False) -> pa.Table | None:
    """One row per record; None if a record cannot be read."""
    lists = pa.ListArray.from_arrays(pa.array([0, len(raw)], pa.int32()), raw)
    text = pc.binary_join(lists, b"\n")[0].as_buffer()
    size = text.size + 1
    if threads:  # a piece must hold any record
        size = min(size, max(_PIECE, 2 * pc.max(pc.binary_length(raw)).as_py()))
    read = pa.json.ReadOptions(use_threads=threads, block_size=size)
    parse = pa.json.ParseOptions(explicit_schema=kinds, unexpected_field_behavior="ignore")
    try:
        table = pa.json.read_json(pa.BufferReader(text), read_options=read, parse_options=parse)
        table.validate(full=True)  # Arrow's reader does not check that text is UTF-8
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    if table.num_rows != len(raw):
        return None
    return table.select(kinds.names)


def _one_by_one(
    raw: pa.Array, rows: Ints, kinds: pa.Schema, parts: list[pa.Table], of: list[Ints], bad: Mask
) -> None:
    if not len(rows):
        return
    values: list[Sequence[Any]] = []
    for row in rows:
        found = _record(raw[int(row)].as_py(), kinds)
        bad[row] = found is None
        values.append([None] * len(kinds) if found is None else found)
    columns = [pa.array([row[i] for row in values], kind.type) for i, kind in enumerate(kinds)]
    parts.append(pa.Table.from_arrays(columns, schema=kinds))
    of.append(rows)


def _record(raw: bytes | None, kinds: pa.Schema) -> list[Any] | None:
    """The values of one record; None if it cannot be read."""
    if raw is None:
        return None
    try:
        value = json.loads(raw.decode("utf-8-sig"), parse_int=_whole)
        if not isinstance(value, dict):
            return None
        return [_value(value.get(field.name), field.type) for field in kinds]
    except (ValueError, RecursionError):
        return _alone(raw, kinds)


def _alone(raw: bytes, kinds: pa.Schema) -> list[Any] | None:
    """What Arrow's reader makes of a single record that Python's does not take."""
    one = pa.array([raw], pa.binary())
    table = _block(one, kinds) if _looks_whole(one)[0] else None
    return None if table is None else [column[0].as_py() for column in table.columns]


def _value(value: Any, kind: pa.DataType) -> Any:
    """A value as its column's type holds it; as Arrow's reader would, and Spark's."""
    if value is None:
        return None
    if kind == pa.string():
        return _text(value)
    if pa.types.is_decimal(kind):
        raise _BadError  # Python's reader has no exact decimals: Arrow's reads this record alone
    if pa.types.is_boolean(kind):
        if isinstance(value, bool):
            return value
    elif pa.types.is_floating(kind):
        if isinstance(value, str) and value in _SPECIAL:
            return _SPECIAL[value]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return _number(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        low = -(1 << (kind.bit_width - 1))
        if low <= value < -low:
            return value
    raise _BadError


def _number(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise _BadError from None


def _text(value: Any) -> str:
    """Text stays as it is; a number or an object in a column of text is its JSON."""
    found = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    found.encode("utf-8")  # half of a surrogate pair is no text
    return found
