"""What the algorithms of SkylineJoin share: two sides, their names in an answer, joined rows.

    trades  ts stock price volume        answer  stock  trades_ts price volume  risks_ts risk
    risks   ts stock risk                        on     left's others           right's others

A side's preferred columns are known only once the columns of both sides are known (a name that both
have is written ``side_column``); rows that arrive earlier wait, and are never pruned.

Each side may have a window of its own size. Rows of the side with the shorter window then count as
rows of an older pane, so that rows of both sides expire together if they count as equally old:

    left  window 3 panes       pane  4  5  6     expire when the first pane is 5, 6, 7
    right window 1 pane        pane        6     expires when it is 5: counts as a row of pane 4
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints, Saved, State
from skyband.contract.checks import faults, named, null_tests, number_tests, plain_key
from skyband.contract.rows import Faults, Rows, Windows
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.contract.synopsis import Synopsis
from skyband.data.column_store import check_plain
from skyband.data.columns import native_dtype, output_type
from skyband.data.flat_state import load, save
from skyband.data.keys import hash_columns, shards_of
from skyband.data.retained_rows import RetainedRows
from skyband.errors import SchemaError
from skyband.panes import SidePanes
from skyband.query.skyline import SkylineJoin
from skyband.skyline.base import Preferences, finished, ranks_by_value, value_tests

SIDES = ("left", "right")
"""Names of the parts of a summary."""


@dataclass(frozen=True)
class JoinSide:
    """One side of the join, once both are known."""

    schema: pa.Schema
    """The join's columns first."""
    prefer: Preferences
    shown: Mapping[str, str]
    """Maps the side's columns, without the join's, to columns of the answer."""


