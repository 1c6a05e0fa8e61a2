"""FSW, FSWr and FSWf row by row: what a sketch holds, and how the rows of a pane change it.

Of the pane being counted only ``cur`` (items) and ``fine`` (cells) change; when it ends they become
a bucket of the histograms ``item_hist`` and ``cell_hist``. Sums over the sealed panes are kept
too, so

    count of an item j     base[j] + cur[j]       = sum of item_hist[j] + cur[j]
    bound of a cell k      hist[k // r] + fine[k] = sum of cell_hist[k // r] + fine[k]

Buckets are circular: pane t has number t mod p, and ``held`` tells which pane a number holds.
``marks`` tells which cells have something in a bucket, so that an expiry reads no others.

Histograms are stored in blocks of some 64 buckets: bucket b of item j is ``item_hist[b // w, j,
b % w]``. An expiry reads one bucket of every item, so the buckets that it reads should be near each
other; an insertion reads all buckets of one cell, so these should be near each other too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.arrays import Array, Codes, Hashes, Ints
from skyband.kernels.core.hashing import mix
from skyband.kernels.core.jit import jit
from skyband.kernels.frequency.item_heap import heapify, least, sift, table_add, table_remove

NEVER = np.iinfo(np.int64).min
SIZE, HEAPED, INSERTS, REMOVALS, HITS, UPDATES, BUCKETS, STAYED = 0, 1, 2, 3, 4, 5, 6, 7
LOST = STAYED + 4
CONTROLS = LOST + 1
"""Numbers that a sketch keeps: its size, whether its heap is valid, and counts of operations.

