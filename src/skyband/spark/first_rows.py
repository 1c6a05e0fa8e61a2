"""A look at the rows of a query's first batch before it starts, to choose the number of shards.

    files that workers read    some rows of the newest file, and the bytes of all files
    a batch DataFrame          Spark's estimate of its size; if it is large, also some of its rows
    another stream             cannot be looked at

What is small needs one shard, whatever its rows are like, so nothing of it is read.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import partial
from typing import Any

import pyarrow as pa

from skyband.spark.file_source import ENOUGH, WorkerFiles, is_small, rows_of_files
from skyband.spark.locations import newest_here
from skyband.spark.metrics import log
from skyband.spark.plan import BoardPlan
from skyband.spark.sessions import cores_of, local_cores
from skyband.spark.sharding import FirstRows, looked_split
from skyband.spark.worker_read import WorkerRead

_ALL = 1 << 30
_UNITS = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40, "PiB": 50}
_UNKNOWN = 1 << 50
"""A size that Spark gives when it does not know; larger ones are not believed either."""
_CHEAP = ("Project", "Filter", "Relation", "LocalRelation", "Range", "SubqueryAlias")
"""Parts of a plan of which some rows cost little more than those rows."""


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


# A batch DataFrame ------------------------------------------------------------------------------


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
