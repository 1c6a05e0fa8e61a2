"""The dominance graphs of a sliding window: non-redundant rows, critical dominators, intervals."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from skyband.arrays import Codes, Ints, Saved, State, grown
from skyband.contract.runs import expand, offsets_of, run_starts
from skyband.data.flat_state import FlatState, Form, Forms, require
from skyband.kernels.borrow import frozen
from skyband.skyline.base import dominators, skylines
from skyband.skyline.kernels.stabsky import (
    ALWAYS,
    Members,
    PaneSkylines,
    Skylines,
    StabReads,
    stab_fold,
    stab_read,
)

_FIELDS = Members._fields
OPERATIONS = ("comparisons", "redundant", "expired", "edges")
"""What the kernels count."""
_SPARE = 1024
"""Up to this many entries may be unused before rows are moved together."""
_NO_CODES = np.zeros(0, np.int32)
_EVER = np.array([np.iinfo(np.int64).max])


class DominanceGraphs(FlatState):
    """Of each group, the rows that no row of their own or a newer pane dominates, oldest first.

    ``parent`` is a row's critical dominator, the youngest older row that dominates it (-1: none is
    live), counted from the group's first row. The interval (``since``, ``pane``] holds the first
    panes of all windows whose skyline contains the row. ``slot`` is the owner's number for the row.

    In this example, the paper's Figure 2, every tuple is a pane; p1 and p2 are redundant.

        p3 ──► p7      (0, 3] (3, 7]
        p4 ─┬► p5      (0, 4] (4, 5]
            └► p6             (4, 6]

    The rows of a group lie together. Groups that are folded are written behind the others, unless
    those are few:

        before   ├ a ┼ b ┼── c ──┼ d ┤
        after    ├ a ┼···┼── c ──┼···┼─ b ─┼─ d ─┤      a fold of b and d
    """

    saved_arrays = (*_FIELDS, "starts", "sizes", "counts")
    saved_forms: ClassVar[Forms] = {
        **dict.fromkeys(_FIELDS, Form("rows")),
        "parent": Form("rows", -1, "rows"),
        "slot": Form("rows", 0),
        "starts": Form("groups", 0),
        "sizes": Form("groups", 0),
        "counts": Form(len(OPERATIONS)),
    }

    def __init__(self, dimensions: int) -> None:
        self.points: Ints = np.empty((0, dimensions), np.int64)
        self.segment: Ints = np.zeros(0, np.int64)
        self.pane: Ints = np.zeros(0, np.int64)
        self.since: Ints = np.zeros(0, np.int64)
        self.parent: Ints = np.zeros(0, np.int64)
        self.slot: Ints = np.zeros(0, np.int64)
        self.starts: Ints = np.zeros(1, np.int64)
        self.sizes: Ints = np.zeros(1, np.int64)
        """Where the rows of each group begin, and how many there are."""
        self.used = 0
        """Entries from here on are room for more."""
        self.counts = np.zeros(4, np.int64)

    def __len__(self) -> int:
        return int(self.sizes.sum())

    @property
    def members(self) -> Members:
        return Members(self.points, self.segment, self.pane, self.since, self.parent, self.slot)

    def fold(self, fresh: PaneSkylines, windows: StabReads, bound: int = 1) -> Skylines:
        """Push the skylines of panes, oldest first, and read windows.

        ``bound`` is greater than the codes of all groups.
        """
        self.starts, self.sizes = grown(self.starts, bound), grown(self.sizes, bound)
        everyone = len(windows.end) > 0 and not len(windows.group)
        if everyone:
            live = self.sizes > 0
            live[fresh.group] = True
            groups = np.flatnonzero(live)
        else:
            groups = np.unique(np.concatenate([fresh.group, windows.group])).astype(np.int64)
        rows, sizes, skylines = stab_fold(
            self.members, self.starts[groups], self.sizes[groups], groups, _frozen(fresh),
            np.argsort(fresh.group, kind="stable"), _frozen(windows), self.counts,
        )  # fmt: skip
        self.sizes[groups] = 0
        if everyone:
            self._replace(rows)
        else:
            self._add(rows)
        self.starts[groups] = self.used - len(rows.pane) + offsets_of(sizes)[:-1]
        self.sizes[groups] = sizes
        return skylines

    def _add(self, rows: Members) -> None:
        """Write rows behind those of all groups, which are moved together if much is unused."""
        fresh, others = len(rows.pane), len(self)
        if others <= fresh or self.used + fresh > 2 * (others + fresh) + _SPARE:
            self.tidy()
        low, self.used = self.used, self.used + fresh
        for name, new in zip(_FIELDS, rows, strict=True):
            array = grown(getattr(self, name), self.used)
            array[low : self.used] = new
            setattr(self, name, array)

    def _replace(self, rows: Members) -> None:
        for name, array in zip(_FIELDS, rows, strict=True):
            setattr(self, name, array)
        self.used = len(rows.pane)

    @property
    def places(self) -> Ints:
        """Where the rows of all groups are, group by group."""
        return expand(self.starts, self.sizes)

    def tidy(self) -> None:
        """Let the rows of all groups lie side by side, without room between them."""
        if len(self.pane) == len(self):
            return
        places = self.places
        self._replace(Members(*(each[places] for each in self.members)))
        self.starts = offsets_of(self.sizes)[:-1].copy()

    def forget(self, groups: Codes) -> None:
        """Drop these groups."""
        self.sizes[groups[groups < len(self.sizes)]] = 0
        self.tidy()

    def follow(
        self, rows: tuple[Ints, Ints, Ints], start: int, shift: int, first: int, counts: Ints
    ) -> Ints:
        """Take the live rows from ``start`` on, and read the window that begins with ``first``.

        ``rows`` holds the points, segments and panes of live rows, oldest first; a row's slot is
        its position plus ``shift``. ``counts[0]`` grows by the comparisons within panes.
        """
        points, segment, pane = (array[start:] for array in rows)
        starts = run_starts(pane)
        best, offsets = skylines(points, segment, np.append(starts, len(pane)), counts)
        group, slot = np.zeros(len(starts), np.int32), best + start + shift
        fresh = PaneSkylines(points[best], segment[best], slot, offsets, pane[starts], group)
        window = np.array([first])
        return self.fold(fresh, StabReads(window, _EVER, window, _NO_CODES)).slot

    def read(self, first: int, group: int | None = None) -> Skylines:
        """The window that begins with pane ``first``, of all groups or of one."""
        groups = np.flatnonzero(self.sizes)
        if group is not None:
            groups = groups[groups == group]
        return stab_read(self.members, self.starts[groups], self.sizes[groups], groups, first)

    def stats(self) -> dict[str, int | float]:
        """Operation counts."""
        return dict(zip(OPERATIONS, self.counts.tolist(), strict=True))

    # State ------------------------------------------------------------------------------------

    def state(self) -> State:
        self.tidy()
        return super().state()

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        self.used = len(self.pane)
        filled = np.flatnonzero(self.sizes)
        filled = filled[np.argsort(self.starts[filled])]
        starts, sizes = self.starts[filled], self.sizes[filled]
        whole = sizes.sum() == self.used and (starts == offsets_of(sizes)[:-1]).all()
        require(whole, "rows of no group, or of two")
        begins = np.repeat(starts, sizes)
        older = self.parent < np.arange(self.used) - begins
        require(older.all(), "a row is older than its parent")
        before = self.pane[:-1][np.diff(begins) == 0]
        rows = self.pane[1:][np.diff(begins) == 0]
        require((rows >= before).all(), "rows are not ordered by age")

    def _check(self) -> None:
        assert all(len(array) == len(self.pane) >= self.used for array in self.members)
        ends = np.sort(self.starts[self.sizes > 0] + self.sizes[self.sizes > 0])
        assert len(np.unique(self.places)) == len(self), "stretches of groups overlap"
        assert ends.max(initial=0) <= self.used
        for start, size in zip(self.starts.tolist(), self.sizes.tolist(), strict=True):
            _check_group(Members(*(array[start : start + size] for array in self.members)))


def _frozen(arrays: Any) -> Any:
    return type(arrays)(*map(frozen, arrays))


def _check_group(m: Members) -> None:
    assert (np.diff(m.pane) >= 0).all(), "rows are ordered by age"
    for child in range(len(m.pane)):
        above = dominators(m.points, m.segment, child)
        assert (m.pane[above] < m.pane[child]).all(), "a redundant row"
        parent = int(m.parent[child])
        if len(above):
            assert m.pane[above].max() == m.pane[parent] == m.since[child]
            assert parent in above, "an edge without dominance"
            assert parent < child, "the graph is a forest that grows with age"
        else:
            assert parent == -1, "a root without a live dominator"
            assert m.since[child] == ALWAYS or m.since[child] < m.pane[0]
