"""What the algorithms of Skyline share: columns, the skyline of a pane, rows in an answer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints
from skyband.contract.checks import faults, null_mask
from skyband.contract.rows import Faults, Rows
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.data.column_store import ColumnStore
from skyband.data.columns import output_type
from skyband.query.skyline import Skyline
from skyband.skyline.base import SkylineFamily
from skyband.skyline.points import Preferences, skylines
from skyband.skyline.rows import RowStore, ranks_by_value

__all__ = ["SkylineSynopsis"]


class SkylineSynopsis(SkylineFamily[Skyline]):
    """Everything of Skyline except the state over sealed panes.

    Rows of a pane expire together, so only rows on the skyline of their own pane can be part of an
    answer. The summary holds exactly those.
    """

    shortens = True

    def __init__(self, query: Skyline) -> None:
        super().__init__(query, dict(query.prefer))
        self.prefer = Preferences(query.prefer)

    # Columns ----------------------------------------------------------------------------------

    def start(self) -> None:
        self.store = RowStore(self.output())

    def columns(self, source: str, schema: pa.Schema) -> tuple[str, ...]:
        query = self.query
        named = (*schema.names, *query.groups, *self.prefer.names, query.id, query.time)
        return tuple(dict.fromkeys(name for name in named if name is not None))

    def check_types(self, source: str, schema: pa.Schema) -> None:
        self.prefer.check_types(schema)
        for field in schema:
            ColumnStore(field.type)  # raises for a type that cannot be kept

    def output(self) -> pa.Schema:
        shown = (f for f in self.schemas[""] if f.name not in self.query.groups)
        return pa.schema([pa.field(f.name, output_type(f.type)) for f in shown])

    # Rows -------------------------------------------------------------------------------------

    def validate(self, source: str, batch: pa.RecordBatch) -> Faults | None:
        query = self.query
        tests = self.prefer.tests(batch)
        for role, name in (("id", query.id), ("time", query.time)):
            if name is not None:
                tests.append((name, f"the {role} is null", null_mask(batch.column(name))))
        return faults(batch, tests)

    def summarise(self, rows: Rows) -> Runs:
        prefer = self.shown_prefer
        points = prefer.points(rows.arrow, len(rows))
        segment = prefer.segments(rows.arrow, len(rows)) if prefer.diff else None
        kept, offsets = skylines(points, segment, rows.offsets)
        columns = {name: rows.take(name, kept) for name in self.output().names}
        return rows.runs({"rows": Part(offsets, columns)})

    def combine(self, runs: Runs) -> Runs:
        fresh = np.flatnonzero(~runs.repeats)
        part = self.skyline_of(runs.parts["rows"].joined(fresh))
        scalars = {n: np.add.reduceat(values, fresh) for n, values in runs.scalars.items()}
        return Runs(runs.stamp[fresh], runs.group[fresh], {"rows": part}, scalars)

    # Answers ----------------------------------------------------------------------------------

    def answer(self, store: RowStore, slots: Ints, offsets: Ints, stamps: Ints) -> Runs:
        """Partial answers from retained rows: one run of slots for each stamp."""
        lengths = np.diff(offsets)
        some = np.flatnonzero(lengths)
        ranks = ranks_by_value(store, slots)
        order = np.lexsort((ranks, np.repeat(np.arange(len(lengths)), lengths)))
        part = Part(offsets_of(lengths[some]), store.gather(slots[order]))
        return Runs(stamps[some], np.zeros(len(some), np.int32), {"rows": part})
