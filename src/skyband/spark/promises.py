"""The guarantees of an answer, as extra columns of its rows: ``rank(..., bounds=True)``.

    window_end  g  rank  item  count  error   exact   bounds
    10:00       a  1     x        94      2   false   {}
    10:00       b  1     y        31      0   true    {}

They apply to the row's window and group, so that no row has to wait for other groups. The embedded
engine has one ``Answer`` per window: it is exact if every group is, and each of its bounds is the
greatest over the groups.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from skyband.answers.answer import Answers, Promises
from skyband.arrays import Ints
from skyband.data.keys import hash_columns

__all__ = ["PROMISE", "of_changes", "of_rows"]

PROMISE = pa.schema([("exact", pa.bool_()), ("bounds", pa.map_(pa.string(), pa.float64()))])
"""The same columns for every query and algorithm; most exact algorithms leave ``bounds`` empty."""


def of_rows(answers: Answers) -> list[pa.Array]:
    """The columns of ``PROMISE`` for the rows of the answers' table."""
    told = answers.promises
    return _columns(told, np.repeat(np.arange(len(told.lengths)), told.lengths))


def of_changes(
    answers: Answers, at: int, found: pa.Table, groups: tuple[str, ...]
) -> list[pa.Array]:
    """The columns of ``PROMISE`` for the changes of the answer at position ``at``."""
    told = answers.promises
    low, high = answers.offsets[at : at + 2]
    starts = np.cumsum(told.lengths) - told.lengths
    mine = np.flatnonzero((starts >= low) & (starts < high) & (told.lengths > 0))
    run = np.full(found.num_rows, -1)
    if len(mine) and not groups:
        run[:] = mine[0]
    elif len(mine):
        known = hash_columns(answers.table.select(groups).take(pa.array(starts[mine])).columns)
        asked = hash_columns(found.select(groups).columns)
        order = np.argsort(known)
        place = np.minimum(np.searchsorted(known[order], asked), len(mine) - 1)
        there = known[order[place]] == asked
        run[there] = mine[order[place[there]]]
    return _columns(told, run)


def _columns(told: Promises, run: Ints) -> list[pa.Array]:
    """The guarantees of these runs; -1 stands for a group without rows, which misses nothing."""
    exact = np.append(told.exact, told.empty)[run]
    bounds = {
        name: np.append(value, told.nothing.get(name, -np.inf))[run]
        if isinstance(value, np.ndarray)
        else value
        for name, value in sorted(told.bounds.items())
    }
    values = np.empty((len(run), len(bounds)))
    for place, value in enumerate(bounds.values()):
        values[:, place] = value
    names = pa.array(list(bounds) * len(run), pa.string())
    offsets = pa.array(np.arange(len(run) + 1, dtype=np.int32) * len(bounds), pa.int32())
    return [pa.array(exact), pa.MapArray.from_arrays(offsets, names, pa.array(values.ravel()))]
