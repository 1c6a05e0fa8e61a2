"""ISJ and LSJ as the paper has them: a plain sort-filter, and one corner for all rows of a side.

Ours differ in two points, which do much of what sharing could save. Our sort-filter first drops
what the best row dominates. And a row is pruned by the best corner of the partners that it has,
the rows of its own key; the paper's text names no key, so that its corner is that of all rows.
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Ints, Mask
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import kernel
from skyband.kernels.skyline.dominance import BETTER, WORSE, dominates, relation, sort_keys
from skyband.kernels.skyline.isj import (
    JOINED,
    LAYERS,
    LEFT,
    PRUNED,
    RIGHT,
    Index,
    Results,
    Side,
    _by_cell,
    _flags,
    _join,
    _take_results,
    _thinned,
    _without,
)
from skyband.skyline.isj import Isj
from skyband.skyline.lsj import Lsj

__all__ = ["PaperIsj", "PaperLsj"]


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
    own: Side, rest: Index, other: Side, other_rest: Index, results: Results, is_left: bool,
    gone: Mask, counts: Ints,
) -> None:  # fmt: skip
    """Mark the rows that a result dominates even if joined with the best corner of all others."""
    split = own.points.shape[1] if is_left else other.points.shape[1]
    width = own.points.shape[1] + other.points.shape[1]
    whole = np.empty((1, width), np.int64)
    place = split if is_left else 0
    for k in range(other.points.shape[1]):
        for n in range(len(other_rest.rows)):
            x = other.points[other_rest.rows[n], k]
            if n == 0 or x > whole[0, place + k]:
                whole[0, place + k] = x
    place = 0 if is_left else split
    for row in rest.rows:
        gone[row] = len(other_rest.rows) == 0
        for k in range(own.points.shape[1]):
            whole[0, place + k] = own.points[row, k]
        for g in range(results.size):
            if gone[row]:
                break
            counts[0] += 1
            gone[row] = dominates(results.points, g, whole, 0)


@kernel
def paper_layer(
    left: Side, left_active: Ints, left_sky: Ints, right: Side, right_active: Ints, right_sky: Ints,
    results: Results, counts: Ints,
) -> tuple[Ints, Ints, Results]:  # fmt: skip
    """``join_layer`` with one corner for all rows; streams without "diff" columns only."""
    counts[LAYERS] += 1
    left_gone, right_gone = _flags(len(left.cell), left_sky), _flags(len(right.cell), right_sky)
    lefts = _by_cell(left.cell, left_active, len(left.cells))
    rights = _by_cell(right.cell, right_active, len(right.cells))
    pairs = np.empty((64, 2), np.int64)
    pairs, middle = _join(left, left_sky, right, rights, pairs, 0)
    lefts = _thinned(lefts, left_gone)
    pairs, total = _join(right, right_sky, left, lefts, pairs, middle)
    for n in range(middle, total):
        pairs[n, LEFT], pairs[n, RIGHT] = pairs[n, RIGHT], pairs[n, LEFT]
    counts[JOINED] += total
    results = _take_results(left, right, pairs, middle, total, results, counts)
    rights = _thinned(rights, right_gone)
    before = len(lefts.rows) + len(rights.rows)
    _outside(left, lefts, right, rights, results, True, left_gone, counts)
    lefts = _thinned(lefts, left_gone)
    _outside(right, rights, left, lefts, results, False, right_gone, counts)
    left_rest, right_rest = _without(left_active, left_gone), _without(right_active, right_gone)
    counts[PRUNED] += before - len(left_rest) - len(right_rest)
    return left_rest, right_rest, results


class PaperIsj(Isj):
    """``isj`` with a plain sort-filter and one corner for all rows of a side."""

    join_layer = staticmethod(paper_layer)

    def local(self, layer: int, at: int, active: Ints, first: int) -> Ints:
        return active[plain_skyline(self.live[at].points[active], self.local_counts)]


class PaperLsj(Lsj):
    """``lsj`` on top of that: what it does not share, it sorts and filters plainly."""

    join_layer = staticmethod(paper_layer)

    def recomputed(self, layer: int, at: int, active: Ints, first: int) -> Ints:
        return active[plain_skyline(self.live[at].points[active], self.local_counts)]
