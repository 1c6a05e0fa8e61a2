"""FSW, FSWr and FSWf over many panes and windows in one call."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Array, Codes, Ints, Mask
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import kernel
from skyband.kernels.core.room import with_room
from skyband.kernels.frequency.fsw_rows import (
    HEAPED,
    LOST,
    NEVER,
    REMOVALS,
    SIZE,
    STAYED,
    UPDATES,
    Sketch,
    feed,
    of_group,
)
from skyband.kernels.frequency.item_heap import sift, table_remove
from skyband.kernels.frequency.pushed import Pushed


@jit
def _expire(s: Sketch, bucket: int, whole: bool, some: Codes) -> None:
    """Take a pane out of all sums; floating sums are added up again, so that no digits cancel.

    What has something in the bucket is listed first, in ``some``: a loop without branches.
    """
    control, base, err, hist = s.control, s.base, s.err, s.hist
    item_hist, item_err, cell_hist, marks = s.item_hist, s.item_err, s.cell_hist, s.marks
    s.held[bucket] = NEVER
    control[HEAPED] = 0
    block = bucket // item_hist.shape[2]
    b = bucket - block * item_hist.shape[2]
    n = 0
    for slot in range(len(base)):  # those without an item have nothing in any bucket
        some[n] = slot
        n += item_hist[block, slot, b] != 0
    control[UPDATES] += n
    for i in range(n):
        slot = some[i]
        gone = item_hist[block, slot, b]
        if len(item_err) == 0:
            err[slot] = max(err[slot] - gone, 0)
        base[slot] -= gone
        item_hist[block, slot, b] = 0
        if not whole:
            base[slot] = item_hist[:, slot].sum()
    if len(item_err):
        for slot in range(len(base)):
            err[slot] -= item_err[block, slot, b]
            item_err[block, slot, b] = 0
            if not whole:
                err[slot] = item_err[:, slot].sum()
    n = 0
    for cell in range(len(hist)):
        some[n] = cell
        n += marks[bucket, cell] != 0
    for i in range(n):
        cell = some[i]
        marks[bucket, cell] = 0
        hist[cell] -= cell_hist[block, cell, b]
        cell_hist[block, cell, b] = 0
        if not whole:
            hist[cell] = cell_hist[:, cell].sum()


@jit
def _remove_unseen(s: Sketch, live: int) -> None:
    """Forget the items that no live pane has seen: cells bound what may be left of them."""
    control, heap, seen = s.control, s.heap, s.seen
    at = 0
    while at < control[SIZE]:
        slot = heap[at]
        if seen[slot] >= live:
            at += 1
            continue
        table_remove(s.table, s.shift, s.item[slot])
        control[REMOVALS] += 1
        control[STAYED + min(live + len(s.held) - 1 - s.born[slot], 3)] += 1
        control[SIZE] -= 1
        heap[at] = heap[control[SIZE]]
        heap[control[SIZE]] = slot
        control[HEAPED] = 0


@jit
def _drop_before(s: Sketch, live: int, whole: bool, some: Codes) -> None:
    """Let the panes before ``live`` expire, and the items that no live pane has seen."""
    held = s.held
    expired = False
    for b in range(len(held)):
        if held[b] != NEVER and held[b] < live:
            _expire(s, b, whole, some)
            expired = True
    if expired:
        _remove_unseen(s, live)


@jit
def _lift(s: Sketch, missing: Any, pane: int) -> None:
    """Raise all bounds: items not seen so far may have occurred ``missing`` times in this pane."""
    fine, cur = s.fine, s.cur
    s.control[HEAPED] = 0
    for cell in range(len(fine)):
        fine[cell] += missing
    for at in range(s.control[SIZE]):
        slot = s.heap[at]
        if cur[slot] == 0 and s.seen[slot] != pane:
            cur[slot] += missing
            s.err[slot] += missing
            s.ecur[slot] += missing


@jit
def _close(s: Sketch, pane: int, some: Codes) -> None:
    """The pane's counts become a bucket, which was emptied when its last pane expired.

    What the pane has counted is listed first, as in ``_expire``.
    """
    cur, base, seen, hist, fine = s.cur, s.base, s.seen, s.hist, s.fine
    item_hist, cell_hist, marks, ratio = s.item_hist, s.cell_hist, s.marks, s.ratio
    bucket = pane % len(s.held)
    block = bucket // item_hist.shape[2]
    b = bucket - block * item_hist.shape[2]
    s.held[bucket] = pane
    n = 0
    for slot in range(len(base)):
        some[n] = slot
        n += cur[slot] > 0
    for i in range(n):
        slot = some[i]
        seen[slot] = pane
        item_hist[block, slot, b] = cur[slot]
        base[slot] += cur[slot]
        cur[slot] = 0
    if len(s.item_err):
        for slot in range(len(base)):
            s.item_err[block, slot, b] = s.ecur[slot]
            s.ecur[slot] = 0
    n = 0
    for coarse in range(len(hist)):
        first = coarse * ratio
        for cell in range(first + 1, first + ratio):
            fine[first] = max(fine[first], fine[cell])
        some[n] = coarse
        n += fine[first] > 0
    for i in range(n):
        coarse = some[i]
        most = fine[coarse * ratio]
        cell_hist[block, coarse, b] = most
        marks[bucket, coarse] = 1
        hist[coarse] += most
    for cell in range(len(fine)):
        fine[cell] = 0
    s.bits[:] = 0


@jit
def _proven(s: Sketch, first: int, mu: Any) -> bool:
    """Whether nothing was dropped in the panes from ``first`` on, which are the live ones."""
    if len(s.bits) or s.control[LOST] >= first or mu != 0:
        return False
    for at in range(s.control[SIZE]):
        if s.err[s.heap[at]] > 0:
            return False
    return True


@jit
def best(
    k: int, every: bool, control: Ints, base: Array, err: Array, heap: Codes,
    chosen: Codes, low: Array, slack: Array,
) -> int:  # fmt: skip
    """The best k slots by count, then the smaller error, and all that tie with the last of them.

    With ``every`` an equal count is a tie, whatever the error.
    """
    size = control[SIZE]
    kept = 0
    full = size == len(base)
    for at in range(size):
        slot = np.int32(at) if full else heap[at]
        if kept < k:
            chosen[kept], low[kept], slack[kept] = slot, base[slot], err[slot]
            kept += 1
            if kept == k:
                for i in range(k // 2 - 1, -1, -1):
                    sift(chosen, k, i, low, slack)
        elif base[slot] > low[0] or (base[slot] == low[0] and err[slot] < slack[0]):
            chosen[0], low[0], slack[0] = slot, base[slot], err[slot]
            sift(chosen, k, k - k, low, slack)
    if size <= k:
        return kept
    least_count, least_error = low[0], slack[0]
    kept = 0
    for at in range(size):
        slot = np.int32(at) if full else heap[at]
        if base[slot] > least_count or (
            base[slot] == least_count and (every or err[slot] <= least_error)
        ):
            chosen[kept] = slot
            kept += 1
    return kept


class Plan(NamedTuple):
    """Which groups are folded; for each, its runs and its windows."""

    groups: Ints
    runs: Ints  # positions of runs, by group and pane
    run_offsets: Ints
    first_window: Ints
    last_window: Ints


@jit
def _push(
    s: Sketch, pushed: Pushed, run: int, raw: bool, whole: bool, spare: Array, some: Codes
) -> None:
    """Take one pane: let others expire, count what it brings, and end it."""
    pane = pushed.stamp[run]
    none = pushed.errors[:0]
    _drop_before(s, pane - len(s.held) + 1, whole, some)
    low, high = pushed.known_offsets[run], pushed.known_offsets[run + 1]
    if high > low:
        feed(
            s, pushed.known, len(none) > 0, pushed.counts, pushed.errors, low, high, len(none),
            pane, spare,
        )  # fmt: skip
    if pushed.missing[run] > 0:
        _lift(s, pushed.missing[run], pane)
    low, high = pushed.offsets[run], pushed.offsets[run + 1]
    feed(s, pushed.keys, raw, pushed.weights, none, low, high, len(pushed.known), pane, spare)
    _close(s, pane, some)


@jit
def _live(held: Ints) -> int:
    """How many panes have rows."""
    live = 0
    for b in range(len(held)):
        live += held[b] != NEVER
    return live


@kernel
def fold_fsw(
    all_groups: Sketch, plan: Plan, pushed: Pushed, raw: bool, first: Ints, end: Ints, k: int,
    whole: bool,
) -> tuple[Ints, Ints, Array, Ints, Ints, Codes, Ints, Mask, Array, Ints]:  # fmt: skip
    """Push panes and read windows, group by group.

    A pane has items that were counted before (``known``, with ``counts`` and ``errors``; any other
    item occurred at most ``missing`` times) and then rows. Both are numbered in one sequence, known
    items first. Returns the items of answers: slots (numbered across all groups), the rows they
    were inserted by, (count, error), filter slack; and for each answer its window, its group, where
    it ends, whether it is proven exact, the greatest cell, and how many panes are live. A window in
    which a group has no rows is not answered.
    """
    capacity = all_groups.item.shape[1]
    kind = all_groups.base.dtype
    filtering = len(all_groups.bits) > 0
    chosen = np.empty(capacity, np.int32)
    own_low, own_slack = np.empty(capacity, kind), np.empty(capacity, kind)
    some = np.empty(max(capacity, all_groups.hist.shape[1]), np.int32)
    spare = np.empty((all_groups.item_hist.shape[1], all_groups.item_hist.shape[3]), kind)
    out_slot, out_row = np.empty(256, np.int64), np.empty(256, np.int64)
    out_value, out_slack = np.empty((256, 2), kind), np.empty(256, np.int64)
    most = 0
    for j in range(len(plan.groups)):
        most += plan.last_window[j] - plan.first_window[j]
    which, owner = np.empty(most, np.int64), np.empty(most, np.int32)
    ends, live = np.empty(most, np.int64), np.empty(most, np.int64)
    proven, mu = np.empty(most, np.bool_), np.empty(most, kind)
    n = answers = 0
    for j in range(len(plan.groups)):
        group = plan.groups[j]
        s = of_group(all_groups, group)
        at, stop = plan.run_offsets[j], plan.run_offsets[j + 1]
        for window in range(plan.first_window[j], plan.last_window[j]):
            while at < stop and pushed.stamp[plan.runs[at]] < end[window]:
                _push(s, pushed, plan.runs[at], raw, whole, spare, some)
                at += 1
            _drop_before(s, first[window], whole, some)
            panes = _live(s.held)
            if panes == 0:
                continue
            size = best(k, filtering, s.control, s.base, s.err, s.heap, chosen, own_low, own_slack)
            out_slot, out_row = with_room(out_slot, n, n + size), with_room(out_row, n, n + size)
            out_value = with_room(out_value, n, n + size)
            out_slack = with_room(out_slack, n, n + size)
            for i in range(size):
                slot = chosen[i]
                out_slot[n], out_row[n] = group * capacity + slot, s.row[slot]
                out_value[n, 0], out_value[n, 1] = s.base[slot], s.err[slot]
                out_slack[n] = 0
                if filtering:
                    for b in range(len(s.held)):
                        out_slack[n] += s.held[b] != NEVER and s.held[b] <= s.born[slot]
                n += 1
            which[answers], owner[answers], ends[answers] = window, group, n
            live[answers], mu[answers] = panes, s.hist.max()
            proven[answers] = _proven(s, first[window], mu[answers])
            answers += 1
        while at < stop:
            _push(s, pushed, plan.runs[at], raw, whole, spare, some)
            at += 1
    return (
        out_slot[:n], out_row[:n], out_value[:n], out_slack[:n], which[:answers], owner[:answers],
        ends[:answers], proven[:answers], mu[:answers], live[:answers],
    )  # fmt: skip
