"""Windows without a size: rows that decay, and rows since a landmark.

at an end e, a row of time t < e weighs 2 ** (-(e - t) / half_life)
a landmark window is [since, end), and end runs over the multiples of slide (plus offset)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from oracle.order import KEPT
from oracle.topk import one_of_each
from oracle.windows import Live, Row, first_end_after

GONE = 1000
FORGOTTEN = 20


class CutAtEnds:
    """Panes are cut at the ends, as those of a tumbling window."""

    slide: int

    @property
    def size(self) -> int:
        return self.slide

    @property
    def step(self) -> int:
        return self.slide


@dataclass(frozen=True)
class DecayWindow(CutAtEnds):
    half_life: int
    slide: int
    lateness: int = 0
    offset: int = 0
    since = None


@dataclass(frozen=True)
class LandmarkWindow(CutAtEnds):
    slide: int
    since: int | None = None
    lateness: int = 0
    offset: int = 0


def live_rows(events: Iterable[Row], window: Any, end: int) -> list[Row]:
    """The events that count at an end."""
    rows = [event for event in events if event["time"] < end]
    if isinstance(window, LandmarkWindow):
        return [event for event in rows if window.since is None or event["time"] >= window.since]
    return rows


def unsized_windows(events: Sequence[Row], window: Any, others: Sequence[int] = ()) -> list[Live]:
    """Every window answered by the end of a finite input, in order.

    Of a decay window: the ends whose last slide has rows. Of a landmark window: every end from the
    first row on, up to the first end after the last row, which may be an unused or a bad one.
    """
    shape = (window.slide, window.offset)
    used = [e["time"] for e in events if window.since is None or e["time"] >= window.since]
    ends = sorted({first_end_after(time, *shape) for time in used})
    if isinstance(window, LandmarkWindow) and ends:
        last = max(first_end_after(at, *shape) for at in [*(e["time"] for e in events), *others])
        ends = list(range(ends[0], last + 1, window.slide))
    start: Any = window.since
    return [Live(start, end, live_rows(events, window, end)) for end in ends]


def weight_at(end: int, time: int, half_life: int) -> float:
    return math.pow(2.0, -(end - time) / half_life)


def order_key(score: float, time: int, half_life: int) -> tuple[float, float]:
    """Orders score * 2 ** (time / half_life) without computing it: exponent, then mantissa."""
    if score == 0:
        return -math.inf, 0.0
    if math.isinf(score):
        return math.inf, 0.0
    whole, part = divmod(time, half_life)
    mantissa, exponent = math.frexp(score)
    mantissa, more = math.frexp(mantissa * 2.0 ** (part / half_life))
    return exponent + more + whole, mantissa


def decayed(score: float, end: int, time: int, half_life: int) -> float:
    """Score times weight; the weight alone may be too small for a double."""
    whole, part = divmod(end - time, half_life)
    return math.ldexp(score * 2.0 ** (-part / half_life), -whole)


def remembered(rows: Iterable[Row], end: int, window: DecayWindow, time: str) -> list[Row]:
    """The rows of a group since it was last forgotten; none if it is forgotten at this end.

    It is forgotten where no row is at most 1,000 half-lives old: at an end, or where the slide of
    its next row begins.
    """
    memory = GONE * window.half_life
    since: list[Row] = []
    for row in sorted(rows, key=lambda row: row[time]):
        slide_start = first_end_after(row[time], window.slide, window.offset) - window.slide
        if since and slide_start - since[-1][time] > memory:
            since = []
        since.append(row)
    return since if since and end - since[-1][time] <= memory else []


def decayed_topk(
    rows: Iterable[Row],
    end: int,
    window: DecayWindow,
    k: int,
    score: str,
    time: str,
    id: str | None = None,
    distinct: str | None = None,
    keep: Sequence[str] = (),
    by: Sequence[str] = (),
) -> list[Row]:
    """The best k rows of a group by score times weight, then the later row, then the smaller id.

    A row leaves only when it is beaten, however old it is; but groups are forgotten, and with
    `distinct="latest"` ids whose latest row is older than 1,000 half-lives.
    """
    half_life = window.half_life
    rows = remembered(rows, end, window, time) if by else rows
    ordered = sorted(rows, key=lambda row: row.get(KEPT, 0))
    if id is not None:
        ordered.sort(key=lambda row: row[id])
    ordered.sort(key=lambda row: row[time], reverse=True)
    ordered.sort(key=lambda row: order_key(row[score], row[time], half_life), reverse=True)
    if distinct is not None:
        assert id is not None
        ordered = one_of_each(ordered, id, distinct, time)
    if distinct == "latest":
        ordered = [row for row in ordered if end - row[time] <= GONE * half_life]
    shown = []
    for row in ordered[:k]:
        found = {} if id is None else {id: row[id]}
        found |= {score: row[score], "decayed": decayed(row[score], end, row[time], half_life)}
        shown.append(found | {time: row[time]} | {column: row[column] for column in keep})
    return shown


def decayed_hitters(
    rows: Iterable[Row],
    end: int,
    window: DecayWindow,
    k: int,
    item: str | Sequence[str],
    time: str,
    weight: str | None = None,
    keep: Sequence[str] = (),
) -> list[Row]:
    """The items with a row in the last 20 half-lives, by decayed weight.

    The error is what an item weighed when it was last forgotten. Rows older than 1,000 half-lives
    are gone.
    """
    rows = [row for row in rows if end - row[time] <= GONE * window.half_life]
    columns = [item] if isinstance(item, str) else list(item)
    rows_of: dict[tuple[Any, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row[time]):
        rows_of.setdefault(tuple(row[column] for column in columns), []).append(row)
    memory = FORGOTTEN * window.half_life
    found = []
    for key, mine in rows_of.items():
        count = error = 0.0
        for number, row in enumerate(mine):
            pane_start = first_end_after(row[time], window.slide, window.offset) - window.slide
            if number and pane_start - mine[number - 1][time] > memory:
                error = count
            count += (1 if weight is None else row[weight]) * weight_at(
                end, row[time], window.half_life
            )
        if end - mine[-1][time] <= memory:
            latest = min(mine, key=lambda row: (-row[time], row.get(KEPT, 0)))
            shown = {"count": count, "error": error} | {column: latest[column] for column in keep}
            found.append(dict(zip(columns, key, strict=True)) | shown)
    found.sort(key=lambda row: tuple(row[column] for column in columns))
    found.sort(key=lambda row: (-row["count"], row["error"]))
    return found[:k]
