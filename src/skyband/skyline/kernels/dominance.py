"""Dominance of points, and the skyline of many runs of points by sorting and filtering.

A point is a row of integers; greater is better in every dimension.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.arrays import Floats, Ints
from skyband.kernels.jit import jit, piece
from skyband.kernels.sorting import sort_best

BETTER, WORSE, EQUAL, NEITHER = 1, -1, 2, 0
_ODD = np.int64(-7046029254386353131)


@piece
def relation(a: Ints, i: int, b: Ints, j: int) -> int:
    """Whether point i of ``a`` is better than point j of ``b``, worse, equal, or none of these."""
    better = False
    worse = False
    for k in range(a.shape[1]):
        x = a[i, k]
        y = b[j, k]
        if x > y:
            if worse:
                return NEITHER
            better = True
        elif x < y:
            if better:
                return NEITHER
            worse = True
    if better:
        return BETTER
    return WORSE if worse else EQUAL


@piece
def dominates(a: Ints, i: int, b: Ints, j: int) -> bool:
    """Whether point i of ``a`` is nowhere worse and somewhere better than point j of ``b``."""
    better = False
    for k in range(a.shape[1]):
        x = a[i, k]
        y = b[j, k]
        if x < y:
            return False
        if x > y:
            better = True
    return better


@jit
def mixed(left: Any, right: Any) -> Any:
    """One segment for the segments of both sides of a join: numbers, or arrays of them."""
    return left * _ODD + right


@jit
def joined(left: Ints, right: Ints, pairs: Ints, size: int) -> Ints:
    """The points of pairs: the left row's dimensions, then the right row's."""
    split = left.shape[1]
    points = np.empty((size, split + right.shape[1]), np.int64)
    for i in range(size):
        for k in range(split):
            points[i, k] = left[pairs[i, 0], k]
        for k in range(right.shape[1]):
            points[i, split + k] = right[pairs[i, 1], k]
    return points


@jit
def sort_keys(points: Ints, first: int, last: int, keys: Floats) -> None:
    """Sort keys: a point that dominates another has no smaller key. Sums of scaled coordinates.

    Rounding may make the two equal, so a filter has to look at equal keys in both directions.
    """
    for i in range(first, last):
        keys[i] = 0.0
    for k in range(points.shape[1]):
        low = points[first, k]
        high = low
        for i in range(first, last):
            x = points[i, k]
            low = min(low, x)
            high = max(high, x)
        base = float(low)
        if float(high) > base:  # different integers may become equal floats, which decide nothing
            scale = 1.0 / (float(high) - base)
            for i in range(first, last):
                keys[i] += (float(points[i, k]) - base) * scale


@jit
def skyline_runs(points: Ints, offsets: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Positions of the skyline of each run, equal points side by side, and their offsets.

    ``counts[0]`` grows by the comparisons made. A run of n points with s on its skyline costs
    O(n log n + n s), and far less if its best point dominates most of the others.
    """
    total = offsets[-1]
    kept = np.empty(total, np.int64)
    kept_offsets = np.zeros(len(offsets), np.int64)
    keys = np.empty(total, np.float64)
    near = np.empty(total, np.int64)
    window = np.empty(total, np.int64)
    chain = np.empty(total, np.int64)
    count = 0
    for run in range(len(offsets) - 1):
        first = offsets[run]
        last = offsets[run + 1]
        if last - first == 1:
            kept[count] = first
            count += 1
        elif last > first:
            count += _skyline(points, first, last, keys, near, window, chain, kept[count:], counts)
        kept_offsets[run + 1] = count
    return kept[:count].copy(), kept_offsets


@jit
def _skyline(
    points: Ints, first: int, last: int, keys: Floats, near: Ints, window: Ints, chain: Ints,
    kept: Ints, counts: Ints,
) -> int:  # fmt: skip
    """The skyline of the points ``[first, last)``, written to ``kept``; returns how many."""
    sort_keys(points, first, last, keys)
    best = first
    for i in range(first + 1, last):
        if keys[i] > keys[best]:
            best = i
    size = 0
    for i in range(first, last):
        if not dominates(points, best, points, i):
            near[size] = i
            size += 1
    counts[0] += last - first
    sort_best(near[:size], window, keys, keys)

    # The window holds one of each set of equal points; the others are chained to it.
    members = 0
    for place in range(size):
        candidate = near[place]
        chain[place] = -1
        dominated = False
        equal = -1
        for w in range(members):
            counts[0] += 1
            found = relation(points, near[window[w]], points, candidate)
            if found == BETTER:
                dominated = True
                break
            if found == EQUAL:
                equal = window[w]
                break
        if dominated:
            continue
        if equal >= 0:
            chain[place] = chain[equal]
            chain[equal] = place
            continue
        # Rounding can make the keys of a point and of its dominator equal: look back over those.
        w = members - 1
        while w >= 0 and keys[near[window[w]]] == keys[candidate]:
            counts[0] += 1
            if dominates(points, candidate, points, near[window[w]]):
                for later in range(w, members - 1):
                    window[later] = window[later + 1]
                members -= 1
            w -= 1
        window[members] = place
        members += 1
    written = 0
    for w in range(members):
        at = window[w]
        while at >= 0:
            kept[written] = near[at]
            written += 1
            at = chain[at]
    return written
