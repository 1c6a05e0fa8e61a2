"""Space-Saving and Filtered Space-Saving without a window: for one pane, or since a window began.

Both keep at most m items with a count f and an error e, and a bound for all others: one per cell of
a filter. Space-Saving has a single cell and admits every newcomer, at the bound that the eviction
leaves; the filtered one admits a newcomer that may reach the least count, at the bound before it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Array, Codes, Floats, Hashes, Ints, Mask
from skyband.frequency.kernels.fsw import GroupWork, best, cell_of
from skyband.frequency.kernels.item_heap import (
    PaneItems,
    heapify,
    least,
    sift,
    table_add,
    table_find,
    table_remove,
)
from skyband.kernels.arrange import with_room
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel

SIZE, HEAPED, INSERTS, REMOVALS, HITS = 0, 1, 2, 3, 4
COUNTS = 5
NEVER = np.iinfo(np.int64).min


class Instance(NamedTuple):
    """The state of one instance; or, with one more dimension in front, of all of them."""

    control: Ints  # places SIZE, HEAPED and the counts of operations
    item: Hashes
    row: Ints  # the row that an item was inserted by, -1 for one before this call
    f: Array
    err: Array
    alpha: Array  # the bound of each cell
    heap: Codes
    low: Array
    slack: Array
    table: Hashes


_ONE = np.uint64(1)
_TWO = np.uint64(2)
_EMPTY = np.uint64(0)


@jit
def _feed(
    hashes: Hashes, weights: Array, errors: Array, start: int, stop: int, first_row: int,
    filtered: bool, one: Instance, nil: Array, shift: np.uint64,
) -> None:  # fmt: skip
    """Count rows in order of arrival; ``weights`` and ``errors`` of length 0 stand for 1 and 0."""
    control, item, row, f, err, alpha, heap, low, slack, table = one
    capacity = len(item)
    mask = np.uint64((len(table) >> 1) - 1)
    w = nil[0] + 1  # of the type of f, whose values may not be set yet
    wrong = nil[0]
    hits = 0
    for i in range(start, stop):
        key = hashes[i]
        if len(weights):
            w = weights[i]
        if len(errors):
            wrong = errors[i]
        at = key >> shift
        while table[_TWO * at + _ONE] != _EMPTY and table[_TWO * at] != key:
            at = (at + _ONE) & mask
        slot = np.int64(table[_TWO * at + _ONE]) - 1
        if slot >= 0:
            f[slot] += w
            err[slot] += wrong
            hits += 1
            continue
        cell = cell_of(key, len(alpha))
        bound = alpha[cell]
        full = control[SIZE] == capacity
        if full:
            if control[HEAPED] == 0:
                heapify(heap, capacity, low, slack, f, nil, err)
                control[HEAPED] = 1
            if filtered and bound + w < low[0]:
                alpha[cell] += w
                continue
            mu = least(heap, capacity, low, slack, f, nil, err)
            if filtered and bound + w < mu:
                alpha[cell] += w
                continue
            slot = np.int64(heap[0])
            other = cell_of(item[slot], len(alpha))
            alpha[other] = max(alpha[other], mu)
            if not filtered:
                bound = alpha[cell]
            table_remove(table, shift, item[slot])
            control[REMOVALS] += 1
        else:
            slot = np.int64(heap[control[SIZE]])
            control[SIZE] += 1
            control[HEAPED] = 0
        control[INSERTS] += 1
        item[slot] = key
        row[slot] = first_row + i
        f[slot] = bound + w
        err[slot] = bound + wrong
        table_add(table, shift, key, slot)
        if full:
            low[0] = f[slot]
            slack[0] = err[slot]
            sift(heap, capacity, 0, low, slack)
    control[HITS] += hits


@jit
def feed_pane(
    pushed: PaneItems, pane: int, filtered: bool, one: Instance, nil: Array, shift: np.uint64,
    marked: Mask,
) -> None:  # fmt: skip
    """Count the known items of a pane, then its rows; ``missing`` bounds all other items."""
    hashes, weights, known, errors = pushed.keys, pushed.weights, pushed.known, pushed.errors
    start, stop = pushed.offsets[pane], pushed.offsets[pane + 1]
    known_start, known_stop = pushed.known_offsets[pane], pushed.known_offsets[pane + 1]
    missing = pushed.missing[pane]
    control, f, err, alpha, heap, table = (
        one.control, one.f, one.err, one.alpha, one.heap, one.table,
    )  # fmt: skip
    none = errors[:0]
    if known_stop > known_start:
        _feed(
            known, pushed.counts, errors, known_start, known_stop, 0, filtered, one, nil,
            shift,
        )  # fmt: skip
        if missing > 0:
            marked[:] = False
            for i in range(known_start, known_stop):
                at = table_find(table, shift, known[i])
                if at >= 0:
                    marked[at] = True
            for cell in range(len(alpha)):
                alpha[cell] += missing
            for at_heap in range(control[SIZE]):
                slot = heap[at_heap]
                if not marked[slot]:
                    f[slot] += missing
                    err[slot] += missing
            control[HEAPED] = 0
    _feed(hashes, weights, none, start, stop, len(known), filtered, one, nil, shift)


@kernel
def list_panes(
    pushed: PaneItems, capacity: int, cells: int, words: int, shift: np.uint64, total: Ints
) -> tuple[Hashes, Ints, Array, Array, Mask, Ints]:
    """FSS's list of each pane: hashes, rows, (count, error), μ, whether it lacks items, offsets.

    μ bounds how often an item that the list lacks occurred in the pane. It is 0 if a list lacks
    only items of weight 0.
    """
    offsets, known_offsets, missing = pushed.offsets, pushed.known_offsets, pushed.missing
    panes = len(offsets) - 1
    control = np.zeros(COUNTS, np.int64)
    item, row = np.empty(capacity, np.uint64), np.empty(capacity, np.int64)
    f, err = np.empty(capacity, missing.dtype), np.empty(capacity, missing.dtype)
    low, slack = np.empty(capacity, missing.dtype), np.empty(capacity, missing.dtype)
    nil = np.zeros(capacity, missing.dtype)
    marked = np.zeros(capacity, np.bool_)
    heap = np.arange(capacity).astype(np.int32)
    alpha = np.zeros(cells, missing.dtype)
    table = np.zeros(words, np.uint64)
    one = Instance(control, item, row, f, err, alpha, heap, low, slack, table)
    most = 0
    for pane in range(panes):
        rows = offsets[pane + 1] - offsets[pane] + known_offsets[pane + 1] - known_offsets[pane]
        most += min(rows, capacity)
    out_hash, out_row = np.empty(most, np.uint64), np.empty(most, np.int64)
    out_value = np.empty((most, 2), missing.dtype)
    absent = np.zeros(panes, missing.dtype)
    lacks = np.zeros(panes, np.bool_)
    ends = np.zeros(panes + 1, np.int64)
    n = 0
    for pane in range(panes):
        feed_pane(pushed, pane, True, one, nil, shift, marked)
        size = control[SIZE]
        if control[REMOVALS] > 0 or missing[pane] > 0 or size == capacity:
            for cell in range(cells):
                absent[pane] = max(absent[pane], alpha[cell])
                alpha[cell] = 0
        lacks[pane] = control[REMOVALS] > 0 or absent[pane] > 0
        for j in range(size):
            slot = heap[j]
            out_hash[n], out_row[n] = item[slot], row[slot]
            out_value[n, 0], out_value[n, 1] = f[slot], err[slot]
            n += 1
            table_remove(table, shift, item[slot])
        total[:] += control
        control[:] = 0
        ends[pane + 1] = n
    return out_hash[:n], out_row[:n], out_value[:n], absent, lacks, ends


# One instance per window: it starts with the window and answers at its end ---------------------


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
