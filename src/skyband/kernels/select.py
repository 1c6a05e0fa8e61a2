"""The best k rows of every run: one pass over the scores, nearly at the speed of reading them.

A run is scanned against a *cut*, a score that a little more than k of its rows are expected to
reach; 64 comparisons at a time become the bits of one word, so that rows below the cut cost next to
nothing. The cut comes from earlier runs; if it lets too few or far too many rows through, it is
taken from a sample of the run itself, and as a last resort the whole run is searched. So only the
speed depends on the guess, never the answer. Among the rows that reach the cut, the k-th
best is found by quickselect.

Expected time O(n + k) per run, for any order of the scores; extra space O(longest run).

To compile once for all types of one width, kernels see the bits of the scores as integers:

    key(bits)                    an integer in the order of the scores, greater is better
    bits ^ mask >= bound         the same as key(bits) >= cut, with one operation per row
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Array, Ints
from skyband.kernels.arrange import with_room
from skyband.kernels.borrow import borrowed, frozen
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel
from skyband.kernels.sorting import kth_greatest

# What every TopK algorithm folds: runs of rows, one per pane and group ---------------------------


KEY, TIE = 0, 1  # columns of kept rows, in every algorithm


class PaneRows(NamedTuple):
    """The rows that are pushed: run i has the rows ``offsets[i]`` to ``offsets[i + 1]``.

    A greater ``key`` is better, then a greater ``tie``; by its ``slot`` the owner knows a row.
    """

    pane: Ints  # of each run
    offsets: Ints
    key: Ints
    tie: Ints
    slot: Ints


@jit
def place_of(rows: Ints, n: int, key: int, tie: int) -> int:
    """Where a row belongs among n sorted rows: after those that tie with it."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if rows[middle, KEY] > key or (rows[middle, KEY] == key and rows[middle, TIE] >= tie):
            low = middle + 1
        else:
            high = middle
    return low


_MARGIN = 3.0  # standard deviations of the number of rows that reach a cut
_RARELY = 2  # after so many misses in a row, a guess is tried for one run in sixteen only

# Steps on the way to the k-th best key of a run.
_GUESS = 0  # scan with the cut of earlier runs
_SAMPLE = 1  # scan with a cut from a sample of this run
_WHOLE = 2  # search the whole run
_SEARCH = 3  # search the rows that reached the cut
_LEARN = 4  # take a cut for the next runs from them
_DONE = 5

_ZERO, _ONE, _ALL = np.uint64(0), np.uint64(1), np.uint64(0xFFFF_FFFF_FFFF_FFFF)
# A de Bruijn sequence: its 64 windows of six bits differ, so a single bit's place is looked up.
_DE_BRUIJN = np.uint64(0x03F7_9D71_B4CB_0A89)
_TOP_SIX = np.uint64(58)
_PLACE = np.zeros(64, np.int64)
for _bit in range(64):
    _PLACE[((0x03F7_9D71_B4CB_0A89 << _bit) & 0xFFFF_FFFF_FFFF_FFFF) >> 58] = _bit


def select_runs(score: Array, tie: Ints, offsets: Ints, k: int, largest: bool) -> tuple[Ints, Ints]:
    """Positions of the best ``min(k, n)`` rows of every run, ascending within it, and new offsets.

    ``score`` is of any integer or floating type up to 64 bits, without NaN. Of rows with equal
    scores the greater ``tie`` is better; an empty ``tie`` means the later position. Rows that equal
    the k-th in score and tie all come back, so a run may return more than k of them.

    >>> score = np.array([3.0, 9.0, 7.0, 9.0, 1.0])
    >>> select_runs(score, np.empty(0, np.int64), np.array([0, 4, 5]), 2, True)
    (array([1, 3, 4]), array([0, 2, 3]))
    """
    width = 8 * score.dtype.itemsize
    low_bits = (1 << (width - 1)) - 1
    fold = low_bits if score.dtype.kind == "f" else 0
    flip = ~low_bits if score.dtype.kind == "u" else 0
    if not largest:
        flip = ~flip
    bits = score.view(f"i{score.dtype.itemsize}")
    aim = k + int(_MARGIN * k**0.5) + 1  # rows that should reach the cut
    found, count, ends, _ = _select(frozen(bits), fold, flip, frozen(tie), frozen(offsets), k, aim)
    return found[:count], ends


