"""The iterative skyline join of one window: layer after layer, in one call.

The rows of a side are in cells: rows of one cell agree in the join key and in all "diff" columns.
Cells are numbered by key, so that those of key k are ``key_cells[k]`` to ``key_cells[k + 1]``. The
local skylines of all layers above the first are kept from window to window, in flat arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Ints, Mask
from skyband.kernels.arrange import order_by_code, with_room
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel
from skyband.kernels.sorting import sort_best
from skyband.skyline.kernels.dominance import (
    BETTER,
    EQUAL,
    WORSE,
    dominates,
    joined,
    mixed,
    relation,
    skyline_runs,
    sort_keys,
)

COMPARISONS, JOINED, PRUNED, LAYERS = 0, 1, 2, 3  # places in ``counts``
_WORSE, _EQUAL, _BETTER = 0, 1, 2
LEFT, RIGHT, BOTH = 0, 1, 2  # columns of results: a row of each side, the segment of both

# The rows of a side by cells ----------------------------------------------------------------------

KEY, SEGMENT = 0, 1  # columns of ``cells``


class CellSide(NamedTuple):
    """One side of the join: its live rows, and the cells that they are in."""

    points: Ints
    cell: Ints  # of each row
    cells: Ints  # key and segment of each cell
    key_cells: Ints  # where the cells of each key begin
    segment: Ints  # of each row; below ``segments`` if there are several
    segments: int


class SideStart(NamedTuple):
    """Where a window begins on one side."""

    low: int  # the position of its first row
    expired: int  # the number of the first live row
    sky: Ints  # the local skyline of layer 1
    served: bool  # whether that is known


class Index(NamedTuple):
    """The rows that are still in play, cell by cell, in the order of their positions."""

    start: Ints  # where each cell begins
    end: Ints  # and ends; there may be a gap before the next one
    rows: Ints
    used: Ints  # the cells that have rows, ascending


@jit
def by_cell(side: CellSide, active: Ints) -> Index:
    """The active rows of a side, cell by cell."""
    order, starts = order_by_code(side.cell[active], len(side.cells))
    used = np.empty(len(side.cells), np.int64)
    cells = 0
    for c in range(len(side.cells)):
        if starts[c] < starts[c + 1]:
            used[cells] = c
            cells += 1
    return Index(starts[:-1].copy(), starts[1:].copy(), active[order], used[:cells])


@jit
def thinned(index: Index, gone: Mask) -> Index:
    """The index without the rows that are gone; changes it in place."""
    cells = 0
    for n in range(len(index.used)):
        c = index.used[n]
        size = index.start[c]
        for at in range(index.start[c], index.end[c]):
            row = index.rows[at]
            if not gone[row]:
                index.rows[size] = row
                size += 1
        index.end[c] = size
        if size > index.start[c]:
            index.used[cells] = c
            cells += 1
    return Index(index.start, index.end, index.rows, index.used[:cells])


@jit
def corners(side: CellSide, rest: Index) -> Ints:
    """The best corner of each used cell's rows."""
    width = side.points.shape[1]
    corner = np.empty((len(side.cells), width), np.int64)
    for c in rest.used:
        for n in range(rest.start[c], rest.end[c]):
            row = rest.rows[n]
            for k in range(width):
                if n == rest.start[c] or side.points[row, k] > corner[c, k]:
                    corner[c, k] = side.points[row, k]
    return corner


# Local skylines, kept from window to window -------------------------------------------------------


@jit
def _sort_out(
    here: Mask, known: Ints, parents: Ints, numbers: Ints, expired: int, fresh: Ints, sky: Ints
) -> tuple[Ints, int]:
    """The places of active rows that have lost their parent, and how many rows are on the skyline.

    Of the others, those without a parent are written to ``sky``, the parents of the rest to
    ``fresh``.
    """
    ask = np.empty(len(numbers), np.int64)
    count = 0
    on_sky = 0
    i = 0
    for n in range(len(numbers)):
        while i < len(known) and known[i] < numbers[n]:
            i += 1
        if i == len(known) or known[i] != numbers[n]:
            ask[count] = n
            count += 1
        elif parents[i] < 0:
            sky[on_sky] = n
            on_sky += 1
        elif parents[i] >= expired and here[parents[i] - expired]:
            fresh[n] = parents[i]
        else:
            ask[count] = n
            count += 1
    return ask[:count], on_sky


