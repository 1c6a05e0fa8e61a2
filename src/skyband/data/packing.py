"""One container for snapshots and packed summaries: a JSON header and raw arrays, never pickle.

====  ============  =================================================================
at    what          how
====  ============  =================================================================
0     magic         8 bytes
8     version       uint32
12    CRC32         uint32, of all bytes that follow
16    total length  uint64
24    index length  uint64
32    index         JSON: the header, and [name, dtype, shape] of each array
…     arrays        in the order of the index, each aligned to 64 bytes
====  ============  =================================================================
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skyband.arrays import Saved, State
from skyband.data.ipc import schema_from
from skyband.errors import EngineError

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"

FORMAT_VERSION = 1

_MAGIC = b"SKYBAND\0"
_START = struct.Struct("<8sII")
_LENGTHS = struct.Struct("<QQ")
_INDEX_AT = _START.size + _LENGTHS.size
_ALIGNMENT = 64
_PLAIN = "biufmMV"
"""The kinds of dtypes that an array may have: truth values, numbers, times and bytes."""


def pack(header: Mapping[str, JSON], arrays: Saved) -> bytes:
    """Pack `header` and `arrays` into bytes. Costs one copy and one checksum.

    >>> header, arrays = unpack(pack({"k": 10}, {"scores": np.array([2.5, 1.5])}))
    >>> header, arrays["scores"].tolist()
    ({'k': 10}, [2.5, 1.5])
    """
    entries: list[JSON] = []
    pieces: list[bytes | memoryview] = []
    for name, array in arrays.items():
        if array.dtype.hasobject or array.dtype.names is not None:
            raise EngineError(
                f"array {name!r} of dtype {array.dtype} cannot be packed; keep its state in flat "
                "arrays of numbers or bytes"
            )
        entries.append([name, array.dtype.str, list(array.shape)])
        if array.nbytes:
            raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            pieces += [raw.data, bytes(_aligned(array.nbytes) - array.nbytes)]
    index = json.dumps({"header": header, "arrays": entries}, separators=(",", ":")).encode()
    gap = bytes(_aligned(_INDEX_AT + len(index)) - _INDEX_AT - len(index))
    total = _INDEX_AT + len(index) + len(gap) + sum(len(piece) for piece in pieces)
    checked = [_LENGTHS.pack(total, len(index)), index, gap, *pieces]
    checksum = 0
    for piece in checked:
        checksum = zlib.crc32(piece, checksum)
    return b"".join([_START.pack(_MAGIC, FORMAT_VERSION, checksum), *checked])


def unpack(blob: bytes | bytearray | memoryview | pa.Buffer) -> tuple[dict[str, Any], State]:
    """The inverse of `pack`; the arrays are read-only views of `blob`. Costs one checksum.

    Raises EngineError if `blob` is not a snapshot, is damaged, or has a newer format.
    """
    view = memoryview(blob).cast("B")
    if len(view) < _INDEX_AT or view[: len(_MAGIC)] != _MAGIC:
        raise EngineError(
            f"these {len(view)} bytes are not a Skyband snapshot; pass what snapshot() returned"
        )
    _, version, checksum = _START.unpack_from(view)
    if not version:
        raise EngineError("the snapshot is damaged (it has no version); use another copy")
    if version > FORMAT_VERSION:
        raise EngineError(
            f"the snapshot has format {version} and this version of Skyband reads up to "
            f"{FORMAT_VERSION}; upgrade skyband to read it"
        )
    total, index_length = _LENGTHS.unpack_from(view, _START.size)
    if total != len(view):
        raise EngineError(
            f"the snapshot should have {total} bytes but has {len(view)}; bytes were cut off or "
            "added, so use another copy"
        )
    if zlib.crc32(view[_START.size :]) != checksum:
        raise EngineError("the snapshot is damaged (its checksum differs); use another copy")
    try:
        return _unpacked(_start_aligned(view), index_length)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise EngineError(
            f"the snapshot's index cannot be read ({error}); take a new snapshot"
        ) from error


def _unpacked(view: NDArray[np.uint8], index_length: int) -> tuple[dict[str, Any], State]:
    index = json.loads(view[_INDEX_AT : _INDEX_AT + index_length].tobytes())
    position = _aligned(_INDEX_AT + index_length)
    arrays: State = {}
    for name, code, shape in index["arrays"]:
        dtype = _dtype(code)
        if not all(type(each) is int and each >= 0 for each in shape) or name in arrays:
            raise ValueError(f"array {name!r} has shape {shape}, or is there twice")
        size = math.prod(shape) * dtype.itemsize
        if not isinstance(name, str) or position + size > len(view):
            raise ValueError(f"array {name!r} of shape {shape} has no place in it")
        arrays[name] = array = np.ndarray(tuple(shape), dtype, view, position)
        if dtype.kind == "b" and (array.view(np.uint8) > 1).any():
            raise ValueError(f"array {name!r} has truth values other than 0 and 1")
        array.flags.writeable = False
        position += _aligned(size)
    if not isinstance(index["header"], dict):
        raise TypeError("the header is no object")
    return index["header"], arrays


def _dtype(code: Any) -> np.dtype[Any]:
    """The dtype of that name, if its values are plain bytes; others are addresses to numpy."""
    dtype = np.dtype(code) if isinstance(code, str) else None
    if dtype is None or dtype.kind not in _PLAIN or dtype.str != code or not dtype.itemsize:
        raise ValueError(f"no array can have dtype {code!r}")
    return dtype


def schema_to_array(schema: pa.Schema) -> NDArray[np.uint8]:
    """A schema, with its metadata, as an array that can be packed."""
    return np.frombuffer(schema.serialize(), np.uint8).copy()


def schema_from_array(array: NDArray[np.uint8]) -> pa.Schema:
    """The inverse of `schema_to_array`."""
    try:
        return schema_from(np.ascontiguousarray(array))
    except (pa.ArrowException, OSError) as error:
        raise EngineError(
            f"the schema in the snapshot cannot be read ({error}); take a new snapshot"
        ) from error


def _start_aligned(view: memoryview) -> NDArray[np.uint8]:
    """The bytes, copied if they are not aligned to 16 bytes, since kernels then read slowly."""
    octets = np.frombuffer(view, np.uint8)
    return octets if octets.ctypes.data % 16 == 0 else octets.copy()


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT


def prefixed(prefix: str, arrays: Saved) -> State:
    """The arrays, with ``prefix`` put in front of their names."""
    return {f"{prefix}{name}": value for name, value in arrays.items()}


def under(arrays: Saved, prefix: str) -> State:
    """The arrays whose names begin with ``prefix``; the prefix is removed from their names."""
    return {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}
