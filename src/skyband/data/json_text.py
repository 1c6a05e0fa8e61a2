"""Rows as JSON text; NaN and the infinities become strings, as Spark writes them."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from typing import Any


def base64_text(value: bytes) -> str:
    """Bytes in base64."""
    return base64.b64encode(value).decode("ascii")


def escaped_text(value: bytes) -> str:
    """Bytes as text for people; those that are not UTF-8 are escaped."""
    return value.decode("utf-8", "backslashreplace")


def json_text(
    value: Any,
    octets: Callable[[bytes], str] = base64_text,
    most: int | None = None,
    separators: tuple[str, str] = (", ", ": "),
) -> str:
    """A value as JSON; ``octets`` says how bytes are written. Integers beyond ``most`` are text.

    >>> json_text({"score": float("nan"), "id": b"abc", "n": 3})
    '{"score": "NaN", "id": "YWJj", "n": 3}'
    """
    plain = _plain(value, octets, most)
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=separators)


def _plain(value: Any, octets: Callable[[bytes], str], most: int | None) -> Any:
    """A value that JSON can represent."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if most is None or -most <= value <= most else str(value)
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, bytes):
        return octets(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(each, octets, most) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, octets, most) for each in value]
    if hasattr(value, "item"):
        return _plain(value.item(), octets, most)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
