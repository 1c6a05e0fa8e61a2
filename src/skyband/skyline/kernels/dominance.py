"""Dominance of points, and the skyline of many runs of points by sorting and filtering.

A point is a row of integers; greater is better in every dimension.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Floats, Ints
from skyband.kernels.borrow import borrowed, copy_rows
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


# The skyline of a run -----------------------------------------------------------------------------
#
# Every point has a code: its place among some quantiles of each dimension, packed into one word
# with a spare bit above each field. Three operations tell whether a code is nowhere less than
# another, which it is wherever its point dominates the other. Points are taken cell by cell (a cell
# is a few quantiles wide), better cells first: so no point comes before one that dominates it, and
# neighbours in the list of members are neighbours in space. A block of them is passed over if the
# word with the greatest field of each dimension says that none of them can dominate.

_BLOCK = 16  # members
_PER_QUANTILE = 32  # points; a run of fewer than two quantiles is one cell
_WORD, _WIDEST, _CELL = 63, 10, 12  # bits: of a code, of a field at most, of a cell's number
_PAYS = 16  # a further pivot is tried while each leaves out one point of so many


class SkylineScratch(NamedTuple):
    """Room for the points of the longest run."""

    near: Ints  # the points that no pivot dominates, then in the order in which they are taken
    spare: Ints
    key: Ints  # of each point: the order of its cell
    tie: Ints  # of each point: the sum of its fields
    code: Ints  # of each point
    member: Ints  # codes of the members, with the spare bits set
    top: Ints  # of each block of members, likewise


@jit
def skyline_runs(points: Ints, offsets: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Positions of the skyline of each run, equal points side by side, and their offsets.

    ``counts[0]`` grows by the comparisons made. A run of n points with s on its skyline costs
    O(n log n + n s) at worst, and far less if few points dominate most of the others, or if most
    members lie in cells that cannot dominate.
    """
    points = borrowed(points)
    total = offsets[-1]
    kept_offsets = np.zeros(len(offsets), np.int64)
    keys = np.empty(total, np.float64)
    work = np.empty((8, total + _BLOCK), np.int64)
    room = SkylineScratch(
        borrowed(work[1]), borrowed(work[2]), borrowed(work[3]), borrowed(work[4]),
        borrowed(work[5]), borrowed(work[6]), borrowed(work[7]),
    )  # fmt: skip
    kept = borrowed(work[0])
    count = 0
    for run in range(len(offsets) - 1):
        first = offsets[run]
        last = offsets[run + 1]
        if last - first == 1:
            kept[count] = first
            count += 1
        elif last > first:
            size = _near(points, first, last, keys, room.near, counts)
            bits, high = _encode(points, size, room)
            _arrange(points, size, bits, room)
            count += _filter(points, size, bits, high, room, kept[count:], counts)
        kept_offsets[run + 1] = count
    return work[0, :count].copy(), kept_offsets  # work must live until here: see borrow.py


@jit
def codes_of(some: Ints, many: int, others: Ints) -> tuple[Ints, int]:
    """A code for each of the first ``many`` points, then for each other; and the spare bits."""
    size = many + len(others)
    points = np.empty((size, others.shape[1]), np.int64)
    copy_rows(points, some, many)
    copy_rows(points[many:], others, len(others))
    work = np.empty((4, size + 1), np.int64)
    for i in range(size):
        work[0, i] = i
    rest = np.empty((3, size + 1), np.int64)
    room = SkylineScratch(work[0], work[1], work[2], work[3], rest[0], rest[1], rest[2])
    _, high = _encode(points, size, room)
    return rest[0, :size].copy(), high


