"""Times that are written as text or as numbers since 1970: a column of them becomes timestamps.

time_format="%d.%m.%Y %H:%M"    31.12.2025 23:59    naive; with %z, in UTC
time_format="iso"               2025-12-31T23:59Z   naive, in UTC, as JSON is read
time_unit="ms"                  1767225540000       in UTC
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.columns import plain
from skyband.data.text_types import MOMENT, NAIVE, typed
from skyband.errors import SchemaError
from skyband.query.checks import ISO

if TYPE_CHECKING:
    from skyband.query.base import Query

_MICROS = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
_FRACTION = re.compile(r"[.,]%f")
_FRACTION_DIGITS = r"^(?P<before>.*)[.,](?P<digits>\d{1,9})(?P<after>[^.,]*)$"


@dataclass(frozen=True)
class TimeForm:
    """How the times of a query are written."""

    format: str | None
    unit: str | None

    @staticmethod
    def of_query(query: Query) -> TimeForm | None:
        """The form of a query's times; None if they are timestamps, dates or plain integers."""
        if query.time_format is None and query.time_unit is None:
            return None
        return TimeForm(query.time_format, query.time_unit)

    @property
    def problem(self) -> str:
        """What is wrong with a value that cannot be read."""
        if self.unit is not None:
            return "out of range for a time"
        return f"not a time of the format {self.format!r}"

    def type_of(self, name: str, kind: pa.DataType) -> pa.DataType:
        """The type of the timestamps; raises SchemaError for a column of another type."""
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_null(kind):
            return kind
        return self.read(name, pa.nulls(0, kind)).type

    def read(self, name: str, column: Any) -> Any:
        """A column as timestamps; what cannot be read is null. Timestamps stay as they are."""
        kind = column.type
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_null(kind):
            return column
        if isinstance(column, pa.ChunkedArray):
            pieces = [self.read(name, chunk) for chunk in column.chunks]
            return pa.chunked_array(pieces, self.type_of(name, kind))
        column = plain(column)
        kind = column.type
        if self.unit is not None:
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
                raise SchemaError(
                    f"time column {name!r} has type {kind}, but time_unit={self.unit!r} is for "
                    "numbers; for text, give time_format="
                )
            return self._moments(column)
        if not pa.types.is_string(kind) and not pa.types.is_large_string(kind):
            raise SchemaError(
                f"time column {name!r} has type {kind}, but time_format={self.format!r} is for "
                "text; for seconds since 1970, give time_unit='s'"
            )
        column = column.cast(pa.string())
        if self.format == ISO:
            return typed(column, MOMENT)[0].cast(NAIVE)
        return self._parsed(column)

    def _moments(self, numbers: pa.Array) -> pa.Array:
        """Numbers since 1970 as moments; floats to the microsecond below."""
        assert self.unit is not None
        rough = numbers.cast(pa.float64(), safe=False)
        if pa.types.is_integer(numbers.type):
            fits = pc.less(rough, float(1 << 63))
            whole = pc.if_else(fits, numbers, None).cast(pa.int64())
            return whole.view(pa.timestamp(self.unit, "UTC"))
        micros = pc.floor(pc.multiply(rough, _MICROS[self.unit]))
        fits = pc.less(pc.abs(micros), float(1 << 63))  # false for NaN
        return pc.if_else(fits, micros, None).cast(pa.int64()).view(MOMENT)

    def _parsed(self, text: pa.Array) -> pa.Array:
        """Text as timestamps; Arrow reads no fractions of seconds, so these are added."""
        assert self.format is not None
        text, micros = pc.utf8_trim_whitespace(text), None
        if _FRACTION.search(self.format):
            parts = pc.extract_regex(text, _FRACTION_DIGITS)
            digits = pc.struct_field(parts, "digits")
            micros = pc.utf8_slice_codeunits(pc.utf8_rpad(digits, 6, "0"), 0, 6).cast(pa.int64())
            whole = pc.binary_join_element_wise(
                pc.struct_field(parts, "before"), pc.struct_field(parts, "after"), ""
            )
            text = pc.if_else(pc.is_null(parts), text, whole)
        form = _FRACTION.sub("", self.format)
        found = pc.strptime(text, format=form, unit="us", error_is_null=True)
        if micros is not None:
            total = pc.add(found.cast(pa.int64()), pc.fill_null(micros, 0))
            found = total.cast(pa.timestamp("us")).cast(found.type)
        return found
