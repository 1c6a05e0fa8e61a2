"""The rows that a sink writes, and the duties of a sink; the same on both engines.

A query whose windows may be corrected (``TimeWindow(revise=)``) has a column ``revision``. A window
comes again then, whole, with a greater revision, and sinks keep the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.answers.tables import last_revisions
from skyband.arrays import Mask
from skyband.contract.checks import null_mask
from skyband.data.columns import mask_of, output_type, plain, spans, to_numpy
from skyband.data.json_text import json_text
from skyband.engine.fold import fold_key
from skyband.engine.intake import RowLimits, ValueTest
from skyband.errors import EngineError, SchemaError, SkybandError
from skyband.jobs.job import Job, JobSection
from skyband.jobs.world import MACHINE, World
from skyband.query.base import REVISION
from skyband.window import parse_duration

_PLAIN = '[]", '
"""Characters of a group that a key holds as they are, besides letters and digits."""


@dataclass(frozen=True)
class SinkTarget:
    """Where the answers of a query, or the dead letters, are written, and what a sink must know."""

    section: JobSection
    where: str = "[sink]"
    """The name that messages use for the sink."""
    job: str = ""
    query: str = ""
    form: str = "parquet"
    """The format of files, if the job names none."""
    groups: tuple[str, ...] = ()
    """The columns of a group whose own arrivals a window counts; such a window is of one group."""
    by: tuple[str, ...] = ()
    """The columns of all groups."""
    revises: bool = False
    """Whether windows come again when they are corrected."""
    private: bool = False
    """Whether files are for their user only, as those with records as they came."""
    world: World = MACHINE


class SinkRows(Protocol):
    """The answer rows, or the dead letters, of one query in one batch."""

    @property
    def schema(self) -> pa.Schema: ...

    def __bool__(self) -> bool:
        """Whether there are any."""

    def tables(self) -> Iterator[pa.Table]:
        """The rows, table by table."""


R_contra = TypeVar("R_contra", bound=SinkRows, contravariant=True)


class TableRows:
    """Rows that are tables in this process."""

    def __init__(self, tables: Sequence[pa.Table], schema: pa.Schema) -> None:
        self.schema = schema
        self._tables = [table for table in tables if table.num_rows]

    def __bool__(self) -> bool:
        return bool(self._tables)

    def tables(self) -> Iterator[pa.Table]:
        """The rows, table by table."""
        for table in self._tables:
            yield table if table.schema == self.schema else table.cast(self.schema)


def messages_of(rows: SinkRows, target: SinkTarget) -> Iterator[dict[str, Any]]:
    """A message for each window: its key, what it is of, and its rows."""
    if not rows:
        return
    job, query, groups = target.job, target.query, target.groups
    table = pa.concat_tables(rows.tables())
    table = last_revisions(table) if target.revises else table
    keys = [table[name].to_pylist() for name in (*groups, "window_end")]
    places: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(zip(*keys, strict=True)):
        places.setdefault(key, []).append(row)
    for (*group, end), at in places.items():
        shown = end.isoformat() if hasattr(end, "isoformat") else end
        # The key is a header, too, which holds few characters.
        named = f"{quote(json_text(group), _PLAIN)}/" if group else ""
        message: dict[str, Any] = {
            "key": f"{job}/{query}/{named}{shown}",
            "job": job,
            "query": query,
        }
        message["window_end"] = shown
        if target.revises:
            message[REVISION] = table[REVISION][at[0]].as_py()
        if group:
            message["group"] = dict(zip(groups, group, strict=True))
        yield message | {"rows": table.take(pa.array(at)).to_pylist()}


class Sink(Protocol[R_contra]):
    """Where rows are written. After a failure ``write`` may be called again with the same batch."""

    where: str
    """The name that messages use for this sink."""

    @property
    def refuses(self) -> Sequence[ValueTest]:
        """What values it cannot hold; rows with such values are bad (``row_limits``)."""

    def open(self, run: str) -> None:
        """Called once before the first batch; raises if the sink cannot be written to."""

    def write(self, batch: int, rows: R_contra) -> None:
        """Write the rows of a batch, all of them or none."""


def written(sink: Sink[R_contra], batch: int, rows: R_contra) -> None:
    """Write the rows of a batch; any error names the sink."""
    try:
        sink.write(batch, rows)
    except SkybandError:
        raise
    except Exception as problem:
        reason = str(problem).strip().split("\n")[0] or type(problem).__name__
        raise EngineError(f"{sink.where} could not write batch {batch}: {reason}") from problem


# What a job takes of its rows: times near the clock, and values that its sinks can hold ----------
#
# A sink lists in ``refuses`` the tests of values that it cannot hold. They are made when rows come
# in, before anything is applied, so that such a value is a bad row like any other.


_MOST = 2**63 - 1
_SECONDS = (-62_135_510_400, 253_402_214_399)
"""The years 1 to 9999, but for a day at each end: the zone may move a time."""
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY = 86_400


def row_limits(job: Job, sinks: Mapping[str, Sink[Any]]) -> dict[str, RowLimits]:
    """The limits of each query's rows.

    Queries that share their summaries must agree on which rows are bad, so what the sink of one of
    them cannot hold is bad for the others, too.
    """
    keys = {name: fold_key(query) or name for name, query in job.queries.items()}
    refused: dict[str, dict[str, ValueTest]] = {key: {} for key in keys.values()}
    for name, sink in sinks.items():
        refused[keys[name]] |= {reason: (reason, test) for reason, test in sink.refuses}
    made = any(section.kind == "rate" for section in job.sources.values())
    ahead = None if made or job.ahead == "none" else parse_duration(job.ahead, "ahead")
    return {
        name: RowLimits(ahead, job.ahead, tuple(refused[key].values()))
        for name, key in keys.items()
    }


# Tests of values: the rows of a column that a sink cannot hold -----------------------------------


def _with_nul(column: pa.Array | pa.ChunkedArray) -> Mask | None:
    kind = output_type(column.type)
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return None
    if isinstance(column, pa.DictionaryArray) and _with_nul(column.dictionary) is None:
        return None
    text = plain(column)
    offsets, octets = spans(text)
    if octets[offsets[0] : offsets[-1]].all():
        return None
    return mask_of(pc.fill_null(pc.match_substring(text, "\0"), False))


def _above_signed(column: pa.Array | pa.ChunkedArray) -> Mask | None:
    if not pa.types.is_uint64(output_type(column.type)):
        return None
    return _outside(plain(column), 0, _MOST)


def _outside_years(column: pa.Array | pa.ChunkedArray) -> Mask | None:
    kind = output_type(column.type)
    low, high = _SECONDS
    if pa.types.is_date32(kind):
        return _outside(plain(column), low // _DAY, high // _DAY)
    if pa.types.is_date64(kind) or pa.types.is_timestamp(kind):
        scale = _PER_SECOND[getattr(kind, "unit", "ms")]
        return _outside(plain(column), low * scale, high * scale)
    if pa.types.is_duration(kind) or (pa.types.is_nested(kind) and _has_times(kind)):
        return _failing(column, lambda value: value.as_py())
    return None


def _has_times(kind: pa.DataType) -> bool:
    inner = [kind.field(i).type for i in range(kind.num_fields)]
    return pa.types.is_temporal(kind) or any(map(_has_times, inner))


def _not_text(column: pa.Array | pa.ChunkedArray) -> Mask | None:
    if "binary" not in str(output_type(column.type)):
        return None
    return _failing(plain(column), lambda value: value.as_py() and value.as_py().decode())


def _failing(column: pa.Array, read: Callable[[pa.Scalar], Any]) -> Mask | None:
    """The values that cannot be read in this way."""
    mask = np.zeros(len(column), np.bool_)
    for row, value in enumerate(column):
        try:
            read(value)
        except (ValueError, OverflowError):
            mask[row] = True
    return mask if mask.any() else None


def writable(sink: str, holds: Callable[[pa.DataType], bool]) -> ValueTest:
    """A test that stops a job before it begins, if the sink cannot hold a column's type at all."""

    def check(column: pa.Array | pa.ChunkedArray) -> None:
        if not holds(output_type(column.type)):
            raise SchemaError(
                f"a column of type {column.type} cannot be written to {sink}; leave it out, or "
                "convert it with columns in [source]"
            )

    return f"{sink} cannot hold its type", check


def _outside(column: pa.Array, low: int, high: int) -> Mask | None:
    """The values that are below ``low`` or above ``high``, both of them integers of 65 bits."""
    values = to_numpy(column)
    kind = np.iinfo(values.dtype)
    mask = (values < max(low, kind.min)) | (values > min(high, kind.max))
    nulls = null_mask(column)
    mask = mask if nulls is None else mask & ~nulls
    return mask if mask.any() else None


NO_NUL: ValueTest = ("the text contains a NUL character, which the sink cannot hold", _with_nul)
SIGNED: ValueTest = (
    f"the number is above {_MOST}, the greatest that the sink holds",
    _above_signed,
)
UTF8: ValueTest = ("the bytes are not UTF-8, which the sink cannot hold", _not_text)
YEARS: ValueTest = ("the time is outside the years 1 to 9999, which the sink holds", _outside_years)
