"""Which rows a window holds, and which rows arrive too late for it.

a time window is [end - size, end), and end runs over the multiples of slide (plus offset)
a count window is the last `size` arrivals, read after every `slide` arrivals
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Row = dict[str, Any]
Batch = Sequence[Row] | Mapping[str, Sequence[Row]]
"""The rows of one push: a list, or for several sources a mapping from source to list."""


@dataclass(frozen=True)
class TimeWindow:
    size: int
    slide: int | None = None
    lateness: int = 0
    offset: int = 0
    revise: int | None = None

    @property
    def step(self) -> int:
        return self.size if self.slide is None else self.slide


@dataclass(frozen=True)
class CountWindow:
    size: int
    slide: int | None = None

    @property
    def step(self) -> int:
        return self.size if self.slide is None else self.slide


@dataclass(frozen=True)
class SideWindows:
    """A time window for each source: they end together, but each has its own size."""

    sizes: tuple[tuple[str, int], ...]
    slide: int
    lateness: int = 0
    offset: int = 0
    revise: int | None = None

    @property
    def size(self) -> dict[str, int]:
        """The size of each source's window: wherever a size is wanted, it may be such a mapping."""
        return dict(self.sizes)

    @property
    def step(self) -> int:
        return self.slide


Size = int | Mapping[Any, int]
"""The size of a window, or of each source's window."""


def size_for(size: Size, source: Any) -> int:
    """The size of the window of a source."""
    return size[source] if isinstance(size, Mapping) else size


def compared(size: int) -> Size:
    """The sizes by which a slide is cut for windows compared with those before: two in a row."""
    return {None: 2 * size, "window": size}


def longest(size: Size) -> int:
    return max(size.values()) if isinstance(size, Mapping) else size


class Live(NamedTuple):
    """A window that is answered, and the rows in it."""

    start: Any
    """None for a window that has no start."""
    end: int
    rows: list[Row]

    @property
    def empty(self) -> bool:
        """True for the first empty window after a non-empty one."""
        return not self.rows


def first_end_after(time: int, slide: int, offset: int = 0) -> int:
    """The least window end that is greater than `time`."""
    return (time - offset) // slide * slide + slide + offset


def is_unused(time: int, size: int, slide: int, offset: int = 0) -> bool:
    """Does no window cover this time? With slide > size there is a gap before each window."""
    return time < first_end_after(time, slide, offset) - size


def time_windows(
    rows: Sequence[Row],
    time: str,
    size: Size,
    slide: int,
    offset: int = 0,
    others: Sequence[int] = (),
) -> list[Live]:
    """Every window answered by the end of a finite input, in order.

    These are the windows with rows and, after each run of them, the first empty one, up to the
    first end after the last row. A row that no window covers still counts as the last row, and so
    does a bad row: `others` are the times of those. If each source has its own window, the column
    "source" says whose row it is.
    """
    live: dict[int, list[Row]] = {}
    for row in rows:
        until = row[time] + size_for(size, row.get("source"))
        for end in range(first_end_after(row[time], slide, offset), until + 1, slide):
            live.setdefault(end, []).append(row)
    times = [*(row[time] for row in rows), *others]
    last = max((first_end_after(at, slide, offset) for at in times), default=0)
    first_empty = {end + slide for end in live} - set(live)
    ends = sorted(end for end in first_empty.union(live) if end <= last)
    return [Live(end - longest(size), end, live.get(end, [])) for end in ends]


def count_windows(rows: Sequence[Row], size: int, slide: int) -> list[Live]:
    """Every window over the arrivals so far: one after each full slide."""
    ends = range(slide, len(rows) + 1, slide)
    return [Live(max(0, end - size), end, list(rows[max(0, end - size) : end])) for end in ends]


def groups(rows: Iterable[Row], by: Sequence[str]) -> list[tuple[tuple[Any, ...], list[Row]]]:
    """The rows of each group, groups in ascending order; without `by` they are all one group."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[column] for column in by), []).append(row)
    return sorted(found.items(), key=lambda group_and_rows: group_and_rows[0])


def cuts_around(time: int, size: Size, slide: int, offset: int = 0) -> list[int]:
    """The cuts from the last window end at or before `time` to the next one.

    They are these ends and, for each window, the later end minus size mod slide.
    """
    end = first_end_after(time, slide, offset)
    sizes = size.values() if isinstance(size, Mapping) else [size]
    return sorted({end - slide, end, *(end - each % slide for each in sizes)})


def pane_end(time: int, size: Size, slide: int, offset: int = 0) -> int:
    """The first cut after `time`."""
    return min(cut for cut in cuts_around(time, size, slide, offset) if cut > time)


def cut_up_to(time: int, size: Size, slide: int, offset: int = 0) -> int:
    """The last cut at or before `time`: the end of the last pane that this watermark seals."""
    return max(cut for cut in cuts_around(time, size, slide, offset) if cut <= time)


def cut_from(time: int, size: Size, slide: int, offset: int = 0) -> int:
    """The first cut at or after `time`."""
    return pane_end(time - 1, size, slide, offset)


BAD = "#bad"
"""A row that has this column, and true in it, is bad."""
FILTERED = "#filtered"
"""A row that has this column, and true in it, does not count: `where` leaves it out."""


@dataclass
class Push:
    """What happened to the rows of one push, by source (None for a single unnamed source)."""

    taken: dict[str | None, list[Row]]
    late: dict[str | None, list[Row]]
    unused: dict[str | None, list[Row]]
    bad: dict[str | None, list[Row]]
    """Rows marked with `BAD`: no part of any answer, but they move the watermark."""
    filtered: dict[str | None, list[Row]]
    """Rows marked with `FILTERED`; these, too, move the watermark."""
    watermark: int | None
    """After the push; None while a source is still unseen."""


def late_rows(
    batches: Iterable[Batch],
    time: str | Mapping[str, str],
    size: Size,
    slide: int,
    offset: int = 0,
    *,
    lateness: int = 0,
    revise: int | None = None,
    sources: Sequence[str] | None = None,
) -> Iterator[Push]:
    """Split batches, pushed one by one, into rows taken, late and unused.

    Each push is judged against the watermark before it; a row that is at most `revise` behind it
    is taken, however late. `sources` names all sources: one that has
    sent nothing yet holds back the watermark. None means a single unnamed source.
    """
    all_sources: Sequence[str | None] = [None] if sources is None else sources
    greatest: dict[str | None, int] = {}
    watermark: int | None = None
    for batch in batches:
        push = Push({}, {}, {}, {}, {}, None)
        parts: Mapping[Any, Sequence[Row]] = batch if isinstance(batch, Mapping) else {None: batch}
        for source, rows in parts.items():
            column = time if isinstance(time, str) else time[source]
            for row in rows:
                at = row[column]
                sealed = watermark is not None and pane_end(at, size, slide, offset) <= watermark
                if revise is not None and watermark is not None and at >= watermark - revise:
                    sealed = False
                unused = is_unused(at, size_for(size, source), slide, offset)
                fate = push.unused if unused else push.late if sealed else push.taken
                fate = push.bad if row.get(BAD) else fate
                fate = push.filtered if row.get(FILTERED) else fate
                fate.setdefault(source, []).append(row)
                greatest[source] = max(greatest.get(source, at), at)
        if all(source in greatest for source in all_sources):
            watermark = min(greatest.values()) - lateness
        push.watermark = watermark
        yield push