@jit
def _near(points: Ints, first: int, last: int, keys: Floats, near: Ints, counts: Ints) -> int:
    """List the points that no pivot dominates; returns how many.

    The first pivot is the point with the best key, the next ones dominate a point in the middle.
    """
    sort_keys(points, first, last, keys)
    size = last - first
    pivot = first
    for n in range(size):
        near[n] = first + n
        if keys[first + n] > keys[pivot]:
            pivot = first + n
    pays = True
    while pays:
        counts[0] += size
        left = 0
        for n in range(size):
            near[left] = near[n]
            left += not dominates(points, pivot, points, near[n])
        pays = (size - left) * _PAYS > size > 8 * _PAYS
        size = left
        pivot = near[size // 2]
        for n in range(size if pays else 0):
            if keys[near[n]] > keys[pivot] and dominates(points, near[n], points, pivot):
                pivot = near[n]
    return size


@jit
def _encode(points: Ints, size: int, room: SkylineScratch) -> tuple[int, int]:
    """Write code, key and tie of the listed points; returns a field's bits, and the spare bits."""
    fields = min(points.shape[1], _WORD // 3)
    width = min(_WORD // max(fields, 1), _WIDEST)
    bits = 0
    while bits < width - 1 and (_PER_QUANTILE << (bits + 1)) <= size:
        bits += 1
    coarse = min(bits, max(_CELL // max(fields, 1), 1))
    cuts = (1 << bits) - 1
    index, ordered, sample = room.spare[:cuts], room.member, room.top
    near, high = room.near, 0
    for n in range(size):
        room.code[near[n]] = room.key[near[n]] = room.tie[near[n]] = 0
    for k in range(fields if bits > 0 else 0):
        high |= 1 << (width * k + bits)
        for n in range(cuts):
            index[n] = n
            sample[n] = points[near[(n + 1) * size // (cuts + 1)], k]
        sort_best(index, ordered, sample, sample)
        for n in range(cuts):
            ordered[n] = sample[index[cuts - 1 - n]]
        for n in range(size):
            i = near[n]
            field, step = 0, (cuts + 1) >> 1
            while step > 0:
                field += step * (ordered[field + step - 1] <= points[i, k])
                step >>= 1
            cell = field >> (bits - coarse)
            room.code[i] |= field << (width * k)
            room.key[i] += (cell << 43) + (cell << (coarse * k))
            room.tie[i] += field
    return bits, high


@jit
def _arrange(points: Ints, size: int, bits: int, room: SkylineScratch) -> None:
    """Sort the listed points: none before one that dominates it, equal ones side by side.

    The order is by cell, then by the sum of fields, then by the dimensions, from left to right.
    """
    near, spare, key, tie = room.near[:size], room.spare, room.key, room.tie
    if bits > 0:
        sort_best(near, spare, key, tie)
    start = 0
    for end in range(1, size + 1):
        a = near[start]
        if end < size and key[near[end]] == key[a] and tie[near[end]] == tie[a]:
            continue
        for k in range(points.shape[1] - 1 if end - start > 1 else -1, -1, -2):
            for n in range(start, end):
                key[near[n]], tie[near[n]] = points[near[n], max(k - 1, 0)], points[near[n], k]
            sort_best(near[start:end], spare, key, tie)
        start = end


@jit
def _filter(
    points: Ints, size: int, bits: int, high: int, room: SkylineScratch, kept: Ints, counts: Ints
) -> int:
    """Write the listed points that none before them dominates to ``kept``; returns how many."""
    near, member, top, window = room.near, room.member, room.top, room.spare
    members, written, dominated = 0, 0, False
    last = near[0]  # the member that dominated last
    for n in range(size):
        i = near[n]
        if n == 0 or relation(points, near[n - 1], points, i) != EQUAL:
            code = room.code[i]
            counts[0] += n > 0
            dominated = dominates(points, last, points, i)
            low = 0
            while low < members and not dominated:
                if (top[low // _BLOCK] - code) & high == high:
                    end = min(low + _BLOCK, members)
                    counts[0] += end - low
                    near_by = False
                    for m in range(low, low + _BLOCK):
                        near_by |= (member[m] - code) & high == high
                    for m in range(low, end if near_by else low):
                        if dominates(points, window[m], points, i):
                            dominated, last = True, window[m]
                            break
                low += _BLOCK
            if not dominated:
                members = _append(i, code | high, bits, high, members, room)
        if not dominated:
            kept[written] = i
            written += 1
    return written


@jit
def _append(i: int, code: int, bits: int, high: int, members: int, room: SkylineScratch) -> int:
    """Add a member and its code; returns how many there are."""
    block = members // _BLOCK
    if members % _BLOCK == 0:
        room.top[block] = code
        for m in range(members, members + _BLOCK):
            room.member[m] = high
    top = room.top[block]
    # Where the top's field is not less, the spare bit stays: that field's bits are all ones below.
    greater = (((top - (code ^ high)) & high) >> bits) * ((1 << bits) - 1)
    room.top[block] = (top & greater) | (code & ~greater) | high
    room.member[members], room.spare[members] = code, i
    return members + 1
