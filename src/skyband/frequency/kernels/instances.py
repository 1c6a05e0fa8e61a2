"""One instance of Space-Saving per window: it starts with the window and answers at its end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Array, Codes, Floats, Ints, Mask
from skyband.frequency.kernels.fsw import GroupWork, best
from skyband.frequency.kernels.item_heap import PaneItems, heapify
from skyband.frequency.kernels.spacesaving import REMOVALS, SIZE, Instance, feed_pane
from skyband.kernels.arrange import with_room
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel

NEVER = np.iinfo(np.int64).min


class InstanceState(NamedTuple):
    """The instances of one group; or, with one more dimension in front, of all groups."""

    last: Ints  # the last pane, and the first pane since which no instance is missing
    started: Ints  # the first pane of each instance
    instances: Instance
    total: Ints  # counts of operations of instances that have ended
    ended: Floats  # the sum of their last least counts, and how many they are


@jit
def _of(many: Instance, at: int) -> Instance:
    """One of the instances, or those of one group."""
    return Instance(
        many.control[at], many.item[at], many.row[at], many.f[at], many.err[at], many.alpha[at],
        many.heap[at], many.low[at], many.slack[at], many.table[at],
    )  # fmt: skip


@jit
def _take_pane(
    w: InstanceState, pushed: PaneItems, run: int, pane: int, filtered: bool, per_window: int,
    per_slide: int, shift: np.uint64, nil: Array, marked: Mask,
) -> None:  # fmt: skip
    """End the instances that are too old, start one if a window starts, and count the pane."""
    last, started, instances = w.last, w.started, w.instances
    capacity = instances.item.shape[1]
    fresh = last[0] == NEVER
    if not fresh:
        begun = (pane + per_window) // per_slide
        fresh = begun > (last[0] + per_window) // per_slide
    last[0] = pane
    free = -1
    for i in range(len(started)):
        if started[i] != NEVER and started[i] <= pane - per_window:
            started[i] = NEVER
            if instances.control[i, SIZE] == capacity:
                one = _of(instances, i)
                heapify(one.heap, capacity, one.low, one.slack, one.f, nil, one.err)
                w.ended[0] += one.low[0]
            w.ended[1] += 1
        if started[i] == NEVER:
            free = i
    if fresh:
        started[free] = pane
        w.total[:] += instances.control[free]
        instances.control[free] = 0
        instances.alpha[free] = 0
        instances.table[free] = 0
        instances.row[free] = -1
    for i in range(len(started)):
        if started[i] != NEVER:
            feed_pane(pushed, run, filtered, _of(instances, i), nil, shift, marked)


@jit
def _oldest(started: Ints, first: int) -> int:
    """The oldest instance that a window covers; -1 if there is none."""
    oldest = -1
    for i in range(len(started)):
        if started[i] >= first and (oldest < 0 or started[i] < started[oldest]):
            oldest = i
    return oldest


@kernel
def fold_instances(
    plan: GroupWork, pushed: PaneItems, first: Ints, end: Ints, k: int, filtered: bool,
    per_window: int, per_slide: int, many: InstanceState, shift: np.uint64,
) -> tuple[Ints, Ints, Array, Ints, Codes, Ints, Mask, Array]:  # fmt: skip
    """Push panes and read windows, group by group.

    An instance starts at each pane that a window starts with, and the oldest one that a window
    covers answers it. Returns the items of answers: slots (numbered across all groups and
    instances), the rows they were inserted by, (count, error); and for each answer its window, its
    group, where it ends, whether it is proven exact, and the greatest cell.
    """
    stamp = pushed.stamp
    instances, capacity = many.started.shape[1], many.instances.item.shape[2]
    kind = many.instances.f.dtype
    nil = np.zeros(capacity, kind)
    marked = np.zeros(capacity, np.bool_)
    chosen = np.empty(capacity, np.int32)
    own_low, own_slack = np.empty(capacity, kind), np.empty(capacity, kind)
    out_slot, out_row = np.empty(256, np.int64), np.empty(256, np.int64)
    out_value = np.empty((256, 2), kind)
    most = 0
    for j in range(len(plan.groups)):
        most += plan.last_window[j] - plan.first_window[j]
    which, owner = np.empty(most, np.int64), np.empty(most, np.int32)
    ends, proven, mu = np.empty(most, np.int64), np.empty(most, np.bool_), np.empty(most, kind)
    n = answers = 0
    for j in range(len(plan.groups)):
        group = plan.groups[j]
        w = InstanceState(
            many.last[group], many.started[group], _of(many.instances, group), many.total[group],
            many.ended[group],
        )  # fmt: skip
        at, stop = plan.run_offsets[j], plan.run_offsets[j + 1]
        for window in range(plan.first_window[j], plan.last_window[j] + 1):
            final = window == plan.last_window[j]
            while at < stop and (final or stamp[plan.runs[at]] < end[window]):
                run = plan.runs[at]
                _take_pane(
                    w, pushed, run, stamp[run], filtered, per_window, per_slide, shift, nil, marked
                )
                at += 1
            oldest = -1 if final else _oldest(w.started, first[window])
            if oldest < 0:
                continue
            one = _of(w.instances, oldest)
            size = best(k, False, one.control, one.f, one.err, one.heap, chosen, own_low, own_slack)
            out_slot, out_row = with_room(out_slot, n, n + size), with_room(out_row, n, n + size)
            out_value = with_room(out_value, n, n + size)
            for i in range(size):
                slot = chosen[i]
                out_slot[n] = (group * instances + oldest) * capacity + slot
                out_row[n] = one.row[slot]
                out_value[n, 0], out_value[n, 1] = one.f[slot], one.err[slot]
                n += 1
            clean = one.control[REMOVALS] == 0  # what was evicted may have had weight 0
            mu[answers] = one.alpha.max()
            clean &= mu[answers] == 0
            for i in range(one.control[SIZE]):
                clean &= one.err[one.heap[i]] <= 0
            which[answers], owner[answers], ends[answers] = window, group, n
            proven[answers] = clean
            answers += 1
    return (
        out_slot[:n], out_row[:n], out_value[:n], which[:answers], owner[:answers], ends[:answers],
        proven[:answers], mu[:answers],
    )  # fmt: skip
