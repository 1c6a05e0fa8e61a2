"""Blocks of CSV as columns.

Arrow reads a block at once. If a row has another number of fields or a value does not fit, the
block is read again, record by record, so that the bad ones are found and kept as they are.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from skyband.arrays import Mask
from skyband.data.text_types import read_as, typed


@dataclass(frozen=True)
class CsvForm:
    """How the fields of a CSV file are written."""

    header: bool = True
    delimiter: str | None = None
    """None to tell it from the file's ending: tabs for ``.tsv``, otherwise commas."""
    quote: str = '"'
    escape: str | None = None
    null: str = ""

    def fields(self, line: bytes) -> list[str]:
        """The fields of one record."""
        return next(iter(self._reader([line.decode("utf-8-sig")])), [])

    def records(self, block: bytes) -> Iterator[tuple[bytes, list[str] | None]]:
        """Each record as it stands in the block, and its fields; None if they cannot be read."""
        held: list[str] = []

        def lines() -> Iterator[str]:
            for line in io.StringIO(block.decode("utf-8", "surrogateescape"), newline=""):
                held.append(line)
                yield line

        reader = self._reader(lines())
        while True:
            held.clear()
            try:
                fields: list[str] | None = next(reader)
            except StopIteration:
                return
            except csv.Error:
                fields = None
            raw = "".join(held).rstrip("\r\n").encode("utf-8", "surrogateescape")
            if raw:
                yield raw, fields

    def _reader(self, lines: Any) -> Any:
        return csv.reader(
            lines, delimiter=self.delimiter or ",", quotechar=self.quote, escapechar=self.escape
        )

    def table(
        self, names: list[str], block: bytes, types: pa.Schema | None = None
    ) -> tuple[pa.Table, int]:
        """What Arrow reads of a block, all columns or those of ``types``; the rows that it skipped.

        Skipped rows have another number of fields. ``names`` are all fields of the file in order.
        """
        skipped: list[Any] = []

        def skip(row: Any) -> str:
            skipped.append(row)
            return "skip"

        convert = pa.csv.ConvertOptions(null_values=[self.null], strings_can_be_null=True)
        if types is not None:
            convert.column_types, convert.include_columns = types, types.names
        read = pa.csv.ReadOptions(column_names=names, use_threads=False, block_size=len(block) + 1)
        parse = pa.csv.ParseOptions(
            delimiter=self.delimiter or ",",
            quote_char=self.quote,
            escape_char=self.escape or False,
            newlines_in_values=True,
            invalid_row_handler=skip,
        )
        return pa.csv.read_csv(pa.BufferReader(block), read, parse, convert), len(skipped)


def cut_at_record(form: CsvForm, block: bytes) -> int:
    """Where the last whole record of a block ends; 0 if there is none."""
    quote = ord(form.quote)
    data = np.frombuffer(block, np.uint8)
    marks = data == quote
    if not marks.any():
        return block.rfind(b"\n") + 1
    if form.escape is not None:
        return 0  # which quotes count is only known by reading all of it
    inside = np.cumsum(marks) % 2 == 1
    ends = np.flatnonzero((data == ord("\n")) & ~inside)
    return int(ends[-1]) + 1 if len(ends) else 0


def infer_csv(form: CsvForm, names: list[str], block: bytes) -> pa.Schema:
    """The columns of a file and their types, from its first block, without the header."""
    schema = form.table(names, block)[0].schema
    return pa.schema([(field.name, _inferred(field.type)) for field in schema])


def _inferred(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=None if kind.tz is None else "UTC")
    return kind if pa.types.is_primitive(kind) and not pa.types.is_time(kind) else pa.string()


def read_csv_block(
    form: CsvForm, names: list[str], schema: pa.Schema, block: bytes
) -> tuple[pa.Table, Mask, list[bytes]]:
    """The columns of a block, which of its records are bad, and those records.

    ``names`` are all fields of the file in order, ``schema`` the columns to read.
    """
    table = _at_once(form, names, schema, block)
    if table is not None:
        return table, np.zeros(table.num_rows, np.bool_), []
    return _one_by_one(form, names, schema, block)


def _at_once(form: CsvForm, names: list[str], schema: pa.Schema, block: bytes) -> pa.Table | None:
    types = pa.schema([(field.name, read_as(field.type)) for field in schema])
    try:
        table, skipped = form.table(names, block, types)
        if skipped:
            return None
        columns = []
        for field in schema:
            column = table.column(field.name).combine_chunks()
            if column.type != field.type:
                column, bad = typed(column, field.type)
                if bad.any():
                    return None
            columns.append(column)
    except pa.ArrowInvalid:
        return None
    return pa.Table.from_arrays(columns, schema=schema)


def _one_by_one(
    form: CsvForm, names: list[str], schema: pa.Schema, block: bytes
) -> tuple[pa.Table, Mask, list[bytes]]:
    raws: list[bytes] = []
    rows: list[list[str | None]] = []
    wrong: list[bool] = []
    places = [names.index(name) for name in schema.names]
    for raw, fields in form.records(block):
        fits = fields is not None and len(fields) == len(names) and _is_text(raw)
        raws.append(raw)
        wrong.append(not fits)
        rows.append([fields[i] for i in places] if fits and fields else [None] * len(places))
    bad = np.array(wrong, np.bool_)
    columns = []
    for i, field in enumerate(schema):
        text = pa.array([row[i] for row in rows], pa.string())
        text = pc.if_else(pc.equal(text, form.null), None, text)
        if field.type != pa.string():
            text = pc.ascii_trim_whitespace(text)
        column, unfit = typed(text, field.type)
        columns.append(column)
        bad |= unfit
    keep = pa.array(~bad)
    columns = [pc.if_else(keep, column, None) for column in columns]
    return pa.Table.from_arrays(columns, schema=schema), bad, [raws[i] for i in np.flatnonzero(bad)]


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
