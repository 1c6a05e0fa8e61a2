"""What the numbers of an answer's columns are measured in."""

from __future__ import annotations

import re
from collections.abc import Sequence

from skyband.query.base import Query

_WORDS = {"bytes": "bytes", "octets": "bytes", "ms": "ms", "millis": "ms", "usd": "USD"}
_ENDS = {"s": "s", "sec": "s", "secs": "s", "seconds": "s", "us": "µs", "pct": "%", "percent": "%"}


def unit_of(name: str) -> str | None:
    """The unit that a column's name says, if any.

    >>> [unit_of(name) for name in ("bytes_read", "op_time_s", "price", "bytes / 2")]
    ['bytes', 's', None, None]
    """
    words = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower().split("_")
    found = next((_WORDS[word] for word in words if word in _WORDS), None)
    return found or (_ENDS.get(words[-1]) if len(words) > 1 else None)


def units_of(query: Query, names: Sequence[str], given: str | None = None) -> dict[str, str]:
    """The units of the columns of an answer; ``given`` is that of what the answer is ranked by."""
    measured: str | None = getattr(query, "weight", None) or getattr(query, "score", None)
    bare = {"ratio", "proven", "topk_probability"}
    bare |= {"count"} if getattr(query, "aggregate", None) else set()
    unit = given or (unit_of(measured) if measured else None)
    found = {name: each for name in names if (each := unit_of(name)) is not None}
    mine = {*query.extra_columns, measured} - bare
    return found | ({name: unit for name in names if name in mine} if unit else {})
