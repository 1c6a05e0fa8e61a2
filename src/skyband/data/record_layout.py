"""Records that are all written alike, as one program writes them: read without a JSON parser.

One of the records shows the layout: its keys, their order, and the blanks between them. Records
that have exactly that layout, and values that are plain to see, are read by a kernel that only
compares and copies. They have the values that Arrow's reader gives them. All others are left to it.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Ints, Mask
from skyband.kernels.borrow import frozen
from skyband.kernels.records import (
    NUMBER,
    ROOM,
    SKIPPED,
    TEXT,
    TRUTH,
    WHOLE,
    Layout,
    RecordValues,
    match_records,
)  # fmt: skip
from skyband.kernels.strings import bytes_and_words

FEW = 4096
"""Fewer records than this are left to Arrow's reader."""
_LAYOUTS = 4
"""Layouts that are tried, each for the records that had none before."""
_SMALL = 8
"""A layout that fewer than one in so many records have is not worth a table of its own."""
_SAMPLE = 512
"""About so many records are looked at to see whether a layout is common."""
_KEY = rb'[ \t]*"([^"\\\x00-\x1f\x7f-\xff]*)"[ \t]*:[ \t]*'
_VALUE = rb'("[^"\\\x00-\x1f]*"|-?[0-9][-+.0-9eE]*|true|false|null)[ \t]*'
_FIELD = re.compile(_KEY + _VALUE)