@jit
def _key(bits: Any, fold: int, flip: int) -> Any:
    """An integer in the order of the scores, greater is better; equal for 0.0 and -0.0.

    ``fold`` is 0 for integers and all bits but the sign for floats, whose order is reversed below
    zero; ``flip`` moves the sign bit of unsigned integers and reverses all bits for smallest first.
    """
    if bits < 0 and fold != 0:
        bits = 0 if bits == ~fold else bits ^ fold
    return bits ^ flip


# Over 80 lines: each helper is called from one place only, because each call adds its code. So the
# steps to the k-th best key are a small state machine instead of a chain of calls.
@kernel
def _select(
    bits: Array, fold: int, flip: int, tie: Ints, offsets: Ints, k: int, aim: int
) -> tuple[Ints, int, Ints, Ints]:
    bits, tie, offsets = borrowed(bits), borrowed(tie), borrowed(offsets)
    n_runs = len(offsets) - 1
    total = 0
    widest = 1  # of the runs that have to be searched
    for run in range(n_runs):
        n = offsets[run + 1] - offsets[run]
        if n > k:
            if n > widest:
                widest = n
            n = k
        total += n
    found = np.empty(total + widest + 1, np.int64)
    ends = np.empty(n_runs + 1, np.int64)
    scratch = np.empty((4, widest), np.int64)
    rows = borrowed(scratch[0])  # positions of rows that reach the cut
    keys = borrowed(scratch[1])
    values = borrowed(scratch[2])
    spare = borrowed(scratch[3])

    plenty = k + 2 * (aim - k) + 8  # rows above which the cut should rise
    # A cut is always the key of some row: what lies between 0.0 and -0.0 is not a key.
    guess = _key(np.int64(bits[offsets[0]]), fold, flip) if widest > 1 else 0
    misses = _RARELY
    seed = 1
    ends[0] = at = 0
    for run in range(n_runs):
        first = offsets[run]
        n = offsets[run + 1] - first
        if at + n >= len(found):  # rows that tie with the k-th have used up the room
            found = with_room(found, at, at + n + widest + 1)
        if n <= k:
            for i in range(first, first + n):
                found[at] = i
                at += 1
            ends[run + 1] = at
            continue

        # Find the k-th best key; rows[:m] then contains all rows that reach it.
        step = _GUESS if misses < _RARELY or run & 15 == 0 else _SAMPLE
        if n < 128 or 4 * aim > 3 * n:
            step = _WHOLE  # a cut would not pay
        hit = step == _GUESS
        cut = guess
        kth = guess
        crowded = False  # more rows equal the cut than could be kept
        above = 0
        equal = 0
        m = 0
        while step != _DONE:
            if step != _GUESS:
                count = m
                depth = k
                if step == _SAMPLE:
                    count = 64 if n < 4096 else 256
                    width = n // count
                    depth = 3 * count * k // (2 * n) + 3  # the share of k and two deviations
                elif step == _WHOLE:
                    count = n
                    m = n
                elif step == _LEARN:
                    depth = aim if aim < m else m
                for j in range(count):
                    if step == _SAMPLE:
                        seed = (seed * 1_664_525 + 1_013_904_223) & 0xFFFF_FFFF
                        row = first + j * width + ((seed * width) >> 32)
                    elif step == _WHOLE:
                        row = first + j
                        rows[j] = row
                    else:
                        row = rows[j]
                    keys[j] = _key(np.int64(bits[row]), fold, flip)
                    values[j] = keys[j]
                cut = kth_greatest(values, spare, count, depth)
            if step <= _SAMPLE:
                mask, bound = flip, cut
                if fold != 0:
                    positive = cut > 0 if flip == 0 else cut < 0
                    mask = flip if positive else flip ^ fold
                    if flip == 0 and cut == 0:
                        bound = -1  # the key of -0.0
                    elif flip != 0 and cut == -1:
                        mask = flip
                m = _scan(bits, first, first + n, mask, bound, rows)
                if m > 4 * aim:  # a bad cut, or many rows that equal it
                    above = 0
                    for j in range(m):
                        keys[j] = _key(np.int64(bits[rows[j]]), fold, flip)
                        above += keys[j] > cut
                    if above < k:
                        crowded = True
                        equal = m - above
                        guess = cut
                        kth = cut
                        step = _DONE
                    else:
                        step = _SEARCH if step == _SAMPLE else _SAMPLE
                elif m >= k:
                    step = _SEARCH
                else:
                    step += 1
                hit = hit and step >= _SEARCH
            elif step == _LEARN:
                guess = cut
                step = _DONE
            else:
                kth = cut
                step = _LEARN if step == _SEARCH and (not hit or m > plenty) else _DONE
        misses = 0 if hit else misses + 1

        # Keep what is better than the k-th; of the rows that equal it, the best ties.
        if not crowded:
            above = 0
            equal = 0
            for j in range(m):
                above += keys[j] > kth
                equal += keys[j] == kth
        wanted = k - above
        if equal == wanted:
            for j in range(m):
                found[at] = rows[j]
                at += keys[j] >= kth
        else:
            at = _keep_best_ties(tie, rows, keys, m, kth, wanted, values, spare, found, at)
        ends[run + 1] = at
    return found, at, ends, scratch  # scratch must live until here: see borrow.py


