"""What workers do with files: cut large ones into units of work, and read units as batches.

    path, length, time ─► split_units ─► repartition ─► read_units ─► summarise
                          footers of large               needed columns,
                          Parquet files only             by pyarrow

A file that cannot be read, is not whole, lacks a column or has changed since it was listed becomes
one row that says so (see ``worker_read``); the summariser counts it or raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.ipc
import pyarrow.parquet

from skyband.arrays import Mask
from skyband.data.csv_records import CsvForm, cut_at_record, infer_csv, read_csv_block
from skyband.data.json_records import read_records
from skyband.data.letters import RAW, REASON, UNREAD
from skyband.data.text_types import TYPES, time_type
from skyband.embedded.formats import format_of
from skyband.embedded.text_files import ending_of, read_json, sound
from skyband.spark.locations import open_location
from skyband.spark.parcels import schema_of
from skyband.spark.worker_read import as_held, spark_types

FILE = "_skyband_file"
"""The column that names the file of a row."""
UNIT_DDL = "file string, length bigint, time timestamp, first int, groups int"
UNIT_BYTES = 32 << 20
"""Larger Parquet files are cut between row groups into equal units of about this size, or less."""
BLOCK_BYTES = 8 << 20
"""Text is read in blocks of about this size."""
BATCH_ROWS = 1 << 17
Batches = Iterator[pa.RecordBatch]
_PROBLEMS = (pa.ArrowException, OSError, ValueError, EOFError)


@dataclass(frozen=True)
class FileForm:
    """How files are read."""

    format: str | None = None
    """One of ``file_options.FORMATS``; None to tell it from each file's ending."""
    csv: CsvForm = field(default_factory=CsvForm)
    positions: tuple[str, ...] | None = None
    """The fields of CSV files without a header, in order."""
    storage: Mapping[str, Any] = field(default_factory=dict)

    def of(self, uri: str) -> str:
        """The format of a file."""
        if self.format is not None:
            return self.format
        return format_of(PurePosixPath(uri)) or "parquet"

    def csv_of(self, uri: str) -> CsvForm:
        tabs = self.csv.delimiter is None and ending_of(PurePosixPath(uri)) == ".tsv"
        return replace(self.csv, delimiter="\t") if tabs else self.csv


# Units of work ------------------------------------------------------------------------------------


def split_units(form: FileForm) -> Callable[[Batches], Batches]:
    """Turn files into units: a file, or some row groups of a large Parquet file."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for row in batch.to_pylist():
                units = _units(form, row["file"], row["length"])
                made = [row | {"first": first, "groups": groups} for first, groups in units]
                yield pa.RecordBatch.from_pylist(made, schema=schema_of(UNIT_DDL))

    return run


def _units(form: FileForm, uri: str, length: int) -> list[tuple[int, int]]:
    """The first row group and the number of row groups of each unit; -1 means all of the file."""
    if form.of(uri) != "parquet" or length <= UNIT_BYTES:
        return [(0, -1)]
    try:
        system, path = open_location(uri, form.storage)
        with system.open_input_file(path) as source:
            about = pa.parquet.read_metadata(source)
            sizes = [about.row_group(i).total_byte_size for i in range(about.num_row_groups)]
    except _PROBLEMS:
        return [(0, -1)]  # reading it will say what is wrong
    many = -(-length // UNIT_BYTES)
    units: list[tuple[int, int]] = []
    first = held = 0
    for i, size in enumerate(sizes):
        held += size
        if held * many >= sum(sizes) * (len(units) + 1):  # units of equal size keep all cores busy
            units.append((first, i + 1 - first))
            first = i + 1
    if first < len(sizes):
        units.append((first, len(sizes) - first))
    return units or [(0, -1)]


def read_units(form: FileForm, wanted: pa.Schema) -> Callable[[Batches], Batches]:
    """Read units as batches of the wanted columns and the hidden ones."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for row in batch.to_pylist():
                yield from _read(form, wanted, row)

    return run


def _read(form: FileForm, wanted: pa.Schema, unit: Mapping[str, Any]) -> Batches:
    uri, kind = unit["file"], form.of(unit["file"])
    part = "" if unit["groups"] < 0 else f" (row groups from {unit['first']}, {unit['groups']})"
    try:
        system, path = open_location(uri, form.storage)
        _check_unchanged(system, path, unit)
        if kind in ("csv", "json"):
            for table, bad, raws in _text(form, system, path, uri, wanted):
                reason = f"not a {kind.upper()} record that fits the schema"
                yield from _batches(table, uri, bad, raws, reason)
        else:
            for table in _columnar(system, path, kind, wanted, unit):
                yield from _batches(table, uri)
    except _PROBLEMS as problem:
        reason = " ".join(str(problem).split())
        yield _refused(wanted, uri, f"could not be read as {kind}{part}: {reason}")


