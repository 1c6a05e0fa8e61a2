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

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints
from skyband.contract.runs import Runs
from skyband.contract.synopsis import Synopsis
from skyband.engine.clocks import NEVER
from skyband.engine.feeding import FedMove, Feed, sealed_time
from skyband.engine.fold import Fold, Step
from skyband.engine.moves import Move
from skyband.engine.one_pass import OnePass
from skyband.engine.open_panes import Combined
from skyband.engine.placement import codes_of
from skyband.engine.session import ONLY, Session, Summary
from skyband.engine.shared_panes import Shared
from skyband.engine.taken import Taken
from skyband.engine.unions import Union
from skyband.engine.who_shares import alike, families, unions
from skyband.window import CountWindow

__all__ = ["Family", "families"]

_NONE = np.zeros(0, np.int64)


class Family:
    """Sessions that share their summaries; it keeps nothing from one batch to the next."""

    def __init__(self, sessions: Sequence[Session]) -> None:
        self.sessions = list(sessions)
        self.one_pass = OnePass([session.query for session in sessions])
        self.queries = self.one_pass.queries
        self.counting = isinstance(self.queries[0].window, CountWindow)
        by_place = dict(enumerate(self.queries))
        places = [] if self._by_the_clock else unions(by_place, list(by_place))
        self.unions = [Union(self.sessions, each) for each in places]
        """Queries that keep one state."""
        self._united: list[Synopsis[Any]] = []
        self.saved: dict[int, Runs] = {}
        """What they kept together when a snapshot was made, by the place of the first query."""

    @property
    def _by_the_clock(self) -> bool:
        """Whether sessions drop idle sources, each at its own moment."""
        return any(session.idle is not None for session in self.sessions)

    @property
    def fed(self) -> list[Union]:
        """Those whose common state takes its panes from a feed."""
        return [union for union in self.unions if union.fed]

    @property
    def ready(self) -> bool:
        """Whether rows may wait before they are summarised: each feed will get them."""
        return all(union.feed is not None for union in self.fed)

    def unite(self) -> None:
        """Let queries keep one state, once their columns are known."""
        synopses = [session.synopsis for session in self.sessions]
        if self._united and all(a is b for a, b in zip(synopses, self._united, strict=True)):
            return
        self._united = synopses
        for union in self.unions:
            if not union.begin(Feed(self.summariser().combine), self.saved.get(union.places[0])):
                self._give_up(union)
        self.saved = {}

    def _give_up(self, union: Union) -> None:
        """Let only those that have the same panes keep one state."""
        self.unions.remove(union)
        for places in alike(dict(enumerate(self.queries)), union.places):
            self.unions.append(Union(self.sessions, places))
            self.unions[-1].begin(Feed(self.summariser().combine), None)

    def settle(self) -> None:
        """Let feeds have the rows that wait to be summarised."""
        for union in self.fed:
            fold = union.sessions[0].fold
            if fold is not None and fold.open.waiting is not None:
                fold.open.waiting.settle()

    def _feed_waiting(self, union: Union, fold: Fold, taken: Taken) -> None:
        self._feed_chunk(union, fold, NEVER, Shared(self, taken))

    @staticmethod
    def _feed_chunk(union: Union, fold: Fold, sealed: int, chunk: Shared) -> None:
        """Give the rows of a chunk to a feed, except those from before ``sealed``."""
        made, first = chunk.made(), union.takes_from(sealed)
        if made is not None and first is not None and union.feed is not None:
            starts = made[1]
            keep = starts >= first
            if keep.any():
                union.feed.take(chunk.coded(fold.groups, keep).stamped(starts[keep]))

    def kept_together(self) -> dict[int, Runs]:
        """What queries keep together whose state takes a feed, for a snapshot."""
        self.settle()
        found = dict(self.saved)
        for union in self.fed:
            runs = union.kept_together()
            if runs is not None:
                found[union.places[0]] = runs
        return found

    def part(self) -> None:
        """Give each query a state of its own for a while: they may see different rows."""
        for union in self.unions:
            union.part()

    def pushing(self, table: pa.Table) -> list[Move | None]:
        """The moves of all sessions for the same batch, which is read once."""
        leader, counts = self.sessions[0], _NONE
        for session in self.sessions:
            with session.named():
                sources = session.by_source(table)
        with leader.named():
            taken = leader.reading(sources)
        if not taken or not all(self._fits(each) for each in taken):
            if taken:
                self.part()
            return [session.pushing(table) for session in self.sessions]
        for session in self.sessions[1:]:
            with session.named():
                session.bind(ONLY, table.schema)
        with leader.named():
            leader.refuse(taken)
        if self.counting:
            taken, counts = self._numbered(taken)
        self.unite()
        self.settle()
        for union in list(self.unions):
            if not union.judge(taken):
                self._give_up(union)
        feeding = {union.places[0]: union for union in self.fed}
        sealed = max(sealed_time(session.fold) for session in self.sessions)
        shared = [Shared(self, each, sealed) for each in taken]
        moves: list[Move | None] = []
        for i, session in enumerate(self.sessions):
            fold, summarise = session.start(), partial(self._summaries, shared, session, counts)
            together = self.together(session)
            if together is not None:
                together.clear()
                fold.open.share(together, self.summariser(), session.synopsis)
            begin = partial(session.taking, taken, summarise)
            fed = feeding.get(i)
            if fed is not None and fed.feed is not None:
                fold.open.fed = partial(self._feed_waiting, fed, fold)
                begin = partial(self._fed, fed, shared, begin)
                moves.append(FedMove(session, fold, begin, fed.feed))
            else:
                moves.append(Move(session, fold, begin))
        return moves

    def _numbered(self, taken: Sequence[Taken]) -> tuple[list[Taken], Ints]:
        """The chunks with the arrival numbers of their rows, and how many there are after them.

        All queries have counted the same; with groups they have one table of them from now on.
        """
        first, *others = [session.start() for session in self.sessions]
        for fold in others:
            fold.share_groups(first)
        clock, groups, found = first.count.copied(), first.groups, []
        for each in taken:
            if groups.names:
                counted = clock.number(codes_of(each.batch, groups), groups.bound)
                found.append(replace(each, counted=counted))
            else:
                found.append(replace(each, arrival=int(clock.counts[0])))
                clock.counts[0] += each.batch.num_rows
        return found, clock.counts

    def _fed(
        self,
        union: Union,
        shared: Sequence[Shared],
        begin: Callable[[Fold], Step | None],
        fold: Fold,
    ) -> Step | None:
        """Give rows to a feed, except those that are late for all its queries, and begin a move."""
        sealed = NEVER if self.counting else sealed_time(fold)  # arrivals are never late
        for each in shared:
            self._feed_chunk(union, fold, sealed, each)
        return begin(fold)

    def together(self, session: Session) -> Combined | None:
        """What a session shares with those that have the same panes; None if there are none."""
        found = (union.combined(session) for union in self.unions)
        return next((each for each in found if each is not None), None)

    def _summaries(
        self,
        shared: Sequence[Shared],
        session: Session,
        counts: Ints,
        taken: Sequence[Taken],
        fold: Fold,
        sealed: int,
    ) -> list[Summary]:
        """The summaries of each chunk that a session takes; ``counts`` are the arrivals then."""
        if self.counting:
            fold.count.counts = counts.copy()
        if self.summariser().parallel:
            session.workers.map(Shared.made, shared)
        if shared[0].absorbs(shared[1:]):
            return [shared[0].of(session, fold, sealed), *(Summary() for _ in taken[1:])]
        return [each.of(session, fold, sealed) for each in shared]

    def _fits(self, taken: Taken) -> bool:
        """Whether queries agree: every time fits all windows, or they have counted the same."""
        if self.counting:
            folds = [session.fold for session in self.sessions if session.fold is not None]
            return len(folds) in (0, len(self.sessions)) and all(
                (fold.groups is folds[0].groups or fold.groups.same_as(folds[0].groups))
                and np.array_equal(fold.count.counts, folds[0].count.counts)
                for fold in folds
            )
        if not taken.rows_in:
            return True
        if taken.least is None or taken.greatest is None or taken.outside:
            return False
        least, greatest = taken.least, taken.greatest
        limits = [session.intake.limits for session in self.sessions]
        return all(each is not None and each.holds(least, greatest) for each in limits)

    def summariser(self, late: bool = False) -> Synopsis[Any]:
        """The synopsis that summarises for all queries; it is never folded."""
        return self.one_pass.summariser(self.sessions[0].synopsis.schema, late)
