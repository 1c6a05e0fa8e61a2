"""Section 5 of the paper on FSW, in the form that holds, at the end of every pane."""

from __future__ import annotations

import random
from collections import Counter, deque
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.data.keys import hash_array
from skyband.frequency.fsw import Fsw
from skyband.frequency.kernels.fsw import SIZE, cell_of

PANES, ROWS = 4, 25


def pattern(name: str, seed: int) -> list[str]:
    rng = random.Random(seed)
    n = ROWS * 16
    if name == "zipf":
        return [f"i{min(int(rng.paretovariate(0.8)), 60)}" for _ in range(n)]
    if name == "distinct":
        return [f"i{i}" for i in range(n)]
    if name == "drift":
        return [f"i{i // 30 + rng.randrange(6)}" for i in range(n)]
    return [f"i{rng.randrange(40)}" for i in range(n)]


def pushed(items: list[str], algorithm: str, weights: list[int] | None = None) -> Any:
    """Push these rows one pane at a time; gives the synopsis after each pane."""
    query = sb.HeavyHitters(
        k=3, item="item", window=sb.CountWindow(PANES * ROWS, slide=ROWS), algorithm=algorithm,
        capacity=8, cells=12, weight=None if weights is None else "w",
        ratio=3 if algorithm == "fsw-r" else None,
    )  # fmt: skip
    monitor = sb.Monitor(query)
    for at in range(0, len(items), ROWS):
        columns: dict[str, Any] = {"item": items[at : at + ROWS]}
        if weights is not None:
            columns["w"] = weights[at : at + ROWS]
        monitor.push(pa.table(columns))
        monitor._check()
        yield at, monitor.session.synopsis


def cells(sketch: Fsw, items: list[str]) -> dict[str, int]:
    hashes = hash_array(pa.array(items))
    return {
        item: cell_of(h, len(sketch.fine)) // sketch.ratio
        for item, h in zip(items, hashes, strict=True)
    }


def monitored(sketch: Fsw) -> dict[str, int]:
    state = sketch.one(0)
    live = state.heap[: state.control[SIZE]]
    names = sketch.store.gather(live)["item:item"].to_pylist()
    return dict(zip(names, live.tolist(), strict=True))


@pytest.mark.nojit
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["zipf", "distinct", "drift", "uniform"])
@pytest.mark.parametrize("algorithm", ["fsw", "fsw-r"])
def test_lemmas_and_theorems(algorithm: str, name: str, weighted: bool) -> None:
    items = pattern(name, 5)
    rng = random.Random(1)
    weights = [rng.choice((0, 1, 1, 2, 9)) for _ in items] if weighted else None
    panes: deque[Counter[str]] = deque(maxlen=PANES)
    overflowed = False
    for at, sketch in pushed(items, algorithm, weights):
        pane: Counter[str] = Counter()
        for i in range(at, at + ROWS):
            pane[items[i]] += 1 if weights is None else weights[i]
        panes.append(pane)
        window: Counter[str] = Counter()
        for each in panes:
            window.update(each)
        state = sketch.one(0)
        cell, slots, alpha = cells(sketch, list(window)), monitored(sketch), state.hist
        mu = int(sketch.mu)
        overflowed |= mu > 0
        of_cell: Counter[int] = Counter()
        for item, count in window.items():
            of_cell[cell[item]] += count
        for item, count in window.items():
            if item in slots:  # Lemma 3, and the error is one
                slot = slots[item]
                assert state.base[slot] >= count >= state.base[slot] - state.err[slot]
            else:  # Lemma 2
                assert alpha[cell[item]] >= count
            if pane[item] > mu:  # Theorem 1, and at pane ends also Theorem 2
                assert item in slots
        own = cells(sketch, list(slots))
        for i in set(own.values()):
            known = [slot for item, slot in slots.items() if own[item] == i]
            sure = sum(int(state.base[slot] - state.err[slot]) for slot in known)
            assert of_cell[i] >= sure  # Lemma 5 with ratio
            if algorithm == "fsw":
                assert of_cell[i] >= alpha[i] + sure  # Lemma 5
                assert mu <= of_cell[i]  # Theorem 3
        if algorithm == "fsw" and mu > 0:  # Theorem 4
            inside, found = 0, 0
            for i, _ in of_cell.most_common():
                inside += sum(cell[item] == i for item in window)
                found = of_cell[i]
                if inside >= sketch.capacity:
                    break
            assert mu <= found
    assert overflowed


@pytest.mark.nojit
@pytest.mark.parametrize("algorithm", ["fsw", "fsw-r"])
def test_lemma_1_bounds_only_grow_while_a_pane_lasts(algorithm: str) -> None:
    items = pattern("zipf", 9)[: 6 * ROWS]
    before: tuple[Any, Any] | None = None
    for length in range(1, ROWS + 1):
        query = sb.HeavyHitters(
            k=1, item="item", time="t", window=sb.TimeWindow(PANES, 1), algorithm=algorithm,
            capacity=8, cells=12,
        )  # fmt: skip
        monitor = sb.Monitor(query)
        part = items[: 5 * ROWS + length]
        monitor.push(pa.table({"item": part, "t": [i // ROWS for i in range(len(part))]}))
        monitor.flush()
        sketch: Any = monitor.session.synopsis
        now = sketch.mu, sketch.hist.copy()
        if before is not None:
            assert now[0] >= before[0]
            assert (now[1] >= before[1]).all()
        before = now


@pytest.mark.nojit
def test_filtered_space_saving_with_one_cell_is_not_space_saving() -> None:
    rows = pa.table({"item": list("aabbc")})
    found = {}
    for name in ("ss", "fss"):
        query = sb.HeavyHitters(
            k=2, item="item", window=sb.CountWindow(5), algorithm=name, capacity=2,
            cells=1 if name == "fss" else None,
        )  # fmt: skip
        found[name] = sb.rank(rows, query)["item"].to_pylist()
    assert found == {"ss": ["c", "b"], "fss": ["a", "b"]}


@pytest.mark.nojit
def test_exact_needs_more_than_room_for_the_distinct_items() -> None:
    """Items that overflowed in a live pane still count, even if the others would fit."""
    query = sb.HeavyHitters(
        k=1, item="item", window=sb.CountWindow(8, slide=2), algorithm="fsw", capacity=2, cells=50
    )
    items = [*"ab", *"cd", *"ab", *"ab", *"ab", *"ab", *"ab"]
    exact = [answer.exact for answer in sb.watch(pa.table({"item": items}), query)]
    assert exact[0]
    assert not exact[1]
    assert exact[-1]


@pytest.mark.nojit
def test_removals_by_their_stay_add_up() -> None:
    for _, sketch in pushed(pattern("drift", 2), "fsw"):
        stats = sketch.stats()
        stays = [stats[f"stayed_{n}"] for n in (0, 1, 2, "more")]
        assert sum(stays) == stats["removals"]
        assert stats["inserts"] - stats["removals"] == stats["retained"]
    assert np.count_nonzero(stays) > 1
