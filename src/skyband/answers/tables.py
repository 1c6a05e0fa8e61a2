"""Answers as tables: finished runs plus the window, the group and the rank of each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.answers.answer import Answers, LazyTable, Promises
from skyband.arrays import Codes, Ints
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, places
from skyband.contract.synopsis import Synopsis
from skyband.data.columns import empty_table, to_arrow, to_numpy
from skyband.data.group_table import GroupTable
from skyband.data.packing import under
from skyband.data.time_axis import edge_type, window_column
from skyband.errors import SchemaError
from skyband.query.base import REVISION, Query

# Tables that are built when they are first read --------------------------------------------------


TOTAL = "total"
"""The column of ``rank(..., total=True)``."""
_FIRST, _SECOND = np.zeros(1, np.int64), np.ones(1, np.int64)
_FLAGS = np.zeros(1, np.bool_), np.ones(1, np.bool_)


@dataclass(frozen=True)
class Shape:
    """What determines the columns of an answer: the query, its synopsis and its groups."""

    query: Query
    synopsis: Synopsis[Any]
    groups: GroupTable
    total: bool = False
    """Whether answers show the total of their window and group."""

    @cached_property
    def schema(self) -> pa.Schema:
        """``answer_schema``, once the columns of the only source are known."""
        return _schema(self)


def answer_schema(shape: Shape) -> pa.Schema:
    """Columns of an answer: the window, the group, the rank, then those that the query shows."""
    return _schema(shape) if shape.query.sources else shape.schema


def _schema(shape: Shape) -> pa.Schema:
    query, groups, synopsis = shape.query, shape.groups, shape.synopsis
    axes = synopsis.axes
    first = [axes[source] for source in (*query.sources, "") if source in axes]
    edge = edge_type(query.window, first)
    by = [pa.field(name, store.type) for name, store in groups.keys.stores.items()]
    rank = [pa.field("rank", pa.int32())] if query.ranked else []
    shown = [f for f in synopsis.output() if f.name not in groups.names]
    kinds = {"window_start": edge, "window_end": edge, REVISION: pa.int32()}
    window = [pa.field(name, kinds[name]) for name in query.window_columns]
    total = []
    if shape.total:
        decays = query.window.sort == "decay"
        total = [pa.field(TOTAL, pa.float64() if decays else synopsis.total_type)]
        if TOTAL in [field.name for field in (*by, *shown)]:
            raise SchemaError(
                f"total=True adds a column named {TOTAL!r}, but the answer already has one; rename "
                "that column of the input"
            )
    return pa.schema([*window, *by, *rank, *shown, *total])


def answers_of(
    shape: Shape,
    finished: Runs | None,
    windows: Windows,
    edges: tuple[Ints, Ints],
    totals: npt.NDArray[Any],
    before: Mapping[int, pa.Table | LazyTable],
    later: bool = False,
    shares: Runs | None = None,
    revisions: Ints | None = None,
) -> Answers:
    """The answers of windows, from finished runs in the order of the windows.

    With ``later``, the table is built when it is read. ``shares`` are the totals that it shows.
    ``revisions`` are those of the windows, if they may be corrected; none means that all are 0.
    """
    first, last = _runs_of(finished, windows)
    starts, ends = edges
    query, synopsis, schema = shape.query, shape.synopsis, answer_schema(shape)
    bounds: dict[str, Any] = dict(synopsis.bounds)
    if REVISION in query.window_columns:
        revisions = np.zeros(len(windows), np.int64) if revisions is None else revisions
    made: pa.Table | LazyTable
    if finished is None:
        made, offsets = empty_table(schema), np.zeros(len(ends) + 1, np.int64)
        exact = np.full(len(ends), synopsis.exact)
        promises = Promises(offsets[:0], exact[:0], bounds, synopsis.exact)
    else:
        rows = finished.parts["rows"]
        one = first is _FIRST and len(rows.offsets) == 2
        offsets = rows.offsets if one else np.append(rows.offsets[first], len(rows))
        # A group that expires now may give its code to another, so it is looked up at once.
        build = partial(_table, shape, finished, schema, edges, offsets, shares, revisions)
        made = build() if shape.groups.names or not later else LazyTable(schema, build)
        proofs = finished.scalars.get("exact")
        exact = _every(proofs, first, last, synopsis.exact)
        proven = _all(len(finished), synopsis.exact) if proofs is None else proofs.astype(np.bool_)
        own = under(finished.scalars, "bound:")
        empty = proofs is not None or synopsis.exact
        promises = Promises(rows.lengths, proven, bounds | own, empty, dict(bounds))
        bounds |= {
            name: _greatest(values, first, last, bounds.get(name)) for name, values in own.items()
        }
    rows_of = (query, made, starts, ends, offsets)
    return Answers(
        *rows_of, exact, bounds, totals, windows.group, before, promises, revision=revisions
    )


def _table(
    shape: Shape,
    finished: Runs,
    schema: pa.Schema,
    edges: tuple[Ints, Ints],
    offsets: Ints,
    shares: Runs | None,
    revisions: Ints | None,
) -> pa.Table:
    query, groups = shape.query, shape.groups
    counts, kind = np.diff(offsets), schema.field("window_end").type
    columns = [window_column(np.repeat(edge, counts), kind) for edge in edges]
    if revisions is not None:
        columns.append(to_arrow(np.repeat(revisions, counts).astype(np.int32)))
    rows = finished.parts["rows"]
    if groups.names:
        columns += groups.gather(np.repeat(finished.group, rows.lengths))
    if query.ranked:
        columns.append(to_arrow(_ranks(query, rows)))
    shown = schema.names[len(columns) : -1 if shape.total else None]
    columns += [rows[name] for name in shown]
    if shape.total:
        assert shares is not None
        totals = to_arrow(np.repeat(_totals(finished, shares), rows.lengths))
        columns.append(totals.cast(schema.field(TOTAL).type))
    return pa.Table.from_arrays(columns, schema=schema)


def _totals(finished: Runs, shares: Runs) -> npt.NDArray[Any]:
    """The total of each run; there may be several of a window and group, of different shards."""
    numbers = np.unique(shares.stamp)
    scale = int(max(shares.group.max(initial=0), finished.group.max(initial=0))) + 1
    known, wanted = (
        np.searchsorted(numbers, runs.stamp) * scale + runs.group for runs in (shares, finished)
    )
    keys, place = np.unique(known, return_inverse=True)
    sums = np.zeros(len(keys), shares.scalars["total"].dtype)
    np.add.at(sums, place, shares.scalars["total"])
    return sums[np.searchsorted(keys, wanted)]


def _ranks(query: Query, rows: Part) -> Codes:
    """The rank of each row: its place or, where ties share a rank, that of the first equal row."""
    ranks = places(rows.offsets)
    if query.tied_by is None or len(ranks) < 2:
        return ranks
    values = to_numpy(rows[query.tied_by])
    first = np.ones(len(ranks), np.bool_)
    first[1:] = (values[1:] != values[:-1]) | (ranks[1:] == 1)
    return ranks[np.maximum.accumulate(np.where(first, np.arange(len(ranks)), 0))]


def _runs_of(finished: Runs | None, windows: Windows) -> tuple[Ints, Ints]:
    """The stretch of finished runs that belongs to each window, as first and end positions."""
    if finished is None:
        none = np.zeros(len(windows), np.int64)
        return none, none
    runs, numbers = finished.stamp, windows.number
    if len(runs) == len(numbers) == 1 and windows.group is None and runs[0] == numbers[0]:
        return _FIRST, _SECOND
    if windows.group is not None:
        scale = len(windows.ranks) + 1
        runs = runs * scale + windows.ranks[finished.group]
        numbers = numbers * scale + windows.ranks[windows.group]
    if len(runs) == len(numbers) and (runs == numbers).all():
        first = np.arange(len(runs))
        return first, first + 1
    return np.searchsorted(runs, numbers), np.searchsorted(runs, numbers, side="right")


def _every(
    values: npt.NDArray[Any] | None, first: Ints, last: Ints, default: bool
) -> npt.NDArray[np.bool_]:
    if values is None:
        return _all(len(first), default)
    wrong = np.append(0, np.cumsum(~values.astype(np.bool_)))
    return np.asarray(wrong[last] == wrong[first])


def _all(length: int, flag: bool) -> npt.NDArray[np.bool_]:
    return _FLAGS[flag] if length == 1 else np.full(length, flag)


def _greatest(values: npt.NDArray[Any], first: Ints, last: Ints, nothing: Any) -> npt.NDArray[Any]:
    """The greatest bound of each window's groups; ``nothing`` for a window without rows."""
    if nothing is None:
        nothing = -np.inf if values.dtype.kind == "f" else 0  # it missed nothing
    found = np.full(len(first), nothing, values.dtype)
    some = last > first
    if some.any():
        padded = np.append(values, values[:1])
        pairs = np.stack([first[some], last[some]], axis=1).ravel()
        found[some] = np.maximum.reduceat(padded, pairs)[::2]
    return found


def last_revisions(table: pa.Table) -> pa.Table:
    """The rows of each window in its last revision."""
    last = table.group_by("window_end").aggregate([(REVISION, "max")])
    ends, revisions = (last[name].to_pylist() for name in ("window_end", f"{REVISION}_max"))
    newest = dict(zip(ends, revisions, strict=True))
    pairs = zip(table["window_end"].to_pylist(), table[REVISION].to_pylist(), strict=True)
    return table.filter(pa.array([newest[end] == revision for end, revision in pairs], pa.bool_()))
