"""What an answer promises, as columns beside its rows: ``rank(..., bounds=True)``.

    window_end  g  rank  item  count  error   exact   bounds
    10:00       a  1     x        94      2   false   {}
    10:00       b  1     y        31      0   true    {}

They speak of the row's window and group, so that no row has to wait for other groups. The embedded
engine has one ``Answer`` per window: it is exact where all groups are, and its bounds are the
greatest of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.answer import Answers, Promises
from skyband.keys import hash_columns

__all__ = ["PROMISE", "of_changes", "of_rows"]

PROMISE = pa.schema([("exact", pa.bool_()), ("bounds", pa.map_(pa.string(), pa.float64()))])
"""The same for every query and algorithm; an exact one has no bounds."""

Ints = npt.NDArray[np.int64]


def of_rows(answers: Answers) -> list[pa.Array]:
    """The columns of ``PROMISE`` for the rows of the answers' table."""
    told = answers.promises
    if told is None:
        return _columns(np.zeros(0, np.bool_), {})
    run = np.repeat(np.arange(len(told.lengths)), told.lengths)
    return _columns(told.exact[run], _each(told, run))


def of_changes(answers: Answers, at: int, found: pa.Table, groups: tuple[str, ...]) -> list[Any]:
    """The columns of ``PROMISE`` for what changed in the answer number ``at``.

    A group that has no rows left has an exact answer, the empty one.
    """
    told = answers.promises
    low, high = answers.offsets[at : at + 2]
    if told is None or low == high:
        return _columns(np.ones(found.num_rows, np.bool_), {})
    starts = np.cumsum(told.lengths) - told.lengths
    mine = np.flatnonzero((starts >= low) & (starts < high) & (told.lengths > 0))
    if not groups:
        run = np.full(found.num_rows, mine[0])
        return _columns(told.exact[run], _each(told, run))
    known = hash_columns(answers.table.select(groups).take(pa.array(starts[mine])).columns)
    asked = hash_columns(found.select(groups).columns)
    order = np.argsort(known)
    place = np.minimum(np.searchsorted(known[order], asked), len(mine) - 1)
    run = mine[order[place]]
    there = known[order[place]] == asked
    return _columns(told.exact[run] | ~there, _each(told, run), there)


def _each(told: Promises, run: Ints) -> dict[str, npt.NDArray[np.float64]]:
    """The bounds of some runs."""
    return {
        name: np.asarray(value[run] if isinstance(value, np.ndarray) else np.full(len(run), value))
        for name, value in sorted(told.bounds.items())
    }


def _columns(
    exact: npt.NDArray[np.bool_],
    bounds: Mapping[str, npt.NDArray[Any]],
    there: npt.NDArray[np.bool_] | None = None,
) -> list[pa.Array]:
    """``there`` says which rows have bounds at all."""
    rows = np.ones(len(exact), np.bool_) if there is None else there
    offsets = np.append(0, np.cumsum(rows * len(bounds))).astype(np.int32)
    names = pa.array(list(bounds) * int(rows.sum()), pa.string())
    values = np.array([values[rows] for values in bounds.values()], np.float64).T.ravel()
    shown = pa.MapArray.from_arrays(pa.array(offsets), names, pa.array(values, pa.float64()))
    return [pa.array(exact), shown]
