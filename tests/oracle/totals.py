"""What `total=True` shows beside a row of an answer: all that its window and group hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oracle.windows import Row


def total(
    answered: Row, rows: Sequence[Row], by: Sequence[str], weight: str | None, half_life: Any
) -> Any:
    """Rows or weight in the window of `answered`; `rows` are all that count, of all sources.

    Without a time, rows are counted as they arrive in their group.
    """
    found: float = 0
    mine = [row for row in rows if all(row[name] == answered[name] for name in by)]
    start, end = answered["window_start"], answered["window_end"]
    for arrival, row in enumerate(mine):
        time = row.get("ts", arrival)
        if (start is None or start <= time) and time < end:
            worth = row[weight] if weight else 1
            found += worth if half_life is None else worth * 2 ** ((time - end) / half_life)
    return found
