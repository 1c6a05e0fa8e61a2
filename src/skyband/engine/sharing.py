"""Which queries of a board share their summaries, and how.

Queries that differ only in k and window need the same pass over the rows. It is made once, over
panes that are cut wherever any of their windows begins or ends, for the greatest k:

    windows of a    ├─────────┼─────────┤        a pane of a query is a whole number of shared
    windows of b    ├──────┼──────┼─────┤        panes, so combining their summaries gives the
    shared panes    ├──────┼──┼───┼─────┤        summary of the query's own pane

Each query then combines the summaries to its own panes and k, which costs little, and keeps its own
small state over them. So an answer cannot differ from that of the query alone.

Where the state is large, queries whose panes are the same keep one (``unions``): each reads windows
of its own size from it. Which algorithms can do that, they say themselves (``Synopsis.unites``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from skyband import registry
from skyband.arrays import Ints, Mask
from skyband.contract.runs import Runs
from skyband.contract.synopsis import Synopsis
from skyband.data.group_table import GroupTable
from skyband.engine.clocks import NEVER
from skyband.engine.fold import Fold
from skyband.engine.intake import Taken, place_rows
from skyband.engine.moves import Move
from skyband.engine.open_panes import Combined
from skyband.engine.session import ONLY, Session, Summary, make_synopsis
from skyband.query.base import Query
from skyband.window import Panes, TimeWindow

__all__ = ["Family", "families", "sharing_key", "unions"]


def sharing_key(query: Query) -> str | None:
    """Queries with the same key share their summaries; None if a query shares with no other.

    They have the same kind, algorithm and settings, except for k and the window. Only algorithms
    that declare ``shares_summaries`` take part, and only over time windows of the same unit.
    """
    if type(query.window) is not TimeWindow or query.sources:
        return None
    algorithm = registry.choose(query)
    if not registry.load(query.kind, algorithm).shares_summaries:
        return None
    settings = {n: value for n, value in query.spec().items() if n not in ("k", "window")}
    alike = settings | {"algorithm": algorithm, "integer time": query.window.integer}
    return json.dumps(alike, sort_keys=True)


def families(queries: Mapping[Any, Query]) -> list[list[Any]]:
    """The names of queries that share, for each group of at least two; in the board's order."""
    found: dict[str, list[Any]] = {}
    for name, query in queries.items():
        key = sharing_key(query)
        if key is not None:
            found.setdefault(key, []).append(name)
    return [names for names in found.values() if len(names) > 1]


def unions(queries: Mapping[Any, Query], family: Sequence[Any]) -> list[list[Any]]:
    """The names of a family's queries that keep one state, for each group of at least two.

    Their panes are the same, and are sealed at the same moment: they differ only in k and in the
    size of the window.
    """
    found: dict[tuple[int, ...], list[Any]] = {}
    for name in family:
        query = queries[name]
        panes, window = query.window.panes, query.window
        if registry.load(query.kind, registry.choose(query)).unites(query):
            late = getattr(window, "lateness_ticks", 0)
            found.setdefault((panes.slide, panes.rest, panes.offset, late), []).append(name)
    return [names for names in found.values() if len(names) > 1]


def finest(panes: Sequence[Panes]) -> int | None:
    """The position of the panes that have all cuts of all others, if one has evenly spaced ones."""
    for i, fine in enumerate(panes):
        step = fine.slide
        if not fine.rest and all(
            not (each.slide % step or each.rest % step or (each.offset - fine.offset) % step)
            for each in panes
        ):
            return i
    return None


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
        self._together = {
            self.sessions[i].name: combined
            for names, combined in ((names, Combined()) for names in self.unions)
            for i in names
        }
        self._united: list[Synopsis[Any]] = []

    @property
    def _by_the_clock(self) -> bool:
        """Whether sessions drop idle sources, each at its own moment."""
        return any(session.idle is not None for session in self.sessions)

    def unite(self) -> None:
        """Let queries with the same panes keep one state, once their columns are known."""
        synopses = [session.synopsis for session in self.sessions]
        if self._united and all(a is b for a, b in zip(synopses, self._united, strict=True)):
            return
        for first, *others in self.unions:
            synopses[first].unite([synopses[i] for i in others])
        self._united = synopses

    def part(self) -> None:
        """Give each query a state of its own for good: they may see different rows."""
        for session in self.sessions:
            session.synopsis.part()
            if session.fold is not None:
                session.fold.open.together = None
        self.unions, self._together = [], {}

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
        shared = [Shared(self, each) for each in taken]
        moves: list[Move | None] = []
        for session in self.sessions:
            fold, summarise = session.start(), partial(self._summaries, shared, session)
            fold.open.together = self.together(session)
            if fold.open.together is not None:
                fold.open.together.clear()
            moves.append(Move(session, fold, partial(session.taking, taken, summarise)))
        return moves

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
        return [
            each.of(session, rows, fold, sealed) for each, rows in zip(shared, taken, strict=True)
        ]

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
    """The summaries of one chunk over shared panes, made when the first session asks for them."""

    def __init__(self, family: Family, taken: Taken) -> None:
        self.family = family
        self.taken = taken
        self._made: tuple[Runs, Ints, GroupTable] | None = None
        self._given: dict[tuple[Combined, int], Summary] = {}

    def of(self, session: Session, taken: Taken, fold: Fold, sealed: int) -> Summary:
        """The summaries that a session takes: in its own panes, with its own group codes.

        Sessions with the same panes take the same ones.
        """
        together = self.family.together(session)
        if together is None:
            return self._of(session, taken, fold, sealed)
        if (together, sealed) not in self._given:
            self._given[together, sealed] = self._of(session, taken, fold, sealed)
        return self._given[together, sealed]

    def _of(self, session: Session, taken: Taken, fold: Fold, sealed: int) -> Summary:
        made = self.made()
        if made is None or taken.ticks is None:
            return Summary()
        runs, starts, groups = made
        panes = fold.panes
        pane = np.asarray(panes.pane_of(starts))
        used = panes.used(pane)
        late = used & (pane < sealed)
        rows = runs.scalars["rows"]
        found = Summary(late=int(rows[late].sum()), unused=int(rows[~used].sum()))
        if found.late:
            assert taken.ticks is not None
            own = panes.pane_of(taken.ticks)
            found.earliest_late = int(taken.ticks[panes.used(own) & (own < sealed)].min())
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
