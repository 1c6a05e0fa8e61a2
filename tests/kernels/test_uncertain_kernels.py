"""The kernels of UncertainTopK, against definitions in plain Python."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.uncertain.kernels.compact import (
    add_row,
    add_wide_row,
    answer_runs,
    compact_end,
    fewer,
    prune_runs,
)
from skyband.uncertain.kernels.queue import (
    BEGIN,
    FIRST,
    FRESH,
    HIGH,
    LAST,
    MORE,
    NUMBERS,
    OLDEST,
    SIZE,
    TAIL,
    Queue,
    append,
    drop_old,
    find,
    more_of,
    set_of,
    tail_from,
    updated,
    used,
)
from skyband.uncertain.kernels.types import KEEP, SemanticsCode, UncertainRowsState
from support.uncompiled import UNCOMPILED

pytestmark = UNCOMPILED

RULE = SemanticsCode(0, 1, 0.3)
CHANCES = st.lists(st.sampled_from([0.125, 0.25, 0.5, 0.75, 1.0]), max_size=9)


def distribution(chances: list[float], k: int) -> list[Fraction]:
    """The probability that exactly j rows are there, for j < k."""
    found = [Fraction(1)] + [Fraction(0)] * len(chances)
    for chance in map(Fraction, chances):
        moved = [Fraction(0), *(chance * f for f in found[:-1])]
        found = [f * (1 - chance) + m for f, m in zip(found, moved, strict=True)]
    return (found + [Fraction(0)] * k)[:k]


@given(CHANCES, st.integers(1, 7))
def test_how_many_rows_are_there(chances: list[float], k: int) -> None:
    r = np.zeros(k + 1)
    r[0], r[k] = 1.0, 99.0
    wide, power = np.zeros(k), np.zeros(k, np.int64)
    wide[0], power[0] = 0.5, 1
    for number, chance in enumerate(chances, 1):
        add_row(r, k, chance)
        add_wide_row(wide, power, k, chance)
        wanted = distribution(chances[:number], k)
        # Sums of eighths: floats hold them exactly.
        assert [Fraction(x) for x in r[:k]] == wanted
        assert r[k] == 99.0
        assert [Fraction(x) * Fraction(2) ** int(p) for x, p in zip(wide, power, strict=True)] == (
            wanted
        )


@pytest.mark.parametrize("chance", [1e-200, 3e-5])
def test_chances_too_small_for_a_float(chance: float) -> None:
    k, n = 4, 7
    wide, power = np.zeros(k), np.zeros(k, np.int64)
    wide[0], power[0] = 0.5, 1
    for _ in range(n):
        add_wide_row(wide, power, k, chance)
    wanted = distribution([chance] * n, k)
    for j in range(k):
        found = Fraction(wide[j]) * Fraction(2) ** int(power[j])
        assert abs(found / wanted[j] - 1) < 1e-14
        assert 0.5 <= wide[j] < 1


def test_a_probability_of_zero_stays_zero() -> None:
    # A certain row leaves no chance of none; its power says nothing, and later rows add to it.
    wide, power = np.array([0.5, 0.0]), np.array([1, 0])
    add_wide_row(wide, power, 2, 1.0)
    assert wide.tolist() == [0.0, 0.5]
    assert power[1] == 1
    add_wide_row(wide, power, 2, 0.25)
    assert wide.tolist() == [0.0, 0.75]
    assert power[1] == 0


@given(st.integers(1, 14), st.booleans())
def test_fewer_than_k_rows(k: int, limited: bool) -> None:
    r = np.array([2.0**-j for j in range(1, 16)])
    whole = sum(r[:k])
    before = whole / 2 if limited else 1.0
    assert fewer(r, k, before) == min(whole, before)


# Runs of rows -----------------------------------------------------------------------------------


@given(st.lists(CHANCES, max_size=4), st.integers(1, 3), st.integers(0, 3))
def test_each_run_is_pruned_and_answered_by_itself(
    runs: list[list[float]], k: int, kind: int
) -> None:
    rule = SemanticsCode(kind, k, 0.3)
    prob = np.array([p for run in runs for p in run])
    offsets = np.cumsum([0, *map(len, runs)])
    ends = prune_runs(rule, prob, offsets)
    positions, chances, cuts = answer_runs(rule, prob, offsets)
    assert cuts[0] == 0
    for run, chance in enumerate(runs):
        alone, n = np.array(chance), len(chance)
        want = compact_end(rule, alone, np.arange(n), n, KEEP) if n else -1
        assert ends[run] == want
        assert want <= n
        assert want == -1 or want >= k
        found, likely, _ = answer_runs(rule, alone, np.array([0, n]))
        mine = slice(cuts[run], cuts[run + 1])
        assert (positions[mine] - offsets[run]).tolist() == found.tolist()
        assert chances[mine].tolist() == likely.tolist()
    assert len(positions) == len(chances) == cuts[-1]


# The queue of compact sets ------------------------------------------------------------------------


def empty_queue(room: int, entries: int) -> Queue:
    return Queue(
        np.full(room, -7, np.int64),
        np.full((entries, 4), -7, np.int64),
        np.zeros(NUMBERS, np.int64),
    )


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.booleans()), max_size=90),
    st.integers(0, 9),
    st.integers(1, 5),
)
def test_a_queue_holds_what_was_appended(
    steps: list[tuple[int, int, bool]], room: int, entries: int
) -> None:
    """Lists of two parts come at one end and leave at the other, whatever room there is."""
    q = empty_queue(room, entries)
    rows = UncertainRowsState(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64), RULE)
    kept: list[tuple[int, list[int], list[int]]] = []
    for number, (n, m, drop) in enumerate(steps):
        one, two = np.arange(n) + 100 * number, np.arange(m) + 100 * number + 50
        q = append(q, one, n, two, m, number)
        kept.append((number, one.tolist(), two.tolist()))
        if drop:
            first = number // 2
            drop_old(rows, q, first)
            kept = [each for each in kept if each[0] >= first]
        at = range(q.num[FIRST], q.num[LAST])
        found = [(q.entry[e, OLDEST], set_of(q, e).tolist(), more_of(q, e).tolist()) for e in at]
        assert found == kept
        filled = sum(len(one) + len(two) for _, one, two in kept)
        assert used(q) <= len(q.arena)
        if kept:
            assert used(q) - q.entry[q.num[FIRST], BEGIN] == filled
            assert q.entry[q.num[LAST] - 1, SIZE] + q.entry[q.num[LAST] - 1, MORE] == n + m
        else:
            assert used(q) == 0
        # What left in front is given back, so that the queue grows with what it holds.
        assert len(q.entry) <= max(entries, 2 * 64 + 4 + 4 * (len(kept) + 1))


@given(st.lists(st.integers(0, 6), max_size=12), st.integers(0, 8), st.integers(0, 8))
def test_the_newest_rows_of_a_queue(panes: list[int], gone: int, first: int) -> None:
    n = len(panes)
    key = np.array([7 * i % 5 for i in range(n)], np.int64)
    rows = UncertainRowsState(key, np.ones(n), np.sort(np.array(panes, np.int64)), RULE)
    q = empty_queue(0, 1)
    q.num[HIGH] = q.num[FRESH] = n
    drop_old(rows, q, gone)
    live = [slot for slot in range(n) if rows.pane[slot] >= gone]
    assert q.num[TAIL] == (live[0] if live else n)
    assert q.num[FRESH] == n
    wanted = [slot for slot in live if rows.pane[slot] >= first]
    wanted.sort(key=lambda slot: (-key[slot], -rows.pane[slot], slot))
    assert tail_from(rows, q, first).tolist() == wanted


def test_rows_that_left_are_not_waiting_any_more() -> None:
    rows = UncertainRowsState(np.zeros(4, np.int64), np.ones(4), np.array([0, 1, 2, 3]), RULE)
    q = empty_queue(0, 1)
    q.num[HIGH], q.num[FRESH] = 4, 1
    drop_old(rows, q, 3)
    assert (q.num[TAIL], q.num[FRESH]) == (3, 3)


def test_the_entry_of_a_window() -> None:
    q = empty_queue(8, 4)
    none = np.zeros(0, np.int64)
    for oldest in (2, 5, 9):
        q = append(q, none, 0, none, 0, oldest)
    assert [find(q, first) for first in (0, 2, 3, 5, 9, 10)] == [0, 0, 1, 1, 2, 3]


# The room of a queue ------------------------------------------------------------------------------


def appended(q: Queue, panes: range, size: int = 1) -> Queue:
    for pane in panes:
        q = append(q, np.arange(size), size, np.arange(0), 0, pane)
    return q


def test_a_queue_reuses_the_room_of_what_left() -> None:
    rows = UncertainRowsState(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64), RULE)
    q = appended(empty_queue(8, 2), range(2), 4)
    drop_old(rows, q, 1)
    q = appended(q, range(2, 3), 4)
    assert (len(q.arena), len(q.entry)) == (8, 2)
    assert (q.num[FIRST], q.num[LAST]) == (0, 2)
    assert q.entry[:2, BEGIN].tolist() == [0, 4]
    assert set_of(q, 0).tolist() == set_of(q, 1).tolist() == [0, 1, 2, 3]


def test_a_queue_grows_by_a_factor() -> None:
    q = appended(empty_queue(12, 3), range(3), 4)
    q = appended(q, range(3, 4), 4)
    assert (len(q.arena), len(q.entry)) == (2 * 16, 2 * 3 + 4)
    q = appended(empty_queue(8, 9), range(2), 4)
    assert (len(q.arena), len(q.entry)) == (8, 9), "what fits just so needs no more room"
    q = appended(q, range(2, 3), 0)
    assert len(q.arena) == 8


@pytest.mark.parametrize(("gone", "left", "moved"), [(63, 5, 0), (64, 64, 1), (64, 65, 0)])
def test_a_queue_is_moved_when_more_left_than_is_there(gone: int, left: int, moved: int) -> None:
    """And not before 64 entries have left."""
    rows = UncertainRowsState(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64), RULE)
    q = appended(empty_queue(400, 400), range(gone + left))
    drop_old(rows, q, gone)
    assert q.num[LAST] - q.num[FIRST] == left
    q = appended(q, range(999, 1000))
    assert q.num[FIRST] == (0 if moved else gone)
    assert q.entry[q.num[FIRST], BEGIN] == (0 if moved else gone)
    assert q.num[LAST] - q.num[FIRST] == left + 1


@pytest.mark.parametrize(
    ("fresh", "wanted"),
    [([1], [1]), ([2], [0]), ([1, 2], [1]), ([], [0])],
)
def test_a_compact_set_of_one_certain_row(fresh: list[int], wanted: list[int]) -> None:
    """With k = 1 a certain row ends the compact set; a better one takes its place."""
    rows = UncertainRowsState(np.array([5, 9, 3]), np.ones(3), np.zeros(3, np.int64), RULE)
    out = np.full(4, -7)
    size = updated(rows, np.array([0]), np.array(fresh, np.int64), out)
    assert out[:size].tolist() == wanted
