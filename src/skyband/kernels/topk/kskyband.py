"""The k-skyband of every group over sliding windows: exact top-k, any order of scores.

A row can still be in an answer only while its pane and newer ones hold fewer than k better rows.
The rows of a group are kept in two parts:

    rows    | top ...gap... | rest            | back                    | free |
            0     TOP     REST             FRONT                  FRONT+BACK  CAP

*Front* (top and rest) is what the last sweep retained, best first. The top-k of any suffix of its
panes is its first k rows of those panes, so ``top`` holds the first k live ones, and as panes
expire it is refilled from ``rest``; each row moves at most once. *Back* has all rows pushed since
the sweep, in order of arrival; ``order`` names its best k, best first. An answer merges both lists.

A sweep makes one front of both parts. It goes through the back from the newest pane to the oldest,
and the k-th best row so far rejects most rows with one comparison. What a pane pushes out of the
best k is worse than all that is left, so the retained rows come out sorted. They are merged with
the old front, whose rows stay while fewer than k better ones are as new. A sweep is due when the
back has outgrown the front, or when its oldest pane expires. This costs amortised O(log k) per row
for any scores, even for falling ones, of which the whole window is retained.

A group with few rows has only a back, all of it in ``order``: its oldest rows expire from the
beginning, and there is nothing to sweep.

Each group has a stretch of one array, so a snapshot is a copy. One call takes many panes and
windows and goes through them group by group, so that a group's rows stay in the cache.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from skyband.arrays import Codes, Ints, pooled
from skyband.kernels.core.borrow import frozen
from skyband.kernels.topk.kskyband_best import KEY, PANE, SLOT, TIE, make_scratch
from skyband.kernels.topk.kskyband_fold import Plan, Windows, count_answers, fold_units, index_runs
from skyband.kernels.topk.kskyband_group import (
    BACK,
    BASE,
    CAP,
    FRONT,
    LOWEST,
    REST,
    TOP,
    compact,
    sweep_all,
)
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
from skyband.kernels.topk.runs import Runs

_MANY = 64  # after so many groups, estimate what the others will need
_MOST_ROOM = 8  # times the rows that are held: with more, room is given back


class Tops(NamedTuple):
    """The best rows of some (window, group) pairs, best first; only pairs with rows."""

    window: Codes  # position in the list of windows
    group: Codes
    offsets: Ints  # one more than there are pairs
    slot: Ints
    key: Ints
    tie: Ints


class Readers(NamedTuple):
    """Which of several readers each window belongs to; what all of them need."""

    of: Codes
    k: Ints  # how many rows each reader shows
    oldest: Ints  # for each window, the first pane of the longest window that ends with it
    groups: Codes  # those that are answered, in their order; for windows of all groups


def _stretches(groups: Codes) -> tuple[Ints, Ints]:
    """Where each stretch of equal groups begins and ends."""
    low = np.flatnonzero(np.diff(groups, prepend=np.int32(-1)))
    return low, np.append(low[1:], len(groups)) if len(low) else low


class Skyband:
    """What can still be among the best k rows of a window, for many groups.

    Rows come with a ``key`` (greater is better), a ``tie`` (greater is better, and greater in a
    newer pane), a ``pane`` number and the caller's ``slot``. Rows of one (pane, group) that equal
    in key and tie keep their order.

    >>> band = Skyband(k=2)
    >>> one = np.zeros(3, np.int32)
    >>> keys = np.array([5, 9, 7, 6])
    >>> runs = (np.arange(3), one, np.array([0, 2, 3, 4]), keys, np.arange(4), np.arange(4))
    >>> tops = band.fold(*runs, np.array([0, 1]), np.array([2, 3]), one[:1])
    >>> tops.window, tops.offsets, tops.key
    (array([0, 1], dtype=int32), array([0, 2, 4]), array([9, 7, 7, 6]))
    """

    __slots__ = ("_held", "_scratch", "_unit_of", "garbage", "groups", "k", "order", "rows", "used")

    def __init__(self, k: int) -> None:
        self.k = k
        self.rows: Ints = np.empty((0, 4), np.int64)
        self.order: Codes = np.empty(0, np.int32)
        self.groups: Ints = np.zeros((0, 8), np.int64)
        self.used = 0  # rows[:used] belong to groups, except the garbage among them
        self.garbage = 0
        self._held = 0
        self._unit_of: Codes = np.empty(0, np.int32)  # -1 everywhere between calls
        self._scratch = make_scratch(64, k)

    def fold(
        self, run_pane: Ints, run_group: Codes, offsets: Ints, key: Ints, tie: Ints, slot: Ints,
        win_first: Ints, win_end: Ints, group_order: Codes, readers: Readers | None = None,
    ) -> Tops:  # fmt: skip
        """Push runs and answer windows, each once all runs before its end are pushed.

        Runs have ascending panes for each group. Window i covers the panes ``[win_first[i],
        win_end[i])``; ends ascend, and so do the first panes of each reader. Answers are sorted by
        window and then as in ``group_order``, which must name every group that is to be answered;
        without windows it is ignored.
        """
        n_windows = len(win_end)
        units = group_order if n_windows else group_order[:0]
        runs = Runs(*map(frozen, (run_pane, offsets, key, tie, slot)))
        return self._fold(runs, run_group, win_first, win_end, units, 0, n_windows, readers)

    def fold_each(
        self, run_pane: Ints, run_group: Codes, offsets: Ints, key: Ints, tie: Ints, slot: Ints,
        win_first: Ints, win_end: Ints, win_group: Codes, readers: Readers | None = None,
    ) -> Tops:  # fmt: skip
        """As ``fold``, but each group has panes and windows of its own.

        Windows are sorted by group (in any order of groups), then ascending; answers come in the
        order of the windows.
        """
        low, high = _stretches(win_group)
        runs = Runs(*map(frozen, (run_pane, offsets, key, tie, slot)))
        units = win_group[low]
        return self._fold(runs, run_group, win_first, win_end, units, low, high, readers, win_group)

    def read(self, first: int, end: int, group_order: Codes) -> Tops:
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
        self, runs: Runs, run_group: Codes, win_first: Ints, win_end: Ints, units: Codes,
        low: Ints | int, high: Ints | int, readers: Readers | None, win_group: Codes | None = None,
    ) -> Tops:  # fmt: skip
        plan = self._plan(run_group, units, low, high)
        n_units, n_windows = len(plan.groups), len(win_end)
        places = np.zeros((6, n_windows + 1), np.int64)
        windows = Windows(*places)
        windows.first[:-1], windows.end[:-1] = win_first, win_end
        windows.oldest[:-1] = win_first if readers is None else readers.oldest
        windows.most[:-1] = self.k if readers is None else readers.k[readers.of]
        offsets = runs.offsets
        if n_windows > 1 and n_units > 1:
            if readers is None:
                count_answers(self.rows, self.groups, self.k, plan, runs.pane, offsets, windows)
            else:
                self._count_each(readers, run_group, runs, windows, win_group)
            np.cumsum(places[4:], axis=1, out=places[4:])
            n_rows, n_out = int(windows.row_at[-1]), int(windows.run_at[-1])
        else:  # answers are written one after the other, so a bound is enough
            n_out = len(units) * n_windows
            n_rows = self._held + int(offsets[-1] - offsets[0])
            n_rows = min(n_rows * n_windows, n_out * self.k)
        answers = Answers(
            np.empty((2, n_out), np.int32),
            np.empty(n_out + 1, np.int64),
            pooled((3, n_rows), np.int64),
        )
        self._work(plan, runs, windows, answers)
        if n_windows == 1 or n_units == 1:
            last = n_windows if n_units == 1 else 0
            n_rows, n_out = int(windows.row_at[last]), int(windows.run_at[last])
        answers.offsets[n_out] = n_rows
        window, group = answers.pair[:, :n_out]
        slot, key, tie = answers.row[:, :n_rows]
        return Tops(window, group, answers.offsets[: n_out + 1], slot, key, tie)

    def _count_each(
        self, readers: Readers, run_group: Codes, runs: Runs, windows: Windows,
        win_group: Codes | None,
    ) -> None:  # fmt: skip
        """Count the answers of the windows of each reader, whose first panes ascend."""
        for reader, k in enumerate(readers.k.tolist()):
            own = np.flatnonzero(readers.of == reader)
            counted = Windows(*np.zeros((6, len(own) + 1), np.int64))
            counted.first[:-1], counted.end[:-1] = windows.first[own], windows.end[own]
            low: Ints | int = 0
            high: Ints | int = len(own)
            units = readers.groups
            if win_group is not None:
                low, high = _stretches(win_group[own])
                units = win_group[own][low]
            plan = self._plan(run_group, units, low, high)
            count_answers(self.rows, self.groups, k, plan, runs.pane, runs.offsets, counted)
            windows.row_at[own + 1], windows.run_at[own + 1] = (
                counted.row_at[1:],
                counted.run_at[1:],
            )

    def _plan(self, run_group: Codes, units: Codes, low: Ints | int, high: Ints | int) -> Plan:
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
        """Go through the plan; whenever room is lacking, make more."""
        cursor = np.array([0, -1, 0, LOWEST, self.used, self.garbage, self._held, 0], np.int64)
        while True:
            lacking = fold_units(
                self.rows, self.order, self.groups, self.k, plan, runs, windows, answers,
                self._scratch, cursor,
            )  # fmt: skip
            self.used, self.garbage = int(cursor[USED]), int(cursor[GARBAGE])
            if lacking == NOTHING:
                break
            need = int(cursor[NEED])
            if lacking == ROWS:
                # Groups are alike: each of the others will need about what those so far did.
                done = int(cursor[UNIT])
                likely = need * len(plan.groups) // done if done >= _MANY else 0
                self._reserve_rows(max(need + need // 2, likely + likely // 8))
            else:
                self._scratch = make_scratch(2 * need, self.k)
        self._held = int(cursor[HELD])
        if 2 * self.garbage > self.used:
            self._compact()

    def _reserve_groups(self, n: int) -> None:
        have = len(self.groups)
        if n > have:
            room = max(n, have + have // 2)
            groups = np.zeros((room, 8), np.int64)
            groups[:have] = self.groups
            self.groups = groups
            self._unit_of = np.full(room, -1, np.int32)

    def _reserve_rows(self, n: int) -> None:
        rows, order = pooled((n, 4), np.int64), pooled(n, np.int32)
        rows[: self.used], order[: self.used] = self.rows[: self.used], self.order[: self.used]
        self.rows, self.order = rows, order

    def _compact(self) -> None:
        """Close all gaps. The room stays, unless it is much more than what is held."""
        rows, order = self.rows, self.order
        if len(rows) > _MOST_ROOM * self._held:
            rows, order = np.empty((self._held, 4), np.int64), np.empty(self._held, np.int32)
        sequence = np.argsort(self.groups[:, BASE], kind="stable")
        self.used = compact(self.rows, self.order, self.groups, sequence, rows, order)
        self.rows, self.order, self.garbage = rows, order, 0

    def forget(self, groups: NDArray[np.integer]) -> None:
        """Drop all rows of some groups; their numbers may be used again."""
        groups = groups[groups < len(self.groups)]  # others have never had a row
        self._held -= int(self.lengths[groups].sum())
        self.garbage += int(self.groups[groups, CAP].sum())
        self.groups[groups] = 0
        if 2 * self.garbage > self.used:
            self._compact()

    @property
    def lengths(self) -> Ints:
        """How many rows each group holds."""
        groups = self.groups
        held: Ints = groups[:, TOP] + groups[:, FRONT] - groups[:, REST] + groups[:, BACK]
        return held

    @property
    def retained(self) -> int:
        """How many rows are held; right after ``sweep``, those that can still be answered."""
        return self._held

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        arrays = (self.rows, self.order, self.groups, self._unit_of, *self._scratch)
        return sum(array.nbytes for array in arrays)

    def slots(self) -> Ints:
        """The slots of all rows that are held, in no particular order."""
        slots: Ints = self.rows[self._positions(), SLOT]
        return slots

    def renumber(self, slots: Ints) -> None:
        """Give the held rows new slots, in the order of ``slots()``."""
        self.rows[self._positions(), SLOT] = slots

    def sweep(self, first: int) -> None:
        """Drop everything that can no longer be answered in windows that start at ``first``."""
        largest = int((self.groups[:, FRONT] + self.groups[:, BACK]).max(initial=1))
        sweep_all(self.rows, self.groups, first, self.k, make_scratch(largest, self.k))
        self._held = int(self.lengths.sum())

    def copy(self) -> Self:
        """An independent copy, without free room."""
        other = type(self)(self.k)
        other.groups = self.groups.copy()
        other._held = self._held  # noqa: SLF001 - of the same class
        other._unit_of = np.full(len(self.groups), -1, np.int32)  # noqa: SLF001 - same
        n, sequence = self._held, np.arange(len(self.groups))
        other.used, other.rows, other.order = n, np.empty((n, 4), np.int64), np.empty(n, np.int32)
        compact(self.rows, self.order, other.groups, sequence, other.rows, other.order)
        return other

    def arrays(self) -> dict[str, Ints | Codes]:
        """All of the state except k; the groups in order, so that equal states look alike."""
        held = self.copy()
        return {"rows": held.rows, "order": held.order, "groups": held.groups}

    @classmethod
    def from_arrays(cls, k: int, rows: Ints, order: Codes, groups: Ints) -> Self:
        """The inverse of ``arrays``, which are copied."""
        band = cls(k)
        band.rows, band.order, band.groups = rows.copy(), order.copy(), groups.copy()
        band.used = len(rows)
        band._held = int(band.lengths.sum())
        band._unit_of = np.full(len(groups), -1, np.int32)
        return band

    def _positions(self) -> Ints:
        """Where the held rows are: the top of each group, and all between gap and free room."""
        base, top, rest = self.groups[:, BASE], self.groups[:, TOP], self.groups[:, REST]
        starts = np.stack((base, base + rest), axis=1).ravel()
        lengths = np.stack((top, self.lengths - top), axis=1).ravel()
        ends = np.cumsum(lengths)
        positions: Ints = np.arange(self._held) + np.repeat(starts - (ends - lengths), lengths)
        return positions

    def _check(self, first: int = LOWEST, swept: bool = False) -> None:
        """Assert every invariant; with ``swept``, also that nothing could be dropped."""
        assert (self._unit_of == -1).all()
        assert self._held == self.lengths.sum()
        assert sorted(set(self._positions().tolist())) == sorted(self._positions().tolist())
        assert int(self.groups[:, CAP].sum()) + self.garbage == self.used <= len(self.rows)
        for base, cap, top, rest, front, back, best, large in self.groups.tolist():
            assert 0 <= top <= rest <= front <= front + back <= cap
            assert top <= self.k
            assert best == (min(self.k, back) if large else back)
            held = [tuple(row) for row in self.rows[base : base + front + back].tolist()]
            ahead, behind = held[:top] + held[rest:front], held[front:]
            by_order = sorted(ahead, key=lambda row: (-row[KEY], -row[TIE]))
            assert [row[:2] for row in ahead] == [row[:2] for row in by_order]
            assert top == self.k or rest == front or swept is False
            panes = [row[PANE] for row in behind]
            assert panes == sorted(panes)
            assert large or (top == 0 and rest == front)
            order = self.order[base : base + best].tolist()
            named = [held[i] for i in order]
            wanted = sorted(range(back), key=lambda i: (-behind[i][KEY], -behind[i][TIE], i))
            assert order == [front + i for i in wanted[:best]], (named, behind)
            if ahead and behind:
                assert max(row[PANE] for row in ahead) < panes[0]
            if swept:
                assert back == 0
                for i, row in enumerate(ahead):
                    assert row[PANE] >= first
                    assert sum(other[PANE] >= row[PANE] for other in ahead[:i]) < self.k
