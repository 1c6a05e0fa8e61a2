"""The difference between one answer and the one before it.

    before   1 a   2 b   3 c            change  id  from  to
    now      1 b   2 a   3 d            move    b    2    1
                                        move    a    1    2
                                        enter   d    -    3
                                        leave   c    3    -

Rows are identified by the id or item; without one, by the whole row except its ``keep`` columns.
Repeated keys are numbered in rank order. Skylines have no ranks: their rows only enter and leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.columns import to_numpy
from skyband.data.keys import hash_columns
from skyband.data.order import order_by_value
from skyband.query.base import Query
from skyband.query.checks import one_of

ALERTS = ("enter", "leave")
"""The kinds of changes that ``watch(only="changes")`` gives."""
Kinds = tuple[str, ...]
_OCCURRENCE_STEP = np.uint64(0x9E37_79B9_7F4A_7C15)


def asked_changes(name: str, wanted: bool | str | Sequence[str]) -> bool | Kinds:
    """Check which changes are asked for: all (True), none, or some kinds with their rows."""
    return wanted if isinstance(wanted, bool) else kinds_of(name, wanted)


def kinds_of(name: str, wanted: str | Sequence[str]) -> Kinds:
    """Check which kinds of changes are asked for; one may stand alone."""
    kinds = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    for kind in kinds:
        one_of(name, kind, (*ALERTS, "move"))
    return kinds


def changes_schema(query: Query, answer: pa.Schema, rows: bool = False) -> pa.Schema:
    """Columns of the changelog of a query; with ``rows``, followed by the rest of each row."""
    ranks = [pa.field("from_rank", pa.int32()), pa.field("to_rank", pa.int32())]
    by = [answer.field(name) for name in query.groups]
    keys = [answer.field(name) for name in _key(query, answer)]
    more = [answer.field(name) for name in _rest(query, answer)] if rows else []
    return pa.schema([*by, pa.field("change", pa.string()), *keys, *ranks, *more])


def changes(
    before: pa.Table | None, now: pa.Table, query: Query, only: Kinds | None = None
) -> pa.Table:
    """What entered, left or moved between two answers of a query.

    ``only`` asks for changes of some kinds, each with the rest of its row; a row that left is shown
    as it was in the answer before.
    """
    schema = changes_schema(query, now.schema, rows=only is not None)
    if before is None or before.column_names != now.column_names:
        # Columns change only if one side of a join starts late; no answer had rows before that.
        before = now.slice(0, 0)
    names = [*query.groups, *_key(query, now.schema)]
    old, new = _identities(before, names), _identities(now, names)
    _, at_old, at_new = np.intersect1d(old, new, assume_unique=True, return_indices=True)
    entered = np.ones(len(new), np.bool_)
    entered[at_new] = False
    left = np.ones(len(old), np.bool_)
    left[at_old] = False
    from_rank = np.zeros(len(new), np.int32)
    old_rank, new_rank = _ranks(before, query), _ranks(now, query)
    from_rank[at_new] = old_rank[at_old]
    shown = np.flatnonzero(entered | (from_rank != new_rank) if query.ranked else entered)
    gone = np.flatnonzero(left)

    more = [] if only is None else _rest(query, now.schema)
    now, before = now.select([*names, *more]), before.select([*names, *more])
    rows = pa.concat_tables([now.take(pa.array(shown)), before.take(pa.array(gone))])
    none = np.ones(len(shown), np.bool_), np.ones(len(gone), np.bool_)
    hidden_from = np.concatenate([entered[shown] if query.ranked else none[0], ~none[1]])
    hidden_to = np.concatenate([~none[0], none[1]])
    if not query.ranked:
        hidden_from[:], hidden_to[:] = True, True
    kind = np.concatenate([np.where(entered[shown], "enter", "move"), np.full(len(gone), "leave")])
    ranks_from = np.concatenate([from_rank[shown], old_rank[gone]])
    ranks_to = np.concatenate([new_rank[shown], np.zeros(len(gone), np.int32)])
    table = pa.table(
        [
            *(rows[name] for name in query.groups),
            pa.array(kind.tolist(), pa.string()),
            *(rows[name] for name in names[len(query.groups) :]),
            pa.array(ranks_from, mask=hidden_from),
            pa.array(ranks_to, mask=hidden_to),
            *(rows[name] for name in more),
        ],
        schema=schema,
    )
    table = _by_group(table, query, len(shown))
    return table if only is None else table.filter(pc.is_in(table["change"], pa.array(only)))


def _by_group(table: pa.Table, query: Query, shown: int) -> pa.Table:
    if not query.groups or table.num_rows < 2:
        return table
    gone = np.arange(table.num_rows) >= shown
    place = np.arange(table.num_rows)
    columns = [table[name].combine_chunks() for name in query.groups]
    order = order_by_value([*columns, pa.array(gone.view(np.uint8)), pa.array(place)])
    return table.take(pa.array(order))


def _key(query: Query, answer: pa.Schema) -> tuple[str, ...]:
    by = set(query.groups)
    # Columns computed for the answer change all the time, so they cannot identify a row.
    hidden = {*query.reserved, *query.kept, *by}
    whole = tuple(n for n in answer.names if n not in hidden)
    return tuple(n for n in query.key if n not in by) or whole


def _rest(query: Query, answer: pa.Schema) -> list[str]:
    """The answer columns that a change does not show anyway."""
    shown = {*query.window_columns, "rank", *query.groups, *_key(query, answer)}
    return [name for name in answer.names if name not in shown]


def _ranks(table: pa.Table, query: Query) -> npt.NDArray[np.int32]:
    if not query.ranked:
        return np.zeros(table.num_rows, np.int32)
    return to_numpy(table["rank"])


def _identities(table: pa.Table, names: list[str]) -> npt.NDArray[Any]:
    """One number per row: the hash of its key, made distinct for repeats of a key."""
    if table.num_rows == 0:
        return np.zeros(0, np.uint64)
    hashes = hash_columns([table[name] for name in names])
    order = np.argsort(hashes, kind="stable")
    ranked = hashes[order]
    first = np.ones(len(ranked), np.bool_)
    first[1:] = ranked[1:] != ranked[:-1]
    place = np.arange(len(ranked))
    repeat = place - np.maximum.accumulate(np.where(first, place, 0))
    identities = hashes.copy()
    identities[order] = ranked + repeat.astype(np.uint64) * _OCCURRENCE_STEP
    return identities
