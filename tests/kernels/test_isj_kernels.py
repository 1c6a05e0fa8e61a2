"""A layer of the iterative skyline join, against a plain model of what it keeps and prunes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest

from skyband.arrays import Ints
from skyband.kernels.patient import patient
from skyband.skyline.kernels import isj
from skyband.skyline.kernels.dominance import skyline_runs
from skyband.skyline.kernels.isj import (
    BOTH,
    COMPARISONS,
    JOINED,
    LAYERS,
    LEFT,
    RIGHT,
    CellSide,
    Index,
    Results,
)
from support.unwritten import VISIBLE

pytestmark = pytest.mark.nojit

join_layer = patient(isj.join_layer)

Point = tuple[int, ...]
Pair = tuple[int, int]
Cell = tuple[int, int]


class Row(NamedTuple):
    key: int
    segment: int
    point: Point


def beats(a: Point, b: Point) -> bool:
    return a != b and all(x >= y for x, y in zip(a, b, strict=True))


def side_of(rows: Sequence[Row], keys: int) -> CellSide:
    cells = sorted({row[:2] for row in rows})
    starts = [sum(cell[0] < key for cell in cells) for key in range(keys + 1)]
    width = len(rows[0].point)
    return CellSide(
        np.array([row.point for row in rows], np.int64).reshape(len(rows), width),
        np.array([cells.index(row[:2]) for row in rows], np.int64),
        np.array(cells, np.int64).reshape(len(cells), 2),
        np.array(starts, np.int64),
        np.array([row.segment for row in rows], np.int64),
        max(row.segment for row in rows) + 1,
    )


def index_of(side: CellSide, active: Sequence[int]) -> Index:
    """The active rows by cells."""
    order = sorted(active, key=lambda row: (side.cell[row], row))
    cells = [int(side.cell[row]) for row in order]
    starts = np.searchsorted(cells, np.arange(len(side.cells) + 1)).astype(np.int64)
    used = np.array(sorted(set(cells)), np.int64)
    return Index(starts[:-1].copy(), starts[1:].copy(), positions(order), used)


def rows_of(index: Index) -> list[int]:
    """The rows of an index; only cells that have rows are listed."""
    found = [index.rows[index.start[c] : index.end[c]].tolist() for c in index.used]
    assert all(found)
    return sorted(row for rows in found for row in rows)


def positions(rows: Sequence[int]) -> Ints:
    return np.array(rows, np.int64)


def local_skyline(rows: Sequence[Row], active: Sequence[int]) -> list[int]:
    return [
        i
        for i in active
        if not any(
            rows[j].segment == rows[i].segment and beats(rows[j].point, rows[i].point)
            for j in active
        )
    ]


class Join:
    """Two sides and the pairs found so far; ``layer`` runs the kernel and the model."""

    def __init__(self, left: Sequence[Row], right: Sequence[Row], keys: int, room: int) -> None:
        self.rows = left, right
        self.sides = side_of(left, keys), side_of(right, keys)
        width = len(left[0].point) + len(right[0].point)
        self.results = Results(np.zeros((room, 3), np.int64), np.zeros((room, width), np.int64), 0)
        self.counts = np.zeros(4, np.int64)

    def found(self) -> list[Pair]:
        listed = self.results.pairs[: self.results.size]
        return list(zip(listed[:, LEFT].tolist(), listed[:, RIGHT].tolist(), strict=True))

    def point(self, pair: Pair) -> Point:
        return self.rows[0][pair[0]].point + self.rows[1][pair[1]].point

    def segment(self, pair: Pair) -> tuple[int, int]:
        return self.rows[0][pair[0]].segment, self.rows[1][pair[1]].segment

    def pairs(self, own: int, rows: Sequence[int], others: Sequence[int]) -> list[Pair]:
        """Pairs of a side's rows with others, row by row; the others by cell."""
        mine, theirs = self.rows[own], self.rows[1 - own]
        found = [
            (i, j)
            for i in rows
            for j in sorted(others, key=lambda j: theirs[j][:2])
            if mine[i].key == theirs[j].key
        ]
        return found if own == 0 else [(j, i) for i, j in found]

    def dominated(self, pair: Pair, others: Sequence[Pair]) -> bool:
        return any(
            self.segment(other) == self.segment(pair) and beats(self.point(other), self.point(pair))
            for other in others
        )

    def kept(
        self, own: int, rest: Sequence[int], other_rest: Sequence[int]
    ) -> tuple[list[int], int]:
        """Rows that no result dominates with the best corner of some cell of their partners.

        Also the comparisons: of the results with each pair of cells, then of each row, as long as
        it has no such cell, with the results that are no worse than the corner.
        """
        mine, others = self.rows[own], self.rows[1 - own]
        corners: dict[Cell, Point] = {}
        for j in other_rest:
            cell, point = others[j][:2], others[j].point
            corners[cell] = tuple(map(max, corners.get(cell, point), point))
        found = self.found()
        kept: set[int] = set()
        compared = 0
        for cell in sorted({mine[i][:2] for i in rest}):
            for other, corner in sorted(corners.items()):
                if other[0] != cell[0]:
                    continue
                both = (cell[1], other[1]) if own == 0 else (other[1], cell[1])
                alike = [self.point(pair) for pair in found if self.segment(pair) == both]
                compared += len(alike)
                split = len(self.rows[0][0].point)
                parts = [(p[:split], p[split:]) for p in alike]
                near = [p for p in parts if all(map(int.__ge__, p[1 - own], corner))]
                for i in rest:
                    if mine[i][:2] != cell or i in kept:
                        continue
                    point = mine[i].point
                    for part in near:
                        compared += 1
                        whole = point + corner if own == 0 else corner + point
                        if beats(part[0] + part[1], whole):
                            break
                    else:
                        kept.add(i)
        return [i for i in rest if i in kept], compared

    def layer(self, left: list[int], right: list[int]) -> tuple[list[int], list[int]]:
        """Run one layer; everything that the kernel returns and counts is compared."""
        sky = local_skyline(self.rows[0], left), local_skyline(self.rows[1], right)
        rest = [i for i in left if i not in sky[0]], [j for j in right if j not in sky[1]]
        parts = self.pairs(0, sky[0], right), self.pairs(1, sky[1], rest[0])
        before, counts = self.found(), self.counts.copy()
        gone = [np.ones(len(rows), np.bool_) for rows in self.rows]
        for mask, active in zip(gone, (left, right), strict=True):
            mask[active] = False
        lefts, rights, self.results = join_layer(
            self.sides[0], index_of(self.sides[0], left), positions(sky[0]), gone[0],
            self.sides[1], index_of(self.sides[1], right), positions(sky[1]), gone[1],
            self.results, self.counts,
        )  # fmt: skip
        left_rest, right_rest = (np.flatnonzero(~mask) for mask in gone)
        assert (rows_of(lefts), rows_of(rights)) == (left_rest.tolist(), right_rest.tolist())
        compared, wanted = self.compared_results(before, parts)
        assert self.found()[: len(before)] == before
        assert sorted(self.found()[len(before) :]) == sorted(wanted)
        want_left, one = self.kept(0, rest[0], rest[1])
        want_right, two = self.kept(1, rest[1], want_left)
        assert (left_rest.tolist(), right_rest.tolist()) == (want_left, want_right)
        said = (self.counts - counts).tolist()
        assert said[JOINED] == sum(map(len, parts))
        assert said[LAYERS] == 1
        if VISIBLE:  # else the order of points with equal keys may differ, and with it the count
            assert said[COMPARISONS] == compared + one + two
        return want_left, want_right

    def compared_results(
        self, before: list[Pair], parts: tuple[list[Pair], list[Pair]]
    ) -> tuple[int, list[Pair]]:
        """Comparisons on the way to the new results, and these results.

        What an earlier result dominates is left out before the others are sorted; the result that
        dominated last is tried first.
        """
        known, fresh, own = list(before), list[Pair](), np.zeros(1, np.int64)
        compared = 0
        listed = self.found()
        for part in parts:
            rest, last = [], 0
            for pair in part:
                tried = [*known[last : last + 1], *known[:last], *known[last + 1 :]]
                for other in tried:
                    if self.segment(other) == self.segment(pair):
                        compared += 1
                        if beats(self.point(other), self.point(pair)):
                            last = known.index(other)
                            break
                else:
                    rest.append(pair)
            runs: dict[tuple[int, int], list[Pair]] = {}
            for pair in rest:
                runs.setdefault(self.segment(pair), []).append(pair)
            points = [self.point(pair) for run in runs.values() for pair in run]
            offsets = np.cumsum([0, *map(len, runs.values())])
            if points:
                skyline_runs(np.array(points, np.int64), offsets, own)
            added = [pair for pair in rest if not self.dominated(pair, rest)]
            fresh += added
            # In the order in which the kernel has listed them, for what comes after.
            known += sorted(added, key=lambda pair: listed.index(pair) if pair in listed else -1)
        return compared + int(own[0]), fresh


