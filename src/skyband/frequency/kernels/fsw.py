"""FSW, FSWr and FSWf over many panes and windows in one call."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.arrays import Array, Codes, Hashes, Ints, Mask
from skyband.frequency.kernels.item_heap import (
    PaneItems,
    heapify,
    least,
    sift,
    table_add,
    table_remove,
)
from skyband.kernels.arrange import with_room
from skyband.kernels.hashing import mix
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel


@jit
def _expire(s: Sketch, bucket: int, whole: bool, some: Codes) -> None:
    """Take a pane out of all sums; floating sums are added up again, so that no digits cancel.

    What has something in the bucket is listed first, in ``some``: a loop without branches.
    """
    control, base, err, hist = s.control, s.base, s.err, s.hist
    item_hist, item_err, cell_hist, marks = s.item_hist, s.item_err, s.cell_hist, s.marks
    s.held[bucket] = NEVER
    control[HEAPED] = 0
    block = bucket // item_hist.shape[2]
    b = bucket - block * item_hist.shape[2]
    n = 0
    for slot in range(len(base)):  # those without an item have nothing in any bucket
        some[n] = slot
        n += item_hist[block, slot, b] != 0
    control[UPDATES] += n
    for i in range(n):
        slot = some[i]
        gone = item_hist[block, slot, b]
        if len(item_err) == 0:
            err[slot] = max(err[slot] - gone, 0)
        base[slot] -= gone
        item_hist[block, slot, b] = 0
        if not whole:
            base[slot] = item_hist[:, slot].sum()
    if len(item_err):
        for slot in range(len(base)):
            err[slot] -= item_err[block, slot, b]
            item_err[block, slot, b] = 0
            if not whole:
                err[slot] = item_err[:, slot].sum()
    n = 0
    for cell in range(len(hist)):
        some[n] = cell
        n += marks[bucket, cell] != 0
    for i in range(n):
        cell = some[i]
        marks[bucket, cell] = 0
        hist[cell] -= cell_hist[block, cell, b]
        cell_hist[block, cell, b] = 0
        if not whole:
            hist[cell] = cell_hist[:, cell].sum()


@jit
def _remove_unseen(s: Sketch, live: int) -> None:
    """Forget the items that no live pane has seen: cells bound what may be left of them."""
    control, heap, seen = s.control, s.heap, s.seen
    at = 0
    while at < control[SIZE]:
        slot = heap[at]
        if seen[slot] >= live:
            at += 1
            continue
        table_remove(s.table, s.shift, s.item[slot])
        control[REMOVALS] += 1
        control[STAYED + min(live + len(s.held) - 1 - s.born[slot], 3)] += 1
        control[SIZE] -= 1
        heap[at] = heap[control[SIZE]]
        heap[control[SIZE]] = slot
        control[HEAPED] = 0


@jit
def _drop_before(s: Sketch, live: int, whole: bool, some: Codes) -> None:
    """Let the panes before ``live`` expire, and the items that no live pane has seen."""
    held = s.held
    expired = False
    for b in range(len(held)):
        if held[b] != NEVER and held[b] < live:
            _expire(s, b, whole, some)
            expired = True
    if expired:
        _remove_unseen(s, live)


@jit
def _lift(s: Sketch, missing: Any, pane: int) -> None:
    """Raise all bounds: items not seen so far may have occurred ``missing`` times in this pane."""
    fine, cur = s.fine, s.cur
    s.control[HEAPED] = 0
    for cell in range(len(fine)):
        fine[cell] += missing
    for at in range(s.control[SIZE]):
        slot = s.heap[at]
        if cur[slot] == 0 and s.seen[slot] != pane:
            cur[slot] += missing
            s.err[slot] += missing
            s.ecur[slot] += missing


@jit
def _close(s: Sketch, pane: int, some: Codes) -> None:
    """The pane's counts become a bucket, which was emptied when its last pane expired.

    What the pane has counted is listed first, as in ``_expire``.
    """
    cur, base, seen, hist, fine = s.cur, s.base, s.seen, s.hist, s.fine
    item_hist, cell_hist, marks, ratio = s.item_hist, s.cell_hist, s.marks, s.ratio
    bucket = pane % len(s.held)
    block = bucket // item_hist.shape[2]
    b = bucket - block * item_hist.shape[2]
    s.held[bucket] = pane
    n = 0
    for slot in range(len(base)):
        some[n] = slot
        n += cur[slot] > 0
    for i in range(n):
        slot = some[i]
        seen[slot] = pane
        item_hist[block, slot, b] = cur[slot]
        base[slot] += cur[slot]
        cur[slot] = 0
    if len(s.item_err):
        for slot in range(len(base)):
            s.item_err[block, slot, b] = s.ecur[slot]
            s.ecur[slot] = 0
    n = 0
    for coarse in range(len(hist)):
        first = coarse * ratio
        for cell in range(first + 1, first + ratio):
            fine[first] = max(fine[first], fine[cell])
        some[n] = coarse
        n += fine[first] > 0
    for i in range(n):
        coarse = some[i]
        most = fine[coarse * ratio]
        cell_hist[block, coarse, b] = most
        marks[bucket, coarse] = 1
        hist[coarse] += most
    for cell in range(len(fine)):
        fine[cell] = 0
    s.bits[:] = 0


@jit
def _proven(s: Sketch, first: int, mu: Any) -> bool:
    """Whether nothing was dropped in the panes from ``first`` on, which are the live ones."""
    if len(s.bits) or s.control[LOST] >= first or mu != 0:
        return False
    for at in range(s.control[SIZE]):
        if s.err[s.heap[at]] > 0:
            return False
    return True


@jit
def best(
    k: int, every: bool, control: Ints, base: Array, err: Array, heap: Codes,
    chosen: Codes, low: Array, slack: Array,
) -> int:  # fmt: skip
    """The best k slots by count, then the smaller error, and all that tie with the last of them.

    With ``every`` an equal count is a tie, whatever the error.
    """
    size = control[SIZE]
    kept = 0
    full = size == len(base)
    for at in range(size):
        slot = np.int32(at) if full else heap[at]
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
        slot = np.int32(at) if full else heap[at]
        if base[slot] > least_count or (
            base[slot] == least_count and (every or err[slot] <= least_error)
        ):
            chosen[kept] = slot
            kept += 1
    return kept


class GroupWork(NamedTuple):
    """Which groups are folded; for each, its runs and its windows."""

    groups: Ints
    runs: Ints  # positions of runs, by group and pane
    run_offsets: Ints
    first_window: Ints
    last_window: Ints


@jit
def _push(
    s: Sketch, pushed: PaneItems, run: int, raw: bool, whole: bool, spare: Array, some: Codes
) -> None:
    """Take one pane: let others expire, count what it brings, and end it."""
    pane = pushed.stamp[run]
    none = pushed.errors[:0]
    _drop_before(s, pane - len(s.held) + 1, whole, some)
    low, high = pushed.known_offsets[run], pushed.known_offsets[run + 1]
    if high > low:
        feed(
            s, pushed.known, len(none) > 0, pushed.counts, pushed.errors, low, high, len(none),
            pane, spare,
        )  # fmt: skip
    if pushed.missing[run] > 0:
        _lift(s, pushed.missing[run], pane)
    low, high = pushed.offsets[run], pushed.offsets[run + 1]
    feed(s, pushed.keys, raw, pushed.weights, none, low, high, len(pushed.known), pane, spare)
    _close(s, pane, some)


@jit
def _live(held: Ints) -> int:
    """How many panes have rows."""
    live = 0
    for b in range(len(held)):
        live += held[b] != NEVER
    return live


@kernel
def fold_fsw(
    all_groups: Sketch, plan: GroupWork, pushed: PaneItems, raw: bool, first: Ints, end: Ints,
    k: int, whole: bool,
) -> tuple[Ints, Ints, Array, Ints, Ints, Codes, Ints, Mask, Array, Ints]:  # fmt: skip
    """Push panes and read windows, group by group.

    A pane has items that were counted before (``known``, with ``counts`` and ``errors``; any other
    item occurred at most ``missing`` times) and then rows. Both are numbered in one sequence, known
    items first. Returns the items of answers: slots (numbered across all groups), the rows they
    were inserted by, (count, error), filter slack; and for each answer its window, its group, where
    it ends, whether it is proven exact, the greatest cell, and how many panes are live. A window in
    which a group has no rows is not answered.
    """
    capacity = all_groups.item.shape[1]
    kind = all_groups.base.dtype
    filtering = len(all_groups.bits) > 0
    chosen = np.empty(capacity, np.int32)
    own_low, own_slack = np.empty(capacity, kind), np.empty(capacity, kind)
    some = np.empty(max(capacity, all_groups.hist.shape[1]), np.int32)
    spare = np.empty((all_groups.item_hist.shape[1], all_groups.item_hist.shape[3]), kind)
    out_slot, out_row = np.empty(256, np.int64), np.empty(256, np.int64)
    out_value, out_slack = np.empty((256, 2), kind), np.empty(256, np.int64)
    most = 0
    for j in range(len(plan.groups)):
        most += plan.last_window[j] - plan.first_window[j]
    which, owner = np.empty(most, np.int64), np.empty(most, np.int32)
    ends, live = np.empty(most, np.int64), np.empty(most, np.int64)
    proven, mu = np.empty(most, np.bool_), np.empty(most, kind)
    n = answers = 0
    for j in range(len(plan.groups)):
        group = plan.groups[j]
        s = of_group(all_groups, group)
        at, stop = plan.run_offsets[j], plan.run_offsets[j + 1]
        for window in range(plan.first_window[j], plan.last_window[j]):
            while at < stop and pushed.stamp[plan.runs[at]] < end[window]:
                _push(s, pushed, plan.runs[at], raw, whole, spare, some)
                at += 1
            _drop_before(s, first[window], whole, some)
            panes = _live(s.held)
            if panes == 0:
                continue
            size = best(k, filtering, s.control, s.base, s.err, s.heap, chosen, own_low, own_slack)
            out_slot, out_row = with_room(out_slot, n, n + size), with_room(out_row, n, n + size)
            out_value = with_room(out_value, n, n + size)
            out_slack = with_room(out_slack, n, n + size)
            for i in range(size):
                slot = chosen[i]
                out_slot[n], out_row[n] = group * capacity + slot, s.row[slot]
                out_value[n, 0], out_value[n, 1] = s.base[slot], s.err[slot]
                out_slack[n] = 0
                if filtering:
                    for b in range(len(s.held)):
                        out_slack[n] += s.held[b] != NEVER and s.held[b] <= s.born[slot]
                n += 1
            which[answers], owner[answers], ends[answers] = window, group, n
            live[answers], mu[answers] = panes, s.hist.max()
            proven[answers] = _proven(s, first[window], mu[answers])
            answers += 1
        while at < stop:
            _push(s, pushed, plan.runs[at], raw, whole, spare, some)
            at += 1
    return (
        out_slot[:n], out_row[:n], out_value[:n], out_slack[:n], which[:answers], owner[:answers],
        ends[:answers], proven[:answers], mu[:answers], live[:answers],
    )  # fmt: skip


# FSW, FSWr and FSWf row by row: what a sketch holds, and how the rows of a pane change it --------
#
# Of the pane being counted only ``cur`` (items) and ``fine`` (cells) change; when it ends they
# become
# a bucket of the histograms ``item_hist`` and ``cell_hist``. Sums over the sealed panes are kept
# too, so
#
#     count of an item j     base[j] + cur[j]       = sum of item_hist[j] + cur[j]
#     bound of a cell k      hist[k // r] + fine[k] = sum of cell_hist[k // r] + fine[k]
#
# Buckets are circular: pane t has number t mod p, and ``held`` tells which pane a number holds.
# ``marks`` tells which cells have something in a bucket, so that an expiry reads no others.
#
# Histograms are stored in blocks of some 64 buckets: bucket b of item j is ``item_hist[b // w, j,
# b % w]``. An expiry reads one bucket of every item, so the buckets that it reads should be near
# each
# other; an insertion reads all buckets of one cell, so these should be near each other too.


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
