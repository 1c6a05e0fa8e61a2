"""What `peek` shows between pushes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oracle.changes import changes
from oracle.driver import (
    ONLY_FOR_ALGORITHMS,
    Run,
    answers,
    arrivals_of,
    cut_sizes,
    events_of,
    prepared,
    split_rows,
)
from oracle.one_window import ARRIVAL, SOURCE, Answer, Settings, answer, evaluate, key_columns
from oracle.revisions import with_revision
from oracle.unsized import (
    DecayWindow,
    LandmarkWindow,
    live_rows,
)
from oracle.windows import (
    Batch,
    CountWindow,
    Live,
    TimeWindow,
    cut_from,
    cut_up_to,
    first_end_after,
    groups,
    is_unused,
    longest,
    size_for,
)


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
    sizes = cut_sizes(window, settings)
    shape = (sizes, window.step, window.offset)
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
    # Of the newest window, and of its corrections the last one.
    before = max(given, key=lambda a: (a.end, a.revision)).table if given else []
    if isinstance(window, (DecayWindow, LandmarkWindow)):
        inside = live_rows(events_of(pushes, settings), window, end)
        rows = [event["row"] for event in inside]
        return answer(kind, Live(window.since, end, rows), before, None, settings, window)
    start = cut_from(end - (longest(window.size) if last is None else last), *shape)
    rows, earlier = [], []
    for event in events_of(pushes, settings):
        own = size_for(sizes, event["source"])
        first = max(start, cut_from(end - own, *shape))
        if is_unused(event["time"], own, *shape[1:]):
            continue
        if first <= event["time"] < end:
            rows.append(event["row"] | {SOURCE: event["source"]})
        elif cut_from(2 * start - end, *shape) <= event["time"] < start:
            earlier.append(event["row"])
    found = answer(kind, Live(start, end, rows), before, None, settings, earlier=earlier)
    if getattr(window, "revise", None) is not None:
        found.table = [with_revision(row, 0) for row in found.table]
    return found


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
