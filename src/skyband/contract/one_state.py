"""One state for several queries that differ only in k, window and slide.

It is the state of the longest window and the greatest k, over panes that are cut wherever a window
of any query begins or ends. Panes are numbered by the times at which they begin:

    windows of a    ├─────────────────────────────────┤
    windows of b          ├───────────┼───────────┤
    panes           ├─────┼───────────┼───────────┼───┤
                                     ▲            ▲
    settled ─────────────────────────┘            └─ a has sealed its panes up to here

Such a state answers a window only at the moment at which the window ends: later panes drop rows
that the answer needs. So panes that not every query has sealed are kept apart, as they came. The
windows of a query that is ahead are read from a copy that has taken them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Codes, Ints
from skyband.contract.rounds import Rounds
from skyband.contract.rows import Windows
from skyband.contract.runs import PaneFeed, Runs
from skyband.panes import Panes

__all__ = ["Asked", "OneState", "Reader"]

_NEVER = int(np.iinfo(np.int64).min)


@dataclass
class Reader:
    """A query that reads its windows from a common state."""

    panes: Panes
    k: int
    """How many rows it reads of a window."""
    upto: int = _NEVER
    """The end of the last pane that it has sealed."""

    @property
    def needed(self) -> int:
        """Panes that begin before this are in no window that it may still read."""
        return _NEVER if self.upto == _NEVER else self.upto - int(self.panes.size)

    def reach(self, panes: Runs | None, windows: Windows) -> None:
        """Note that it has sealed these panes, and all up to the end of these windows."""
        ends = [int(panes.stamp[-1]) + 1] if panes is not None and len(panes) else []
        ends += [int(windows.end[-1])] if len(windows) else []
        if ends:
            self.upto = max(self.upto, int(self.panes.pane_start(max(ends))))


class Asked(NamedTuple):
    """Windows of several queries, in order of their ends; edges are times."""

    place: Ints  # which query asks
    number: Ints
    first: Ints
    end: Ints
    most: Ints

    def take(self, chosen: Any) -> Asked:
        """Only these."""
        return Asked(*(each[chosen] for each in self))


class OneState(ABC):
    """What several queries keep together; a family of queries says what a row is."""

    def __init__(self, readers: Sequence[Reader], feed: PaneFeed) -> None:
        self.readers = list(readers)
        self.feed = feed
        self.longest = max(int(reader.panes.size) for reader in readers)
        self.recent: Runs | None = None
        """Panes that not every query has sealed; None before the first pane."""
        self._rounds: Rounds[int] = Rounds()

    # What a family supplies -------------------------------------------------------------------

    @abstractmethod
    def __len__(self) -> int:
        """How many rows are kept."""

    @abstractmethod
    def enter(self, panes: Runs) -> Runs:
        """Take panes from the feed: the same runs, with what ``run`` needs of each row."""

    @abstractmethod
    def room(self, asked: Asked) -> Any:
        """Where ``run`` writes what it reads of these windows; nothing is read of them yet."""

    @abstractmethod
    def run(
        self, panes: Runs, asked: Asked, part: slice, room: Any, expired: int, settle: bool
    ) -> None:
        """Push panes to the state, and read a part of the windows, each when its last pane is in.

        With ``settle``, the state stays as it is then, without panes that begin before ``expired``.
        Otherwise it stays as it was.
        """

    @abstractmethod
    def partial(self, asked: Asked, own: Ints, room: Any) -> Runs:
        """What a query answers from what was read of its own windows, at these positions."""

    @abstractmethod
    def rows(self) -> Runs:
        """All rows that are kept, as panes of the feed."""

    @abstractmethod
    def _check(self) -> None:
        """Assert every invariant; only tests call it."""

    @abstractmethod
    def forget(self, groups: Codes) -> None:
        """Drop groups whose rows no query needs; their codes may be used again."""

    @abstractmethod
    def compact(self) -> None:
        """Make room if many rows were dropped."""

    @property
    def crowded(self) -> bool:
        """Whether so many rows were dropped that ``compact`` makes room."""
        return False

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of the state."""

    # Folding ----------------------------------------------------------------------------------

    def expect(self, round_: object, place: int, windows: Windows) -> None:
        """A query will ask for these windows in this round; they are read together with others."""
        self._rounds.expect(round_, place, windows)

    def fold(self, place: int, panes: Runs, windows: Windows) -> Runs | None:
        """Take the panes that a query has sealed, and read its windows."""
        self.reach(place, panes, windows)
        self.pull()
        return self._rounds.read(place, windows, self._answers) if len(windows) else None

    def begin(self, sealed: Sequence[Any]) -> None:
        """Take from the feed what queries have sealed already; ``sealed`` are the ends of that."""
        for reader, upto in zip(self.readers, sealed, strict=True):
            reader.upto = upto
        self.pull()
        self.settle()

    def reach(self, place: int, panes: Runs | None, windows: Windows) -> None:
        """Note that a query has sealed these panes, and all up to the end of these windows."""
        self.readers[place].reach(panes, windows)

    @property
    def reached(self) -> Any:
        """The time up to which some query has sealed its panes; None if there is none."""
        time = max(reader.upto for reader in self.readers)
        return None if time == _NEVER else time

    def pull(self) -> None:
        """Take the panes that some query has sealed from the feed."""
        reached = self.reached
        fresh = self.feed.upto(reached) if reached is not None else None
        if fresh is None:
            return
        self.compact()
        fresh = self.enter(fresh)
        self.recent = fresh if self.recent is None else Runs.concat([self.recent, fresh])

    def _answers(self, windows: dict[int, Windows]) -> dict[int, Runs]:
        """Read the windows of several queries, in order of their ends."""
        for place, due in windows.items():
            self.reach(place, None, due)
        self.pull()
        asked = self._asked(windows)
        room = self.room(asked)
        if self.recent is not None:  # or it was restored after its last row had expired
            self._read(asked, room)
        own = {place: np.flatnonzero(asked.place == place) for place in windows}
        return {place: self.partial(asked, each, room) for place, each in own.items()}

    def _read(self, asked: Asked, room: Any) -> None:
        assert self.recent is not None
        settled = self.settled
        early = int(np.searchsorted(asked.end, settled, "right"))
        needed = [reader.needed for reader in self.readers]
        expired = int(asked.first[early:].min(initial=min(needed)))
        cut = int(np.searchsorted(self.recent.stamp, settled))
        panes, self.recent = self.recent.slice(0, cut), self.recent.slice(cut, len(self.recent))
        self.run(panes, asked, slice(0, early), room, expired, settle=True)
        if early < len(asked.end):
            self._run_recent(asked, slice(early, len(asked.end)), room)

    def settle(self) -> None:
        """Push the panes that every query has sealed, and drop those that none needs."""
        if self.recent is not None:
            none = np.zeros(0, np.int64)
            asked = self._asked({0: Windows(none, none, none, none, none.astype(np.int32))})
            self._read(asked, self.room(asked))

    def _asked(self, windows: dict[int, Windows]) -> Any:
        pieces = []
        for place, own in windows.items():
            reader = self.readers[place]
            edges = reader.panes.pane_start(own.first), reader.panes.pane_start(own.end)
            many = len(own)
            pieces.append((np.full(many, place), own.number, *edges, np.full(many, reader.k)))
        asked = Asked(*(np.concatenate(each) for each in zip(*pieces, strict=True)))
        return asked.take(np.argsort(asked.end, kind="stable"))

    @property
    def settled(self) -> int:
        """The time up to which every query has sealed its panes."""
        return min(reader.upto for reader in self.readers)

    def _run_recent(self, asked: Asked, part: slice, room: Any) -> None:
        """Read windows that end after what is settled."""
        assert self.recent is not None
        cut = int(np.searchsorted(self.recent.stamp, asked.end[-1]))
        self.run(self.recent.slice(0, cut), asked, part, room, _NEVER, settle=False)

    def peek(self, place: int, first: int, end: int, group: int | None = None) -> Runs:
        """What a query would answer over its own panes ``[first, end)``, up to its last one.

        ``group`` is the only group to read, for groups that count their own arrivals.
        """
        reader, zero = self.readers[place], np.zeros(1, np.int64)
        start, stop = reader.panes.pane_start(first), reader.panes.pane_start(end)
        asked = Asked(zero + place, zero, zero + start, zero + stop, zero + reader.k)
        room = self.room(asked)
        if self.recent is not None:
            self._run_recent(asked, slice(0, 1), room)
        return self.partial(asked, zero, room)

    def share(self, place: int) -> dict[str, int | float]:
        """A query's share of what is kept: shares add up to the whole."""
        many = len(self.readers)
        rest = place == 0  # the first one also has what is left over
        return {
            name: whole // many + (whole % many if rest else 0)
            for name, whole in (("retained", len(self)), ("state_bytes", self.nbytes))
        }

    def rows_of(self, place: int) -> Runs | None:
        """The rows that a query may still read, in its own panes; several runs may be of one."""
        if self.recent is None:
            return None
        reader, runs = self.readers[place], self.rows()
        own = (runs.stamp >= reader.needed) & (runs.stamp < reader.upto)
        runs = runs if own.all() else runs.take(own)
        return runs.stamped(np.asarray(reader.panes.pane_of(runs.stamp))).ordered()

    def check_recent(self, pane: Ints) -> None:
        """Assert that panes not all have sealed are newer than ``pane``, those of the state."""
        if self.recent is not None and len(self.recent):
            assert not self.recent.ordered().repeats.any()
            assert (np.diff(self.recent.stamp) >= 0).all()
            assert self.recent.stamp[0] > pane.max(initial=_NEVER)