def made(rng: random.Random, n: int, keys: int, segments: int, width: int, top: int) -> list[Row]:
    return [
        Row(
            rng.randrange(keys),
            rng.randrange(segments),
            tuple(rng.randrange(top) for _ in range(width)),
        )
        for _ in range(n)
    ]


@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("widths", [(1, 1), (2, 1), (1, 2), (2, 3)])
def test_layers_find_the_skyline_of_the_join(widths: tuple[int, int], segments: int) -> None:
    deep = 0
    for seed in range(8):
        rng = random.Random(f"{widths} {segments} {seed}")
        keys = rng.choice([1, 4, 8, 8])
        left = made(rng, rng.randrange(1, 24), keys, segments, widths[0], rng.choice([3, 9]))
        right = made(rng, rng.randrange(1, 24), keys, segments, widths[1], rng.choice([3, 9]))
        join = Join(left, right, keys, room=rng.choice([0, 1, 64]))
        # The first rows have expired.
        active = list(range(rng.randrange(2), len(left))), list(range(rng.randrange(2), len(right)))
        every = join.pairs(0, *active)
        final = {pair for pair in every if not join.dominated(pair, every)}
        layers = 0
        while active[0] and active[1]:
            active = join.layer(*active)
            layers += 1
            assert set(join.found()) <= final
        assert sorted(join.found()) == sorted(final)
        assert join.counts[LAYERS] == layers
        deep += layers > 1
    assert deep > 0 or widths == (1, 1)


