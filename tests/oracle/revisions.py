"""Windows that are answered again when a late row changes them: `TimeWindow(revise=)`.

watermark before the push           12
a late row of time 4        ×        │        revise 10: 4 >= 12 - 10, so it is taken
answered windows     ├──────10┤      │        [0, 10) is answered again, as revision 1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oracle.changes import changes
from oracle.driver import Run, events_of, size_of, split_rows
from oracle.one_window import SOURCE, Answer, Settings, answer, key_columns
from oracle.windows import (
    Batch,
    Live,
    Row,
    TimeWindow,
    first_end_after,
    longest,
    size_for,
    time_windows,
)

Event = dict[str, Any]


def revised_answers(
    kind: str, window: TimeWindow, batches: Sequence[Batch], settings: Settings
) -> Run:
    """Every answer of a query whose window has `revise`, in the order in which they come.

    After each push, first the windows that had ended before it and cover a row of it, then those
    that end with it. An answer is over all rows so far.
    """
    pushes = split_rows(kind, window, batches, settings)
    run = Run()
    taken: list[Event] = []
    others: list[int] = []
    known: dict[int, Answer] = {}
    ended: int | None = None
    for number, push in enumerate([*pushes, None]):
        fresh: list[Event] = []
        if push is not None:
            run.rows_late += size_of(push.late)
            run.rows_unused += size_of(push.unused)
            run.rows_filtered += size_of(push.filtered)
            parts = (push.taken, push.late, push.unused, push.filtered)
            run.rows_in += sum(size_of(part) for part in parts)
            fresh = events_of([push], settings)
            others += [event["time"] for event in events_of([push], settings, left_out=True)]
            others += [e["time"] for e in events_of([push], settings, with_late=True)]
        taken += fresh
        corrected = [] if ended is None else corrected_ends(fresh, ended, window, settings, known)
        upto = final_end(others, window) if push is None else push.watermark
        due = []
        if upto is not None:
            shape = (window.size, window.step, window.offset)
            ends = [live.end for live in time_windows(taken, "time", *shape, others)]
            due = [end for end in ends if end <= upto and (ended is None or end > ended)]
            ended = upto if ended is None else max(ended, upto)
        for end in [*corrected, *due]:
            own = None if push is None else number
            known[end] = one_answer(kind, window, end, taken, known, own, settings)
            run.answers.append(known[end])
    return run


def corrected_ends(
    fresh: Sequence[Event],
    ended: int,
    window: TimeWindow,
    settings: Settings,
    known: dict[int, Answer],
) -> list[int]:
    """The ends up to `ended` of windows that cover one of these rows, in order.

    And of those that were answered and are compared with a window that covers one.
    """
    ends = set()
    for event in fresh:
        size = size_for(window.size, event["source"])
        end = first_end_after(event["time"], window.step, window.offset)
        while end <= min(ended, event["time"] + 2 * size):
            covered = event["time"] >= end - size
            if covered or (settings.get("against") and end in known):
                ends.add(end)
            end += window.step
    return sorted(ends)


def final_end(times: Sequence[int], window: TimeWindow) -> int | None:
    """The watermark at the end of the input: the first end after the last row."""
    return first_end_after(max(times), window.step, window.offset) if times else None


def one_answer(
    kind: str,
    window: TimeWindow,
    end: int,
    taken: Sequence[Event],
    known: dict[int, Answer],
    push: int | None,
    settings: Settings,
) -> Answer:
    """The answer of a window over the rows so far.

    Its changes are against its own answer before. If it is its first, they are against the newest
    window that was answered, or against nothing if that is a later one.
    """
    size = window.size
    start = end - longest(size)
    inside: list[Row] = []
    earlier: list[Row] = []
    for event in taken:
        if end - size_for(size, event["source"]) <= event["time"] < end:
            inside.append(event["row"] | {SOURCE: event["source"]})
        elif settings.get("against") and start - size <= event["time"] < start:
            earlier.append(event["row"])
    before = known.get(end) or known.get(max(known, default=end))
    table = before.table if before is not None and before.end <= end else []
    found = answer(kind, Live(start, end, inside), [], push, settings, window, earlier)
    found.revision = known[end].revision + 1 if end in known else 0
    found.table = [with_revision(row, found.revision) for row in found.table]
    keys = key_columns(kind, settings, [*table, *found.table])
    found.changes = changes(table, found.table, settings.get("by", ()), keys)
    return found


def with_revision(row: Row, revision: int) -> Row:
    """The row of an answer, with the revision after the edges of the window."""
    edges = ("window_start", "window_end")
    return {n: row[n] for n in edges} | {"revision": revision} | row
