"""Panes: the pieces that windows are made of.

    TimeWindow("10 s", slide="4 s")          size mod slide = 2 s, so two panes per slide

    window ends      4         8        12        16
    panes       ├ 0 ┼ 1 ┼ 2 ┼ 3 ┼ 4 ┼ 5 ┼ 6 ┼ 7 ┤
                0   2   4   6   8   10  12  14  16
    the window that ends at 16 is [6, 16): panes 3 to 7

Panes are numbered with consecutive integers. A row belongs to exactly one pane, and a window is a
whole number of panes. Code outside this module works with pane numbers, not with times.

If cuts lie at local midnights, the same arithmetic is done on what the clock on the wall shows
(``local_days.py``); only ``_wall`` and ``_position`` know of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from skyband.arrays import Ints
from skyband.local_days import LocalDays

_FAR = 1 << 62
NO_START = -(1 << 63)
"""Stands for the start of a window that has none."""


@dataclass(frozen=True, slots=True)
class Panes:
    """Pane arithmetic on plain integers, the same for times and for arrival counts.

    Window number j ends at ``offset + j * slide``. Panes are numbered as in the drawing at the top
    of this module.
    """

    size: int
    slide: int
    offset: int = 0
    days: LocalDays | None = field(default=None, kw_only=True)
    """If cuts lie at a time of the clock in some zone: how they become instants."""
    cuts: tuple[int, ...] = field(init=False, repr=False, compare=False, default=())
    """Where a slide is cut, from its beginning: wherever windows end, and where they begin."""
    per_window: int = field(init=False, repr=False, compare=False, default=0)
    """The number of panes that a window covers."""

    sized: ClassVar[bool] = True
    """Whether windows have a size, so that rows leave them again."""
    since: ClassVar[int | None] = None
    """The time before which rows are in no window, if there is one."""

    def __post_init__(self) -> None:
        self._cut(self.sizes)

    def _cut(self, sizes: tuple[int, ...]) -> None:
        """Cut for windows of these sizes."""
        cuts = {-size % self.slide for size in sizes}
        object.__setattr__(self, "cuts", tuple(sorted({0} | cuts)))
        object.__setattr__(self, "per_window", self.panes_of(self.size))

    def panes_of(self, size: int) -> int:
        """The number of panes of a window of this size, one of those that were cut for."""
        whole, rest = divmod(size, self.slide)
        return whole * len(self.cuts) + sum(cut >= self.slide - rest for cut in self.cuts)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of all windows that end together: one, unless each source has its own."""
        return (self.size,)

    def of(self, source: str) -> Panes:
        """The same panes, for the window of one source."""
        return self

    @property
    def rest(self) -> int:
        """``size mod slide``; if it is not 0, every slide is cut a second time."""
        return self.size % self.slide

    @property
    def per_slide(self) -> int:
        return len(self.cuts)

    @property
    def gaps(self) -> bool:
        """Whether there are panes that no window covers."""
        return self.slide > self.size

    def _wall(self, position: Any) -> Any:
        return position if self.days is None else self.days.wall(position)

    def _position(self, wall: Any) -> Any:
        return wall if self.days is None else self.days.instant(wall)

    def pane_of(self, position: Any) -> Any:
        """Pane numbers of integer positions (an array or one number)."""
        return self._number(self._wall(position))

    def _number(self, wall: Any) -> Any:
        shifted = wall - self.offset if self.offset else wall
        slides = shifted // self.slide
        if len(self.cuts) == 1:
            return slides
        within = shifted - slides * self.slide
        if len(self.cuts) == 2:
            return 2 * slides + (within >= self.cuts[1])
        return len(self.cuts) * slides + np.searchsorted(self.cuts, within, side="right") - 1

    def pane_start(self, pane: Any) -> Any:
        """First position of a pane (an array or one number)."""
        return self._position(self._edge(pane))

    def _edge(self, pane: Any) -> Any:
        if len(self.cuts) == 1:
            return self.offset + pane * self.slide
        slides, place = pane // len(self.cuts), pane % len(self.cuts)
        within = place * self.cuts[1] if len(self.cuts) == 2 else np.asarray(self.cuts)[place]
        return self.offset + slides * self.slide + within

    def pane_end(self, pane: Any) -> Any:
        """First position after a pane."""
        return self.pane_start(pane + 1)

    def used(self, pane: Ints) -> npt.NDArray[np.bool_]:
        """Whether some window covers each pane."""
        if not self.gaps:
            return np.ones(len(pane), np.bool_)
        return np.asarray(pane % len(self.cuts) >= len(self.cuts) - self.per_window)

    def end_of(self, window: Any) -> Any:
        """The position at which window number ``window`` ends."""
        return self._position(self.offset + window * self.slide)

    def start_of(self, window: Any) -> Any:
        """The position at which window number ``window`` starts."""
        return self._position(self.offset + window * self.slide - self.size)

    def first_pane(self, window: Any) -> Any:
        """The first pane of a window."""
        return self.end_pane(window) - self.per_window

    def end_pane(self, window: Any) -> Any:
        """The pane after the last pane of a window."""
        return window * self.per_slide

    def last_window_ending_by(self, position: int) -> int:
        """The greatest window number whose end is at or before ``position``."""
        return int((self._wall(position) - self.offset) // self.slide)

    def first_window_from(self, position: int) -> int | None:
        """The first window that starts at or after a position of a stream that already runs.

        None if who joins a stream counts positions of its own.
        """
        before = self._wall(position - 1) - self.offset
        return int((before + self.size) // self.slide) + 1

    def first_since(self, end: Any, size: int) -> Any:
        """The first pane that begins at most ``size`` before pane number ``end`` begins."""
        return self._number(self._edge(end) - size - 1) + 1

    def first_window_of(self, pane: Any) -> Any:
        """The first window that covers the pane; for a pane in a gap, the first that ends later."""
        return pane // self.per_slide + 1

    def last_window_of(self, pane: Any) -> Any:
        """The last window that covers the pane."""
        return (pane + self.per_window) // self.per_slide

    # What answers read may begin before their window, if that is compared with an earlier one

    def first_read(self, first: Any, end: Any) -> Any:
        """The first pane that the answer over the panes ``[first, end)`` reads."""
        return first

    def last_read_of(self, pane: Any) -> Any:
        """The last window whose answer reads the pane."""
        return self.last_window_of(pane)


@dataclass(frozen=True, slots=True)
class ArrivalPanes(Panes):
    """Panes of a count window: positions are arrivals, and there are none before the first."""

    def start_of(self, window: Any) -> Any:
        return np.maximum(Panes.start_of(self, window), 0)

    def first_pane(self, window: Any) -> Any:
        return np.maximum(Panes.first_pane(self, window), 0)

    def first_window_from(self, position: int) -> int | None:
        return None


@dataclass(frozen=True, slots=True)
class DecayPanes(Panes):
    """Panes of a decay window: a window is answered if its last pane has rows, and only then.

    ``size`` equals ``slide``, because that decides which windows are answered.
    """

    half_life: int = 1
    sized: ClassVar[bool] = False

    @property
    def memory(self) -> int:
        """What has had no row for so long is forgotten: 1,000 half-lives."""
        return 1_000 * self.half_life

    def start_of(self, window: Any) -> Any:
        return np.full_like(window, NO_START)

    def first_pane(self, window: Any) -> Any:
        """The first pane with rows that still keep their group in the answer."""
        memory = min(self.memory, _FAR)
        ends = np.maximum(self.end_of(window), memory - _FAR)
        return np.minimum(self.pane_of(ends - memory), window)


@dataclass(frozen=True, slots=True)
class LandmarkPanes(Panes):
    """Panes of a landmark window: no pane ever leaves it. ``size`` equals ``slide``."""

    landmark: int | None = None
    sized: ClassVar[bool] = False

    @property
    def since(self) -> int | None:  # type: ignore[override]
        return self.landmark

    def start_of(self, window: Any) -> Any:
        return np.full_like(window, NO_START if self.landmark is None else self.landmark)

    def first_pane(self, window: Any) -> Any:
        return np.full_like(window, -_FAR)

    def last_window_of(self, pane: Any) -> Any:
        return np.full_like(pane, _FAR)


@dataclass(frozen=True, slots=True)
class SidePanes(Panes):
    """Panes of windows that end together, one per source, each with its own size.

        sizes 10 and 7, slide 4: ends, ends - 2 (10 mod 4) and ends - 3 (7 mod 4) are cuts
        panes ├0┼1┼  2  ┼3┼4┼  5  ┤
              0 1 2     4 5 6     8

    ``size`` is the greatest of the sizes, so that the arithmetic is that of the longest window;
    ``of`` gives that of a source.
    """

    sides: tuple[tuple[str, int], ...] = ()
    """Each source and the size of its window."""

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(size for _, size in self.sides)

    def of(self, source: str) -> Panes:
        return replace(self, size=dict(self.sides)[source])

    def first_of(self, source: str, end: Any) -> Any:
        """The first pane of a source's window, or of a shorter one, that ends with this pane.

        Between two ends the window cannot begin everywhere: it begins with the first cut.
        """
        return self.first_since(end, dict(self.sides)[source])


@dataclass(frozen=True, slots=True)
class ComparedPanes(Panes):
    """Panes of windows each of which is compared with the one of equal length just before it.

    With size 10 and slide 3, a slide is cut at its end, 1 before it (10 mod 3) and 2 before it
    (20 mod 3). The window that ends at 24 is [14, 24), and it is compared with [4, 14).
    """

    def __post_init__(self) -> None:
        self._cut((self.size, 2 * self.size))

    @property
    def gaps(self) -> bool:
        return self.slide > 2 * self.size

    @property
    def per_read(self) -> int:
        """The number of panes of a window and the one before it."""
        return self.panes_of(2 * self.size)

    def used(self, pane: Ints) -> npt.NDArray[np.bool_]:
        return np.asarray(pane % len(self.cuts) >= len(self.cuts) - self.per_read)

    def first_read(self, first: Any, end: Any) -> Any:
        return self._number(2 * self._edge(first) - self._edge(end) - 1) + 1

    def last_read_of(self, pane: Any) -> Any:
        return (pane + self.per_read) // self.per_slide

    def first_window_from(self, position: int) -> int | None:
        before = self._wall(position - 1) - self.offset
        return int((before + 2 * self.size) // self.slide) + 1
