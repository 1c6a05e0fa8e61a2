"""How many rows the selection of the best rows looks at: the speed, not the answer.

A listener notes what the kernel does with each run, in order:

    ("scan", m)      it compared all rows with a cut, which m of them reach
    ("rank", n, d)   it looked for the d-th greatest of n keys
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from skyband.kernels import select
from skyband.kernels.sorting import kth_greatest
from support.uncompiled import UNCOMPILED

pytestmark = UNCOMPILED

NO_TIE = np.empty(0, np.int64)
K, AIM = 10, 20  # 10 + 3 * sqrt(10) + 1
PLENTY = K + 2 * (AIM - K) + 8
SAMPLE = ("rank", 64, 3 * 64 * K // (2 * 200) + 3)  # of a run of 200 rows
Step = tuple[Any, ...]


class Heard:
    """The steps of each run, and the values that were ranked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[Step] = []
        self.ranked: list[list[int]] = []
        scan, kth = select._scan, kth_greatest

        def scanning(*args: Any) -> int:
            m: int = scan(*args)
            self.steps.append(("scan", m))
            return m

        def ranking(values: Any, spare: Any, n: int, k: int) -> Any:
            self.steps.append(("rank", n, k))
            self.ranked.append(values[:n].tolist())
            return kth(values, spare, n, k)

        monkeypatch.setattr(select, "_scan", scanning)
        monkeypatch.setattr(select, "kth_greatest", ranking)

    def of(self, runs: Sequence[Sequence[float]], k: int = K) -> list[Step]:
        """The steps for these runs; the best rows are checked too."""
        self.steps, self.ranked = [], []
        score = np.array([x for run in runs for x in run])
        offsets = np.cumsum([0, *map(len, runs)])
        found, ends = select.select_runs(score, NO_TIE, offsets, k, True)
        for number, run in enumerate(runs):
            mine = score[found[ends[number] : ends[number + 1]]]
            assert sorted(mine.tolist(), reverse=True) == sorted(run, reverse=True)[:k]
        return self.steps


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    return Heard(monkeypatch)


def shuffled(seed: int, n: int = 200) -> list[int]:
    """The numbers below n, each once, so that x is reached by n - x of them."""
    return random.Random(seed).sample(range(n), n)


def begins_with(first: int, seed: int, n: int = 200) -> list[int]:
    """The numbers below n in a random order, but this one first: it is the first guess."""
    run = shuffled(seed, n)
    run.remove(first)
    return [first, *run]


def test_a_good_guess_costs_one_scan(heard: Heard) -> None:
    # 20 rows reach the guess, which stays good: it is not even learnt again.
    runs = [begins_with(180, 0), *(shuffled(seed) for seed in range(1, 20))]
    assert heard.of(runs) == [("scan", 20), ("rank", 20, K)] * 20


@pytest.mark.parametrize("reach", [K, PLENTY])
def test_a_guess_is_kept_while_neither_too_few_nor_plenty_reach_it(
    heard: Heard, reach: int
) -> None:
    runs = [begins_with(200 - reach, 0), shuffled(1)]
    assert heard.of(runs) == [("scan", reach), ("rank", reach, K)] * 2


def test_a_guess_that_plenty_reach_rises(heard: Heard) -> None:
    much = PLENTY + 1
    steps = heard.of([begins_with(200 - much, 0), shuffled(1)])
    assert steps[:3] == [("scan", much), ("rank", much, K), ("rank", much, AIM)]
    assert steps[3:] == [("scan", AIM), ("rank", AIM, K)]


@pytest.mark.parametrize("reach", [4 * AIM, 4 * AIM + 1])
def test_a_guess_that_too_many_reach_is_replaced_by_a_sample(heard: Heard, reach: int) -> None:
    steps = heard.of([begins_with(200 - reach, 0)])
    if reach == 4 * AIM:
        assert steps == [("scan", reach), ("rank", reach, K), ("rank", reach, AIM)]
    else:
        (scan, m), *rest = steps[2:]
        assert steps[:2] == [("scan", reach), SAMPLE]
        assert scan == "scan"
        assert rest == [("rank", m, K), ("rank", m, min(AIM, m))]


def test_a_guess_that_too_few_reach_is_replaced_by_a_sample(heard: Heard) -> None:
    steps = heard.of([begins_with(200 - K + 1, 0), shuffled(1)])
    assert steps[:2] == [("scan", K - 1), SAMPLE]
    m = steps[2][1]
    assert K <= m <= 4 * AIM
    assert steps[2:5] == [("scan", m), ("rank", m, K), ("rank", m, min(AIM, m))]
    # A miss: the next run takes a sample at once.
    assert steps[5] == SAMPLE


