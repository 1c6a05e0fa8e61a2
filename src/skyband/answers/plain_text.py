"""Single values as text for people."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from typing import Any

from skyband.data.json_text import escaped_text


def plain(value: Any) -> str:
    """One value as text for people."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, (float, Decimal)):
        return _number(float(value))
    if isinstance(value, datetime):
        return moment_text(value)
    return escaped_text(value) if isinstance(value, bytes) else str(value)


def _number(value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
    return f"{value:.4g}" if size >= 1e-4 or not size else f"{value:.2e}"


def clock(moment: datetime) -> str:
    """The time of day, with as many digits of the second as it has."""
    return f"{moment:%H:%M:%S}" + (f".{moment.microsecond:06d}".rstrip("0").rstrip("."))


def moment_text(moment: datetime) -> str:
    """Date and time of day."""
    return f"{moment:%Y-%m-%d} {clock(moment)}"
