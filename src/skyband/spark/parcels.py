"""Runs as bytes between processes: group codes are a process's own, so the keys travel along."""

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

__all__ = ["by_bucket", "pack_runs", "unpack_runs"]

Ints = npt.NDArray[np.int64]


def pack_runs(runs: Runs, groups: GroupTable, **extra: npt.NDArray[Any]) -> bytes:
    """Runs and the keys of their groups; ``extra`` arrays ride along."""
    if not groups.names:
        return runs.pack(**extra)
    codes, dense = np.unique(runs.group, return_inverse=True)
    keys = pa.table(groups.gather(codes), names=[str(i) for i in range(len(groups.names))])
    local = Runs(runs.stamp, dense.astype(np.int32), runs.parts, runs.scalars)
    return local.pack(keys=table_to_array(keys), **extra)


def unpack_runs(blob: bytes, groups: GroupTable) -> tuple[Runs, dict[str, npt.NDArray[Any]]]:
    """The runs in this process's group codes, and what rode along."""
    runs, extra = Runs.unpack(bytearray(blob))
    _make_writable(runs)
    if not groups.names:
        return runs, extra
    keys = table_from(extra.pop("keys"))
    columns = [column.combine_chunks() for column in keys.columns]
    codes = groups.encode(columns) if keys.num_rows else np.zeros(0, np.int32)
    return Runs(runs.stamp, codes[runs.group], runs.parts, runs.scalars), extra


def _make_writable(runs: Runs) -> None:
    """Give arrays the type that embedded ones have: read-only ones would be compiled for apart."""
    columns = [column for part in runs.parts.values() for column in part.columns.values()]
    offsets = [part.offsets for part in runs.parts.values()]
    for array in [runs.stamp, runs.group, *runs.scalars.values(), *offsets, *columns]:
        if isinstance(array, np.ndarray):
            array.flags.writeable = True


def by_bucket(runs: Runs, groups: GroupTable, buckets: int) -> Iterator[tuple[int, Runs]]:
    """Runs by the bucket of their group, the same in every process."""
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
    """Ordered runs by their stamp."""
    cuts: Sequence[Any] = [0, *(np.flatnonzero(np.diff(runs.stamp)) + 1), len(runs)]
    for low, high in pairwise(cuts):
        if high > low:
            yield int(runs.stamp[low]), runs.slice(int(low), int(high))
