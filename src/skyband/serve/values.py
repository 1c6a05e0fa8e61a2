"""Reads single values of JSON and CSV as the types of columns."""

from __future__ import annotations

import base64
import binascii
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["Said", "csv_value", "json_value"]


class Said(ValueError):  # noqa: N818
    """A problem with a value whose text helps the reader."""


def json_value(value: Any, kind: pa.DataType) -> Any:
    """A JSON value as one of the column's type; raises ValueError or TypeError if it is not."""
    if pa.types.is_boolean(kind):
        return _only(value, bool)
    if isinstance(value, bool):
        raise TypeError
    if pa.types.is_integer(kind):
        return _whole(_only(value, int), kind)
    if pa.types.is_floating(kind):
        return _float(float(_only(value, (int, float))), kind)
    if pa.types.is_decimal(kind):
        return _decimal(str(_only(value, (int, float, str))), kind)
    text = _only(value, str)
    text.encode()  # lone surrogates
    return _text_value(text, kind)


def csv_value(text: str, kind: pa.DataType) -> Any:
    """A cell as a value of the column's type; raises ValueError if it is not."""
    if pa.types.is_boolean(kind):
        known = {"true": True, "false": False, "1": True, "0": False}
        if text.lower() not in known:
            raise ValueError
        return known[text.lower()]
    if pa.types.is_integer(kind):
        return _whole(int(text), kind)
    if pa.types.is_floating(kind):
        return _float(float(text), kind)
    return _decimal(text, kind) if pa.types.is_decimal(kind) else _text_value(text, kind)


def _text_value(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_string(kind):
        return text
    if pa.types.is_binary(kind):
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            raise Said("binary columns are written in base64") from None
    if pa.types.is_date(kind):
        return date.fromisoformat(text)
    moment = datetime.fromisoformat(text)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment if kind.tz is not None else moment.replace(tzinfo=None)


def _only(value: Any, kinds: Any) -> Any:
    if not isinstance(value, kinds):
        raise TypeError
    return value


def _whole(value: int, kind: pa.DataType) -> int:
    if not -(1 << kind.bit_width - 1) <= value < 1 << kind.bit_width - 1:
        raise Said("it is out of range")
    return value


def _float(value: float, kind: pa.DataType) -> float:
    return float(np.float32(value)) if kind.bit_width == 32 and math.isfinite(value) else value


def _decimal(text: str, kind: pa.DataType) -> Decimal:
    value = Decimal(text)
    pa.array([value], kind)
    return value
