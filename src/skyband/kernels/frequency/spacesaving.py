"""Space-Saving and Filtered Space-Saving without a window: for a pane, or an instance per window.

Both keep at most m items with a count f and an error e, and a bound for all others: one per cell of
a filter. Space-Saving has a single cell and admits every newcomer, at the bound that the eviction
leaves; the filtered one admits a newcomer that may reach the least count, at the bound before it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Array, Codes, Floats, Hashes, Ints, Mask
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import kernel
from skyband.kernels.core.room import with_room
from skyband.kernels.frequency.fsw import best
from skyband.kernels.frequency.fsw_rows import cell_of
from skyband.kernels.frequency.item_heap import (
    heapify,
    least,
    sift,
    table_add,
    table_find,
    table_remove,
)

NEVER = np.iinfo(np.int64).min
SIZE, HEAPED, INSERTS, REMOVALS, HITS = 0, 1, 2, 3, 4
COUNTS = 5


class Pushed(NamedTuple):
    """What panes bring: rows, and items that were counted before; both split by pane.

    ``weights`` of length 0 stand for 1. ``missing`` bounds, for each pane, how often an item
    occurred that is not among those counted before.
    """

    hashes: Hashes
    weights: Array
    offsets: Ints
    known: Hashes
    counts: Array
    errors: Array
    known_offsets: Ints
    missing: Array


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
            sift(heap, capacity, capacity - capacity, low, slack)
    control[HITS] += hits


@jit
def _feed_pane(
    pushed: Pushed, pane: int, filtered: bool, one: Instance, nil: Array, shift: np.uint64,
    marked: Mask,
) -> None:  # fmt: skip
    """Count the known items of a pane, then its rows; ``missing`` bounds all other items."""
    hashes, weights, known, errors = pushed.hashes, pushed.weights, pushed.known, pushed.errors
    start, stop = pushed.offsets[pane], pushed.offsets[pane + 1]
    known_start, known_stop = pushed.known_offsets[pane], pushed.known_offsets[pane + 1]
    missing = pushed.missing[pane]
    control, f, err, alpha, heap, table = (
        one.control, one.f, one.err, one.alpha, one.heap, one.table,
    )  # fmt: skip
    none = errors[:0]
    if known_stop > known_start:
        _feed(
            known, pushed.counts, errors, known_start, known_stop, len(none), filtered, one, nil,
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


# Over 80 lines: instances start, count and answer in one loop over panes and windows.
@kernel
def fold_instances(
    stamp: Ints, pushed: Pushed, first: Ints, end: Ints, k: int, filtered: bool, per_window: int,
    per_slide: int, last: Ints, started: Ints, instances: Instance, shift: np.uint64, total: Ints,
    ended: Floats,
) -> tuple[Codes, Ints, Array, Ints, Mask, Array]:  # fmt: skip
    """Push panes and read windows: an instance starts at each pane that a window starts with.

    The oldest instance that a window covers answers it. Returns the answers: slots (numbered
    across all instances), the rows they were inserted by, (count, error); the end of each window's
    answers, whether it is proven exact, and the greatest cell.
    """
    control, item, row, f, err, alpha, heap, low, slack, table = instances
    capacity = item.shape[1]
    nil = np.zeros(capacity, f.dtype)
    marked = np.zeros(capacity, np.bool_)
    chosen = np.empty(capacity, np.int32)
    own_low, own_slack = np.empty(capacity, low.dtype), np.empty(capacity, low.dtype)
    out_slot, out_row = np.empty(256, np.int32), np.empty(256, np.int64)
    out_value = np.empty((256, 2), f.dtype)
    ends = np.zeros(len(first), np.int64)
    proven = np.ones(len(first), np.bool_)
    mu = np.zeros(len(first), f.dtype)
    n = at = 0
    for window in range(len(first) + 1):
        while at < len(stamp) and (window == len(first) or stamp[at] < end[window]):
            pane = stamp[at]
            fresh = last[0] == NEVER
            if not fresh:
                begun = (pane + per_window) // per_slide
                fresh = begun > (last[0] + per_window) // per_slide
            last[0] = pane
            free = -1
            for i in range(len(started)):
                if started[i] != NEVER and started[i] <= pane - per_window:
                    started[i] = NEVER
                    if control[i, SIZE] == capacity:
                        heapify(heap[i], capacity, low[i], slack[i], f[i], nil, err[i])
                        ended[0] += low[i, 0]
                    ended[1] += 1
                if started[i] == NEVER:
                    free = i
            if fresh:
                started[free] = pane
                total[:] += control[free]
                control[free] = 0
                alpha[free] = 0
                table[free] = 0
                row[free] = -1
            for i in range(len(started)):
                if started[i] != NEVER:
                    one = Instance(
                        control[i], item[i], row[i], f[i], err[i], alpha[i], heap[i], low[i],
                        slack[i], table[i],
                    )  # fmt: skip
                    _feed_pane(pushed, at, filtered, one, nil, shift, marked)
            at += 1
        if window == len(first):
            break
        oldest = -1
        for i in range(len(started)):
            if started[i] >= first[window] and (oldest < 0 or started[i] < started[oldest]):
                oldest = i
        ends[window] = n
        if oldest < 0:
            continue
        size = best(
            k, False, control[oldest], f[oldest], err[oldest], heap[oldest], chosen, own_low,
            own_slack,
        )  # fmt: skip
        out_slot, out_row = with_room(out_slot, n, n + size), with_room(out_row, n, n + size)
        out_value = with_room(out_value, n, n + size)
        for j in range(size):
            slot = chosen[j]
            out_slot[n] = oldest * capacity + slot
            out_row[n] = row[oldest, slot]
            out_value[n, 0] = f[oldest, slot]
            out_value[n, 1] = err[oldest, slot]
            n += 1
        ends[window] = n
        clean = control[oldest, REMOVALS] == 0  # what was evicted may have had weight 0
        for cell in range(alpha.shape[1]):
            mu[window] = max(mu[window], alpha[oldest, cell])
        clean &= mu[window] == 0
        for j in range(control[oldest, SIZE]):
            if err[oldest, heap[oldest, j]] > 0:
                clean = False
        proven[window] = clean
    return out_slot[:n], out_row[:n], out_value[:n], ends, proven, mu


@kernel
def list_panes(
    pushed: Pushed, capacity: int, cells: int, words: int, shift: np.uint64, total: Ints
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
        _feed_pane(pushed, pane, capacity > 0, one, nil, shift, marked)
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
