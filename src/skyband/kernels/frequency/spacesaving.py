"""Space-Saving and Filtered Space-Saving without a window: over one pane, or an instance a window.

Both keep at most m items with a count f and an error e, and for all others a bound: one a cell of a
filter. Space-Saving has a single cell and lets every newcomer in, at the bound that the eviction
leaves; the filtered one lets a newcomer in that may reach the least count, at the bound before it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.arrays import Hashes, Ints
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient
from skyband.kernels.frequency.fsw import best
from skyband.kernels.frequency.fsw_rows import cell_of
from skyband.kernels.frequency.item_heap import heapify, least, sift, table_add, table_remove

__all__ = ["COUNTS", "fold_instances", "list_panes"]

Slots = NDArray[np.int32]
Values = NDArray[Any]

NEVER = np.iinfo(np.int64).min
SIZE, HEAPED, INSERTS, REMOVALS, HITS = 0, 1, 2, 3, 4
COUNTS = 5

_ONE = np.uint64(1)
_TWO = np.uint64(2)
_EMPTY = np.uint64(0)


@jit
def _feed(
    hashes: Hashes, weights: Values, errors: Values, start: int, stop: int, first_row: int,
    filtered: bool, control: Ints, item: Hashes, row: Ints, f: Values, err: Values, nil: Values,
    alpha: Values, heap: Slots, low: Values, slack: Values, table: Hashes, shift: np.uint64,
) -> None:  # fmt: skip
    """Count rows in order of arrival; ``weights`` and ``errors`` of length 0 stand for 1 and 0."""
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
    hashes: Hashes, weights: Values, start: int, stop: int, known: Hashes, counts: Values,
    errors: Values, known_start: int, known_stop: int, missing: Any, filtered: bool, control: Ints,
    item: Hashes, row: Ints, f: Values, err: Values, nil: Values, alpha: Values, heap: Slots,
    low: Values, slack: Values, table: Hashes, shift: np.uint64, marked: NDArray[np.bool_],
) -> None:  # fmt: skip
    """A pane's items counted before, then its rows; ``missing`` bounds what the former lack."""
    none = errors[:0]
    if known_stop > known_start:
        _feed(
            known, counts, errors, known_start, known_stop, len(none), filtered, control, item, row,
            f, err, nil, alpha, heap, low, slack, table, shift,
        )  # fmt: skip
        if missing > 0:
            mask = np.uint64((len(table) >> 1) - 1)
            marked[:] = False
            for i in range(known_start, known_stop):
                at = known[i] >> shift
                while table[_TWO * at + _ONE] != _EMPTY and table[_TWO * at] != known[i]:
                    at = (at + _ONE) & mask
                if table[_TWO * at + _ONE] != _EMPTY:
                    marked[np.int64(table[_TWO * at + _ONE]) - 1] = True
            for cell in range(len(alpha)):
                alpha[cell] += missing
            for at_heap in range(control[SIZE]):
                slot = heap[at_heap]
                if not marked[slot]:
                    f[slot] += missing
                    err[slot] += missing
            control[HEAPED] = 0
    _feed(
        hashes, weights, none, start, stop, len(known), filtered, control, item, row, f, err, nil,
        alpha, heap, low, slack, table, shift,
    )  # fmt: skip


@patient
@jit
def fold_instances(
    stamp: Ints, hashes: Hashes, weights: Values, offsets: Ints, known: Hashes, counts: Values,
    errors: Values, known_offsets: Ints, missing: Values, first: Ints, end: Ints, k: int,
    filtered: bool, per_window: int, per_slide: int, last: Ints, started: Ints, control: Ints,
    item: Hashes, row: Ints, f: Values, err: Values, alpha: Values, heap: Slots, low: Values,
    slack: Values, table: Hashes, shift: np.uint64, total: Ints, ended: NDArray[np.float64],
) -> tuple[Slots, Ints, Values, Ints, NDArray[np.bool_]]:  # fmt: skip
    """Push panes and read windows: an instance starts at each pane that a window starts with.

    The oldest instance that a window covers answers it. Returns the answers: slots (numbered
    through all instances), the rows they were inserted by, (count, error); the end of each window's
    answers, and whether it is proven exact.
    """
    capacity = item.shape[1]
    nil = np.zeros(capacity, f.dtype)
    marked = np.zeros(capacity, np.bool_)
    chosen = np.empty(capacity, np.int32)
    own_low, own_slack = np.empty(capacity, low.dtype), np.empty(capacity, low.dtype)
    room = 256
    out_slot, out_row = np.empty(room, np.int32), np.empty(room, np.int64)
    out_value = np.empty((room, 2), f.dtype)
    ends = np.zeros(len(first), np.int64)
    proven = np.ones(len(first), np.bool_)
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
                    _feed_pane(
                        hashes, weights, offsets[at], offsets[at + 1], known, counts, errors,
                        known_offsets[at], known_offsets[at + 1], missing[at], filtered, control[i],
                        item[i], row[i], f[i], err[i], nil, alpha[i], heap[i], low[i], slack[i],
                        table[i], shift, marked,
                    )  # fmt: skip
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
        if n + size > room:
            room = 2 * (n + size)
            more_slot, more_row = np.empty(room, np.int32), np.empty(room, np.int64)
            more_value = np.empty((room, 2), f.dtype)
            more_slot[:n], more_row[:n], more_value[:n] = out_slot[:n], out_row[:n], out_value[:n]
            out_slot, out_row, out_value = more_slot, more_row, more_value
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
            if alpha[oldest, cell] != 0:
                clean = False
        for j in range(control[oldest, SIZE]):
            if err[oldest, heap[oldest, j]] > 0:
                clean = False
        proven[window] = clean
    return out_slot[:n], out_row[:n], out_value[:n], ends, proven


@patient
@jit
def list_panes(
    hashes: Hashes, weights: Values, offsets: Ints, known: Hashes, counts: Values, errors: Values,
    known_offsets: Ints, missing: Values, capacity: int, cells: int, words: int, shift: np.uint64,
    total: Ints,
) -> tuple[Hashes, Ints, Values, Values, NDArray[np.bool_], Ints]:  # fmt: skip
    """FSS's list of each pane: hashes, rows, (count, error), μ, whether it lacks items, offsets.

    μ bounds how often an item that the list lacks occurred in the pane. It is 0 where a list lacks
    only items of weight 0.
    """
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
        _feed_pane(
            hashes, weights, offsets[pane], offsets[pane + 1], known, counts, errors,
            known_offsets[pane], known_offsets[pane + 1], missing[pane], capacity > 0, control,
            item, row, f, err, nil, alpha, heap, low, slack, table, shift, marked,
        )  # fmt: skip
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
