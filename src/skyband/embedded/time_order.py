"""Files in the order of time: least times from Parquet's statistics, merging, and sorting.

A *unit* is what is read at once: a row group, or some small ones. If all files have statistics of
the time column, units are read by their least times, and rows of units that overlap are merged.
Only units that overlap are held in memory together. If those are more than ``SORT_BYTES``, or if
there are no statistics and rows turn out to be late, rows are sorted instead: in pieces of
``SORT_BYTES`` that are written to temporary files and merged.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints
from skyband.data.columns import output_type, to_arrow, to_numpy
from skyband.data.order import is_sorted
from skyband.embedded.read_ahead import Load

SORT_BYTES = 128 << 20
"""Bytes of rows that are sorted at once, or merged at most."""
_RUN_BYTES = 1 << 20
_FEW_ROWS, _FEW_BYTES = 1 << 16, 8 << 20
"""Fewer rows than this are merged only with the next ones, unless they are large."""

Ticks = Callable[[pa.Table], Ints]
"""The times of a table's rows, as integers that compare."""
FIRST, _LAST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
_PER_MICROSECOND = {"milliseconds": 1_000, "microseconds": 1}


def by_name(path: Path) -> tuple[list[list[str | int]], str]:
    """Sorts names as people do: ``2.parquet`` before ``10.parquet``."""
    parts = [re.split(r"(\d+)", part) for part in path.parts]
    return [[int(t) if i % 2 else t for i, t in enumerate(part)] for part in parts], str(path)


# Statistics ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimeRange:
    """The least and greatest time of a unit, and about how many bytes its rows take."""

    least: int
    greatest: int
    nbytes: int
    run: int = 0
    """Of rows with equal times, those of the unit with the smaller number come first."""


def span_of(
    metadata: Any, groups: Sequence[int], time: str, names: Sequence[str] | None
) -> TimeRange | None:
    """The span of some row groups of a Parquet file; None if statistics are missing or damaged.

    ``names`` are the columns that are read, None for all.
    """
    try:
        row_groups = [metadata.row_group(group) for group in groups]
        ends = [_ends(group, time) for group in row_groups]
        size = sum(_bytes_of(group, names) for group in row_groups)
    except (ValueError, KeyError):
        return None  # reading the rows says what is wrong, and in which file
    known = [pair for pair in ends if pair is not None]
    if len(known) < len(ends):
        return None
    return TimeRange(min(low for low, _ in known), max(high for _, high in known), size)


def _ends(group: Any, time: str) -> tuple[int, int] | None:
    for at in range(group.num_columns):
        column = group.column(at)
        if column.path_in_schema != time:
            continue
        stats = column.statistics
        if stats is None or not stats.has_min_max:
            return None
        low, high = stats.min_raw, stats.max_raw
        if not (isinstance(low, int) and isinstance(high, int)):
            return None
        kind = json.loads(stats.logical_type.to_json())
        if kind["Type"] == "Int" and not kind["isSigned"] and low < 0:
            return None  # beyond what 64 bits with a sign hold
        if kind["Type"] == "Timestamp":
            if kind["timeUnit"] == "nanoseconds":
                return low // 1_000, high // 1_000
            scale = _PER_MICROSECOND[kind["timeUnit"]]
            return low * scale, high * scale
        if kind["Type"] == "Date":
            return low * 86_400_000_000, high * 86_400_000_000
        return low, high
    return None


def _bytes_of(group: Any, names: Sequence[str] | None) -> int:
    """A guess: dictionaries and compression make a row group smaller than its rows."""
    columns = [group.column(at) for at in range(group.num_columns)]
    read = [c for c in columns if names is None or c.path_in_schema.partition(".")[0] in names]
    return sum(max(2 * c.total_uncompressed_size, 8 * c.num_values) for c in read)


def in_order(spans: Sequence[TimeRange]) -> bool:
    """Whether no unit begins before the one before it ends."""
    return all(one.greatest <= more.least for one, more in pairwise(spans))


def most_held(spans: Sequence[TimeRange]) -> int:
    """The most bytes that overlap; the spans are in the order of their least times."""
    most, held = 0, list[TimeRange]()
    for span in spans:
        held = [other for other in held if other.greatest > span.least]
        held.append(span)
        most = max(most, sum(each.nbytes for each in held))
    return most


# Merging ------------------------------------------------------------------------------------------


