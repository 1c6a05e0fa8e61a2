"""What travels between processes: runs as bytes, and the columns of the rows that hold them.

Group codes differ from process to process, so the bytes of runs include the group keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.contract.runs import Runs
from skyband.data.group_table import GroupTable
from skyband.data.ipc import table_from, table_to_array
from skyband.data.keys import hash_columns
from skyband.data.time_axis import MOMENT
from skyband.spark.compact import pack_compact, unpack_compact

__all__ = ["by_bucket", "pack_runs", "schema_of", "slices", "unpack_runs"]

_TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "string": pa.string(),
    "timestamp": MOMENT,
}


def schema_of(ddl: str) -> pa.Schema:
    """The Arrow schema of columns that are written as Spark writes them.

    >>> schema_of("bucket int, payload binary").names
    ['bucket', 'payload']
    """
    columns = [column.split() for column in ddl.split(",")]
    return pa.schema([(name, _TYPES[kind]) for name, kind in columns])


def pack_runs(runs: Runs, groups: GroupTable, **extra: npt.NDArray[Any]) -> bytes:
    """Pack runs with the keys of their groups; ``extra`` arrays are packed with them."""
    if not groups.names:
        return pack_compact(runs, **extra)
    codes, dense = np.unique(runs.group, return_inverse=True)
    keys = pa.table(groups.gather(codes), names=[str(i) for i in range(len(groups.names))])
    local = Runs(runs.stamp, dense.astype(np.int32), runs.parts, runs.scalars)
    return pack_compact(local, keys=table_to_array(keys), **extra)


def unpack_runs(blob: bytes, groups: GroupTable) -> tuple[Runs, dict[str, npt.NDArray[Any]]]:
    """Unpack runs, with the group codes of this process, and the extra arrays."""
    runs, extra = unpack_compact(blob)
    _make_writable(runs)
    if not groups.names:
        return runs, extra
    keys = table_from(extra.pop("keys"))
    columns = [column.combine_chunks() for column in keys.columns]
    codes = groups.encode(columns) if keys.num_rows else np.zeros(0, np.int32)
    return Runs(runs.stamp, codes[runs.group], runs.parts, runs.scalars), extra


def _make_writable(runs: Runs) -> None:
    """Make arrays writable, so that kernels are not compiled again for read-only arrays."""
    columns = [column for part in runs.parts.values() for column in part.columns.values()]
    offsets = [part.offsets for part in runs.parts.values()]
    for array in [runs.stamp, runs.group, *runs.scalars.values(), *offsets, *columns]:
        if isinstance(array, np.ndarray):
            array.flags.writeable = True


def by_bucket(runs: Runs, groups: GroupTable, buckets: int) -> Iterator[tuple[int, Runs]]:
    """Split runs by the bucket of their group; a group's bucket is the same in every process."""
    if not groups.names or buckets == 1:
        yield 0, runs
        return
    codes, dense = np.unique(runs.group, return_inverse=True)
    own = (hash_columns(groups.gather(codes)) % np.uint64(buckets)).astype(np.int64)[dense]
    order = np.argsort(own, kind="stable")
    cuts = np.flatnonzero(np.diff(own[order])) + 1
    for members in np.split(order, cuts):
        if len(members):
            yield int(own[members[0]]), runs.take(members)


def slices(runs: Runs) -> Iterator[tuple[int, Runs]]:
    """Split ordered runs by stamp."""
    cuts: Sequence[Any] = [0, *(np.flatnonzero(np.diff(runs.stamp)) + 1), len(runs)]
    for low, high in pairwise(cuts):
        if high > low:
            yield int(runs.stamp[low]), runs.slice(int(low), int(high))
