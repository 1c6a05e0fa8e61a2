"""Sessions of queries that are fed the same summaries, and that keep one state if they can.

The summaries lie between the cuts of all windows of these queries (``one_pass.py``) and are stamped
with the times at which their panes begin. On Spark, the panes of such queries are stored once.

A row may be late for one of the queries and not for another. As long as such rows are in a window,
each query has a state of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints
from skyband.contract.runs import Part, Runs
from skyband.data.group_table import GroupTable
from skyband.engine.feeding import Feed, sealed_time
from skyband.engine.fold import Step
from skyband.engine.one_pass import OnePass, regrouped
from skyband.engine.summary_session import SummarySession
from skyband.engine.who_shares import alike, model_of

__all__ = ["Restored", "UnitedSession"]

Restored = tuple[dict[str, Any] | None, pa.Table | None]
"""How far a query had come, and its last answer."""


class UnitedSession:
    """Takes summaries for several queries, and watermarks for each of them."""

    def __init__(self, sessions: Mapping[str, SummarySession]) -> None:
        self.sessions = dict(sessions)
        self._first = next(iter(self.sessions.values()))
        self.one_pass = OnePass([session.query for session in self.sessions.values()])
        self._summariser = self.one_pass.summariser(self._first.synopsis.schema)
        self._feed: Feed | None = None
        self.parted = False
        """Whether each query has its own state because they have not read the same rows."""

    @property
    def groups(self) -> GroupTable:
        """The group codes of the summaries."""
        return self._first.groups

    @property
    def united(self) -> bool:
        """Whether the queries keep one state."""
        return self._feed is not None

    # Taking ------------------------------------------------------------------------------------

    def resume(self, told: Mapping[str, Restored], panes: Mapping[tuple[str, ...], Runs]) -> None:
        """Go on from all panes that a window still needs, by the names of those that take them."""
        for name, session in self.sessions.items():
            session.resume(told[name][0], [], told[name][1])
        self.parted = not set(panes) <= {tuple(self.sessions)}
        if len(self.sessions) > 1 and not self.parted:
            self._unite(panes.values())
        for name, session in self.sessions.items():
            mine = [runs for names, runs in panes.items() if name in names]
            if mine:
                own = self._own(session, Runs.concat(mine))
                own = own.take(session.covered(own.stamp))  # others may need more
                sealed = own.stamp < session.sealed
                session.resume(None, [own.take(sealed), own.take(~sealed)], None)
        if not self.united and not self.parted:
            self._unite_alike()

    def _unite(self, panes: Iterable[Runs]) -> None:
        """Let the queries keep one state, if their columns allow it."""
        folds = [session.start() for session in self.sessions.values()]
        first, *others = [fold.synopsis for fold in folds]
        if not all(model_of(fold.query).recuts(fold.query) for fold in folds):
            return
        feed = Feed(self._summariser.combine, totals=True)
        for runs in panes:
            feed.take(runs)
        if not first.recut(others, feed, [sealed_time(fold) for fold in folds]):
            return
        self._feed = feed
        for fold in folds[1:]:
            fold.share_groups(folds[0])

    def _unite_alike(self) -> None:
        """Let queries with the same panes keep one state, if their algorithm needs no more."""
        queries = {name: session.query for name, session in self.sessions.items()}
        for names in alike(queries, list(queries)):
            first, *others = [self.sessions[name].synopsis for name in names]
            first.unite(others)

    def take(self, runs: Runs, names: Collection[str] | None = None) -> None:
        """Take summaries of open panes, for all queries, or for some if no feed unites them."""
        if self._feed is not None:
            self._feed.take(runs)
        elif names is not None and set(names) != set(self.sessions):
            for session in self.sessions.values():
                session.synopsis.part()
        for name in self.sessions if names is None else names:
            self.sessions[name].take(self._own(self.sessions[name], runs))

    def _own(self, session: SummarySession, runs: Runs) -> Runs:
        """Summaries in a query's own panes; without their rows if those are in a common state."""
        pane = np.asarray(session.query.window.panes.pane_of(runs.stamp))
        own = (runs if self._feed is None else _bare(runs)).stamped(pane)
        own = regrouped(own, self.groups, session.groups).ordered()
        synopsis = session.synopsis
        return synopsis.combine(own) if own.repeats.any() else synopsis.narrowed(own)

    def fresh(self, before: int) -> Runs | None:
        """The open panes that begin before this time; None if queries hold them separately."""
        if self._feed is not None:
            held = self._feed.whole()
        elif len(self.sessions) == 1:
            held = self._first.open.whole()
            panes = self._first.query.window.panes
            held = None if held is None else held.stamped(np.asarray(panes.pane_start(held.stamp)))
        else:
            held = None
        return None if held is None else held.take(held.stamp < before)

    # Sealing -----------------------------------------------------------------------------------

    def seal(self, watermarks: Mapping[str, int]) -> dict[str, Step]:
        """Seal the panes that end by each query's watermark; the parts of all that is due."""
        folds = {name: session.start() for name, session in self.sessions.items()}
        steps = {name: folds[name].begin(mark) for name, mark in watermarks.items()}
        due = {name: step for name, step in steps.items() if step is not None}
        for name, step in due.items():
            folds[name].synopsis.expect(steps, step.windows)
        return {name: folds[name].partly(step) for name, step in due.items()}

    @property
    def sealed(self) -> dict[str, int]:
        """The time up to which each query has sealed its panes."""
        return {name: sealed_time(session.fold) for name, session in self.sessions.items()}


def _bare(runs: Runs) -> Runs:
    """The same runs without rows, but with their totals."""
    none: Ints = np.zeros(len(runs) + 1, np.int64)
    parts = {
        name: Part(none, {n: column[:0] for n, column in part.columns.items()})
        for name, part in runs.parts.items()
    }
    return Runs(runs.stamp, runs.group, parts, runs.scalars)
