"""The framework of PABF (section 3 of the paper, Algorithm 1) and its answers (section 6).

The rows of a pane, already filtered, are compared with the results at once and otherwise put aside.
They are merged into the buckets when they have become a few times k, or when the results run dry.

``best`` holds the results: between k and 2k live rows, best first. Every live row that is not among
them has at most the level FLOOR, and they have at least that level, so the first k of them have the
levels of the true first k. New rows above the floor are merged in; where there are more than 2k,
the last ones go and the floor rises to their level. Expiry leaves gaps; when fewer than k rows are
left, the 2k rows that come first in the buckets are taken again.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Array, Codes, Floats, Ints
from skyband.kernels.arrange import with_room
from skyband.kernels.borrow import copy_rows
from skyband.kernels.jit import jit, piece
from skyband.kernels.patient import kernel
from skyband.kernels.select import PaneRows
from skyband.kernels.sorting import kth_greatest, sort_best

# Section 5 of the PABF paper: candidates in buckets, Local-Merge and Global-Merge ----------------
#
#     rows    | bucket 2 (old)       | bucket 1     | bucket 0 | fresh rows | free
#             cut[3]=0               cut[2]         cut[1]     cut[0]       USED
#
# Bucket j holds about e^(j+1) k rows, all newer than those of bucket j + 1. Rows are sorted by
# level, highest first; a *node* is the stretch of one level, its members newest pane first and
# best first within a pane. That is the order ``before``. The rows before a row that are as new or
# newer are its dominators: any of them can stand for it as long as it lives. Each row has their
# number, and is dropped when it has k of them.
#
# Levels are scores cut into fixed steps a little narrower than epsilon. Two rows of one level
# differ by less than epsilon, so one may stand for the other; a level never moves, whatever
# arrives later. Steps are a thousandth narrower than epsilon, which covers the rounding of the
# division for quotients below 2^40; beyond them, and at infinity, every score is a level of its
# own. Integers are divided as integers, exactly. Keys are sortable integers
# (``skyband.data.order``), greater is better, so queries for the smallest scores need no code of
# their own.
#
# Dominators increase from the first member of a node to the last, so a node loses its tail, and the
# count of each member says when (the paper keeps one count per node, which deletes too much).


LOWEST = -(1 << 63)
_LOW_BITS = 0x7FFF_FFFF_FFFF_FFFF
_INFINITY = 0x7FF0_0000_0000_0000
_FAR = float(1 << 40)
_OWN = 1 << 50

KEY, TIE, SLOT, PANE, LEVEL, DOMINATORS = range(6)
(
    USED, FIRST, RESULTS, OLDEST, FLOOR, AT_FLOOR, ABOVE_FLOOR,
    LOCAL_MERGES, GLOBAL_MERGES, MERGED, REFILLS, REFILLED, INSERTED,
) = range(13)  # fmt: skip
BUCKETS = 24  # the last would hold e^24 k rows
GROWTH = 2.718281828459045  # the minimum of phi log_phi(x), formula (4), is at e for every x


class Candidates(NamedTuple):
    """All state of one group: see the drawing; ``best`` is described in ``pabf.py``."""

    rows: Ints
    cut: Ints
    head: Ints  # the first row of each bucket that may be live
    newest: Ints  # the newest pane of each bucket
    best: Ints
    meta: Ints


@jit
def level_of(key: Any, width: float, whole: int) -> Any:
    """The level of a key; ``whole`` is the step of integer scores, ``width`` (and 0) of others."""
    if whole > 0:
        return key // whole
    bits = np.int64(key ^ ((key >> 63) & _LOW_BITS))
    place = bits.view(np.float64) / width
    if -_FAR < place < _FAR:
        return np.int64(math.floor(place))
    size = _OWN + (bits & _LOW_BITS)
    return size if key >= 0 else -size


@jit
def least_key(level: int, width: float, whole: int) -> Any:
    """The least key whose level is at least this one, the one after all keys if none has it."""
    if whole > 0:
        low, high = np.int64(LOWEST), np.int64(_LOW_BITS)
    else:
        low, high = np.int64(~_INFINITY), np.int64(_INFINITY)
    if level_of(low, width, whole) >= level:
        return low
    if level_of(high, width, whole) < level:
        return high + (high < _LOW_BITS)
    while high - 1 != low:
        middle = (low & high) + ((low ^ high) >> 1)  # their mean, without overflow
        if level_of(middle, width, whole) >= level:
            high = middle
        else:
            low = middle
    return high


@jit
def before(rows: Ints, a: int, b: int) -> bool:
    """Whether row a comes before row b: higher level, then newer pane, then better row."""
    if rows[a, LEVEL] != rows[b, LEVEL]:
        return bool(rows[a, LEVEL] > rows[b, LEVEL])
    if rows[a, PANE] != rows[b, PANE]:
        return bool(rows[a, PANE] > rows[b, PANE])
    return bool(rows[a, KEY] > rows[b, KEY])


@jit
def _copy_row(source: Ints, at: int, target: Ints, to: int) -> None:
    for column in range(6):  # numba takes long to compile the assignment of a row
        target[to, column] = source[at, column]


@jit
def reserve(state: Candidates, more: int) -> Candidates:
    """The state with room for so many more fresh rows."""
    rows = with_room(state.rows, state.meta[USED], state.meta[USED] + more)
    return Candidates(rows, state.cut, state.head, state.newest, state.best, state.meta)


@jit
def local_merge(state: Candidates, k: int, width: float, whole: int) -> None:
    """Bring the fresh rows of one or more panes into bucket 0, and on while a bucket is full."""
    rows, cut, meta = state.rows, state.cut, state.meta
    if meta[USED] == cut[0]:
        return
    _drop_oldest(state)
    fresh = _sweep(rows, cut[0], meta[USED], k, width, whole)
    newest = rows[meta[USED] - 1, PANE]
    meta[LOCAL_MERGES] += 1
    into = 0
    room = GROWTH * k
    while True:
        if state.head[into] < cut[into]:
            fresh = _merge(fresh, rows, state.head[into], cut[into], meta[FIRST], k)
            meta[MERGED] += len(fresh)
        if len(fresh) <= room or into == BUCKETS - 1:
            break
        cut[into] = cut[into + 1]  # the bucket is full: it is emptied into the next
        state.head[into] = cut[into]
        into += 1
        room *= GROWTH
        meta[GLOBAL_MERGES] += 1
    base = cut[into + 1]
    end = base + len(fresh)
    for i in range(len(fresh)):
        _copy_row(fresh, i, rows, base + i)
    for j in range(into + 1):
        cut[j] = end
        state.head[j] = end
    state.head[into] = base
    state.newest[into] = newest
    meta[USED] = end


@jit
def _drop_oldest(state: Candidates) -> None:
    """Drop the oldest bucket if all of it has expired."""
    rows, cut, meta = state.rows, state.cut, state.meta
    j = BUCKETS - 1
    while j >= 0 and cut[j] == cut[j + 1]:
        j -= 1
    if j < 0 or state.newest[j] >= meta[FIRST]:
        return
    gone = cut[j]
    for i in range(gone, meta[USED]):
        _copy_row(rows, i, rows, i - gone)
    for i in range(j + 1):
        state.head[i] = max(state.head[i] - gone, 0)
        cut[i] -= gone
    meta[USED] -= gone


@jit
def _sweep(rows: Ints, start: int, end: int, k: int, width: float, whole: int) -> Ints:
    """The fresh rows with fewer than k dominators, sorted, with their counts.

    From the newest pane to the oldest, a heap holds the k rows that come first, the last of them on
    top, so it rejects most rows with one comparison. A row that a better one of an older pane
    pushes out has fewer than k dominators, and such rows come out sorted, the last one first; a row
    that one of its own pane pushes out has k.
    """
    kept = np.empty(end - start, np.int64)
    age = np.empty(end - start, np.int64)
    heap = np.empty((k, 4), np.int64)  # level, pane, key, row
    size, count, panes = 0, 0, 0
    pane = rows[end - 1, PANE]
    for at in range(end - 1, start - 1, -1):
        key = rows[at, KEY]
        if rows[at, PANE] != pane:
            pane = rows[at, PANE]
            panes += 1
        if size == k and key < heap[0, 2]:
            continue
        level = level_of(key, width, whole)
        rows[at, LEVEL] = level
        age[at - start] = panes
        if size < k:
            place = size
            size += 1
            while place > 0 and _after(heap, (place - 1) >> 1, level, pane, key):
                for column in range(4):
                    heap[place, column] = heap[(place - 1) >> 1, column]
                place = (place - 1) >> 1
            _set(heap, place, level, pane, key, at)
        elif not _after(heap, 0, level, pane, key):
            if heap[0, 1] != pane:
                kept[count] = heap[0, 3]
                count += 1
            _sink(heap, size, level, pane, key, at)
    while size > 0:
        kept[count] = heap[0, 3]
        count += 1
        size -= 1
        last = size
        _sink(heap, size, heap[last, 0], heap[last, 1], heap[last, 2], heap[last, 3])
    # Dominators: rows before this one that are as new. A Fenwick tree counts them by age.
    tree = np.zeros(panes + 2, np.int64)
    sorted_rows = np.empty((count, 6), np.int64)
    for i in range(count):
        source = kept[count - 1 - i]
        _copy_row(rows, source, sorted_rows, i)
        at = age[source - start] + 1
        found = 0
        node = at
        while node > 0:
            found += tree[node]
            node &= node - 1
        sorted_rows[i, DOMINATORS] = found
        while at < len(tree):
            tree[at] += 1
            at += at & -at
    return sorted_rows


@jit
def _after(heap: Ints, place: int, level: int, pane: int, key: int) -> Any:
    """Whether a row comes after the one at a place, or equals it; compared without branches."""
    one, two, three = heap[place, 0], heap[place, 1], heap[place, 2]
    return (one > level) | ((one == level) & ((two > pane) | ((two == pane) & (three >= key))))


@jit
def _set(heap: Ints, place: int, level: int, pane: int, key: int, row: int) -> None:
    heap[place, 0] = level
    heap[place, 1] = pane
    heap[place, 2] = key
    heap[place, 3] = row


@jit
def _sink(heap: Ints, size: int, level: int, pane: int, key: int, row: int) -> None:
    """Put a row in the place of the top of the heap, which is the last row in order."""
    place = 0
    child = 1
    while child < size:
        if child + 1 < size:
            child += _after(heap, child, heap[child + 1, 0], heap[child + 1, 1], heap[child + 1, 2])
        if _after(heap, child, level, pane, key):
            break
        for column in range(4):
            heap[place, column] = heap[child, column]
        place = child
        child = 2 * place + 1
    _set(heap, place, level, pane, key, row)


@jit
def _merge(newer: Ints, rows: Ints, low: int, high: int, first: int, k: int) -> Ints:
    """Merge newer rows with the older ``rows[low:high]``, without dominated and expired ones.

    An older row is dominated by every newer row of at least its level; the merge adds the number of
    those so far. A row dropped earlier makes no difference: k others count in its place.
    """
    merged = np.empty((len(newer) + high - low, 6), np.int64)
    count, taken, old = 0, 0, low
    dominating = 0
    while taken < len(newer) or (old < high and dominating < k):
        if taken < len(newer) and (
            old == high or dominating >= k or newer[taken, LEVEL] >= rows[old, LEVEL]
        ):
            if newer[taken, PANE] >= first:
                _copy_row(newer, taken, merged, count)
                count += 1
                dominating += 1
            taken += 1
            continue
        if rows[old, DOMINATORS] + dominating < k and rows[old, PANE] >= first:
            _copy_row(rows, old, merged, count)
            merged[count, DOMINATORS] += dominating
            count += 1
        old += 1
    return merged[:count]


_ROOM = 32
"""Fresh rows, in multiples of k, that wait for a Local-Merge."""


def room_for(k: int, panes: int) -> int:
    """Fresh rows that may wait, for windows of so many panes: less than half of a short window."""
    return k * max(1, min(_ROOM, panes // 2))


def new_candidates(k: int) -> Candidates:
    """An empty state."""
    meta = np.zeros(13, np.int64)
    for name in (FIRST, FLOOR, AT_FLOOR, ABOVE_FLOOR):
        meta[name] = LOWEST
    meta[OLDEST] = np.iinfo(np.int64).max
    return Candidates(
        np.empty((64, 6), np.int64), np.zeros(BUCKETS + 1, np.int64), np.zeros(BUCKETS, np.int64),
        np.full(BUCKETS, LOWEST), np.empty((2 * k, 4), np.int64), meta,
    )  # fmt: skip


@kernel
def fold_candidates(
    state: Candidates, k: int, room: int, width: float, whole: int, runs: PaneRows, run_first: Ints,
    window_first: Ints, window_end: Ints,
) -> tuple[Candidates, Ints, Ints]:  # fmt: skip
    """Push runs and read windows; rows found as columns (key, tie, slot), and offsets.

    ``run_first`` is the oldest pane that any reading after a run can ask for.
    """
    run_pane, offsets, key, tie, slot = runs
    longest = 0
    for run in range(len(run_pane)):
        longest = max(longest, offsets[run + 1] - offsets[run])
    chosen, spare = np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64)
    shown = min(k, state.meta[USED] + state.meta[RESULTS] + len(key))
    found = np.empty((3, len(window_end) * shown), np.int64)
    cuts = np.zeros(len(window_end) + 1, np.int64)
    at_run, filled = 0, 0
    for step in range(len(window_end) + 1):
        reading = step < len(window_end)
        while at_run < len(run_pane) and (not reading or run_pane[at_run] < window_end[step]):
            low, high = offsets[at_run], offsets[at_run + 1]
            _expire(state, run_first[at_run])
            if state.meta[USED] - state.cut[0] + high - low > room:
                local_merge(state, k, width, whole)
            state = reserve(state, high - low)
            rows, meta = state.rows, state.meta
            start = meta[USED]
            for i in range(low, high):
                at = start + i - low
                rows[at, KEY] = key[i]
                rows[at, TIE] = tie[i]
                rows[at, SLOT] = slot[i]
                rows[at, PANE] = run_pane[at_run]
            meta[USED] = start + high - low
            _insert(state, k, key, low, high, width, whole, chosen, spare)
            at_run += 1
        if not reading:
            break
        _expire(state, window_first[step])
        best, meta = state.best, state.meta
        if meta[RESULTS] < k and meta[FLOOR] != LOWEST:
            _refill(state, k, width, whole)
        count = min(k, meta[RESULTS])
        for i in range(count):
            found[0, filled + i] = best[i, KEY]
            found[1, filled + i] = best[i, TIE]
            found[2, filled + i] = best[i, SLOT]
        filled += count
        cuts[step + 1] = filled
    return state, found[:, :filled], cuts


@jit
def _expire(state: Candidates, first: int) -> None:
    """Drop the panes before ``first``."""
    best, meta = state.best, state.meta
    if first <= meta[FIRST]:
        return
    meta[FIRST] = first
    if meta[OLDEST] >= first:
        return
    kept = 0
    oldest = np.int64(0x7FFF_FFFF_FFFF_FFFF)
    for i in range(meta[RESULTS]):
        if best[i, PANE] >= first:
            oldest = min(oldest, best[i, PANE])
            if kept < i:
                _copy(best, i, best, kept)
            kept += 1
    meta[RESULTS] = kept
    meta[OLDEST] = oldest


@jit
def _insert(
    state: Candidates, k: int, key: Ints, low: int, high: int, width: float, whole: int,
    chosen: Ints, spare: Ints,
) -> None:  # fmt: skip
    """Add what the results need of the last fresh rows, whose keys are ``key[low:high]``."""
    rows, best, meta = state.rows, state.best, state.meta
    size = meta[RESULTS]
    # Rows of the floor's own level fill gaps, but never push anything out.
    bound = meta[AT_FLOOR] if size < k + k // 2 else meta[ABOVE_FLOOR]
    start = meta[USED] - (high - low)
    count = 0
    for i in range(high - 1, low - 1, -1):  # later rows first: ties are in this order
        if key[i] >= bound:
            chosen[count] = start + i - low
            count += 1
    if count == 0:
        return
    sort_best(chosen[:count], spare[:count], rows[:, KEY], rows[:, TIE])
    meta[INSERTED] += count
    meta[OLDEST] = min(meta[OLDEST], rows[start, PANE])
    # Merge from the back: a row is moved once, and none before the first new one.
    limit = 2 * k
    lost = np.int64(LOWEST)
    old, new = size - 1, count - 1
    place = size + count - 1
    meta[RESULTS] = min(place + 1, limit)
    while new >= 0:
        row = chosen[new]
        keep_old = old >= 0 and (
            best[old, KEY] < rows[row, KEY]
            or (best[old, KEY] == rows[row, KEY] and best[old, TIE] < rows[row, TIE])
        )
        if place >= limit:
            lost = best[old, KEY] if keep_old else rows[row, KEY]
        elif keep_old:
            _copy(best, old, best, place)
        else:
            _copy(rows, row, best, place)
        if keep_old:
            old -= 1
        else:
            new -= 1
        place -= 1
    if size + count > limit:
        _raise_floor(state, level_of(lost, width, whole), width, whole)


@jit
def _raise_floor(state: Candidates, level: Any, width: float, whole: int) -> None:
    meta = state.meta
    if level == meta[FLOOR]:
        return
    meta[FLOOR] = level
    meta[AT_FLOOR] = least_key(level, width, whole)
    meta[ABOVE_FLOOR] = least_key(level + 1, width, whole)


@jit
def _refill(state: Candidates, k: int, width: float, whole: int) -> None:
    """Replace the results by the 2k live rows that come first in all buckets."""
    rows, cut, best, meta = state.rows, state.cut, state.best, state.meta
    meta[REFILLS] += 1
    chosen, spare = np.empty(2 * k, np.int64), np.empty(2 * k, np.int64)
    while True:
        count, more = _first_of_buckets(state, 2 * k, chosen)
        if meta[USED] == cut[0]:
            break
        # Fresh rows matter only if one of them can have a higher level than the last row taken.
        if count == 2 * k:
            top = np.int64(LOWEST)
            for at in range(cut[0], meta[USED]):
                top = max(top, rows[at, KEY])
            if level_of(top, width, whole) <= rows[chosen[count - 1], LEVEL]:
                more = True
                break
        local_merge(state, k, width, whole)
    floor = rows[chosen[count - 1], LEVEL] if more else np.int64(LOWEST)
    sort_best(chosen[:count], spare[:count], rows[:, KEY], rows[:, TIE])
    oldest = np.int64(0x7FFF_FFFF_FFFF_FFFF)
    for i in range(count):
        _copy(rows, chosen[i], best, i)
        oldest = min(oldest, best[i, PANE])
    meta[RESULTS] = count
    meta[REFILLED] += count
    meta[OLDEST] = oldest
    if more:
        _raise_floor(state, floor, width, whole)
    else:
        meta[FLOOR] = meta[AT_FLOOR] = meta[ABOVE_FLOOR] = LOWEST


@jit
def _first_of_buckets(state: Candidates, limit: int, chosen: Ints) -> tuple[int, bool]:
    """The rows that come first in all buckets, and whether there are more."""
    rows, cut, head, meta = state.rows, state.cut, state.head, state.meta
    first = meta[FIRST]
    deep = BUCKETS
    while deep > 0 and cut[deep - 1] == cut[deep]:
        deep -= 1
    for j in range(deep):  # never look again at what has expired at a bucket's head
        while head[j] < cut[j] and rows[head[j], PANE] < first:
            head[j] += 1
    at = head[:deep].copy()
    count = 0
    while True:
        pick = -1
        for j in range(deep):
            while at[j] < cut[j] and rows[at[j], PANE] < first:
                at[j] += 1
            if at[j] < cut[j] and (pick < 0 or before(rows, at[j], at[pick])):
                pick = j
        if pick < 0 or count == limit:
            return count, pick >= 0
        chosen[count] = at[pick]
        at[pick] += 1
        count += 1


@jit
def _copy(source: Ints, at: int, target: Ints, to: int) -> None:
    for column in range(4):  # key, tie, slot, pane
        target[to, column] = source[at, column]


# Section 4 of the PABF paper: guessing the k-th best score of a pane -----------------------------
#
# Rows of a pane that reach the *cut* survive; of these the best k are chosen. If fewer than k
# survive, the pane is scanned again without a cut, so a filter never loses a row: a bad guess
# only costs time. Four ways to guess:
#
#     stationary   the zeta-th best score of an earlier pane (4.2.1)
#     time         a parabola through the k-th best scores of the last panes, less a margin (4.2.2)
#     none-known   a quantile of a sample of the pane itself (4.2.3)
#     auto         whichever of them has served best lately
#
# Scores are read as floats, greater is better. Conversion keeps their order, so survivors are
# always the best of the pane, even where large integers become equal.


STATIONARY, TIME, NONE_KNOWN, AUTO = range(4)

# What is known of a group: the stationary cut; how well each guess did; the last panes.
CUT, MISSED_STATIONARY, MISSED_TIME, SLACK_STATIONARY, SLACK_TIME, ERROR, SEEN = range(7)
_HISTORY = 7
POINTS = 8
FIELDS = _HISTORY + 2 * POINTS

PANES, RESCANS, RELEARNED, SURVIVED, UNFILTERED, BY_STATIONARY, BY_TIME, BY_SAMPLE = range(8)

_FADE = 1 / 16
"""How much the latest pane counts in running means."""


def new_learned(groups: int) -> Floats:
    """The state of so many groups of which nothing is known."""
    learned = np.zeros((groups, FIELDS))
    learned[:, CUT] = np.nan
    return learned


@kernel
def filter_runs(
    score: Array, sign: float, offsets: Ints, pane: Ints, group: Codes, k: int, kind: int,
    zeta: int, quantile: float, learned: Floats, counts: Ints,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Positions of the rows of each run from the k-th best score up, ascending, and offsets.

    All rows that equal the k-th are taken, so a run may return more than k. ``quantile`` is that of
    delta under the normal distribution.
    """
    runs = len(offsets) - 1
    longest, total = 1, 0
    for run in range(runs):
        n = offsets[run + 1] - offsets[run]
        longest = max(longest, n)
        total += min(n, k)
    found = np.empty(total + longest, np.int64)
    ends = np.zeros(runs + 1, np.int64)
    rows = np.empty(longest + 1, np.int64)
    values, work, spare = np.empty(longest), np.empty(longest), np.empty(longest)
    at = ends[0]
    for run in range(runs):
        first, last = offsets[run], offsets[run + 1]
        n = last - first
        found = with_room(found, at, at + n)
        if n <= k:
            for i in range(first, last):
                found[at] = i
                at += 1
            ends[run + 1] = at
            continue
        counts[PANES] += 1
        known = learned[group[run]]
        way, cut, fit = kind, np.nan, np.nan
        if n > zeta:
            way, cut, fit = _guess(known, kind, pane[run], quantile)
            if way == NONE_KNOWN or np.isnan(cut):
                way = NONE_KNOWN
                cut = _sampled(score, sign, first, n, k, quantile, work, spare)
        m = 0
        if np.isnan(cut):
            counts[UNFILTERED] += 1
        else:
            counts[BY_STATIONARY + way] += 1
            for i in range(first, last):  # without branches: a row that fails is overwritten
                rows[m] = i
                m += sign * score[i] >= cut
            counts[SURVIVED] += m
            counts[RESCANS] += m < k
        rescanned = m < k
        if rescanned:
            for i in range(first, last):
                rows[i - first] = i
            m = n
        for j in range(m):
            values[j] = sign * score[rows[j]]
            work[j] = values[j]
        kth = kth_greatest(work, spare, m, k)
        for j in range(m):
            found[at] = rows[j]
            at += values[j] >= kth
        ends[run + 1] = at
        if n > zeta and kind != NONE_KNOWN:
            stale = np.isnan(known[CUT]) or known[CUT] > kth or m > 2 * zeta + 8
            fresh = known[CUT]
            if kind != TIME and (stale or (way != STATIONARY and rescanned)):
                # The zeta-th best, or the least survivor where fewer survived.
                counts[RELEARNED] += 1
                copy_rows(work, values, m)
                fresh = kth_greatest(work, spare, m, min(zeta, m))
            if kind == AUTO:
                _judge(known, MISSED_STATIONARY, SLACK_STATIONARY, known[CUT], kth)
            known[CUT] = fresh
            if kind != STATIONARY:
                _observe(known, pane[run], fit, kth, quantile)
    return found[:at], ends


