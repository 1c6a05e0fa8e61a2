"""The k-skyband of every group over sliding windows: exact top-k, any order of scores.

A row can still be answered only while fewer than k better rows stand in its own pane or newer ones.
The rows of a group are kept in two parts:

    rows    | top ...gap... | rest            | back                    | free |
            0     TOP     REST             FRONT                  FRONT+BACK  CAP

*Front* (top and rest) is what the last sweep retained, best first. The top-k of any suffix of its
panes is its first k rows of those panes, so ``top`` holds the first k live ones, and as panes expire
it is refilled from ``rest``; every row is passed once. *Back* has all rows pushed since the sweep, in
order of arrival; ``order`` names its best k, best first. An answer merges the two short lists.

A sweep makes one front of both: through the back from the newest pane to the oldest, where the k-th
best so far drops most rows with one comparison; what each pane pushes out of the best k is worse than
all that is left, so the retained rows come out sorted. They are merged with the old front, whose rows
stay while fewer than k better ones are as new. It runs when the back has outgrown the front, or when
its oldest pane expires: amortised O(log k) a row, whatever the scores do; falling ones, which retain
the whole window, included.

Groups have a stretch each of one array, so a snapshot is a copy. One call takes many panes and windows
and goes through them group by group, so that a group's rows stay in the cache; answers are counted
first and written to their final places.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.kernels.borrow import borrowed
from skyband.kernels.jit import jit

__all__ = ["Skyband", "Tops"]

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]

_KEY, _TIE, _SLOT, _PANE = range(4)  # columns of rows
_BASE, _CAP, _TOP, _REST, _FRONT, _BACK, _BEST, _NEWEST = range(8)  # columns of groups
_ROOM = 32  # the back may hold this many times k rows before a sweep
_CHUNK = 12  # rows sorted by insertion
_LOWEST = -(1 << 63)


class Tops(NamedTuple):
    """The best rows of some (window, group) pairs, best first; only pairs with rows."""

    window: Ints32  # position in the list of windows
    group: Ints32
    offsets: Ints  # one more than there are pairs
    slot: Ints
    key: Ints
    tie: Ints


class Skyband:
    """What can still be among the best k rows of a window, for many groups.

    Rows come with a ``key`` (greater is better), a ``tie`` (greater is better, and greater in a newer
    pane), a ``pane`` number and the caller's ``slot``. Rows of one (pane, group) that equal in key and
    tie keep their order.

    >>> band = Skyband(k=2)
    >>> one = np.zeros(3, np.int32)
    >>> keys = np.array([5, 9, 7, 6])
    >>> tops = band.fold(
    ...     np.arange(3), one, np.array([0, 2, 3, 4]), keys, np.arange(4), np.arange(4),
    ...     np.array([0, 1]), np.array([2, 3]), np.zeros(1, np.int32),
    ... )
    >>> tops.window, tops.offsets, tops.key
    (array([0, 1], dtype=int32), array([0, 2, 4]), array([9, 7, 7, 6]))
    """

    __slots__ = ("_scratch", "_unit_of", "garbage", "groups", "k", "order", "rows", "used")

    def __init__(self, k: int) -> None:
        self.k = k
        self.rows: Ints = np.empty((0, 4), np.int64)
        self.order: Ints32 = np.empty(0, np.int32)
        self.groups: Ints = np.zeros((0, 8), np.int64)
        self.used = 0  # rows[:used] belong to groups, but for the garbage among them
        self.garbage = 0
        self._unit_of: Ints32 = np.empty(0, np.int32)  # -1 everywhere between calls
        self._scratch = _scratch(64, k)

    # Folding ----------------------------------------------------------------------------------

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
        win_end[i])``; both ascend. Answers are sorted by window and then as in ``group_order``, which
        must name every group that is to be answered; without windows it is not looked at.
        """
        n_windows = len(win_end)
        units = group_order if n_windows else group_order[:0]
        low = np.zeros(len(units), np.int64)
        high = np.full(len(units), n_windows, np.int64)
        runs = (run_pane, run_group, offsets, key, tie, slot)
        return self._fold(runs, win_first, win_end, units, low, high)

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
        runs = (run_pane, run_group, offsets, key, tie, slot)
        return self._fold(runs, win_first, win_end, win_group[low], low, high)

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
        runs: tuple[Ints, Ints32, Ints, Ints, Ints, Ints],
        win_first: Ints,
        win_end: Ints,
        units: Ints32,
        low: Ints,
        high: Ints,
    ) -> Tops:
        run_group = runs[1]
        highest = max(int(run_group.max(initial=-1)), int(units.max(initial=-1)))
        self._reserve_groups(highest + 1)
        units, starts, index = _index_runs(run_group, units, self._unit_of)
        if len(low) < len(units):  # groups that are pushed to without being answered
            nothing = np.zeros(len(units) - len(low), np.int64)
            low, high = np.append(low, nothing), np.append(high, nothing)
        plan = (units, starts, index, low.astype(np.int64, copy=False), high)
        n_windows = len(win_end)
        row_at = np.zeros(n_windows + 1, np.int64)
        run_at = np.zeros(n_windows + 1, np.int64)
        if n_windows:
            _count(
                self.rows, self.groups, self.k, plan, runs[0], runs[2], win_first, win_end, row_at,
                run_at,
            )
            np.cumsum(row_at, out=row_at)
            np.cumsum(run_at, out=run_at)
        n_rows, n_out = int(row_at[-1]), int(run_at[-1])
        tops = Tops(
            np.empty(n_out, np.int32),
            np.empty(n_out, np.int32),
            np.empty(n_out + 1, np.int64),
            np.empty(n_rows, np.int64),
            np.empty(n_rows, np.int64),
            np.empty(n_rows, np.int64),
        )
        tops.offsets[n_out] = n_rows
        cursor = np.array([0, -1, 0, _LOWEST, self.used, self.garbage, 0], np.int64)
        windows = (win_first, win_end, row_at, run_at)
        while True:
            lacking = _fold(
                self.rows, self.order, self.groups, self.k, plan, runs, windows, tops,
                self._scratch, cursor,
            )
            self.used, self.garbage = int(cursor[_USED]), int(cursor[_GARBAGE])
            if lacking == _NOTHING:
                break
            need = int(cursor[_NEED])
            if lacking == _ROWS:
                self._reserve_rows(need + need // 2)
            else:
                self._scratch = _scratch(2 * need, self.k)
        if 2 * self.garbage > self.used:
            self._compact()
        return tops

    def _reserve_groups(self, n: int) -> None:
        have = len(self.groups)
        if n > have:
            room = max(n, have + have // 2)
            groups = np.zeros((room, 8), np.int64)
            groups[:have] = self.groups
            self.groups = groups
            self._unit_of = np.full(room, -1, np.int32)

    def _reserve_rows(self, n: int) -> None:
        rows, order = np.empty((n, 4), np.int64), np.empty(n, np.int32)
        rows[: self.used], order[: self.used] = self.rows[: self.used], self.order[: self.used]
        self.rows, self.order = rows, order

    def _compact(self) -> None:
        self.rows, self.order, self.used = _compact(self.rows, self.order, self.groups)
        self.garbage = 0

    # The rest of life -------------------------------------------------------------------------

    def forget(self, groups: NDArray[np.integer]) -> None:
        """Drop all rows of some groups; their numbers may be used anew."""
        self.garbage += int(self.groups[groups, _CAP].sum())
        self.groups[groups] = 0
        if 2 * self.garbage > self.used:
            self._compact()

    @property
    def lengths(self) -> Ints:
        """How many rows each group holds."""
        groups = self.groups
        held: Ints = groups[:, _TOP] + groups[:, _FRONT] - groups[:, _REST] + groups[:, _BACK]
        return held

    @property
    def retained(self) -> int:
        """How many rows are held; right after ``sweep``, those that can still be answered."""
        return int(self.lengths.sum())

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        arrays = (self.rows, self.order, self.groups, self._unit_of, *self._scratch)
        return sum(array.nbytes for array in arrays)

    def slots(self) -> Ints:
        """The slots of all rows that are held, in no particular order."""
        return self._held()[:, _SLOT]

    def renumber(self, slots: Ints) -> None:
        """Give the held rows new slots, in the order of ``slots()``."""
        self.rows[self._positions(), _SLOT] = slots

    def sweep(self, first: int) -> None:
        """Drop everything that can no longer be answered in windows that start at ``first``."""
        largest = int((self.groups[:, _FRONT] + self.groups[:, _BACK]).max(initial=1))
        _sweep_all(self.rows, self.groups, first, self.k, _scratch(largest, self.k))

    def copy(self) -> Skyband:
        """A state that goes on independently, without free room."""
        other = Skyband(self.k)
        other.groups = self.groups.copy()
        other._unit_of = np.full(len(self.groups), -1, np.int32)
        other.rows, other.order, other.used = _compact(self.rows, self.order, other.groups)
        return other

    def arrays(self) -> dict[str, NDArray[np.int64] | NDArray[np.int32]]:
        """All there is to the state but k, compacted."""
        self._compact()
        used = self.used
        return {"rows": self.rows[:used], "order": self.order[:used], "groups": self.groups}

    @classmethod
    def from_arrays(cls, k: int, rows: Ints, order: Ints32, groups: Ints) -> Skyband:
        """The way back from ``arrays``; they are copied."""
        band = cls(k)
        band.rows, band.order, band.groups = rows.copy(), order.copy(), groups.copy()
        band.used = len(rows)
        band._unit_of = np.full(len(groups), -1, np.int32)
        return band

    def _positions(self) -> Ints:
        groups = self.groups[self.groups[:, _CAP] > 0]
        parts = [
            np.concatenate((base + np.arange(top), base + np.arange(rest, front + back)))
            for base, _, top, rest, front, back, _, _ in groups.tolist()
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _held(self) -> Ints:
        return self.rows[self._positions()]

    def _check(self, first: int = _LOWEST, swept: bool = False) -> None:
        """Assert every invariant; with ``swept``, also that nothing could be dropped."""
        assert (self._unit_of == -1).all()
        assert int(self.groups[:, _CAP].sum()) + self.garbage == self.used <= len(self.rows)
        for base, cap, top, rest, front, back, best, newest in self.groups.tolist():
            assert 0 <= top <= rest <= front <= front + back <= cap
            assert top <= self.k
            assert best == min(self.k, back)
            held = [tuple(row) for row in self.rows[base : base + front + back].tolist()]
            ahead, behind = held[:top] + held[rest:front], held[front:]
            by_order = sorted(ahead, key=lambda row: (-row[_KEY], -row[_TIE]))
            assert [row[:2] for row in ahead] == [row[:2] for row in by_order]
            assert top == self.k or rest == front or swept is False
            panes = [row[_PANE] for row in behind]
            assert panes == sorted(panes)
            assert all(row[_PANE] <= newest for row in ahead + behind)
            order = self.order[base : base + best].tolist()
            named = [held[i] for i in order]
            wanted = sorted(range(back), key=lambda i: (-behind[i][_KEY], -behind[i][_TIE], i))
            assert order == [front + i for i in wanted[:best]], (named, behind)
            if ahead and behind:
                assert max(row[_PANE] for row in ahead) < panes[0]
            if swept:
                assert back == 0
                for i, row in enumerate(ahead):
                    assert row[_PANE] >= first
                    assert sum(other[_PANE] >= row[_PANE] for other in ahead[:i]) < self.k


# Scratch: rows picked from a pane and their keys, each with a spare; buckets; the best k; retained rows as
# positions and as rows; panes.
Scratch = tuple[Ints32, Ints32, Ints, Ints, Ints32, Ints32, Ints32, Ints, Ints]
Plan = tuple[Ints32, Ints, Ints, Ints, Ints]  # group; its runs: starts, index; its windows: low, high
Runs = tuple[Ints, Ints32, Ints, Ints, Ints, Ints]  # as the arguments of Skyband.fold
Windows = tuple[Ints, Ints, Ints, Ints]  # first and end; places for rows and runs of the answers

_UNIT, _RUN, _WINDOW, _FIRST, _USED, _GARBAGE, _NEED = range(7)  # the cursor: where a call goes on
_NOTHING, _ROWS, _ROOM_TO_WORK = range(3)  # what a call lacks to go on


def _scratch(n: int, k: int) -> Scratch:
    return (
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n + 1, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty((n, 4), np.int64),
        np.empty(2 * n + k + 1, np.int64),
    )


@jit
def _index_runs(run_group: Ints32, units: Ints32, unit_of: Ints32) -> tuple[Ints32, Ints, Ints]:
    """The runs of each group, groups as in ``units`` and then as they come; stable."""
    n_runs = len(run_group)
    n = len(units)
    groups = np.empty(n + n_runs, np.int32)
    for unit in range(n):
        groups[unit] = units[unit]
        unit_of[units[unit]] = unit
    for run in range(n_runs):
        if unit_of[run_group[run]] < 0:
            groups[n] = run_group[run]
            unit_of[run_group[run]] = n
            n += 1
    starts = np.zeros(n + 2, np.int64)  # at first one place ahead: filled, they have moved there
    for run in range(n_runs):
        starts[unit_of[run_group[run]] + 2] += 1
    for unit in range(n):
        starts[unit + 2] += starts[unit + 1]
    index = np.empty(n_runs, np.int64)
    for run in range(n_runs):
        unit = unit_of[run_group[run]] + 1
        index[starts[unit]] = run
        starts[unit] += 1
    for unit in range(n):
        unit_of[groups[unit]] = -1
    return groups[:n], starts, index


@jit
def _count(
    rows: Ints,
    groups: Ints,
    k: int,
    plan: Plan,
    run_pane: Ints,
    offsets: Ints,
    win_first: Ints,
    win_end: Ints,
    n_rows: Ints,
    n_runs: Ints,
) -> None:
    """Add up, one place ahead, how many rows and groups each window will be answered with."""
    units, starts, index, low, high = plan
    dropped = np.zeros(len(win_end) + 1, np.int64)  # rows held now that the window has lost
    for unit in range(len(units)):
        group = groups[units[unit]]
        w = low[unit]
        last = high[unit]
        if w == last:
            continue
        base, top, rest = group[_BASE], group[_TOP], group[_REST]
        stop = group[_FRONT] + group[_BACK]
        # Mostly k rows that are held outlive the last window: look for them, newest first.
        live = 0
        i = stop
        while i > 0 and live < k:
            i -= 1
            if i < rest and i >= top:
                i = top
                continue
            live += rows[base + i, _PANE] >= win_first[last - 1]
        if live == k:
            for x in range(w, last):
                n_rows[x + 1] += k
                n_runs[x + 1] += 1
            continue

        live = 0
        for i in range(stop):
            if i < top or i >= rest:
                pane = rows[base + i, _PANE]
                a, b = w, last  # find the first window that starts after the pane
                while a < b:
                    middle = (a + b) >> 1
                    if win_first[middle] <= pane:
                        a = middle + 1
                    else:
                        b = middle
                dropped[a] += 1
                live += 1
        come = starts[unit]
        gone = come
        stop = starts[unit + 1]
        while w < last:
            live -= dropped[w]
            dropped[w] = 0
            while come < stop and run_pane[index[come]] < win_end[w]:
                live += offsets[index[come] + 1] - offsets[index[come]]
                come += 1
            while gone < come and run_pane[index[gone]] < win_first[w]:
                live -= offsets[index[gone] + 1] - offsets[index[gone]]
                gone += 1
            if live > 0:
                n_rows[w + 1] += k if live > k else live
                n_runs[w + 1] += 1
                w += 1
            elif come == stop:
                w = last
            else:
                w = _first_above(win_end, w, last, run_pane[index[come]])
        dropped[last] = 0


@jit
def _first_above(ascending: Ints, low: int, high: int, value: int) -> int:
    """The first place in ``[low, high)`` with more than ``value``, or ``high``."""
    while low < high:
        middle = (low + high) >> 1
        if ascending[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def _fold(
    rows: Ints,
    order: Ints32,
    groups: Ints,
    k: int,
    plan: Plan,
    runs: Runs,
    windows: Windows,
    tops: Tops,
    scratch: Scratch,
    cursor: Ints,
) -> int:
    """Go through the units from the cursor on; return what is lacking to go on from there."""
    rows, order, groups = borrowed(rows), borrowed(order), borrowed(groups)
    units, starts, index = borrowed(plan[0]), borrowed(plan[1]), borrowed(plan[2])
    low, high = borrowed(plan[3]), borrowed(plan[4])
    run_pane, offsets = borrowed(runs[0]), borrowed(runs[2])
    key, tie, slot = borrowed(runs[3]), borrowed(runs[4]), borrowed(runs[5])
    win_first, win_end = borrowed(windows[0]), borrowed(windows[1])
    row_at, run_at = borrowed(windows[2]), borrowed(windows[3])
    out_window, out_group, out_offsets = borrowed(tops[0]), borrowed(tops[1]), borrowed(tops[2])
    out_slot, out_key, out_tie = borrowed(tops[3]), borrowed(tops[4]), borrowed(tops[5])
    pick, spare = borrowed(scratch[0]), borrowed(scratch[1])
    pick_key, spare_key = borrowed(scratch[2]), borrowed(scratch[3])
    buckets = borrowed(scratch[4])
    list_, retained = borrowed(scratch[5]), borrowed(scratch[6])
    kept, panes = borrowed(scratch[7]), borrowed(scratch[8])

    used = cursor[_USED]
    run = cursor[_RUN]
    w = cursor[_WINDOW]
    first = cursor[_FIRST]
    for unit in range(cursor[_UNIT], len(units)):
        group = groups[units[unit]]
        last = high[unit]
        stop = starts[unit + 1]
        if run < 0:
            run = starts[unit]
            w = low[unit]
            first = np.int64(_LOWEST)
        changed = True  # since the last answer, which stands at `before`
        before = w
        while True:
            pushing = run < stop and (w == last or run_pane[index[run]] < win_end[w])
            if w == last and not pushing:
                break
            base = group[_BASE]
            front = group[_FRONT]
            back = group[_BACK]
            start = offsets[index[run]] if pushing else base
            n = offsets[index[run] + 1] - start if pushing else base - base
            if not pushing:
                first = win_first[w]
            size = front + back + n
            cap = group[_CAP]
            lacking = _NOTHING
            if size > len(pick):
                lacking = _ROOM_TO_WORK
                cursor[_NEED] = size
            elif size > cap:
                # At the end of all rows a group can grow in place; elsewhere it moves there.
                cap = size + (size >> 1) + 2
                place = base if base + group[_CAP] == used else used
                if place + cap > len(rows):
                    lacking = _ROWS
                    cursor[_NEED] = place + cap
            if lacking != _NOTHING:
                cursor[_UNIT] = unit
                cursor[_RUN] = run
                cursor[_WINDOW] = w
                cursor[_FIRST] = first
                cursor[_USED] = used
                return lacking
            if back > 0 and (
                (back >= _ROOM * k and back >= front) or rows[base + front, _PANE] < first
            ):
                _sweep(
                    rows, group, first, k, pick, spare, pick_key, spare_key, buckets, list_, retained, kept,
                    panes,
                )
                size = group[_FRONT] + n
                changed = True

            if pushing:
                if size > group[_CAP]:
                    if base + group[_CAP] == used:
                        used = base
                    else:
                        cursor[_GARBAGE] += group[_CAP]
                        for i in range(size - n):
                            for c in range(4):
                                rows[used + i, c] = rows[base + i, c]
                            order[used + i] = order[base + i]
                        base = used
                    group[_BASE] = base
                    group[_CAP] = cap
                    used += cap
                pane = run_pane[index[run]]
                best = group[_BEST]
                worst = np.int64(_LOWEST)
                if best == k:
                    worst = rows[base + order[base + best - 1], _KEY]
                at = size - n
                picked = n - n
                for i in range(n):
                    rows[base + at + i, _KEY] = key[start + i]
                    rows[base + at + i, _TIE] = tie[start + i]
                    rows[base + at + i, _SLOT] = slot[start + i]
                    rows[base + at + i, _PANE] = pane
                for i in range(n - 1, -1, -1):
                    pick[picked] = at + i
                    pick_key[picked] = key[start + i]
                    picked += key[start + i] >= worst
                group[_BACK] += n
                group[_NEWEST] = pane
                if picked > 0:
                    _enlist(
                        rows, base, order, base, best, pick, spare, pick_key, spare_key, buckets,
 picked, k
                    )
                    group[_BEST] = best + picked if best + picked < k else k
                    changed = True
                run += 1
                continue

            changed = _expire(rows, group, first, k) or changed
            top = group[_TOP]
            best = group[_BEST]
            if top + best == 0:
                if run == stop:
                    break
                w = _first_above(win_end, w, last, run_pane[index[run]])
                continue
            at = row_at[w]
            end = at + (k if top + best > k else top + best)
            if changed:
                i = base
                j = base
                top += base
                best += base
                for out in range(at, end):
                    row = i
                    if j < best and (
                        i == top or rows[base + order[j], _KEY] >= rows[i, _KEY]
                    ):
                        row = base + order[j]
                        j += 1
                    else:
                        i += 1
                    out_slot[out] = rows[row, _SLOT]
                    out_key[out] = rows[row, _KEY]
                    out_tie[out] = rows[row, _TIE]
            else:
                for i in range(end - at):
                    out_slot[at + i] = out_slot[before + i]
                    out_key[at + i] = out_key[before + i]
                    out_tie[at + i] = out_tie[before + i]
            before = at
            changed = False
            out_window[run_at[w]] = w
            out_group[run_at[w]] = units[unit]
            out_offsets[run_at[w]] = at
            row_at[w] = end
            run_at[w] += 1
            w += 1
        run = -1 - (run - run)
    cursor[_USED] = used
    return _NOTHING


@jit
def _enlist(
    rows: Ints,
    base: int,
    best: Ints32,
    start: int,
    n: int,
    pick: Ints32,
    spare: Ints32,
    pick_key: Ints,
    spare_key: Ints,
    buckets: Ints32,
    picked: int,
    k: int,
) -> int:
    """Sort picked rows of one pane, merge the best k into the n of ``best``; the new length."""
    # Rows come latest first, and the later of two equal keys mostly has the greater tie: constant
    # and falling keys are in order already.
    i = 1
    while i < picked and (
        pick_key[i - 1] > pick_key[i]
        or (
            pick_key[i - 1] == pick_key[i]
            and rows[base + pick[i - 1], _TIE] > rows[base + pick[i], _TIE]
        )
    ):
        i += 1
    stretch = _CHUNK + n - n
    if i >= picked:
        stretch = picked
    elif picked > 2 * _CHUNK:
        # Keys spread evenly, as most are, go to buckets first: hardly any then stands out of order.
        least = pick_key[0]
        most = least
        for i in range(picked):
            least = pick_key[i] if pick_key[i] < least else least
            most = pick_key[i] if pick_key[i] > most else most
        span = float(most) - float(least)
        scale = (picked - 1) / span if span > 0.0 else 0.0
        for i in range(picked + 1):
            buckets[i] = 0
        for i in range(picked):
            buckets[int((float(most) - float(pick_key[i])) * scale) + 1] += 1
        fullest = 0
        for i in range(picked):
            fullest = buckets[i + 1] if buckets[i + 1] > fullest else fullest
            buckets[i + 1] += buckets[i]
        if fullest <= _CHUNK:
            for i in range(picked):
                bucket = int((float(most) - float(pick_key[i])) * scale)
                spare[buckets[bucket]] = pick[i]
                spare_key[buckets[bucket]] = pick_key[i]
                buckets[bucket] += 1
            pick, spare = spare, pick
            pick_key, spare_key = spare_key, pick_key
            stretch = picked
    # Insertion sort of stretches, then merges.
    for low in range(0, picked, stretch):
        high = low + stretch if low + stretch < picked else picked
        for i in range(low + 1, high):
            x = pick[i]
            x_key = pick_key[i]
            j = i
            while j > low and pick_key[j - 1] <= x_key:
                y = pick[j - 1]
                if pick_key[j - 1] == x_key:
                    x_tie = rows[base + x, _TIE]
                    y_tie = rows[base + y, _TIE]
                    if y_tie > x_tie or (y_tie == x_tie and y < x):
                        break
                pick[j] = y
                pick_key[j] = pick_key[j - 1]
                j -= 1
            pick[j] = x
            pick_key[j] = x_key
    width = stretch
    while width < picked:
        for low in range(0, picked, 2 * width):
            middle = low + width if low + width < picked else picked
            high = middle + width if middle + width < picked else picked
            i = low
            j = middle
            out = low
            while i < middle and j < high:
                later = np.int64(pick_key[j] > pick_key[i])
                if pick_key[j] == pick_key[i]:
                    x_tie = rows[base + pick[i], _TIE]
                    y_tie = rows[base + pick[j], _TIE]
                    later = np.int64(y_tie > x_tie or (y_tie == x_tie and pick[j] < pick[i]))
                taken = i + ((j - i) & -later)  # without a branch, which nobody could predict
                spare_key[out] = pick_key[taken]
                spare[out] = pick[taken]
                j += later
                i += 1 - later
                out += 1
            while i < middle:
                spare_key[out] = pick_key[i]
                spare[out] = pick[i]
                i += 1
                out += 1
            while j < high:
                spare_key[out] = pick_key[j]
                spare[out] = pick[j]
                j += 1
                out += 1
        pick, spare = spare, pick
        pick_key, spare_key = spare_key, pick_key
        width *= 2
    if picked > k:
        picked = k
    # Merge from the end, so that only what moves is touched. Rows of different panes never tie:
    # the newer one is better, and stands later in the back.
    i = start + n - 1
    j = picked - 1
    out = start + n + picked
    while j >= 0:
        out -= 1
        x_key = pick_key[j]
        y_key = rows[base + best[i], _KEY] if i >= start else x_key
        if i >= start and (x_key > y_key or (x_key == y_key and pick[j] > best[i])):
            best[out] = best[i]
            i -= 1
        else:
            best[out] = pick[j]
            j -= 1
    return n + picked


@jit
def _expire(rows: Ints, group: Ints, first: int, k: int) -> bool:
    """Let go of panes before ``first`` and refill the top from the rest; whether it changed."""
    base = group[_BASE]
    top = base
    stop = base + group[_TOP]
    while top < stop and rows[top, _PANE] >= first:
        top += 1
    rest = base + group[_REST]
    front = base + group[_FRONT]
    if top == stop and (rest == front or group[_TOP] == k):
        return False
    for i in range(top + 1, stop):
        if rows[i, _PANE] >= first:
            for c in range(4):
                rows[top, c] = rows[i, c]
            top += 1
    while top < base + k and rest < front:
        if rows[rest, _PANE] >= first:
            for c in range(4):
                rows[top, c] = rows[rest, c]
            top += 1
        rest += 1
    group[_TOP] = top - base
    group[_REST] = rest - base
    return True


@jit
def _sweep(
    rows: Ints,
    group: Ints,
    first: int,
    k: int,
    pick: Ints32,
    spare: Ints32,
    pick_key: Ints,
    spare_key: Ints,
    buckets: Ints32,
    best: Ints32,
    retained: Ints32,
    kept: Ints,
    panes: Ints,
) -> None:
    """Make one front of front and back, of the rows that can still be answered."""
    base, top, rest, front = group[_BASE], group[_TOP], group[_REST], group[_FRONT]
    stop = front + group[_BACK]

    # The back, newest pane first. What leaves the best k is worse than all that is left and than
    # what comes, so the retained rows are written from the end.
    low = front
    while low < stop and rows[base + low, _PANE] < first:
        low += 1
    end = stop
    none = end - end
    n = none
    i = stop
    while i > low:
        pane = rows[base + i - 1, _PANE]
        j = i - 1
        while j > low and rows[base + j - 1, _PANE] == pane:
            j -= 1
        worst = np.int64(_LOWEST)
        if n == k:
            worst = rows[base + best[n - 1], _KEY]
        picked = none
        for x in range(i - 1, j - 1, -1):
            pick[picked] = x
            pick_key[picked] = rows[base + x, _KEY]
            picked += n < k or rows[base + x, _KEY] > worst
        if picked > 0:
            n = _enlist(rows, base, best, none, n, pick, spare, pick_key, spare_key, buckets,
 picked, k)
            while n > k:
                n -= 1
                if best[n] >= i:  # not of this very pane
                    end -= 1
                    retained[end] = best[n]
        i = j
    while n > 0:
        n -= 1
        end -= 1
        retained[end] = best[n]

    # The front is older than all of that. Its rows stay while fewer than k better ones are as new:
    # while their pane is above the k-th newest pane of the rows that stand before.
    oldest = first
    newest = first
    live = none
    for i in range(front):
        if i < top or i >= rest:
            pane = rows[base + i, _PANE]
            if pane >= first:
                oldest = pane if live == 0 or pane < oldest else oldest
                newest = pane if live == 0 or pane > newest else newest
                live += 1
    counting = live > 0 and newest - oldest < 2 * live
    if counting:
        for i in range(newest - oldest + 1):
            panes[i] = 0
    kth = oldest - 1 if live > 0 else oldest
    above = none  # rows in panes above the k-th newest; or, in a heap, the newest so many panes
    m = none
    i = none
    while live > 0 and kth < newest:
        if i == top:
            i = rest
        if i >= front:
            break
        if rows[base + i, _PANE] < first:
            i += 1
            continue
        row = base + i
        if end < stop and rows[base + retained[end], _KEY] >= rows[row, _KEY]:
            row = base + retained[end]
            end += 1
        else:
            i += 1
            if rows[row, _PANE] <= kth:
                continue
        for c in range(4):
            kept[m, c] = rows[row, c]
        m += 1
        pane = rows[row, _PANE]
        if counting:
            if pane <= newest:
                panes[pane - oldest] += 1
            above += 1
            while above >= k and kth < newest:
                kth += 1
                above -= panes[kth - oldest]
        else:
            above = _keep_newest(panes, above, k, pane)
            if above == k:
                kth = panes[0]
    while end < stop:
        row = base + retained[end]
        for c in range(4):
            kept[m, c] = rows[row, c]
        m += 1
        end += 1
    for i in range(m):
        for c in range(4):
            rows[base + i, c] = kept[i, c]
    group[_TOP] = m if m < k else k
    group[_REST] = group[_TOP]
    group[_FRONT] = m
    group[_BACK] = 0
    group[_BEST] = 0


@jit
def _keep_newest(heap: Ints, n: int, k: int, pane: int) -> int:
    """Take a pane into the heap of the k newest, the oldest of them on top; the new size."""
    if n < k:
        i = n
        while i > 0 and heap[(i - 1) >> 1] > pane:
            heap[i] = heap[(i - 1) >> 1]
            i = (i - 1) >> 1
        heap[i] = pane
        return n + 1
    i = 0
    child = 1
    while child < k:
        if child + 1 < k and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= pane:
            break
        heap[i] = heap[child]
        i = child
        child = 2 * i + 1
    heap[i] = pane
    return k


@jit
def _sweep_all(rows: Ints, groups: Ints, first: int, k: int, scratch: Scratch) -> None:
    pick, spare, pick_key, spare_key, buckets, best, retained, kept, panes = scratch
    for g in range(len(groups)):
        if groups[g, _FRONT] + groups[g, _BACK] > 0:
            _sweep(
                rows, groups[g], first, k, pick, spare, pick_key, spare_key, buckets, best, retained, kept,
                panes,
            )


@jit
def _compact(rows: Ints, order: Ints32, groups: Ints) -> tuple[Ints, Ints32, int]:
    """The rows without gaps and garbage; ``groups`` is brought in line."""
    used = 0
    for g in range(len(groups)):
        group = groups[g]
        used += group[_TOP] + group[_FRONT] - group[_REST] + group[_BACK]
    new_rows = np.empty((used, 4), np.int64)
    new_order = np.empty(used, np.int32)
    used = 0
    for g in range(len(groups)):
        group = groups[g]
        base, top, rest = group[_BASE], group[_TOP], group[_REST]
        group[_BASE] = used
        for i in range(group[_FRONT] + group[_BACK]):
            if i < top or i >= rest:
                for c in range(4):
                    new_rows[used, c] = rows[base + i, c]
                used += 1
        for i in range(group[_BEST]):
            new_order[group[_BASE] + i] = order[base + i] - (rest - top)
        group[_REST] = top
        group[_FRONT] -= rest - top
        group[_CAP] = used - group[_BASE]
    return new_rows, new_order, used