def test_what_a_layer_counts() -> None:
    left = [Row(0, 0, (9,)), Row(0, 0, (5,))]
    join = Join(left, [Row(0, 0, (9,)), Row(0, 0, (5,))], 1, room=1)
    assert join.layer([0, 1], [0, 1]) == ([], [])
    assert join.found() == [(0, 0)]
    # P1 is (9, 9) and (9, 5): its best point is compared with both. P2 is (5, 9), which (9, 9)
    # dominates: once. The left 5 is left with the corner 5, which (9, 9) is near to: twice. The
    # right 5 has no partners any more.
    assert join.counts.tolist() == [2 + 1 + 2, 3, 0, 1]


def test_only_rows_whose_every_pair_is_dominated_are_pruned() -> None:
    """The corner of two partners is better than either: it is a bound, not a pair."""
    left = [Row(0, 0, (9,)), Row(0, 0, (5,))]
    right = [Row(0, 0, (9, 0)), Row(0, 0, (8, 0)), Row(0, 0, (0, 9)), Row(0, 0, (0, 8))]
    join = Join(left, right, 1, room=4)
    # Neither (9, 9, 0) nor (9, 0, 9) dominates (5, 8, 8), the row with its partners' corner.
    # Each of the right rows alone is dominated with the left 5.
    assert join.layer([0, 1], [0, 1, 2, 3]) == ([1], [])
    assert sorted(join.found()) == [(0, 0), (0, 2)]


def test_a_result_that_equals_a_bound_prunes_nothing() -> None:
    """A row of another key may have an equal pair: both are on the skyline."""
    left = [Row(0, 0, (5,)), Row(1, 0, (5,)), Row(1, 0, (4,))]
    right = [Row(0, 0, (5,)), Row(1, 0, (5,)), Row(1, 0, (6,))]
    join = Join(left, right, 2, room=4)
    active = [0, 1, 2], [0, 1, 2]
    while active[0] and active[1]:
        active = join.layer(*active)
    assert join.found() == [(1, 2)]
    assert int(join.results.pairs[0, BOTH]) == 0