@jit
def _park_under_best(
    points: Ints, segment: Ints, rows: Ints, expired: int, ask: Ints, fresh: Ints, counts: Ints
) -> Ints:
    """Park those rows of ``ask`` that the best of them dominates; the others, best first.

    The best dominates most of the others, which need no sort then. ``rows`` are their positions.
    """
    many = len(ask)
    mine = points[rows]
    keys = np.empty(many, np.float64)
    sort_keys(mine, 0, many, keys)
    best = int(np.argmax(keys))
    top = rows[best]
    near = np.empty(many, np.int64)
    left = 0
    for place in range(many):
        counts[COMPARISONS] += 1
        if segment[rows[place]] == segment[top] and dominates(mine, best, mine, place):
            fresh[ask[place]] = top + expired
        else:
            near[left] = place
            left += 1
    near = near[:left]
    sort_best(near, np.empty(left, np.int64), keys, keys)
    return ask[near]


@jit
def local_update(
    points: Ints, segment: Ints, known: Ints, parents: Ints, active: Ints, expired: int,
    counts: Ints,
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    """Move on from the known rows to the active ones, which may differ in any way.

    ``active`` are positions; ``known`` and ``parents`` are numbers, positions plus ``expired``. All
    ascend. A row without a parent (-1) is on the skyline, every other one is parked under a row
    that dominates it. Returns numbers and parents of the active rows, and those on the skyline.
    """
    here = np.zeros(len(points), np.bool_)
    for row in active:
        here[row] = True
    numbers = active + expired
    fresh = np.full(len(active), -1, np.int64)
    sky = np.empty(len(active), np.int64)
    ask, on_sky = _sort_out(here, known, parents, numbers, expired, fresh, sky)
    if len(ask):
        ask = _park_under_best(points, segment, active[ask], expired, ask, fresh, counts)
    for n in ask:
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
                # Move rows that dominate forward, so that the next rows are compared with them
                # early.
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


GRAPH, SHARED, RECOMPUTED = 0, 1, 2  # places in ``shares``
_PAYS = 0.5
"""Sharing pays if at least this share of the rows was already in the previous window."""


class Fabric(NamedTuple):
    """Entries: the rows of layer 2 on the left, then on the right, then of layer 3 on the left.

    And so on. The arrays may be longer.
    """

    known: Ints  # numbers of rows, ascending in each entry
    parents: Ints  # the number of each row's parent, -1 on the skyline
    offsets: Ints  # where each entry begins
    linked: Mask  # whether an entry has parents; if not, only its rows are known
    entries: int


class Sharing(NamedTuple):
    """Which layers may be shared with the previous window."""

    stop: int  # the first layer that is recomputed
    choose: bool  # whether to stop earlier, where sharing does not pay
    few: int  # with fewer rows than this it does not


@jit
def local_sky(
    side: CellSide, start: SideStart, active: Ints, layer: int, at: int, before: Fabric,
    made: Fabric, sharing: Sharing, stop: int, counts: Ints, shares: Ints,
) -> tuple[Ints, Fabric, int]:  # fmt: skip
    """The local skyline of a side's active rows, positions ascending, in one layer.

    ``before`` is the previous window's fabric and ``made`` this one's, which grows. Returns also
    that and the first layer that is recomputed.
    """
    if layer == 1 and start.served:
        shares[GRAPH] += 1
        return start.sky, made, stop
    entry = 2 * (layer - 2) + at
    if layer >= stop:
        shares[RECOMPUTED] += 1
        return recomputed(side, active, counts), made, stop
    known = before.known[:0]
    parents = known
    linked = False
    if entry < before.entries:
        low, high = before.offsets[entry], before.offsets[entry + 1]
        known, linked = before.known[low:high], before.linked[entry]
        parents = before.parents[low:high]
    numbers = active + start.expired
    if sharing.choose:
        few = len(active) < sharing.few
        if few or _common(numbers, known) < _PAYS * len(numbers):
            noted = numbers[:0] if few else numbers
            shares[RECOMPUTED] += 1
            made = _with_entry(made, noted, noted, False)
            return recomputed(side, active, counts), made, layer
    if not linked:
        known, parents = known[:0], parents[:0]
    shares[SHARED if linked else RECOMPUTED] += 1
    numbers, parents, sky = local_update(
        side.points, side.segment, known, parents, active, start.expired, counts
    )
    return sky, _with_entry(made, numbers, parents, True), stop


@jit
def recomputed(side: CellSide, active: Ints, counts: Ints) -> Ints:
    """The local skyline of some rows, segment by segment, by sorting and filtering."""
    rows = active
    offsets = np.zeros(2, np.int64)
    offsets[1] = len(active)
    if side.segments > 1:
        order, offsets = order_by_code(side.segment[active], side.segments)
        rows = active[order]
    kept, _ = skyline_runs(side.points[rows], offsets, counts)
    return rows[kept]


@jit
def _common(a: Ints, b: Ints) -> int:
    """How many numbers two ascending lists have in common."""
    found = 0
    j = 0
    for i in range(len(a)):
        while j < len(b) and b[j] < a[i]:
            j += 1
        found += j < len(b) and b[j] == a[i]
    return found


@jit
def _with_entry(made: Fabric, numbers: Ints, parents: Ints, linked: bool) -> Fabric:
    """The fabric with one entry more."""
    at, size = made.entries, made.offsets[made.entries]
    known = with_room(made.known, size, size + len(numbers))
    above = with_room(made.parents, size, size + len(numbers))
    for n in range(len(numbers)):
        known[size + n], above[size + n] = numbers[n], parents[n]
    offsets = with_room(made.offsets, at + 1, at + 2)
    offsets[at + 1] = size + len(numbers)
    flags = with_room(made.linked, at, at + 1)
    flags[at] = linked
    return Fabric(known, above, offsets, flags, at + 1)


# The layers of a window ---------------------------------------------------------------------------


class Results(NamedTuple):
    """The pairs found so far; the arrays may be longer."""

    pairs: Ints
    points: Ints
    size: int


@kernel
def join_window(
    left: CellSide, right: CellSide, starts: tuple[SideStart, SideStart], fabric: Fabric,
    sharing: Sharing, counts: Ints, local_counts: Ints, shares: Ints,
) -> tuple[Ints, Ints, Fabric]:  # fmt: skip
    """The skyline of the join of the rows from both starts on.

    Returns the pairs of rows (columns LEFT, RIGHT), how many rows of both sides each layer began
    with, and the fabric for the next window.
    """
    one, two = starts
    left_active = np.arange(one.low, len(left.cell))
    right_active = np.arange(two.low, len(right.cell))
    lefts, rights = by_cell(left, left_active), by_cell(right, right_active)
    left_gone = np.zeros(len(left.cell), np.bool_)
    right_gone = np.zeros(len(right.cell), np.bool_)
    width = left.points.shape[1] + right.points.shape[1]
    results = Results(np.zeros((64, 3), np.int64), np.zeros((64, width), np.int64), 0)
    sizes = np.zeros((16, 2), np.int64)
    layer = 0
    stop = sharing.stop
    none = np.zeros(0, np.int64)
    made = Fabric(none, none, np.zeros(1, np.int64), np.zeros(0, np.bool_), 0)
    while len(left_active) and len(right_active):
        sizes = with_room(sizes, layer, layer + 1)
        sizes[layer, LEFT], sizes[layer, RIGHT] = len(left_active), len(right_active)
        layer += 1
        left_sky, made, stop = local_sky(
            left, one, left_active, layer, 0, fabric, made, sharing, stop, local_counts, shares
        )
        right_sky, made, stop = local_sky(
            right, two, right_active, layer, 1, fabric, made, sharing, stop, local_counts, shares
        )
        lefts, rights, results = join_layer(
            left, lefts, left_sky, left_gone, right, rights, right_sky, right_gone, results, counts
        )
        before = len(left_active) + len(right_active) - len(left_sky) - len(right_sky)
        left_active = remaining(left_active, left_gone)
        right_active = remaining(right_active, right_gone)
        counts[PRUNED] += before - len(left_active) - len(right_active)
    return results.pairs[: results.size], sizes[:layer], made


@jit
def join_layer(
    left: CellSide, lefts: Index, left_sky: Ints, left_gone: Mask, right: CellSide, rights: Index,
    right_sky: Ints, right_gone: Mask, results: Results, counts: Ints,
) -> tuple[Index, Index, Results]:  # fmt: skip
    """Join both local skylines, keep what no result dominates, prune both sides.

    The indexes hold the active rows of both sides, of which the local skylines are a part. Rows
    that are done or pruned become ``gone``. Returns what is left of the indexes, and the results,
    which grow.
    """
    lefts, rights, results = join_skies(
        left, lefts, left_sky, left_gone, right, rights, right_sky, right_gone, results, counts
    )
    _outsiders(left, lefts, right, rights, results, True, left_gone, counts)
    lefts = thinned(lefts, left_gone)
    _outsiders(right, rights, left, lefts, results, False, right_gone, counts)
    return lefts, thinned(rights, right_gone), results


@jit
def join_skies(
    left: CellSide, lefts: Index, left_sky: Ints, left_gone: Mask, right: CellSide, rights: Index,
    right_sky: Ints, right_gone: Mask, results: Results, counts: Ints,
) -> tuple[Index, Index, Results]:  # fmt: skip
    """The first half of a layer: the results of both local skylines, and the other rows."""
    counts[LAYERS] += 1
    for row in left_sky:
        left_gone[row] = True
    for row in right_sky:
        right_gone[row] = True
    # P1 joins the left local skyline with all of the right, P2 the rest of the left with the right
    # local skyline.
    pairs = np.empty((64, 2), np.int64)
    pairs, middle = _join(left, left_sky, right, rights, pairs, 0)
    lefts = thinned(lefts, left_gone)
    pairs, total = _join(right, right_sky, left, lefts, pairs, middle)
    for n in range(middle, total):
        pairs[n, LEFT], pairs[n, RIGHT] = pairs[n, RIGHT], pairs[n, LEFT]
    counts[JOINED] += total
    results = _take_results(left, right, pairs, middle, total, results, counts)
    return lefts, thinned(rights, right_gone), results


@jit
def _join(
    own: CellSide, sky: Ints, other: CellSide, others: Index, pairs: Ints, size: int
) -> tuple[Ints, int]:
    """Join a local skyline with rows of the other side.

    Adds (own row, other row) to ``pairs``; returns them and how many they are.
    """
    for a in sky:
        key = own.cells[own.cell[a], KEY]
        for c in range(other.key_cells[key], other.key_cells[key + 1]):
            pairs = with_room(pairs, size, size + others.end[c] - others.start[c])
            for n in range(others.start[c], others.end[c]):
                pairs[size, 0] = a
                pairs[size, 1] = others.rows[n]
                size += 1
    return pairs, size


@jit
def _take_results(
    left: CellSide,
    right: CellSide,
    pairs: Ints,
    middle: int,
    total: int,
    found: Results,
    counts: Ints,
) -> Results:
    """Add the skylines of P1 and of P2, without what an earlier result dominates.

    Pairs that a result dominates go before the others are sorted: what such a pair dominates, the
    result dominates too. They are most of the pairs.
    """
    points = joined(left.points, right.points, pairs, total)
    segment = np.empty(total, np.int64)
    for n in range(total):
        a, b = left.cell[pairs[n, LEFT]], right.cell[pairs[n, RIGHT]]
        segment[n] = mixed(left.cells[a, SEGMENT], right.cells[b, SEGMENT])
    # Pairs of both local skylines are in P1 only, so P2 is compared with P1 too.
    for low, high in ((0, middle), (middle, total)):
        rest = _undominated(found, points, segment, low, high, counts)
        if len(rest) == 0:
            continue
        rest = rest[np.argsort(segment[rest], kind="mergesort")]
        offsets = np.zeros(len(rest) + 1, np.int64)
        runs = 0
        for n in range(1, len(rest)):
            if segment[rest[n]] != segment[rest[n - 1]]:
                runs += 1
                offsets[runs] = n
        offsets[runs + 1] = len(rest)
        kept, _ = skyline_runs(points[rest], offsets[: runs + 2], counts)
        found = _added(found, pairs, points, segment, rest[kept])
    return found


@jit
def _undominated(
    found: Results, points: Ints, segment: Ints, low: int, high: int, counts: Ints
) -> Ints:
    """The pairs from ``low`` to ``high`` that no result dominates."""
    rest = np.empty(high - low, np.int64)
    size = 0
    last = 0  # the result that dominated last, which is often the one to dominate the next pair
    for pair in range(low, high):
        dominated = False
        for n in range(found.size):
            g = last if n == 0 else n - 1 if n <= last else n
            if found.pairs[g, BOTH] == segment[pair]:
                counts[COMPARISONS] += 1
                if dominates(found.points, g, points, pair):
                    dominated = True
                    last = g
                    break
        if not dominated:
            rest[size] = pair
            size += 1
    return rest[:size]


@jit
def _added(found: Results, pairs: Ints, points: Ints, segment: Ints, chosen: Ints) -> Results:
    """The results and some more pairs."""
    size = found.size
    listed = with_room(found.pairs, size, size + len(chosen))
    listed_points = with_room(found.points, size, size + len(chosen))
    for pair in chosen:
        listed[size, LEFT] = pairs[pair, LEFT]
        listed[size, RIGHT] = pairs[pair, RIGHT]
        listed[size, BOTH] = segment[pair]
        for k in range(points.shape[1]):
            listed_points[size, k] = points[pair, k]
        size += 1
    return Results(listed, listed_points, size)


@jit
def _near(
    results: Results, segment: int, corner: Ints, c: int, shift: int, near: Ints, strict: Mask,
    counts: Ints,
) -> int:  # fmt: skip
    """List the results that are no worse than a corner, and which are better; how many there are.

    ``shift`` is where the corner's dimensions begin among those of a result.
    """
    found = 0
    for g in range(results.size):
        if results.pairs[g, BOTH] == segment:
            counts[COMPARISONS] += 1
            how = _compared(results.points, g, shift, corner, c)
            if how != _WORSE:
                near[found], strict[found] = g, how == _BETTER
                found += 1
    return found


@jit
def _outsiders(
    own: CellSide, rest: Index, other: CellSide, other_rest: Index, results: Results, is_left: bool,
    gone: Mask, counts: Ints,
) -> None:  # fmt: skip
    """Mark the rows that cannot be part of a result any more.

    A row is pruned if it has no partner left, or if a result would dominate it even when joined
    with the best corner of its partners, cell by cell.
    """
    corner = corners(other, other_rest)
    own_shift = 0 if is_left else other.points.shape[1]
    other_shift = own.points.shape[1] if is_left else 0
    near = np.empty(results.size, np.int64)
    strict = np.empty(results.size, np.bool_)
    for cell in rest.used:
        for n in range(rest.start[cell], rest.end[cell]):
            gone[rest.rows[n]] = True
        key = own.cells[cell, KEY]
        for c in range(other.key_cells[key], other.key_cells[key + 1]):
            if other_rest.start[c] == other_rest.end[c]:
                continue
            one, two = own.cells[cell, SEGMENT], other.cells[c, SEGMENT]
            segment = mixed(one, two) if is_left else mixed(two, one)
            # Few results are near the corner, and they are the same for all rows of a cell.
            found = _near(results, segment, corner, c, other_shift, near, strict, counts)
            for n in range(rest.start[cell], rest.end[cell]):
                row = rest.rows[n]
                if not gone[row]:
                    continue
                gone[row] = False
                for i in range(found):
                    counts[COMPARISONS] += 1
                    how = _compared(results.points, near[i], own_shift, own.points, row)
                    if how == _BETTER or (how == _EQUAL and strict[i]):
                        gone[row] = True
                        break


@jit
def _compared(results: Ints, g: int, shift: int, points: Ints, row: int) -> int:
    """Whether a result is worse than a row in one of its dimensions, else better, or equal."""
    how = _EQUAL
    for k in range(points.shape[1]):
        x = results[g, shift + k]
        if x < points[row, k]:
            return _WORSE
        if x > points[row, k]:
            how = _BETTER
    return how


@jit
def remaining(rows: Ints, gone: Mask) -> Ints:
    """The rows that are not gone, in the same order."""
    kept = np.empty(len(rows), np.int64)
    size = 0
    for row in rows:
        if not gone[row]:
            kept[size] = row
            size += 1
    return kept[:size].copy()