@piece
def _guess(known: Floats, kind: int, pane: int, quantile: float) -> tuple[int, float, float]:
    """The way to guess, its cut, and the value of the parabola; NaN if unknown."""
    fit = np.nan
    cut = np.nan
    way = kind
    if kind == TIME or kind == AUTO:
        fit = _fitted(known, pane)
    if kind == AUTO:
        way = _choice(known, fit)
    if way == STATIONARY:
        cut = known[CUT]
    elif way == TIME:
        cut = fit - quantile * np.sqrt(known[ERROR])
    return way, cut, fit


@piece
def _choice(known: Floats, fit: float) -> int:
    """The guess that has done best: rarely too high, then closest."""
    stationary, time = known[MISSED_STATIONARY], known[MISSED_TIME]
    if np.isnan(fit) or np.isnan(known[CUT]):
        return NONE_KNOWN if stationary > 0.25 or np.isnan(known[CUT]) else STATIONARY
    if min(stationary, time) > 0.25:
        return NONE_KNOWN
    if max(stationary, time) <= 0.25:
        return TIME if known[SLACK_TIME] < 0.8 * known[SLACK_STATIONARY] else STATIONARY
    return STATIONARY if stationary < time else TIME


@jit
def _judge(known: Floats, missed: int, slack: int, cut: float, kth: float) -> None:
    """Note whether a guess would have been too high, and otherwise how much too low it was."""
    if np.isnan(cut):
        return
    known[missed] += _FADE * ((cut > kth) - known[missed])
    if cut <= kth and np.isfinite(kth - cut):
        known[slack] += _FADE * ((kth - cut) - known[slack])


