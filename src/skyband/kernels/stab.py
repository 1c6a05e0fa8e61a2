"""The non-redundant rows of a sliding window, each with its critical dominator: StabSky by panes.

Members stand in order of age. A member is dominated by no row of its own or a newer pane;
``parent`` is the youngest older member that dominates it (-1: none is live), ``since`` that
member's pane. A member of pane p is on the skyline of every window whose first pane lies in (since,
p].
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyband.kernels.dominance import BETTER, EQUAL, WORSE, dominates, relation
from skyband.kernels.jit import jit

__all__ = ["ALWAYS", "stab_fold", "stab_read"]

Ints = npt.NDArray[np.int64]
ALWAYS = np.int64(-(2**62))
"""``since`` of a row that nothing older dominates."""

COMPARISONS, REDUNDANT, EXPIRED, EDGES = 0, 1, 2, 3


@jit
def stab_fold(
    points: Ints,
    segment: Ints,
    pane: Ints,
    since: Ints,
    parent: Ints,
    slot: Ints,
    size: int,
    offsets: Ints,
    stamps: Ints,
    window_first: Ints,
    window_end: Ints,
    counts: Ints,
) -> tuple[int, Ints, Ints]:
    """Push panes and read windows; returns the number of members, slots read, their offsets.

    The first ``size`` rows of the arrays are members; behind them stand the rows of the new panes,
    cut by ``offsets``, with pane and slot filled in. Members are compacted to the front.
    """
    found = np.empty(64, np.int64)
    found_offsets = np.zeros(len(window_first) + 1, np.int64)
    dead = np.zeros(len(pane), np.bool_)
    place = np.empty(len(pane), np.int64)
    base = size
    at = 0
    read = 0
    for w in range(len(window_first)):
        while at < len(stamps) and stamps[at] < window_end[w]:
            first, last = base + offsets[at], base + offsets[at + 1]
            size = _push(
                points, segment, pane, since, parent, slot, size, first, last, dead, place, counts
            )
            at += 1
        size = _expire(
            points, segment, pane, since, parent, slot, size, window_first[w], dead, place, counts
        )
        if read + size > len(found):
            grown = np.empty(2 * (read + size), np.int64)
            grown[:read] = found[:read]
            found = grown
        read = _read(pane, since, slot, size, window_first[w], found, read)
        found_offsets[w + 1] = read
    while at < len(stamps):
        first, last = base + offsets[at], base + offsets[at + 1]
        size = _push(
            points, segment, pane, since, parent, slot, size, first, last, dead, place, counts
        )
        at += 1
    return size, found[:read].copy(), found_offsets


@jit
def stab_read(pane: Ints, since: Ints, slot: Ints, first: int) -> Ints:
    """Slots of the members on the skyline of the window that begins with pane ``first``."""
    found = np.empty(len(pane), np.int64)
    read = _read(pane, since, slot, len(pane), first, found, 0)
    return found[:read].copy()


@jit
def _read(
    pane: Ints, since: Ints, slot: Ints, size: int, first: int, found: Ints, read: int
) -> int:
    for i in range(size):
        if since[i] < first <= pane[i]:
            found[read] = slot[i]
            read += 1
    return read


@jit
def _push(
    points: Ints,
    segment: Ints,
    pane: Ints,
    since: Ints,
    parent: Ints,
    slot: Ints,
    size: int,
    first: int,
    last: int,
    dead: npt.NDArray[np.bool_],
    place: Ints,
    counts: Ints,
) -> int:
    """Take the rows ``[first, last)``, the skyline of one pane; returns the number of members."""
    killed = 0
    for row in range(first, last):
        if (
            row > first
            and segment[row] == segment[row - 1]
            and relation(points, row, points, row - 1) == EQUAL
        ):
            since[row] = since[row - 1]
            parent[row] = parent[row - 1]
            counts[EDGES] += parent[row] >= 0
            continue
        since[row] = ALWAYS
        parent[row] = -1
        for member in range(size - 1, -1, -1):
            if dead[member] or segment[member] != segment[row]:
                continue
            counts[COMPARISONS] += 1
            if parent[row] >= 0:
                worse = dominates(points, row, points, member)
            else:
                found = relation(points, member, points, row)
                worse = found == WORSE
                if found == BETTER:
                    # Members stand by age, so the first one found is the youngest.
                    parent[row] = member
                    since[row] = pane[member]
                    counts[EDGES] += 1
            if worse:
                dead[member] = True
                killed += 1
    counts[REDUNDANT] += killed
    for member in range(size):
        place[member] = member
    kept = size
    if killed:
        kept = _compact(points, segment, pane, since, parent, slot, 0, size, 0, dead, place)
    for row in range(first, last):
        dead[row] = False
    return _compact(points, segment, pane, since, parent, slot, first, last, kept, dead, place)


@jit
def _expire(
    points: Ints,
    segment: Ints,
    pane: Ints,
    since: Ints,
    parent: Ints,
    slot: Ints,
    size: int,
    first: int,
    dead: npt.NDArray[np.bool_],
    place: Ints,
    counts: Ints,
) -> int:
    """Let the members of panes before ``first`` go; their children become roots."""
    gone = 0
    while gone < size and pane[gone] < first:
        dead[gone] = True
        gone += 1
    if gone == 0:
        return size
    counts[EXPIRED] += gone
    return _compact(points, segment, pane, since, parent, slot, 0, size, 0, dead, place)


@jit
def _compact(
    points: Ints,
    segment: Ints,
    pane: Ints,
    since: Ints,
    parent: Ints,
    slot: Ints,
    first: int,
    last: int,
    to: int,
    dead: npt.NDArray[np.bool_],
    place: Ints,
) -> int:
    """Move what lives of ``[first, last)`` to ``to``; clears ``dead``, returns where it ends."""
    for member in range(first, last):
        if dead[member]:
            dead[member] = False
            place[member] = -1
            continue
        place[member] = to
        above = parent[member]
        # A parent is older than its child, so its own place is known already.
        parent[to] = -1 if above < 0 else place[above]
        if to != member:
            for k in range(points.shape[1]):
                points[to, k] = points[member, k]
            segment[to] = segment[member]
            pane[to] = pane[member]
            since[to] = since[member]
            slot[to] = slot[member]
        to += 1
    return to
