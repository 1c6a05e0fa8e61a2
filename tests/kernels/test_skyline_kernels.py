"""The kernels of skylines, against definitions in plain Python."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.arrays import Array
from skyband.skyline import base
from skyband.skyline.graph import DominanceGraphs
from skyband.skyline.kernels.dominance import (
    BETTER,
    EQUAL,
    NEITHER,
    WORSE,
    dominates,
    mixed,
    relation,
    skyline_runs,
    sort_keys,
)
from skyband.skyline.kernels.stabsky import (
    ALWAYS,
    Members,
    PaneSkylines,
    Skylines,
    StabReads,
    stab_fold,
    stab_read,
)
from support.skyline_cases import SMALL, Point, array, beats
from support.uncompiled import PARTS

pytestmark = pytest.mark.nojit

FAR = 1 << 60  # neighbours this far out are one and the same float
POINTS = st.lists(
    st.tuples(*[st.sampled_from([0, 1, 2, 3, FAR, FAR + 1, FAR + 2])] * 2), max_size=10
)


@PARTS
@given(SMALL, SMALL)
def test_dominance_of_two_points(a: Point, b: Point) -> None:
    pair = array([a, b], 3)
    want = BETTER if beats(a, b) else WORSE if beats(b, a) else EQUAL if a == b else NEITHER
    assert relation(pair, 0, pair, 1) == want
    assert dominates(pair, 0, pair, 1) == beats(a, b)


@PARTS
def test_keys_that_sort_points() -> None:
    points = array([(9, 9), (0, 10), (5, 0), (10, 5), (9, 9)])
    keys = np.full(5, 7.0)
    sort_keys(points, 1, 4, keys)
    assert keys.tolist() == [7.0, 1.0, 0.5, 1.5, 7.0]
    sort_keys(array([(3, 1), (3, 2)]), 0, 2, keys)
    assert keys.tolist() == [0.0, 1.0, 0.5, 1.5, 7.0]


@PARTS
def test_segments_of_both_sides_differ() -> None:
    both = {int(mixed(np.int64(a), np.int64(b))) for a in range(4) for b in range(4)}
    assert len(both) == 16
    assert mixed(0, 3) == 3


@PARTS
@given(st.lists(POINTS, max_size=4))
def test_the_skyline_of_each_run(runs: list[list[Point]]) -> None:
    points = array([point for run in runs for point in run])
    offsets = np.cumsum([0, *map(len, runs)])
    counts = np.zeros(1, np.int64)
    kept, ends = skyline_runs(points, offsets, counts)
    pairs = 0
    for run, (first, last) in enumerate(itertools.pairwise(offsets.tolist())):
        mine = [tuple(p) for p in points[first:last].tolist()]
        found = kept[ends[run] : ends[run + 1]].tolist()
        wanted = [first + i for i, p in enumerate(mine) if not any(beats(q, p) for q in mine)]
        assert sorted(found) == wanted
        groups = [key for key, _ in itertools.groupby(mine[i - first] for i in found)]
        assert len(groups) == len(set(groups)), "equal points stand side by side"
        pairs += len(mine) * (len(mine) + 1) if len(mine) > 1 else 0
    assert sum(len(run) for run in runs if len(run) > 1) <= counts[0] <= pairs
    assert ends[0] == 0


def plane(random: np.random.Generator, rows: int, dimensions: int, values: int) -> Array:
    """Points near a plane across the diagonal, on which no point dominates another."""
    made = random.dirichlet(np.ones(dimensions), rows) + random.normal(0, 0.01, (rows, 1))
    return (made * values).astype(np.int64)


@pytest.mark.parametrize("dimensions", [1, 2, 3, 6, 22, 70])
@pytest.mark.parametrize("values", [4, 300, 1 << 61])
def test_the_skyline_of_many_points(dimensions: int, values: int) -> None:
    random = np.random.default_rng(dimensions)
    sizes = [900, 17, 0, 60, 1]
    points = plane(random, sum(sizes), dimensions, values)
    points[::7] = points[3]
    offsets = np.cumsum([0, *sizes])
    kept, ends = base.skyline_runs(points, offsets, np.zeros(1, np.int64))
    for run, (first, last) in enumerate(itertools.pairwise(offsets.tolist())):
        mine = points[first:last]
        no_less = (mine[:, None] >= mine[None]).all(axis=2)
        wanted = np.flatnonzero(~(no_less & ~no_less.T).any(axis=0)) + first
        found = kept[ends[run] : ends[run + 1]]
        assert sorted(found.tolist()) == wanted.tolist()
        groups = [key for key, _ in itertools.groupby(points[found].tolist())]
        assert len(groups) == len({tuple(key) for key in groups}), "equal points side by side"


@PARTS
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_dominated_point_with_an_equal_key_goes(place: int) -> None:
    # As floats the first and the last one are equal, so that their keys are.
    points: list[Point] = [(0, FAR, 0), (0, 0, FAR)]
    points.insert(place, (FAR, 0, 0))
    points.append((FAR + 1, 0, 0))
    counts = np.zeros(1, np.int64)
    kept, ends = skyline_runs(array(points, 3), np.array([0, 4]), counts)
    assert sorted(kept.tolist()) == [i for i in range(4) if i != place]
    assert ends.tolist() == [0, 3]


@PARTS
def test_comparisons_are_counted() -> None:
    counts = np.zeros(1, np.int64)
    # The best of the first four dominates all; of the other three none dominates another.
    points = array([(9, 9), (1, 1), (2, 0), (0, 2), (1, 3), (2, 2), (3, 1)])
    kept, _ = skyline_runs(points, np.array([0, 4, 7]), counts)
    assert sorted(kept.tolist()) == [0, 4, 5, 6]
    assert counts[0] == 4 + 3 + (0 + 1 + 2) + 2  # first with the one that dominated last


# StabSky ------------------------------------------------------------------------------------------

STREAM = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), SMALL), max_size=14)
"""How many panes after the row before, segment, point."""


def rows_of(stream: list[tuple[int, int, Point]], start: int = 3) -> list[tuple[int, int, Point]]:
    """(pane, segment, point), by pane."""
    panes = itertools.accumulate((ahead for ahead, _, _ in stream), initial=start)
    return [(pane, segment, p) for pane, (_, segment, p) in zip(panes, stream, strict=False)]


def definition(rows: list[tuple[int, int, Point]], first: int, end: int) -> list[int]:
    live = [i for i, (pane, _, _) in enumerate(rows) if first <= pane < end]
    return [
        i
        for i in live
        if not any(rows[j][1] == rows[i][1] and beats(rows[j][2], rows[i][2]) for j in live)
    ]


def pane_skylines(rows: list[tuple[int, int, Point]]) -> list[tuple[int, list[int]]]:
    """Of each pane the skylines of its segments, equal points side by side."""
    found = []
    for pane in sorted({pane for pane, _, _ in rows}):
        chosen = definition(rows, pane, pane + 1)
        found.append((pane, sorted(chosen, key=lambda i: (rows[i][1:], i))))
    return found


Rows = list[tuple[int, int, Point]]
NO_GROUPS = np.zeros(0, np.int32)


def folded(
    own: list[Members], groups: list[Rows], panes: list[list[tuple[int, list[int]]]],
    reads: StabReads, counts: Array,
) -> tuple[list[Members], dict[tuple[int, int], list[int]]]:  # fmt: skip
    """What is left of each group after these panes, and what was read of each window and group."""
    runs = sorted((pane, g, chosen) for g, mine in enumerate(panes) for pane, chosen in mine)
    new = [groups[g][i] for _, g, chosen in runs for i in chosen]
    fresh = PaneSkylines(
        array([point for _, _, point in new], 3),
        np.array([segment for _, segment, _ in new], np.int64),
        np.array([i for _, _, chosen in runs for i in chosen], np.int64),
        np.cumsum([0, *(len(chosen) for _, _, chosen in runs)]),
        np.array([pane for pane, _, _ in runs], np.int64),
        np.array([g for _, g, _ in runs], np.int32),
    )
    m = Members(*(np.concatenate(column) for column in zip(*own, strict=True)))
    sizes = np.array([len(each.pane) for each in own])
    starts, order = np.cumsum(sizes) - sizes, np.argsort(fresh.group, kind="stable")
    m, sizes, found = stab_fold(m, starts, sizes, np.arange(len(own)), fresh, order, reads, counts)
    ends = np.cumsum(sizes)
    assert len(m.pane) == sizes.sum()
    left = [
        Members(*(column[end - size : end].copy() for column in m))
        for size, end in zip(sizes.tolist(), ends.tolist(), strict=True)
    ]
    return left, slots_of(found)


def slots_of(found: Skylines) -> dict[tuple[int, int], list[int]]:
    """The slots of each window and group, each of which has some."""
    pairs = list(zip(found.window.tolist(), found.group.tolist(), strict=True))
    assert pairs == sorted(set(pairs), key=lambda pair: pair[::-1])
    read = [found.slot[a:b].tolist() for a, b in itertools.pairwise(found.offsets.tolist())]
    assert all(read)
    assert found.offsets[-1] == len(found.slot)
    return dict(zip(pairs, map(sorted, read), strict=True))


@given(st.lists(STREAM, min_size=1, max_size=3), st.integers(1, 3), st.booleans(), st.data())
def test_windows_of_stabsky(
    streams: list[list[tuple[int, int, Point]]], calls: int, apart: bool, data: st.DataObject
) -> None:
    """Of any size up to 4 panes; groups have windows of their own if they are ``apart``."""
    groups = [rows_of(stream) for stream in streams]
    own, counts, taken = [empty_members() for _ in groups], np.zeros(4, np.int64), 0
    gone = [0 for _ in groups]
    for low, high in itertools.pairwise([3, 8, 12, 20][: calls + 1]):
        panes = [[p for p in pane_skylines(rows) if low <= p[0] < high] for rows in groups]
        taken += sum(len(chosen) for mine in panes for _, chosen in mine)
        asked = [
            (end, end - size, g)
            for g in (range(len(groups)) if apart else (0,))
            for end, size in sorted(
                data.draw(
                    st.lists(st.tuples(st.integers(low + 1, high), st.integers(1, 4)), max_size=9)
                )
            )
        ]
        end, first, owner = np.array(asked, np.int64).reshape(-1, 3).T.copy()
        reads = StabReads(first, end, end - 4, owner.astype(np.int32) if apart else NO_GROUPS)
        own, read = folded(own, groups, panes, reads, counts)
        for g, rows in enumerate(groups):
            mine = [w for w in range(len(end)) if not apart or owner[w] == g]
            for w in mine:
                wanted = definition(rows, int(first[w]), int(end[w]))
                assert read.pop((w, g), []) == wanted, (g, w)
            gone[g] = max([gone[g], *(end[mine] - 4)])
            check_members(own[g], rows, gone[g], high)
            for start in range(max(high - 4, gone[g]), high):
                none, size = np.zeros(1, np.int64), np.array([len(own[g].pane)])
                alone = slots_of(stab_read(own[g], none, size, np.array([g]), start))
                assert alone.get((0, g), []) == definition(rows, start, high)
        assert not read
        assert counts[1] + counts[2] + sum(len(m.pane) for m in own) == taken


def test_stabsky_reads_all_groups_at_once() -> None:
    rows: Rows = [(0, 0, (1, 1, 1)), (1, 0, (0, 0, 0)), (5, 0, (2, 2, 2))]
    m = joined(empty_members(), rows, [0, 1, 2])
    m.since[:], m.parent[:] = np.array([ALWAYS, 0, ALWAYS]), np.array([-1, 0, -1])
    found = stab_read(m, np.array([2, 0]), np.array([1, 2]), np.array([4, 7]), 1)
    assert slots_of(found) == {(0, 4): [2], (0, 7): [1]}
    found = stab_read(m, np.array([2, 0]), np.array([1, 2]), np.array([4, 7]), 2)
    assert slots_of(found) == {(0, 4): [2]}


def test_stabsky_reads_many_rows_of_a_window() -> None:
    older: Rows = [(0, 0, (1, 1, 1))]
    newer: Rows = [(1, 0, (1, 1, 1))]
    rows = older * 50 + newer * 90
    ends = np.array([1, 2, 2])
    reads, counts = (
        StabReads(ends - np.array([1, 1, 2]), ends, ends - 2, NO_GROUPS),
        np.zeros(4, int),
    )
    panes = [[(0, [*range(50)]), (1, [*range(50, 140)])]]
    _, read = folded([empty_members()], [rows], panes, reads, counts)
    first, second = [*range(50)], [*range(50, 140)]
    assert read == {(0, 0): first, (1, 0): second, (2, 0): first + second}


def empty_members() -> Members:
    return joined(Members(array([], 3), *(np.zeros(0, np.int64) for _ in range(5))), [], [])


def joined(m: Members, rows: list[tuple[int, int, Point]], new: list[int]) -> Members:
    """The members, and behind them new rows whose since and parent are not known yet."""
    unknown = np.full(len(new), -77)
    more = (
        array([rows[i][2] for i in new], 3),
        np.array([rows[i][1] for i in new], np.int64),
        np.array([rows[i][0] for i in new], np.int64),
        unknown,
        unknown,
        np.array(new, np.int64),
    )
    return Members(*(np.concatenate(pair) for pair in zip(m, more, strict=True)))


def check_members(m: Members, rows: list[tuple[int, int, Point]], gone: int, end: int) -> None:
    """Whatever no row of its own or a newer pane dominates, with its youngest dominator."""
    live = [i for i, (pane, _, _) in enumerate(rows) if gone <= pane < end]

    def dominators(i: int, panes: range) -> list[int]:
        pane_ok = [j for j in live if rows[j][0] in panes and rows[j][1] == rows[i][1]]
        return [j for j in pane_ok if beats(rows[j][2], rows[i][2])]

    wanted = {i for i in live if not dominators(i, range(rows[i][0], end))}
    assert set(m.slot.tolist()) == wanted
    assert m.pane.tolist() == sorted(m.pane.tolist())
    for at, slot in enumerate(m.slot.tolist()):
        assert (m.pane[at], m.segment[at], tuple(m.points[at].tolist())) == rows[slot]
        older = [j for j in wanted if j in dominators(slot, range(gone, rows[slot][0]))]
        if m.parent[at] < 0:
            assert not older
            assert m.since[at] < gone
        else:
            parent = int(m.slot[m.parent[at]])
            assert parent in older
            assert m.since[at] == rows[parent][0] == max(rows[j][0] for j in older)


@given(STREAM, st.integers(0, 6), st.integers(0, 5))
def test_rows_that_follow_one_another(
    stream: list[tuple[int, int, Point]], cut: int, gone: int
) -> None:
    rows = rows_of(stream)
    points, pane = array([p for _, _, p in rows], 3), np.array([p for p, _, _ in rows], np.int64)
    segment = np.array([s for _, s, _ in rows], np.int64)
    cut = min(cut, len(rows))
    while 0 < cut < len(rows) and rows[cut][0] == rows[cut - 1][0]:
        cut += 1  # a pane comes as a whole
    first = min([3 + gone, *(each for each, _, _ in rows[cut:])])
    graphs, local = DominanceGraphs(3), np.zeros(1, np.int64)
    for start, stop, oldest in ((0, cut, 0), (cut, len(rows), first)):
        until = (points[:stop], segment[:stop], pane[:stop])
        read = graphs.follow(until, start, 7, oldest, local)
    m = graphs.members
    check_members(m._replace(slot=m.slot - 7), rows, first, 99)
    assert set(read.tolist()) == set(m.slot[m.since < first].tolist())


NONE = np.zeros(0, np.int64)
NO_READS = StabReads(NONE, NONE, NONE, NO_GROUPS)


def test_the_first_rows_have_been_there_always() -> None:
    counts = np.zeros(4, np.int64)
    rows: Rows = [(0, 0, (1, 1, 1)), (1, 0, (0, 0, 0))]
    (m,), _ = folded([empty_members()], [rows], [[(0, [0]), (1, [1])]], NO_READS, counts)
    assert m.since.tolist() == [ALWAYS, 0]
    assert m.parent.tolist() == [-1, 0]
    assert counts.tolist() == [1, 0, 0, 1]


def test_an_edge_is_counted_for_each_of_equal_rows() -> None:
    point = (0, 0, 0)
    rows: Rows = [(0, 0, (1, 1, 1)), *[(1, 0, point)] * 3, *[(1, 1, point)] * 2]
    counts, panes = np.zeros(4, np.int64), [[(0, [0]), (1, [1, 2, 3, 4, 5])]]
    (m,), _ = folded([empty_members()], [rows], panes, NO_READS, counts)
    assert m.parent.tolist() == [-1, 0, 0, 0, -1, -1]
    assert counts.tolist() == [1, 0, 0, 3], "only the first of equal rows is compared"
    rows[0] = (0, 1, (1, 1, 1))
    (m,), _ = folded([empty_members()], [rows], panes, NO_READS, counts := 0 * counts)
    assert m.parent.tolist() == [-1, -1, -1, -1, 0, 0]
    assert counts.tolist() == [1, 0, 0, 2]
