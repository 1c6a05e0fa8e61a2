"""Reads batches from any source: tables, files, readers, and iterables of those."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from skyband.engine.intake import as_table
from skyband.errors import SchemaError

__all__ = [
    "Batches",
    "Source",
    "batches_of",
    "is_table",
    "paths_of",
    "read_json",
    "sorted_by",
    "sound",
]

BATCH_ROWS = 1 << 18
"""Rows per batch: few enough to fit the cache, enough to make Python's overhead small."""

_READERS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "ipc",
    ".arrows": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
}

# A line that begins with null: a record, unless it is a value whose name stands on a line before.
_MAYBE_NULL = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|[\r\n])[ \t]*+null")
_NULL_RECORD = re.compile(rb"(\A(?:\xef\xbb\xbf)?\s*+|(?<=[^\s:,\[])[ \t]*+[\r\n]\s*+)null")

Batches = Iterator[pa.Table]


class ArrowStream(Protocol):
    """A table with an Arrow interface: from pyarrow, pandas, polars, DuckDB, ..."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """One batch with an Arrow interface."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object: ...


Source: TypeAlias = "ArrowStream | ArrowArray | str | Path | Iterable[Source]"
"""A table, a path or glob, a reader, or an iterable of those."""


def is_table(source: Any) -> bool:
    """Whether a source is one table in memory, rather than something read batch by batch."""
    if isinstance(source, (pa.RecordBatchReader, str, Path, Mapping)):
        return False
    return hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")


def batches_of(source: Any) -> Batches:
    """The batches of a source, in order."""
    if is_table(source):
        yield as_table(source)
    elif isinstance(source, (str, Path)):
        for path in paths_of(source):
            yield from _read(path)
    elif isinstance(source, pa.RecordBatchReader):
        yield source.schema.empty_table()
        for batch in source:
            yield pa.Table.from_batches([batch])
    elif isinstance(source, Iterable):
        for each in source:
            yield from batches_of(each)
    else:
        raise SchemaError(
            f"{type(source).__name__} is not a source; give a table (pyarrow, pandas, polars, "
            "DuckDB, ...), a path or glob, an iterable of those, or a mapping for several streams"
        )


def paths_of(source: str | Path) -> list[Path]:
    """The files of a path, a folder or a glob, sorted by name."""
    text = str(source)
    path = Path(text)
    if path.is_dir():
        found = [p for p in sorted(path.rglob("*")) if p.suffix in _READERS]
    elif path.exists():
        found = [path]
    else:
        names = glob.glob(text, recursive=True)  # noqa: PTH207  patterns may be absolute
        matched = [Path(name) for name in sorted(names)]
        found = [p for each in matched for p in (paths_of(each) if each.is_dir() else [each])]
    if not found:
        raise SchemaError(f"no file matches {text!r}; give a path, a folder or a glob")
    return found


def _read(path: Path) -> Batches:
    kind = _READERS.get(path.suffix.lower())
    if kind is None:
        known = ", ".join(_READERS)
        raise SchemaError(f"{path.name!r} has no known file extension; Skyband reads {known}")
    try:
        for table in _open(path, kind):
            yield sound(table)
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise SchemaError(f"{path.name!r} could not be read as {kind}: {problem}") from problem


def sound(table: pa.Table) -> pa.Table:
    """Return the table; raise ValueError if it is damaged, which could crash the process.

    Arrow's readers do not check offsets, text and names.
    """
    for name in table.schema.names:  # reading the names decodes them
        name.encode()
    table.validate(full=True)
    return table


def _open(path: Path, kind: str) -> Batches:
    if kind == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            yield file.schema_arrow.empty_table()
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                yield pa.Table.from_batches([batch])
    elif kind == "csv":
        from pyarrow import csv

        options = csv.ParseOptions(delimiter="\t" if path.suffix == ".tsv" else ",")
        with csv.open_csv(path, parse_options=options) as reader:
            yield reader.schema.empty_table()
            for batch in reader:
                yield pa.Table.from_batches([batch])
    elif kind == "json":
        if path.stat().st_size:
            with pa.memory_map(str(path)) as file:
                yield read_json(file.read_buffer())
    else:
        yield from _open_ipc(path)


def read_json(text: bytes | pa.Buffer, options: Any = None) -> pa.Table:
    """Read JSON lines. A line that is ``null`` is a row without values.

    Arrow's reader crashes if a block of the text begins with such a line, so they are replaced.
    """
    from pyarrow import json

    if _MAYBE_NULL.search(text):
        text = _NULL_RECORD.sub(rb"\1{}", bytes(text))
    return json.read_json(pa.BufferReader(text), parse_options=options)


def _open_ipc(path: Path) -> Batches:
    with pa.memory_map(str(path)) as file:
        if file.read(6) == b"ARROW1":
            reader = pa.ipc.open_file(file)
            yield reader.schema.empty_table()
            for i in range(reader.num_record_batches):
                yield pa.Table.from_batches([reader.get_batch(i)])
        else:
            file.seek(0)
            stream = pa.ipc.open_stream(file)
            yield stream.schema.empty_table()
            for batch in stream:
                yield pa.Table.from_batches([batch])


def sorted_by(table: pa.Table, name: str, ticks: Any) -> pa.Table:
    """The table sorted by time; returned as it is if it is sorted already, as most are."""
    from skyband.kernels.core.scan import is_sorted

    last: int | None = None
    for chunk in table.column(name).chunks:
        if not len(chunk):
            continue
        values = ticks(chunk)
        if chunk.null_count or not is_sorted(values) or (last is not None and values[0] < last):
            break
        last = int(values[-1])
    else:
        return table
    order = np.asarray(pa.compute.sort_indices(table, sort_keys=[(name, "ascending")]))
    return table.take(pa.array(order))
