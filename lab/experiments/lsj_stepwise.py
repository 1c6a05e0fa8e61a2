"""ISJ and LSJ layer by layer: one call of a kernel per step, and a new index in every layer.

Ours run all layers of a window in one call. This form shows what that gives, and what part of the
time local skylines take. The paper's form is built on it.
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Ints, Mask
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel, patient
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
    join_layer,
    local_sky,
    remaining,
)
from skyband.skyline.lsj import NO_FABRIC, LayeredJoin

__all__ = ["StepwiseJoin", "left_over", "opened"]

_local = patient(local_sky)


@jit
def opened(side: CellSide, active: Ints) -> tuple[Index, Mask]:
    """What a layer starts with on one side: an index of its active rows, and none of them gone."""
    return by_cell(side, active), np.zeros(len(side.cell), np.bool_)


@jit
def left_over(
    left_active: Ints, left_sky: Ints, left_gone: Mask, right_active: Ints, right_sky: Ints,
    right_gone: Mask, counts: Ints,
) -> tuple[Ints, Ints]:  # fmt: skip
    """The rows of both sides that are not gone; those that no result accounts for were pruned."""
    before = len(left_active) + len(right_active) - len(left_sky) - len(right_sky)
    left_rest, right_rest = remaining(left_active, left_gone), remaining(right_active, right_gone)
    counts[PRUNED] += before - len(left_rest) - len(right_rest)
    return left_rest, right_rest


@kernel
def step_layer(
    left: CellSide, left_active: Ints, left_sky: Ints, right: CellSide, right_active: Ints,
    right_sky: Ints, results: Results, counts: Ints,
) -> tuple[Ints, Ints, Results]:  # fmt: skip
    """One layer, with indexes of its own; returns the rows left over, and the results."""
    lefts, left_gone = opened(left, left_active)
    rights, right_gone = opened(right, right_active)
    _, _, results = join_layer(
        left, lefts, left_sky, left_gone, right, rights, right_sky, right_gone, results, counts
    )
    left_rest, right_rest = left_over(
        left_active, left_sky, left_gone, right_active, right_sky, right_gone, counts
    )
    return left_rest, right_rest, results


class StepwiseJoin(LayeredJoin):
    """``isj`` and ``lsj``, one call per local skyline and per layer."""

    join_layer = staticmethod(step_layer)

    def iterated(
        self, firsts: tuple[int, int], fabric: Fabric, sharing: Sharing, shares: Ints
    ) -> tuple[tuple[Ints, Ints], Fabric]:
        both = [self._side(at, firsts[at]) for at in (0, 1)]
        (left, _), (right, _) = both
        active = [np.arange(start.low, len(side.cell)) for side, start in both]
        width = left.points.shape[1] + right.points.shape[1]
        results = Results(np.zeros((64, 3), np.int64), np.zeros((64, width), np.int64), 0)
        made, stop = NO_FABRIC, sharing.stop
        self.layers = []
        while len(active[0]) and len(active[1]):
            self.layers.append((len(active[0]), len(active[1])))
            layer, sky = len(self.layers), []
            for at, (side, start) in enumerate(both):
                found, made, stop = self.local(
                    side, start, active[at], layer, at, fabric, made, sharing, stop,
                    self.local_counts, shares,
                )  # fmt: skip
                sky.append(found)
            left_rest, right_rest, results = self.join_layer(
                left, active[0], sky[0], right, active[1], sky[1], results, self.counts
            )
            active = [left_rest, right_rest]
        pairs = results.pairs[: results.size]
        return (pairs[:, LEFT].copy(), pairs[:, RIGHT].copy()), made

    def local(
        self, side: CellSide, start: SideStart, active: Ints, layer: int, at: int, before: Fabric,
        made: Fabric, sharing: Sharing, stop: int, counts: Ints, shares: Ints,
    ) -> tuple[Ints, Fabric, int]:  # fmt: skip
        """The local skyline of one side in one layer, as ``local_sky`` has it."""
        return _local(side, start, active, layer, at, before, made, sharing, stop, counts, shares)
