"""The paper's layered join as printed gives rows outside the skyline, so ours departs from it.

This is M-LocalSky (Algorithm 1) in every layer and M-Iterative (Algorithm 2) with the union of the
layers as the answer. Where the text is silent it is read in its favour: the local skylines leave
before the next layer, and a row is pruned if a result dominates it with the best corner of its
remaining partners. The examples of docs/reproduction/errata_lsj.md are taken from these streams.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

import skyband as sb

Point = tuple[int, ...]
Row = tuple[int, str, Point]
"""Time, key, and values, of which the greater are better."""


def beats(p: Point, q: Point) -> bool:
    return p != q and all(a >= b for a, b in zip(p, q, strict=True))


def skyline(points: Iterable[Point]) -> set[Point]:
    found = set(points)
    return {p for p in found if not any(beats(q, p) for q in found)}


def join(left: set[Row], right: set[Row]) -> set[Point]:
    return {a[2] + b[2] for a in left for b in right if a[1] == b[1]}


@dataclass
class Layer:
    """One side of a layer: its non-redundant rows, and its rows in the window before."""

    known: set[Row] = field(default_factory=set)
    before: set[Row] = field(default_factory=set)

    def local_skyline(self, now: set[Row]) -> set[Row]:
        """Algorithm 1: an arriving row drops for good what it dominates."""
        self.known -= self.before - now
        for row in sorted(now - self.before):
            self.known -= {old for old in self.known if beats(row[2], old[2])}
            self.known.add(row)
        self.before = now
        roots = skyline(row[2] for row in self.known)
        return {row for row in self.known if row[2] in roots}


def pruned(rows: set[Row], others: set[Row], results: set[Point], left: bool) -> set[Row]:
    """The rows that have a partner and are not dominated with the best corner of their partners."""
    kept = set()
    for row in rows:
        partners = [other[2] for other in others if other[1] == row[1]]
        corner = tuple(max(values) for values in zip(*partners, strict=True))
        pair = row[2] + corner if left else corner + row[2]
        if partners and not any(beats(result, pair) for result in results):
            kept.add(row)
    return kept


def printed(left: set[Row], right: set[Row], layers: list[tuple[Layer, Layer]]) -> set[Point]:
    """Algorithm 2 for one window; ``layers`` lasts from window to window."""
    results: set[Point] = set()
    at = 0
    while left and right:
        if at == len(layers):
            layers.append((Layer(), Layer()))
        top = layers[at][0].local_skyline(left)
        best = layers[at][1].local_skyline(right)
        results |= skyline(join(top, right)) | skyline(join(left, best))
        left, right = left - top, right - best
        left, right = (
            pruned(left, right, results, left=True),
            pruned(right, left, results, left=False),
        )
        at += 1
    return results


def ours(left: set[Row], right: set[Row], algorithm: str) -> list[set[Point]]:
    """The answers of skyband after each time, over a window in which nothing expires."""
    values = len(next(iter(left))[2])
    sources = {
        name: pa.table(
            {
                "t": [row[0] for row in sorted(rows)],
                "key": [row[1] for row in sorted(rows)],
                **{f"{name}{i}": [row[2][i] for row in sorted(rows)] for i in range(values)},
            }
        )
        for name, rows in (("a", left), ("b", right))
    }
    columns = [f"{name}{i}" for name in "ab" for i in range(values)]
    query = sb.SkylineJoin(
        left="a", right="b", on="key", prefer=dict.fromkeys(columns, "max"), time="t",
        window=sb.TimeWindow(100, slide=1), algorithm=algorithm,
        layers=5 if algorithm == "lsj" else None,
    )  # fmt: skip
    return [
        {tuple(row[column] for column in columns) for row in answer.table.to_pylist()}
        for answer in sb.watch(sources, query)
    ]


LEFT: set[Row] = {(1, "C", (18,)), (2, "D", (2,)), (3, "A", (10,)), (4, "B", (12,))}
RIGHT: set[Row] = {(1, "C", (2,)), (2, "D", (18,)), (3, "A", (10,)), (4, "B", (8,))}
MORE: tuple[Row, Row] = (5, "A", (7,)), (5, "C", (9,))
CORNERS: set[Row] = {(1, "C", (6, 2)), (2, "D", (2, 6)), (3, "A", (5, 1)), (4, "A", (1, 5))}


def test_a_row_dropped_above_layer_1_is_missing_when_the_younger_one_is_pruned() -> None:
    layers: list[tuple[Layer, Layer]] = []
    assert printed(LEFT, RIGHT, layers) == skyline(join(LEFT, RIGHT))
    left, right = LEFT | {MORE[0]}, RIGHT | {MORE[1]}
    # In layer 2, B dropped the older A in the first window and is pruned in the second. So the new
    # A is taken for the skyline of the layer.
    assert printed(left, right, layers) - skyline(join(left, right)) == {(7, 10)}
    assert printed(left, right, []) == skyline(join(left, right))  # nothing is remembered


def test_a_result_of_an_earlier_layer_dominates_one_of_a_later_layer() -> None:
    extra = printed(CORNERS, CORNERS, []) - skyline(join(CORNERS, CORNERS))
    assert extra == {(5, 1, 5, 1), (1, 5, 1, 5)}


@pytest.mark.nojit
@pytest.mark.parametrize("algorithm", ["isj", "lsj", "gsj"])
def test_ours_are_right_on_the_same_streams(algorithm: str) -> None:
    left, right = LEFT | {MORE[0]}, RIGHT | {MORE[1]}
    answers = ours(left, right, algorithm)
    assert answers[-2:] == [skyline(join(LEFT, RIGHT)), skyline(join(left, right))]
    assert ours(CORNERS, CORNERS, algorithm)[-1] == skyline(join(CORNERS, CORNERS))
