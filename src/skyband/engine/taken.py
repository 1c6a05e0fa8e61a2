"""The good rows of a batch, as read by the intake, and their places in panes and groups."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from skyband.arrays import Ints
from skyband.contract.rows import Faults
from skyband.data.group_table import GroupTable
from skyband.data.time_axis import TimeAxis
from skyband.engine.clocks import Counted
from skyband.engine.placement import Arrivals, Ascending, Cutting, Placed, place, place_in_order

__all__ = ["Taken", "place_rows"]


@dataclass(frozen=True, eq=False)
class Taken:
    """The good rows of a batch, before they are assigned to panes and groups.

    Reading them changes no state.
    """

    source: str
    batch: pa.RecordBatch
    ticks: Ints | None
    rows_in: int
    faults: Faults | None
    greatest: int | None
    in_order: bool
    """Whether times never decrease."""
    filtered: int = 0
    """Rows that ``where`` leaves out."""
    least: int | None = None
    """The least time that can be read; of bad rows and of rows left out, too."""
    outside: bool = False
    """Whether some times are outside the query's limits."""
    arrival: int | None = None
    """The arrival number of the first row, for count windows without groups."""
    counted: Counted | None = None
    """The rows' groups and arrival numbers, for count windows with groups."""

    @property
    def positions(self) -> Ints | range | None:
        """Times or arrival numbers of the rows; None if there are no rows."""
        if self.counted is not None:
            return self.counted.arrivals if len(self.counted.arrivals) else None
        if self.arrival is None:
            return self.ticks
        rows = self.batch.num_rows
        return range(self.arrival, self.arrival + rows) if rows else None


def place_rows(
    taken: Taken, axis: TimeAxis | None, panes: Cutting, groups: GroupTable, sealed: int
) -> Placed:
    """Rows by pane and group, without late and unused rows; panes before ``sealed`` are late."""
    rows = taken.source, taken.batch
    if taken.counted is not None:
        codes, numbers = taken.counted
        return place(*rows, numbers, None, panes, groups, codes, sealed)
    if taken.arrival is not None and taken.batch.num_rows:
        arrivals = Arrivals(taken.arrival, taken.batch.num_rows)
        return place_in_order(*rows, arrivals, None, panes, groups, sealed)
    if taken.ticks is None or axis is None:
        return Placed(None)
    times = axis.native(taken.batch.column(axis.name))
    if taken.in_order:
        return place_in_order(*rows, Ascending(taken.ticks), times, panes, groups, sealed)
    return place(*rows, taken.ticks, times, panes, groups, None, sealed)