def test_after_misses_a_guess_is_tried_for_one_run_in_sixteen(heard: Heard) -> None:
    # The first guess is too high. Then a guess is learnt, but not used before run 16, where it is
    # good; from there on each run needs one scan.
    runs = [begins_with(199, 0), *(shuffled(seed) for seed in range(1, 20))]
    steps = heard.of(runs)
    tries = [at for at, step in enumerate(steps) if step == SAMPLE]
    assert len(tries) == 16
    assert all(b - a == 4 for a, b in itertools.pairwise(tries[1:]))
    last = steps[tries[-1] + 4 :]
    m = last[0][1]
    assert last == [("scan", m), ("rank", m, K)] * 4


def test_one_miss_is_forgiven(heard: Heard) -> None:
    # Run 1 lies far below the guess: a miss. Run 2 tries the guess again, and run 3 too.
    good = [begins_with(180, 0), *([shuffled(seed) for seed in (1, 2, 3)])]
    runs = [good[0], [x - 500 for x in good[1]], good[2], good[3]]
    steps = heard.of(runs)
    assert steps[:4] == [("scan", 20), ("rank", 20, K), ("scan", 0), SAMPLE]
    # What was learnt there is far too low a guess for the next run: a second miss in a row.
    assert steps[7:9] == [("scan", 200), SAMPLE]
    assert steps[12] == SAMPLE, "after two misses no guess is tried"


@pytest.mark.parametrize(
    ("n", "first"),
    [
        (K, None),
        (K + 1, ("rank", K + 1, K)),
        (127, ("rank", 127, K)),
        (128, ("scan", 20)),
        (4095, ("scan", 20)),
    ],
)
def test_short_runs_are_searched_as_a_whole(
    heard: Heard, n: int, first: tuple[Any, ...] | None
) -> None:
    steps = heard.of([begins_with(max(n - 20, 0), 0, n)])
    assert steps[:1] == ([first] if first else [])
    if n < 128:
        assert len(steps) == (1 if first else 0)


@pytest.mark.parametrize(("k", "whole"), [(70, False), (71, True)])
def test_a_cut_that_most_rows_reach_does_not_pay(heard: Heard, k: int, whole: bool) -> None:
    # k = 70 aims at 96 rows, just three quarters of 128.
    steps = heard.of([begins_with(128 - 90, 0, 128)], k)
    assert steps[0] == (("rank", 128, k) if whole else ("scan", 90))


@pytest.mark.parametrize(("n", "size"), [(128, 64), (4095, 64), (4096, 256)])
def test_a_sample_takes_a_row_of_each_stretch(heard: Heard, n: int, size: int) -> None:
    # Rising scores are their own positions: the keys of floats are in the same order.
    steps = heard.of([[float(n), *map(float, range(1, n))]])
    depth = 3 * size * K // (2 * n) + 3
    assert steps[:2] == [("scan", 1), ("rank", size, depth)]
    taken = np.array(heard.ranked[0]).view(np.float64)
    width = n // size
    places = np.where(taken == n, 0, taken).astype(int)
    assert (places // width).tolist() == list(range(size))
    within = np.bincount(places % width, minlength=width)
    if width == 2:
        assert within.min() > size // 4
    else:
        assert (within > 0).sum() > min(size, width) // 3
        assert within.max() < size // 4 + 2


def test_a_sample_of_the_best_rows_alone_is_no_help(heard: Heard) -> None:
    # The sampled places are always the same. If the best 18 rows are among them and k is 20, too
    # few rows reach the sample's cut, and the whole run is searched.
    n, k = 128, 20
    heard.of([[float(n), *map(float, range(1, n))]], k)
    taken = np.array(heard.ranked[0]).view(np.float64).astype(int) % n
    depth = 3 * 64 * k // (2 * n) + 3
    run = [float(i) for i in range(n)]
    for place in taken[-depth:]:
        run[place] += 1000.0
    run[0] = 5000.0  # the first guess: nothing else reaches it
    steps = heard.of([run], k)
    assert steps[:2] == [("scan", 1), ("rank", 64, depth)]
    assert steps[2][0] == "scan"
    assert depth <= steps[2][1] < k
    assert steps[3:] == [("rank", n, k)]


def test_rows_that_equal_the_cut_are_not_ranked(heard: Heard) -> None:
    # 100 rows equal the guess and 5 are better: the tenth best is the guess itself.
    runs = [[1.0] * 95 + [0.0] * 95 + [2.0] * 5 + [1.0] * 5, [1.0] * 100 + [0.0] * 100]
    score = np.array([x for run in runs for x in run])
    found, ends = select.select_runs(score, NO_TIE, np.array([0, 200, 400]), K, True)
    assert found.tolist() == [*range(190, 200), *range(290, 300)]
    assert ends.tolist() == [0, 10, 20]
    assert heard.steps == [("scan", 105), ("scan", 100)]
