"""Batches in, every answer out: what the embedded engine must give for a query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oracle.expressions import with_columns
from oracle.one_window import ARRIVAL, PUSH, SOURCE, Answer, Settings, answer
from oracle.unsized import (
    DecayWindow,
    LandmarkWindow,
    unsized_windows,
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
    Size,
    TimeWindow,
    compared,
    count_windows,
    groups,
    is_unused,
    late_rows,
    time_windows,
)

# These settings choose how an algorithm works, not what the answer is.
ONLY_FOR_ALGORITHMS = (
    *("algorithm", "options", "epsilon", "delta"),
    *("capacity", "cells", "ratio", "filter_bits", "returns", "layers"),
)


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
    if getattr(window, "revise", None) is not None:
        from oracle.revisions import revised_answers  # which is made of what stands here

        return revised_answers(kind, window, pushes, settings)
    return over_time_windows(kind, window, pushes, settings)


def prepared(batches: Iterable[Batch], settings: Settings) -> list[Batch]:
    """The batches with computed columns, and with a mark on each row that does not count."""
    where = settings.pop("where", {})
    names = ("score", "weight", "value", "probability")
    texts = [settings[name] for name in names if settings.get(name)]
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
    size = window.size
    shape = (size, window.step, window.offset)
    others = [event["time"] for event in events_of(pushes, settings, left_out=True)]
    events = events_of(pushes, settings)
    if isinstance(window, (DecayWindow, LandmarkWindow)):
        windows = unsized_windows(events, window, others)
    else:
        windows = time_windows(events, "time", *shape, others)
    for start, end, inside in windows:
        live = Live(start, end, [event["row"] | {SOURCE: event["source"]} for event in inside])
        earlier = []
        if settings.get("against"):
            earlier = [e["row"] for e in events if start - size <= e["time"] < start]
        number = next((n for n, push in enumerate(pushes) if reaches(push, end)), None)
        run.answers.append(answer(kind, live, before, number, settings, window, earlier))
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
    shape = (cut_sizes(window, settings), window.step, window.offset)
    asked: dict[str, Any] = {"lateness": window.lateness, "sources": sources}
    asked["revise"] = getattr(window, "revise", None)
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


def cut_sizes(window: Any, settings: Settings) -> Size:
    """The sizes of windows that decide where panes are cut."""
    return compared(window.size) if settings.get("against") else window.size


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