def _check_unchanged(system: Any, path: str, unit: Mapping[str, Any]) -> None:
    """Raise OSError if the file is gone or is not the one that was listed."""
    now = system.get_file_info(path)
    if now.type == pa.fs.FileType.NotFound:
        raise OSError("it was there when the folder was listed, and is gone now")
    # Only local times are exact to the millisecond in both listings.
    local = isinstance(system, pa.fs.LocalFileSystem)
    tick = 1_000_000 if local else 1_000_000_000
    listed = round(unit["time"].timestamp() * 1000) * 1_000_000 if unit["time"] else None
    moved = listed is not None and now.mtime_ns and now.mtime_ns // tick != listed // tick
    if now.size != unit["length"] or moved:
        raise OSError(
            f"it has changed since it was listed ({unit['length']} bytes then, {now.size} now); "
            "write files under another name and rename them when they are complete"
        )


# Columnar files -----------------------------------------------------------------------------------


def _columnar(
    system: Any, path: str, kind: str, wanted: pa.Schema, unit: Mapping[str, Any]
) -> list[pa.Table]:
    """All of a unit: a unit that turns out to be damaged gives no rows."""
    read = _parquet if kind == "parquet" else _ipc
    found = []
    with system.open_input_file(path) as source:
        for table in read(source, wanted, unit):
            columns = [_held(table, column) for column in wanted]
            found.append(pa.Table.from_arrays(columns, schema=wanted))
    return found


def _held(table: pa.Table, wanted: pa.Field) -> pa.ChunkedArray:
    column = table.column(wanted.name)
    try:
        return as_held(column, wanted.type)
    except pa.ArrowException as problem:
        raise ValueError(
            f"column {wanted.name!r} has type {column.type}, not {wanted.type}: {problem}"
        ) from problem


def _check_names(there: list[str], wanted: pa.Schema) -> None:
    for name in wanted.names:
        if name not in there:
            raise ValueError(f"column {name!r} is missing; the columns are: {', '.join(there)}")


def _parquet(source: Any, wanted: pa.Schema, unit: Mapping[str, Any]) -> Iterator[pa.Table]:
    file = pa.parquet.ParquetFile(source)
    _check_names(file.schema_arrow.names, wanted)
    first, many = unit["first"], unit["groups"]
    many = file.num_row_groups if many < 0 else many
    for i in range(first, first + many):
        yield sound(file.read_row_group(i, columns=wanted.names, use_threads=False))


def _ipc(source: Any, wanted: pa.Schema, unit: Mapping[str, Any]) -> Iterator[pa.Table]:
    stream = source.read(6) != b"ARROW1"
    source.seek(0)
    open_as = pa.ipc.open_stream if stream else pa.ipc.open_file
    schema = open_as(source).schema
    _check_names(schema.names, wanted)
    places = sorted(schema.get_field_index(name) for name in wanted.names)
    source.seek(0)
    reader = open_as(source, options=pa.ipc.IpcReadOptions(included_fields=places))
    many = (
        iter(reader) if stream else (reader.get_batch(i) for i in range(reader.num_record_batches))
    )
    for batch in many:
        yield sound(pa.Table.from_batches([batch]))


# Text files ---------------------------------------------------------------------------------------


def _text(
    form: FileForm, system: Any, path: str, uri: str, wanted: pa.Schema
) -> Iterator[tuple[pa.Table, Mask, list[bytes]]]:
    """The columns of each block of a text file, its bad records, and what they are."""
    with system.open_input_stream(path) as stream:
        if form.of(uri) == "json":
            for block in _blocks(stream, lambda data: data.rfind(b"\n") + 1):
                lines = [line for line in block.split(b"\n") if line.strip()]
                batch, bad = read_records(pa.array(lines, pa.binary()), wanted)
                yield pa.Table.from_batches([batch]), bad, [lines[i] for i in np.flatnonzero(bad)]
            return
        csv = form.csv_of(uri)
        names: list[str] | None = None
        for block in _blocks(stream, lambda data: cut_at_record(csv, data)):
            rest = block
            if names is None:
                names, rest = _header(form, csv, block)
                _check_names(names, wanted)
            if rest:
                yield read_csv_block(csv, names, wanted, rest)


