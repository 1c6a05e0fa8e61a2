"""A look at some rows of files, to tell how large the summaries of all of them will be."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet

from skyband.data.letters import UNREAD
from skyband.spark import sharding
from skyband.spark.file_units import Form, read_units
from skyband.spark.locations import open_location
from skyband.spark.sharding import FirstRows, megabytes

__all__ = ["ENOUGH", "is_small", "rows_of_files"]

ENOUGH = 1 << 17
"""Rows that are looked at."""
_TIMES = 8
"""Summaries are never so many times as large as the rows, even if those are compressed."""


def is_small(size: float) -> str | None:
    """Why rows of so many bytes need one shard, if they do."""
    if size * _TIMES >= sharding.KEY_BYTES:
        return None
    return f"the first batch has only {megabytes(size)}"


def rows_of_files(form: Form, types: pa.Schema, uris: Sequence[str]) -> FirstRows | str:
    """Some rows of the first file, and the rows of all of them by the size of that one."""
    if not uris:
        return "there are no files yet"
    sizes = [_size(uri) for uri in uris]
    small = is_small(sum(sizes))
    if small is not None:
        return small
    some, share = _some_rows(form, types, uris[0])
    return FirstRows(some, round(some.num_rows * share * sum(sizes) / max(1, sizes[0])))


def _some_rows(form: Form, types: pa.Schema, uri: str) -> tuple[pa.Table, float]:
    """The first rows of a file, and how many times as many rows it has."""
    groups, share = -1, 1.0
    if form.of(uri) == "parquet":
        system, path = open_location(uri, form.storage)
        with system.open_input_file(path) as file:
            about = pa.parquet.read_metadata(file)
        groups = min(1, about.num_row_groups)
        first = about.row_group(0).num_rows if groups else 0
        share = about.num_rows / max(1, first)
    unit = {"file": uri, "length": _size(uri), "time": None, "first": 0, "groups": groups}
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in read_units(form, types)(iter([pa.RecordBatch.from_pylist([unit])])):
        good = pa.compute.invert(batch.column(UNREAD))
        held.append(batch.select(types.names).filter(good))
        rows += held[-1].num_rows
        if rows >= ENOUGH and form.of(uri) != "parquet":
            # The rest is not read: it should have as many rows per byte.
            share = max(1.0, _size(uri) / sum(each.nbytes for each in held))
            break
    some = pa.Table.from_batches(held, schema=types)
    return some.slice(0, ENOUGH), share * rows / max(1, min(rows, ENOUGH))


def _size(uri: str) -> int:
    system, path = open_location(uri, {})
    return int(system.get_file_info(path).size or 0)
