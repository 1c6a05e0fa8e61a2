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
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints, Mask
from skyband.contract.runs import Runs
from skyband.contract.synopsis import Synopsis
from skyband.data.group_table import GroupTable
from skyband.engine.clocks import NEVER
from skyband.engine.feeding import FedMove, Feed, disagree, sealed_time
from skyband.engine.fold import Fold, Step
from skyband.engine.intake import Taken, place_rows
from skyband.engine.moves import Move
from skyband.engine.open_panes import Combined
from skyband.engine.session import ONLY, Session, Summary, make_synopsis
from skyband.engine.who_shares import alike, families, finest, takes_feed, unions
from skyband.window import Panes

__all__ = ["Family", "families"]

_FEW_ROWS = 100_000
"""Summaries of several chunks that have so many rows in all are put together."""


class Cuts:
    """Panes between the cuts of several windows, numbered from the first row of one batch."""

    def __init__(self, panes: Sequence[Panes], ticks: Ints) -> None:
        low, high = int(ticks.min()), int(ticks.max())
        found = []
        for each in panes:
            first, last = int(each.pane_of(low)), int(each.pane_of(high))
            dense = last - first <= len(ticks)
            pane = np.arange(first, last + 1) if dense else np.unique(each.pane_of(ticks))
            found.append(each.pane_start(pane))
        self.starts: Ints = np.unique(np.concatenate(found))

    def pane_of(self, position: Any) -> Any:
        return np.searchsorted(self.starts, position, side="right") - 1

    def pane_start(self, pane: Any) -> Any:
        return self.starts[pane]

    def used(self, pane: Ints) -> Mask:
        return np.ones(len(pane), np.bool_)


class Family:
    """Sessions that share their summaries; it keeps nothing from one batch to the next."""

    def __init__(self, sessions: Sequence[Session]) -> None:
        self.sessions = list(sessions)
        self.queries = [session.query for session in sessions]
        self.panes = [query.window.panes for query in self.queries]
        self.base = finest(self.panes)
        self._summariser: Synopsis[Any] | None = None
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
        feed = Feed(self.summariser().combine)
        if saved is not None:
            feed.take(saved)
        if not first.recut(others, feed, [sealed_time(session.fold) for session in sessions]):
            return False
        self._feeds[names[0]] = feed
        return True

    def settle(self) -> None:
        """Let feeds have the rows that wait to be summarised."""
        for i in self._feeds:
            fold = self.sessions[i].fold
            if fold is not None and fold.open.waiting is not None:
                fold.open.waiting.settle()

    def _feed_waiting(self, feed: Feed, taken: Taken) -> None:
        made = Shared(self, taken).made()
        if made is not None:
            feed.take(made[0].stamped(made[1]))

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
                session.fold.open.together = session.fold.open.fed = None
        self.unions, self._together, self._feeds, self.saved = [], {}, {}, {}

    def pushing(self, table: pa.Table) -> list[Move | None]:
        """The moves of all sessions for the same batch, which is read once."""
        leader = self.sessions[0]
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
        self.unite()
        self.settle()
        for names in self.fed:
            if disagree([self.sessions[i].fold for i in names], taken):
                self.part()
        shared = [Shared(self, each) for each in taken]
        moves: list[Move | None] = []
        for i, session in enumerate(self.sessions):
            fold, summarise = session.start(), partial(self._summaries, shared, session)
            fold.open.together = self.together(session)
            if fold.open.together is not None:
                fold.open.together.clear()
            begin = partial(session.taking, taken, summarise)
            if i in self._feeds:
                fold.open.fed = partial(self._feed_waiting, self._feeds[i])
                fed = partial(self._fed, self._feeds[i], shared, begin)
                moves.append(FedMove(session, fold, fed, self._feeds[i]))
            else:
                moves.append(Move(session, fold, begin))
        return moves

    def _fed(
        self, feed: Feed, shared: Sequence[Shared], begin: Callable[[Fold], Step | None], fold: Fold
    ) -> Step | None:
        """Give rows to a feed, except those that are late for all its queries, and begin a move."""
        sealed = sealed_time(fold)
        for each in shared:
            made = each.made()
            if made is not None:
                runs, starts, _ = made
                late = starts < sealed
                runs = runs.stamped(starts)
                feed.take(runs.take(~late) if late.any() else runs)
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
        if self.summariser().parallel:
            session.workers.map(Shared.made, shared)
        if shared[0].absorbs(shared[1:]):
            return [shared[0].of(session, fold, sealed), *(Summary() for _ in taken[1:])]
        return [each.of(session, fold, sealed) for each in shared]

    def _fits(self, taken: Taken) -> bool:
        """Whether every time fits all windows; otherwise the queries disagree on what is bad."""
        if taken.least is None or taken.greatest is None or taken.outside:
            return False
        least, greatest = taken.least, taken.greatest
        limits = [session.intake.limits for session in self.sessions]
        return all(each is not None and each.holds(least, greatest) for each in limits)

    def summariser(self) -> Synopsis[Any]:
        """The synopsis that summarises for all queries; it is never folded."""
        schema = self.sessions[0].synopsis.schema
        if self._summariser is None or self._summariser.schema != schema:
            self._summariser = make_synopsis(self.queries[self.base or 0])
            self._summariser.bind(ONLY, schema)
            self._summariser.serve(self.queries, self.base is not None)
        return self._summariser