def merged(
    spans: Sequence[TimeRange], tables: Iterator[pa.Table], ticks: Ticks
) -> Iterator[pa.Table]:
    """Merge the rows of units, which come in the order of their least times.

    A unit that overlaps no other one is passed on as it is.
    """
    held: list[tuple[TimeRange, Ints, pa.Table]] = []
    ends = [span.least for span in spans[1:]]
    for table, span, upto in zip(tables, spans, [*ends, None], strict=True):
        if not held and (upto is None or span.greatest < upto):
            yield table
            continue
        held.append((span, *_sorted(table, ticks)))
        held.sort(key=lambda unit: unit[0].run)
        cuts = [len(t) if upto is None else int(np.searchsorted(t, upto)) for _, t, _ in held]
        halves = list(zip(held, cuts, strict=True))
        nbytes = sum(own.nbytes * c // max(len(t), 1) for (own, t, _), c in halves)
        if sum(cuts) < _FEW_ROWS and nbytes < _FEW_BYTES and upto is not None:
            continue
        pieces = [(t[:c], rows.slice(0, c)) for (_, t, rows), c in halves]
        held = [(own, t[c:], rows.slice(c)) for (own, t, rows), c in halves if c < len(t)]
        if any(cuts):
            yield _together(pieces)


def sorted_table(table: pa.Table, ticks: Ticks) -> pa.Table:
    """The table in order of time; rows without a time come last."""
    return _sorted(table, ticks)[1]


def _sorted(table: pa.Table, ticks: Ticks) -> tuple[Ints, pa.Table]:
    times = ticks(table)
    if is_sorted(times):
        return times, table
    order = np.argsort(times, kind="stable")
    return times[order], table.combine_chunks().take(to_arrow(order))


def _together(pieces: list[tuple[Ints, pa.Table]]) -> pa.Table:
    """Sorted pieces as one sorted table; of equal times, those of the earlier piece come first."""
    some = [(times, table) for times, table in pieces if len(times)]
    if len(some) < 2:
        return (some or pieces)[0][1]
    order = np.argsort(np.concatenate([times for times, _ in some]), kind="stable")
    return _joined([table for _, table in some]).take(to_arrow(order))


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """One table in one chunk; text that is a dictionary in only some of them is decoded."""
    plain = [pa.Table.from_arrays(table.columns, table.column_names) for table in tables]
    if any(table.schema != plain[0].schema for table in plain):
        types = [pa.schema([(f.name, output_type(f.type)) for f in t.schema]) for t in plain]
        plain = [table.cast(schema) for table, schema in zip(plain, types, strict=True)]
    return pa.concat_tables(plain).unify_dictionaries().combine_chunks()


# Sorting ------------------------------------------------------------------------------------------


def sorted_rows(tables: Iterator[pa.Table], ticks: Ticks) -> Iterator[pa.Table]:
    """All rows in order of time, of equal times in the order in which they come.

    What does not fit ``SORT_BYTES`` goes through temporary files, which hold the same columns.
    """
    with ExitStack() as stack:
        units: list[tuple[TimeRange, Load]] = []
        folder: Path | None = None
        held, size = list[pa.Table](), 0
        for table in tables:
            if not table.num_rows:
                continue
            held.append(table)
            size += table.nbytes
            if size > SORT_BYTES:
                if folder is None:
                    made = tempfile.TemporaryDirectory(prefix="skyband-sort-")
                    folder = Path(stack.enter_context(made))
                units += _spilled(folder, len(units), held, ticks, stack)
                held, size = [], 0
        if folder is None:
            if held:
                yield _sorted(_joined(held), ticks)[1]
            return
        if held:
            units += _spilled(folder, len(units), held, ticks, stack)
        units.sort(key=lambda unit: unit[0].least)
        yield from merged([span for span, _ in units], (load() for _, load in units), ticks)


def _spilled(
    folder: Path, run: int, tables: list[pa.Table], ticks: Ticks, stack: ExitStack
) -> list[tuple[TimeRange, Load]]:
    """Write tables as one sorted file, whose pieces are units; none is read before it is needed."""
    times, whole = _sorted(_joined(tables), ticks)
    rows = max(1, _RUN_BYTES * whole.num_rows // max(whole.nbytes, 1))
    path, spans, start = folder / f"{run}.arrow", list[TimeRange](), 0
    with pa.ipc.new_file(path, whole.schema) as writer:
        for batch in whole.to_batches(max_chunksize=rows):
            writer.write_batch(batch)
            low, high = times[start], times[start + batch.num_rows - 1]
            spans.append(TimeRange(int(low), int(high), batch.nbytes, run))
            start += batch.num_rows
    reader = pa.ipc.open_file(stack.enter_context(pa.OSFile(str(path))))
    return [(span, partial(_piece, reader, i)) for i, span in enumerate(spans)]


def _piece(reader: Any, number: int) -> pa.Table:
    return pa.Table.from_batches([reader.get_batch(number)])


def ticks_in(read: Callable[[pa.Array], Ints], name: str) -> Ticks:
    """Reads the times of a table; rows without one come last."""

    def ticks(table: pa.Table) -> Ints:
        column = table.column(name)
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if not column.null_count:
            return read(column)
        times = np.full(len(column), _LAST)
        times[to_numpy(column.is_valid()).astype(np.bool_)] = read(column.drop_null())
        return times

    return ticks
