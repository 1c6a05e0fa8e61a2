"""FSW, FSWr and FSWf over many panes and windows in one call.

Of the pane being counted only ``cur`` (items) and ``fine`` (cells) change; when it ends they become
a bucket of the histograms ``item_hist`` and ``cell_hist``. Sums over the sealed panes are kept
beside them, so

    count of an item j     base[j] + cur[j]       = sum of item_hist[j] + cur[j]
    bound of a cell k      hist[k // r] + fine[k] = sum of cell_hist[k // r] + fine[k]

Buckets are circular: pane t has number t mod p, and ``held`` tells which pane a number holds.
``marks`` tells which cells a bucket has something of, so that an expiry reads no others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.kernels.jit import jit
from skyband.kernels.monitored import heapify, least, sift, table_add, table_remove

__all__ = ["CONTROLS", "fold_fsw"]

Hashes = NDArray[np.uint64]
Ints = NDArray[np.int64]
Values = NDArray[Any]
Marks = NDArray[np.uint8]

NEVER = np.iinfo(np.int64).min
SIZE, HEAPED, INSERTS, REMOVALS, HITS, UPDATES, BUCKETS, STAYED = 0, 1, 2, 3, 4, 5, 6, 7
CONTROLS = STAYED + 4
"""Numbers that a sketch keeps: its size, whether its heap is valid, and counts of operations.

The last four count removals by how many panes an item had stayed: 0, 1, 2 and more.
"""

_ONE = np.uint64(1)
_TWO = np.uint64(2)
_EMPTY = np.uint64(0)
_32 = np.uint64(32)
_LOWER = np.uint64(0xFFFFFFFF)


@jit
def cell_of(key: np.uint64, cells: int) -> Any:
    """The cell of a hash, by its upper half: its lower half may be alike within a shard."""
    return np.int64(((key >> _32) * np.uint64(cells)) >> _32)


@jit
def _evict(
    slot: Any, pane: int, ratio: int, control: Ints, item: Hashes, born: Ints, cur: Values,
    item_hist: Values, cell_hist: Values, marks: Marks, hist: Values, fine: Values, held: Ints,
    table: Hashes, shift: np.uint64,
) -> None:  # fmt: skip
    """Forget an item; what it counted becomes a bound for its cell.

    Buckets before its insertion were copied from the cell, which has not fallen since.
    """
    table_remove(table, shift, item[slot])
    control[REMOVALS] += 1
    control[STAYED + min(pane - born[slot], 3)] += 1
    cell = cell_of(item[slot], len(fine))
    coarse = cell // ratio
    if cur[slot] > fine[cell]:
        fine[cell] = cur[slot]
    control[BUCKETS] += 1
    if born[slot] == pane:
        return
    for b in range(len(held)):
        if held[b] >= born[slot]:
            control[BUCKETS] += 1
            if item_hist[slot, b] > cell_hist[coarse, b]:
                hist[coarse] += item_hist[slot, b] - cell_hist[coarse, b]
                cell_hist[coarse, b] = item_hist[slot, b]
                marks[b, coarse] = 1


@jit
def _expire(
    bucket: int, whole: bool, control: Ints, base: Values, err: Values, item_hist: Values,
    item_err: Values, cell_hist: Values, marks: Marks, hist: Values, held: Ints,
    heap: NDArray[np.int32],
) -> None:  # fmt: skip
    """Take a pane out of all sums; floating ones are added up again, so that none cancels."""
    held[bucket] = NEVER
    control[HEAPED] = 0
    for at in range(control[SIZE]):
        slot = heap[at]
        if item_hist[slot, bucket] != 0:
            control[UPDATES] += 1
            if len(item_err) == 0:
                err[slot] = max(err[slot] - item_hist[slot, bucket], 0)
            base[slot] -= item_hist[slot, bucket]
            item_hist[slot, bucket] = 0
            if not whole:
                base[slot] = item_hist[slot].sum()
        if len(item_err):
            err[slot] -= item_err[slot, bucket]
            item_err[slot, bucket] = 0
            if not whole:
                err[slot] = item_err[slot].sum()
    for cell in range(len(hist)):
        if marks[bucket, cell] != 0:
            marks[bucket, cell] = 0
            hist[cell] -= cell_hist[cell, bucket]
            cell_hist[cell, bucket] = 0
            if not whole:
                hist[cell] = cell_hist[cell].sum()


@jit
def _remove_unseen(
    live: int, control: Ints, item: Hashes, born: Ints, seen: Ints, base: Values, item_hist: Values,
    item_err: Values, heap: NDArray[np.int32], table: Hashes, shift: np.uint64,
) -> None:  # fmt: skip
    """Forget the items that no live pane has seen: cells bound what may be left of them."""
    at = 0
    while at < control[SIZE]:
        slot = heap[at]
        if seen[slot] >= live:
            at += 1
            continue
        table_remove(table, shift, item[slot])
        control[REMOVALS] += 1
        control[STAYED + min(live + len(item_hist[slot]) - 1 - born[slot], 3)] += 1
        control[SIZE] -= 1
        heap[at] = heap[control[SIZE]]
        heap[control[SIZE]] = slot
        control[HEAPED] = 0
        base[slot] = 0
        item_hist[slot] = 0
        if len(item_err):
            item_err[slot] = 0


@jit
def _close(
    pane: int, ratio: int, control: Ints, seen: Ints, base: Values, cur: Values, ecur: Values,
    item_hist: Values, item_err: Values, cell_hist: Values, marks: Marks, hist: Values,
    fine: Values, held: Ints, heap: NDArray[np.int32],
) -> None:  # fmt: skip
    """The pane's counts become a bucket, which was emptied when its last pane expired."""
    bucket = pane % len(held)
    held[bucket] = pane
    for at in range(control[SIZE]):
        slot = heap[at]
        if cur[slot] > 0:
            seen[slot] = pane
            item_hist[slot, bucket] = cur[slot]
            base[slot] += cur[slot]
            cur[slot] = 0
        if len(item_err):
            item_err[slot, bucket] = ecur[slot]
            ecur[slot] = 0
    for coarse in range(len(hist)):
        most = fine[coarse * ratio]
        fine[coarse * ratio] = 0
        for cell in range(coarse * ratio + 1, (coarse + 1) * ratio):
            most = max(most, fine[cell])
            fine[cell] = 0
        if most > 0:
            cell_hist[coarse, bucket] = most
            marks[bucket, coarse] = 1
            hist[coarse] += most