@piece
def _fitted(known: Floats, pane: int) -> float:
    """The parabola through the last panes' k-th best scores, by least squares, at this pane."""
    if known[SEEN] < POINTS:
        return np.nan
    span = 1.0
    for i in range(POINTS):
        span = max(span, pane - known[_HISTORY + 2 * i])
    s1, s2, s3, s4, t0, t1, t2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(POINTS):
        x = (known[_HISTORY + 2 * i] - pane) / span
        y = known[_HISTORY + 2 * i + 1]
        s1 += x
        s2 += x * x
        s3 += x * x * x
        s4 += x * x * x * x
        t0 += y
        t1 += x * y
        t2 += x * x * y
    # Cramer's rule for the constant term, which is the value at x = 0.
    a, b, c = s2 * s4 - s3 * s3, s1 * s4 - s2 * s3, s1 * s3 - s2 * s2
    below = POINTS * a - s1 * b + s2 * c
    return (t0 * a - t1 * b + t2 * c) / below if below > 1e-9 else np.nan


@jit
def _observe(known: Floats, pane: int, fit: float, kth: float, quantile: float) -> None:
    """Add a pane to the history; the error is that of the prediction, fit and noise together."""
    if not np.isfinite(kth):
        return
    if not np.isnan(fit):
        error = (kth - fit) ** 2
        settled = known[SEEN] >= 2 * POINTS
        _judge(known, MISSED_TIME, SLACK_TIME, fit - quantile * np.sqrt(known[ERROR]), kth)
        known[ERROR] += (_FADE if settled else 0.5) * (error - known[ERROR])
    place = _HISTORY + 2 * (int(known[SEEN]) % POINTS)
    known[place] = pane
    known[place + 1] = kth
    known[SEEN] += 1


@jit
def _sampled(
    score: Array, sign: float, first: int, n: int, k: int, quantile: float, work: Floats,
    spare: Floats,
) -> Any:  # fmt: skip
    """A score that at least k of n rows reach with the probability of the quantile.

    The d-th best of c sampled rows is reached by about n d / c of all, give or take n sqrt(d) / c.
    """
    count = 64 if n < 4096 else 256
    if 4 * count > n:
        return np.nan
    root = (quantile + np.sqrt(quantile * quantile + 4.0 * count * k / n)) / 2
    depth = int(np.ceil(root * root))
    if 2 * depth > count:
        return np.nan
    step = n // count
    seed = n & 0xFFFF
    for j in range(count):
        seed = (seed * 1_664_525 + 1_013_904_223) & 0xFFFF_FFFF
        work[j] = sign * score[first + j * step + ((seed * step) >> 32)]
    return kth_greatest(work, spare, count, depth)
