"""Which queries of a board share their summaries, and how.

Queries that differ only in k and window need the same pass over the rows. It is made once, over
panes that are cut wherever any of their windows begins or ends, for the greatest k:

    windows of a    ├─────────┼─────────┤        a pane of a query is a whole number of shared
    windows of b    ├──────┼──────┼─────┤        panes, so combining their summaries gives the
    shared panes    ├──────┼──┼───┼─────┤        summary of the query's own pane

Each query then combines the summaries to its own panes and k, which costs little.

Most queries also keep one state (``unions``), from which each reads its own windows. Which
algorithms can do that, they say themselves: ``Synopsis.unites`` if the panes of the queries have to
be the same, ``Synopsis.recuts`` if the state takes the shared panes themselves (``feeding.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from skyband.contract.runs import Runs
from skyband.contract.synopsis import Synopsis
from skyband.engine.clocks import NEVER
from skyband.engine.feeding import FedMove, Feed, disagree, sealed_time
from skyband.engine.fold import Fold, Step
from skyband.engine.moves import Move
from skyband.engine.open_panes import Combined
from skyband.engine.session import ONLY, Session, Summary, make_synopsis
from skyband.engine.shared_panes import Shared
from skyband.engine.taken import Taken
from skyband.engine.who_shares import alike, by_cuts, families, finest, takes_feed, unions
from skyband.window import CountWindow

__all__ = ["Family", "families"]


class Family:
    """Sessions that share their summaries; it keeps nothing from one batch to the next."""

    def __init__(self, sessions: Sequence[Session]) -> None:
        self.sessions = list(sessions)
        self.queries = [session.query for session in sessions]
        self.panes = [query.window.panes for query in self.queries]
        self.base = finest(self.panes)
        self.counting = isinstance(self.queries[0].window, CountWindow)
        self._summarisers: dict[bool, Synopsis[Any]] = {}
        by_place = dict(enumerate(self.queries))
        self.unions = [] if self._by_the_clock else unions(by_place, list(by_place))
        same = [] if self._by_the_clock else alike(by_place, list(by_place))
        self._together = {
            self.sessions[i].name: combined
            for names, combined in ((names, Combined()) for names in same)
            for i in names
        }
        self._united: list[Synopsis[Any]] = []
        self._feeds: dict[int, Feed] = {}
        """The feeds of unions that take their panes from one, by the place of the first query."""
        self.saved: dict[int, Runs] = {}
        """What such unions kept together when a snapshot was made, until they go on with it."""

    @property
    def _by_the_clock(self) -> bool:
        """Whether sessions drop idle sources, each at its own moment."""
        return any(session.idle is not None for session in self.sessions)

    @property
    def fed(self) -> list[list[int]]:
        """The places of queries that keep one state, which takes its panes from a feed."""
        return [names for names in self.unions if takes_feed([self.queries[i] for i in names])]

    @property
    def ready(self) -> bool:
        """Whether rows may wait before they are summarised: each feed will get them."""
        return set(self._feeds) == {names[0] for names in self.fed}

    def unite(self) -> None:
        """Let queries keep one state, once their columns are known."""
        synopses = [session.synopsis for session in self.sessions]
        if self._united and all(a is b for a, b in zip(synopses, self._united, strict=True)):
            return
        self._feeds, self._united = {}, synopses
        for names in self.fed:
            if not self._recut(names):  # those with the same panes may still keep one state
                same = alike(dict(enumerate(self.queries)), names)
                self.unions = [each for each in self.unions if each is not names] + same
        self.saved = {}
        for first, *others in self.unions:
            if first not in self._feeds:
                synopses[first].unite([synopses[i] for i in others])

    def _recut(self, names: Sequence[int]) -> bool:
        """Let queries keep one state that takes a feed, if they are new or it was saved."""
        sessions = [self.sessions[i] for i in names]
        first, *others = [session.synopsis for session in sessions]
        saved = self.saved.get(names[0])
        if saved is None and any(session.rows["rows_in"] for session in sessions):
            return False
        folds = [session.start() for session in sessions]
        if not all(fold.groups.same_as(folds[0].groups) for fold in folds):
            return False
        feed = Feed(self.summariser().combine)
        if saved is not None:
            feed.take(saved)
        if not first.recut(others, feed, [sealed_time(fold) for fold in folds]):
            return False
        for fold in folds[1:]:
            fold.share_groups(folds[0])
        for same in by_cuts(dict(enumerate(self.queries)), names):
            combined = Combined()
            self._together |= {self.sessions[i].name: combined for i in same}
        self._feeds[names[0]] = feed
        return True

    def settle(self) -> None:
        """Let feeds have the rows that wait to be summarised."""
        for i in self._feeds:
            fold = self.sessions[i].fold
            if fold is not None and fold.open.waiting is not None:
                fold.open.waiting.settle()

    def _feed_waiting(self, feed: Feed, fold: Fold, taken: Taken) -> None:
        self._feed_chunk(feed, fold, NEVER, Shared(self, taken))

    @staticmethod
    def _feed_chunk(feed: Feed, fold: Fold, sealed: int, chunk: Shared) -> None:
        """Give the rows of a chunk to a feed, except those from before ``sealed``."""
        made = chunk.made()
        if made is not None:
            starts = made[1]
            keep = starts >= sealed
            if keep.any():
                feed.take(chunk.coded(fold.groups, keep).stamped(starts[keep]))

    def kept_together(self) -> dict[int, Runs]:
        """What queries keep together whose state takes a feed, for a snapshot."""
        self.settle()
        found = dict(self.saved)
        for i, feed in self._feeds.items():
            pieces = [self.sessions[i].synopsis.kept_together(), feed.whole()]
            runs = [each for each in pieces if each is not None]
            if runs:
                found[i] = Runs.concat(runs)
        return found

    def part(self) -> None:
        """Give each query a state of its own for good: they may see different rows."""
        for session in self.sessions:
            session.synopsis.part()
            if session.fold is not None:
                session.fold.open.part()
                session.fold.share_groups(None)
        self.unions, self._together, self._feeds, self.saved = [], {}, {}, {}

    def pushing(self, table: pa.Table) -> list[Move | None]:
        """The moves of all sessions for the same batch, which is read once."""
        leader = self.sessions[0]
        for session in self.sessions:
            with session.named():
                sources = session.by_source(table)
        with leader.named():
            taken = leader.reading(sources)
        if self.counting:
            taken = self._numbered(taken)
        if not taken or not all(self._fits(each) for each in taken):
            if taken:
                self.part()
            return [session.pushing(table) for session in self.sessions]
        for session in self.sessions[1:]:
            with session.named():
                session.bind(ONLY, table.schema)
        with leader.named():
            leader.refuse(taken)
        self.unite()
        self.settle()
        for names in self.fed:
            if disagree([self.sessions[i].fold for i in names], taken):
                self.part()
        sealed = max(sealed_time(session.fold) for session in self.sessions)
        shared = [Shared(self, each, sealed) for each in taken]
        moves: list[Move | None] = []
        for i, session in enumerate(self.sessions):
            fold, summarise = session.start(), partial(self._summaries, shared, session)
            together = self.together(session)
            if together is not None:
                together.clear()
                fold.open.share(together, self.summariser(), session.synopsis)
            begin = partial(session.taking, taken, summarise)
            if i in self._feeds:
                fold.open.fed = partial(self._feed_waiting, self._feeds[i], fold)
                fed = partial(self._fed, self._feeds[i], shared, begin)
                moves.append(FedMove(session, fold, fed, self._feeds[i]))
            else:
                moves.append(Move(session, fold, begin))
        return moves

    def _numbered(self, taken: Sequence[Taken]) -> list[Taken]:
        """The chunks with the arrival numbers of their rows; all queries have counted the same."""
        fold, found = self.sessions[0].fold, []
        first = 0 if fold is None else int(fold.count.counts[0])
        for each in taken:
            found.append(replace(each, arrival=first))
            first += each.batch.num_rows
        return found

    def _fed(
        self, feed: Feed, shared: Sequence[Shared], begin: Callable[[Fold], Step | None], fold: Fold
    ) -> Step | None:
        """Give rows to a feed, except those that are late for all its queries, and begin a move."""
        sealed = sealed_time(fold)
        for each in shared:
            self._feed_chunk(feed, fold, sealed, each)
        return begin(fold)

    def together(self, session: Session) -> Combined | None:
        """What a session shares with those that have the same panes; None if there are none."""
        return self._together.get(session.name)

    def _summaries(
        self,
        shared: Sequence[Shared],
        session: Session,
        taken: Sequence[Taken],
        fold: Fold,
        sealed: int,
    ) -> list[Summary]:
        """The summaries of each chunk that a session takes."""
        if self.counting:
            fold.count.counts[0] += sum(each.batch.num_rows for each in taken)
        if self.summariser().parallel:
            session.workers.map(Shared.made, shared)
        if shared[0].absorbs(shared[1:]):
            return [shared[0].of(session, fold, sealed), *(Summary() for _ in taken[1:])]
        return [each.of(session, fold, sealed) for each in shared]

    def _fits(self, taken: Taken) -> bool:
        """Whether queries agree: every time fits all windows, or they have counted the same."""
        if self.counting:
            folds = [session.fold for session in self.sessions]
            return len({0 if fold is None else int(fold.count.counts[0]) for fold in folds}) == 1
        if not taken.rows_in:
            return True
        if taken.least is None or taken.greatest is None or taken.outside:
            return False
        least, greatest = taken.least, taken.greatest
        limits = [session.intake.limits for session in self.sessions]
        return all(each is not None and each.holds(least, greatest) for each in limits)

    def summariser(self, late: bool = False) -> Synopsis[Any]:
        """The synopsis that summarises for all queries; it is never folded.

        A row that is ``late`` for a query must not take the place of one that is not, as it could
        if rows were compared across panes.
        """
        schema, found = self.sessions[0].synopsis.schema, self._summarisers.get(late)
        if found is None or found.schema != schema:
            found = self._summarisers[late] = make_synopsis(self.queries[self.base or 0])
            found.bind(ONLY, schema)
            found.serve(self.queries, self.base is not None and not late)
        return found
