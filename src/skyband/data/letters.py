"""Dead letters: each bad record once, with the reason, its origin and its content.

    source reason                                     topic partition offset file  record   encoding
    ""     not JSON that fits the schema              flows         0     17 null  {oops    text
    ""     column 'score': the score is null (None)   flows         1      4 null  {"ts"…   json

A record that could not be read is kept unchanged (``text``, or ``base64`` if it is not UTF-8).
A row refused before it was summarised is kept with all its columns, a row refused later with the
query's columns only; both are JSON objects in which NaN and the infinities are text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from skyband.data.columns import python_values
from skyband.data.json_text import base64_text, json_text
from skyband.errors import DataError

LETTERS = pa.schema(
    [
        ("source", pa.string()),
        ("reason", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("file", pa.string()),
        ("record", pa.string()),
        ("encoding", pa.string()),
    ]
)
UNREAD = "_skyband_unread"
"""True for a record that could not be read; all other columns of its row are then null."""
RAW = "_skyband_raw"
"""The bytes of a record that could not be read."""
REASON = "_skyband_reason"
"""Why a record, or a whole file, could not be read; null: ``CarriedColumns.unreadable`` says it."""
_SHOWN = 300
"""How many characters of a record an error message shows."""


@dataclass(frozen=True)
class CarriedColumns:
    """Columns of a source that travel with the query's columns, so that bad records stay whole."""

    unreadable: str | None = None
    """The reason given for a record that cannot be read; None if every record can be read."""
    origin: Mapping[str, str] = field(default_factory=dict)
    """From a column of the letter (``topic``, ``file``, ...) to the source column that holds it."""
    record: tuple[str, ...] = ()
    """All columns of a row, if rows can become letters."""
    letters: bool = False
    """Whether letters are wanted; otherwise bad records are only counted, or raised."""
    reasons: bool = False
    """Whether there is a column ``REASON``."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """The columns that are not part of the record."""
        flags = () if self.unreadable is None else (UNREAD, RAW)
        return (*flags, *((REASON,) if self.reasons else ()), *self.origin.values())

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that travel, each once."""
        return tuple(dict.fromkeys((*self.record, *self.hidden)))


def unread(source: str, carried: CarriedColumns, rows: pa.Table) -> pa.Table:
    """Letters for records, and for whole files, that could not be read."""
    known = rows.column(REASON).to_pylist() if carried.reasons else [None] * rows.num_rows
    records = [
        (None, None) if raw is None and reason is not None else _text(raw)
        for raw, reason in zip(rows.column(RAW).to_pylist(), known, strict=True)
    ]
    reasons = [reason or carried.unreadable for reason in known]
    return _letters(source, carried, rows, reasons, records)


def row_letters(
    source: str, carried: CarriedColumns, rows: pa.Table, reasons: Sequence[str | None]
) -> pa.Table:
    """Letters for rows that a query refused before summarising them."""
    names = carried.record or tuple(n for n in rows.column_names if n not in carried.hidden)
    values = zip(*(python_values(rows.column(name)) for name in names), strict=True)
    records = [(json_text(dict(zip(names, row, strict=True))), "json") for row in values]
    return _letters(source, carried, rows, reasons, records)


def refuse(letters: pa.Table, count: int) -> None:
    """Raise DataError for bad records, showing the first one and where it came from."""
    first = letters.slice(0, 1).to_pylist()[0]
    places = [
        f"{name} {first[name]!r}" if name in ("topic", "file") else f"{name} {first[name]}"
        for name in ("topic", "partition", "offset", "file")
        if first[name] is not None
    ]
    where = f"{', '.join(places)}: " if places else ""
    record = first["record"]
    shown = ": an empty record ." if record is None else f": {record[:_SHOWN]} ."
    if first["encoding"] is None:
        shown = "."  # a whole file
    raise DataError(
        f"{count:,} bad row{'s' if count != 1 else ''}: {where}{first['reason']}{shown} "
        "No row of this batch was applied; fix the rows, or pass on_bad='skip' to leave them out"
    )


def _letters(
    source: str,
    carried: CarriedColumns,
    rows: pa.Table,
    reasons: Sequence[str | None],
    records: Sequence[tuple[str | None, str | None]],
) -> pa.Table:
    values: dict[str, Any] = {
        "source": [source] * rows.num_rows,
        "reason": reasons,
        "record": [record for record, _ in records],
        "encoding": [encoding for _, encoding in records],
    }
    columns = []
    for letter in LETTERS:
        known = carried.origin.get(letter.name)
        if known is not None:
            columns.append(rows.column(known).cast(letter.type))
        else:
            columns.append(pa.array(values.get(letter.name, [None] * rows.num_rows), letter.type))
    return pa.Table.from_arrays(columns, schema=LETTERS)


def _text(raw: bytes | str | None) -> tuple[str | None, str]:
    if raw is None or isinstance(raw, str):
        return raw, "text"
    try:
        return raw.decode("utf-8"), "text"
    except UnicodeDecodeError:
        return base64_text(raw), "base64"
