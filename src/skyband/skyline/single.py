"""What Skyline's algorithms share, and the two that are short: ``landmark`` and ``sfs``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints
from skyband.contract.accumulated import Accumulated
from skyband.contract.checks import QuickTests, faults, named, no_nan, null_tests
from skyband.contract.pane_by_pane import LivePanes
from skyband.contract.rows import Faults, Rows
from skyband.contract.runs import Part, Runs
from skyband.contract.synopsis import Synopsis
from skyband.data.column_store import check_plain
from skyband.data.columns import output_type
from skyband.data.flat_state import Form, Forms
from skyband.query.skyline import Skyline
from skyband.skyline.base import Preferences, finished, skyline_of, united, value_tests


class SkylineSynopsis(Synopsis[Skyline]):
    """Everything of Skyline except the state over sealed panes.

    Rows of a pane expire together, so only rows on the skyline of their own pane can be part of an
    answer. The summary holds exactly those.
    """

    shortens = True

    def __init__(self, query: Skyline) -> None:
        super().__init__(query)
        self.prefer = Preferences(query.prefer)
        # Rows of one group are equal in the group's columns, which thus never affect dominance.
        own = {name: wish for name, wish in query.prefer.items() if name not in query.groups}
        self.shown_prefer = Preferences(own)

    # Columns ----------------------------------------------------------------------------------

    def columns(self, source: str, schema: pa.Schema) -> tuple[str, ...]:
        query = self.query
        return named(*schema.names, *query.groups, *self.prefer.names, query.id, query.time)

    def check_types(self, source: str, schema: pa.Schema) -> None:
        self.prefer.check_types(schema)
        for field in schema:
            check_plain(field.type)

    def output(self) -> pa.Schema:
        shown = (f for f in self.schema if f.name not in self.query.groups)
        return pa.schema([pa.field(f.name, output_type(f.type)) for f in shown])

    # Rows -------------------------------------------------------------------------------------

    def validate(self, source: str, batch: pa.RecordBatch) -> Faults | None:
        nulls = null_tests(batch, id=self.query.id, time=self.query.time)
        return faults(batch, value_tests(batch, self.prefer.names) + nulls)

    def quick_tests(self, source: str) -> QuickTests | None:
        return no_nan(self.schema, *self.prefer.names)

    def summarise(self, rows: Rows) -> Runs:
        kept, offsets = self.shown_prefer.skylines(rows.arrow, rows.offsets)
        columns = {name: rows.take(name, kept) for name in self.output().names}
        return rows.runs({"rows": Part(offsets, columns)})

    def combine(self, runs: Runs) -> Runs:
        runs = runs.united()
        return runs.with_parts(rows=skyline_of(runs.parts["rows"], self.shown_prefer))

    def points_of(self, part: Part) -> tuple[Ints, Ints]:
        """Points and segments of rows that have the answer's columns."""
        read, rows, prefer = part.columns.__getitem__, len(part), self.shown_prefer
        if not rows:
            return np.empty((0, prefer.dimensions), np.int64), np.zeros(0, np.int64)
        return prefer.points(read, rows), prefer.segments(read, rows)

    def finish(self, partials: Sequence[Runs]) -> Runs:
        return finished(partials, self.output(), self.shown_prefer)


class WholeSkyline(Accumulated, SkylineSynopsis):
    """Keeps the skyline of all rows so far, for each group: a dominated row never comes back.

    Cost: one skyline of the state and the pane's skyline per pane with rows. State: the rows of the
    answer. Exact.

    >>> import pyarrow as pa, skyband as sb
    >>> rows = pa.table({"t": [0, 3, 12], "price": [3, 2, 1]})
    >>> query = sb.Skyline(prefer={"price": "min"}, time="t", window=sb.LandmarkWindow(slide=10))
    >>> sb.rank(rows, query)["price"].to_pylist()
    [2, 1]
    """

    shortens = False

    def combine(self, runs: Runs) -> Runs:
        return united(runs, self.output(), self.shown_prefer)


class Sfs(LivePanes, SkylineSynopsis):
    """Sort-filter skyline of the live panes' skylines, recomputed for every window.

    Time: O(m log m + m s) per window, where m is the number of rows on the skylines of the live
    panes and s the number of rows in the answer. State: those m rows. Exact. Any shorter window in
    whole panes can be asked for.

    Chomicki et al.'s SFS as the paper's section VI uses it, except that its input is first reduced
    to the skyline of each pane, since rows of one pane expire together.

    >>> import pyarrow as pa, skyband as sb
    >>> rows = pa.table({"price": [3, 2, 4, 1], "volume": [5, 1, 9, 1]})
    >>> wish = {"price": "min", "volume": "max"}
    >>> query = sb.Skyline(prefer=wish, window=sb.CountWindow(4), algorithm="sfs")
    >>> sb.rank(rows, query)["price"].to_pylist()
    [1, 3, 4]
    """

    saved_arrays = ("counts",)
    saved_forms: ClassVar[Forms] = {"counts": Form(1)}

    def __init__(self, query: Skyline) -> None:
        super().__init__(query)
        self.counts = np.zeros(1, np.int64)

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        panes = self.between(first, end)
        window = Runs(np.zeros(len(panes), np.int64), panes.group, {"rows": panes.part("rows")})
        return united(window, self.output(), self.shown_prefer, self.counts)

    def stats(self) -> dict[str, int | float]:
        return {
            "retained": len(self.live.part("rows")),
            "state_bytes": self.live.nbytes + self.nbytes,
            "comparisons": int(self.counts[0]),
        }
