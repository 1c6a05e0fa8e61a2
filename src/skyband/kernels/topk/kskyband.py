"""The k-skyband of every group over sliding windows: exact top-k, any order of scores.

A row can still be answered only while fewer than k better rows stand in its own pane or newer ones.
The rows of a group are kept in two parts:

    rows    | top ...gap... | rest            | back                    | free |
            0     TOP     REST             FRONT                  FRONT+BACK  CAP

*Front* (top and rest) is what the last sweep retained, best first. The top-k of any suffix of its
panes is its first k rows of those panes, so ``top`` holds the first k live ones, and as panes
expire it is refilled from ``rest``; every row is passed once. *Back* has all rows pushed since the
sweep, in order of arrival; ``order`` names its best k, best first. An answer merges both lists.

A sweep makes one front of both: through the back from the newest pane to the oldest, where the k-th
best so far drops most rows with one comparison; what each pane pushes out of the best k is worse
than all that is left, so the retained rows come out sorted. They are merged with the old front,
whose rows stay while fewer than k better ones are as new. It runs when the back has outgrown the
front, or when its oldest pane expires: amortised O(log k) a row, whatever the scores do; falling
ones, which retain the whole window, included.

A group of few rows has a back only, all of it in ``order``: what expires is its beginning, and
there is nothing to sweep.

Groups have a stretch each of one array, so a snapshot is a copy. One call takes many panes and
windows and goes through them group by group, so that a group's rows stay in the cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Ints
from skyband.kernels.core.borrow import frozen
from skyband.kernels.topk.kskyband_best import Ints32, make_scratch
from skyband.kernels.topk.kskyband_fold import fold_units
from skyband.kernels.topk.kskyband_group import LOWEST
from skyband.kernels.topk.kskyband_plan import Plan, Runs, Windows, count_answers, index_runs
from skyband.kernels.topk.kskyband_state import State
from skyband.kernels.topk.kskyband_steps import (
    GARBAGE,
    HELD,
    NEED,
    NOTHING,
    ROWS,
    UNIT,
    USED,
    Answers,
)

__all__ = ["Skyband", "Tops"]


_MANY = 64  # groups from which to tell what others will need


class Tops(NamedTuple):
    """The best rows of some (window, group) pairs, best first; only pairs with rows."""

    window: Ints32  # position in the list of windows
    group: Ints32
    offsets: Ints  # one more than there are pairs
    slot: Ints
    key: Ints
    tie: Ints


class Skyband(State):
    """What can still be among the best k rows of a window, for many groups.

    Rows come with a ``key`` (greater is better), a ``tie`` (greater is better, and greater in a
    newer pane), a ``pane`` number and the caller's ``slot``. Rows of one (pane, group) that equal
    in key and tie keep their order.

    >>> band = Skyband(k=2)
    >>> one = np.zeros(3, np.int32)
    >>> keys = np.array([5, 9, 7, 6])
    >>> tops = band.fold(
    ...     np.arange(3),
    ...     one,
    ...     np.array([0, 2, 3, 4]),
    ...     keys,
    ...     np.arange(4),
    ...     np.arange(4),
    ...     np.array([0, 1]),
    ...     np.array([2, 3]),
    ...     np.zeros(1, np.int32),
    ... )
    >>> tops.window, tops.offsets, tops.key
    (array([0, 1], dtype=int32), array([0, 2, 4]), array([9, 7, 7, 6]))
    """

    __slots__ = ()

    def fold(
        self,
        run_pane: Ints,
        run_group: Ints32,
        offsets: Ints,
        key: Ints,
        tie: Ints,
        slot: Ints,
        win_first: Ints,
        win_end: Ints,
        group_order: Ints32,
    ) -> Tops:
        """Push runs and answer windows, each when all runs before its end are in.

        Runs have ascending panes for each group. Window i covers the panes ``[win_first[i],
        win_end[i])``; both ascend. Answers are sorted by window and then as in ``group_order``,
        which must name every group that is to be answered; without windows it is not looked at.
        """
        n_windows = len(win_end)
        units = group_order if n_windows else group_order[:0]
        runs = Runs(*map(frozen, (run_pane, offsets, key, tie, slot)))
        return self._fold(runs, run_group, win_first, win_end, units, 0, n_windows)

    def fold_each(
        self,
        run_pane: Ints,
        run_group: Ints32,
        offsets: Ints,
        key: Ints,
        tie: Ints,
        slot: Ints,
        win_first: Ints,
        win_end: Ints,
        win_group: Ints32,
    ) -> Tops:
        """As ``fold``, but each group has panes and windows of its own.

        Windows are sorted by group (in any order of groups), then ascending; answers come in the
        order of the windows.
        """
        low = np.flatnonzero(np.diff(win_group, prepend=np.int32(-1)))
        high = np.append(low[1:], len(win_group)) if len(low) else low
        runs = Runs(*map(frozen, (run_pane, offsets, key, tie, slot)))
        return self._fold(runs, run_group, win_first, win_end, win_group[low], low, high)

    def read(self, first: int, end: int, group_order: Ints32) -> Tops:
        """The top-k of the panes ``[first, end)``; nothing changes.

        ``first`` may lie anywhere in the live window (n-of-N); ``end`` is after the newest pane.
        """
        none = np.empty(0, np.int64)
        window = (np.array([first], np.int64), np.array([end], np.int64))
        offsets = np.zeros(1, np.int64)
        return self.copy().fold(
            none, np.empty(0, np.int32), offsets, none, none, none, *window, group_order
        )

    def _fold(
        self,
        runs: Runs,
        run_group: Ints32,
        win_first: Ints,
        win_end: Ints,
        units: Ints32,
        low: Ints | int,
        high: Ints | int,
    ) -> Tops:
        plan = self._plan(run_group, units, low, high)
        n_units, n_windows = len(plan.groups), len(win_end)
        places = np.zeros((4, n_windows + 1), np.int64)
        windows = Windows(*places)
        windows.first[:-1], windows.end[:-1] = win_first, win_end
        offsets = runs.offsets
        if n_windows > 1 and n_units > 1:
            count_answers(self.rows, self.groups, self.k, plan, runs.pane, offsets, windows)
            np.cumsum(places[2:], axis=1, out=places[2:])
            n_rows, n_out = int(windows.row_at[-1]), int(windows.run_at[-1])
        else:  # one answer after the other: a bound will do
            n_out = len(units) * n_windows
            n_rows = self._held + int(offsets[-1] - offsets[0])
            n_rows = min(n_rows * n_windows, n_out * self.k)
        answers = Answers(
            np.empty((2, n_out), np.int32),
            np.empty(n_out + 1, np.int64),
            np.empty((3, n_rows), np.int64),
        )
        self._work(plan, runs, windows, answers)
        if n_windows == 1 or n_units == 1:
            last = n_windows if n_units == 1 else 0
            n_rows, n_out = int(windows.row_at[last]), int(windows.run_at[last])
        answers.offsets[n_out] = n_rows
        window, group = answers.pair[:, :n_out]
        slot, key, tie = answers.row[:, :n_rows]
        return Tops(window, group, answers.offsets[: n_out + 1], slot, key, tie)

    def _plan(self, run_group: Ints32, units: Ints32, low: Ints | int, high: Ints | int) -> Plan:
        """The groups in ``units`` with their windows, then the others that have runs."""
        highest = max(int(run_group.max(initial=-1)), int(units.max(initial=-1)))
        self._reserve_groups(max(highest, 0) + 1)
        if highest > 0:
            order, n_units, starts, index = index_runs(
                frozen(run_group), frozen(units), self._unit_of
            )
        else:
            order, n_units = np.zeros(1, np.int32), 1
            starts, index = np.array([0, len(run_group)]), np.arange(len(run_group))
        bounds = np.zeros((2, n_units), np.int64)  # groups that are not in units get no windows
        bounds[0, : len(units)], bounds[1, : len(units)] = low, high
        return Plan(order[:n_units], starts, index, *bounds)

    def _work(self, plan: Plan, runs: Runs, windows: Windows, answers: Answers) -> None:
        """Go through the plan, with more room whenever some is lacking."""
        cursor = np.array([0, -1, 0, LOWEST, self.used, self.garbage, self._held, 0], np.int64)
        while True:
            lacking = fold_units(
                self.rows,
                self.order,
                self.groups,
                self.k,
                plan,
                runs,
                windows,
                answers,
                self._scratch,
                cursor,
            )
            self.used, self.garbage = int(cursor[USED]), int(cursor[GARBAGE])
            if lacking == NOTHING:
                break
            need = int(cursor[NEED])
            if lacking == ROWS:
                # Groups are much alike: the rest of them will need what those so far did.
                done = int(cursor[UNIT])
                likely = need * len(plan.groups) // done if done >= _MANY else 0
                self._reserve_rows(max(need + need // 2, likely + likely // 8))
            else:
                self._scratch = make_scratch(2 * need, self.k)
        self._held = int(cursor[HELD])
        if 2 * self.garbage > self.used:
            self._compact()
