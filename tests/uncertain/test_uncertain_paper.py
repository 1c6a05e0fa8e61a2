"""UncertainTopK: the paper's examples and theorems."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracle
import skyband as sb
from oracle.uncertain import by_worlds
from skyband.uncertain.kernels import queue
from skyband.uncertain.kernels.types import KEEP
from skyband.uncertain.queue import CompactSets, SegmentalQueue
from support.semantics import Semantics
from support.uncertain_cases import (
    ALGORITHMS,
    KINDS,
    RADAR,
    THRESHOLD,
    Exact,
    of,
    probability,
    quarters,
    query,
)

# The paper's own examples ------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    ("kind", "speeds", "chances"),
    [
        ("pk-topk", [5, 6], [0.64, 0.5]),
        ("pt-k", [5, 6, 8], [0.64, 0.5, 0.4]),
        ("u-kranks", [8, 5], [0.4, 0.4]),
        ("u-topk", [6, 5], [0.24, 0.24]),
    ],
)
def test_table_1(algorithm: str, kind: str, speeds: list[int], chances: list[float]) -> None:
    table = sb.rank(RADAR, query(kind, sb.CountWindow(4), algorithm=algorithm))
    assert table.column_names == [
        "window_start", "window_end", "rank", "car", "speed", "p", "topk_probability",
    ]  # fmt: skip
    assert table["speed"].to_pylist() == speeds
    assert table["topk_probability"].to_pylist() == pytest.approx(chances, rel=1e-12)


@pytest.mark.nojit
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_introduction_s_sliding_window(algorithm: str) -> None:
    # Over {5, 6, 8} the answer is {6, 5}; when 5 leaves and 2 arrives, it is {6, 8}: the highest
    # reading was not in the answer before and is now.
    table = sb.rank(RADAR, query("pk-topk", sb.CountWindow(3, slide=1), algorithm=algorithm))
    at: dict[int, list[int]] = {end: [] for end in table["window_end"].to_pylist()}
    for end, speed in zip(table["window_end"].to_pylist(), table["speed"].to_pylist(), strict=True):
        at[end].append(speed)
    assert at[3] == [5, 6]
    assert at[4] == [6, 8]


def test_example_3_1() -> None:
    pk = of("pk-topk", 2)
    in_row_order = [0.4, 0.5, 0.8, 0.4]
    assert pk.end(in_row_order) == 3
    assert [pk.admits(in_row_order[:n]) for n in range(5)] == [False, False, False, True, True]
    # The array r as printed in the paper, row by row.
    exact = [Fraction(2, 5), Fraction(1, 2), Fraction(4, 5)]
    printed = [("1", "0"), ("0.6", "0.4"), ("0.3", "0.5"), ("0.06", "0.34")]
    for rows, (none, one) in enumerate(printed):
        assert Exact("pk-topk", 2).counts(exact[:rows]) == [Fraction(none), Fraction(one)]
    # At d = 3 all three rows satisfy (1): each has at least 0.06 + 0.34.
    chances = Semantics("pt-k", 2, 0.4).answer(in_row_order)
    assert chances[0].tolist() == [2, 1, 0]
    assert chances[1].tolist() == pytest.approx([0.64, 0.5, 0.4], rel=1e-15)


def queue_of(monitor: sb.Monitor) -> list[tuple[set[int], set[int]]]:
    """The compact sets of a segmental queue as scores, newest first, each with its segment."""
    synopsis = monitor.session.synopsis
    assert isinstance(synopsis, SegmentalQueue)
    assert isinstance(synopsis.reserve, CompactSets)
    arena, entry, num = synopsis.reserve.queue
    found = []
    for begin, size, more, _ in entry[num[queue.FIRST] : num[queue.LAST]].tolist():
        lists = arena[begin : begin + size], arena[begin + size : begin + size + more]
        one, two = (set(synopsis.store.key[slots].tolist()) for slots in lists)
        found.append((one, two))
    return found[::-1]


@pytest.mark.nojit
def test_example_4_1() -> None:
    # Figure 2: in a window of eight rows, the three highest make a compact set, H = 3. Rows of
    # probability 1 and k = 3 give that. The example prints {5, 6, 1} for the new C(S_3) at time 9,
    # but the newest three rows are {6, 1, 4}. The row that it does not name is 2.
    scores = [8, 7, 9, 2, 3, 5, 6, 1, 4]
    table = pa.table({"speed": scores, "p": [1.0] * 9, "car": scores})
    monitor = sb.Monitor(query("pk-topk", sb.CountWindow(8, slide=1), k=3, algorithm="scsq"))
    for row in range(9):
        (answer,) = monitor.push(table.slice(row, 1))
        live = sorted(scores[max(0, row - 7) : row + 1], reverse=True)
        assert answer.table["car"].to_pylist() == live[:3]
        monitor._check()
        if row == 7:
            assert queue_of(monitor) == [({5, 6, 1}, set()), ({3, 5, 6}, {8, 7, 9})]
    assert queue_of(monitor) == [({6, 1, 4}, {7, 9, 5})]


# Semantics ---------------------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize("kind", KINDS)
@given(p=st.lists(probability, max_size=7), k=st.integers(1, 4))
@settings(max_examples=60)
def test_answers_are_those_of_all_possible_worlds(kind: str, p: list[float], k: int) -> None:
    rows = [{"speed": -i, "p": each} for i, each in enumerate(p)]
    want = oracle.uncertain(
        rows, k, score="speed", probability="p", semantics=kind, chances=by_worlds,
        threshold=THRESHOLD if kind == "pt-k" else None,
    )  # fmt: skip
    positions, chances = of(kind, k).answer(p)
    wanted = [row["topk_probability"] for row in want]
    if {*p} <= {0.25, 0.5, 0.75, 1.0}:
        assert positions.tolist() == [-row["speed"] for row in want]
    # Otherwise rounding may decide between probabilities that are equal except for rounding.
    common = min(len(wanted), len(chances))
    assert chances[:common].tolist() == pytest.approx(wanted[:common], rel=1e-9)
    extra = [*wanted[common:], *chances[common:].tolist()]
    assert extra == pytest.approx([THRESHOLD] * len(extra), rel=1e-9)
    assert not extra or kind == "pt-k"


@pytest.mark.nojit
@pytest.mark.parametrize("kind", KINDS)
@given(p=st.lists(quarters, max_size=12), k=st.integers(1, 4))
@settings(max_examples=60)
def test_compact_sets_end_where_the_definition_says(kind: str, p: list[float], k: int) -> None:
    assert of(kind, k).end(p) == Exact(kind, k).end(p)


@pytest.mark.nojit
@pytest.mark.parametrize("kind", KINDS)
@given(p=st.lists(quarters, max_size=14), k=st.integers(1, 4))
@settings(max_examples=60)
def test_theorem_3_1_the_compact_set_suffices(kind: str, p: list[float], k: int) -> None:
    # Also for the other semantics, as section 5 says: rows after the set do not change the answer.
    semantics = of(kind, k)
    end = semantics.end(p)
    assume(end is not None)
    whole, short = semantics.answer(p), semantics.answer(p[:end])
    assert np.array_equal(whole[0], short[0])
    assert np.array_equal(whole[1], short[1])
    rows = [{"speed": -i, "p": each} for i, each in enumerate(p)]
    want = oracle.uncertain(
        rows, k, score="speed", probability="p", semantics=kind,
        threshold=THRESHOLD if kind == "pt-k" else None,
    )  # fmt: skip
    assert [-row["speed"] for row in want] == short[0].tolist()


@pytest.mark.nojit
@pytest.mark.parametrize("kind", KINDS)
@given(p=st.lists(quarters, max_size=12), k=st.integers(1, 4), data=st.data())
@settings(max_examples=60)
def test_theorems_3_2_and_5_1_to_5_3_insertions(
    kind: str, p: list[float], k: int, data: st.DataObject
) -> None:
    exact = Exact(kind, k)
    end = exact.end(p) or 0  # 0 if there is none
    assume(end > 0)
    at = data.draw(st.integers(0, len(p)))
    more = [*p[:at], data.draw(quarters), *p[at:]]
    then = exact.end(more)
    if at >= end:
        assert then == end
    else:
        assert then is not None
        assert then <= end + 1


@pytest.mark.nojit
@pytest.mark.parametrize("kind", KINDS)
@given(p=st.lists(st.tuples(probability, st.booleans()), max_size=14), k=st.integers(1, 4))
@settings(max_examples=80)
def test_the_compact_set_of_a_union_lies_in_the_union_of_compact_sets(
    kind: str, p: list[tuple[float, bool]], k: int
) -> None:
    # This allows merging shards, parts of a pane, and panes; a side without a compact set is kept
    # whole. What is kept exceeds its condition by a margin, so that rounding does no harm.
    semantics = of(kind, k)
    sides = [[i for i, (_, side) in enumerate(p) if side is which] for which in (True, False)]
    kept: list[int] = []
    for side in sides:
        end = semantics.end([p[i][0] for i in side], slack=KEEP)
        kept += side[:end]
    union = semantics.end([each for each, _ in p])
    assert set(range(len(p))[:union]) <= set(kept)
    whole = semantics.answer([each for each, _ in p])
    kept.sort()
    parts = semantics.answer([p[i][0] for i in kept])
    assert whole[0].tolist() == [kept[i] for i in parts[0]]
    assert np.array_equal(whole[1], parts[1])


@given(p=st.lists(quarters, min_size=3, max_size=16), k=st.integers(1, 3), data=st.data())
@settings(max_examples=60)
def test_lemma_4_3_a_row_is_in_consecutive_compact_sets(
    p: list[float], k: int, data: st.DataObject
) -> None:
    arrival = data.draw(st.permutations(range(len(p))))  # arrival[i]: when the i-th best row came
    for kind in KINDS:
        semantics = of(kind, k)
        seen: list[set[int]] = []
        for newest in range(1, len(p) + 1):
            live = [i for i in range(len(p)) if arrival[i] >= len(p) - newest]
            end = semantics.end([p[i] for i in live])
            if end is not None:
                seen.append(set(live[:end]))
        for row in range(len(p)):
            inside = [row in each for each in seen]
            runs = sum(now and not before for before, now in zip([False, *inside], inside))  # noqa: B905
            assert runs <= 1


def test_pt_k_keeps_rows_whose_chance_is_the_threshold() -> None:
    # k = 1: probabilities 1/2 and 1/2 · 1 = 1/2. With the paper's "at most", the set would end
    # too early.
    semantics = Semantics("pt-k", 1, 0.5)
    assert semantics.end([0.5, 1.0]) == 2
    positions, chances = semantics.answer([0.5, 1.0])
    assert positions.tolist() == [0, 1]
    assert chances.tolist() == [0.5, 0.5]
