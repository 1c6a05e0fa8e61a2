"""One state for queries over count windows with groups, where each group has its own progress.

Each group counts its own arrivals, so its panes are sealed when it has filled them, whatever other
groups do. So what is settled, and what is needed, is known for each group.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Array, Codes, Ints
from skyband.contract.one_state import OneState, Reader
from skyband.contract.rows import Windows
from skyband.contract.runs import PaneFeed, Runs, expand, offsets_of

__all__ = ["CountedState", "Each", "Turns", "ends_of", "turns_of"]


class Each(NamedTuple):
    """Windows of several queries, sorted by group and end; edges are arrival numbers."""

    place: Ints  # which query asks
    number: Ints
    group: Ints
    first: Ints
    end: Ints
    most: Ints

    def take(self, chosen: Any) -> Each:
        """Only these."""
        return Each(*(each[chosen] for each in self))


class Turns(NamedTuple):
    """Runs by group: those of group g are ``run[ends[g]:ends[g + 1]]``, in order of their panes."""

    run: Ints
    ends: Ints


class CountedState(OneState):
    """A mixin for a common state of a family of queries, which comes behind it."""

    def __init__(self, readers: Sequence[Reader], feed: PaneFeed, *family: Any) -> None:
        super().__init__(readers, feed, *family)
        self.upto: Ints = np.zeros((len(readers), 1), np.int64)
        """The end of the last pane that each query has sealed of each group."""
        self._sizes_asked = np.array([[reader.panes.size] for reader in readers])
        self._recent_by_group: tuple[Runs, Turns] | None = None

    @abstractmethod
    def push(
        self, panes: Runs, asked: Each, which: Ints, room: Any, expired: Ints | None = None
    ) -> None:
        """Push panes and read some windows, each when its last pane is in.

        The state stays so if ``expired`` is given, without the panes of each group that begin
        before that. Otherwise it stays as it was.
        """

    # Progress ---------------------------------------------------------------------------------

    def begin(self, sealed: Sequence[Ints]) -> None:
        self.reserve(max(map(len, sealed)))
        for upto, own in zip(self.upto, sealed, strict=True):
            upto[: len(own)] = own
        self.pull()
        self.settle()

    def reach(self, place: int, panes: Runs | None, windows: Windows) -> None:
        own = self.readers[place].panes
        reached = []
        if panes is not None and len(panes):
            reached.append((panes.group, panes.stamp + 1))
        if len(windows):
            assert windows.group is not None
            reached.append((windows.group, windows.end))
        for group, end in reached:
            self.reserve(int(group.max()) + 1)
            np.maximum.at(self.upto[place], group, own.pane_start(end))

    def reserve(self, groups: int) -> None:
        """Make room for this many groups."""
        known = self.upto.shape[1]
        if groups > known:
            more = np.zeros((len(self.upto), max(groups, 2 * known) - known), np.int64)
            self.upto = np.concatenate([self.upto, more], axis=1)

    @property
    def reached(self) -> Ints:
        return np.asarray(self.upto.max(axis=0))

    # Windows ----------------------------------------------------------------------------------

    def _asked(self, windows: dict[int, Windows]) -> Each:
        pieces = []
        for place, own in windows.items():
            panes, k = self.readers[place].panes, self.readers[place].k
            assert own.group is not None
            edges = panes.pane_start(own.first), panes.pane_start(own.end)
            group, many = own.group.astype(np.int64), len(own)
            pieces.append((np.full(many, place), own.number, group, *edges, np.full(many, k)))
        asked = Each(*(np.concatenate(each) for each in zip(*pieces, strict=True)))
        return asked.take(np.lexsort((asked.end, asked.group)))

    def _read(self, asked: Any, room: Any) -> None:
        assert self.recent is not None
        recent, settled = self.recent, self.upto.min(axis=0)
        done = recent.stamp < settled[recent.group]
        early = asked.end <= settled[asked.group]
        late = np.flatnonzero(~early)
        expired = (self.upto - self._sizes_asked).min(axis=0)
        np.minimum.at(expired, asked.group[late], asked.first[late])
        self.push(recent.take(done), asked, np.flatnonzero(early), room, expired)
        if done.any():
            self.recent = recent.take(~done)
        if len(late):
            self.push(self.recent_of(np.unique(asked.group[late])), asked, late, room)

    def recent_of(self, groups: Ints) -> Runs:
        """The panes of some groups that not every query has sealed."""
        assert self.recent is not None
        many, known = self.upto.shape[1], self._recent_by_group
        if known is None or known[0] is not self.recent or len(known[1].ends) <= many:
            known = self._recent_by_group = self.recent, turns_of(self.recent, np.arange(many))
        turns = known[1]
        return self.recent.take(turns.run[expand(turns.ends[groups], np.diff(turns.ends)[groups])])

    def peek(self, place: int, first: int, end: int, group: int | None = None) -> Runs:
        assert group is not None
        at, edges = np.zeros(1, np.int64), (np.array([first]), np.array([end]))
        asked: Any = self._asked({place: Windows(at, *edges, at, np.array([group], np.int32))})
        self.reserve(group + 1)
        room = self.room(asked)
        if self.recent is not None:
            self.push(self.recent_of(asked.group), asked, at, room)
        return self.partial(asked, at, room)

    # State ------------------------------------------------------------------------------------

    def rows_of(self, place: int) -> Runs | None:
        if self.recent is None:
            return None
        panes, upto, runs = self.readers[place].panes, self.upto[place], self.rows()
        own = (runs.stamp >= (upto - panes.size)[runs.group]) & (runs.stamp < upto[runs.group])
        return runs.take(own).stamped(np.asarray(panes.pane_of(runs.stamp[own]))).ordered()

    def forget(self, groups: Codes) -> None:
        """Groups over count windows are never forgotten."""

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.upto.nbytes  # type: ignore[safe-super]


def turns_of(runs: Runs, groups: Array) -> Turns:
    """Runs in order of their groups, which are among these."""
    local = np.searchsorted(groups, runs.group)
    counts = np.bincount(local, minlength=len(groups))
    return Turns(np.argsort(local, kind="stable"), offsets_of(counts))


def ends_of(asked: Each, groups: Array) -> Ints:
    """Where the windows of each group begin, and where the last ones end."""
    return np.searchsorted(asked.group, np.append(groups, np.iinfo(np.int64).max))
