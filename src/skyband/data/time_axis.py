"""Event time as integers: microseconds since the epoch, or the values of an integer column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Ints, Mask
from skyband.data.columns import from_numpy, mask_of, native_dtype, to_numpy
from skyband.data.memo import once
from skyband.errors import SchemaError
from skyband.panes import NO_START
from skyband.window import CountWindow, Window

MOMENT = pa.timestamp("us", tz="UTC")
_MOST = np.iinfo(np.int64).max


class TimeAxis:
    """How one time column is read: as ticks for panes, as native values for the order of rows.

    Naive timestamps and dates are taken as UTC. Microseconds and 64-bit integers are not copied.
    """

    def __init__(self, name: str, kind: pa.DataType, window: Window) -> None:
        self.name = name
        self.kind = kind
        self.integer = pa.types.is_integer(kind)
        moment = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
        if not (self.integer or moment):
            raise SchemaError(
                f"time column {name!r} has type {kind}; it must be a timestamp, a date or an "
                "integer; for text give time_format='%d.%m.%Y %H:%M' or 'iso', for seconds since "
                "1970 time_unit='s'"
            )
        if not isinstance(window, CountWindow):
            if self.integer and not window.integer:
                raise SchemaError(
                    f"time column {name!r} holds integers ({kind}) but the window is given in "
                    "durations; give its size and slide as integers, or, for seconds since 1970, "
                    "time_unit='s'"
                )
            if moment and window.integer:
                raise SchemaError(
                    f"time column {name!r} holds {kind} but the window is given in integers; "
                    "give durations such as '10 minutes'"
                )

    @property
    def are_ticks(self) -> bool:
        """Whether the column's values are ticks as they are."""
        micros = pa.types.is_timestamp(self.kind) and self.kind.unit == "us"
        return micros or bool(pa.types.is_int64(self.kind))

    def native(self, column: pa.Array | Array) -> Ints:
        """A column's own values as integers, by which rows are ordered in time."""
        values = column if isinstance(column, np.ndarray) else to_numpy(column)
        if pa.types.is_uint64(self.kind):
            return np.minimum(values, np.uint64(_MOST)).astype(np.int64)
        return values.astype(np.int64, copy=False)

    def ticks(self, column: pa.Array | Array) -> Ints:
        """Times in the window's unit, for finding panes. Clipped to the range of 64 bits."""
        return native_ticks(self.native(column), self.kind)

    def ticks_of(self, column: pa.Array) -> tuple[Ints, Mask | None]:
        """Ticks of a column that may hold nulls, and which rows have a time (None: all of them)."""
        return once(f"ticks {self.integer}", column, lambda: self._ticks_of(column))

    def _ticks_of(self, column: pa.Array) -> tuple[Ints, Mask | None]:
        if not column.null_count:
            return self.ticks(column), None
        timed = mask_of(column.is_valid())
        ticks = np.zeros(len(column), np.int64)
        ticks[timed] = self.ticks(column.drop_null())
        return ticks, timed


def native_ticks(native: Ints, kind: pa.DataType) -> Ints:
    """Native values of a time column as ticks. Clipped to the range of 64 bits."""
    if pa.types.is_integer(kind) or (pa.types.is_timestamp(kind) and kind.unit == "us"):
        return native
    if pa.types.is_date32(kind):
        return native * 86_400_000_000
    if pa.types.is_date64(kind):
        return _scaled(native, 1_000)
    if kind.unit == "ns":
        return np.asarray(np.floor_divide(native, 1000))
    return _scaled(native, 1_000_000 if kind.unit == "s" else 1_000)


def _scaled(values: Ints, scale: int) -> Ints:
    return np.clip(values, -(_MOST // scale), _MOST // scale) * scale


def edge_type(window: Window, axes: Sequence[TimeAxis]) -> pa.DataType:
    """The type of window starts and ends: int64, or microseconds in the window's zone.

    If the window has none: in the time column's. Dates and naive timestamps then give edges without
    a zone. With several sources the first decides.
    """
    if isinstance(window, CountWindow) or window.integer:
        return pa.int64()
    if window.zone is not None:
        return pa.timestamp("us", window.zone)
    kind = axes[0].kind
    return pa.timestamp("us", kind.tz if pa.types.is_timestamp(kind) else None)


def from_native(values: Ints, kind: pa.DataType) -> pa.Array:
    """The inverse of ``TimeAxis.native``: the values in the type of their column."""
    dtype = native_dtype(kind)
    assert dtype is not None
    return from_numpy(values.astype(dtype, copy=False), kind)


def window_column(values: Ints, kind: pa.DataType) -> pa.Array:
    """Window starts or ends as a column of an answer; a window without a start has a null."""
    if len(values) and values[0] == NO_START:
        return pa.nulls(len(values), kind)
    return from_numpy(values, kind)


def window_value(value: int, kind: pa.DataType) -> Any:
    """One window start or end as a Python value; None for a window without a start."""
    return None if value == NO_START else pa.scalar(value, kind).as_py()
