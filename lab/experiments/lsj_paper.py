"""ISJ and LSJ as the paper has them: a plain sort-filter; and a second reading of their pruning.

The paper computes local skylines by Sort-Filter-Skyline. Our sort-filter first drops what the best
row dominates, which does much of what sharing could save. By which partners a row is pruned the
paper does not say. Its likeliest reading, and *the paper's form* here, is those that the row has,
the rows of its own key. The other reading takes one best corner for all rows of a side.
"""

from __future__ import annotations

import numpy as np

from lab.experiments.lsj_stepwise import StepwiseJoin, left_over, opened
from skyband.arrays import Ints, Mask
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel
from skyband.skyline.kernels.dominance import BETTER, WORSE, dominates, relation, sort_keys
from skyband.skyline.kernels.isj import (
    RECOMPUTED,
    CellSide,
    Fabric,
    Index,
    Results,
    Sharing,
    SideStart,
    join_skies,
    thinned,
)

__all__ = ["OneCornerJoin", "PaperJoin"]


@kernel
def plain_skyline(points: Ints, counts: Ints) -> Ints:
    """Positions of the skyline by sorting and filtering, without looking at the best row first."""
    keys = np.empty(len(points), np.float64)
    sort_keys(points, 0, len(points), keys)
    kept = np.empty(len(points), np.int64)
    size = 0
    for candidate in np.argsort(-keys):
        dominated = False
        g = 0
        while g < size:
            counts[0] += 1
            found = relation(points, kept[g], points, candidate)
            if found == BETTER:
                dominated = True
                break
            if found == WORSE:  # only if rounding has made their keys equal
                size -= 1
                kept[g] = kept[size]
                continue
            g += 1
        if not dominated:
            kept[size] = candidate
            size += 1
    return kept[:size].copy()


@jit
def _outside(
    own: CellSide, active: Ints, other: CellSide, other_rest: Index, results: Results,
    is_left: bool, gone: Mask, counts: Ints,
) -> None:  # fmt: skip
    """Mark the rows that a result dominates even if joined with the best corner of all others."""
    split = own.points.shape[1] if is_left else other.points.shape[1]
    width = own.points.shape[1] + other.points.shape[1]
    whole = np.empty((1, width), np.int64)
    place = split if is_left else 0
    lowest = np.iinfo(np.int64).min
    for k in range(other.points.shape[1]):
        whole[0, place + k] = lowest
        for c in other_rest.used:
            for n in range(other_rest.start[c], other_rest.end[c]):
                whole[0, place + k] = max(whole[0, place + k], other.points[other_rest.rows[n], k])
    place = 0 if is_left else split
    for row in active:
        if gone[row]:
            continue
        gone[row] = len(other_rest.used) == 0
        for k in range(own.points.shape[1]):
            whole[0, place + k] = own.points[row, k]
        for g in range(results.size):
            if gone[row]:
                break
            counts[0] += 1
            gone[row] = dominates(results.points, g, whole, 0)


@kernel
def one_corner_layer(
    left: CellSide, left_active: Ints, left_sky: Ints, right: CellSide, right_active: Ints,
    right_sky: Ints, results: Results, counts: Ints,
) -> tuple[Ints, Ints, Results]:  # fmt: skip
    """``step_layer`` with one corner for all rows; streams without "diff" columns only."""
    lefts, left_gone = opened(left, left_active)
    rights, right_gone = opened(right, right_active)
    lefts, rights, results = join_skies(
        left, lefts, left_sky, left_gone, right, rights, right_sky, right_gone, results, counts
    )
    _outside(left, left_active, right, rights, results, True, left_gone, counts)
    lefts = thinned(lefts, left_gone)
    _outside(right, right_active, left, lefts, results, False, right_gone, counts)
    left_rest, right_rest = left_over(
        left_active, left_sky, left_gone, right_active, right_sky, right_gone, counts
    )
    return left_rest, right_rest, results


class PaperJoin(StepwiseJoin):
    """``isj`` and ``lsj`` that sort and filter plainly what they do not share."""

    def local(
        self, side: CellSide, start: SideStart, active: Ints, layer: int, at: int, before: Fabric,
        made: Fabric, sharing: Sharing, stop: int, counts: Ints, shares: Ints,
    ) -> tuple[Ints, Fabric, int]:  # fmt: skip
        if layer < stop:
            return super().local(
                side, start, active, layer, at, before, made, sharing, stop, counts, shares
            )
        shares[RECOMPUTED] += 1
        return active[plain_skyline(side.points[active], counts)], made, stop


class OneCornerJoin(PaperJoin):
    """``PaperJoin`` that prunes with one corner for all rows of a side."""

    join_layer = staticmethod(one_corner_layer)
