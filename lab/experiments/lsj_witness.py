"""ISJ that shares its pruning: a pruned row keeps its witness from window to window.

A result that dominates a row joined with the best corner of all its partners is the row's witness.
As long as both rows of the witness are live and the corner does not rise, every pair of the row is
dominated by a live pair, so that the row need not be looked at. This form is exact; the report says
what it gives.
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Ints, Mask
from skyband.kernels.arrange import with_room
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel
from skyband.query.skyline import SkylineJoin
from skyband.skyline.kernels.dominance import dominates
from skyband.skyline.kernels.isj import (
    LEFT,
    PRUNED,
    RIGHT,
    CellSide,
    Fabric,
    Index,
    Results,
    Sharing,
    SideStart,
    by_cell,
    corners,
    join_layer,
    recomputed,
    remaining,
    thinned,
)
from skyband.skyline.lsj import NO_FABRIC, LayeredJoin

__all__ = ["WitnessIsj"]


@jit
def _risen(corner: Ints, rest: Index, bound: Ints, known: Mask) -> Mask:
    """The cells whose corner is above the bound of the last windows; raises these bounds."""
    risen = np.zeros(len(corner), np.bool_)
    for c in rest.used:
        for k in range(corner.shape[1]):
            if not known[c] or corner[c, k] > bound[c, k]:
                risen[c] = True
        if risen[c]:
            known[c] = True
            for k in range(corner.shape[1]):
                bound[c, k] = corner[c, k]
    return risen


@jit
def _settled(
    side: CellSide, others: Index, risen: Mask, witness: Ints, one: int, two: int, gone: Mask
) -> None:
    """Mark the rows without partners, and those whose witness is still good; drop the others."""
    for row in range(len(side.cell)):
        c = side.cell[row]
        good = witness[row, LEFT] >= one and witness[row, RIGHT] >= two and not risen[c]
        if not good:
            witness[row, LEFT] = -1
        gone[row] = good or others.start[c] == others.end[c]


@jit
def _find_witnesses(
    side: CellSide, rest: Index, bound: Ints, results: Results, is_left: bool, expired: Ints,
    witness: Ints, counts: Ints,
) -> None:  # fmt: skip
    """Look for a witness of every row of an index."""
    width = results.points.shape[1]
    whole = np.empty((1, width), np.int64)
    own = 0 if is_left else width - side.points.shape[1]
    other = side.points.shape[1] if is_left else 0
    near = np.empty(results.size, np.int64)
    for c in rest.used:
        found = 0
        for g in range(results.size):
            counts[0] += 1
            good = True
            for k in range(bound.shape[1]):
                good = good and results.points[g, other + k] >= bound[c, k]
            if good:
                near[found] = g
                found += 1
        for k in range(bound.shape[1]):
            whole[0, other + k] = bound[c, k]
        for n in range(rest.start[c], rest.end[c]):
            row = rest.rows[n]
            for k in range(side.points.shape[1]):
                whole[0, own + k] = side.points[row, k]
            for i in range(found):
                counts[0] += 1
                if dominates(results.points, near[i], whole, 0):
                    witness[row, LEFT] = results.pairs[near[i], LEFT] + expired[LEFT]
                    witness[row, RIGHT] = results.pairs[near[i], RIGHT] + expired[RIGHT]
                    break


@kernel
def witness_window(
    left: CellSide, right: CellSide, starts: tuple[SideStart, SideStart], witness: tuple[Ints,
    Ints], bound: tuple[Ints, Ints], known: tuple[Mask, Mask], counts: Ints, local_counts: Ints,
) -> tuple[Ints, Ints, int]:  # fmt: skip
    """``join_window`` without the rows that have a witness; streams without "diff" columns only.

    Returns the pairs, the sizes of the layers, and how many rows were settled before the first.
    """
    expired = np.array([starts[0].expired, starts[1].expired])
    left_active, right_active = np.arange(len(left.cell)), np.arange(len(right.cell))
    lefts, rights = by_cell(left, left_active), by_cell(right, right_active)
    left_risen = _risen(corners(left, lefts), lefts, bound[0], known[0])
    right_risen = _risen(corners(right, rights), rights, bound[1], known[1])
    left_gone = np.zeros(len(left.cell), np.bool_)
    right_gone = np.zeros(len(right.cell), np.bool_)
    _settled(left, rights, right_risen, witness[0], expired[0], expired[1], left_gone)
    _settled(right, lefts, left_risen, witness[1], expired[0], expired[1], right_gone)
    lefts, rights = thinned(lefts, left_gone), thinned(rights, right_gone)
    left_active = remaining(left_active, left_gone)
    right_active = remaining(right_active, right_gone)
    settled = len(left.cell) + len(right.cell) - len(left_active) - len(right_active)
    left_first, right_first = by_cell(left, left_active), by_cell(right, right_active)
    width = left.points.shape[1] + right.points.shape[1]
    results = Results(np.zeros((64, 3), np.int64), np.zeros((64, width), np.int64), 0)
    sizes = np.zeros((16, 2), np.int64)
    layer = 0
    while len(left_active) and len(right_active):
        sizes = with_room(sizes, layer, layer + 1)
        sizes[layer, LEFT], sizes[layer, RIGHT] = len(left_active), len(right_active)
        layer += 1
        left_sky = recomputed(left, left_active, local_counts)
        right_sky = recomputed(right, right_active, local_counts)
        lefts, rights, results = join_layer(
            left, lefts, left_sky, left_gone, right, rights, right_sky, right_gone, results, counts
        )
        before = len(left_active) + len(right_active) - len(left_sky) - len(right_sky)
        left_active = remaining(left_active, left_gone)
        right_active = remaining(right_active, right_gone)
        counts[PRUNED] += before - len(left_active) - len(right_active)
    _find_witnesses(left, left_first, bound[1], results, True, expired, witness[0], counts)
    _find_witnesses(right, right_first, bound[0], results, False, expired, witness[1], counts)
    return results.pairs[: results.size], sizes[:layer], settled


class WitnessIsj(LayeredJoin):
    """``isj`` that shares its pruning; for windows that are read in order, both of one size."""

    def __init__(self, query: SkylineJoin) -> None:
        super().__init__(query)
        self.settled = 0
        """Rows of the last window that had a witness, or no partner."""
        self.witness: list[Ints] = [np.zeros((0, 2), np.int64)] * 2
        self.base = [0, 0]
        self.bound: list[Ints] = [np.zeros((0, 0), np.int64)] * 2
        self.known: list[Mask] = [np.zeros(0, np.bool_)] * 2

    def iterated(
        self, firsts: tuple[int, int], fabric: Fabric, sharing: Sharing, shares: Ints
    ) -> tuple[tuple[Ints, Ints], Fabric]:
        (left, one), (right, two) = (self._side(at, firsts[at]) for at in (0, 1))
        for at, (side, start) in enumerate(((left, one), (right, two))):
            old = self.witness[at][start.expired - self.base[at] :]
            fresh = np.full((len(side.cell) - len(old), 2), -1, np.int64)
            self.witness[at], self.base[at] = np.concatenate([old, fresh]), start.expired
            keys, width = len(side.cells), side.points.shape[1]
            bound, known = np.zeros((keys, width), np.int64), np.zeros(keys, np.bool_)
            have = len(self.known[at])
            if have:
                bound[:have], known[:have] = self.bound[at], self.known[at]
            self.bound[at], self.known[at] = bound, known
        pairs, sizes, self.settled = witness_window(
            left, right, (one, two), (self.witness[0], self.witness[1]),
            (self.bound[0], self.bound[1]), (self.known[0], self.known[1]), self.counts,
            self.local_counts,
        )  # fmt: skip
        self.layers = [(a, b) for a, b in sizes.tolist()]
        return (pairs[:, LEFT].copy(), pairs[:, RIGHT].copy()), NO_FABRIC