@jit
def _feed(
    hashes: Hashes, weights: Values, errors: Values, start: int, stop: int, first_row: int,
    pane: int, ratio: int, control: Ints, item: Hashes, born: Ints, seen: Ints, row: Ints,
    base: Values, cur: Values, err: Values, ecur: Values, item_hist: Values, item_err: Values,
    cell_hist: Values, marks: Marks, hist: Values, fine: Values, bits: NDArray[np.uint8],
    held: Ints, heap: NDArray[np.int32], low: Values, slack: Values, table: Hashes,
    shift: np.uint64,
) -> None:  # fmt: skip
    """Count rows in order of arrival; ``weights`` and ``errors`` of length 0 stand for 1 and 0."""
    capacity = len(item)
    cells = len(fine)
    mask = np.uint64((len(table) >> 1) - 1)
    filtering = len(bits) > 0
    w = cur[0] * 0 + 1
    wrong = cur[0] * 0
    hits = 0
    buckets = cell_hist.shape[1]
    past_buckets = np.empty(buckets, cell_hist.dtype)
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
            cur[slot] += w
            hits += 1
            if w == 0:
                seen[slot] = pane  # others are seen by their count, when the pane ends
            if wrong > 0:
                err[slot] += wrong
                ecur[slot] += wrong
            continue
        cell = cell_of(key, cells)
        coarse = cell // ratio
        full = control[SIZE] == capacity
        add = w
        if filtering:
            bit = np.int64(((key & _LOWER) * np.uint64(8 * len(bits))) >> _32)
            known = (bits[bit >> 3] >> (bit & 7)) & 1
            bits[bit >> 3] |= np.uint8(1 << (bit & 7))
            if full and known == 0:
                # The first occurrence in a pane is let go; the others of a heavier row count.
                add = w - 1
                if add == 0:
                    continue
            if full and fine[cell] == 0:
                add += 1
        bound = hist[coarse] + fine[cell]
        if full:
            if control[HEAPED] == 0:
                heapify(heap, capacity, low, slack, base, cur, err)
                control[HEAPED] = 1
            if bound + add < low[0] or bound + add < least(
                heap, capacity, low, slack, base, cur, err
            ):
                fine[cell] += add
                continue
            slot = np.int64(heap[0])
            active = fine[cell]
            # The newcomer's bound is read before the eviction, which may raise its cell.
            past = hist[coarse]
            for b in range(buckets):
                past_buckets[b] = cell_hist[coarse, b]
            _evict(
                slot,
                pane,
                ratio,
                control,
                item,
                born,
                cur,
                item_hist,
                cell_hist,
                marks,
                hist,
                fine,
                held,
                table,
                shift,
            )
            for b in range(buckets):
                item_hist[slot, b] = past_buckets[b]
        else:
            slot = np.int64(heap[control[SIZE]])
            control[SIZE] += 1
            control[HEAPED] = 0
            active = fine[cell]
            past = hist[coarse]
            for b in range(buckets):
                item_hist[slot, b] = cell_hist[coarse, b]
        control[INSERTS] += 1
        item[slot] = key
        born[slot] = pane
        seen[slot] = pane
        row[slot] = first_row + i
        base[slot] = past
        cur[slot] = active + add
        # What the filter lets go is slack, not error: it is added when the answer is read.
        err[slot] = past + active + (add - w if add > w else 0) + wrong
        if len(item_err):
            for b in range(buckets):
                item_err[slot, b] = item_hist[slot, b]
            ecur[slot] = active + (add - w if add > w else 0) + wrong
        table_add(table, shift, key, slot)
        if full:
            low[0] = past + active + add
            slack[0] = err[slot]
            sift(heap, capacity, capacity - capacity, low, slack)
    control[HITS] += hits


