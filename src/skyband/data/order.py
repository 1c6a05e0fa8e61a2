"""The one total order.

Rows: score best first, then the later row, then the smaller id, then the larger probability.
Objects and items: score or count best first, then the smaller error, then the smaller id.
Rows that are equal in all of that and differ only in ``keep``: the smaller hash of the kept values.

Scores of any numeric type become *sortable* integers (greater is better), so that kernels compare
plain ``int64`` values for every column type. The order is exact and includes infinities.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.arrays import Array, Floats, Hashes, Ints, pooled
from skyband.data.columns import from_numpy, native_dtype, to_numpy

_TOP_BIT = np.uint64(1 << 63)
_LOW_BITS = np.int64((1 << 63) - 1)


def sortable(values: Array, largest: bool = True) -> Ints:
    """Integers in the order of the values; with ``largest=False`` in the reverse order."""
    if values.dtype.kind == "f":
        # Adding zero turns -0.0 into 0.0: they are equal, so their bits must be equal too.
        keys = _fold_sign((values.astype(np.float64, copy=False) + 0.0).view(np.int64))
        return keys if largest else np.invert(keys, out=keys)
    if values.dtype == np.uint64:
        keys = (values ^ _TOP_BIT).view(np.int64)
    else:
        keys = values.astype(np.int64, copy=False)
    return keys if largest else ~keys


def _fold_sign(bits: Ints) -> Ints:
    """Map the bits of doubles to integers in the same order. The function is its own inverse."""
    folded: Ints = np.right_shift(bits, 63, out=pooled(bits.shape, np.int64))
    folded &= _LOW_BITS
    folded ^= bits
    return folded


def unsortable(keys: Ints, dtype: npt.DTypeLike, largest: bool = True) -> Array:
    """The inverse of ``sortable``."""
    dtype = np.dtype(dtype)
    keys = keys if largest else ~keys
    if dtype.kind == "f":
        return _fold_sign(keys).view(np.float64).astype(dtype, copy=False)
    if dtype == np.uint64:
        return keys.view(np.uint64) ^ _TOP_BIT
    return keys.astype(dtype, copy=False)


def scores_of(keys: Ints, kind: pa.DataType, largest: bool = True) -> pa.Array:
    """The inverse of ``sortable``, as a column of the scores' own type."""
    dtype = native_dtype(kind)
    assert dtype is not None
    return from_numpy(unsortable(keys, dtype, largest), kind)


def id_ranks(ids: pa.Array) -> Ints:
    """Integers in the order of the ids (text by code points, numbers by value); nulls last."""
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    kind = ids.type
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind) and not ids.null_count:
        return to_numpy(ids.cast(pa.int64()))
    if pa.types.is_string_view(kind):
        ids = ids.cast(pa.string())
    elif pa.types.is_binary_view(kind):
        ids = ids.cast(pa.binary())
    elif pa.types.is_boolean(kind):
        ids = ids.cast(pa.uint8())
    elif pa.types.is_float16(kind):
        ids = ids.cast(pa.float32())  # Arrow cannot sort halves
    elif pa.types.is_fixed_size_binary(kind):
        ids = ids.cast(pa.binary())
    return to_numpy(pc.rank(ids, tiebreaker="dense")).astype(np.int64)


def is_sorted(values: Ints) -> bool:
    """Whether no value is less than the one before it."""
    return bool((values[1:] >= values[:-1]).all())


def row_order(
    score: Ints,
    tie: Ints,
    ids: pa.Array | None = None,
    probability: Floats | None = None,
    segment: Array | None = None,
    kept: Hashes | None = None,
) -> npt.NDArray[np.intp]:
    """Positions of rows, best first; if ``segment`` is given, by segment first.

    ``score`` comes from ``sortable``; ``tie`` grows with time (with arrival, for count windows).
    ``kept`` are hashes of the kept columns, which decide between rows that are otherwise equal.
    """
    keys: list[Array] = [~tie, ~score]
    if ids is not None:
        keys.insert(0, id_ranks(ids))
    if probability is not None:
        keys.insert(0, -probability)
    if kept is not None:
        keys.insert(0, kept)
    if segment is not None:
        keys.append(segment)
    return np.lexsort(keys)


def order_by_value(columns: list[pa.Array]) -> Ints:
    """Positions in ascending order of the columns, left to right; nulls last."""
    table = pa.table({str(i): _sorting(column) for i, column in enumerate(columns)})
    keys = [(name, "ascending") for name in table.column_names]
    return to_numpy(pc.sort_indices(table, sort_keys=keys)).astype(np.int64)


def _sorting(column: pa.Array) -> pa.Array:
    """The column in a type that Arrow can sort, with the same order."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.float32()) if pa.types.is_float16(column.type) else column
