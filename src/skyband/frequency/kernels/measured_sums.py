"""Sums, or greatest values, over a sliding window of lists of (code, values), one per pane.

Nothing is ever subtracted, so values may be greatest ones as well as sums: panes form two stacks,
as floating-point numbers do in ``pane_sums.py``. What ranks codes is computed from their values,
and, for growth, from those that a second pair of stacks has of the window before:

    panes       ├ 1 ┼ 2 ┼ 3 ┼ 4 ┼ 5 ┼ 6 ┤
    before      ├───────────┤
    recent                  ├───────────┤
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Array, Codes, Ints
from skyband.frequency.kernels.pane_sums import (
    BEYOND,
    HEAD,
    BestCodes,
    Groups,
    PaneEntries,
    Stacks,
    advance,
    joined,
)
from skyband.kernels.arrange import with_room
from skyband.kernels.best import best_of
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel

# What codes are ranked by.
VALUE, MEAN, GAIN, RATIO = range(4)


class Rule(NamedTuple):
    """What codes are ranked by, and which are left out."""

    kind: int
    peak: bool  # the first value of a code is the greatest of its entries, not their sum
    lowest: Any  # less than any value, or 0 for sums
    flips: bool  # the smallest values are the best: they are ranked by -value - one
    one: int  # 1 for integers, for then the least one has a counterpart, too
    least: float  # rows, or a count, below which a code is left out
    smoothing: float


@jit
def _rank_values(
    recent: Stacks, before: Stacks, rule: Rule, found: Array, values: Array, live: Codes
) -> None:
    """For each code what ranks it, its values, and whether it is among those that are ranked."""
    columns = recent.old.shape[1]
    for c in range(len(live)):
        live[c] = 0
        if recent.refs[c] == 0:
            continue
        for v in range(columns):
            values[c, v] = joined(recent.old[c, v], recent.fresh[c, v], rule.peak and v == 0)
        own = values[c, 0]
        if values[c, min(columns - 1, 1)] < rule.least:
            continue
        live[c] = 1
        if rule.kind == VALUE:
            found[c, 0] = own
        elif rule.kind == MEAN:
            found[c, 0] = own / values[c, 1]
        else:
            earlier = before.old[c, 0] + before.fresh[c, 0]
            values[c, 1] = earlier
            if found.shape[1] > 1:
                found[c, 1] = -own
            if rule.kind == GAIN:
                found[c, 0] = own - earlier
            else:
                found[c, 0] = (own + rule.smoothing) / (earlier + rule.smoothing)
        if rule.flips:
            found[c, 0] = -found[c, 0] - rule.one


@kernel
def fold_measured(
    lists: PaneEntries,
    recent: Stacks,
    before: Stacks,
    since: Ints,
    first: Ints,
    end: Ints,
    groups: Groups,
    wanted: BestCodes,
    rule: Rule,
    found: Array,
    values: Array,
) -> tuple[Codes, Array, Array, Codes, Ints, Codes]:
    """Push panes and read windows; all panes are pushed onto ``recent`` in the end.

    The window before ``[first, end)`` is ``[since, first)``. Returns codes of the answers, what
    ranks them and their values, the group and the end of each answer, and how many answers each
    window has. ``found`` and ``values`` are room for each code.
    """
    members, bounds, sequence = groups
    compared = rule.kind >= GAIN
    starts = lists.starts
    base, base_before = starts[recent.place[HEAD]], starts[before.place[HEAD]]
    live = np.zeros(len(recent.refs), np.int32)
    best = np.empty(max(len(live), 1), np.int64)
    out_code, out_group = np.empty(1024, np.int32), np.empty(256, np.int32)
    out_found = np.empty((1024, 1), found.dtype)
    out_value = np.empty((1024, values.shape[1]), values.dtype)
    out_end = np.empty(256, np.int64)
    per_window = np.zeros(len(first), np.int32)
    n = answers = 0
    for window in range(len(first)):
        if compared:
            advance(lists, base_before, before, since[window], first[window], False, rule.lowest)
        advance(lists, base, recent, first[window], end[window], rule.peak, rule.lowest)
        _rank_values(recent, before, rule, found, values, live)
        for group in sequence:
            start, stop = bounds[group], bounds[group + 1]
            if start == stop:
                continue
            size = best_of(
                members, start, stop, live, found, wanted.order_key, wanted.k, wanted.decided, best
            )
            if size == 0:
                continue
            out_code = with_room(out_code, n, n + size)
            out_found = with_room(out_found, n, n + size)
            out_value = with_room(out_value, n, n + size)
            out_group = with_room(out_group, answers, answers + 1)
            out_end = with_room(out_end, answers, answers + 1)
            for j in range(size):
                out_code[n], out_found[n, 0] = best[j], found[best[j], 0]
                for v in range(values.shape[1]):
                    out_value[n, v] = values[best[j], v]
                n += 1
            out_group[answers], out_end[answers] = group, n
            answers += 1
            per_window[window] += 1
    advance(lists, base, recent, -BEYOND, BEYOND, rule.peak, rule.lowest)
    return (
        out_code[:n], out_found[:n], out_value[:n], out_group[:answers], out_end[:answers],
        per_window,
    )  # fmt: skip
