"""gsj: group skylines of both sides, candidate pairs and their skyline, kept incrementally."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints, Saved, grown
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs
from skyband.data.flat_state import FlatState, Form, Forms, require
from skyband.data.keys import KeyIndex
from skyband.kernels.borrow import frozen
from skyband.query.skyline import SkylineJoin
from skyband.skyline.base import dominators, row_store
from skyband.skyline.join import SIDES, JoinSynopsis
from skyband.skyline.kernels.dominance import mixed
from skyband.skyline.kernels.gsj import (
    ASLEEP,
    AWAKE,
    DEAD,
    FIELDS,
    FREE,
    KEY,
    NEXT,
    PANE,
    SEGMENT,
    SINCE,
    STATE,
    UNTIL,
    GroupSide,
    NewRows,
    Pairs,
    pairs_fold,
)
from skyband.skyline.kernels.stabsky import ALWAYS

_COUNTS = ("row_comparisons", "pair_comparisons", "pairs", "redundant")


class _Members(FlatState):
    """One side: rows in slots, linked into one list per join key."""

    saved_arrays = ("points", "rows", "heads")
    saved_forms: ClassVar[Forms] = {
        "points": Form("slots"),
        "rows": Form("slots"),
        "heads": Form("keys", -1, "slots"),
    }
    saved_parts = (("store/", "store"),)

    def __init__(self, schema: pa.Schema, dimensions: int) -> None:
        self.store = row_store(schema)
        self.points: Ints = np.empty((0, dimensions), np.int64)
        self.rows: Ints = np.zeros((0, FIELDS), np.int64)
        self.heads: Ints = np.zeros(0, np.int64)

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        state = self.rows[:, STATE]
        require(np.isin(state, (FREE, ASLEEP, AWAKE, DEAD)).all(), "a row in no state")
        key = self.rows[state != FREE, KEY]
        require(((key >= 0) & (key < len(self.heads))).all(), "a row without a key")
        named = np.concatenate([self.heads, self.rows[self.live, NEXT]])
        listed = np.sort(named[named != -1])  # in one list each, so that no list is a circle
        require(np.array_equal(listed, self.live), "a row that is in no list, or in two")
        require(self.live.max(initial=-1) < len(self.store), "a row without columns")

    @property
    def live(self) -> Ints:
        """Slots of the rows that are in the lists."""
        state = self.rows[:, STATE]
        return np.flatnonzero((state == ASLEEP) | (state == AWAKE))

    def place(
        self, codes: Ints, points: Ints, segment: Ints, pane: Ints, columns: Mapping[str, pa.Array]
    ) -> Ints:
        """Write new rows into free slots; the kernel links them into their lists."""
        free = np.flatnonzero(self.rows[:, STATE] == FREE)
        if len(free) < len(codes):
            size = len(self.rows)
            room = max(size + len(codes), 64)
            self.rows, self.points = grown(self.rows, room), grown(self.points, room)
            free = np.concatenate([free, np.arange(size, len(self.rows))])
        slots = free[: len(codes)]
        self.points[slots] = points
        self.rows[slots, PANE] = pane
        self.rows[slots, KEY] = codes
        self.rows[slots, SEGMENT] = segment
        self.store.put(slots, columns)
        return slots

    def reserve(self, keys: int) -> None:
        """Make room for this many keys."""
        self.heads = grown(self.heads, keys, fill=-1)


class GroupSkylines(JoinSynopsis):
    """Keeps only rows on the skyline of their own key: no other row can be joined to an answer.

    Each side keeps, per key, the rows undominated by any row that expires as late or later. Pairs
    are formed from rows that no live row of their key dominates. A pair that is dominated by
    another is set aside until the pane in which its dominator expires; a pair that stays dominated
    for the rest of its life is forgotten. So a window examines only pairs that are new or whose
    dominator has expired.

    Time: O(g) comparisons per row, where g is the number of rows kept for its key, and O(c t) per
    window for c pairs to examine and t pairs in the answer. State: the kept rows, and three numbers
    for each pair set aside. Exact. Any shorter window can be asked for, at the cost of a copy of
    the state.

    Our own algorithm; decision 0015 explains why it is correct and what it gains.

    >>> import pyarrow as pa, skyband as sb
    >>> trades = pa.table({"ts": [1, 2, 3], "stock": ["a", "b", "a"], "price": [5, 3, 4]})
    >>> risks = pa.table({"ts": [1, 2], "stock": ["a", "b"], "risk": [1, 2]})
    >>> names = {"left": "trades", "right": "risks", "on": "stock", "time": "ts"}
    >>> wish = {"price": "min", "risk": "min"}
    >>> query = sb.SkylineJoin(**names, prefer=wish, window=sb.TimeWindow(10), algorithm="gsj")
    >>> sb.rank({"trades": trades, "risks": risks}, query).select(["stock", "price"]).to_pylist()
    [{'stock': 'a', 'price': 4}, {'stock': 'b', 'price': 3}]
    """

    prunes = True
    shortens = True
    saved_arrays = ("top", "top_points", "parked", "counts", "known_keys")
    saved_forms: ClassVar[Forms] = {
        "top": Form("top"),
        "top_points": Form("top"),
        "counts": Form(len(_COUNTS)),
    }
    saved_parts = (("left/", "left"), ("right/", "right"), ("keys/", "keys"))

    def __init__(self, query: SkylineJoin) -> None:
        super().__init__(query)
        self.left: _Members
        self.right: _Members
        self.keys = KeyIndex()
        self.known_keys = 1024
        self.top: Ints = np.zeros((0, 4), np.int64)
        """Pairs on the skyline: left and right slot, the last pane in which they live, segment."""
        self.top_points: Ints = np.zeros((0, 0), np.int64)
        self.parked: Ints = np.zeros((0, 3), np.int64)
        """Pairs set aside: left and right slot, the pane up to which they stay dominated."""
        self.counts = np.zeros(len(_COUNTS), np.int64)
        self.kept = 0
        """The number of rows of both sides that are in lists."""

    def start(self) -> None:
        super().start()
        assert self.sides is not None
        self.left, self.right = (_Members(s.schema, s.prefer.dimensions) for s in self.sides)
        width = sum(side.prefer.dimensions for side in self.sides)
        self.top_points = np.zeros((0, width), np.int64)

    @property
    def members(self) -> tuple[_Members, _Members]:
        """The rows of both sides."""
        return self.left, self.right

    def fold_known(self, panes: Runs, windows: Windows) -> Runs | None:
        pairs, offsets = self._fold(panes, windows.first, windows.end)
        found = None
        if len(windows):
            stores = [side.store for side in self.members]
            found = self.answer(stores, (pairs[:, 0], pairs[:, 1]), offsets, windows.number)
            self._forget_keys()
        return found

    def _fold(self, panes: Runs, first: Ints, end: Ints) -> tuple[Ints, Ints]:
        slots = []
        for at, side in enumerate(self.members):
            key, points, segment, pane = self.side_rows(panes, at)
            codes = self.keys.encode(key.view(np.uint64)).codes.astype(np.int64)
            columns = panes.parts[SIDES[at]].columns
            slots.append(side.place(codes, points, segment, pane, columns))
        for side in self.members:
            side.reserve(self.keys.bound)
        left, right = self.members
        cuts = frozen(panes.parts["left"].offsets), frozen(panes.parts["right"].offsets)
        kept, pairs, offsets = pairs_fold(
            GroupSide(left.points, left.rows, left.heads),
            GroupSide(right.points, right.rows, right.heads),
            Pairs(self.top, self.top_points, len(self.top), self.parked, len(self.parked)),
            NewRows(slots[0], cuts[0], slots[1], cuts[1], frozen(panes.stamp)),
            first, end, self.counts,
        )  # fmt: skip
        self.top, self.top_points = kept.top[: kept.tops], kept.points[: kept.tops]
        self.parked = kept.parked[: kept.waiting]
        self.kept = sum(len(side.live) for side in self.members)
        return pairs, offsets

    def _forget_keys(self) -> None:
        """Release keys without rows, whenever the number of keys has doubled since last time."""
        if len(self.keys) < 2 * self.known_keys:
            return
        codes = self.keys.codes()
        used = [side.heads[codes] >= 0 for side in self.members]
        self.keys.release(codes[~(used[0] | used[1])])
        self.known_keys = max(1024, len(self.keys))

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        left, right = self.members
        none, cuts = np.zeros(0, np.int64), frozen(np.zeros(1, np.int64))
        parked, top = self.parked.copy(), self.top.copy()
        rows = left.rows.copy(), right.rows.copy()
        firsts = self.firsts(first, end)
        if firsts[0] != firsts[1]:
            # What has expired in one side only is made as old as what has expired in both.
            for own, least in zip(rows, firsts, strict=True):
                for field in (PANE, SINCE):
                    own[own[:, field] < least, field] = ALWAYS
            parked[parked[:, UNTIL] < max(firsts), UNTIL] = ALWAYS
        _, pairs, offsets = pairs_fold(
            GroupSide(left.points, rows[0], left.heads.copy()),
            GroupSide(right.points, rows[1], right.heads.copy()),
            Pairs(top, self.top_points.copy(), len(top), parked, len(parked)),
            NewRows(none, cuts, none, cuts, frozen(none)),
            np.array([min(firsts)]), np.array([end]), self.counts.copy(),
        )  # fmt: skip
        slots = pairs[:, 0], pairs[:, 1]
        return self.answer([left.store, right.store], slots, offsets, np.zeros(1, np.int64))

    # State ------------------------------------------------------------------------------------

    def restore_known(self, arrays: Saved) -> None:
        super().restore_known(arrays)
        for at, side in enumerate(self.members):
            slots = np.append(self.top[:, at], self.parked[:, at])
            require(((slots >= 0) & (slots < len(side.store))).all(), "a pair without a row")
        enough = all(len(side.heads) >= self.keys.bound for side in self.members)
        require(enough and self.known_keys >= 0, "keys without a list")
        for side in self.members:
            self._check_sealed(side.rows[side.live, PANE])
        self.kept = sum(len(side.live) for side in self.members)

    def stats(self) -> dict[str, int | float]:
        return {
            "retained": self.kept,
            "state_bytes": self.nbytes,
            "parked": len(self.parked),
            **dict(zip(_COUNTS, self.counts.tolist(), strict=True)),
        }

    def _check(self) -> None:
        self.keys._check()
        for side in self.members:
            _check_side(side)
        left, right = self.members
        if (left.rows[:, STATE] == DEAD).any() or (right.rows[:, STATE] == DEAD).any():
            return  # panes were pushed after the last window: the next one updates the pairs
        lefts, rights = (np.flatnonzero(s.rows[:, STATE] == AWAKE) for s in self.members)
        i, j = np.nonzero(left.rows[lefts, KEY, None] == right.rows[rights, KEY])
        a, b = lefts[i], rights[j]
        points = np.hstack([left.points[a], right.points[b]])
        segment = mixed(left.rows[a, SEGMENT], right.rows[b, SEGMENT])
        expiry = np.minimum(left.rows[a, PANE], right.rows[b, PANE])
        pairs = list(zip(a.tolist(), b.tolist(), strict=True))
        top = {(one, two): until for one, two, until, _ in self.top.tolist()}
        parked = {(one, two): until for one, two, until in self.parked.tolist()}
        assert len(top) == len(self.top)
        assert len(parked) == len(self.parked)
        assert top.keys() <= set(pairs) - parked.keys()
        for at, pair in enumerate(pairs):
            above = dominators(points, segment, at)
            assert (pair in top) == (not len(above))
            if len(above):
                assert parked.get(pair, expiry[at]) <= expiry[above].max()
            else:
                assert top[pair] == expiry[at]


def _check_side(side: _Members) -> None:
    """Assert that lists hold the live rows of their keys, none of them redundant."""
    listed = []
    for key, head in enumerate(side.heads):
        row, mine = int(head), []
        while row >= 0:
            assert side.rows[row, KEY] == key
            mine.append(row)
            row = int(side.rows[row, NEXT])
        for at, row in enumerate(mine):
            above = dominators(side.points[mine], side.rows[mine, SEGMENT], at)
            panes = side.rows[mine, PANE][above]
            # One of its own pane only if that was summarised before both sides were known.
            assert (panes <= side.rows[row, PANE]).all(), "a redundant row"
            if len(above):
                assert side.rows[row, SINCE] == panes.max()
                assert side.rows[row, STATE] == ASLEEP
        listed += mine
    assert sorted(listed) == side.live.tolist()