@jit
def _scan(bits: Array, first: int, last: int, mask: int, bound: int, rows: Ints) -> int:
    """Write the positions of the rows that reach the cut; return how many."""
    m = 0
    i = first
    while i + 64 <= last:
        word = _ZERO
        for j in range(64):  # of fixed length, which the compiler turns into vector comparisons
            word |= np.uint64((bits[i + j] ^ mask) >= bound) << np.uint64(j)
        if word == _ALL:
            for j in range(64):
                rows[m + j] = i + j
            m += 64
        else:
            while word:
                rest = word & (word - _ONE)
                rows[m] = i + _PLACE[((word ^ rest) * _DE_BRUIJN) >> _TOP_SIX]
                m += 1
                word = rest
        i += 64
    while i < last:
        rows[m] = i
        m += (bits[i] ^ mask) >= bound
        i += 1
    return m


@jit
def _keep_best_ties(
    tie: Ints, rows: Ints, keys: Ints, m: int, kth: int, wanted: int, values: Ints, spare: Ints,
    found: Ints, at: int,
) -> int:  # fmt: skip
    """Keep rows above the k-th key and, of those that equal it, the ``wanted`` best ties."""
    # Nothing below the least tie of the last ``wanted`` equal rows is needed. If ties grow with
    # the position, as times do, hardly more than those are left to search.
    floor = np.int64(0x7FFF_FFFF_FFFF_FFFF)
    j = m
    missing = wanted
    while missing > 0:
        j -= 1
        if keys[j] == kth:
            late = tie[rows[j]] if len(tie) else rows[j]
            floor = late if late < floor else floor
            missing -= 1
    if len(tie):
        count = 0
        for j in range(m):
            if keys[j] == kth and tie[rows[j]] >= floor:
                values[count] = tie[rows[j]]
                count += 1
        floor = kth_greatest(values, spare, count, wanted)
    for j in range(m):
        row = rows[j]
        found[at] = row
        at += keys[j] > kth or (keys[j] == kth and (tie[row] if len(tie) else row) >= floor)
    return at
