"""Where one id stands among all."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Position"]


class Position(NamedTuple):
    """The rank of one id or item, its score or count, and how many there are."""

    rank: int
    value: Any
    of: int
