"""The types that text can be read as, and how text becomes a column of one of them.

Records and CSV files take these types; a value that does not fit makes its record a bad row.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.arrays import Mask
from skyband.data.columns import mask_of
from skyband.errors import QueryError

NAIVE = pa.timestamp("us")
MOMENT = pa.timestamp("us", tz="UTC")
TYPES: dict[pa.DataType, str] = {
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    MOMENT: "timestamp",
    NAIVE: "timestamp_ntz",
    pa.binary(): "binary",
}
"""What a schema may name, by Arrow type; binary is written as base64."""

_ZONE = r"[T ]\S*(?:[Zz]|[+-]\d{2}(?::?\d{2})?)$"
_TIME = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:"
_DIGITS = r"(\.\d{6})\d+"
Converted = tuple[pa.Array, Mask]
"""A column, and which of its values could not be converted; those are null in it."""


def check_types(where: str, schema: pa.Schema) -> None:
    """Raise QueryError for a column of a type that text is not read as."""
    for field in schema:
        if field.type not in TYPES and not pa.types.is_decimal(field.type):
            raise QueryError(
                f"{where} column {field.name!r} has type {field.type}, but text is read as "
                f'{", ".join(TYPES.values())}, decimal; choose one of these, or reader = "spark"'
            )


def read_as(kind: pa.DataType) -> pa.DataType:
    """The type in which Arrow's readers are asked for a column.

    They read dates as numbers, refuse nine digits of a second and know no base64, so these come
    as text.
    """
    is_text = pa.types.is_timestamp(kind) or kind in (pa.date32(), pa.binary())
    return pa.string() if is_text else kind


def typed(text: pa.Array, kind: pa.DataType) -> Converted:
    """Convert text to a type; nulls stay null."""
    if kind == pa.string():
        return text, np.zeros(len(text), np.bool_)
    if pa.types.is_timestamp(kind):
        return _times(text, kind)
    if kind == pa.binary():
        values = pa.array([_bytes(value) for value in text.to_pylist()], kind)
        return values, mask_of(values.is_null()) & mask_of(text.is_valid())
    return cast_halves(text, kind, lambda part: part.cast(kind))


def time_type(text: pa.Array) -> pa.DataType | None:
    """The type of times that all of the text can be read as; None if there is none."""
    text = text.drop_null()
    if not len(text) or not pc.all(pc.match_substring_regex(text, _TIME)).as_py():
        return None
    zoned = pc.any(pc.match_substring_regex(text, _ZONE)).as_py()
    kind = MOMENT if zoned else NAIVE
    return None if typed(text, kind)[1].any() else kind


def cast_halves(
    text: pa.Array, kind: pa.DataType, cast: Callable[[pa.Array], pa.Array]
) -> Converted:
    """Convert all values at once; if that fails, each half, down to the values that cannot be."""
    try:
        return cast(text), np.zeros(len(text), np.bool_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if len(text) <= 1:
            return pa.nulls(len(text), kind), np.ones(len(text), np.bool_)
    middle = len(text) // 2
    left, right = (cast_halves(part, kind, cast) for part in (text[:middle], text[middle:]))
    return pa.concat_arrays([left[0], right[0]]), np.concatenate([left[1], right[1]])


def _times(text: pa.Array, kind: pa.DataType) -> Converted:
    """Times in ISO 8601; for a type with a zone, a time without one counts as UTC.

    Digits beyond microseconds are cut off. Arrow refuses them, and it takes either only times with
    a zone or only times without one.
    """
    for one in (kind, NAIVE) if kind.tz else (kind,):
        try:
            return text.cast(one).cast(kind), np.zeros(len(text), np.bool_)
        except pa.ArrowInvalid:
            pass
    text = pc.replace_substring_regex(text, _DIGITS, r"\1")
    if kind.tz is None:
        return cast_halves(text, kind, lambda part: part.cast(kind))
    zoned = mask_of(pc.fill_null(pc.match_substring_regex(text, _ZONE), False))
    order = np.argsort(zoned, kind="stable")
    first = int((~zoned).sum())
    text = text.take(pa.array(order))
    parts = [
        cast_halves(text[:first], kind, lambda part: part.cast(NAIVE).cast(kind)),
        cast_halves(text[first:], kind, lambda part: part.cast(kind)),
    ]
    back = np.argsort(order, kind="stable")
    found = pa.concat_arrays([part[0] for part in parts]).take(pa.array(back))
    return found, np.concatenate([part[1] for part in parts])[back]


def _bytes(base64_text: str | None) -> bytes | None:
    try:
        return None if base64_text is None else base64.b64decode(base64_text, validate=True)
    except (binascii.Error, ValueError):
        return None
