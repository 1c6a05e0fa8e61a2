"""``where``: which rows of a source count, found for a whole batch at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import time
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.arrays import Mask
from skyband.data.columns import is_bare, mask_of, output_type, plain, to_numpy
from skyband.errors import SchemaError

__all__ = ["RowFilter"]

_FEW = 8
"""Up to this many numbers are compared one by one, which is faster than looking rows up."""


class RowFilter:
    """The rows that have one of the wanted values in each column of ``where``.

    Null matches nothing, and neither does NaN. A dictionary column is compared once per entry of
    its dictionary, not once per row.
    """

    def __init__(self, where: Mapping[str, Any], schema: pa.Schema) -> None:
        """Raises SchemaError for values that cannot be compared with their column."""
        self.values = {
            name: _values(name, wanted, schema.field(name).type) for name, wanted in where.items()
        }

    def mask(self, batch: pa.RecordBatch) -> Mask:
        """Which rows of a batch count."""
        return self.inside([batch.column(name) for name in self.values], batch.num_rows)

    def inside(self, columns: Sequence[pa.Array], rows: int) -> Mask:
        """Like ``mask``, from the columns of ``where`` in their order."""
        found = np.ones(rows, np.bool_)
        for column, values in zip(columns, self.values.values(), strict=True):
            found &= _inside(column, values)
        return found


def _inside(column: pa.Array, values: pa.Array) -> Mask:
    """Which rows of a column have one of these values."""
    if pa.types.is_dictionary(column.type):
        inside = np.append(_inside(column.dictionary, values), [False])  # the last one is for nulls
        indices = column.indices
        if indices.null_count:
            indices = pc.fill_null(indices.cast(pa.int64()), len(inside) - 1)
        return inside[to_numpy(indices)]
    if not len(values) or pa.types.is_null(column.type):
        return np.zeros(len(column), np.bool_)
    column = plain(column)
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())  # Arrow cannot compare halves
    if len(values) > (_FEW if is_bare(values.type) else 1):
        found = pc.is_in(column, value_set=values)
    else:  # several times as fast
        found = reduce(pc.or_, [pc.equal(column, value) for value in values])
        found = pc.fill_null(found, False)
    return mask_of(found)


def _values(name: str, wanted: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The wanted values in the type of their column, without those that no row can equal."""
    bare = output_type(kind)
    if isinstance(bare, pa.BaseExtensionType):
        bare = bare.storage_type
    found = []
    for value in wanted:
        try:
            found.append(None if value is None else _as(bare, value))
        except (TypeError, ValueError, ArithmeticError):
            raise SchemaError(_unlike(name, kind, value)) from None
    known = [value for value in found if value is not None]
    if pa.types.is_null(bare):
        return pa.nulls(0)
    if pa.types.is_floating(bare):
        known += [-value for value in known if value == 0]  # zeros of both signs are equal
        if pa.types.is_float16(bare):
            return pa.array(np.array(known, np.float16).astype(np.float32))
        return pa.array(known, pa.float64()).cast(bare, safe=False)
    return pa.array(known, bare)


def _as(kind: pa.DataType, value: Any) -> Any:
    """A value in the type of a column; None if no value of that type equals it.

    Raises TypeError or ValueError if the two cannot be compared.
    """
    types = pa.types
    number = isinstance(value, int | float) and not isinstance(value, bool)
    text = isinstance(value, str)
    if types.is_null(kind) or (types.is_boolean(kind) and isinstance(value, bool)):
        return value
    if number and types.is_integer(kind):
        return _whole(kind, value)
    if number and types.is_floating(kind):
        return None if math.isnan(value) else float(value)
    if number and types.is_decimal(kind):
        return _decimal(kind, value)
    if text and (kind in (pa.string(), pa.large_string())):
        return value
    if text and (kind in (pa.binary(), pa.large_binary())):
        return value.encode()
    if text and types.is_timestamp(kind):
        return _moment(kind, value)
    if text and types.is_date(kind):
        return pa.scalar(value).cast(kind).as_py()
    if text and types.is_time(kind):
        return time.fromisoformat(value)
    raise TypeError(kind)


def _whole(kind: pa.DataType, value: float) -> int | None:
    bits = kind.bit_width
    signed = pa.types.is_signed_integer(kind)
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    whole = math.isfinite(value) and value == int(value)
    return int(value) if whole and least <= value <= most else None


def _decimal(kind: pa.DataType, value: float) -> Decimal | None:
    if not math.isfinite(value):
        return None
    found = Decimal(str(value))
    try:
        pa.scalar(found, kind)
    except pa.ArrowInvalid:
        return None  # more digits than the column can hold
    return found


def _moment(kind: pa.DataType, text: str) -> pa.Scalar:
    """A timestamp from ISO 8601 text; without a zone it counts as UTC."""
    for zone in (None, "UTC"):
        try:
            ticks = pa.scalar(text).cast(pa.timestamp(kind.unit, zone)).value
        except pa.ArrowInvalid:
            continue
        return pa.scalar(ticks, pa.int64()).cast(kind)
    raise ValueError(text)


def _unlike(name: str, kind: pa.DataType, value: Any) -> str:
    hint = "give values of the column's type"
    if pa.types.is_string(output_type(kind)) and not isinstance(value, str):
        hint = f'give text, such as "{value}" (on the command line, too, in double quotes)'
    return f"where: column {name!r} of type {kind} cannot be compared with {value!r}; {hint}"
