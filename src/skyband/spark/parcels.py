"""What travels between processes: runs as bytes, in few of them.

Group codes differ from process to process, so the bytes of runs include the group keys. Runs are
made smaller, for the exchange and the state:

    column          held      sent
    time            int64     differences of two bytes, if rows come in the order of time
    id, item        int64     as many bytes as the range of the values needs, from their least one
    hash of the id  uint64    nothing: the receiver computes it, if the id is an integer
    count           int64     one or two bytes, if counts are small
    value           float64   float64

What is left is compressed with lz4, if that makes it smaller. Small runs are packed as they are.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.arrays import Array, State
from skyband.contract.runs import Part, Runs
from skyband.data.columns import from_numpy, native_dtype, to_numpy
from skyband.data.flat_state import require
from skyband.data.group_table import GroupTable
from skyband.data.ipc import table_from, table_to_array
from skyband.data.keys import hash_array
from skyband.data.packing import pack, schema_from_array, schema_to_array, unpack
from skyband.data.time_axis import MOMENT

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


# Runs in few bytes --------------------------------------------------------------------------------


_MAGIC = b"SKYLZ4\0\0"
_LENGTH = struct.Struct("<Q")
_SMALL = 4096
"""Bytes below which nothing is gained."""
_WIDTHS = (np.uint8, np.uint16, np.uint32)
_KINDS = "types"


def pack_compact(runs: Runs, **extra: Array) -> bytes:
    """Runs as bytes, together with the ``extra`` arrays."""
    if runs.nbytes < _SMALL:
        return runs.pack(**extra)
    plain, form = _plain(runs)
    header, arrays = plain.flat()
    narrow: dict[str, Any] = {}
    for name, array in arrays.items():
        narrower = _narrow(array)
        if narrower is not None:
            arrays[name], narrow[name] = narrower
    extra = extra | ({_KINDS: schema_to_array(form["types"])} if len(form["types"]) else {})
    header |= {"extra": list(extra), "narrow": narrow}
    header["compact"] = {"columns": form["columns"], "hashed": form["hashed"]}
    blob = pack(header, arrays | {f"extra/{name}": value for name, value in extra.items()})
    small = pa.compress(blob, codec="lz4", asbytes=True)
    if len(small) > len(blob) * 7 // 8:
        return blob
    return _MAGIC + _LENGTH.pack(len(blob)) + bytes(small)


def unpack_compact(blob: bytes) -> tuple[Runs, State]:
    """The inverse of ``pack_compact``: the runs and the extra arrays."""
    whole = bytearray(blob) if blob[: len(_MAGIC)] != _MAGIC else _decompressed(blob)
    header, arrays = unpack(whole)
    names = header["extra"]
    if "compact" not in header:
        return Runs.from_flat(header, arrays), {n: arrays[f"extra/{n}"] for n in names}
    for name, widening in header["narrow"].items():
        arrays[name] = _widened(arrays[name], *widening)
    extra = {name: arrays[f"extra/{name}"] for name in names}
    types = schema_from_array(extra.pop(_KINDS)) if _KINDS in extra else pa.schema([])
    return _typed(Runs.from_flat(header, arrays), header["compact"], types), extra


def _decompressed(blob: bytes) -> bytearray:
    start = len(_MAGIC) + _LENGTH.size
    (size,) = _LENGTH.unpack_from(blob, len(_MAGIC))
    packed = pa.py_buffer(blob).slice(start)
    return bytearray(pa.decompress(packed, decompressed_size=size, codec="lz4"))


# Columns ------------------------------------------------------------------------------------------


def _plain(runs: Runs) -> tuple[Runs, dict[str, Any]]:
    """The runs with numbers in numpy arrays and without hashes that can be computed again."""
    fields: list[pa.Field] = []
    columns: dict[str, list[str]] = {}
    hashed: dict[str, str] = {}
    parts = {}
    for name, part in runs.parts.items():
        held = dict(part.columns)
        columns[name] = list(held)
        for column, values in part.columns.items():
            numbers = None if isinstance(values, np.ndarray) else numbers_of(values)
            if numbers is not None:
                fields.append(pa.field(f"{name}/{column}", values.type))
                held[column] = numbers
                if name not in hashed and _is_hash(held.get("hash"), values):
                    hashed[name] = column
        if name in hashed:
            del held["hash"]
        parts[name] = Part(part.offsets, held)
    form = {"types": pa.schema(fields), "columns": columns, "hashed": hashed}
    return Runs(runs.stamp, runs.group, parts, runs.scalars), form


def numbers_of(values: pa.Array) -> Array | None:
    """A column of whole numbers or times as an array; None if it has another type, or nulls."""
    dtype = native_dtype(values.type)
    whole = dtype is not None and dtype.kind in "iu" and not pa.types.is_boolean(values.type)
    return to_numpy(values) if whole and not values.null_count else None


def _is_hash(known: Array | None, values: pa.Array) -> bool:
    if known is None or not pa.types.is_integer(values.type):
        return False
    return len(known) == len(values) and bool(np.array_equal(known, hash_array(values)))


def _typed(runs: Runs, form: dict[str, Any], types: pa.Schema) -> Runs:
    """The inverse of ``_plain``."""
    parts = {}
    for name, part in runs.parts.items():
        held: dict[str, Any] = {}
        for column in form["columns"][name]:
            if form["hashed"].get(name) and column == "hash":
                continue
            place = types.get_field_index(f"{name}/{column}")
            values = part[column]
            if place >= 0:
                values = from_numpy(values, types.field(place).type)
                values.validate()  # a forged type may be wider than the numbers
            held[column] = values
        if name in form["hashed"]:
            held["hash"] = hash_array(held[form["hashed"][name]])
        parts[name] = Part(part.offsets, {c: held[c] for c in form["columns"][name]})
    return Runs(runs.stamp, runs.group, parts, runs.scalars)


# Whole numbers ------------------------------------------------------------------------------------


def _narrow(array: Array) -> tuple[Array, list[Any]] | None:
    """Numbers in fewer bytes, and what is needed to get them back; None if there are no fewer."""
    if array.dtype.kind not in "iu" or array.dtype.itemsize == 1 or array.ndim != 1:
        return None
    if len(array) < 16:
        return None
    least, width = narrowest(array)
    steps = np.diff(array) if width > 1 and array.dtype.kind == "i" else array[:0]
    if len(steps):
        first, narrower = narrowest(steps)
        if narrower < width and narrower < array.dtype.itemsize:
            small = (steps - steps.dtype.type(first)).astype(f"u{narrower}")
            return small, [array.dtype.str, first, int(array[0])]
    if width >= array.dtype.itemsize:
        return None
    small = (array - array.dtype.type(least)).astype(f"u{width}")
    return small, [array.dtype.str, least, None]


def narrowest(array: Array) -> tuple[int, int]:
    """The least number, and the bytes that the others need from there."""
    least, most = int(array.min()), int(array.max())
    for width in _WIDTHS:
        if most - least <= np.iinfo(width).max:
            return least, int(np.dtype(width).itemsize)
    return least, 8


def _widened(small: Array, kind: str, least: int, first: int | None) -> Array:
    """The inverse of ``_narrow``."""
    dtype = np.dtype(kind)
    require(dtype.kind in "iu", f"whole numbers of type {kind}")
    if first is None:
        wide: Array = small.astype(dtype)
        wide += dtype.type(least)
        return wide
    whole = np.empty(len(small) + 1, dtype)
    whole[0] = first
    whole[1:] = small
    whole[1:] += dtype.type(least)
    return np.cumsum(whole, out=whole)
