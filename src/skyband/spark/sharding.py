"""How many shards the state of a query needs: one, until its summaries are too much for one key.

    bytes of summaries per batch    one key takes in 20 MB within a second or so
    score top-k    20 M rows  3 kB  ─► 1 shard
    exact counts   60 M rows 84 MB  ─► 5 shards
    fused top-k    4 M rows  29 MB  ─► 2 shards, but no more than cores on one machine

The bytes are an estimate from some rows of the first batch. The number becomes part of the state,
so a checkpoint keeps the number that it was started with.

    files that workers read    some rows of the newest file, and the bytes of all files
    a batch DataFrame          Spark's estimate of its size; if it is large, also some of its rows
    another stream             cannot be looked at

What is small needs one shard, whatever its rows are like, so nothing of it is read.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet

from skyband.data.letters import UNREAD
from skyband.engine.intake import Intake
from skyband.engine.per_group import make_synopsis
from skyband.errors import SkybandError
from skyband.query.base import Query
from skyband.spark.file_source import WorkerFiles
from skyband.spark.file_units import FileForm, read_units
from skyband.spark.locations import newest_here, open_location
from skyband.spark.metrics import log
from skyband.spark.plan import BoardPlan, QueryPlan, buckets_of
from skyband.spark.sessions import cores_of, local_cores
from skyband.spark.summarise import Summariser
from skyband.spark.worker_read import WorkerRead

KEY_BYTES = 20_000_000
"""Bytes of summaries that one state key takes in within a second or so."""
_MOST = 64
"""More shards than this have to be asked for."""
ENOUGH = 1 << 17
"""Rows that are looked at."""
_TIMES = 8
"""Summaries are never so many times as large as the rows, even if those are compressed."""
_ALL = 1 << 30
_UNITS = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40, "PiB": 50}
_UNKNOWN = 1 << 50
"""A size that Spark gives when it does not know; larger ones are not believed either."""
_CHEAP = ("Project", "Filter", "Relation", "LocalRelation", "Range", "SubqueryAlias")
"""Parts of a plan of which some rows cost little more than those rows."""


class FirstRows(NamedTuple):
    """What is known of a source's first batch: some of its rows, and how many there are."""

    some: pa.Table
    rows: int


class ShardChoice(NamedTuple):
    """A number of shards, and why it was chosen."""

    shards: int
    why: str


def choose_shards(summaries: float, buckets: int, cores: int | None = None) -> ShardChoice:
    """The number of shards for so many bytes of summaries per batch.

    ``buckets`` are the state keys that groups are spread over anyway. ``cores`` are those of a
    single machine, where further shards would only take turns; None for a cluster.

    >>> choose_shards(3_000, buckets=1).shards
    1
    >>> choose_shards(84_000_000, buckets=1)
    ShardChoice(shards=5, why='about 84 MB of summaries in the first batch, 20 MB per state key')
    >>> choose_shards(84_000_000, buckets=16).shards
    1
    >>> choose_shards(720_000_000, buckets=1, cores=4).why
    'about 720 MB of summaries in the first batch, 20 MB per state key, at most one per core'
    """
    needed = max(1, math.ceil(summaries / (KEY_BYTES * buckets)))
    most = min(_MOST, cores or _MOST)
    why = f"about {megabytes(summaries)} of summaries in the first batch"
    if needed > 1:
        why += f", {megabytes(KEY_BYTES)} per state key"
    if needed > most:
        why += ", at most one per core" if most == cores else f", at most {_MOST}"
    return ShardChoice(min(needed, most), why)


def looked_split(
    queries: Sequence[Query],
    looks: Mapping[str, Callable[[], FirstRows | str]],
    cores: Callable[[], int | None],
) -> ShardChoice:
    """As ``split_of``; each look gives the first rows of a source, or why there are none."""
    first = {}
    for name, look in looks.items():
        try:
            rows = look()
        except Exception:  # noqa: BLE001 - reading the rows will say what is wrong
            rows = "the first rows could not be read"
        if isinstance(rows, str):
            return ShardChoice(1, rows)
        first[name] = rows
    return split_of(queries, first, cores())


def split_of(
    queries: Sequence[Query], first: Mapping[str, FirstRows], cores: int | None = None
) -> ShardChoice:
    """The number of shards for queries that share a read: what the most demanding one needs."""
    if not any(each.rows for each in first.values()):
        return ShardChoice(1, "there are no rows to look at yet")
    choices = []
    for query in queries:
        try:
            summaries = summary_bytes(query, first)
        except (SkybandError, pa.ArrowException) as problem:
            return ShardChoice(1, f"the first rows could not be summarised: {problem}")
        choices.append(choose_shards(summaries, buckets_of(query), cores))
    return max(choices, key=lambda each: each.shards)


def summary_bytes(query: Query, first: Mapping[str, FirstRows]) -> float:
    """Bytes of the summaries of a first batch, from those of some of its rows."""
    schemas = {name: each.some.schema for name, each in first.items()}
    intake = Intake(query, make_synopsis(query))
    for name, schema in schemas.items():
        intake.bind(name, schema)
    bound = {name: schema.remove_metadata() for name, schema in intake.bound.items()}
    board = BoardPlan({"": QueryPlan(query, bound, 1, "skip", False, streaming=True)}, alone=True)
    (label,) = board.labels
    total = 0.0
    for source, each in first.items():
        if each.some.num_rows:
            worker = Summariser(board, label, source)
            worker.summarise(each.some)
            packed = worker.flush().column("payload")
            size = sum(len(blob.as_buffer()) for blob in packed if blob.is_valid)
            total += size * each.rows / each.some.num_rows
    return total


