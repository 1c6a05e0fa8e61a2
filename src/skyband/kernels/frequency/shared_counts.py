"""Windows of several queries, read from one tape of (code, value) entries in the order of panes.

A window is a stretch of the tape, given by the numbers of its entries. Numbers count from the first
entry ever taken; the tape begins at number ``base``. Each entry knows the one before it of the same
code (``prev``), so the sum of one code takes one step per pane. There are three ways to read a
window, and each time the cheapest is taken:

    prune    The sums of the codes that won last time bound the k-th best sum from below. Only a
             code whose sum over the whole tape reaches that bound can win; those are added up.
             The codes with the greatest sums over the tape (``heavy``) are found once for all
             windows and queries, so no other is looked at unless the bound is below them.
    count    The window has few entries beside the codes of the tape, or the last one had fewer than
             k codes: add up its entries.
    move     Keep the sums of all codes; add the entries that came and subtract those that left.
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Array, Codes, Ints
from skyband.kernels.core.best import best_of
from skyband.kernels.core.jit import piece
from skyband.kernels.core.patient import kernel
from skyband.kernels.core.room import with_room

# Places in ``place``.
LOW, HIGH = 0, 1  # the entries that the moving sums cover
REST = 2  # windows to read before pruning is tried again
PAUSE = 3  # how long the next rest will be
KNOWN = 4  # how many winners of the last window are known
PRUNED = 5  # windows that were read by pruning
WINDOW = 6  # the next window to read
PLACES = 7
FIRST_PAUSE = 8
_LONGEST_PAUSE = 1024


@kernel
def link(
    code: Codes, value: Array, prev: Ints, start: int, base: int, last: Ints, refs: Codes,
    total: Array,
) -> None:  # fmt: skip
    """Take the entries from place ``start`` of the tape on."""
    for i in range(start, len(code)):
        c = code[i]
        prev[i] = last[c] if refs[c] else -1
        last[c] = base + i
        refs[c] += 1
        total[c] += value[i, 0]


@kernel
def unlink(code: Codes, value: Array, stop: int, refs: Codes, total: Array) -> Codes:
    """Drop the entries before place ``stop``; returns the codes without entries."""
    dead = np.empty(stop, np.int32)
    n = 0
    for i in range(stop):
        c = code[i]
        refs[c] -= 1
        total[c] -= value[i, 0]
        if refs[c] == 0:
            dead[n] = c
            n += 1
    return dead[:n].copy()


@piece
def _walk(
    c: int, value: Array, prev: Ints, base: int, last: Ints, low: int, high: int, found: Array
) -> tuple[int, bool]:
    """Add up a code over the entries from low to high; the steps taken, and whether it has any."""
    at, steps, there = last[c], 0, False
    found[c, 0] = 0
    while at >= high:
        at = prev[at - base]
        steps += 1
    while at >= low:
        found[c, 0] += value[at - base, 0]
        there = True
        at = prev[at - base]
        steps += 1
    return steps, there


@piece
def _prune(
    value: Array, prev: Ints, base: int, last: Ints, refs: Codes, total: Array, heavy: Ints,
    heavy_total: Array, floor: int, low: int, high: int, winners: Ints, known: int, found: Array,
    members: Ints, most: int,
) -> int:  # fmt: skip
    """Add up the codes that can win; returns how many, or -1 if they are too many."""
    bound = total[0] * 0
    for j in range(known):
        c = winners[j]
        if c >= len(refs) or refs[c] == 0:
            return -1
        _, there = _walk(c, value, prev, base, last, low, high, found)
        if not there:
            return -1
        if j == 0 or found[c, 0] < bound:
            bound = found[c, 0]
    n = steps = 0
    every = len(heavy) == 0 or bound <= floor
    for i in range(len(total) if every else len(heavy)):
        c = i if every else heavy[i]
        if not every and heavy_total[i] < bound:
            break
        if total[c] >= bound and refs[c] > 0:
            taken, there = _walk(c, value, prev, base, last, low, high, found)
            steps += taken
            if steps > most:
                return -1
            if there:
                members[n] = c
                n += 1
    return n


@piece
def _count(
    code: Codes, value: Array, start: int, stop: int, seen: Codes, found: Array, members: Ints
) -> int:
    """Add up the entries from ``start`` to ``stop``; returns how many codes they have."""
    n = 0
    for i in range(start, stop):
        c = code[i]
        if seen[c] == 0:
            seen[c] = 1
            found[c, 0] = 0
            members[n] = c
            n += 1
        found[c, 0] += value[i, 0]
    for j in range(n):
        seen[members[j]] = 0
    return n


@piece
def _move(
    code: Codes, value: Array, base: int, place: Ints, low: int, high: int, sums: Array,
    there: Codes,
) -> None:  # fmt: skip
    """Make the moving sums cover the entries from low to high."""
    moved = low - place[LOW] + high - place[HIGH]
    if place[LOW] < base or place[HIGH] <= low or moved > high - low:
        sums[:] = 0
        there[:] = 0
        place[LOW] = place[HIGH] = low
    for i in range(place[HIGH] - base, high - base):
        sums[code[i], 0] += value[i, 0]
        there[code[i]] += 1
    for i in range(place[LOW] - base, low - base):
        sums[code[i], 0] -= value[i, 0]
        there[code[i]] -= 1
    place[LOW], place[HIGH] = low, high


@kernel
def read_windows(
    code: Codes, value: Array, prev: Ints, base: int, last: Ints, refs: Codes, total: Array,
    heavy: Ints, heavy_total: Array, floor: int, low: Ints, high: Ints, order_key: Ints, k: int,
    decided: bool, place: Ints, winners: Ints, sums: Array, there: Codes, found: Array, seen: Codes,
    members: Ints, heap: Ints,
) -> tuple[Codes, Array, Ints]:  # fmt: skip
    """The best k codes of each window and their sums; and where each window's answer ends.

    If order keys do not decide, codes that tie with the last one follow it. Stops where moving sums
    are needed but have no room yet. The sums of ``heavy`` over the tape are at most ``heavy_total``
    (descending), and those of all other codes at most ``floor``. ``found``, ``seen`` (all zero),
    ``members`` and ``heap`` are room to work in.
    """
    known = len(total)
    everything, all_live = np.empty(0, np.int64), np.empty(0, np.int32)
    out_code, out_value = np.empty(1024, np.int32), np.empty((1024, 1), value.dtype)
    ends = np.zeros(len(low), np.int64)
    n = 0
    while place[WINDOW] < len(low):
        window = place[WINDOW]
        entries = high[window] - low[window]
        few = 4 * entries < known or place[KNOWN] < k
        count = -1
        if not few and place[REST] == 0:
            count = _prune(
                value, prev, base, last, refs, total, heavy, heavy_total, floor, low[window],
                high[window], winners, place[KNOWN], found, members, known // 4 + 8192,
            )  # fmt: skip
            if count < 0:
                place[REST] = place[PAUSE]
                place[PAUSE] = min(2 * place[PAUSE], _LONGEST_PAUSE)
            else:
                place[PAUSE] = FIRST_PAUSE
                place[PRUNED] += 1
        elif place[REST] > 0:
            place[REST] -= 1
        if few:
            start, stop = low[window] - base, high[window] - base
            count = _count(code, value, start, stop, seen, found, members)
        if count >= 0:
            size = best_of(members, 0, count, all_live, found, order_key, k, decided, heap)
        elif len(there) < known:
            break
        else:
            _move(code, value, base, place, low[window], high[window], sums, there)
            size = best_of(everything, 0, known, there, sums, order_key, k, decided, heap)
        if n + size > len(out_code):
            out_code = with_room(out_code, n, n + size)
            out_value = with_room(out_value, n, n + size)
        for j in range(size):
            out_code[n] = heap[j]
            out_value[n, 0] = found[heap[j], 0] if count >= 0 else sums[heap[j], 0]
            n += 1
        ends[window] = n
        place[KNOWN] = min(size, k)
        for j in range(place[KNOWN]):
            winners[j] = heap[j]
        place[WINDOW] += 1
    return out_code[:n], out_value[:n], ends[: place[WINDOW]]
