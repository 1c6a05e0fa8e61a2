"""One window: from its live rows to its answer, by the definition of each query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oracle.changes import changes
from oracle.frequency import heavy_hitters
from oracle.fused import fused
from oracle.skyline import skyline, skyline_join
from oracle.topk import topk
from oracle.uncertain import uncertain
from oracle.unsized import (
    DecayWindow,
    decayed_hitters,
    decayed_topk,
    weight_at,
)
from oracle.windows import (
    Live,
    Row,
    groups,
)

# Marks that the driver puts on rows.
ARRIVAL = "#arrival"  # its number among the arrivals of its group
SOURCE = "#source"
PUSH = "#push"

Settings = dict[str, Any]


@dataclass
class Answer:
    start: int | None
    """None for a window that has no start."""
    end: int
    table: list[Row]
    """Columns start with window_start, window_end, the `by` columns and, except skylines, rank."""
    changes: list[Row]
    total: Any
    """Number of rows, or sum of weights, in the window."""
    push: int | None
    """The push (from 0) after which the answer comes; None: it comes at the end of the input."""
    group: tuple[Any, ...] = ()
    """Of a count window: the group whose window it is."""
    revision: int = 0
    """How often the window had been answered before."""


def evaluate(
    kind: str, live: Live, settings: Settings, window: Any = None, earlier: Sequence[Row] = ()
) -> list[Row]:
    """The answer's table for one window: the definition, group by group.

    `earlier` are the rows of the window just before it, where a query compares the two.
    """
    by = settings.get("by", ())
    edges = {"window_start": live.start, "window_end": live.end}
    has_ranks = kind not in ("Skyline", "SkylineJoin")
    table = []
    asked = {name: value for name, value in settings.items() if name not in ("ties", "most")}
    tied_by = None
    if settings.get("ties") in ("share", "all"):
        growth = settings.get("order", "gain") if settings.get("against") else "count"
        tied_by = "value" if settings.get("aggregate") else settings.get("score", growth)
    if settings.get("ties") == "all":
        asked["k"] = len(live.rows)
    for group, rows in groups(live.rows, by):
        if isinstance(window, DecayWindow):
            answer = decayed(kind, rows, live.end, window, asked)
            tied_by = tied_by and ("count" if kind == "HeavyHitters" else "decayed")
        else:
            own = dict(zip(by, group, strict=True)).items()
            old = [row for row in earlier if own <= row.items()]
            compared = {"earlier": old} if asked.get("against") else {}
            answer = definition(kind, rows, asked | compared)
        if settings.get("ties") == "all":
            answer, _ = with_ties(answer, tied_by, settings["k"], settings.get("most"))
        rank, before = 0, None
        for place, row in enumerate(answer, 1):
            if tied_by is None or place == 1 or row[tied_by] != before:
                rank, before = place, None if tied_by is None else row[tied_by]
            ranked = {"rank": rank} if has_ranks else {}
            table.append(edges | dict(zip(by, group, strict=True)) | ranked | row)
    return table


def with_ties(
    ranked: list[Row], tied_by: str | None, k: int, most: int | None
) -> tuple[list[Row], int]:
    """The best k rows of all and those that tie with the k-th, at most `most` (10 k), and how many
    more there were."""
    assert tied_by is not None
    if len(ranked) <= k:
        return ranked, 0
    least = ranked[k - 1][tied_by]
    every = ranked[:k] + [row for row in ranked[k:] if row[tied_by] == least]
    shown = every[: most or 10 * k]
    return shown, len(every) - len(shown)


def decayed(
    kind: str, rows: list[Row], end: int, window: DecayWindow, settings: Settings
) -> list[Row]:
    """From one group's rows to its answer at an end of a decay window."""
    names = ("k", "item", "time", "weight", "score", "id", "distinct", "keep")
    asked: dict[str, Any] = {n: settings[n] for n in names if n in settings}
    if kind == "HeavyHitters":
        return decayed_hitters(rows, end, window, **asked)
    return decayed_topk(rows, end, window, **asked, by=settings.get("by", ()))


def definition(kind: str, rows: list[Row], settings: Settings) -> list[Row]:
    """From one group's rows in one window to its answer."""
    asked = {name: value for name, value in settings.items() if name != "by"}
    if kind in ("TopK", "UncertainTopK"):
        define = topk if kind == "TopK" else uncertain
        return define(rows, **asked, later=ARRIVAL if ARRIVAL in rows[0] else None)
    time = asked.pop("time", None)
    if kind == "HeavyHitters":
        later = ARRIVAL if ARRIVAL in rows[0] else time
        return heavy_hitters(rows, **asked, later=later)
    if kind == "FusedTopK":  # from several sources, the stream is the source
        later = ARRIVAL if ARRIVAL in rows[0] else time
        marked = [{settings["stream"]: row.get(SOURCE)} | row for row in rows]
        return fused(marked, **asked, later=later)
    if kind == "Skyline":
        return skyline([plain(row) for row in rows], settings["prefer"])
    if kind == "SkylineJoin":
        left, right = (
            [plain(row) for row in rows if row[SOURCE] == asked[side]] for side in ("left", "right")
        )
        return skyline_join(left, right, **asked)
    raise ValueError(f"unknown query {kind!r}")


def plain(row: Row) -> Row:
    """The row's own columns, without the marks that this module puts on it."""
    return {column: value for column, value in row.items() if not column.startswith("#")}


def answer(
    kind: str,
    live: Live,
    before: list[Row],
    push: int | None,
    settings: Settings,
    window: Any = None,
    earlier: Sequence[Row] = (),
) -> Answer:
    """The answer for one window; `before` is the table of the previous answer."""
    table = evaluate(kind, live, settings, window, earlier)
    keys = key_columns(kind, settings, [*before, *table])
    log = changes(before, table, settings.get("by", ()), keys)
    weight = settings.get("weight")
    weights = [1 if weight is None else row[weight] for row in live.rows]
    if isinstance(window, DecayWindow):
        times = [row[settings["time"]] for row in live.rows]
        faded = [weight_at(live.end, time, window.half_life) for time in times]
        weights = [one * other for one, other in zip(weights, faded, strict=True)]
    return Answer(live.start, live.end, table, log, sum(weights), push)


def key_columns(kind: str, settings: Settings, table: list[Row]) -> list[str]:
    """What identifies a row: the id or item, else all columns of the input except `keep`."""
    if kind == "HeavyHitters":
        item = settings["item"]
        return [item] if isinstance(item, str) else list(item)
    if settings.get("id") is not None:
        return [settings["id"]]
    computed = ("window_start", "window_end", "revision", "rank", "topk_probability", "decayed")
    computed += tuple(settings.get("keep", ()))
    columns = list(table[0]) if table else []
    return [column for column in columns if column not in (*computed, *settings.get("by", ()))]
