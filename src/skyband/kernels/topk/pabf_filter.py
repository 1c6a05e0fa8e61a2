"""Section 4 of the PABF paper: guessing the k-th best score of a pane.

Rows of a pane that reach the *cut* survive; of these the best k are chosen. If fewer than k survive
the pane is scanned again without a cut, so a filter never loses a row: a bad guess only costs
time. Four ways to guess:

    stationary   the zeta-th best score of an earlier pane (4.2.1)
    time         a parabola through the k-th best scores of the last panes, less a margin (4.2.2)
    none-known   a quantile of a sample of the pane itself (4.2.3)
    auto         whichever of them has served best lately

Scores are read as floats, greater is better. Conversion keeps their order, so survivors are always
the best of the pane, even where large integers become equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.arrays import Array, Codes, Floats, Ints
from skyband.kernels.core.jit import jit, piece
from skyband.kernels.core.patient import kernel
from skyband.kernels.core.room import copy_rows, with_room
from skyband.kernels.core.sorting import kth_greatest

STATIONARY, TIME, NONE_KNOWN, AUTO = range(4)

# What is known of a group: the stationary cut; how well each guess did; the last panes.
CUT, MISSED_STATIONARY, MISSED_TIME, SLACK_STATIONARY, SLACK_TIME, ERROR, SEEN = range(7)
_HISTORY = 7
POINTS = 8
FIELDS = _HISTORY + 2 * POINTS

PANES, RESCANS, RELEARNED, SURVIVED, UNFILTERED, BY_STATIONARY, BY_TIME, BY_SAMPLE = range(8)

_FADE = 1 / 16
"""How much the latest pane counts in running means."""


def new_learned(groups: int) -> Floats:
    """The state of so many groups of which nothing is known."""
    learned = np.zeros((groups, FIELDS))
    learned[:, CUT] = np.nan
    return learned


@kernel
def filter_runs(
    score: Array, sign: float, offsets: Ints, pane: Ints, group: Codes, k: int, latest: bool,
    kind: int, zeta: int, quantile: float, learned: Floats, counts: Ints,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Positions of the rows of each run from the k-th best score up, ascending, and offsets.

    Of rows that equal the k-th, only the last are taken if they are the better ones (``latest``),
    else all, so a run may return more than k. ``quantile`` is that of delta under the normal
    distribution.
    """
    runs = len(offsets) - 1
    longest, total = 1, 0
    for run in range(runs):
        n = offsets[run + 1] - offsets[run]
        longest = max(longest, n)
        total += min(n, k)
    found = np.empty(total + longest, np.int64)
    ends = np.zeros(runs + 1, np.int64)
    rows = np.empty(longest + 1, np.int64)
    values, work, spare = np.empty(longest), np.empty(longest), np.empty(longest)
    at = ends[0]
    for run in range(runs):
        first, last = offsets[run], offsets[run + 1]
        n = last - first
        found = with_room(found, at, at + n)
        if n <= k:
            for i in range(first, last):
                found[at] = i
                at += 1
            ends[run + 1] = at
            continue
        counts[PANES] += 1
        known = learned[group[run]]
        way, cut, fit = kind, np.nan, np.nan
        if n > zeta:
            way, cut, fit = _guess(known, kind, pane[run], quantile)
            if way == NONE_KNOWN or np.isnan(cut):
                way = NONE_KNOWN
                cut = _sampled(score, sign, first, n, k, quantile, work, spare)
        m = 0
        if np.isnan(cut):
            counts[UNFILTERED] += 1
        else:
            counts[BY_STATIONARY + way] += 1
            for i in range(first, last):  # without branches: a row that fails is overwritten
                rows[m] = i
                m += sign * score[i] >= cut
            counts[SURVIVED] += m
            counts[RESCANS] += m < k
        rescanned = m < k
        if rescanned:
            for i in range(first, last):
                rows[i - first] = i
            m = n
        for j in range(m):
            values[j] = sign * score[rows[j]]
            work[j] = values[j]
        kth = kth_greatest(work, spare, m, k)
        at = _keep(rows, values, m, kth, k, latest, found, at)
        ends[run + 1] = at
        if n > zeta and kind != NONE_KNOWN:
            stale = np.isnan(known[CUT]) or known[CUT] > kth or m > 2 * zeta + 8
            fresh = known[CUT]
            if kind != TIME and (stale or (way != STATIONARY and rescanned)):
                # The zeta-th best, or the least survivor where fewer survived.
                counts[RELEARNED] += 1
                copy_rows(work, values, m)
                fresh = kth_greatest(work, spare, m, min(zeta, m))
            if kind == AUTO:
                _judge(known, MISSED_STATIONARY, SLACK_STATIONARY, known[CUT], kth)
            known[CUT] = fresh
            if kind != STATIONARY:
                _observe(known, pane[run], fit, kth, quantile)
    return found[:at], ends


