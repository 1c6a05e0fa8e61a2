"""The kernels of HeavyHitters, against definitions in plain Python."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skyband.frequency.kernels.counting import count_runs, sum_runs
from skyband.frequency.kernels.fsw import best
from skyband.frequency.kernels.item_heap import (
    PaneItems,
    heapify,
    least,
    sift,
    table_add,
    table_find,
    table_remove,
    table_size,
)
from skyband.frequency.kernels.spacesaving import (
    COUNTS,
    HITS,
    INSERTS,
    REMOVALS,
    list_panes,
)
from skyband.kernels.borrow import frozen
from skyband.kernels.hashing import best_rows, mix
from support.uncompiled import PARTS

pytestmark = pytest.mark.nojit

EDGES = [0, 1, 2, 3, 1 << 61, 7 << 61, (7 << 61) + 1, (1 << 64) - 1, (1 << 64) - 2, 5 << 60]
"""Hashes that meet in few slots of a table, some of them in its last one."""
NO_WEIGHTS = np.zeros(0, np.int64)


# Counting ---------------------------------------------------------------------------------------


def check_counts(runs: list[list[int]], raw: bool, weighted: bool) -> None:
    hashes = frozen(np.array([h for run in runs for h in run], np.uint64))
    weights = frozen(1 + np.arange(len(hashes)) % 5 if weighted else NO_WEIGHTS)
    offsets = np.cumsum([0, *map(len, runs)])
    first, sums, ends = count_runs(hashes, raw, weights, offsets)
    want_first: list[int] = []
    want_sums: list[int] = []
    want_ends = [0]
    for start, stop in itertools.pairwise(offsets.tolist()):
        found: dict[int, int] = {}
        for i in range(start, stop):
            if int(hashes[i]) not in found:
                want_first.append(i)
            weight = int(weights[i]) if weighted else 1
            found[int(hashes[i])] = found.get(int(hashes[i]), 0) + weight
        want_sums += found.values()
        want_ends.append(len(want_first))
    assert first.tolist() == want_first
    assert sums.tolist() == want_sums
    assert ends.tolist() == want_ends


ROWS = st.tuples(st.sampled_from(EDGES), *[st.integers(-2, 2)] * 2, st.integers(0, 3))
"""The hash, two keys, and the hash of what is kept."""


@given(st.lists(st.lists(ROWS, max_size=30), max_size=4))
def test_the_best_row_of_each_hash(runs: list[list[tuple[int, int, int, int]]]) -> None:
    rows = [row for run in runs for row in run]
    hashes, last = (frozen(np.array([row[n] for row in rows], np.uint64)) for n in (0, 3))
    key, tie = (frozen(np.array([row[n] for row in rows], np.int64)) for n in (1, 2))
    offsets = frozen(np.cumsum([0, *map(len, runs)]))
    found, ends = best_rows(hashes, key, tie, last, offsets)
    for run, (start, stop) in enumerate(itertools.pairwise(offsets.tolist())):
        best: dict[int, int] = {}
        for i in range(start, stop):
            most = best.setdefault(rows[i][0], i)
            if (*rows[i][1:3], -rows[i][3]) > (*rows[most][1:3], -rows[most][3]):
                best[rows[i][0]] = i
        assert found[ends[run] : ends[run + 1]].tolist() == list(best.values())


@given(
    st.lists(st.lists(st.sampled_from(EDGES), max_size=30), max_size=4),
    st.booleans(),
    st.booleans(),
)
def test_items_of_small_runs(runs: list[list[int]], raw: bool, weighted: bool) -> None:
    check_counts(runs, raw, weighted)


@pytest.mark.parametrize(("raw", "weighted"), [(True, False), (False, True)])
def test_items_of_runs_that_outgrow_their_table(raw: bool, weighted: bool) -> None:
    rng = random.Random(1)
    # The first ones all belong in the last place of any table, so that they go on at its beginning.
    many = [(1 << 64) - 1 - i for i in range(6)] + [rng.getrandbits(64) for _ in range(2100)]
    few = many[:20]
    runs = [few[:12], few[:13], [*many, *many[:9]], few, rng.choices(few, k=40), [], many[:100]]
    check_counts(runs, raw, weighted)


def test_items_of_very_many_short_runs() -> None:
    rng = random.Random(2)
    check_counts(
        [[rng.randrange(9) for _ in range(rng.randrange(13))] for _ in range(260)], False, True
    )


def test_a_long_run_after_short_ones() -> None:
    check_counts([[*range(11)] for _ in range(93)] + [[*range(40)], [1, 1, 2]], True, False)


def test_sums_of_runs() -> None:
    offsets = np.array([0, 2, 2, 5])
    assert sum_runs(np.array([1.5, 2.0, 4.0, 8.0, 16.0]), offsets).tolist() == [3.5, 0.0, 28.0]


# The list of monitored items ----------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [1, 2, 3, 4, 5, 16, 17, 1000])
def test_a_table_is_at_most_a_quarter_full(capacity: int) -> None:
    words, shift = table_size(capacity)
    places = words // 2
    assert places == 1 << (64 - int(shift))
    assert places >= max(8, 4 * capacity)
    assert places == 8 or places < 8 * capacity


@PARTS
@example([(0, True), (1, True), (2, True), (3, True), (0, False), (2, False)])
@given(st.lists(st.tuples(st.sampled_from(EDGES), st.booleans()), max_size=60))
def test_a_table_finds_what_is_in_it(steps: list[tuple[int, bool]]) -> None:
    table, shift = np.zeros(16, np.uint64), np.uint64(61)  # eight places, the last is 7 << 61
    known: dict[int, int] = {}
    for number, (hash_, add) in enumerate(steps):
        key = np.uint64(hash_)
        if hash_ in known:
            if not add:
                table_remove(table, shift, key)
                known.pop(hash_)
        elif add and len(known) < 7:
            table_add(table, shift, key, number)
            known[hash_] = number
        for each in EDGES:
            assert table_find(table, shift, np.uint64(each)) == known.get(each, -1)
    assert np.count_nonzero(table[1::2]) == len(known)


@PARTS
@pytest.mark.parametrize("count", [2, 3, 4])
def test_whatever_is_removed_the_others_are_found(count: int) -> None:
    """Keys of every choice of homes at the end of a table of eight places, and at its beginning."""
    shift = np.uint64(61)
    for homes in itertools.product((6, 7, 0, 1), repeat=count):
        keys = [np.uint64((home << 61) + i + 1) for i, home in enumerate(homes)]
        full = np.zeros(16, np.uint64)
        for slot, key in enumerate(keys):
            table_add(full, shift, key, slot)
        for gone in range(count):
            table = full.copy()
            table_remove(table, shift, keys[gone])
            found = [int(table_find(table, shift, key)) for key in keys]
            assert found == [-1 if slot == gone else slot for slot in range(count)], homes


COUNTED = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=12)


@PARTS
@given(COUNTED, st.randoms(use_true_random=False))
def test_the_least_count_is_on_top(counted: list[tuple[int, int]], rng: random.Random) -> None:
    n = len(counted)
    heap = np.array(rng.sample(range(n + 2), n + 2), np.int32)  # two slots are free
    base, cur, err = (np.zeros(n + 2, np.int64) for _ in range(3))
    for slot, (count, error) in zip(heap[:n], counted, strict=True):
        base[slot], cur[slot], err[slot] = count // 2, count - count // 2, error
    low, slack = np.full(n + 2, -9), np.full(n + 2, -9)
    heapify(heap, n, low, slack, base, cur, err)
    check_heap(heap, n, low, slack)
    assert sorted(heap.tolist()) == list(range(n + 2))
    assert low[:n].tolist() == (base + cur)[heap[:n]].tolist()
    assert slack[:n].tolist() == err[heap[:n]].tolist()
    assert low[n:].tolist() == slack[n:].tolist() == [-9, -9]
    for _ in range(5):
        slot = heap[rng.randrange(n)]
        cur[slot] += rng.randrange(3)
        assert least(heap, n, low, slack, base, cur, err) == (base + cur)[heap[:n]].min()
        assert low[0] == base[heap[0]] + cur[heap[0]]
        assert slack[0] == err[heap[0]]
        check_heap(heap, n, low, slack)


def check_heap(heap: Any, n: int, low: Any, slack: Any) -> None:
    keys = [(int(low[i]), -int(slack[i])) for i in range(n)]
    assert all(keys[(i - 1) // 2] <= keys[i] for i in range(1, n))


@PARTS
def test_equal_keys_stay_where_they_are() -> None:
    heap, low, slack = np.arange(3, dtype=np.int32), np.ones(3), np.ones(3)
    sift(heap, 3, 0, low, slack)
    assert heap.tolist() == [0, 1, 2]


@PARTS
@given(COUNTED, st.integers(1, 5), st.booleans())
def test_the_best_slots_and_what_ties_with_them(
    counted: list[tuple[int, int]], k: int, every: bool
) -> None:
    n = len(counted)
    k = min(k, n)
    base, err = np.array([c for c, _ in counted]), np.array([e for _, e in counted])
    heap = np.arange(n, dtype=np.int32)[::-1].copy()
    chosen = np.empty(n, np.int32)
    low, slack = np.empty(n, np.int64), np.empty(n, np.int64)
    size = best(k, every, np.array([n]), base, err, heap, chosen, low, slack)
    ranked = sorted((-c, 0 if every else e) for c, e in counted)
    wanted = [i for i, (c, e) in enumerate(counted) if (-c, 0 if every else e) <= ranked[k - 1]]
    assert sorted(chosen[:size].tolist()) == wanted


# Filtered Space-Saving over a pane ----------------------------------------------------------------


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(
                st.integers(1, 12), st.tuples(st.integers(2, 5), st.integers(0, 1)), max_size=3
            ),
            st.integers(0, 1),
            st.lists(st.tuples(st.integers(1, 12), st.integers(1, 3)), max_size=25),
        ),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 6),
    st.sampled_from([1, 4]),
)
def test_a_list_of_each_pane(
    panes: list[tuple[dict[int, tuple[int, int]], int, list[tuple[int, int]]]],
    capacity: int,
    cells: int,
) -> None:
    """Every count is an upper bound that its error makes a lower one; μ bounds what is not listed.

    Items counted before stand for a true count between count - error and count; what they lack
    occurred up to ``missing`` times.
    """
    hash_of = {item: int(mix(np.uint64(item))) for item in range(1, 13)}
    rows = [row for _, _, pane in panes for row in pane]
    before = [(item, *pair) for known, _, _ in panes for item, pair in known.items()]
    hashes = np.array([hash_of[item] for item, _ in rows], np.uint64)
    weights = np.array([weight for _, weight in rows], np.int64)
    known = np.array([hash_of[item] for item, _, _ in before], np.uint64)
    counts = np.array([count for _, count, _ in before], np.int64)
    errors = np.array([error for _, _, error in before], np.int64)
    offsets = np.cumsum([0, *(len(pane) for _, _, pane in panes)])
    known_offsets = np.cumsum([0, *(len(each) for each, _, _ in panes)])
    missing = np.array([m if each else 0 for each, m, _ in panes], np.int64)
    words, shift = table_size(capacity)
    total = np.zeros(COUNTS, np.int64)
    stamp = np.arange(len(missing))
    pushed = PaneItems(
        stamp, hashes, weights, offsets, known, counts, errors, known_offsets, missing
    )
    found, row, value, absent, lacks, ends = list_panes(
        PaneItems(*map(frozen, pushed)), capacity, cells, words, shift, total
    )
    for number, (each, _, pane) in enumerate(panes):
        lost = int(missing[number])
        high, low = Counter(dict.fromkeys(hash_of.values(), lost)), Counter[int]()
        for item, (count, error) in each.items():
            high[hash_of[item]] = count
            low[hash_of[item]] = count - error
        for item, weight in pane:
            high[hash_of[item]] += weight
            low[hash_of[item]] += weight
        listed = range(ends[number], ends[number + 1])
        assert len(listed) == len({int(found[i]) for i in listed}) <= capacity
        for i in listed:
            key, (count, error) = int(found[i]), value[i].tolist()
            assert 0 <= error <= count
            assert count - error <= low[key]
            assert high[key] <= count
            assert row[i] < len(known) + len(hashes)
            assert (known[row[i]] if row[i] < len(known) else hashes[row[i] - len(known)]) == key
        shown = {int(found[i]) for i in listed}
        appeared = {hash_of[item] for item, _ in pane} | {hash_of[item] for item in each}
        for key in hash_of.values():
            if key not in shown:
                assert high[key] <= absent[number]
        assert lacks[number] == (bool(appeared - shown) or lost > 0)
        weight = sum(high[key] - lost for key in appeared) + lost * (len(each) + 1)
        if len(appeared) <= capacity and not lost:
            assert absent[number] == 0
            assert all(value[i, 0] == high[int(found[i])] for i in listed)
        elif not lost:
            assert absent[number] * capacity <= weight
    assert total[INSERTS] - total[REMOVALS] == ends[-1]
    assert total[HITS] + total[INSERTS] <= len(hashes) + len(known)
    if capacity >= 12:
        assert total[REMOVALS] == 0
