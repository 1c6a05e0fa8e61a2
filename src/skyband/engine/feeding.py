"""One state for queries whose windows are cut differently: they read it pane by pane from a feed.

    windows of a    ├─────────┼─────────┼─────────┤
    windows of b    ├──────┼──────┼──────┼──────┼──
    panes           ├──────┼──┼───┼─────┼┼──────┼─┤    as in ``sharing.py``

Rows are summarised between the cuts of all windows anyway. The feed holds these summaries, stamped
with the time at which each pane begins, until a query has sealed a pane of its own and asks for
what is in it. From then on they are in the common state, from which every query reads its windows.

This is right as long as every row is late for all of these queries or for none. A row that comes
late may be in a pane that one query has sealed and another has not; the queries part before it is
taken (``unions.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skyband.arrays import Codes, Ints
from skyband.contract.runs import Runs
from skyband.engine.clocks import NEVER
from skyband.engine.fold import Fold
from skyband.engine.moves import Move
from skyband.engine.open_panes import OpenPanes
from skyband.engine.taken import Taken

__all__ = ["FedMove", "Feed", "disagree", "next_position", "sealed_counts", "sealed_time"]


class Feed:
    """Summaries between the cuts of all windows that no query has asked for yet."""

    def __init__(self, combine: Callable[[Runs], Runs], totals: bool = False) -> None:
        """``totals`` keeps how many rows each pane has; no state needs that."""
        self._open = OpenPanes(combine)
        self._totals = totals

    def take(self, runs: Runs) -> None:
        """Take summaries, stamped with the times at which their panes begin."""
        scalars = runs.scalars if self._totals else {}
        self._open.take(Runs(runs.stamp, runs.group, runs.parts, scalars).ordered())

    def upto(self, time: int | Ints) -> Runs | None:
        """Hand over the panes that begin before ``time``, each once; None if there are none."""
        _, found, rest = self._open.split(lambda runs: runs.stamp < _time_of(time, runs.group))
        if found is not None:
            self._open.keep(rest)
        return found

    def whole(self) -> Runs | None:
        """All that it holds."""
        return self._open.whole()

    @property
    def nbytes(self) -> int:
        return self._open.nbytes

    def mark(self) -> tuple[Any, ...]:
        """What ``rewind`` goes back to."""
        return self._open.mark()

    def rewind(self, mark: tuple[Any, ...]) -> None:
        """Go back to a mark."""
        self._open.rewind(mark)


def _time_of(time: int | Ints, group: Codes) -> int | Ints:
    """The time for each of these groups; beyond all times for those that have none."""
    if isinstance(time, int):
        return time
    known = np.minimum(group, len(time))
    return np.append(time, NEVER)[known]


@dataclass(frozen=True, eq=False)
class FedMove(Move):
    """A move that also gives rows to a feed."""

    feed: Feed

    def mark(self) -> tuple[Any, ...]:
        return *super().mark(), self.feed.mark()

    def rewind(self, mark: tuple[Any, ...]) -> None:
        super().rewind(mark)
        self.feed.rewind(mark[-1])


def sealed_counts(fold: Fold) -> Ints:
    """The end of the last pane that a query over a count window has sealed, for each group."""
    return np.asarray(fold.panes.pane_start(fold.panes.pane_of(fold.count.counts)))


def sealed_time(fold: Fold | None) -> int:
    """The end of the last pane that a query has sealed; if there are groups, over a time window."""
    if fold is None or not (fold.counting or fold.time.watermark is not None):
        return NEVER
    if fold.counting:
        return int(sealed_counts(fold)[0])
    return int(fold.panes.pane_start(fold.time.sealed))


def next_position(fold: Fold) -> int:
    """A time that is greater than that of any row so far; or the number of the next arrival."""
    if fold.counting:
        return int(fold.count.counts[0])
    greatest = fold.time.greatest
    return NEVER if greatest is None else greatest + 1


def disagree(sealed: Sequence[int], taken: Sequence[Taken], since: int | None = None) -> bool:
    """Whether a row is late for one query but not for all; only rows from ``since`` on count.

    ``sealed`` are the times up to which the queries have sealed their panes.
    """
    first, last = min(sealed), max(sealed)
    first = first if since is None else max(first, since)
    return any(
        bool(((each.ticks >= first) & (each.ticks < last)).any())
        for each in taken
        if each.ticks is not None and each.least is not None and each.least < last
    )
