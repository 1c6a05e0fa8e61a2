"""Summaries of a chunk of rows over panes that several queries share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.arrays import Ints, Mask
from skyband.contract.runs import Runs
from skyband.contract.synopsis import Synopsis
from skyband.data.group_table import GroupTable
from skyband.engine.clocks import NEVER
from skyband.engine.fold import Fold
from skyband.engine.one_pass import regrouped
from skyband.engine.open_panes import Combined
from skyband.engine.session import Session, Summary
from skyband.engine.taken import Taken

if TYPE_CHECKING:
    from skyband.engine.sharing import Family

__all__ = ["Shared"]

_FEW_ROWS = 100_000
"""Summaries of several chunks that have so many rows in all are put together."""


class Shared:
    """The summaries of a chunk over shared panes, made when the first session asks for them."""

    def __init__(self, family: Family, taken: Taken, sealed: int = NEVER) -> None:
        """``sealed`` is the time up to which some query has sealed its panes."""
        self.family = family
        self._late = taken.least is not None and taken.least < sealed
        self.taken = taken
        self._made: tuple[Runs, Ints, GroupTable] | None = None
        self._given: dict[tuple[Combined, int], Summary] = {}
        self._others: list[Shared] = []
        """Chunks whose summaries were added to these."""
        self.absorbed = False
        """Whether another chunk has these summaries now."""
        self._coded: tuple[GroupTable, Runs] | None = None
        """The summaries with the group codes of a table that several queries have."""

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

        Sessions with the same panes that keep one state take the same ones, for the greatest k.
        """
        together = self.family.together(session)
        if together is None:
            return self._of(session.synopsis, fold, sealed)
        if (together, sealed) not in self._given:
            self._given[together, sealed] = self._of(self.family.summariser(), fold, sealed)
        return self._given[together, sealed]

    def _of(self, synopsis: Synopsis[Any], fold: Fold, sealed: int) -> Summary:
        made = self.made()
        if made is None:
            return Summary()
        runs, starts, _ = made
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
        if not keep.any():
            return found
        runs = self.coded(fold.groups, keep).stamped(pane if keep.all() else pane[keep]).ordered()
        found.runs = synopsis.combine(runs) if runs.repeats.any() else synopsis.narrowed(runs)
        return found

    def coded(self, own: GroupTable, keep: Mask) -> Runs:
        """Some of the summaries, with the group codes of this table."""
        made = self.made()
        assert made is not None
        runs, _, groups = made
        if not own.names or not keep.all():
            return regrouped(runs if keep.all() else runs.take(keep), groups, own)
        if self._coded is None or self._coded[0] is not own:
            self._coded = own, regrouped(runs, groups, own)
        return self._coded[1]

    def made(self) -> tuple[Runs, Ints, GroupTable] | None:
        """The summaries, where each pane starts, and the groups' codes; None without rows."""
        family, taken = self.family, self.taken
        if self.absorbed:
            return None
        if self._made is None and taken.positions is not None:
            groups = GroupTable(family.queries[0].groups, taken.batch.schema)
            if taken.counted is not None:  # numbered by group already, with codes that all have
                groups = family.sessions[0].start().groups
            runs = family.one_pass.summarise(taken, groups, family.summariser(self._late))
            self._made = runs, runs.stamp, groups
        return self._made
