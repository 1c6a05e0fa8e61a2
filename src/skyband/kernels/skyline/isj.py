"""One layer of the iterative skyline join, and local skylines kept from window to window.

A side's rows stand in cells: rows of one cell agree in the join key and in all "diff" columns.
Cells are numbered by key, so that those of key k are ``key_cells[k]`` to ``key_cells[k + 1]``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyband.arrays import Ints
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient
from skyband.kernels.skyline.dominance import (
    BETTER,
    EQUAL,
    WORSE,
    dominates,
    mixed,
    relation,
    skyline_runs,
    sort_keys,
)

__all__ = ["common", "join_layer", "local_update"]

Flags = npt.NDArray[np.bool_]

COMPARISONS, JOINED, PRUNED, LAYERS = 0, 1, 2, 3


@patient
@jit
def join_layer(
    left_points: Ints,
    left_cell: Ints,
    left_cells: Ints,
    left_key_cells: Ints,
    left_active: Ints,
    left_sky: Ints,
    right_points: Ints,
    right_cell: Ints,
    right_cells: Ints,
    right_key_cells: Ints,
    right_active: Ints,
    right_sky: Ints,
    results: Ints,
    result_points: Ints,
    size: int,
    counts: Ints,
) -> tuple[Ints, Ints, Ints, Ints, int]:
    """Join both local skylines, keep what no result dominates, prune both sides.

    ``cells`` are the key and the segment of each cell, ``active`` and ``sky`` positions of rows.
    Returns the rows left over on both sides and the results, which grow.
    """
    counts[LAYERS] += 1
    left_start, left_rows = _by_cell(left_cell, left_active, len(left_cells))
    right_start, right_rows = _by_cell(right_cell, right_active, len(right_cells))
    in_left = np.zeros(len(left_cell), np.bool_)
    for a in left_sky:
        in_left[a] = True
    in_right = np.zeros(len(right_cell), np.bool_)
    for b in right_sky:
        in_right[b] = True

    # P1 joins the left local skyline with all of the right, P2 the rest of the left with the right
    # local skyline.
    pairs = np.empty((64, 2), np.int64)
    joined = 0
    for a in left_sky:
        key = left_cells[left_cell[a], 0]
        first = right_start[right_key_cells[key]]
        last = right_start[right_key_cells[key + 1]]
        pairs = _room(pairs, joined + last - first)
        for n in range(first, last):
            pairs[joined, 0] = a
            pairs[joined, 1] = right_rows[n]
            joined += 1
    middle = joined
    for b in right_sky:
        key = right_cells[right_cell[b], 0]
        first = left_start[left_key_cells[key]]
        last = left_start[left_key_cells[key + 1]]
        pairs = _room(pairs, joined + last - first)
        for n in range(first, last):
            if not in_left[left_rows[n]]:
                pairs[joined, 0] = left_rows[n]
                pairs[joined, 1] = b
                joined += 1
    counts[JOINED] += joined

    results, result_points, size = _take_results(
        left_points, left_cell, left_cells, right_points, right_cell, right_cells,
        pairs, middle, joined, results, result_points, size, counts,
    )  # fmt: skip

    left_rest = _without(left_active, in_left)
    right_rest = _without(right_active, in_right)
    before = len(left_rest) + len(right_rest)
    left_rest = _outsiders(
        left_points, left_cell, left_cells, left_rest, right_points, right_cell, right_cells,
        right_key_cells, right_rest, results, result_points, size, True, counts,
    )  # fmt: skip
    right_rest = _outsiders(
        right_points, right_cell, right_cells, right_rest, left_points, left_cell, left_cells,
        left_key_cells, left_rest, results, result_points, size, False, counts,
    )  # fmt: skip
    counts[PRUNED] += before - len(left_rest) - len(right_rest)
    return left_rest, right_rest, results, result_points, size


@jit
def _by_cell(cell: Ints, active: Ints, cells: int) -> tuple[Ints, Ints]:
    """Active rows in order of their cells, and where each cell starts."""
    start = np.zeros(cells + 2, np.int64)
    for row in active:
        start[cell[row] + 2] += 1
    for c in range(cells):
        start[c + 2] += start[c + 1]
    rows = np.empty(len(active), np.int64)
    for row in active:
        rows[start[cell[row] + 1]] = row
        start[cell[row] + 1] += 1
    return start[: cells + 1], rows


@jit
def _take_results(
    left_points: Ints,
    left_cell: Ints,
    left_cells: Ints,
    right_points: Ints,
    right_cell: Ints,
    right_cells: Ints,
    pairs: Ints,
    middle: int,
    joined: int,
    results: Ints,
    result_points: Ints,
    size: int,
    counts: Ints,
) -> tuple[Ints, Ints, int]:
    """Add the skylines of P1 and of P2, without what an earlier result dominates."""
    split = left_points.shape[1]
    points = np.empty((joined, split + right_points.shape[1]), np.int64)
    segment = np.empty(joined, np.int64)
    for n in range(joined):
        a = pairs[n, 0]
        b = pairs[n, 1]
        for k in range(split):
            points[n, k] = left_points[a, k]
        for k in range(right_points.shape[1]):
            points[n, split + k] = right_points[b, k]
        segment[n] = mixed(left_cells[left_cell[a], 1], right_cells[right_cell[b], 1])
    for part in range(2):
        # What both local skylines share is joined in P1 only, so P2 is held against P1 too.
        before = size
        low = 0 if part == 0 else middle
        high = middle if part == 0 else joined
        if high == low:
            continue
        order = np.argsort(segment[low:high], kind="mergesort") + low
        offsets = np.zeros(high - low + 1, np.int64)
        runs = 0
        for n in range(1, high - low):
            if segment[order[n]] != segment[order[n - 1]]:
                runs += 1
                offsets[runs] = n
        offsets[runs + 1] = high - low
        kept, _ = skyline_runs(points[order], offsets[: runs + 2], counts)
        for n in kept:
            pair = order[n]
            dominated = False
            for g in range(before):
                if results[g, 2] == segment[pair]:
                    counts[COMPARISONS] += 1
                    if dominates(result_points, g, points, pair):
                        dominated = True
                        break
            if dominated:
                continue
            if size == len(results):
                results = _room(results, 2 * size + 64)
                result_points = _room(result_points, 2 * size + 64)
            results[size, 0] = pairs[pair, 0]
            results[size, 1] = pairs[pair, 1]
            results[size, 2] = segment[pair]
            for k in range(points.shape[1]):
                result_points[size, k] = points[pair, k]
            size += 1
    return results, result_points, size


@jit
def _outsiders(
    points: Ints,
    cell: Ints,
    cells: Ints,
    rest: Ints,
    other_points: Ints,
    other_cell: Ints,
    other_cells: Ints,
    other_key_cells: Ints,
    other_rest: Ints,
    results: Ints,
    result_points: Ints,
    size: int,
    is_left: bool,
    counts: Ints,
) -> Ints:
    """Rows that may still be part of a result.

    A row goes when it has no partner left, or when with the best corner of its partners, cell by
    cell, it would be dominated by a result.
    """
    others = other_points.shape[1]
    corner = np.empty((len(other_cells), others), np.int64)
    partners = np.zeros(len(other_cells), np.int64)
    for row in other_rest:
        c = other_cell[row]
        for k in range(others):
            if partners[c] == 0 or other_points[row, k] > corner[c, k]:
                corner[c, k] = other_points[row, k]
        partners[c] += 1
    own_shift = 0 if is_left else others
    other_shift = points.shape[1] if is_left else 0
    start, rows = _by_cell(cell, rest, len(cells))
    stays = np.zeros(len(cell), np.bool_)
    near = np.empty(size, np.int64)
    strict = np.empty(size, np.bool_)
    for own in range(len(cells)):
        if start[own] == start[own + 1]:
            continue
        key = cells[own, 0]
        for c in range(other_key_cells[key], other_key_cells[key + 1]):
            if partners[c] == 0:
                continue
            left_cell = cells[own, 1] if is_left else other_cells[c, 1]
            right_cell = other_cells[c, 1] if is_left else cells[own, 1]
            segment = mixed(left_cell, right_cell)
            # Results that are no worse than the corner: few, and the same for all rows of a cell.
            found = 0
            for g in range(size):
                if results[g, 2] != segment:
                    continue
                counts[COMPARISONS] += 1
                better = False
                worse = False
                for k in range(others):
                    x = result_points[g, other_shift + k]
                    if x < corner[c, k]:
                        worse = True
                        break
                    if x > corner[c, k]:
                        better = True
                if not worse:
                    near[found] = g
                    strict[found] = better
                    found += 1
            for n in range(start[own], start[own + 1]):
                row = rows[n]
                if stays[row]:
                    continue
                stays[row] = True
                for i in range(found):
                    counts[COMPARISONS] += 1
                    if _beats(result_points, near[i], own_shift, points, row, strict[i]):
                        stays[row] = False
                        break
    kept = np.empty(len(rest), np.int64)
    size_kept = 0
    for row in rest:
        if stays[row]:
            kept[size_kept] = row
            size_kept += 1
    return kept[:size_kept].copy()


@jit
def _beats(results: Ints, g: int, shift: int, points: Ints, row: int, strict: bool) -> bool:
    """Whether a result is no worse than a row in its dimensions, and better unless ``strict``."""
    for k in range(points.shape[1]):
        x = results[g, shift + k]
        if x < points[row, k]:
            return False
        if x > points[row, k]:
            strict = True
    return strict


@patient
@jit
def common(known: Ints, numbers: Ints) -> int:
    """How many numbers are known; both ascend."""
    found = 0
    i = 0
    for number in numbers:
        while i < len(known) and known[i] < number:
            i += 1
        found += i < len(known) and known[i] == number
    return found


@patient
@jit
def local_update(
    points: Ints,
    segment: Ints,
    known: Ints,
    parents: Ints,
    active: Ints,
    expired: int,
    counts: Ints,
) -> tuple[Ints, Ints, Ints]:
    """Go on from the rows known before to the active ones, which may differ in any way.

    ``active`` are positions, ``known`` and ``parents`` numbers of rows, which are ``expired`` more;
    all ascend. A row without a parent (-1) is on the skyline, every other one is parked under a row
    that dominates it. Returns numbers and parents of the active rows, and those on the skyline.
    """
    here = np.zeros(len(points), np.bool_)
    for row in active:
        here[row] = True
    numbers = active + expired
    fresh = np.full(len(active), -1, np.int64)
    ask = np.empty(len(active), np.int64)
    sky = np.empty(len(active), np.int64)
    asked = 0
    on_sky = 0
    i = 0
    for n in range(len(active)):
        while i < len(known) and known[i] < numbers[n]:
            i += 1
        if i == len(known) or known[i] != numbers[n]:
            ask[asked] = n
            asked += 1
        elif parents[i] < 0:
            sky[on_sky] = n
            on_sky += 1
        elif parents[i] >= expired and here[parents[i] - expired]:
            fresh[n] = parents[i]
        else:
            ask[asked] = n
            asked += 1
    mine = points[active[ask[:asked]]]
    keys = np.empty(asked, np.float64)
    near = np.arange(asked)
    if asked:
        # The best of those asked dominates most of the others: they are parked without a sort.
        sort_keys(mine, 0, asked, keys)
        best = int(np.argmax(keys))
        top = active[ask[best]]
        left = 0
        for place in range(asked):
            row = active[ask[place]]
            counts[COMPARISONS] += 1
            if segment[row] == segment[top] and dominates(mine, best, mine, place):
                fresh[ask[place]] = top + expired
            else:
                near[left] = place
                left += 1
        near = near[:left]
    for place in near[np.argsort(-keys[near])]:
        n = ask[place]
        row = active[n]
        g = 0
        while g < on_sky:
            other = active[sky[g]]
            if segment[other] != segment[row]:
                g += 1
                continue
            counts[COMPARISONS] += 1
            found = relation(points, other, points, row)
            if found == BETTER:
                fresh[n] = other + expired
                # Those that dominate come forward, so that the next rows meet them early.
                ahead = g // 2
                sky[g], sky[ahead] = sky[ahead], sky[g]
                break
            if found == EQUAL:
                g = on_sky
            elif found == WORSE:
                fresh[sky[g]] = row + expired
                on_sky -= 1
                sky[g] = sky[on_sky]
            else:
                g += 1
        if fresh[n] < 0:
            sky[on_sky] = n
            on_sky += 1
    return numbers, fresh, active[sky[:on_sky]]


@jit
def _without(rows: Ints, gone: Flags) -> Ints:
    kept = np.empty(len(rows), np.int64)
    size = 0
    for row in rows:
        if not gone[row]:
            kept[size] = row
            size += 1
    return kept[:size].copy()


@jit
def _room(array: Ints, needed: int) -> Ints:
    if needed <= len(array):
        return array
    grown = np.empty((max(needed, 2 * len(array)), array.shape[1]), np.int64)
    grown[: len(array)] = array
    return grown
