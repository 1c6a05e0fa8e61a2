"""Weights: which are bad, and sums that are too great for whole numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.arrays import Array, Mask
from skyband.contract.rows import shown
from skyband.data.columns import mask_of, to_numpy
from skyband.data.keys import hash_columns
from skyband.errors import DataError
from skyband.frequency.kernels.counting import count_runs
from skyband.kernels.borrow import frozen
from skyband.query.frequency import HeavyHitters

ONE_EACH = frozen(np.zeros(0, np.int64))
"""Stands for the weights of rows that count one each."""
MOST_WEIGHT = 2**63 - 1
"""The most that a window may weigh in whole numbers; no estimate of a sketch is greater."""


def too_heavy(
    query: HeavyHitters, counted: Sequence[tuple[Sequence[pa.Array], Array]]
) -> DataError:
    """The error for weights that are too great; ``counted`` are items and their weights."""
    said, weight = "", query.weight
    if counted:
        hashes = np.concatenate([hash_columns(items) for items, _ in counted])
        weights = np.concatenate([each.astype(np.float64) for _, each in counted])
        all_rows = np.array([0, len(hashes)])
        first, sums, _ = count_runs(frozen(hashes), False, frozen(weights), all_rows)
        ends = np.cumsum([len(each) for _, each in counted])
        place = int(np.searchsorted(ends, first[sums.argmax()], side="right"))
        row = int(first[sums.argmax()] - ends[place]) + len(counted[place][1])
        values = zip(query.key, counted[place][0], strict=True)
        said = ", ".join(f"{name}={shown(column, row)}" for name, column in values)
        said = f"; the heaviest item is {said}"
    as_float = f"{weight} * 1.0" if str(weight).isidentifier() else f"({weight}) * 1.0"
    return DataError(
        f"the weights {weight!r} of a window add up to more than {MOST_WEIGHT:,}, the "
        f"most that can be counted in whole numbers{said}. Count them as floats: "
        f"weight={as_float!r}. No row of this batch was applied"
    )


def unfit(column: pa.Array, signed: bool = False) -> Mask | None:
    """Where a weight is negative, infinite or too large for a signed 64-bit integer.

    If it may be ``signed``, negative ones are fit.
    """
    if len(column) == 0:
        return None
    kind = column.type
    if pa.types.is_floating(kind):
        values = to_numpy(column)
        with np.errstate(invalid="ignore"):
            fit = np.abs(values) < np.inf if signed else (values >= 0) & (values < np.inf)
    elif pa.types.is_uint64(kind):
        fit = to_numpy(column) <= np.uint64(np.iinfo(np.int64).max)
    elif signed or pa.types.is_unsigned_integer(kind):
        return None
    else:
        fit = to_numpy(column) >= 0
    mask = ~fit
    if not mask.any():
        return None
    if column.null_count:  # values under nulls are undefined; nulls are reported separately
        mask &= mask_of(pc.is_valid(column))
    return mask if mask.any() else None
