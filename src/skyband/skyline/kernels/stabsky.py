"""The non-redundant rows of a sliding window, each with its critical dominator: StabSky by panes.

Members are sorted by age. No row of its own or a newer pane dominates a member;
``parent`` is the youngest older member that dominates it (-1: none is live), ``since`` that
member's pane. A member of pane p is on the skyline of every window whose first pane lies in (since,
p].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Codes, Ints, Mask
from skyband.kernels.arrange import with_room
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel
from skyband.skyline.kernels.dominance import BETTER, EQUAL, WORSE, codes_of, dominates, relation

ALWAYS = np.int64(-(2**62))
"""``since`` of a row that nothing older dominates."""

COMPARISONS, REDUNDANT, EXPIRED, EDGES = 0, 1, 2, 3

_BLOCK = 16  # members whose codes are compared at a time
_MANY = 64  # new rows per group, from which on codes pay if there are as many members,
_FEW = 3  # or more than so many dimensions, which make many members of the new rows


class Work(NamedTuple):
    """What is known of the members during a call only."""

    dead: Mask
    place: Ints  # where ``_compact`` moves them
    code: Ints  # see ``dominance``
    high: int  # the spare bits of codes; 0 if there are no codes


class Members(NamedTuple):
    """One entry per row, oldest first; ``slot`` is what the owner knows the row by."""

    points: Ints
    segment: Ints
    pane: Ints
    since: Ints
    parent: Ints
    slot: Ints


class StabReads(NamedTuple):
    """Windows to read, in order of their ends; those of a group together if it has its own."""

    first: Ints  # its first pane
    end: Ints  # after its last pane
    expired: Ints  # panes before this one are needed by no later window
    group: Codes  # whose window it is; empty if every window is of all groups


class PaneSkylines(NamedTuple):
    """New rows: the skyline of each (pane, group); equal points of a segment side by side."""

    points: Ints
    segment: Ints
    slot: Ints
    offsets: Ints  # of the rows of each run
    pane: Ints
    group: Codes


class Skylines(NamedTuple):
    """The skylines of some (window, group) pairs; only of those with rows."""

    window: Ints  # position in the list of windows
    group: Codes
    offsets: Ints  # one more than there are pairs
    slot: Ints


@kernel
def stab_fold(
    m: Members, starts: Ints, sizes: Ints, groups: Ints, fresh: PaneSkylines, order: Ints,
    reads: StabReads, counts: Ints,
) -> tuple[Members, Ints, Skylines]:  # fmt: skip
    """Push panes and read windows, group by group.

    ``groups`` ascend; the ``sizes[i]`` members of group i begin at ``starts[i]``, and ``parent``
    counts from there. ``order`` names the new runs by group, oldest first. Returns the members that
    are left, how many each group has, and what was read: group by group, and window by window.
    """
    total, windows = sizes.sum() + len(fresh.slot), len(reads.end)
    left, kept = _empty_members(total, m.points.shape[1]), np.empty(len(groups), np.int64)
    known, codes, high = len(m.slot), m.slot, 0
    wide = m.points.shape[1] > _FEW or sizes.sum() >= _MANY * len(groups)
    if wide and len(fresh.slot) >= _MANY * len(groups):
        codes, high = codes_of(m.points, known, fresh.points)
    work = Work(
        np.zeros(total, np.bool_), np.empty(total, np.int64), np.zeros(total, np.int64), high
    )
    shared = len(reads.group) == 0
    most = windows * len(groups) if shared else windows
    of_window, of_group = np.empty(most, np.int64), np.empty(most, np.int32)
    offsets, slots = np.zeros(most + 1, np.int64), np.empty(64, np.int64)
    low, run, window, pairs = 0, 0, 0, 0
    for i in range(len(groups)):
        group, size, own = groups[i], sizes[i], _slice(left, low, total)
        _copy_members(own, m, starts[i], size)
        for at in range(size if high else 0):
            work.code[at] = codes[starts[i] + at]
        window = 0 if shared else window
        reading = True
        while reading:
            reading = window < windows and (shared or reads.group[window] == group)
            if reading:  # before the pushes too, whose rows are compared with all that are left
                size = _expire(own, size, reads.expired[window], work, counts)
            while run < len(order) and fresh.group[order[run]] == group:
                if reading and fresh.pane[order[run]] >= reads.end[window]:
                    break
                end = _append(own, size, fresh, order[run])
                for at in range(end - size if high else 0):
                    work.code[size + at] = codes[known + fresh.offsets[order[run]] + at]
                size = _push(own, size, size, end, work, counts)
                run += 1
            if reading:
                size = _expire(own, size, reads.expired[window], work, counts)
                used = offsets[pairs]
                slots = with_room(slots, used, used + size)
                offsets[pairs + 1] = _read(own, size, reads.first[window], slots, used)
                of_window[pairs], of_group[pairs] = window, group
                pairs += offsets[pairs + 1] > used
                window += 1
        kept[i] = size
        low += size
    skylines = Skylines(
        of_window[:pairs], of_group[:pairs], offsets[: pairs + 1], slots[: offsets[pairs]].copy()
    )
    return _slice(left, 0, low), kept, skylines


@jit
def _empty_members(size: int, dimensions: int) -> Members:
    return Members(
        np.empty((size, dimensions), np.int64), np.empty(size, np.int64), np.empty(size, np.int64),
        np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64),
    )  # fmt: skip


@jit
def _slice(m: Members, low: int, high: int) -> Members:
    return Members(
        m.points[low:high], m.segment[low:high], m.pane[low:high], m.since[low:high],
        m.parent[low:high], m.slot[low:high],
    )  # fmt: skip


@jit
def _copy_members(to: Members, m: Members, start: int, size: int) -> None:
    for i in range(size):
        for k in range(m.points.shape[1]):
            to.points[i, k] = m.points[start + i, k]
        to.segment[i] = m.segment[start + i]
        to.pane[i] = m.pane[start + i]
        to.since[i] = m.since[start + i]
        to.parent[i] = m.parent[start + i]
        to.slot[i] = m.slot[start + i]


@jit
def _append(m: Members, size: int, fresh: PaneSkylines, run: int) -> int:
    """Write the rows of a run behind the members; returns their end."""
    for row in range(fresh.offsets[run], fresh.offsets[run + 1]):
        for k in range(m.points.shape[1]):
            m.points[size, k] = fresh.points[row, k]
        m.segment[size] = fresh.segment[row]
        m.pane[size] = fresh.pane[run]
        m.slot[size] = fresh.slot[row]
        size += 1
    return size


@kernel
def stab_read(m: Members, starts: Ints, sizes: Ints, groups: Ints, first: int) -> Skylines:
    """The window that begins with pane ``first``, of these groups; see ``stab_fold``."""
    most, pairs = len(groups), 0
    of_group, offsets = np.empty(most, np.int32), np.zeros(most + 1, np.int64)
    slots = np.empty(sizes.sum(), np.int64)
    for i in range(most):
        own, used = _slice(m, starts[i], starts[i] + sizes[i]), offsets[pairs]
        offsets[pairs + 1] = _read(own, sizes[i], first, slots, used)
        of_group[pairs] = groups[i]
        pairs += offsets[pairs + 1] > used
    return Skylines(
        np.zeros(pairs, np.int64), of_group[:pairs], offsets[: pairs + 1], slots[: offsets[pairs]]
    )


@jit
def _read(m: Members, size: int, first: int, found: Ints, read: int) -> int:
    low = size
    while low > 0 and m.pane[low - 1] >= first:  # many windows are far shorter than the longest
        low -= 1
    for i in range(low, size):
        if m.since[i] < first:
            found[read] = m.slot[i]
            read += 1
    return read


@jit
def _push(m: Members, size: int, first: int, last: int, work: Work, counts: Ints) -> int:
    """Add the rows ``[first, last)``, the skyline of one pane; returns the number of members."""
    dead, code, high = work.dead, work.code, work.high
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
        own, stop = code[row], size
        while stop > 0:
            start = max(stop - _BLOCK, 0) if high else 0
            near = high == 0 or start + _BLOCK != stop
            if not near:
                for member in range(start, start + _BLOCK):
                    near |= ((code[member] | high) - own) & high == high
                    near |= ((own | high) - code[member]) & high == high
            for member in range(stop - 1, start - 1 if near else stop - 1, -1):
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
            stop = start
    counts[REDUNDANT] += killed
    for member in range(size):
        work.place[member] = member
    kept = size
    if killed:
        kept = _compact(m, 0, size, 0, work)
    for row in range(first, last):
        dead[row] = False
    return _compact(m, first, last, kept, work)


@jit
def _expire(m: Members, size: int, first: int, work: Work, counts: Ints) -> int:
    """Drop the members of panes before ``first``; their children become roots."""
    gone = 0
    while gone < size and m.pane[gone] < first:
        work.dead[gone] = True
        gone += 1
    if gone == 0:
        return size
    counts[EXPIRED] += gone
    return _compact(m, 0, size, 0, work)


@jit
def _compact(m: Members, first: int, last: int, to: int, work: Work) -> int:
    """Move the live members of ``[first, last)`` to ``to``; clears ``dead``, returns their end."""
    dead, place = work.dead, work.place
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
            work.code[to] = work.code[member]
        to += 1
    return to
