"""UncertainTopK: numerically hard cases, long windows, long streams."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import skyband as sb
from oracle.uncertain import by_recursion
from support.semantics import Semantics
from support.uncertain_cases import ALGORITHMS, KINDS, THRESHOLD, of, query

Long = npt.NDArray[np.longdouble]
needs_long_double = pytest.mark.skipif(
    np.finfo(np.longdouble).maxexp <= np.finfo(np.float64).maxexp,
    reason="long double is no longer than double here",
)

# Small enough to underflow after one, two or many multiplications.
tiny = st.sampled_from((5e-324, 1e-300, 2e-200, 1e-30, 2e-12, 0.25, 0.999, 1 - 2**-53, 1.0))


# Small windows against exact rationals -----------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize("kind", KINDS)
@given(p=st.lists(tiny, min_size=1, max_size=30), k=st.integers(1, 32))
@settings(max_examples=60)
def test_tiny_chances_agree_with_exact_rationals(kind: str, p: list[float], k: int) -> None:
    rows = [{"speed": -i, "p": each} for i, each in enumerate(p)]
    threshold = THRESHOLD if kind == "pt-k" else None
    names: dict[str, Any] = {"score": "speed", "probability": "p", "semantics": kind}
    want = oracle.uncertain(rows, k, threshold=threshold, **names)
    positions, chances = of(kind, k).answer(p)
    wanted = [row["topk_probability"] for row in want]
    assert chances.tolist() == pytest.approx(wanted, rel=1e-9, abs=1e-322)
    if kind == "u-kranks":
        # Rows may differ only in digits that floats do not have: any of them may win.
        at_rank, _ = by_recursion([Fraction(each) for each in p], k)
        for rank, (row, best) in enumerate(zip(positions.tolist(), want, strict=True)):
            exact = at_rank[-best["speed"]][rank]
            assert exact * (1 - Fraction(1, 2**40)) <= at_rank[row][rank] <= exact


@pytest.mark.nojit
def test_ranks_too_unlikely_for_a_float_are_still_won_by_the_right_row() -> None:
    # 60 rows of about 1e-9: forty of them exist with a probability of about 1e-345. The row
    # likeliest to be the 40th is the last one, because most rows come before it.
    p = [1e-9] * 50 + [3e-9] + [1e-9] * 9
    positions, chances = Semantics("u-kranks", 40).answer(p)
    rows = [{"speed": -i, "p": each} for i, each in enumerate(p)]
    want = oracle.uncertain(rows, 40, score="speed", probability="p", semantics="u-kranks")
    assert positions.tolist() == [-row["speed"] for row in want]
    assert (positions[0], positions[-1]) == (50, 59)
    assert chances[-1] == 0.0
    assert chances[0] == pytest.approx(3e-9)


@pytest.mark.nojit
def test_vectors_too_unlikely_for_a_float_are_still_told_apart() -> None:
    # 40 rows of 1e-9: the best vector has a probability of 1e-360, which is 0 as a float.
    p = [1e-9] * 20 + [2e-9] * 40
    positions, chances = Semantics("u-topk", 40).answer(p)
    assert positions.tolist() == list(range(20, 60))
    assert chances.tolist() == [0.0] * 40


# Long windows against long double ----------------------------------------------------------------


class InLongDouble:
    """Probabilities of rows in row order, by definition, with 64-bit mantissas, wide exponents."""

    def __init__(self, p: npt.NDArray[np.float64], k: int) -> None:
        self.p, self.k = p.astype(np.longdouble), k

    def at_rank(self) -> Long:
        """The probability that each row has each rank."""
        r = np.zeros(self.k, np.longdouble)
        r[0] = 1
        found = np.zeros((len(self.p), self.k), np.longdouble)
        for i, p in enumerate(self.p):
            found[i] = p * r
            r[1:] = r[1:] * (1 - p) + r[:-1] * p
            r[0] *= 1 - p
        return found

    def vector(self, chosen: npt.NDArray[np.int64]) -> np.longdouble:
        """The probability of a vector."""
        there = np.zeros(len(self.p), np.bool_)
        there[chosen] = True
        upto = int(chosen.max()) + 1
        chance: np.longdouble = np.where(there, self.p, 1 - self.p)[:upto].prod()
        return chance

    def likeliest_vector(self) -> np.longdouble:
        """The greatest probability of any vector: the k likeliest rows of a prefix, no others."""
        best, absent = np.longdouble(0), np.longdouble(1)
        chosen: list[np.longdouble] = []  # ascending
        for p in self.p:
            bisect.insort(chosen, p)
            if len(chosen) > self.k:
                absent *= 1 - chosen.pop(0)
            if len(chosen) == self.k:
                best = max(best, np.prod(np.array(chosen)) * absent)
        return best


PROBABILITIES: dict[str, Callable[[np.random.Generator, int], npt.NDArray[np.float64]]] = {
    "uniform": lambda rng, n: 1.0 - rng.random(n),
    "1e-12": lambda rng, n: 1e-12 * (1 + rng.random(n)),
    "1e-6": lambda rng, n: 1e-6 * (1 + rng.random(n)),
    "1e-3": lambda rng, n: 1e-3 * (1 + rng.random(n)),
    "0.999": lambda rng, n: 1.0 - 1e-3 * rng.random(n),
    "1 - 1e-12": lambda rng, n: 1.0 - 1e-12 * rng.random(n),
    "0, 1": lambda rng, n: rng.choice([1e-15, 1.0 - 1e-15, 1.0], n, p=[0.9, 0.09, 0.01]),
    "certain": lambda rng, n: np.ones(n),
}


@needs_long_double
@pytest.mark.parametrize("k", [1, 20, 150])
@pytest.mark.parametrize("spread", PROBABILITIES)
def test_long_windows_agree_with_long_double(spread: str, k: int) -> None:
    p = PROBABILITIES[spread](np.random.default_rng(5), 2000)
    exact = InLongDouble(p, k)
    at_rank = exact.at_rank()
    in_topk = at_rank.sum(axis=1)
    ranked = np.sort(in_topk)[::-1]
    want: dict[str, Any] = {
        "pk-topk": ranked[:k],
        "pt-k": ranked[ranked >= THRESHOLD],
        "u-kranks": at_rank.max(axis=0),
        "u-topk": np.repeat(exact.likeliest_vector(), k),
    }
    for kind, chances in want.items():
        positions, found = of(kind, k).answer(p)
        assert ((found >= 0) & (found <= 1)).all()
        assert np.allclose(found, chances.astype(np.float64), rtol=1e-10, atol=1e-320), kind
        # The chosen rows have these probabilities, even where the answer shows 0.
        if kind == "u-kranks":
            own = at_rank[positions, np.arange(k)]
        elif kind == "u-topk":
            own = np.repeat(exact.vector(positions), k)
        else:
            own = in_topk[positions]
        assert (abs(own - chances) <= 1e-10 * chances).all(), kind


# Long streams ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [60_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_no_drift_over_a_long_stream(kind: str, n: int) -> None:
    # Every answer is computed from rank 1 over a prefix of ranks, so the last answer of a long
    # stream has the same digits as a fresh computation, whatever the synopsis.
    rng = np.random.default_rng(3)
    size = 1_000
    table = pa.table({"speed": rng.permutation(n), "p": 1.0 - rng.random(n), "car": np.arange(n)})
    fresh = sb.rank(table.slice(n - size), query(kind, sb.CountWindow(size), k=7))
    first: pa.Table | None = None
    for algorithm in ALGORITHMS:
        window = sb.CountWindow(size, slide=100)
        long = sb.rank(table, query(kind, window, k=7, algorithm=algorithm))
        assert first is None or long.equals(first), algorithm
        first = long
    assert first is not None
    last = first.filter(pc.equal(first["window_end"], n))
    places = ["window_start", "window_end"]
    assert last.drop(places).equals(fresh.drop(places))