class JoinSynopsis(Synopsis[SkylineJoin]):
    """Everything of SkylineJoin except the state over sealed panes."""

    prunes = False
    """Whether a summary holds only the skyline of each key's rows in a pane, or every row."""

    def __init__(self, query: SkylineJoin) -> None:
        super().__init__(query)
        self.waits_for = query.sources
        self.on = (query.on,) if isinstance(query.on, str) else tuple(query.on)
        self.sides: tuple[JoinSide, JoinSide] | None = None
        self.waiting: list[Runs] = []
        """Sealed panes that arrived before both sides were known."""
        panes = query.window.panes
        self.shifts = [panes.per_window - panes.of(name).per_window for name in query.sources]
        """By how many panes the rows of each side count as older than they are."""

    # Columns ----------------------------------------------------------------------------------

    def columns(self, source: str, schema: pa.Schema) -> tuple[str, ...]:
        return named(*self.on, *schema.names, self.query.time_of(source))

    def check_types(self, source: str, schema: pa.Schema) -> None:
        for field in schema:
            check_plain(field.type)
        for name in self.on:
            plain_key("join", schema, name)
        known = self.schemas | {source: schema}
        if len(known) == 2:
            self._resolved(*(known[name] for name in self.query.sources))

    def start(self) -> None:
        self.sides = self._resolved(*(self.schemas[name] for name in self.query.sources))

    def _resolved(self, left: pa.Schema, right: pa.Schema) -> tuple[JoinSide, JoinSide]:
        """Names and preferences of both sides; raises SchemaError if they do not fit."""
        for name in self.on:
            kinds = [schema.field(name).type for schema in (left, right)]
            if _family(kinds[0]) != _family(kinds[1]):
                raise SchemaError(
                    f"join column {name!r} has type {kinds[0]} on the left side and {kinds[1]} on "
                    "the right, which never match; cast one of them"
                )
        own = [[n for n in schema.names if n not in self.on] for schema in (left, right)]
        both = set(own[0]) & set(own[1])
        shown = [
            {name: f"{source}_{name}" if name in both else name for name in names}
            for source, names in zip(self.query.sources, own, strict=True)
        ]
        joined = [*self.on, *shown[0].values(), *shown[1].values()]
        for name in joined:
            reserved = self.query.reserved
            if joined.count(name) > 1 or name in reserved:
                raise SchemaError(
                    f"the answer would have column {name!r} twice (a name that both sides have "
                    f"becomes side_column; reserved: {', '.join(reserved)}); rename an input column"
                )
        prefer = self.query.prefer
        for name in prefer:
            if name in both:
                raise SchemaError(
                    f"prefer names {name!r}, which both sides have; write "
                    f"{shown[0][name]!r} or {shown[1][name]!r}"
                )
            if name not in joined:
                raise SchemaError(
                    f"preferred column {name!r} is missing; the joined columns are: "
                    f"{', '.join(joined)}"
                )
        # Joined rows agree in the join's columns, so the left side can stand for both.
        mine = [dict.fromkeys(self.on) if side == 0 else {} for side in (0, 1)]
        sides = []
        for schema, names, extra in zip((left, right), shown, mine, strict=True):
            answers = {name: name for name in extra} | dict(names)
            wishes = Preferences({c: prefer[a] for c, a in answers.items() if a in prefer})
            wishes.check_types(schema)
            ordered = pa.schema([schema.field(n) for n in (*self.on, *names)])
            sides.append(JoinSide(ordered, wishes, names))
        return sides[0], sides[1]

    def output(self) -> pa.Schema:
        if self.sides is None:
            # Only one side is known: there can be no answer yet, and no clash of names.
            (schema,) = list(self.schemas.values())[:1]
            names = dict.fromkeys((*self.on, *schema.names))
            return pa.schema([pa.field(n, output_type(schema.field(n).type)) for n in names])
        fields = [self.sides[0].schema.field(name) for name in self.on]
        for side in self.sides:
            fields += [side.schema.field(n).with_name(a) for n, a in side.shown.items()]
        return pa.schema([pa.field(f.name, output_type(f.type)) for f in fields])

    # Rows -------------------------------------------------------------------------------------

    def validate(self, source: str, batch: pa.RecordBatch) -> Faults | None:
        tests = [test for name in self.on for test in number_tests(batch, "join column", name)]
        tests += null_tests(batch, time=self.query.time_of(source))
        return faults(batch, tests + value_tests(batch, self._maybe_preferred(source)))

    def _maybe_preferred(self, source: str) -> tuple[str, ...]:
        """Preferred columns of a source; until both are known, matched by either possible name."""
        if self.sides is not None:
            return self.sides[self.query.sources.index(source)].prefer.names
        prefer, names = self.query.prefer, self.schemas[source].names
        return tuple(n for n in names if n in prefer or f"{source}_{n}" in prefer)

    def shard(self, source: str, batch: pa.RecordBatch, shards: int) -> Ints:
        return shards_of([batch.column(name) for name in self.on], shards)

    def summarise(self, rows: Rows) -> Runs:
        at = self.query.sources.index(rows.source)
        names = self.schemas[rows.source].names
        kept, offsets = np.arange(len(rows)), rows.offsets
        if self.prunes and self.sides is not None:
            kept, offsets = self.sides[at].prefer.skylines(rows.arrow, offsets, self.on)
        mine = Part(offsets, {name: rows.take(name, kept) for name in names})
        none = Part(np.zeros(len(rows.pane) + 1, np.int64), {})
        runs = rows.runs({SIDES[at]: mine, SIDES[1 - at]: none})
        if not isinstance(self.query.window.panes, SidePanes):
            return runs
        # The engine needs these if each side has its own window.
        by_side = {f"rows/{name}": rows.lengths * 0 for name in self.query.sources}
        return runs.with_scalars(**(by_side | {f"rows/{rows.source}": rows.lengths}))

    def combine(self, runs: Runs) -> Runs:
        runs = runs.united()
        if not self.prunes or self.sides is None:
            return runs
        parts = {}
        for name, side in zip(SIDES, self.sides, strict=True):
            part = runs.parts[name]
            read = part.columns.__getitem__
            parts[name] = part.rows(*side.prefer.skylines(read, part.offsets, self.on))
        return runs.with_parts(**parts)

    def side_rows(self, panes: Runs, at: int) -> tuple[Ints, Ints, Ints, Ints]:
        """Join keys, points, segments and panes (by age, see above) of one side's rows."""
        assert self.sides is not None
        part, prefer = panes.parts[SIDES[at]], self.sides[at].prefer
        rows, read = len(part), part.columns.__getitem__
        if not rows:
            none = np.zeros(0, np.int64)
            return none, np.empty((0, prefer.dimensions), np.int64), none, none
        keys = hash_columns([part[name] for name in self.on]).view(np.int64)
        pane = np.repeat(panes.stamp - self.shifts[at], part.lengths)
        return keys, prefer.points(read, rows), prefer.segments(read, rows), pane

    def firsts(self, first: int, end: int) -> tuple[int, int]:
        """The panes (by age, see above) before which rows of each side are not in a window.

        At the end of a window they are equal.
        """
        panes = self.query.window.panes
        if not isinstance(panes, SidePanes):
            return first, first
        left, right = (
            max(first, int(panes.first_of(name, end))) - shift
            for name, shift in zip(self.query.sources, self.shifts, strict=True)
        )
        return left, right

    # Panes and answers ------------------------------------------------------------------------

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        if self.sides is None:
            if len(windows):
                panes = self._with_waiting(panes)
                panes = panes.take(panes.stamp >= windows.first[-1])
            self.waiting.append(panes)
            return None
        return self.fold_known(self._with_waiting(panes), windows)

    def _with_waiting(self, panes: Runs) -> Runs:
        if not self.waiting:
            return panes
        panes = Runs.concat([*self.waiting, panes])
        self.waiting = []
        return panes

    @abstractmethod
    def fold_known(self, panes: Runs, windows: Windows) -> Runs | None:
        """Like ``fold``, when both sides are known."""

    def finish(self, partials: Sequence[Runs]) -> Runs:
        return finished(partials, self.output(), Preferences(self.query.prefer))

    def answer(
        self, stores: Sequence[RetainedRows], pairs: tuple[Ints, Ints], offsets: Ints, stamps: Ints
    ) -> Runs:
        """Partial answers from retained rows: one run of pairs of slots for each stamp."""
        assert self.sides is not None
        lengths = np.diff(offsets)
        some = np.flatnonzero(lengths)
        left, right = (ranks_by_value(s, p) for s, p in zip(stores, pairs, strict=True))
        order = np.lexsort((right, left, np.repeat(np.arange(len(lengths)), lengths)))
        columns: dict[str, pa.Array] = {}
        for side, store, slots in zip(self.sides, stores, pairs, strict=True):
            found = store.gather(slots[order])
            columns |= {name: found[name] for name in self.on if name not in columns}
            columns |= {shown: found[name] for name, shown in side.shown.items()}
        part = Part(offsets_of(lengths[some]), columns)
        return Runs(stamps[some], np.zeros(len(some), np.int32), {"rows": part})

    # State ------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        state: State = {}
        if self.waiting:
            self.waiting = [Runs.concat(self.waiting)]
            state["waiting"] = np.frombuffer(self.waiting[0].pack(), np.uint8)
        return state if self.sides is None else state | self.snapshot_known()

    def restore(self, arrays: Saved) -> None:
        if "waiting" in arrays:
            waiting, _ = Runs.unpack(arrays["waiting"].tobytes())
            self.waiting = [self.saved_runs(waiting)]
        rest = {name: value for name, value in arrays.items() if name != "waiting"}
        if rest:
            self.restore_known(rest)

    def snapshot_known(self) -> State:
        """The state over sealed panes, when both sides are known."""
        return save(self)

    def restore_known(self, arrays: Saved) -> None:
        """Restore the state that ``snapshot_known`` returned."""
        load(self, arrays)


def _family(kind: pa.DataType) -> object:
    """The family of a type: equal values of types in one family have the same hash."""
    kind = output_type(kind)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return "integer"
    if pa.types.is_floating(kind):
        return "float"
    if native_dtype(kind) is None and not pa.types.is_decimal(kind):
        return "bytes"
    return kind
