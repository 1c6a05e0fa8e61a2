"""The candidates of PABF, against the definition of a dominator."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.topk.kernels.pabf import (
    BUCKETS,
    DOMINATORS,
    FIRST,
    GLOBAL_MERGES,
    KEY,
    LEVEL,
    LOCAL_MERGES,
    MERGED,
    PANE,
    SLOT,
    TIE,
    USED,
    Candidates,
    before,
    local_merge,
    new_candidates,
    reserve,
)
from support.uncompiled import UNCOMPILED

pytestmark = UNCOMPILED

WHOLE = 3
"""Keys that one level holds."""
Row = tuple[int, int, int]
"""Key, pane, slot."""


def place(row: Row) -> tuple[int, int, int]:
    """Rows stand by level, newest pane first, best first."""
    return (-(row[0] // WHOLE), -row[1], -row[0])


def dominators(row: Row, others: list[Row]) -> int:
    """Rows before this one that are as new or newer."""
    return sum(
        other[1] >= row[1] and (place(other), -other[2]) < (place(row), -row[2]) for other in others
    )


@settings(max_examples=80)
@given(
    st.lists(
        st.tuples(
            st.lists(st.lists(st.integers(-9, 9), max_size=6), min_size=1, max_size=3),
            st.integers(0, 2),
        ),
        max_size=14,
    ),
    st.integers(1, 6),
)
def test_candidates_are_the_rows_with_few_dominators(
    merges: list[tuple[list[list[int]], int]], k: int
) -> None:
    """Fresh panes come, old ones go; equal rows count as dominators of one another at most once."""
    state = new_candidates(k)
    rows: list[Row] = []
    pane = first = emptied = 0
    for panes, gone in merges:
        fresh: list[Row] = []
        for keys in panes:
            fresh += [(key, pane, len(rows) + i) for i, key in enumerate(keys, len(fresh))]
            pane += 1
        first = min(first + gone, pane - len(panes))
        state.meta[FIRST] = first
        state = pushed(state, fresh, k)
        rows += fresh
        check(state, rows, first, k)
        if fresh:  # it has passed all buckets before the first that holds rows
            emptied += next(j for j in range(BUCKETS) if state.cut[j] > state.cut[j + 1])
    counts = state.meta
    assert counts[LOCAL_MERGES] == sum(any(panes) for panes, _ in merges)
    assert counts[GLOBAL_MERGES] == emptied


def pushed(state: Candidates, fresh: list[Row], k: int) -> Candidates:
    state = reserve(state, len(fresh))
    assert len(state.rows) >= state.meta[USED] + len(fresh)
    for key, pane, slot in fresh:
        row = state.rows[state.meta[USED]]
        row[KEY], row[TIE], row[SLOT], row[PANE] = key, slot, slot, pane
        row[LEVEL], row[DOMINATORS] = 99, 0  # of earlier rows: they say nothing about this one
        state.meta[USED] += 1
    local_merge(state, k, 1.0, WHOLE)
    return state


def check(state: Candidates, rows: list[Row], first: int, k: int) -> None:
    cut, used = state.cut.tolist(), int(state.meta[USED])
    assert cut[0] == used
    assert cut[BUCKETS] == 0
    live = [row for row in rows if row[1] >= first]
    kept: dict[int, Row] = {}
    newest = None
    for j in range(BUCKETS):
        bucket = range(cut[j + 1], cut[j])
        mine = [(int(r[KEY]), int(r[PANE]), int(r[SLOT])) for r in state.rows[cut[j + 1] : cut[j]]]
        assert len({row[2] for row in mine}) == len(mine)
        if not mine:
            continue
        assert cut[j + 1] <= state.head[j] <= cut[j]
        assert len(mine) <= k * 2.718281828459045 ** (j + 1)
        assert newest is None or max(pane for _, pane, _ in mine) < newest
        newest = min(pane for _, pane, _ in mine)
        assert state.newest[j] >= max(pane for _, pane, _ in mine)
        for at, row in zip(bucket, mine, strict=True):
            assert row in rows
            assert state.rows[at, TIE] == row[2]
            assert state.rows[at, LEVEL] == row[0] // WHOLE
            found = int(state.rows[at, DOMINATORS])
            ahead = mine[: at - bucket.start]
            assert sum(other[1] >= row[1] for other in ahead) <= found < k
            assert found <= sum(place(other) <= place(row) and other[1] >= row[1] for other in rows)
        assert [place(row) for row in mine] == sorted(place(row) for row in mine)
        assert all(
            before(state.rows, a, b) == (place(x) < place(y))
            for (a, x), (b, y) in itertools.pairwise(zip(bucket, mine, strict=True))
        )
        assert kept.keys().isdisjoint(row[2] for row in mine)
        kept |= {row[2]: row for row in mine}
    counted = [row for row in live if dominators(row, live) < k]
    alike = sorted(place(row) for row in counted)
    # Of equal rows any may stay, so compare how many of each kind there are.
    there = sorted(place(row) for row in kept.values())
    assert all(there.count(kind) >= alike.count(kind) for kind in alike)


def test_a_bucket_whose_rows_are_gone_is_dropped() -> None:
    state, k = new_candidates(1), 1
    state = pushed(state, [(10 * i, 0, i) for i in range(3)], k)
    state.meta[FIRST] = 5
    state = pushed(state, [(3, 5, 9), (1, 6, 10)], k)
    assert state.rows[: state.meta[USED], SLOT].tolist() == [9, 10]


def bucket_sizes(state: Candidates) -> list[int]:
    sizes: list[int] = (state.cut[:-1] - state.cut[1:]).tolist()
    while sizes and sizes[-1] == 0:
        sizes.pop()
    return sizes


def falling(panes: int, start: int = 0) -> list[Row]:
    """A row per pane, each a level lower: none dominates another."""
    return [(-WHOLE * pane, pane, pane) for pane in range(start, start + panes)]


def test_a_bucket_is_emptied_into_the_next_when_it_is_full() -> None:
    """With k = 1 the buckets have room for e, e^2 and e^3 rows: 2, 7 and 20."""
    state, sizes = new_candidates(1), []
    for pane in range(9):
        state = pushed(state, falling(1, pane), 1)
        sizes.append(bucket_sizes(state))
    assert sizes == [[1], [2], [0, 3], [1, 3], [2, 3], [0, 6], [1, 6], [2, 6], [0, 0, 9]]
    assert state.newest[:3].tolist() == [7, 5, 8]
    assert state.meta[LOCAL_MERGES] == 9
    assert state.meta[GLOBAL_MERGES] == 4
    # Rows after each merge with a bucket that had some; the 6th and the 9th row meet two of them.
    assert state.meta[MERGED] == 2 + 3 + 2 + (3 + 6) + 2 + (3 + 9)


def test_the_oldest_bucket_is_dropped_once_all_of_it_has_expired() -> None:
    state, k = new_candidates(1), 1
    state = pushed(state, falling(8), k)
    state = pushed(state, falling(3, 8), k)
    state = pushed(state, falling(1, 11), k)
    assert bucket_sizes(state) == [1, 3, 8]
    state.meta[FIRST] = 7
    state = pushed(state, falling(1, 12), k)
    assert bucket_sizes(state) == [2, 3, 8], "a row of pane 7 is live"
    state.meta[FIRST] = 8
    state = pushed(state, falling(1, 13), k)
    # One bucket goes at a time; bucket 1 is full with the three rows that are now in it.
    assert bucket_sizes(state) == [0, 6]
    assert state.rows[: state.meta[USED], PANE].tolist() == list(range(8, 14))
    assert state.head[:2].tolist() == [6, 0]
    state.meta[FIRST] = 14
    state = pushed(state, falling(1, 14), k)
    assert bucket_sizes(state) == [1]
    assert state.rows[0, PANE] == 14
    assert state.head[0] == 0


def test_nothing_is_merged_without_fresh_rows() -> None:
    state = pushed(new_candidates(2), falling(3), 2)
    before_ = [each.copy() for each in state]
    local_merge(state, 2, 1.0, WHOLE)
    assert all((a == b).all() for a, b in zip(before_, state, strict=True))
