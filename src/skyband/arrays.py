"""Types of numpy arrays, under the names that the code uses; every module may import them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_WORTH_POOLING = 1 << 20

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]
"""Dense numbers of groups, items or objects."""
Hashes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
State = dict[str, Array]
"""A state that was just written: flat arrays by name."""
Saved = Mapping[str, Array]
"""A state that is to be restored; its arrays may be read-only."""


def grown(array: Array, length: int, fill: float = 0) -> Array:
    """The array itself if it is long enough, otherwise a copy of at least twice its length.

    The new entries hold ``fill``.
    """
    if length <= len(array):
        return array
    longer = np.zeros((max(length, 2 * len(array)), *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    if fill:
        longer[len(array) :] = fill
    return longer


def pooled(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """A new array, not set to anything; a large one lies in Arrow's memory pool.

    The pool keeps what was freed. numpy returns large arrays to the system, so an array that is
    made anew for each batch would be paged in each time, which can take longer than filling it.
    """
    dtype = np.dtype(dtype)
    size = dtype.itemsize * (shape if isinstance(shape, int) else prod(shape))
    if size < _WORTH_POOLING:
        return np.empty(shape, dtype)
    return np.frombuffer(pa.allocate_buffer(size), dtype).reshape(shape)


def copied(array: Array) -> Array:
    """A copy in a ``pooled`` array."""
    copy = pooled(array.shape, array.dtype)
    copy[...] = array
    return copy