def _header(form: FileForm, csv: CsvForm, block: bytes) -> tuple[list[str], bytes]:
    """The fields of a CSV file, and its first block without the header."""
    if csv.header:
        line, _, rest = block.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
        return csv.fields(line.rstrip(b"\r")), rest
    if form.positions is not None:
        return list(form.positions), block
    first = csv.fields(block.partition(b"\n")[0].rstrip(b"\r"))
    return [f"_c{i}" for i in range(len(first))], block


def _blocks(stream: Any, cut: Callable[[bytes], int]) -> Iterator[bytes]:
    """A stream in blocks of whole records; ``cut`` says where the last whole one ends."""
    held = b""
    while data := stream.read(BLOCK_BYTES):
        held += data
        end = cut(held)
        if end:
            yield held[:end]
            held = held[end:]
    if held:
        yield held


# Batches ------------------------------------------------------------------------------------------


def _batches(
    table: pa.Table,
    uri: str,
    bad: Mask | None = None,
    raws: Sequence[bytes] = (),
    reason: str | None = None,
) -> Batches:
    """A table in batches, with the hidden columns."""
    texts = iter(raws)
    start = 0
    for batch in table.combine_chunks().to_batches(max_chunksize=BATCH_ROWS):
        rows = batch.num_rows
        flags = np.zeros(rows, np.bool_)
        raw, why = pa.nulls(rows, pa.binary()), pa.nulls(rows, pa.string())
        if bad is not None and raws:
            flags = bad[start : start + rows]
            raw = pa.array([next(texts) if flag else None for flag in flags], pa.binary())
            why = pa.array([reason if flag else None for flag in flags], pa.string())
        yield _with_hidden(batch, uri, pa.array(flags), raw, why)
        start += rows


def _refused(wanted: pa.Schema, uri: str, reason: str) -> pa.RecordBatch:
    """The row that stands for a file that cannot be read."""
    nulls = [pa.nulls(1, column.type) for column in wanted]
    batch = pa.RecordBatch.from_arrays(nulls, schema=wanted)
    return _with_hidden(batch, uri, pa.array([True]), pa.nulls(1, pa.binary()), pa.array([reason]))


def _with_hidden(
    batch: pa.RecordBatch, uri: str, flags: pa.Array, raw: pa.Array, reason: pa.Array
) -> pa.RecordBatch:
    name = pa.DictionaryArray.from_arrays(np.zeros(batch.num_rows, np.int32), [unquote(uri)])
    hidden = {UNREAD: flags, RAW: raw, REASON: reason, FILE: name}
    columns = dict(zip(batch.schema.names, batch.columns, strict=True)) | hidden
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


# Columns of a file --------------------------------------------------------------------------------


def schema_of_file(form: FileForm, uri: str) -> pa.Schema:
    """The columns of a file, in types that Spark has; text shows its types at its beginning."""
    kind = form.of(uri)
    system, path = open_location(uri, form.storage)
    if kind in ("parquet", "ipc"):
        with system.open_input_file(path) as source:
            if kind == "parquet":
                return spark_types(pa.parquet.read_schema(source))
            stream = source.read(6) != b"ARROW1"
            source.seek(0)
            return spark_types((pa.ipc.open_stream if stream else pa.ipc.open_file)(source).schema)
    csv = form.csv_of(uri)
    with system.open_input_stream(path) as data:
        is_json = kind == "json"
        cut = (lambda text: text.rfind(b"\n") + 1) if is_json else (lambda t: cut_at_record(csv, t))
        block = next(_blocks(data, cut), b"")
    if not block.strip():
        raise ValueError("it is empty")
    if is_json:
        return infer_json(block)
    names, rest = _header(form, csv, block)
    return infer_csv(csv, names, rest)


def infer_json(block: bytes) -> pa.Schema:
    """The columns of JSON lines and their types, from the first block.

    Text that is a time in every record is a time. Objects and lists are their text.
    """
    found = read_json(block.removeprefix(b"\xef\xbb\xbf")).schema
    plain = (pa.int64(), pa.float64(), pa.bool_())
    types = pa.schema([(f.name, f.type if f.type in plain else pa.string()) for f in found])
    lines = [line for line in block.split(b"\n") if line.strip()]
    batch, _ = read_records(pa.array(lines, pa.binary()), types)
    for i, each in enumerate(found):
        if each.type == pa.string() or pa.types.is_timestamp(each.type):
            types = types.set(i, pa.field(each.name, time_type(batch.column(i)) or pa.string()))
    assert set(types.types) <= set(TYPES)
    return types