class Shared:
    """The summaries of a chunk over shared panes, made when the first session asks for them."""

    def __init__(self, family: Family, taken: Taken) -> None:
        self.family = family
        self.taken = taken
        self._made: tuple[Runs, Ints, GroupTable] | None = None
        self._given: dict[tuple[Combined, int], Summary] = {}
        self._others: list[Shared] = []
        """Chunks whose summaries were added to these."""
        self.absorbed = False
        """Whether another chunk has these summaries now."""

    def absorbs(self, others: Sequence[Shared]) -> bool:
        """Add the summaries of further chunks, if all are small: a query works on them once then.

        A chunk costs each query some fifty calls, however few rows are left of it.
        """
        if self._others or not others or self.family.queries[0].groups:
            return bool(self._others)
        found = [made for each in (self, *others) if (made := each.made()) is not None]
        rows = sum(len(part) for runs, *_ in found for part in runs.parts.values())
        if len(found) <= len(others) or rows > _FEW_ROWS:
            return False
        runs = Runs.concat([runs.stamped(starts) for runs, starts, _ in found]).ordered()
        runs = self.family.summariser().combine(runs) if runs.repeats.any() else runs
        self._made, self._others = (runs, runs.stamp, found[0][2]), list(others)
        for each in others:
            each.absorbed = True
        return True

    def of(self, session: Session, fold: Fold, sealed: int) -> Summary:
        """The summaries that a session takes: in its own panes, with its own group codes.

        Sessions with the same panes take the same ones.
        """
        together = self.family.together(session)
        if together is None:
            return self._of(session, fold, sealed)
        if (together, sealed) not in self._given:
            self._given[together, sealed] = self._of(session, fold, sealed)
        return self._given[together, sealed]

    def _of(self, session: Session, fold: Fold, sealed: int) -> Summary:
        made = self.made()
        if made is None:
            return Summary()
        runs, starts, groups = made
        panes = fold.panes
        pane = np.asarray(panes.pane_of(starts))
        used = panes.used(pane)
        late = used & (pane < sealed)
        rows = runs.scalars["rows"]
        found = Summary(late=int(rows[late].sum()), unused=int(rows[~used].sum()))
        if found.late:
            chunks = [each.taken.ticks for each in (self, *self._others)]
            ticks = np.concatenate([each for each in chunks if each is not None])
            own = panes.pane_of(ticks)
            found.earliest_late = int(ticks[panes.used(own) & (own < sealed)].min())
        keep = used & ~late
        runs, pane = (runs, pane) if keep.all() else (runs.take(keep), pane[keep])
        if not len(runs):
            return found
        runs = _regrouped(runs, groups, fold.groups).stamped(pane).ordered()
        synopsis = session.synopsis
        found.runs = synopsis.combine(runs) if runs.repeats.any() else synopsis.narrowed(runs)
        return found

    def made(self) -> tuple[Runs, Ints, GroupTable] | None:
        """The summaries, where each pane starts, and the groups' codes; None without rows."""
        family, taken = self.family, self.taken
        if self.absorbed:
            return None
        if self._made is None and taken.ticks is not None:
            base, summariser = family.base, family.summariser()
            panes = Cuts(family.panes, taken.ticks) if base is None else family.panes[base]
            groups = GroupTable(family.queries[0].groups, taken.batch.schema)
            placed = place_rows(taken, summariser.axes[ONLY], panes, groups, NEVER)
            assert placed.rows is not None
            runs = summariser.summarise(placed.rows)
            self._made = runs, np.asarray(panes.pane_start(runs.stamp)), groups
        return self._made


def _regrouped(runs: Runs, groups: GroupTable, own: GroupTable) -> Runs:
    """The same runs with the group codes of another table."""
    if not own.names:
        return runs
    codes, dense = np.unique(runs.group, return_inverse=True)
    columns: list[pa.Array] = groups.gather(codes)
    return Runs(runs.stamp, own.encode(columns)[dense], runs.parts, runs.scalars)