def read_alike(raw: pa.Array, rows: Ints, kinds: pa.Schema) -> tuple[list[Any], Ints]:
    """Tables of rows that are written alike, each with its rows; and the rows that are left.

    ``kinds`` has types that ``text_types.read_as`` returns. None of the rows is null.
    """
    found: list[Any] = []
    if any(pa.types.is_decimal(kind) for kind in kinds.types):
        return found, rows
    records: _Records | None = None
    for attempt in range(_LAYOUTS):
        if len(rows) < FEW:
            break
        example = raw[int(rows[attempt * len(rows) // _LAYOUTS])].as_py()
        layout = _layout(example, kinds)
        if layout is None:
            continue
        records = records or _records(raw)
        if not _is_common(records, rows[:: 1 + len(rows) // _SAMPLE], kinds, *layout):
            continue
        read = _read(records, rows, kinds, *layout)
        if read is None:
            continue
        table, matched = read
        found.append((table, rows[matched]))
        rows = rows[~matched]
    return found, rows


class _Records(NamedTuple):
    """The bytes of records, their words, and where each record begins."""

    data: Array
    words: Array
    offsets: Array


def _records(raw: pa.Array) -> _Records:
    """The same records; with room after the last one, for which they may have to be copied."""
    _, offsets, data = raw.buffers()
    bounds = np.frombuffer(offsets, np.int32)[raw.offset : raw.offset + len(raw) + 1]
    source = np.frombuffer(data, np.uint8)
    if len(source) < bounds[-1] + ROOM:
        mine = source[bounds[0] : bounds[-1]]
        source, bounds = np.concatenate([mine, np.zeros(ROOM, np.uint8)]), bounds - bounds[0]
    return _Records(*bytes_and_words(frozen(source)), frozen(bounds))


def _is_common(
    records: _Records, rows: Ints, kinds: pa.Schema, layout: Layout, names: list[str]
) -> bool:
    """Whether enough of these rows have a layout to make it worth trying with more."""
    read = _read(records, rows, kinds, layout, names)
    return read is not None and _SMALL * len(read[0]) >= len(rows)


def _read(
    records: _Records, rows: Ints, kinds: pa.Schema, layout: Layout, names: list[str]
) -> tuple[pa.Table, Mask] | None:
    """The rows with this layout, and which they are; None if some text is not UTF-8."""
    lengths = records.offsets[rows + 1] - records.offsets[rows]
    texts = int(np.isin(layout.kind, (TEXT, NUMBER)).sum())
    others = int(np.isin(layout.kind, (WHOLE, TRUTH)).sum())
    size = int(lengths.sum())
    text = np.empty((max(texts, 1), size + ROOM), np.uint8)
    shape = (len(text), size + ROOM - 7)
    values = RecordValues(
        np.empty((max(others, 1), len(rows)), np.int64),
        np.ndarray(shape, np.uint64, text, 0, (text.shape[1], 1)),
        np.zeros((max(texts, 1), len(rows) + 1), np.int32),
        np.empty((len(names), len(rows)), np.bool_),
    )
    matched = np.zeros(len(rows), np.bool_)
    count = match_records(*records, frozen(rows), layout, values, matched)
    columns: dict[str, pa.Array] = {}
    try:
        for field, name in enumerate(names):
            if layout.kind[field] != SKIPPED:
                columns[name] = _column(layout, values, text, field, count, kinds.field(name).type)
    except (pa.ArrowException, UnicodeDecodeError):  # not UTF-8, or a number that is no number
        return None
    whole = [
        columns[kind.name] if kind.name in columns else pa.nulls(count, kind.type) for kind in kinds
    ]
    return pa.Table.from_arrays(whole, schema=kinds), matched


def _layout(record: bytes, kinds: pa.Schema) -> tuple[Layout, list[str]] | None:
    """The layout of a record and the names of its values; None if it is not a flat object."""
    if not record.startswith(b"{"):
        return None
    at, names, pieces = 1, [], []
    cut = 0
    while (field := _FIELD.match(record, at)) is not None:
        names.append(field[1].decode())
        pieces.append(record[cut : field.start(2)])
        cut, at = field.end(2), field.end() + 1
        if record[field.end() : at] != b",":
            break
    if not names or record[at - 1 :] != b"}" or len(set(names)) < len(names):
        return None
    codes = [_kind(kinds.field(name).type) if name in kinds.names else SKIPPED for name in names]
    columns, used = [], {True: 0, False: 0}
    for code in codes:
        is_text = code in (TEXT, NUMBER)
        columns.append(used[is_text])
        used[is_text] += code != SKIPPED
    bounds = [_bounds(kinds, name, code) for name, code in zip(names, codes, strict=True)]
    numbers = (codes, columns, *zip(*bounds, strict=True))
    pieces.append(record[cut:])
    literal = np.frombuffer(b"".join(pieces) + bytes(ROOM), np.uint8)
    layout = Layout(
        bytes_and_words(literal)[1],
        frozen(np.cumsum([len(piece) for piece in pieces])),
        *(frozen(np.array(each, np.int64)) for each in numbers),
    )
    return layout, names


def _kind(kind: pa.DataType) -> int:
    if kind == pa.string():
        return TEXT
    if pa.types.is_boolean(kind):
        return TRUTH
    return NUMBER if pa.types.is_floating(kind) else WHOLE


def _bounds(kinds: pa.Schema, name: str, code: int) -> tuple[int, int]:
    if code != WHOLE:
        return 0, 0
    about = np.iinfo(kinds.field(name).type.to_pandas_dtype())
    return int(about.min), int(about.max)


def _column(
    layout: Layout, values: RecordValues, text: Array, field: int, count: int, kind: pa.DataType
) -> pa.Array:
    there, row = values.there[field, :count], int(layout.column[field])
    mask = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    if layout.kind[field] in (TEXT, NUMBER):
        ends = pa.py_buffer(values.end[row, : count + 1])
        column = pa.Array.from_buffers(pa.string(), count, [mask, ends, pa.py_buffer(text[row])])
        column.validate(full=True)
        return column if kind == pa.string() else column.cast(kind)
    numbers = values.whole[row, :count]
    if layout.kind[field] == TRUTH:
        bits = pa.py_buffer(np.packbits(numbers.astype(np.bool_), bitorder="little"))
        return pa.Array.from_buffers(kind, count, [mask, bits])
    narrow = numbers.astype(kind.to_pandas_dtype(), copy=False)
    return pa.Array.from_buffers(kind, count, [mask, pa.py_buffer(narrow)])
