"""The live reports of fused objects: a log in the order of panes, one chain per object.

    log     report   0  1  2  3  4  5  6        head .. size are live
            code     7  2  7  9  2  7  4
            chain    2  4  5  ·  ·  ·  ·        the next report of the same object

    object  code     first  last                ``links[code]``
             7         0      5

A report expires at the head of the log, where it is always the first of its object's chain. The
values of objects are returned as a matrix (objects x streams); scores are computed elsewhere, so
that a user's own function costs no more than a sum.

The *view* holds the objects whose score is at least ``floor`` (k_max of them or some more), so that
a read looks at few objects. The score of an object without live reports is NaN, which no comparison
accepts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Codes, Floats, Ints, Mask
from skyband.kernels.arrange import with_room
from skyband.kernels.best import best_of
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel
from skyband.kernels.sorting import kth_greatest

Reports = tuple[Codes, Codes, Floats, Ints]
"""Object, stream, value and pane of each report."""
Log = tuple[Codes, Codes, Floats, Ints, Codes]
"""The same for the live reports, and the next report of the same object."""


@jit
def _values(report: int, log: Log, low: Floats, row: Floats, there: Mask) -> None:
    """The value of every stream from a chain of reports, and whether it has one.

    A stream without a report has its lower bound.
    """
    stream, value, chain = log[1], log[2], log[4]
    row[:], there[:] = 0.0, False
    while report >= 0:
        s = stream[report]
        row[s] += value[report]
        there[s] = True
        report = chain[report]
    for s in range(len(low)):
        if not there[s]:
            row[s] = low[s]


@jit
def _link(report: int, owner: int, chain: Codes, links: Codes) -> None:
    """Append a report to the chain of its object."""
    last = links[owner, 1]
    if last < 0:
        links[owner, 0] = report
    else:
        chain[last] = report
    chain[report] = -1
    links[owner, 1] = report


@kernel
def values_of(codes: Codes, links: Codes, log: Log, low: Floats) -> tuple[Floats, Mask]:
    """The values of some objects, and where they have reports."""
    found = np.empty((len(codes), len(low)))
    present = np.empty((len(codes), len(low)), np.bool_)
    for i in range(len(codes)):
        _values(links[codes[i], 0], log, low, found[i], present[i])
    return found, present


@kernel
def dead_of(touched: Codes, links: Codes, mark: Ints, serial: int) -> Codes:
    """Those objects that have no reports, each once."""
    dead = np.empty(len(touched), np.int32)
    count = 0
    for i in range(len(touched)):
        code = touched[i]
        if links[code, 0] < 0 and mark[code] != serial:
            mark[code] = serial
            dead[count] = code
            count += 1
    return dead[:count]


@kernel
def advance(
    rows: Reports, step_end: Ints, step_first: Ints, log: Log, head: int, size: int, links: Codes,
    ever: Codes, mark: Ints, serial: int, low: Floats,
) -> tuple[int, int, Codes, Floats, Mask, Ints]:  # fmt: skip
    """Take rows and expire reports, step by step; which objects changed, and to which values.

    A step takes the rows up to ``step_end`` and then drops panes before ``step_first``. Each object
    that changed is returned once per step, as it is at the end of the step: its value in every
    stream, and whether it has a live report there. ``mark`` holds no number above ``serial``.
    """
    new_code, new_stream, new_value, new_pane = rows
    code, stream, value, pane, chain = log
    steps = len(step_end)
    room = len(new_code) + len(new_code) + size - head
    touched = np.empty(room, np.int32)
    values = np.empty((room, len(low)))
    present = np.empty((room, len(low)), np.bool_)
    offsets = np.zeros(steps + 1, np.int64)
    count = 0
    row = 0
    for step in range(steps):
        begin = count
        now = serial + step + 1
        while row < step_end[step]:
            owner = new_code[row]
            code[size] = owner
            stream[size] = new_stream[row]
            value[size] = new_value[row]
            pane[size] = new_pane[row]
            _link(size, owner, chain, links)
            ever[owner, new_stream[row]] += 1
            if mark[owner] != now:
                mark[owner] = now
                touched[count] = owner
                count += 1
            size += 1
            row += 1
        while head < size and pane[head] < step_first[step]:
            owner = code[head]
            links[owner, 0] = chain[head]
            if chain[head] < 0:
                links[owner, 1] = -1
            if mark[owner] != now:
                mark[owner] = now
                touched[count] = owner
                count += 1
            head += 1
        for i in range(begin, count):
            _values(links[touched[i], 0], log, low, values[i], present[i])
        offsets[step + 1] = count
    return head, size, touched[:count], values[:count], present[:count], offsets


# The view of the best objects ---------------------------------------------------------------------

VIEW, LIVE, LIMIT, REFILLS = 0, 1, 2, 3
"""Places in ``counters``: size of the view, live objects, when to tighten, refills."""


class View(NamedTuple):
    """The scores of all objects by code, and the view of the best ones."""

    score: Floats
    key: Ints  # smaller is better among equal scores
    members: Codes  # the objects in the view, in no order; the array is longer
    place: Codes  # the place of each object in ``members``, -1 for none
    counters: Ints
    floor: Floats  # a single number


@jit
def before(score: float, key: int, other_score: float, other_key: int) -> bool:
    """Whether one object comes before another: better score, then smaller id."""
    return score > other_score or (score == other_score and key < other_key)


@jit
def _choose(view: View, codes: Codes, count: int, aim: int) -> None:
    """Make a view of the ``aim`` best objects among ``codes``, and those that tie with the last."""
    score, members, place, counters = view.score, view.members, view.place, view.counters
    bound = -np.inf
    if count > aim:
        bound = kth_greatest(score[codes[:count]], np.empty(count), count, aim)
    kept = 0
    for i in range(count):
        code = codes[i]
        if score[code] >= bound:
            place[code] = kept
            members[kept] = code
            kept += 1
        else:
            place[code] = -1
    counters[VIEW] = kept
    counters[LIMIT] = 2 * max(kept, aim)
    view.floor[0] = bound


@jit
def _take_out(view: View, code: int, at: int) -> None:
    """Take an object out of the view: the last one takes its place."""
    view.counters[VIEW] -= 1
    last = view.members[view.counters[VIEW]]
    view.members[at] = last
    view.place[last] = at
    view.place[code] = -1


@jit
def _rescore(view: View, touched: Codes, scores: Floats, start: int, stop: int) -> None:
    """Give the objects ``touched[start:stop]`` their new scores; some enter or leave the view."""
    score, place, counters = view.score, view.place, view.counters
    for i in range(start, stop):
        code = touched[i]
        was, now = score[code], scores[i]
        score[code] = now
        if np.isnan(was) and not np.isnan(now):
            counters[LIVE] += 1
        elif np.isnan(now) and not np.isnan(was):
            counters[LIVE] -= 1
        at = place[code]
        if now >= view.floor[0]:
            if at < 0:
                place[code] = counters[VIEW]
                view.members[counters[VIEW]] = code
                counters[VIEW] += 1
        elif at >= 0:
            _take_out(view, code, at)


@jit
def _live(score: Floats, codes: Codes) -> int:
    """List all objects that have a score; how many they are."""
    live = 0
    for code in range(len(score)):
        if not np.isnan(score[code]):
            codes[live] = code
            live += 1
    return live


@jit
def _write(
    view: View, k: int, heap: Codes, found: Codes, points: Floats, count: int
) -> tuple[Codes, Floats, int]:
    """Append the best k of the view to what is found; the arrays, and how much is in them.

    If an object left out equals the last one in score and key, all such objects are written: their
    ids decide later.
    """
    score, in_view = view.score, view.counters[VIEW]
    table = score.reshape((len(score), 1))
    size = best_of(
        view.members, in_view - in_view, in_view, heap[:0], table, view.key, k, False, heap
    )
    found = with_room(found, count, count + size)
    points = with_room(points, count, count + size)
    for i in range(size):
        found[count + i], points[count + i] = heap[i], score[heap[i]]
    return found, points, count + size


@kernel
def settle(
    view: View, touched: Codes, scores: Floats, offsets: Ints, reads: Mask, step: int,
    resumed: bool, scan: bool, k: int, aim: int,
) -> tuple[int, Codes, Floats, Ints]:  # fmt: skip
    """Give objects their new scores, step by step, and read the steps that ask for it.

    ``scores`` are NaN for objects that died. If a step finds fewer than k in the view although more
    objects live, the view is chosen again: by a scan over all scores, or (``scan`` off) by the
    caller, who gets the step back. Returns the next step, and the codes and scores read, split by
    step.
    """
    score, counters = view.score, view.counters
    steps = len(offsets) - 1
    found = np.empty(max((steps - step) * k, 16), np.int32)
    points = np.empty(len(found))
    ends = np.zeros(steps - step + 1, np.int64)
    candidates = np.empty(len(score), np.int32)
    count = 0
    first = step
    while step < steps:
        if not resumed:
            _rescore(view, touched, scores, offsets[step], offsets[step + 1])
        resumed = False
        if reads[step]:
            chosen = -1
            if counters[VIEW] < k and counters[VIEW] < counters[LIVE]:
                if not scan:
                    break
                chosen = _live(score, candidates)
                counters[REFILLS] += 1
            elif counters[VIEW] > counters[LIMIT]:
                chosen = counters[VIEW]
                for i in range(chosen):
                    candidates[i] = view.members[i]
            if chosen >= 0:
                _choose(view, candidates, chosen, aim)
            found, points, count = _write(view, k, candidates, found, points, count)
        step += 1
        ends[step - first] = count
    return step, found[:count], points[:count], ends[: step - first + 1]


@kernel
def retire(codes: Codes, view: View) -> None:
    """Remove objects without reports from the scores and the view."""
    for code in codes:
        view.score[code] = np.nan
        view.counters[LIVE] -= 1
        at = view.place[code]
        if at >= 0:
            _take_out(view, code, at)