The four from ``STAYED`` count removals by how many panes an item had stayed: 0, 1, 2 and more.
``LOST`` is the newest pane from which an item may be missing altogether: it is not monitored, and
its cell may be 0 because it weighed 0.
"""

_ONE = np.uint64(1)
_TWO = np.uint64(2)
_EMPTY = np.uint64(0)
_32 = np.uint64(32)
_LOWER = np.uint64(0xFFFFFFFF)


class Sketch(NamedTuple):
    """The state of a sketch: see the head of the module. Kernels change the arrays in place.

    Or that of many groups, with one more dimension in front: all arrays except ``cur``, ``ecur``,
    ``fine`` and ``bits``, which are 0 between panes, so that all groups use the same.
    """

    control: Ints
    item: Hashes
    born: Ints
    seen: Ints
    row: Ints
    base: Array
    cur: Array
    err: Array
    ecur: Array
    item_hist: Array
    item_err: Array
    cell_hist: Array
    marks: NDArray[np.uint8]
    hist: Array
    fine: Array
    bits: NDArray[np.uint8]
    held: Ints
    heap: Codes
    low: Array
    slack: Array
    table: Hashes
    shift: np.uint64
    ratio: int


@jit
def of_group(s: Sketch, group: int) -> Sketch:
    """The state of one group."""
    return Sketch(
        s.control[group], s.item[group], s.born[group], s.seen[group], s.row[group], s.base[group],
        s.cur, s.err[group], s.ecur, s.item_hist[group], s.item_err[group], s.cell_hist[group],
        s.marks[group], s.hist[group], s.fine, s.bits, s.held[group], s.heap[group], s.low[group],
        s.slack[group], s.table[group], s.shift, s.ratio,
    )  # fmt: skip


@jit
def cell_of(key: np.uint64, cells: int) -> Any:
    """The cell of a hash, by its upper half: its lower half may be the same for a whole shard."""
    return np.int64(((key >> _32) * np.uint64(cells)) >> _32)


@jit
def _count_known(
    keys: Hashes, raw: bool, weights: Array, start: int, stop: int, mu: Any, table: Hashes,
    shift: np.uint64, cur: Array, hist: Array, fine: Array, ratio: int,
    bits: NDArray[np.uint8],
) -> tuple[int, int]:  # fmt: skip
    """Count rows up to the first that may enter the list; returns that row, and the hits.

    Most rows are of monitored items, or raise a cell that stays below ``mu``. A separate function
    with few arrays, which never move: it is twice as fast as one that does everything.
    """
    mask = np.uint64((len(table) >> 1) - 1)
    cells = np.uint64(len(fine))
    filtering = len(bits) > 0
    weighted = len(weights) > 0
    w = cur[0] * 0 + 1
    hits = 0
    for i in range(start, stop):
        key = keys[i]
        if raw:
            key = mix(key)
        at = key >> shift
        while table[_TWO * at + _ONE] != _EMPTY and table[_TWO * at] != key:
            at = (at + _ONE) & mask
        slot = table[_TWO * at + _ONE]
        if weighted:
            w = weights[i]
            if w == 0:
                return i, hits
        if slot != _EMPTY:
            cur[slot - _ONE] += w
            hits += 1
            continue
        cell = ((key >> _32) * cells) >> _32
        add = w
        if filtering:
            bit = ((key & _LOWER) * np.uint64(8 * len(bits))) >> _32
            one = np.uint8(1) << np.uint8(bit & np.uint64(7))
            seen_before = bits[bit >> np.uint64(3)] & one
            if seen_before == 0:
                add = w - 1  # the first occurrence in a pane is ignored
                if add == 0 and mu > 0:
                    bits[bit >> np.uint64(3)] |= one
                    continue
            if add > 0 and fine[cell] == 0:
                add += 1
            if hist[cell // np.uint64(ratio)] + fine[cell] + add >= mu:
                return i, hits
            bits[bit >> np.uint64(3)] |= one
        elif hist[cell // np.uint64(ratio)] + fine[cell] + add >= mu:
            return i, hits
        fine[cell] += add
    return stop, hits


# Over 80 lines: passing all these arrays on to another function costs more than a row does.
@jit
def feed(
    s: Sketch, keys: Hashes, raw: bool, weights: Array, errors: Array, start: int, stop: int,
    first_row: int, pane: int, spare: Array,
) -> None:  # fmt: skip
    """Count rows in order of arrival; ``weights`` and ``errors`` of length 0 stand for 1 and 0.

    ``raw`` keys are integers that are not hashed yet.
    """
    control, item, born, seen, row, held = s.control, s.item, s.born, s.seen, s.row, s.held
    base, cur, err, ecur, hist, fine, bits = s.base, s.cur, s.err, s.ecur, s.hist, s.fine, s.bits
    item_hist, item_err, cell_hist, marks = s.item_hist, s.item_err, s.cell_hist, s.marks
    heap, low, slack, table, shift, ratio = s.heap, s.low, s.slack, s.table, s.shift, s.ratio
    panes = len(held)
    blocks, width = item_hist.shape[0], item_hist.shape[2]
    capacity, cells = len(item), len(fine)
    mask = np.uint64((len(table) >> 1) - 1)
    w = cur[0] * 0 + 1
    wrong = cur[0] * 0
    nothing = cur[0] * 0
    i = start
    while i < stop:
        full = control[SIZE] == capacity
        if len(errors) == 0:
            mu = low[0] if full and control[HEAPED] else nothing
            i, hits = _count_known(
                keys, raw, weights, i, stop, mu, table, shift, cur, hist, fine, ratio, bits
            )
            control[HITS] += hits
            if i == stop:
                break
        else:
            wrong = errors[i]
        key = mix(keys[i]) if raw else keys[i]
        if len(weights):
            w = weights[i]
        i += 1
        at = key >> shift
        while table[_TWO * at + _ONE] != _EMPTY and table[_TWO * at] != key:
            at = (at + _ONE) & mask
        slot = np.int64(table[_TWO * at + _ONE]) - 1
        if slot >= 0:
            control[HITS] += 1
            cur[slot] += w
            if w == 0:
                seen[slot] = pane  # others are seen by their count, when the pane ends
            if wrong > 0:
                err[slot] += wrong
                ecur[slot] += wrong
            continue
        cell = cell_of(key, cells)
        coarse = cell // ratio
        add = w
        if len(bits) > 0:
            bit = np.int64(((key & _LOWER) * np.uint64(8 * len(bits))) >> _32)
            known = (bits[bit >> 3] >> (bit & 7)) & 1
            bits[bit >> 3] |= np.uint8(1 << (bit & 7))
            if full and known == 0:
                # The first occurrence in a pane is ignored; the others of a heavier row count.
                add = w - 1
                if add == 0:
                    continue
            if full and fine[cell] == 0:
                add += 1
        # The newcomer's bound is read before the eviction it causes, which may raise its cell.
        active, past = fine[cell], hist[coarse]
        if not full:
            slot = np.int64(heap[control[SIZE]])
            control[SIZE] += 1
            control[HEAPED] = 0
            for q in range(blocks):
                for b in range(width):
                    item_hist[q, slot, b] = cell_hist[q, coarse, b]
        else:
            if control[HEAPED] == 0:
                heapify(heap, capacity, low, slack, base, cur, err)
                control[HEAPED] = 1
            bound = past + active + add
            if bound < low[0] or bound < least(heap, capacity, low, slack, base, cur, err):
                fine[cell] += add
                control[LOST] = max(control[LOST], pane)
                continue
            slot = np.int64(heap[0])
            last_seen = pane if cur[slot] > 0 else seen[slot]
            control[LOST] = max(control[LOST], last_seen)
            other = cell_of(item[slot], cells)
            own_cell = other // ratio == coarse
            if own_cell:
                for q in range(blocks):
                    for b in range(width):
                        spare[q, b] = cell_hist[q, coarse, b]
            # Evict: what the least item counted becomes a bound for its cell. Its buckets before
            # its insertion were copied from that cell, which has not fallen since.
            table_remove(table, shift, item[slot])
            control[REMOVALS] += 1
            control[STAYED + min(pane - born[slot], 3)] += 1
            control[BUCKETS] += 1
            fine[other] = max(fine[other], cur[slot])
            other //= ratio
            since = max(born[slot], pane - panes + 1)
            b = since % panes
            q = b // width
            c = b - q * width
            for t in range(since, pane):
                if held[b] == t:
                    control[BUCKETS] += 1
                    more = item_hist[q, slot, c] - cell_hist[q, other, c]
                    if more > 0:
                        hist[other] += more
                        cell_hist[q, other, c] = item_hist[q, slot, c]
                        marks[b, other] = 1
                b += 1  # as t % panes, without a division
                c += 1
                if b == panes:
                    b = c = q = 0
                elif c == width:
                    q += 1
                    c = 0
            if own_cell:
                for q in range(blocks):
                    for b in range(width):
                        item_hist[q, slot, b] = spare[q, b]
            else:
                for q in range(blocks):
                    for b in range(width):
                        item_hist[q, slot, b] = cell_hist[q, coarse, b]
        # What the filter ignores is slack, not error: it is added when the answer is read.
        extra = (add - w if add > w else nothing) + wrong
        control[INSERTS] += 1
        item[slot] = key
        born[slot] = pane
        seen[slot] = pane
        row[slot] = first_row + i - 1
        base[slot] = past
        cur[slot] = active + add
        err[slot] = past + active + extra
        if len(item_err):
            for q in range(blocks):
                for b in range(width):
                    item_err[q, slot, b] = item_hist[q, slot, b]
            ecur[slot] = active + extra
        table_add(table, shift, key, slot)
        if full:
            low[0] = past + active + add
            slack[0] = err[slot]
            sift(heap, capacity, 0, low, slack)
