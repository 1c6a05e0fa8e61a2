"""The view of fused objects: those with the best scores, so that a read looks at few objects.

The view holds the objects whose score is at least ``floor`` (k_max of them or some more). The score
of an object without live reports is NaN, which no comparison accepts.
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