@jit
def _lift(
    missing: Any, pane: int, control: Ints, seen: Ints, cur: Values, err: Values, ecur: Values,
    fine: Values, heap: NDArray[np.int32],
) -> None:  # fmt: skip
    """Any item that the rows so far do not show may have occurred so often in this pane."""
    for cell in range(len(fine)):
        fine[cell] += missing
    for at in range(control[SIZE]):
        slot = heap[at]
        if cur[slot] == 0 and seen[slot] != pane:
            cur[slot] += missing
            err[slot] += missing
            ecur[slot] += missing


@jit
def _best(
    k: int, every: bool, control: Ints, base: Values, err: Values, heap: NDArray[np.int32],
    chosen: NDArray[np.int32], low: Values, slack: Values,
) -> int:  # fmt: skip
    """The best k slots by count, then the smaller error, and all that tie with the last of them.

    With ``every`` an equal count is a tie, whatever the error.
    """
    size = control[SIZE]
    kept = 0
    for at in range(size):
        slot = heap[at]
        if kept < k:
            chosen[kept], low[kept], slack[kept] = slot, base[slot], err[slot]
            kept += 1
            if kept == k:
                for i in range(k // 2 - 1, -1, -1):
                    sift(chosen, k, i, low, slack)
        elif base[slot] > low[0] or (base[slot] == low[0] and err[slot] < slack[0]):
            chosen[0], low[0], slack[0] = slot, base[slot], err[slot]
            sift(chosen, k, k - k, low, slack)
    if size <= k:
        return kept
    least_count, least_error = low[0], slack[0]
    kept = 0
    for at in range(size):
        slot = heap[at]
        if base[slot] > least_count or (
            base[slot] == least_count and (every or err[slot] <= least_error)
        ):
            chosen[kept] = slot
            kept += 1
    return kept


@jit
def fold_fsw(
    stamp: Ints, hashes: Hashes, weights: Values, offsets: Ints, known: Hashes, counts: Values,
    errors: Values, known_offsets: Ints, missing: Values, first: Ints, end: Ints, k: int,
    ratio: int, whole: bool, control: Ints, item: Hashes, born: Ints, seen: Ints, row: Ints,
    base: Values, cur: Values, err: Values, ecur: Values, item_hist: Values, item_err: Values,
    cell_hist: Values, marks: Marks, hist: Values, fine: Values, bits: NDArray[np.uint8],
    held: Ints, heap: NDArray[np.int32], low: Values, slack: Values, table: Hashes,
    shift: np.uint64,
) -> tuple[NDArray[np.int32], Ints, Values, Ints, Ints, NDArray[np.bool_]]:  # fmt: skip
    """Push panes and read windows.

    A pane has items counted before (``known``, with ``counts`` and ``errors``; what they lack
    occurred at most ``missing`` times) and then rows. Rows are numbered through, the known items
    first. Returns the answers: slots, the rows they were inserted by, (count, error), filter slack;
    the end of each window's answers, and whether it is proven exact.
    """
    capacity = len(item)
    panes = len(held)
    chosen = np.empty(capacity, np.int32)
    own_low, own_slack = np.empty(capacity, low.dtype), np.empty(capacity, low.dtype)
    room = 256
    out_slot = np.empty(room, np.int32)
    out_row = np.empty(room, np.int64)
    out_value = np.empty((room, 2), base.dtype)
    out_slack = np.empty(room, np.int64)
    ends = np.zeros(len(first), np.int64)
    proven = np.zeros(len(first), np.bool_)
    none = errors[:0]
    n = at = 0
    for window in range(len(first) + 1):
        upto = len(stamp)
        if window < len(first):
            upto = at
            while upto < len(stamp) and stamp[upto] < end[window]:
                upto += 1
        while at < upto:
            pane = stamp[at]
            expired = False
            for b in range(panes):
                if held[b] != NEVER and held[b] <= pane - panes:
                    _expire(
                        b,
                        whole,
                        control,
                        base,
                        err,
                        item_hist,
                        item_err,
                        cell_hist,
                        marks,
                        hist,
                        held,
                        heap,
                    )
                    expired = True
            if expired:
                _remove_unseen(
                    pane - panes + 1,
                    control,
                    item,
                    born,
                    seen,
                    base,
                    item_hist,
                    item_err,
                    heap,
                    table,
                    shift,
                )
            _feed(
                known, counts, errors, known_offsets[at], known_offsets[at + 1], len(none), pane,
                ratio, control, item, born, seen, row, base, cur, err, ecur, item_hist, item_err,
                cell_hist, marks, hist, fine, bits, held, heap, low, slack, table, shift,
            )  # fmt: skip
            if missing[at] > 0:
                control[HEAPED] = 0
                _lift(missing[at], pane, control, seen, cur, err, ecur, fine, heap)
            _feed(
                hashes, weights, none, offsets[at], offsets[at + 1], len(known), pane, ratio,
                control, item, born, seen, row, base, cur, err, ecur, item_hist, item_err,
                cell_hist, marks, hist, fine, bits, held, heap, low, slack, table, shift,
            )  # fmt: skip
            _close(
                pane,
                ratio,
                control,
                seen,
                base,
                cur,
                ecur,
                item_hist,
                item_err,
                cell_hist,
                marks,
                hist,
                fine,
                held,
                heap,
            )
            bits[:] = 0
            at += 1
        if window == len(first):
            break
        expired = False
        for b in range(panes):
            if held[b] != NEVER and held[b] < first[window]:
                _expire(
                    b,
                    whole,
                    control,
                    base,
                    err,
                    item_hist,
                    item_err,
                    cell_hist,
                    marks,
                    hist,
                    held,
                    heap,
                )
                expired = True
        if expired:
            _remove_unseen(
                first[window],
                control,
                item,
                born,
                seen,
                base,
                item_hist,
                item_err,
                heap,
                table,
                shift,
            )
        size = _best(k, len(bits) > 0, control, base, err, heap, chosen, own_low, own_slack)
        if n + size > room:
            room = 2 * (n + size)
            more_slot, more_row = np.empty(room, np.int32), np.empty(room, np.int64)
            more_value = np.empty((room, 2), base.dtype)
            more_slack = np.empty(room, np.int64)
            more_slot[:n], more_row[:n] = out_slot[:n], out_row[:n]
            more_value[:n], more_slack[:n] = out_value[:n], out_slack[:n]
            out_slot, out_row, out_value, out_slack = more_slot, more_row, more_value, more_slack
        for j in range(size):
            slot = chosen[j]
            out_slot[n] = slot
            out_row[n] = row[slot]
            out_value[n, 0] = base[slot]
            out_value[n, 1] = err[slot]
            let_go = 0
            if len(bits):
                for b in range(panes):
                    if held[b] != NEVER and held[b] <= born[slot]:
                        let_go += 1
            out_slack[n] = let_go
            n += 1
        ends[window] = n
        clean = len(bits) == 0
        for cell in range(len(hist)):
            if hist[cell] != 0:
                clean = False
                break
        if clean:
            for j in range(control[SIZE]):
                if err[heap[j]] > 0:
                    clean = False
                    break
        proven[window] = clean
    return out_slot[:n], out_row[:n], out_value[:n], out_slack[:n], ends, proven