def megabytes(value: float) -> str:
    """A number of bytes, roughly.

    >>> megabytes(84_123_456), megabytes(12)
    ('84 MB', '1 MB or less')
    """
    return f"{value / 1e6:,.0f} MB" if value >= 1e6 else "1 MB or less"


# A look at the first batch of ``rank`` ------------------------------------------------------------


def auto_shards(frames: Mapping[str, Any], plan: BoardPlan) -> int:
    """The number of shards for ``rank`` without ``shards``.

    A stream takes one, because its checkpoint is known only when it starts, and the number must
    not change from then on; if it needs more, a line in the log says how many.
    """
    session = next(iter(frames.values())).sparkSession
    queries = [each.query for each in plan.plans.values()]
    looks = {name: partial(_first, frame, plan.schemas[name]) for name, frame in frames.items()}
    split = looked_split(queries, looks, partial(_cores, session))
    if split.shards == 1:
        return 1
    if not plan.first.streaming:
        log.info("%d shards: %s", split.shards, split.why)
        return split.shards
    log.warning(
        "%s; one shard is used. Before the checkpoint is first used, give shards=%d",
        split.why,
        split.shards,
    )
    return 1


def _cores(session: Any) -> int | None:
    """The cores of a session that runs on one machine; None for a cluster."""
    try:
        return local_cores(str(session.conf.get("spark.master")))
    except Exception:  # noqa: BLE001 - a remote session may not tell; the error type varies
        return cores_of(session)


def _first(whole: Any, needed: pa.Schema) -> FirstRows | str:
    """Some rows of a source, or why there are none."""
    frame = whole.select(*(f"`{name}`" for name in needed.names))
    if isinstance(frame, WorkerFiles):
        uris = None if frame.listing else newest_here(frame.path, _ALL)
        if uris is None:
            return "only Spark can list the files"
        return rows_of_files(frame.form, frame.wanted, uris[: frame.files_per_batch])
    if isinstance(frame, WorkerRead) or frame.isStreaming:
        return "the source cannot be looked at before the query starts"
    return _rows_of_frame(frame)


def is_small(size: float) -> str | None:
    """Why rows of so many bytes need one shard, if they do."""
    if size * _TIMES >= KEY_BYTES:
        return None
    return f"the first batch has only {megabytes(size)}"


def rows_of_files(form: FileForm, types: pa.Schema, uris: Sequence[str]) -> FirstRows | str:
    """Some rows of the first file, and the rows of all of them by the size of that one."""
    if not uris:
        return "there are no files yet"
    sizes = [_size(uri) for uri in uris]
    small = is_small(sum(sizes))
    if small is not None:
        return small
    some, share = _some_rows(form, types, uris[0])
    return FirstRows(some, round(some.num_rows * share * sum(sizes) / max(1, sizes[0])))


def _some_rows(form: FileForm, types: pa.Schema, uri: str) -> tuple[pa.Table, float]:
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


def _rows_of_frame(frame: Any) -> FirstRows | str:
    """Some rows, and how many there may be."""
    output = io.StringIO()
    with redirect_stdout(output):
        frame.explain("cost")
    size, rows = told_size(output.getvalue())
    if size is None:
        return "Spark does not know how large the input is, or some of its rows cost much"
    small = is_small(size)
    if small is not None:
        return small
    some = frame.limit(ENOUGH).toArrow()
    if rows is None:
        rows = size // (8 + sum(_width(field.type) for field in some.schema))
    return FirstRows(some, max(rows, some.num_rows))


def told_size(plan: str) -> tuple[int | None, int | None]:
    r"""Bytes and rows by the statistics of a plan; None if unknown, or if some rows cost much.

    >>> told_size(
    ...     "== Optimized Logical Plan ==\n"
    ...     "Project [ts#1], Statistics(sizeInBytes=1.5 MiB)\n"
    ...     "+- Relation [ts#1,n#2] parquet, Statistics(sizeInBytes=3.0 MiB)\n\n== Physical"
    ... )
    (1572864, None)
    >>> told_size("== Optimized Logical Plan ==\nSort [n], true, Statistics(sizeInBytes=3.0 B)")
    (None, None)
    """
    lines = plan.partition("== Optimized Logical Plan ==\n")[2].partition("\n\n")[0].splitlines()
    for line in lines:
        node = re.match(r"[\s+:|-]*(\w+)", line)
        if node is None or node[1] not in _CHEAP:
            return None, None
    first = lines[0] if lines else ""
    match = re.search(r"sizeInBytes=([\d.]+) (\w+)(?:, rowCount=([\d.E+]+))?", first)
    if match is None or match[2] not in _UNITS:
        return None, None
    size = int(float(match[1]) * (1 << _UNITS[match[2]]))
    if size >= _UNKNOWN:
        return None, None
    return size, None if match[3] is None else int(float(match[3]))


def _width(kind: pa.DataType) -> int:
    """The bytes that Spark counts for a value."""
    try:
        return kind.bit_width // 8 or 1
    except ValueError:
        return 20
