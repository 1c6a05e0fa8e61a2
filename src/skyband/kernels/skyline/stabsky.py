"""The non-redundant rows of a sliding window, each with its critical dominator: StabSky by panes.

Members are sorted by age. No row of its own or a newer pane dominates a member;
``parent`` is the youngest older member that dominates it (-1: none is live), ``since`` that
member's pane. A member of pane p is on the skyline of every window whose first pane lies in (since,
p].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Ints, Mask
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import kernel
from skyband.kernels.core.room import with_room
from skyband.kernels.skyline.dominance import (
    BETTER,
    EQUAL,
    WORSE,
    dominates,
    relation,
    skyline_runs,
)

ALWAYS = np.int64(-(2**62))
"""``since`` of a row that nothing older dominates."""

COMPARISONS, REDUNDANT, EXPIRED, EDGES = 0, 1, 2, 3


class Members(NamedTuple):
    """One entry per row, oldest first; ``slot`` is what the owner knows the row by."""

    points: Ints
    segment: Ints
    pane: Ints
    since: Ints
    parent: Ints
    slot: Ints


class Reads(NamedTuple):
    """Windows to read, in order of their ends."""

    first: Ints  # its first pane
    end: Ints  # after its last pane
    expired: Ints  # panes before this one are needed by no later window


@kernel
def stab_fold(
    m: Members, size: int, offsets: Ints, stamps: Ints, window_first: Ints, window_end: Ints,
    counts: Ints,
) -> tuple[int, Ints, Ints]:  # fmt: skip
    """Push panes and read windows; returns the number of members, slots read, their offsets.

    The first ``size`` rows of the arrays are members; behind them are the rows of the new panes,
    split by ``offsets``, with pane and slot filled in. Members are compacted to the front. When a
    window is read, panes before it expire.
    """
    found = np.empty(64, np.int64)
    found_offsets = np.zeros(len(window_first) + 1, np.int64)
    dead = np.zeros(len(m.pane), np.bool_)
    place = np.empty(len(m.pane), np.int64)
    base = size
    at = 0
    read = 0
    for w in range(len(window_first) + 1):
        over = w == len(window_first)
        while at < len(stamps) and (over or stamps[at] < window_end[w]):
            first, last = base + offsets[at], base + offsets[at + 1]
            size = _push(m, size, first, last, dead, place, counts)
            at += 1
        if over:
            break
        size = _expire(m, size, window_first[w], dead, place, counts)
        found = with_room(found, read, read + size)
        read = _read(m, size, window_first[w], found, read)
        found_offsets[w + 1] = read
    return size, found[:read].copy(), found_offsets


@kernel
def stab_fold_groups(
    m: Members, starts: Ints, sizes: Ints, turns: Ints, offsets: Ints, stamps: Ints, reads: Reads,
    expired: int, counts: Ints, lengths: Ints,
) -> Ints:  # fmt: skip
    """Push panes and read windows of any size, group by group; returns the slots read.

    The rows of group g begin at ``starts[g]``: first its ``sizes[g]`` members, then its new panes,
    which are those from ``turns[g]`` to ``turns[g + 1]`` and are split by ``offsets``. ``parent``
    counts from the group's own first row. Writes how many members each group has left to ``sizes``
    and how many slots were read of each window and group to ``lengths``; slots come group by group.
    Panes before ``expired`` are dropped at the end.
    """
    found = np.empty(64, np.int64)
    dead = np.zeros(len(m.pane), np.bool_)
    place = np.empty(len(m.pane), np.int64)
    read = 0
    for g in range(len(sizes)):
        low, high = starts[g], starts[g + 1]
        if low == high:
            continue
        own = Members(
            m.points[low:high], m.segment[low:high], m.pane[low:high], m.since[low:high],
            m.parent[low:high], m.slot[low:high],
        )  # fmt: skip
        mine = offsets[turns[g] : turns[g + 1] + 1], stamps[turns[g] : turns[g + 1]]
        sizes[g], found, read = _fold_group(
            own, sizes[g], *mine, reads, expired, counts, lengths[:, g], dead, place, found, read
        )
    return found[:read].copy()


@kernel
def stab_fold_each(
    m: Members, starts: Ints, sizes: Ints, turns: Ints, offsets: Ints, stamps: Ints, reads: Reads,
    ends: Ints, expired: Ints, counts: Ints, lengths: Ints,
) -> Ints:  # fmt: skip
    """As ``stab_fold_groups``, where each group has its own windows, and panes that expire.

    Those of group g are ``reads.first[ends[g]:ends[g + 1]]`` and so on; so are ``lengths``.
    """
    found = np.empty(64, np.int64)
    dead = np.zeros(len(m.pane), np.bool_)
    place = np.empty(len(m.pane), np.int64)
    read = 0
    for g in range(len(sizes)):
        low, high = starts[g], starts[g + 1]
        if low == high:
            continue
        own = Members(
            m.points[low:high], m.segment[low:high], m.pane[low:high], m.since[low:high],
            m.parent[low:high], m.slot[low:high],
        )  # fmt: skip
        mine = offsets[turns[g] : turns[g + 1] + 1], stamps[turns[g] : turns[g + 1]]
        a, b = ends[g], ends[g + 1]
        asked = Reads(reads.first[a:b], reads.end[a:b], reads.expired[a:b])
        sizes[g], found, read = _fold_group(
            own, sizes[g], *mine, asked, expired[g], counts, lengths[a:b], dead, place, found, read
        )
    return found[:read].copy()


@jit
def _fold_group(
    m: Members, size: int, offsets: Ints, stamps: Ints, reads: Reads, expired: int, counts: Ints,
    lengths: Ints, dead: Mask, place: Ints, found: Ints, read: int,
) -> tuple[int, Ints, int]:  # fmt: skip
    """Fold one group; returns its number of members, the slots read so far, and how many."""
    at = 0
    base = size - offsets[0]
    for w in range(len(reads.end) + 1):
        over = w == len(reads.end)
        while at < len(stamps) and (over or stamps[at] < reads.end[w]):
            first, last = base + offsets[at], base + offsets[at + 1]
            size = _push(m, size, first, last, dead, place, counts)
            at += 1
        size = _expire(m, size, expired if over else reads.expired[w], dead, place, counts)
        if over:
            break
        found = with_room(found, read, read + size)
        before = read
        for i in range(size - 1, -1, -1):  # many windows are far shorter than the longest
            if m.pane[i] < reads.first[w]:
                break
            if m.since[i] < reads.first[w]:
                found[read] = m.slot[i]
                read += 1
        lengths[w] = read - before
    return size, found, read


@kernel
def stab_follow(
    m: Members, points: Ints, segment: Ints, pane: Ints, start: int, shift: int, first: int,
    counts: Ints, local_counts: Ints,
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:  # fmt: skip
    """Drop panes before ``first``, then add the rows from ``start`` on, all of one segment.

    The skylines of their panes are computed here; a row's slot is its position plus ``shift``.
    """
    offsets = np.zeros(len(pane) - start + 1, np.int64)
    panes = 0
    for row in range(start, len(pane)):
        if row > start and pane[row] != pane[row - 1]:
            panes += 1
        offsets[panes + 1] = row + 1 - start
    offsets = offsets[: panes + 2] if start < len(pane) else offsets
    kept, cuts = skyline_runs(points[start:], offsets, local_counts)
    rows = kept + start
    size, total = len(m.pane), len(m.pane) + len(kept)
    grown = Members(
        np.concatenate((m.points, points[rows])), np.concatenate((m.segment, segment[rows])),
        np.concatenate((m.pane, pane[rows])), np.concatenate((m.since, rows)),
        np.concatenate((m.parent, rows)), np.concatenate((m.slot, rows + shift)),
    )  # fmt: skip
    dead = np.zeros(total, np.bool_)
    place = np.empty(total, np.int64)
    base = size
    size = _expire(grown, size, first, dead, place, counts)
    for n in range(len(cuts) - 1):
        size = _push(grown, size, base + cuts[n], base + cuts[n + 1], dead, place, counts)
    return (
        grown.points[:size], grown.segment[:size], grown.pane[:size], grown.since[:size],
        grown.parent[:size], grown.slot[:size],
    )  # fmt: skip


@kernel
def stab_read(m: Members, first: int) -> Ints:
    """Slots of the members on the skyline of the window that begins with pane ``first``."""
    found = np.empty(len(m.pane), np.int64)
    read = _read(m, len(m.pane), first, found, 0)
    return found[:read].copy()


@jit
def _read(m: Members, size: int, first: int, found: Ints, read: int) -> int:
    for i in range(size):
        if m.since[i] < first <= m.pane[i]:
            found[read] = m.slot[i]
            read += 1
    return read


@jit
def _push(
    m: Members, size: int, first: int, last: int, dead: Mask, place: Ints, counts: Ints,
) -> int:  # fmt: skip
    """Add the rows ``[first, last)``, the skyline of one pane; returns the number of members."""
    killed = 0
    for row in range(first, last):
        alike = row > first and m.segment[row] == m.segment[row - 1]
        if alike and relation(m.points, row, m.points, row - 1) == EQUAL:
            m.since[row] = m.since[row - 1]
            m.parent[row] = m.parent[row - 1]
            counts[EDGES] += m.parent[row] >= 0
            continue
        m.since[row] = ALWAYS
        m.parent[row] = -1
        for member in range(size - 1, -1, -1):
            if dead[member] or m.segment[member] != m.segment[row]:
                continue
            counts[COMPARISONS] += 1
            if m.parent[row] >= 0:
                worse = dominates(m.points, row, m.points, member)
            else:
                found = relation(m.points, member, m.points, row)
                worse = found == WORSE
                if found == BETTER:
                    # Members are sorted by age, so the first one found is the youngest.
                    m.parent[row] = member
                    m.since[row] = m.pane[member]
                    counts[EDGES] += 1
            if worse:
                dead[member] = True
                killed += 1
    counts[REDUNDANT] += killed
    for member in range(size):
        place[member] = member
    kept = size
    if killed:
        kept = _compact(m, 0, size, 0, dead, place)
    for row in range(first, last):
        dead[row] = False
    return _compact(m, first, last, kept, dead, place)


@jit
def _expire(
    m: Members, size: int, first: int, dead: Mask, place: Ints, counts: Ints,
) -> int:  # fmt: skip
    """Drop the members of panes before ``first``; their children become roots."""
    gone = 0
    while gone < size and m.pane[gone] < first:
        dead[gone] = True
        gone += 1
    if gone == 0:
        return size
    counts[EXPIRED] += gone
    return _compact(m, 0, size, 0, dead, place)


@jit
def _compact(
    m: Members, first: int, last: int, to: int, dead: Mask, place: Ints,
) -> int:  # fmt: skip
    """Move the live members of ``[first, last)`` to ``to``; clears ``dead``, returns their end."""
    for member in range(first, last):
        if dead[member]:
            dead[member] = False
            place[member] = -1
            continue
        place[member] = to
        above = m.parent[member]
        # A parent is older than its child, so its own place is known already.
        m.parent[to] = -1 if above < 0 else place[above]
        if to != member:
            for k in range(m.points.shape[1]):
                m.points[to, k] = m.points[member, k]
            m.segment[to] = m.segment[member]
            m.pane[to] = m.pane[member]
            m.since[to] = m.since[member]
            m.slot[to] = m.slot[member]
        to += 1
    return to
