"""Event time of any Arrow type as integers: microseconds since the epoch, or the column's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.columns import to_numpy
from skyband.errors import DataError, SchemaError
from skyband.window import CountWindow, TimeWindow, Window

__all__ = ["MOMENT", "TimeAxis", "from_native", "window_column", "window_value"]

Ints = npt.NDArray[np.int64]
MOMENT = pa.timestamp("us", tz="UTC")


class TimeAxis:
    """How one time column is read: ticks for panes, native values for the order of rows.

    Naive timestamps and dates count as UTC. Microseconds and integers of 64 bits are not copied.
    """

    def __init__(self, name: str, kind: pa.DataType, window: Window) -> None:
        self.name = name
        self.kind = kind
        self.integer = pa.types.is_integer(kind)
        moment = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
        if not (self.integer or moment):
            raise SchemaError(
                f"time column {name!r} has type {kind}; it must be a timestamp, a date or an "
                "integer (cast text with pyarrow.compute.strptime, floats to integers)"
            )
        if isinstance(window, TimeWindow):
            if self.integer and not window.integer:
                raise SchemaError(
                    f"time column {name!r} holds integers ({kind}) but the window is given in "
                    "durations; give its size and slide as integers, or cast it to a timestamp"
                )
            if moment and window.integer:
                raise SchemaError(
                    f"time column {name!r} holds {kind} but the window is given in integers; "
                    "give durations such as '10 minutes'"
                )

    def native(self, column: pa.Array) -> Ints:
        """Values that order the rows of one column by time."""
        if pa.types.is_uint64(self.kind):
            return np.asarray(self._cast(column, pa.int64()))
        return to_numpy(column).astype(np.int64, copy=False)

    def ticks(self, column: pa.Array) -> Ints:
        """Values that panes are cut from."""
        if self.integer:
            return self.native(column)
        if pa.types.is_timestamp(self.kind) and self.kind.unit == "us":
            return to_numpy(column)
        if pa.types.is_timestamp(self.kind) and self.kind.unit == "ns":
            return np.asarray(np.floor_divide(to_numpy(column), 1000))
        if pa.types.is_date32(self.kind):
            return to_numpy(column).astype(np.int64) * 86_400_000_000
        if pa.types.is_date64(self.kind):
            return to_numpy(column) * 1000
        zone = self.kind.tz
        return to_numpy(self._cast(column, pa.timestamp("us", tz=zone)))

    def _cast(self, column: pa.Array, kind: pa.DataType) -> pa.Array:
        try:
            return column.cast(kind)
        except pa.ArrowInvalid as problem:
            raise DataError(
                f"time column {self.name!r} holds a value out of range: {problem}"
            ) from None


def from_native(values: Ints, kind: pa.DataType) -> pa.Array:
    """Values that ``TimeAxis.native`` gave, as the column they came from."""
    narrow = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    return pa.array(values).cast(narrow).cast(kind)


def window_column(values: Ints, window: Window) -> pa.Array:
    """Window starts or ends as an answer shows them."""
    plain = isinstance(window, CountWindow) or window.integer
    return pa.array(values) if plain else pa.array(values).view(MOMENT)


def window_value(value: int, window: Window) -> Any:
    """One window start or end as Python shows it."""
    plain = isinstance(window, CountWindow) or window.integer
    return value if plain else pa.scalar(value, MOMENT).as_py()
