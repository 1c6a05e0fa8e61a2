"""Batches in, every answer out: what the embedded engine must give for a query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oracle.changes import changes
from oracle.expressions import with_columns
from oracle.frequency import heavy_hitters
from oracle.fused import fused
from oracle.skyline import skyline, skyline_join
from oracle.topk import topk
from oracle.uncertain import uncertain
from oracle.unsized import (
    DecayWindow,
    LandmarkWindow,
    decayed_hitters,
    decayed_topk,
    live_rows,
    unsized_windows,
    weight_at,
)
from oracle.where import counts
from oracle.windows import (
    BAD,
    FILTERED,
    Batch,
    CountWindow,
    Live,
    Push,
    Row,
    TimeWindow,
    count_windows,
    cut_from,
    cut_up_to,
    first_end_after,
    groups,
    is_unused,
    late_rows,
    longest,
    size_for,
    time_windows,
)

# Marks that this module puts on rows.
ARRIVAL = "#arrival"  # its number among the arrivals of its group
SOURCE = "#source"
PUSH = "#push"

Settings = dict[str, Any]

# These settings choose how an algorithm works, not what the answer is.
ONLY_FOR_ALGORITHMS = (
    *("algorithm", "options", "epsilon", "delta"),
    *("capacity", "cells", "ratio", "filter_bits", "returns", "layers"),
)


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


@dataclass
class Run:
    answers: list[Answer] = field(default_factory=list)
    rows_in: int = 0
    rows_late: int = 0
    rows_unused: int = 0
    rows_filtered: int = 0

    @property
    def table(self) -> list[Row]:
        """All answers as one table, in the order of `rank`."""
        return [row for answer in sorted(self.answers, key=lambda a: a.end) for row in answer.table]


def answers(
    kind: str,
    window: TimeWindow | CountWindow,
    batches: Iterable[Batch] | Mapping[str, Sequence[Any]],
    **settings: Any,
) -> Run:
    """Every answer to a query, in the order in which they come, up to the end of the input.

    `kind` and `settings` are the name and the keywords of the query's class. `batches` are the
    pushes in order, each a list of rows or a mapping from source to list of rows; or a mapping from
    source to its batches, which are then read as the engine reads them. No row may be bad.
    """
    settings = {name: value for name, value in settings.items() if name not in ONLY_FOR_ALGORITHMS}
    if isinstance(batches, Mapping):
        batches = interleave(batches, settings["time"])
    pushes = prepared(batches, settings)
    if isinstance(window, CountWindow):
        return over_count_windows(kind, window, pushes, settings)
    return over_time_windows(kind, window, pushes, settings)


def prepared(batches: Iterable[Batch], settings: Settings) -> list[Batch]:
    """The batches with computed columns, and with a mark on each row that does not count."""
    where = settings.pop("where", {})
    texts = [settings[name] for name in ("score", "weight", "value") if settings.get(name)]
    texts += settings.get("prefer", ())

    def mark(rows: Sequence[Row]) -> list[Row]:
        judged = [row if counts(row, where) else row | {FILTERED: True} for row in rows]
        return [
            row if row.get(BAD) or row.get(FILTERED) else with_columns(row, texts) for row in judged
        ]

    return [
        {source: mark(rows) for source, rows in batch.items()}
        if isinstance(batch, Mapping)
        else mark(batch)
        for batch in batches
    ]


def peeks(
    kind: str,
    window: TimeWindow | CountWindow,
    batches: Sequence[Batch],
    lasts: Sequence[int | None],
    run: Run | None = None,
    **settings: Any,
) -> list[Answer | None]:
    """What `peek` shows after each push, and after the end of the input.

    It answers over [start, end): `end` is the end of the last sealed pane, `start` the first cut
    between panes at or after end - size, or end - last. `lasts` has the `last` of each peek. Rows
    that no window covers are in no answer. A peek is None if no pane is sealed yet because a source
    is still unseen. `run` is what `answers` gives for the same input, where that is known already.

    Each group of a count window has its own edges, which the table shows. The answer as a whole
    then goes from the least start to the greatest end of the groups with a sealed pane.
    """
    settings = {name: value for name, value in settings.items() if name not in ONLY_FOR_ALGORITHMS}
    peek: Any = peek_counted if isinstance(window, CountWindow) else peek_timed
    if not lasts:
        return []
    run = run or answers(kind, window, batches, **settings)
    batches = prepared(batches, settings)
    return [
        peek(kind, window, batches[: number + 1], number == len(batches), last, run, settings)
        for number, last in enumerate(lasts)
    ]


def peek_timed(
    kind: str,
    window: TimeWindow,
    batches: Sequence[Batch],
    ended: bool,
    last: int | None,
    run: Run,
    settings: Settings,
) -> Answer | None:
    shape = (window.size, window.step, window.offset)
    pushes = split_rows(kind, window, batches, settings)
    watermark = pushes[-1].watermark if pushes else None
    seen = [event["time"] for event in events_of(pushes, settings, with_late=True)]
    seen += [event["time"] for event in events_of(pushes, settings, left_out=True)]
    if ended and seen:
        final = first_end_after(max(seen), window.step, window.offset)
        watermark = final if watermark is None else max(watermark, final)
    if watermark is None:
        return None
    end = cut_up_to(watermark, *shape)
    given = [a for a in run.answers if ended or (a.push is not None and a.push < len(batches))]
    before = given[-1].table if given else []
    if isinstance(window, (DecayWindow, LandmarkWindow)):
        inside = live_rows(events_of(pushes, settings), window, end)
        rows = [event["row"] for event in inside]
        return answer(kind, Live(window.since, end, rows), before, None, settings, window)
    start = cut_from(end - (longest(window.size) if last is None else last), *shape)
    rows = []
    for event in events_of(pushes, settings):
        own = size_for(window.size, event["source"])
        first = max(start, cut_from(end - own, *shape))
        if first <= event["time"] < end and not is_unused(event["time"], own, *shape[1:]):
            rows.append(event["row"] | {SOURCE: event["source"]})
    return answer(kind, Live(start, end, rows), before, None, settings)


def peek_counted(
    kind: str,
    window: CountWindow,
    batches: Sequence[Any],
    ended: bool,
    last: int | None,
    run: Run,
    settings: Settings,
) -> Answer:
    shape = (window.size, window.step)
    by = settings.get("by", ())
    weight = settings.get("weight")
    edges, table, before, total = [], [], [], 0
    for group, rows in groups(arrivals_of(batches)[0], by):
        end = cut_up_to(len(rows), *shape)
        start = cut_from(max(0, end - (window.size if last is None else last)), *shape)
        live = [
            row | {ARRIVAL: n}
            for n, row in enumerate(rows)
            if start <= n < end and not is_unused(n, *shape)
        ]
        edges += [(start, end)] if end else []
        table += evaluate(kind, Live(start, end, live), settings)
        total += sum(1 if weight is None else row[weight] for row in live)
        own = [
            answer.table
            for answer in run.answers
            if answer.push < len(batches) and answer.group == group  # type: ignore[operator]
        ]
        before += own[-1] if own else []
    log = changes(before, table, by, key_columns(kind, settings, [*before, *table]))
    start = min((start for start, _ in edges), default=0)
    return Answer(start, max((end for _, end in edges), default=0), table, log, total, None)


def over_time_windows(
    kind: str, window: TimeWindow, batches: list[Batch], settings: Settings
) -> Run:
    pushes = split_rows(kind, window, batches, settings)
    run = Run()
    for push in pushes:
        run.rows_late += size_of(push.late)
        run.rows_unused += size_of(push.unused)
        run.rows_filtered += size_of(push.filtered)
        read = (push.taken, push.late, push.unused, push.filtered)
        run.rows_in += sum(size_of(part) for part in read)

    before: list[Row] = []
    shape = (window.size, window.step, window.offset)
    others = [event["time"] for event in events_of(pushes, settings, left_out=True)]
    events = events_of(pushes, settings)
    if isinstance(window, (DecayWindow, LandmarkWindow)):
        windows = unsized_windows(events, window, others)
    else:
        windows = time_windows(events, "time", *shape, others)
    for start, end, inside in windows:
        live = Live(start, end, [event["row"] | {SOURCE: event["source"]} for event in inside])
        number = next((n for n, push in enumerate(pushes) if reaches(push, end)), None)
        run.answers.append(answer(kind, live, before, number, settings, window))
        before = run.answers[-1].table
    return run


def split_rows(
    kind: str, window: TimeWindow, batches: Sequence[Batch], settings: Settings
) -> list[Push]:
    """What happens to the rows of each push, and the watermark after it."""
    sources = None
    if any(isinstance(batch, Mapping) for batch in batches):
        is_join = kind == "SkylineJoin"
        sources = [settings["left"], settings["right"]] if is_join else list(settings["streams"])
    shape = (window.size, window.step, window.offset)
    asked: dict[str, Any] = {"lateness": window.lateness, "sources": sources}
    pushes = list(late_rows(batches, settings["time"], *shape, **asked))
    since = getattr(window, "since", None)
    if since is not None:
        for push in pushes:  # rows before the landmark are unused, late or not
            rows = [*push.taken.get(None, []), *push.late.get(None, [])]
            early = [row for row in rows if row[settings["time"]] < since]
            push.unused = {None: early}
            for part in (push.taken, push.late):
                part[None] = [r for r in part.get(None, []) if r[settings["time"]] >= since]
    return pushes


def events_of(
    pushes: Sequence[Push], settings: Settings, with_late: bool = False, left_out: bool = False
) -> list[dict[str, Any]]:
    """Every row that was not late, in order of arrival, with its time and its source.

    Or, with `left_out`, the bad rows and those that `where` leaves out.
    """
    time = settings["time"]
    events = []
    for push in pushes:
        good = (push.taken, push.unused, *([push.late] if with_late else []))
        for part in (push.bad, push.filtered) if left_out else good:
            for source, rows in part.items():
                column = time if isinstance(time, str) else time[source]
                events += [{"time": row[column], "source": source, "row": row} for row in rows]
    return events


def over_count_windows(
    kind: str, window: CountWindow, batches: list[Any], settings: Settings
) -> Run:
    """Each group counts its own arrivals and has its own answers.

    The answers of one push are in the order of window_end, then of the `by` columns.
    """
    arrivals, filtered = arrivals_of(batches)
    run = Run(rows_in=len(arrivals) + filtered, rows_filtered=filtered)
    for group, rows in groups(arrivals, settings.get("by", ())):
        run.rows_unused += sum(is_unused(n, window.size, window.step) for n in range(len(rows)))
        in_order = [row | {ARRIVAL: n} for n, row in enumerate(rows)]
        before: list[Row] = []
        for live in count_windows(in_order, window.size, window.step):
            found = answer(kind, live, before, live.rows[-1][PUSH], settings)
            found.group = group
            run.answers.append(found)
            before = found.table
    run.answers.sort(key=lambda a: (a.push, a.end))  # stable: groups are already in order
    return run


def arrivals_of(batches: Sequence[Any]) -> tuple[list[Row], int]:
    """The rows that count, with the number of their push; and how many do not count."""
    rows = [row | {PUSH: number} for number, batch in enumerate(batches) for row in batch]
    arrivals = [row for row in rows if not row.get(FILTERED)]
    return arrivals, len(rows) - len(arrivals)


def evaluate(kind: str, live: Live, settings: Settings, window: Any = None) -> list[Row]:
    """The answer's table for one window: the definition, group by group."""
    by = settings.get("by", ())
    edges = {"window_start": live.start, "window_end": live.end}
    has_ranks = kind not in ("Skyline", "SkylineJoin")
    table = []
    asked = {name: value for name, value in settings.items() if name != "ties"}
    tied_by = settings.get("score", "count") if settings.get("ties") == "share" else None
    for group, rows in groups(live.rows, by):
        if isinstance(window, DecayWindow):
            answer = decayed(kind, rows, live.end, window, asked)
            tied_by = tied_by and ("count" if kind == "HeavyHitters" else "decayed")
        else:
            answer = definition(kind, rows, asked)
        rank, before = 0, None
        for place, row in enumerate(answer, 1):
            if tied_by is None or place == 1 or row[tied_by] != before:
                rank, before = place, None if tied_by is None else row[tied_by]
            ranked = {"rank": rank} if has_ranks else {}
            table.append(edges | dict(zip(by, group, strict=True)) | ranked | row)
    return table


