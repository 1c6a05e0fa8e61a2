"""What both skyline queries share: dominance over the answer's columns, and merging of shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints
from skyband.contract.runs import Part, Runs
from skyband.contract.synopsis import Synopsis
from skyband.data.order import order_by_value
from skyband.query.base import Query
from skyband.skyline.points import Preferences

__all__ = ["DominanceSynopsis"]

Q = TypeVar("Q", bound=Query)


class DominanceSynopsis(Synopsis[Q]):
    """Finishes answers: the skyline of several skylines is the skyline of all their rows.

    A partial answer holds the rows of an answer in their order. Shards may split the rows in any
    way, as long as rows that join stay together; the answer is the same.
    """

    def __init__(self, query: Q, prefer: dict[str, str]) -> None:
        super().__init__(query)
        # Rows of one group are equal in the group's columns, which thus never affect dominance.
        self.shown_prefer = Preferences({n: w for n, w in prefer.items() if n not in query.groups})

    def finish(self, partials: Sequence[Runs]) -> Runs:
        runs = Runs.concat(partials)
        if len(partials) > 1:
            runs = self._united(runs.ordered())
        part = runs.parts["rows"]
        columns = {
            field.name: part.columns.get(field.name, pa.nulls(0, field.type))
            for field in self.output()
        }
        return Runs(runs.stamp, runs.group, {"rows": Part(part.offsets, columns)})

    def _united(self, runs: Runs) -> Runs:
        """One run for each (window, group): the skyline of its partial skylines."""
        runs = runs.united()
        part = self.skyline_of(runs.parts["rows"])
        if len(part):
            run = np.repeat(np.arange(len(runs)), part.lengths)
            order = order_by_value([pa.array(run), *(part[f.name] for f in self.output())])
            part = part.rows(order, part.offsets)
        return runs.with_parts(rows=part)

    def skyline_of(self, part: Part) -> Part:
        """The skyline of each run of rows that have the answer's columns."""
        return part.rows(*self.shown_prefer.skylines(part.columns.__getitem__, part.offsets))

    def points_of(self, part: Part) -> tuple[Ints, Ints]:
        """Points and segments of rows that have the answer's columns."""
        read, rows = part.columns.__getitem__, len(part)
        if not rows:
            return np.empty((0, self.shown_prefer.dimensions), np.int64), np.zeros(0, np.int64)
        return self.shown_prefer.points(read, rows), self.shown_prefer.segments(read, rows)
