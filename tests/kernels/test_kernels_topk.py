"""The kernel that keeps the k-skyband, against its definition in plain Python, at every window."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.arrays import Ints
from skyband.topk.kernels.skyband import BACK, FRONT, Skyband, Tops, make_scratch, sweep
from support.key_patterns import PATTERNS


class Row(NamedTuple):
    pane: int
    group: int
    key: int
    tie: int
    slot: int


Answer = tuple[int, list[tuple[int, int, int]]]
Span = tuple[int, int]


def top(rows: Sequence[Row], k: int, span: Span, groups: Sequence[int]) -> list[Answer]:
    """The definition: of every group the k best live rows, as (slot, key, tie)."""
    answers = []
    for group in groups:
        live = [row for row in rows if row.group == group and span[0] <= row.pane < span[1]]
        live.sort(key=lambda row: (-row.key, -row.tie, row.slot))
        if live:
            answers.append((group, [(row.slot, row.key, row.tie) for row in live[:k]]))
    return answers


def made_rows(
    rng: random.Random, pattern: str, panes: int, groups: int, most: int, gaps: float
) -> list[Row]:
    """Rows by pane and group; ties within a pane, never across panes."""
    rows: list[Row] = []
    for pane in range(panes):
        if rng.random() < gaps:
            continue
        for group in range(groups):
            if rng.random() < gaps:
                continue
            ties = [10 * pane + rng.randint(0, 3) for _ in range(rng.randint(0, most))]
            for tie in sorted(ties) if rng.random() < 0.5 else ties:
                key = PATTERNS[pattern](rng, len(rows))
                rows.append(Row(pane, group, key, tie, len(rows)))
    return rows


def as_runs(
    rows: Sequence[Row],
) -> tuple[Ints, npt.NDArray[np.int32], Ints, Ints, Ints, Ints]:
    runs: list[tuple[int, int]] = []
    offsets = [0]
    for i, row in enumerate(rows):
        if not runs or runs[-1] != (row.pane, row.group):
            runs.append((row.pane, row.group))
            offsets.append(i)
        offsets[-1] = i + 1
    pane = np.array([run[0] for run in runs], np.int64)
    group = np.array([run[1] for run in runs], np.int32)
    key, tie, slot = (np.array([row[c] for row in rows], np.int64) for c in (2, 3, 4))
    return pane, group, np.array(offsets, np.int64), key, tie, slot


def unpacked(tops: Tops) -> list[tuple[int, Answer]]:
    assert len(tops.offsets) == len(tops.window) + 1 == len(tops.group) + 1
    found = []
    for i, (window, group) in enumerate(
        zip(tops.window.tolist(), tops.group.tolist(), strict=True)
    ):
        span = slice(tops.offsets[i], tops.offsets[i + 1])
        columns = (tops.slot[span].tolist(), tops.key[span].tolist(), tops.tie[span].tolist())
        found.append((window, (group, list(zip(*columns, strict=True)))))
    return found


def windows_of(spans: Sequence[Span]) -> tuple[Ints, Ints]:
    first, end = zip(*spans, strict=True) if spans else ((), ())
    return np.array(first, np.int64), np.array(end, np.int64)


def sweep_all(band: Skyband, first: int) -> None:
    """Drop everything that no window from pane ``first`` on can show."""
    largest = int((band.groups[:, FRONT] + band.groups[:, BACK]).max(initial=1))
    scratch = make_scratch(largest, band.k)
    for group in band.groups:
        if group[FRONT] + group[BACK]:
            sweep(band.rows, group, first, band.k, scratch)
    band._held = int(band.lengths.sum())


def check_fold(
    rng: random.Random, rows: list[Row], k: int, size: int, slide: int, panes: int, groups: int
) -> None:
    """Fold the rows in calls of random length; compare every window, and sometimes the rest."""
    order = list(range(groups))
    rng.shuffle(order)
    named = np.array(order, np.int32)
    spans = [(end - size, end) for end in range(slide, panes + size + 1, slide)]
    cuts = sorted({0, panes + size + 1} | {rng.randint(0, panes) for _ in range(rng.randint(0, 9))})
    band = Skyband(k)
    live_first = -size
    for low, high in itertools.pairwise(cuts):
        come = [row for row in rows if low <= row.pane < high]
        due = [span for span in spans if low < span[1] <= high]
        tops = band.fold(*as_runs(come), *windows_of(due), named)
        band._check()
        wanted = [(i, answer) for i, span in enumerate(due) for answer in top(rows, k, span, order)]
        assert unpacked(tops) == wanted
        if due:
            live_first = due[-1][0]
            first = rng.randint(max(live_first, 0), high)
            suffix = [answer for _, answer in unpacked(band.read(first, high, named))]
            assert suffix == top(rows, k, (first, high), order)
        choice = rng.random()
        if choice < 0.3:
            band = band.copy()
        elif choice < 0.6:
            band = Skyband.from_arrays(k, **band.arrays())  # type: ignore[arg-type]
        elif choice < 0.8:
            sweep_all(band, live_first)
            band._check(live_first, swept=True)
            live = [row for row in rows if live_first <= row.pane < high]
            assert band.retained == sum(
                1
                for row in live
                if sum(
                    other.group == row.group
                    and other.pane >= row.pane
                    and (-other.key, -other.tie, other.slot) < (-row.key, -row.tie, row.slot)
                    for other in live
                )
                < k
            )
        band._check()


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("k", [1, 2, 5, 40])
def test_every_window_of_every_pattern(pattern: str, k: int) -> None:
    for seed in range(6):
        rng = random.Random(f"{pattern} {k} {seed}")
        panes, groups = rng.choice([(40, 1), (25, 3), (12, 8)])
        gaps = rng.choice([0.0, 0.0, 0.4])
        rows = made_rows(rng, pattern, panes, groups, rng.choice([1, 4, 12]), gaps)
        check_fold(rng, rows, k, rng.randint(1, 12), rng.choice([1, 1, 2]), panes, groups)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_one_large_group(pattern: str) -> None:
    """Enough rows for several sweeps by size and by expiry, with dense and sparse panes."""
    for k, most, panes, size in ((2, 30, 120, 40), (3, 1, 700, 300), (20, 60, 60, 25)):
        rng = random.Random(f"{pattern} {k}")
        rows = made_rows(rng, pattern, panes, 1, most, 0.0 if most > 1 else 0.3)
        spans = [(end - size, end) for end in range(7, panes + size, 7)]
        band = Skyband(k)
        for low in range(0, panes + size, 50):
            come = [row for row in rows if low <= row.pane < low + 50]
            due = [span for span in spans if low < span[1] <= low + 50]
            tops = band.fold(*as_runs(come), *windows_of(due), np.zeros(1, np.int32))
            band._check()
            wanted = [(i, one) for i, span in enumerate(due) for one in top(rows, k, span, [0])]
            assert unpacked(tops) == wanted


@pytest.mark.nojit
@settings(max_examples=60)
@given(
    st.randoms(use_true_random=False),
    st.sampled_from(list(PATTERNS)),
    st.integers(1, 8),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 4),
)
def test_small_streams(
    rng: random.Random, pattern: str, k: int, size: int, slide: int, groups: int
) -> None:
    rows = made_rows(rng, pattern, 10, groups, 4, 0.2)
    check_fold(rng, rows, k, size, slide, 10, groups)


@pytest.mark.nojit
def test_many_small_calls_equal_one() -> None:
    rng = random.Random(5)
    rows = made_rows(rng, "uniform", 30, 4, 5, 0.2)
    spans = [(end - 6, end) for end in range(1, 37)]
    named = np.array([3, 1, 0, 2], np.int32)
    whole = unpacked(Skyband(3).fold(*as_runs(rows), *windows_of(spans), named))
    band = Skyband(3)
    found = []
    for i, span in enumerate(spans):
        for row in rows:
            if row.pane == span[1] - 1:  # one call per row, and one for the window
                tops = band.fold(*as_runs([row]), *windows_of([]), named)
                assert len(tops.slot) == 0
        tops = band.fold(*as_runs([]), *windows_of([span]), named)
        found += [(i, answer) for _, answer in unpacked(tops)]
    # Rows of one pane came in several runs here, so equal rows may have swapped places.
    assert [(i, g, [r[1:] for r in answer]) for i, (g, answer) in found] == [
        (i, g, [r[1:] for r in answer]) for i, (g, answer) in whole
    ]


@pytest.mark.nojit
@pytest.mark.parametrize("pattern", ["uniform", "falling", "crowded"])
def test_groups_with_clocks_of_their_own(pattern: str) -> None:
    """Count windows: each group has its own panes and windows."""
    rng = random.Random(pattern)
    k, size, groups = 3, 4, 6
    rows = {g: made_rows(rng, pattern, rng.randint(0, 20), 1, 4, 0.1) for g in range(groups)}
    rows = {g: [row._replace(group=g) for row in rows[g]] for g in rows}
    sealed = dict.fromkeys(rows, 0)  # number of panes that each group has had so far
    band = Skyband(k)
    for _ in range(12):
        come: list[Row] = []
        due: list[tuple[int, Span]] = []
        for g in rng.sample(range(groups), rng.randint(0, groups)):
            until = sealed[g] + rng.randint(0, 5)
            come += [row for row in rows[g] if sealed[g] <= row.pane < until]
            due += [(g, (end - size, end)) for end in range(sealed[g] + 1, until + 1)]
            sealed[g] = until
        come.sort(key=lambda row: row.pane)
        who = np.array([g for g, _ in due], np.int32)
        spans = windows_of([span for _, span in due])
        tops = band.fold(*as_runs(come), *spans, who, own=True)
        band._check()
        wanted = [
            (i, answer) for i, (g, span) in enumerate(due) for answer in top(rows[g], k, span, [g])
        ]
        assert unpacked(tops) == wanted


@pytest.mark.nojit
def test_forgotten_groups_start_anew_and_leave_no_garbage() -> None:
    band = Skyband(2)
    rows = [Row(pane, group, pane, pane, group) for pane in range(20) for group in range(50)]
    none = windows_of([])
    nobody = np.empty(0, np.int32)
    band.fold(*as_runs(rows), *none, nobody)
    assert band.retained == 1000
    band.forget(np.arange(1, 60))
    band._check()
    assert band.retained == 20
    assert band.used <= 60
    tops = band.fold(
        *as_runs([Row(30, 7, 1, 1, 9)]), *windows_of([(15, 31)]), np.arange(50, dtype=np.int32)
    )
    assert unpacked(tops) == [(0, (0, [(0, 19, 19), (0, 18, 18)])), (0, (7, [(9, 1, 1)]))]


@pytest.mark.nojit
def test_slots_are_renumbered_in_their_own_order() -> None:
    rng = random.Random(3)
    rows = made_rows(rng, "uniform", 12, 5, 4, 0.0)
    band = Skyband(2)
    spans = [(end - 5, end) for end in range(1, 13)]
    named = np.arange(5, dtype=np.int32)
    band.fold(*as_runs(rows), *windows_of(spans), named)
    slots = band.slots()
    assert len(set(slots.tolist())) == len(slots) == band.retained
    before = unpacked(band.read(8, 12, named))
    band.renumber(slots + 1000)
    after = unpacked(band.read(8, 12, named))
    assert after == [
        (w, (g, [(slot + 1000, key, tie) for slot, key, tie in rows])) for w, (g, rows) in before
    ]


def test_state_is_small_and_falling_scores_keep_the_window() -> None:
    k, panes = 100, 1000
    rng = np.random.default_rng(1)
    band = Skyband(k)
    one = np.zeros(panes, np.int32)
    for call in range(2):
        pane = np.arange(panes) + call * panes
        first = np.maximum(pane + 1 - panes, 0)
        rows = np.arange(panes * k) + call * panes * k
        key = rng.integers(0, 2**62, panes * k)
        band.fold(pane, one, np.arange(panes + 1) * k, key, rows, rows, first, pane + 1, one[:1])
    assert band.nbytes < 1_000_000
    sweep_all(band, panes)
    assert 0.8 < band.retained / (k * (1 + np.log(panes))) < 1.2
    falling = Skyband(3)
    pane = np.arange(500)
    one = np.zeros(500, np.int32)
    falling.fold(pane, one, np.arange(501), -pane, pane, pane, pane - 99, pane + 1, one[:1])
    sweep_all(falling, 400)
    assert falling.retained == 100


@pytest.mark.nojit
def test_gaps_are_closed_in_place_and_much_free_room_is_given_back() -> None:
    band, named = Skyband(2), np.arange(6, dtype=np.int32)
    rows: list[Row] = []
    for pane, groups in enumerate(((5, 1, 3), (0, 2, 4), (5, 1, 3), (2, 0), (4, 1, 5))):
        come = [(group, i) for group in groups for i in range(4)]
        fresh = [
            Row(pane, group, (7 * pane + 3 * group + i) % 11, 10 * pane + i, len(rows) + at)
            for at, (group, i) in enumerate(come)
        ]
        band.fold(*as_runs(fresh), *windows_of([]), named[:0])
        rows += fresh
    assert band.garbage  # groups have moved, and their rows do not lie in the order of their codes
    room = band.rows
    band._compact()
    band._check()
    assert band.rows is room
    assert band.garbage == 0
    assert band.used == band.retained == len(rows)
    answers = [answer for _, answer in unpacked(band.read(0, 5, named))]
    assert answers == top(rows, 2, (0, 5), range(6))
    band.forget(np.arange(1, 6))
    band._check()
    assert len(band.rows) == band.used == band.retained


def test_room_grows_with_what_is_added_not_with_what_is_held() -> None:
    band, named, most = Skyband(12), np.zeros(0, np.int32), 0.0
    for pane in range(10):
        rows = [Row(pane, group, 100 - pane, pane, 0) for group in range(2_000)]
        band.fold(*as_runs(rows), *windows_of([]), named)
        most = max(most, len(band.rows) / band.retained)
    band._check()
    assert most < 6
