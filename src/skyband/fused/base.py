"""What all FusedTopK algorithms share: columns, reports, the guard, the finished answer.

A summary holds all valid reports of a (pane, group): the hash of the object, the stream, the
value, the tie-breaker that makes one report later than another, and the object's id. None of them
can be dropped yet, because a report beyond the allowed number is a bad row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.arrays import Array, Codes, Floats, Hashes, Ints, Mask, Saved, State
from skyband.contract.capabilities import PaneShrinking
from skyband.contract.checks import (
    QuickTests,
    faults,
    named,
    null_tests,
    number_tests,
    numeric,
    plain_key,
    within,
)
from skyband.contract.rows import Faults, RefusedRows, Rows, shown
from skyband.contract.runs import Part, Runs, pick
from skyband.contract.synopsis import Synopsis
from skyband.data.columns import output_type, to_numpy
from skyband.data.flat_state import Form, admitted, require
from skyband.data.keys import hash_array, shards_of
from skyband.data.order import id_ranks
from skyband.data.time_axis import from_native
from skyband.errors import QueryError, SchemaError
from skyband.fused.kernels.guard import guard_keys, live_slots, remember
from skyband.kernels.borrow import frozen
from skyband.query.fused import FusedTopK
from skyband.window import CountWindow

# The guard against more live reports of one object in one stream than the query allows -----------


Table = tuple[Hashes, Ints]


def _fill(table: Table) -> int:
    """How many pairs a table may hold: three quarters of its slots, so that probes stay short."""
    return 3 * len(table[0]) // 4


class Guard:
    """Remembers the panes of the last m reports of every (object, stream) in the window.

    An algorithm that drops reports which can never be answered also forgets that they existed, so
    the check keeps its own memory: a hash and m panes per live pair, with one look-up per report.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self.table = self._empty(8)
        self._ahead: tuple[Hashes, int, Table] | None = None
        """The hashes of rows just found valid, and the table's state with those rows added."""

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self.table)

    def bad(self, hashes: Hashes, stream: Codes, pane: Ints, oldest: Ints) -> Mask:
        """Which rows (ordered by pane) are one report too many; the table stays unchanged.

        ``oldest`` is the first pane that some window covers together with the row's own.
        """
        table = self.table[0].copy(), self.table[1].copy()
        bad, used, table = self._noted(hashes, stream, pane, oldest, self.used, table)
        self._ahead = None if bad.any() else (hashes, used, table)
        return bad

    def admit(self, hashes: Hashes, stream: Codes, pane: Ints, oldest: Ints) -> None:
        """Remember reports that ``bad`` has let pass."""
        if self._ahead is not None and self._ahead[0] is hashes:
            _, self.used, self.table = self._ahead
        else:
            noted = self._noted(hashes, stream, pane, oldest, self.used, self.table)
            _, self.used, self.table = noted
        self._ahead = None

    def _noted(
        self, hashes: Hashes, stream: Codes, pane: Ints, oldest: Ints, used: int, table: Table
    ) -> tuple[Mask, int, Table]:
        keys = guard_keys(frozen(hashes), frozen(stream))
        bad = np.zeros(len(keys), np.bool_)
        at = 0
        while at < len(keys):
            room = _fill(table) - used
            if room < max(min(len(keys) - at, len(table[0]) // 32), 1):
                used, table = self._renewed(table, int(oldest[at]))
                room = _fill(table) - used
            upto = min(at + room, len(keys))
            used += remember(keys, pane, oldest, table, bad, at, upto)
            at = upto
        return bad, used, table

    def _renewed(self, table: Table, oldest: int) -> tuple[int, Table]:
        """A table of the pairs that still have a report in pane ``oldest`` or later.

        It has room for a quarter more, so that it need not be rebuilt soon.
        """
        keys, panes = table
        live = int(((keys > 0) & (panes[:, -1] >= oldest)).sum())
        wider = self._empty(live + live // 4 + 64)
        return live_slots(table, oldest, wider), wider

    def _empty(self, keys: int) -> Table:
        slots = max(-(-4 * keys // 3), 8) + 1
        return np.zeros(slots, np.uint64), np.zeros((slots, self.most), np.int64)

    def state(self) -> State:
        """Flat arrays for a snapshot, sorted: the order in the table depends on its history."""
        keys, panes = self.table
        used = np.flatnonzero(keys)
        used = used[np.argsort(keys[used])]
        return {"keys": keys[used], "panes": panes[used]}

    def restore(self, arrays: Saved) -> None:
        """Restore the state from a snapshot."""
        like = dict(zip(("keys", "panes"), self.table, strict=True))
        forms = {"keys": Form("keys", 1), "panes": Form("keys")}
        keys, panes = admitted(arrays, like, forms).values()
        self.table = self._empty(len(keys))
        self.used = live_slots((keys, panes), int(np.iinfo(np.int64).min), self.table)
        self._ahead = None

    def _check(self) -> None:
        keys, panes = self.table
        assert self.used == int((keys > 0).sum()) <= _fill(self.table)
        assert len(np.unique(keys[keys > 0])) == self.used
        assert panes.shape == (len(keys), self.most)
        assert (panes[:, 1:] >= panes[:, :-1]).all()


# From values (objects x streams) to one score per object, combined in the order of streams --------

Scorer = Callable[[Floats], Floats]


def _left_to_right(step: Callable[[Floats, Floats], Floats]) -> Scorer:
    def combine(values: Floats) -> Floats:
        total = values[:, 0].copy()
        for stream in range(1, values.shape[1]):
            total = step(total, values[:, stream])
        return total

    return combine


_sum = _left_to_right(np.add)
_NAMED: dict[str, Scorer] = {
    "sum": _sum,
    "mean": lambda values: _sum(values) / values.shape[1],
    "min": _left_to_right(np.minimum),
    "max": _left_to_right(np.maximum),
    "product": _left_to_right(np.multiply),
}


def scorer(query: FusedTopK) -> Scorer:
    """The function that the query's ``combine`` stands for."""
    combine: Any = query.combine
    if isinstance(combine, str):
        return _NAMED[combine]
    if callable(combine):
        bounds = np.array(query.pairs).T
        low, high = _own(combine, bounds.copy())
        if low > high:
            raise QueryError(
                "combine= must be monotone: greater values must not lower the score, but it scores "
                "the upper bounds below the lower bounds"
            )
        return lambda values: _own(combine, values)
    weights = np.array(query.weights)
    return lambda values: _sum(values * weights)


def _own(combine: Callable[[Floats], Any], values: Floats) -> Floats:
    """Call a user's function; raises if what it returned cannot be used as scores."""
    if not len(values):
        return np.zeros(0)
    scores = np.asarray(combine(values), np.float64)
    if scores.shape != (len(values),):
        raise QueryError(
            f"combine= got values of shape {values.shape} and must return one score for each of "
            f"the {len(values)} objects; it returned an array of shape {scores.shape}"
        )
    if np.isnan(scores).any():
        raise QueryError("combine= returned a score that is not a number (NaN)")
    return np.ascontiguousarray(scores)  # kernels would be compiled again for others


# The contract ------------------------------------------------------------------------------------

REPORTS = "reports"


class FusedSynopsis(Synopsis[FusedTopK]):
    """Everything of FusedTopK except the state over sealed panes, and the guard of that state."""

    def __init__(self, query: FusedTopK) -> None:
        super().__init__(query)
        self.counting = isinstance(query.window, CountWindow)
        pairs = np.array(query.pairs, np.float64)
        self.low, self.high = pairs[:, 0].copy(), pairs[:, 1].copy()
        self.score = scorer(query)
        self.panes = query.window.panes
        most = query.most_reports
        watched = most is not None and query.options.get("guard", True)
        self.guard = Guard(most) if most is not None and watched else None

    # Columns ----------------------------------------------------------------------------------

    def columns(self, source: str, schema: pa.Schema) -> tuple[str, ...]:
        query = self.query
        names = [*query.groups, query.id, query.value, query.time_of(source or None)]
        if self._named(source):
            if query.stream is None:
                raise SchemaError(
                    "a single table with several streams needs stream=, the column that names each "
                    f"row's stream; or pass a mapping from {', '.join(query.streams)} to sources"
                )
            names.append(query.stream)
        return named(*names)

    def _named(self, source: str) -> bool:
        """Whether a column of this source names the stream."""
        return not source and (self.query.stream is not None or len(self.query.streams) > 1)

    def check_types(self, source: str, schema: pa.Schema) -> None:
        query = self.query
        numeric("value", schema, query.value)
        plain_key("id", schema, query.id)
        if self._named(source):
            assert query.stream is not None
            kind = output_type(schema.field(query.stream).type)
            if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
                raise SchemaError(
                    f"stream column {query.stream!r} has type {kind}; it must hold the names in "
                    "streams=, so cast it to a string"
                )
        for other, theirs in self.schemas.items():
            for name in (query.id, *query.groups):
                mine = output_type(schema.field(name).type)
                known = output_type(theirs.field(name).type)
                if mine != known:
                    raise SchemaError(
                        f"column {name!r} has type {mine} in source {source!r} and {known} in "
                        f"source {other!r}; cast them so that all sources agree"
                    )

    @property
    def id_type(self) -> pa.DataType:
        schema = next(iter(self.schemas.values()))
        return output_type(schema.field(self.query.id).type)

    def output(self) -> pa.Schema:
        known = [pa.field(name, pa.float64()) for name in self.query.extra_columns]
        return pa.schema([pa.field(self.query.id, self.id_type), *known])

    @property
    def parts(self) -> tuple[str, ...]:
        """The streams whose values answers show; while they are made, NaN stands for null."""
        return tuple(self.query.streams) if self.query.parts else ()

    def rows_of(self, ids: pa.Array, scores: Floats, values: Floats) -> dict[str, Any]:
        """The columns of a partial answer; ``values`` has one column for each of ``parts``."""
        shown = {name: values[:, place].copy() for place, name in enumerate(self.parts)}
        return {self.query.id: ids, "score": scores, **shown}

    # Rows -------------------------------------------------------------------------------------

    def validate(self, source: str, batch: pa.RecordBatch) -> Faults | None:
        query = self.query
        tests = number_tests(batch, "value", query.value)
        tests += null_tests(batch, id=query.id, time=query.time_of(source or None))
        stream = self._streams(source, batch)
        if self._named(source) and len(stream) and int(stream.min()) < 0:
            known = ", ".join(query.streams)
            assert query.stream is not None
            tests.append((query.stream, f"not one of the query's streams ({known})", stream < 0))
        value = _floats(batch.column(query.value))
        outside = (stream >= 0) & ((value < self.low[stream]) | (value > self.high[stream]))
        for number in np.unique(stream[outside]).tolist():
            low, high = query.pairs[number]
            name = query.streams[number]
            problem = f"the value is outside the bounds of stream {name!r}, {low:g} to {high:g}"
            tests.append((query.value, problem, outside & (stream == number)))
        return faults(batch, tests)

    def quick_tests(self, source: str) -> QuickTests | None:
        query = self.query
        alike = (self.low == self.low[0]).all() and (self.high == self.high[0]).all()
        if query.stream is None or not self._named(source) or not alike:
            return None
        known = set(query.streams)
        tests: QuickTests = {query.value: within(float(self.low[0]), float(self.high[0]))}
        tests[query.stream] = lambda names: known.issuperset(names.to_pylist())
        return tests

    def _streams(self, source: str, batch: pa.RecordBatch) -> Codes:
        """The number of each row's stream; -1 for a name that the query does not know."""
        query = self.query
        if not self._named(source):
            number = query.streams.index(source) if source else 0
            return np.full(batch.num_rows, number, np.int32)
        assert query.stream is not None
        column = batch.column(query.stream)
        if pa.types.is_run_end_encoded(column.type):
            column = pc.run_end_decode(column)
        names = column.dictionary if pa.types.is_dictionary(column.type) else column
        kind = names.type if not pa.types.is_string_view(names.type) else pa.string()
        places = pc.index_in(names.cast(kind), pa.array(query.streams, kind))
        numbers = to_numpy(pc.fill_null(places, -1))
        if not pa.types.is_dictionary(column.type):
            return numbers
        indices = column.indices
        if indices.null_count:
            indices = pc.fill_null(indices.cast(pa.int64()), len(numbers))
        return np.append(numbers, np.int32(-1))[to_numpy(indices)]

    def shard(self, source: str, batch: pa.RecordBatch, shards: int) -> Ints:
        """Split by object, so that every shard has all reports of its objects."""
        return shards_of([batch.column(self.query.id)], shards)

    def summarise(self, rows: Rows) -> Runs:
        query = self.query
        stream = self._streams(rows.source, rows.batch)
        column = rows.batch.column(query.id)
        whole = rows.index is None and column.type == output_type(column.type)
        ids = column if whole else rows.take(query.id, np.arange(len(rows)))
        columns: dict[str, Any] = {
            "hash": hash_array(ids),
            "stream": stream if rows.index is None else stream[rows.index],
            "value": _floats(rows.arrow(query.value)),
            "tie": rows.tie,
            "id": ids,
        }
        return rows.runs({REPORTS: Part(rows.offsets, columns)})

    def combine(self, runs: Runs) -> Runs:
        return runs.united()

    def lean(self, runs: Runs) -> Runs:
        """Reports that no answer can show lose their value; see ``fused/base.py``."""
        query, part = self.query, runs.parts[REPORTS]
        if query.most_reports != 1 or not self.exact or callable(query.combine):
            return runs
        values = lean_values(part, self.low, self.high, self.score, query.k)
        if values is None:
            return runs
        columns = dict(part.columns) | {"value": values}
        return runs.with_parts(**{REPORTS: Part(part.offsets, columns)})

    def admit(self, runs: Runs) -> tuple[Runs, Faults | None]:
        """Leave out reports beyond ``recurrences``; if a window has too many, its later ones go.

        Reports are ordered by time and, at equal times, by arrival.
        """
        part = runs.parts[REPORTS]
        if self.guard is None or not len(part):
            return runs, None
        pane = np.repeat(runs.stamp, part.lengths)
        oldest = np.repeat(self._oldest(runs.stamp), part.lengths)
        hashes, stream = part["hash"], part["stream"]
        if not self.guard.bad(hashes, stream, pane, oldest).any():
            return runs, None
        order = np.lexsort((part["tie"], pane))
        bad = np.zeros(len(part), np.bool_)
        bad[order] = self.guard.bad(hashes[order], stream[order], pane, oldest)
        row, more = int(np.flatnonzero(bad)[0]), int(bad.sum()) - 1
        others = f" (and {more:,} more like it)" if more else ""
        reason = self._too_often(part, row) + others
        faulty = Faults(bad, [reason], refused=lambda: self._refused(runs, bad))
        return self._without(runs, bad), faulty

    def note_reports(self, runs: Runs) -> None:
        """Let the guard remember the reports of sealed panes, which ``admit`` has let pass."""
        part = runs.part(REPORTS)
        if self.guard is not None and len(part):
            pane = np.repeat(runs.stamp, part.lengths)
            oldest = np.repeat(self._oldest(runs.stamp), part.lengths)
            self.guard.admit(part["hash"], part["stream"], pane, oldest)

    def _oldest(self, pane: Ints) -> Ints:
        """The oldest pane that some window covers together with this one."""
        oldest: Ints = self.panes.first_pane(self.panes.first_window_of(pane))
        return oldest

    def _without(self, runs: Runs, bad: Mask) -> Runs:
        part = runs.parts[REPORTS]
        kept = np.flatnonzero(~bad)
        left = np.append(0, np.cumsum(~bad))
        offsets = left[part.offsets]
        slim = part.rows(kept, offsets)
        scalars = dict(runs.scalars) | {"rows": np.diff(offsets)}
        return Runs(runs.stamp, runs.group, {REPORTS: slim}, scalars).take(np.diff(offsets) > 0)

    def _too_often(self, part: Part, row: int) -> str:
        name, moment = part["id"][row].as_py(), int(part["tie"][row])
        when = (
            f"arrival {moment}"
            if self.counting
            else f"time {shown(self._times(part['tie'][[row]]), 0)}"
        )
        single = "; raise recurrences, or make them one with repeats='max', 'latest' or 'mean'"
        return (
            f"column {self.query.id!r}: the object {name!r} has too many reports in the stream "
            f"{self.query.streams[int(part['stream'][row])]!r} at {when}: a window may have at "
            f"most recurrences={self.query.recurrences} of its reports"
            f"{single if self.query.repeats == 'sum' else ''}"
        )

    def _times(self, native: Ints) -> pa.Array:
        """Times in the type of their column; sources may differ, so that of the first."""
        source, schema = next(iter(self.schemas.items()))
        name = self.query.time_of(source or None)
        assert name is not None
        return from_native(native, schema.field(name).type)

    def _refused(self, runs: Runs, bad: Mask) -> RefusedRows:
        """The reports that were left out, in the query's columns."""
        query, part = self.query, runs.parts[REPORTS]
        rows = np.flatnonzero(bad)
        streams = [query.streams[number] for number in part["stream"][rows].tolist()]
        columns: dict[str, Any] = {
            query.id: pick(part["id"], rows),
            query.stream or "stream": pa.array(streams, pa.string()),
            query.value: pa.array(part["value"][rows]),
        }
        if not self.counting:
            # Sources may name their time columns differently; the record uses the first one's name.
            time = query.time_of(next(iter(self.schemas)) or None)
            assert time is not None
            columns[time] = self._times(part["tie"][rows])
        group = np.repeat(runs.group, part.lengths)[rows]
        return RefusedRows(
            pa.table(columns), [self._too_often(part, row) for row in rows.tolist()], group
        )

    def saved_runs(self, runs: Runs, sealed: bool = True) -> Runs:
        part, streams = super().saved_runs(runs, sealed).part(REPORTS), len(self.low)
        stream = part.columns.get("stream", np.zeros(0))
        least = -streams if isinstance(self, PaneShrinking) else 0  # a dropped report's complement
        known = (stream >= least) & (stream < streams)
        require(known.all(), "a stream that the query does not name")
        return runs

    def savepoint(self) -> Saved | None:
        """A copy of the state if ``combine`` is a user's function: it may raise during a fold."""
        if not callable(self.query.combine):
            return None
        return {name: array.copy() for name, array in self.snapshot().items()}

    # Answers ----------------------------------------------------------------------------------

    def finish(self, partials: Sequence[Runs]) -> Runs:
        runs = Runs.concat(partials)
        if len(partials) > 1:
            runs = runs.ordered()
        merged = bool(runs.repeats.any())
        if merged:
            runs = runs.united(np.maximum.reduceat)  # of the bounds
        part = self._settled(runs.parts["rows"], merged)
        known = {name: pa.array(part[name], from_pandas=True) for name in self.parts}
        return runs.with_parts(rows=Part(part.offsets, {**part.columns, **known}))

    def _settled(self, part: Part, merged: bool) -> Part:
        """Rows in the total order (score, then the smaller id), at most k per run."""
        if not len(part):
            return part
        doubtful = np.arange(len(part.lengths))
        if not merged:  # only ties may not be in order yet
            score, run = part["score"], np.repeat(doubtful, part.lengths)
            doubtful = np.unique(run[1:][(score[1:] == score[:-1]) & (run[1:] == run[:-1])])
        return part.resorted(doubtful, self._order).first_rows(self.query.k)

    def _order(self, part: Part, run: Ints) -> Array:
        return np.lexsort((id_ranks(part[self.query.id]), -part["score"], run))


def _floats(column: pa.Array) -> Floats:
    values: Floats = to_numpy(column).astype(np.float64, copy=False)
    return values


# Reports that no answer can show travel without their value --------------------------------------
#
#     pane 10:04, k = 1, sum of two streams within [0, 1]
#
#     object   r1    r2    at least   at most
#     a        0.9   0.8   1.7                    ─► one object has 1.7 in every window
#     b        0.6   –                1.6         ─► b cannot be shown: its value becomes 0
#     c        –     0.8              1.8         ─► c may, if r1 reports 0.9 or more elsewhere
#
# The reports themselves stay, because one too many of them is a bad row.
#
# **Lemma.** Let every object have at most one live report per stream, and let T be the k-th best of
# the least scores that the reports of one pane and partition guarantee. Reports of that pane and
# partition whose object can score less than T at most may have any smaller value: no answer
# changes.
# *Proof.* Take a window, and the greatest T of the panes and partitions in it. Its k objects score
# at
# least T in that window. A report is changed only if its object scores less than some T' <= T. So
# no
# object that scores T or more is changed, and k such objects are there; the others rank after them,
# before and after the change. ∎
#
# A report that is refused as a bad row later might be one of those that guarantee T. So this holds
# only where the first bad row ends the query.


_LONG = 2_048
"""Runs with fewer reports are left as they are: there is little to gain."""
_SHARE = 20
"""Objects are sought among this part of the reports of a stream, those with the best values."""
_STEPS = 30
_ROUNDING = 1e-9


def lean_values(part: Part, low: Floats, high: Floats, score: Scorer, k: int) -> Floats | None:
    """The values of reports, those that no answer needs at their lower bound; None if none is."""
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None
    value: Floats | None = None
    for run in np.flatnonzero(part.lengths >= _LONG).tolist():
        own = slice(int(part.offsets[run]), int(part.offsets[run + 1]))
        stream, values = part["stream"][own], part["value"][own]
        sure = _guaranteed(part["hash"][own], stream, values, low, score, k)
        if sure is None:
            continue
        cut = _needed(sure, low, high, score)
        idle = values < cut[stream]
        if idle.any():
            value = part["value"].copy() if value is None else value
            value[own][idle] = low[stream[idle]]
    return value


def _guaranteed(
    hashes: Hashes, stream: Codes, value: Floats, low: Floats, score: Scorer, k: int
) -> float | None:
    """The k-th best of the least scores that some reports guarantee; None if there are fewer."""
    found = []
    for number in range(len(low)):
        rows = np.flatnonzero(stream == number)
        most = max(8 * k, len(rows) // _SHARE)
        if len(rows) > most:
            rows = rows[np.argpartition(value[rows], -most)[-most:]]
        found.append(rows)
    best = np.concatenate(found)
    objects, place = np.unique(hashes[best], return_inverse=True)
    if len(objects) < k:
        return None
    seen = np.tile(low, (len(objects), 1))
    seen[place, stream[best]] = value[best]
    sure = float(np.partition(score(seen), -k)[-k])
    return sure - _ROUNDING * abs(sure)


def _needed(sure: float, low: Floats, high: Floats, score: Scorer) -> Floats:
    """By stream, a value below which an object scores less than ``sure`` whatever else it has."""
    most = np.tile(high, (len(low), 1))
    own = np.diag_indices(len(low))
    most[own] = low
    never = score(most) >= sure
    below, above = low.copy(), high.copy()
    for _ in range(_STEPS):
        middle = (below + above) / 2
        most[own] = middle
        less = score(most) < sure
        below, above = np.where(less, middle, below), np.where(less, above, middle)
    return np.where(never, -np.inf, below)