def decayed(
    kind: str, rows: list[Row], end: int, window: DecayWindow, settings: Settings
) -> list[Row]:
    """From one group's rows to its answer at an end of a decay window."""
    names = ("k", "item", "time", "weight", "score", "id", "distinct", "keep")
    asked: dict[str, Any] = {n: settings[n] for n in names if n in settings}
    if kind == "HeavyHitters":
        return decayed_hitters(rows, end, window, **asked)
    return decayed_topk(rows, end, window.half_life, **asked)


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
) -> Answer:
    """The answer for one window; `before` is the table of the previous answer."""
    table = evaluate(kind, live, settings, window)
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
    computed = ("window_start", "window_end", "rank", "topk_probability", "decayed")
    computed += tuple(settings.get("keep", ()))
    columns = list(table[0]) if table else []
    return [column for column in columns if column not in (*computed, *settings.get("by", ()))]


def reaches(push: Push, end: int) -> bool:
    return push.watermark is not None and push.watermark >= end


def size_of(part: dict[str | None, list[Row]]) -> int:
    return sum(len(rows) for rows in part.values())


def interleave(
    sources: Mapping[str, Sequence[Sequence[Row]]], time: str | Mapping[str, str]
) -> Iterator[dict[str, Sequence[Row]]]:
    """Read each batch from the source that is furthest behind: unseen, or with the least mark.

    A source's mark is its greatest time so far. Ties go to the first source in the mapping. A
    source that has ended keeps its mark.
    """
    left = {source: list(batches) for source, batches in sources.items()}
    greatest: dict[str, int] = {}
    while any(left.values()):
        behind = min(
            (source for source in left if left[source]),
            key=lambda source: (source in greatest, greatest.get(source, 0)),
        )
        batch = left[behind].pop(0)
        column = time if isinstance(time, str) else time[behind]
        seen = [row[column] for row in batch]
        if seen:
            greatest[behind] = max([*seen, greatest.get(behind, seen[0])])
        yield {behind: batch}
