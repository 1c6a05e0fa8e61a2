"""UncertainTopK: the paper's examples and theorems, hard numbers, equal synopses."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracle
import skyband as sb
from oracle.uncertain import by_recursion, by_worlds
from skyband import registry
from skyband.kernels.uncertain.types import KEEP
from skyband.uncertain.semantics import Semantics

ALGORITHMS = ("bs", "csq", "ccsq", "scsq", "scsq-buffer")
KINDS = ("pk-topk", "pt-k", "u-kranks", "u-topk")
THRESHOLD = 0.3

# Quarters make ties the rule; the others are hard to add up.
quarters = st.sampled_from((0.25, 0.5, 0.75, 1.0))
odd = st.sampled_from((1e-12, 1e-3, 0.1, 0.3, 1 / 3, 0.5, 0.7, 0.999, 1 - 1e-12, 1.0))
probability = st.one_of(quarters, odd, st.floats(0.001, 1.0))

# The radar of table 1: readings 5, 6, 8, 2 in order of arrival.
RADAR = pa.table({"speed": [5, 6, 8, 2], "p": [0.8, 0.5, 0.4, 0.4], "car": ["X", "Y", "Z", "W"]})


def of(kind: str, k: int) -> Semantics:
    return Semantics(kind, k, THRESHOLD if kind == "pt-k" else None)


def query(kind: str, window: Any, k: int = 2, **more: Any) -> sb.UncertainTopK:
    threshold = THRESHOLD if kind == "pt-k" else None
    names = {"score": "speed", "probability": "p", "id": "car"}
    return sb.UncertainTopK(
        k=k, window=window, semantics=kind, threshold=threshold, **(names | more)
    )


class Exact:
    """Compact sets in exact arithmetic, straight from their definitions."""

    def __init__(self, kind: str, k: int) -> None:
        self.kind, self.k = kind, k

    def end(self, given: Sequence[float]) -> int | None:
        p = [Fraction(each) for each in given]
        return next((d for d in range(1, len(p) + 1) if self.closes(p[:d])), None)

    def closes(self, p: list[Fraction]) -> bool:
        """Whether the compact set may end with the last of these rows."""
        k, d = self.k, len(p)
        at_rank, _ = by_recursion(p, k)
        r = self.counts(p)
        if self.kind == "pk-topk":
            return sum(sum(ranks) >= sum(r) for ranks in at_rank) >= k
        if self.kind == "pt-k":
            return sum(r) < Fraction(THRESHOLD)
        if self.kind == "u-kranks":
            return any(ranks[k - 1] >= max(r) for ranks in at_rank)
        bound = product(max(each, 1 - each) for each in p)
        return d >= k and max(self.rho(p[:i]) for i in range(k, d + 1)) >= bound

    def counts(self, p: list[Fraction]) -> list[Fraction]:
        """The probabilities of exactly 0, 1, ... k - 1 rows."""
        r = [Fraction(1)] + [Fraction(0)] * (self.k - 1)
        for each in p:
            r = [r[j] * (1 - each) + (r[j - 1] * each if j else 0) for j in range(self.k)]
        return r

    def rho(self, p: list[Fraction]) -> Fraction:
        ranked = sorted(p, reverse=True)
        chosen, others = ranked[: self.k], ranked[self.k :]
        return product(chosen) * product(1 - each for each in others)


def product(values: Any) -> Fraction:
    result = Fraction(1)
    for value in values:
        result *= value
    return result


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
    # Over {5, 6, 8} the answer is {6, 5}; when 5 leaves and 2 comes it is {6, 8}: the highest
    # reading was no answer before and is one now.
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
    assert Exact("pk-topk", 2).counts([Fraction(2, 5), Fraction(1, 2), Fraction(4, 5)]) == [
        Fraction(6, 100),
        Fraction(34, 100),
    ]


def test_example_4_1() -> None:
    # Compact sets of the three highest rows: certain rows, k = 3. Rows in order of arrival, ranks
    # as in figure 2 (1 is best); the window holds the last eight.
    ranks = [8, 7, 9, 3, 5, 6, 1, 2, 4]
    table = pa.table({"speed": [-r for r in ranks], "p": [1.0] * 9, "car": ranks})
    chosen = query("pk-topk", sb.CountWindow(8, slide=1), k=3, algorithm="scsq")
    monitor = sb.Monitor(chosen)
    for row in range(9):
        (answer,) = monitor.push(table.slice(row, 1))
        live = sorted(ranks[max(0, row - 7) : row + 1])
        assert answer.table["car"].to_pylist() == live[:3]
        monitor._check()


# Semantics ---------------------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize("kind", KINDS)
@given(p=st.lists(probability, max_size=7), k=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
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
    # Else digits may decide between chances that are equal but for a rounding, and nothing more.
    common = min(len(wanted), len(chances))
    assert chances[:common].tolist() == pytest.approx(wanted[:common], rel=1e-9)
    extra = [*wanted[common:], *chances[common:].tolist()]
    assert extra == pytest.approx([THRESHOLD] * len(extra), rel=1e-9)
    assert not extra or kind == "pt-k"


@pytest.mark.nojit
@pytest.mark.parametrize("kind", KINDS)
@given(p=st.lists(quarters, max_size=12), k=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_compact_sets_end_where_the_definition_says(kind: str, p: list[float], k: int) -> None:
    assert of(kind, k).end(p) == Exact(kind, k).end(p)


@pytest.mark.nojit
@pytest.mark.parametrize("kind", KINDS)
@given(p=st.lists(quarters, max_size=14), k=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_theorem_3_1_the_compact_set_suffices(kind: str, p: list[float], k: int) -> None:
    # And for the other semantics, as section 5 says: what follows the set changes no answer.
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
@settings(max_examples=60, deadline=None)
def test_theorems_3_2_and_5_1_to_5_3_insertions(
    kind: str, p: list[float], k: int, data: st.DataObject
) -> None:
    exact = Exact(kind, k)
    end = exact.end(p) or 0  # 0: there is none
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
@settings(max_examples=80, deadline=None)
def test_the_compact_set_of_a_union_lies_in_the_union_of_compact_sets(
    kind: str, p: list[tuple[float, bool]], k: int
) -> None:
    # What merges shards, parts of a pane, and panes; sides without a compact set count whole. What
    # is kept exceeds its condition by a margin, so that rounding cannot spoil it.
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
@settings(max_examples=60, deadline=None)
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
    # k = 1: chances 1/2 and 1/2 · 1 = 1/2; printed with "at most", the set would end before them.
    semantics = Semantics("pt-k", 1, 0.5)
    assert semantics.end([0.5, 1.0]) == 2
    positions, chances = semantics.answer([0.5, 1.0])
    assert positions.tolist() == [0, 1]
    assert chances.tolist() == [0.5, 0.5]


# Numbers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("low", [1e-12, 1e-3, 0.5, 0.999, 1.0])
def test_long_windows_agree_with_long_double(kind: str, low: float) -> None:
    rng = np.random.default_rng(5)
    p = np.minimum(1.0, low + rng.random(3000) * min(low, 1e-3))
    k = 20
    _, chances = of(kind, k).answer(p)
    assert np.isfinite(chances).all()
    assert ((chances >= 0) & (chances <= 1)).all()
    if kind in ("pk-topk", "pt-k"):
        r = np.zeros(k, np.longdouble)
        r[0] = 1
        want = np.zeros(len(p), np.longdouble)
        for i, each in enumerate(p.astype(np.longdouble)):
            want[i] = each * r.sum()
            r[1:] = r[1:] * (1 - each) + r[:-1] * each
            r[0] *= 1 - each
        order = np.argsort(-want, kind="stable")
        if kind == "pt-k":
            order = order[want[order] >= THRESHOLD]
        want = want[order][: len(chances)]
        assert np.allclose(chances, want.astype(np.float64), rtol=1e-10, atol=0)


def test_vectors_too_unlikely_for_a_float_are_still_told_apart() -> None:
    # 40 rows of 1e-9: the best vector has a probability of 1e-360, which is 0 as a float.
    p = [1e-9] * 20 + [2e-9] * 40
    positions, chances = Semantics("u-topk", 40).answer(p)
    assert positions.tolist() == list(range(20, 60))
    assert chances.tolist() == [0.0] * 40


def test_no_drift_over_a_long_stream() -> None:
    # Every answer is computed from rank 1 over a rank prefix: the last one of a long stream has
    # the digits of a fresh one.
    rng = np.random.default_rng(3)
    n, size = 60_000, 500
    table = pa.table({"speed": rng.permutation(n), "p": 1.0 - rng.random(n), "car": np.arange(n)})
    for kind in KINDS:
        long = sb.rank(table, query(kind, sb.CountWindow(size, slide=100), k=7))
        fresh = sb.rank(table.slice(n - size), query(kind, sb.CountWindow(size), k=7))
        last = long.filter(pa.compute.equal(long["window_end"], n))
        assert last.drop(["window_start", "window_end"]) == fresh.drop(
            ["window_start", "window_end"]
        )


# Synopses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("size", "slide"), [(60, 1), (200, 7), (300, 300), (50, 80)])
def test_all_synopses_give_the_same_digits(kind: str, size: int, slide: int) -> None:
    rng = np.random.default_rng(size)
    n = 1500
    table = pa.table(
        {
            "speed": rng.integers(0, 400, n),
            "p": rng.choice([0.05, 0.3, 0.8, 0.99, 1.0], n),
            "car": rng.integers(0, 90, n),
        }
    )
    answers = [
        sb.rank(table, query(kind, sb.CountWindow(size, slide=slide), k=4, algorithm=name))
        for name in ALGORITHMS
    ]
    assert answers[0].num_rows
    for other in answers[1:]:
        assert other.equals(answers[0])


@pytest.mark.parametrize("pattern", ["random", "falling", "rising", "unlikely"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_state_stays_bounded_and_checks(algorithm: str, pattern: str) -> None:
    rng = np.random.default_rng(1)
    n, size = 6000, 1000
    speed = {"falling": -np.arange(n), "rising": np.arange(n)}.get(pattern, rng.permutation(n))
    p = rng.random(n) * 1e-4 + 1e-9 if pattern == "unlikely" else 1.0 - rng.random(n)
    table = pa.table({"speed": speed, "p": p, "car": np.arange(n)})
    monitor = sb.Monitor(query("pk-topk", sb.CountWindow(size, slide=20), k=5, algorithm=algorithm))
    for start in range(0, n, 750):
        monitor.push(table.slice(start, 750))
        monitor._check()
        retained = monitor.stats()["retained"]
        if algorithm == "bs":
            assert retained == min(start + 750, size) // 20 * 20
        elif pattern == "random":
            assert retained < size
        elif algorithm != "csq":
            assert retained <= 8 * size  # everything may be needed, as the paper says
    if pattern == "random" and algorithm != "bs":
        stats = monitor.stats()
        assert stats["compact_sets"] <= 60
        assert stats["largest_compact_set"] <= 40


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_shorter_window_can_be_read(algorithm: str) -> None:
    rng = random.Random(2)
    rows = [
        {"speed": rng.randrange(50), "p": rng.choice((0.25, 0.5, 1.0)), "car": i} for i in range(90)
    ]
    table = pa.Table.from_pylist(rows)
    monitor = sb.Monitor(query("pk-topk", sb.CountWindow(60, slide=10), algorithm=algorithm))
    monitor.push(table)
    for last in (60, 30, 10):
        want = sb.rank(table.slice(90 - last), query("pk-topk", sb.CountWindow(last)))
        assert monitor.peek(last=last).table["car"].to_pylist() == want["car"].to_pylist()


def test_shards_merge() -> None:
    # Compact sets of shards are partial answers: together they finish to the answer over all rows.
    rng = np.random.default_rng(8)
    n = 400
    table = pa.table(
        {"speed": rng.integers(0, 99, n), "p": rng.choice([0.3, 0.9], n), "car": np.arange(n)}
    ).append_column("ts", pa.array(np.arange(n) // 10))
    for kind in KINDS:
        chosen = query(kind, sb.TimeWindow(20), time="ts")
        want = sb.rank(table, chosen)
        partials = []
        for shard in range(3):
            synopsis = registry.load("UncertainTopK", "scsq-buffer")(chosen)
            synopsis.bind("", table.schema)
            rows = table.filter(pa.array(np.arange(n) % 3 == shard)).combine_chunks()
            monitor = sb.Monitor(chosen)
            monitor.push(rows.filter(pa.compute.less(rows["ts"], 20)))
            fold = monitor._fold
            assert fold is not None
            synopsis.push(fold._combined(fold.open))
            partials.append(synopsis.partial(0, 1))
        finished = synopsis.finish(partials).parts["rows"]
        first = want.filter(pa.compute.equal(want["window_end"], 20))
        assert finished["car"].to_pylist() == first["car"].to_pylist()
        assert finished["topk_probability"].to_pylist() == first["topk_probability"].to_pylist()


# Bad rows and queries ----------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0.0, -0.1, 1.5, float("nan"), None])
def test_probabilities_outside_are_bad_rows(bad: float | None) -> None:
    table = pa.table({"speed": [1, 2], "p": pa.array([0.5, bad], pa.float64()), "car": ["a", "b"]})
    with pytest.raises(sb.DataError, match="'p', row 1"):
        sb.rank(table, query("pk-topk", sb.CountWindow(1)))
    kept = sb.rank(table, query("pk-topk", sb.CountWindow(1)), on_bad="skip")
    assert kept["car"].to_pylist() == ["a"]


def test_threshold_belongs_to_pt_k() -> None:
    with pytest.raises(sb.QueryError, match="threshold"):
        sb.UncertainTopK(
            k=1, score="s", probability="p", window=sb.CountWindow(1), semantics="pt-k"
        )
    with pytest.raises(sb.QueryError, match="threshold"):
        sb.UncertainTopK(k=1, score="s", probability="p", window=sb.CountWindow(1), threshold=0.5)


def test_fewer_rows_than_k() -> None:
    table = RADAR.slice(0, 2)
    assert sb.rank(table, query("u-topk", sb.CountWindow(2), k=3)).num_rows == 0
    assert sb.rank(table, query("u-kranks", sb.CountWindow(2), k=3))["speed"].to_pylist() == [6, 5]
    assert sb.rank(table, query("pk-topk", sb.CountWindow(2), k=3))["speed"].to_pylist() == [5, 6]
