"""One pass over the rows for several queries that differ only in k and window.

Rows are summarised between the cuts of all windows, for the greatest k; ``sharing.py`` shows how.
Both engines use it: a board in one process, and the workers of a board on Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints, Mask
from skyband.contract.runs import Runs
from skyband.contract.synopsis import Synopsis
from skyband.data.group_table import GroupTable
from skyband.engine.clocks import NEVER
from skyband.engine.per_group import make_synopsis
from skyband.engine.taken import Taken, place_rows
from skyband.engine.who_shares import finest
from skyband.panes import Panes
from skyband.query.base import Query

__all__ = ["OnePass", "regrouped"]

_ONLY = ""


class Cuts:
    """Panes between the cuts of several windows, numbered from the first row of one batch."""

    def __init__(self, panes: Sequence[Panes], positions: Ints | range) -> None:
        """``positions`` are times or arrival numbers."""
        ends = (positions[0], positions[-1]) if isinstance(positions, range) else positions
        low, high = int(np.min(ends)), int(np.max(ends))
        found = []
        for each in panes:
            first, last = int(each.pane_of(low)), int(each.pane_of(high))
            dense = last - first <= len(positions)
            pane = np.arange(first, last + 1) if dense else np.unique(each.pane_of(positions))
            found.append(each.pane_start(pane))
        self.starts: Ints = np.unique(np.concatenate(found))

    def pane_of(self, position: Any) -> Any:
        return np.searchsorted(self.starts, position, side="right") - 1

    def pane_start(self, pane: Any) -> Any:
        return self.starts[pane]

    def used(self, pane: Ints) -> Mask:
        return np.ones(len(pane), np.bool_)


class OnePass:
    """Summarises rows for all of these queries."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self.queries = list(queries)
        self.panes = [query.window.panes for query in queries]
        self.base = finest(self.panes)
        """The query whose panes have all cuts, if there is one."""
        self._summarisers: dict[bool, Synopsis[Any]] = {}

    def summariser(self, schema: pa.Schema, late: bool = False) -> Synopsis[Any]:
        """The synopsis that summarises rows with these columns; it is never folded.

        A row that is ``late`` for a query must not take the place of one that is not, as it could
        if rows were compared across panes.
        """
        found = self._summarisers.get(late)
        if found is None or found.schema != schema:
            found = self._summarisers[late] = make_synopsis(self.queries[self.base or 0])
            found.bind(_ONLY, schema)
            found.serve(self.queries, self.base is not None)
            if late:
                found.foresee_late_rows()
        return found

    def summarise(self, taken: Taken, groups: GroupTable, summariser: Synopsis[Any]) -> Runs:
        """Summaries of some rows, stamped with the position at which each pane begins."""
        positions = taken.positions
        assert positions is not None
        panes = Cuts(self.panes, positions) if self.base is None else self.panes[self.base]
        placed = place_rows(taken, summariser.axes.get(_ONLY), panes, groups, NEVER)
        assert placed.rows is not None
        runs = summariser.summarise(placed.rows)
        return runs.stamped(np.asarray(panes.pane_start(runs.stamp)))

    def starts(self, positions: Ints) -> Ints:
        """Where the panes that hold these positions begin."""
        each = [panes.pane_start(panes.pane_of(positions)) for panes in self.panes]
        found: Ints = np.maximum.reduce(each)
        return found


def regrouped(runs: Runs, groups: GroupTable, own: GroupTable) -> Runs:
    """The same runs with the group codes of another table."""
    if not own.names or own is groups:
        return runs
    codes, dense = np.unique(runs.group, return_inverse=True)
    return Runs(runs.stamp, own.encode(groups.gather(codes))[dense], runs.parts, runs.scalars)
