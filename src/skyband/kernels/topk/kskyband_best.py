"""The best rows of a group in the k-skyband, as sorted lists of positions; see ``kskyband.py``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Codes, Ints
from skyband.kernels.core.borrow import borrowed
from skyband.kernels.core.jit import piece

KEY, TIE, SLOT, PANE = range(4)  # columns of rows
_FULL = 12  # with more keys in one bucket, keys are not spread evenly


class Scratch(NamedTuple):
    """Room to work on one group. Positions of rows count from the first of the group."""

    pick: Codes  # positions of rows that may enter a list of the best
    pick_key: Ints  # their keys
    spare: Codes  # the same two while they are sorted
    spare_key: Ints
    buckets: Codes  # where the keys of each bucket end
    best: Codes  # positions of the best k so far
    retained: Codes  # positions of the rows that a sweep retains of the back
    panes: Ints  # panes, or how many rows are in them
    kept: Ints  # the rows that a sweep keeps


def make_scratch(n: int, k: int) -> Scratch:
    """Room to sweep a group of n rows."""
    places, longs = np.empty((5, n + 1), np.int32), np.empty((3, n + k), np.int64)
    return Scratch(
        places[0], longs[0], places[1], longs[1], places[2], places[3], places[4], longs[2],
        np.empty((n, 4), np.int64),
    )  # fmt: skip


@piece
def borrowed_scratch(s: Scratch) -> Scratch:
    """The same arrays without owners; see ``borrow.py``."""
    return Scratch(
        borrowed(s.pick), borrowed(s.pick_key), borrowed(s.spare), borrowed(s.spare_key),
        borrowed(s.buckets), borrowed(s.best), borrowed(s.retained), borrowed(s.panes),
        borrowed(s.kept),
    )  # fmt: skip


@piece
def _is_sorted(rows: Ints, base: int, pick: Codes, pick_key: Ints, picked: int) -> bool:
    """Whether picked rows are sorted, best first.

    Rows come latest first, and the later of two equal keys mostly has the greater tie, so constant
    and falling keys are already sorted.
    """
    i = 1
    while i < picked and (
        pick_key[i - 1] > pick_key[i]
        or (
            pick_key[i - 1] == pick_key[i]
            and rows[base + pick[i - 1], TIE] > rows[base + pick[i], TIE]
        )
    ):
        i += 1
    return i >= picked


@piece
def _to_buckets(scratch: Scratch, picked: int) -> bool:
    """Sort picked rows by equally wide buckets of keys; False if a bucket is too full."""
    pick, pick_key, buckets = scratch.pick, scratch.pick_key, scratch.buckets
    spare, spare_key = scratch.spare, scratch.spare_key
    least = pick_key[0]
    most = least
    for i in range(picked):
        least = pick_key[i] if pick_key[i] < least else least
        most = pick_key[i] if pick_key[i] > most else most
        buckets[i + 1] = 0
    buckets[0] = 0
    span = float(most) - float(least)
    scale = (picked - 1) / span if span > 0.0 else 0.0
    for i in range(picked):
        buckets[int((float(most) - float(pick_key[i])) * scale) + 1] += 1
    fullest = 0
    for i in range(picked):
        fullest = buckets[i + 1] if buckets[i + 1] > fullest else fullest
        buckets[i + 1] += buckets[i]
    if fullest > _FULL:
        return False
    for i in range(picked):
        bucket = int((float(most) - float(pick_key[i])) * scale)
        spare[buckets[bucket]] = pick[i]
        spare_key[buckets[bucket]] = pick_key[i]
        buckets[bucket] += 1
    for i in range(picked):
        pick[i] = spare[i]
        pick_key[i] = spare_key[i]
    return True


@piece
def _shell_sort(rows: Ints, base: int, pick: Codes, pick_key: Ints, picked: int, gap: int) -> None:
    """Sort picked rows best first; a gap of 1 is an insertion sort, for rows almost sorted."""
    while gap > 0:
        gap = 1 if 1 < gap < 4 else gap * 4 // 9 if gap > 1 else 1
        for i in range(gap, picked):
            x = pick[i]
            x_key = pick_key[i]
            j = i
            while j >= gap and pick_key[j - gap] <= x_key:
                y = pick[j - gap]
                if pick_key[j - gap] == x_key:
                    x_tie = rows[base + x, TIE]
                    y_tie = rows[base + y, TIE]
                    if y_tie > x_tie or (y_tie == x_tie and y < x):
                        break
                pick[j] = y
                pick_key[j] = pick_key[j - gap]
                j -= gap
            pick[j] = x
            pick_key[j] = x_key
        if gap == 1:
            gap = 0


@piece
def enlist(
    rows: Ints, base: int, best: Codes, start: int, n: int, scratch: Scratch, picked: int, k: int
) -> int:
    """Sort picked rows of one pane, merge the best k into the n of ``best``; the new length."""
    pick, pick_key = scratch.pick, scratch.pick_key
    gap = 1
    if picked > _FULL and not _is_sorted(rows, base, pick, pick_key, picked):
        # Most keys are spread evenly: after sorting them by buckets, hardly any is out of order.
        gap = 1 if _to_buckets(scratch, picked) else picked
    _shell_sort(rows, base, pick, pick_key, picked, gap)
    if picked > k:
        picked = k
    # Merge from the end, so that only rows that move are touched. Rows of different panes never
    # tie: the newer one is better, and it comes later in the back.
    i = start + n - 1
    j = picked - 1
    out = start + n + picked
    while j >= 0:
        out -= 1
        x_key = pick_key[j]
        y_key = rows[base + best[i], KEY] if i >= start else x_key
        if i >= start and (x_key > y_key or (x_key == y_key and pick[j] > best[i])):
            best[out] = best[i]
            i -= 1
        else:
            best[out] = pick[j]
            j -= 1
    return n + picked