@piece
def _guess(known: Floats, kind: int, pane: int, quantile: float) -> tuple[int, float, float]:
    """The way to guess, its cut, and the value of the parabola; NaN if unknown."""
    fit = np.nan
    cut = np.nan
    way = kind
    if kind == TIME or kind == AUTO:
        fit = _fitted(known, pane)
    if kind == AUTO:
        way = _choice(known, fit)
    if way == STATIONARY:
        cut = known[CUT]
    elif way == TIME:
        cut = fit - quantile * np.sqrt(known[ERROR])
    return way, cut, fit


@piece
def _keep(
    rows: Ints, values: Floats, m: int, kth: float, k: int, latest: bool, found: Ints, at: int
) -> int:
    """Write the rows from the k-th best up; with ``latest`` only the last of those that tie."""
    start = at
    for j in range(m):
        found[at] = rows[j]
        at += values[j] >= kth
    if latest and at - start > k:
        excess = at - start - k
        at = start
        for j in range(m):
            if values[j] == kth and excess > 0:
                excess -= 1
            elif values[j] >= kth:
                found[at] = rows[j]
                at += 1
    return at


@piece
def _choice(known: Floats, fit: float) -> int:
    """The guess that has done best: rarely too high, then closest."""
    stationary, time = known[MISSED_STATIONARY], known[MISSED_TIME]
    if np.isnan(fit) or np.isnan(known[CUT]):
        return NONE_KNOWN if stationary > 0.25 or np.isnan(known[CUT]) else STATIONARY
    if min(stationary, time) > 0.25:
        return NONE_KNOWN
    if max(stationary, time) <= 0.25:
        return TIME if known[SLACK_TIME] < 0.8 * known[SLACK_STATIONARY] else STATIONARY
    return STATIONARY if stationary < time else TIME


@jit
def _judge(known: Floats, missed: int, slack: int, cut: float, kth: float) -> None:
    """Note whether a guess would have been too high, and otherwise how much too low it was."""
    if np.isnan(cut):
        return
    known[missed] += _FADE * ((cut > kth) - known[missed])
    if cut <= kth and np.isfinite(kth - cut):
        known[slack] += _FADE * ((kth - cut) - known[slack])


@piece
def _fitted(known: Floats, pane: int) -> float:
    """The parabola through the last panes' k-th best scores, by least squares, at this pane."""
    if known[SEEN] < POINTS:
        return np.nan
    span = 1.0
    for i in range(POINTS):
        span = max(span, pane - known[_HISTORY + 2 * i])
    s1, s2, s3, s4, t0, t1, t2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(POINTS):
        x = (known[_HISTORY + 2 * i] - pane) / span
        y = known[_HISTORY + 2 * i + 1]
        s1 += x
        s2 += x * x
        s3 += x * x * x
        s4 += x * x * x * x
        t0 += y
        t1 += x * y
        t2 += x * x * y
    # Cramer's rule for the constant term, which is the value at x = 0.
    a, b, c = s2 * s4 - s3 * s3, s1 * s4 - s2 * s3, s1 * s3 - s2 * s2
    below = POINTS * a - s1 * b + s2 * c
    return (t0 * a - t1 * b + t2 * c) / below if below > 1e-9 else np.nan


@jit
def _observe(known: Floats, pane: int, fit: float, kth: float, quantile: float) -> None:
    """Add a pane to the history; the error is that of the prediction, fit and noise together."""
    if not np.isfinite(kth):
        return
    if not np.isnan(fit):
        error = (kth - fit) ** 2
        settled = known[SEEN] >= 2 * POINTS
        _judge(known, MISSED_TIME, SLACK_TIME, fit - quantile * np.sqrt(known[ERROR]), kth)
        known[ERROR] += (_FADE if settled else 0.5) * (error - known[ERROR])
    place = _HISTORY + 2 * (int(known[SEEN]) % POINTS)
    known[place] = pane
    known[place + 1] = kth
    known[SEEN] += 1


@jit
def _sampled(
    score: Array, sign: float, first: int, n: int, k: int, quantile: float, work: Floats,
    spare: Floats,
) -> Any:  # fmt: skip
    """A score that at least k of n rows reach with the probability of the quantile.

    The d-th best of c sampled rows is reached by about n d / c of all, give or take n sqrt(d) / c.
    """
    count = 64 if n < 4096 else 256
    if 4 * count > n:
        return np.nan
    root = (quantile + np.sqrt(quantile * quantile + 4.0 * count * k / n)) / 2
    depth = int(np.ceil(root * root))
    if 2 * depth > count:
        return np.nan
    step = n // count
    seed = n & 0xFFFF
    for j in range(count):
        seed = (seed * 1_664_525 + 1_013_904_223) & 0xFFFF_FFFF
        work[j] = sign * score[first + j * step + ((seed * step) >> 32)]
    return kth_greatest(work, spare, count, depth)
