"""Queries that keep one state: they part where they see different rows, and come together again.

    rows differ up to here ──┐ ``since``                       ┌── no window reaches back before
    ─────── together ────────┤                                 ▼   ``since`` any more
                             ├── longest window and a bit ─────┼─────── together ───────
                             └ own states; the feed collects ──┘

A common state is right only as long as every row is taken by all of its queries or by none. When
one is not, each query goes on with a state of its own. Rows that come later are the same for all,
so the feed collects them. Once the windows of all queries hold only such rows, the common state is
made of what was collected.

A row that makes queries differ meanwhile starts this anew. The shorter they were together, the
longer they wait before they collect: each time twice as long, and the longest window more. So
queries that differ all the time do next to nothing in vain.

Over count windows with groups, queries differ only if they were given different batches. Then they
have counted different arrivals, and part for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skyband.contract.runs import Runs
from skyband.engine.clocks import NEVER
from skyband.engine.feeding import Feed, disagree, next_position, sealed_counts, sealed_time
from skyband.engine.fold import Fold
from skyband.engine.open_panes import Combined
from skyband.engine.session import ONLY, Session, make_synopsis
from skyband.engine.taken import Taken
from skyband.engine.who_shares import by_cuts, takes_feed
from skyband.window import CountWindow

__all__ = ["Union"]

_SPARE = 1 << 20
"""Bytes that a feed may grow by before what it has collected is condensed."""


class Union:
    """Queries of a family that keep one state, except while they see different rows."""

    def __init__(self, sessions: Sequence[Session], places: Sequence[int]) -> None:
        """``places`` are those of its queries among the sessions of a family."""
        self.places = list(places)
        self.sessions = [sessions[i] for i in places]
        self.queries = [session.query for session in self.sessions]
        self.fed = takes_feed(self.queries)
        """Whether the common state takes its panes from a feed."""
        self.counted = bool(self.queries[0].groups) and isinstance(
            self.queries[0].window, CountWindow
        )
        """Whether each group counts its own arrivals."""
        self.feed: Feed | None = None
        self.together = False
        self.since: int | None = None
        """While apart: rows from here on are the same for all; None until that can be told."""
        self.parted = self.joined = 0
        """How often they parted, and how often they came together again."""
        self._longest = max(int(query.window.panes.size) for query in self.queries)
        self._wait, self._came = 0, NEVER
        self._condensed = 0
        self._combined: dict[str | None, Combined] = {}

    @property
    def names(self) -> list[str | None]:
        return [session.name for session in self.sessions]

    @property
    def _folds(self) -> list[Fold]:
        return [session.start() for session in self.sessions]

    def combined(self, session: Session) -> Combined | None:
        """What a session combines with those that have the same panes; None if there are none."""
        return self._combined.get(session.name)

    def begin(self, feed: Feed, saved: Runs | None) -> bool:
        """Keep one state from now on, or as soon as possible; False if columns do not allow it.

        ``saved`` is what was kept together when a snapshot was made.
        """
        first, *others = self._folds
        if self.fed:
            if not all(fold.groups.same_as(first.groups) for fold in others):
                return False
            for fold in others:
                fold.share_groups(first)
            self.feed = feed
            if saved is not None:
                feed.take(saved)
            elif any(session.rows["rows_in"] for session in self.sessions):
                return not self.counted  # it is not known what they have in common
        return self._unite()

    def _unite(self) -> bool:
        first, *others = [session.synopsis for session in self.sessions]
        sealed_of: Any = sealed_counts if self.counted else sealed_time
        if self.feed is None:
            first.unite(others)
        elif not first.recut(others, self.feed, [sealed_of(fold) for fold in self._folds]):
            return False
        self.together, self.since = True, None
        self._came = NEVER if self.counted else max(map(sealed_time, self._folds))
        for same in by_cuts(dict(zip(self.names, self.queries, strict=True)), self.names):
            self._combined |= dict.fromkeys(same, Combined())
        return True

    def judge(self, taken: Sequence[Taken]) -> bool:
        """Part or come together before rows are taken; False if columns do not allow one state."""
        if self.counted:
            return self.together
        folds = self._folds
        sealed = [sealed_time(fold) for fold in folds]
        if not self.together and self.since is None:
            self._collect(max(next_position(fold) for fold in folds))
        if self.feed is not None and disagree(sealed, taken, self.since):
            self.part(max(sealed))
        elif self.since is not None:
            if self.since <= min(map(self._reach, folds)):
                self.joined += 1
                return self._unite()
            self._condense(sealed)
        return True

    def _reach(self, fold: Fold) -> int:
        """Rows before this are in no state that a query has or needs."""
        # The state of a query may still have the last window, which can have ended before its last
        # pane; a state that comes from a feed is made anew.
        spare = 0 if self.fed else fold.panes.slide
        return sealed_time(fold) - fold.panes.size - spare

    def part(self, since: int | None = None) -> None:
        """Give each query a state of its own: rows before ``since`` are not the same for all."""
        if self.together:
            self.parted += 1
            for session in self.sessions:
                session.synopsis.part()
                if session.fold is not None:
                    session.fold.open.part()
        self.together, self.since, self._combined = False, None, {}
        if since is not None:
            self._collect(since)

    def _collect(self, since: int) -> None:
        """Collect rows from a time on, or later if queries differed shortly before."""
        self._wait = max(0, 2 * self._wait + self._longest - (since - self._came))
        self.since = self._came = since + self._wait
        self._condensed = 0
        if self.feed is not None:
            self.feed.upto(self.since)

    def takes_from(self, sealed: int) -> int | None:
        """The time from which on the feed takes rows; None if it takes none yet."""
        return sealed if self.together else None if self.since is None else max(sealed, self.since)

    def _condense(self, sealed: Sequence[int]) -> None:
        """Drop collected rows that the common state would have dropped, once they are many."""
        if self.feed is None or self.feed.nbytes <= 2 * self._condensed + _SPARE:
            return
        first, *others = [make_synopsis(query) for query in self.queries]
        for each, session in zip((first, *others), self.sessions, strict=True):
            each.bind(ONLY, session.synopsis.schema)
        if first.recut(others, self.feed, sealed) and (kept := first.kept_together()) is not None:
            self.feed.take(kept)
        self._condensed = self.feed.nbytes

    def kept_together(self) -> Runs | None:
        """What a snapshot needs to go on with one state; None while they are apart."""
        if not self.together or self.feed is None:
            return None
        pieces = [self.sessions[0].synopsis.kept_together(), self.feed.whole()]
        runs = [each for each in pieces if each is not None]
        return Runs.concat(runs) if runs else None

    @property
    def nbytes(self) -> int:
        """Bytes that no query counts as its own."""
        return 0 if self.together or self.feed is None else self.feed.nbytes
