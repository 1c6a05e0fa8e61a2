"""HeavyHitters of a board with groups that keep one set of pane counts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.engine import who_shares
from skyband.frequency import shared_groups
from skyband.frequency.grouped import GroupedCounts
from skyband.frequency.shared_groups import GroupView, SharedGroups
from skyband.frequency.shared_tapes import GroupTapes, TapeView


def stream(seed: int, count: int, items: int, groups: int, late: int = 0) -> pa.Table:
    """Groups come and go; many items tie, and some rows have no weight."""
    made = np.random.default_rng(seed)
    time = np.cumsum(made.choice([0, 1, 2, 25], count, p=[0.8, 0.1, 0.09, 0.01]))
    item = (items * made.random(count) ** 2).astype(np.int64)
    group = (made.random(count) ** 2 * groups).astype(np.int64) + time // 30
    return pa.table(
        {
            "t": time - made.integers(0, late + 1, count),
            "g": [f"g{n % 97}" for n in group],
            "n": item,
            # Long names with a common beginning: order keys do not decide between them.
            "id": [f"a long common beginning {i:03}" for i in item],
            # Keys that do not fit half of an integer beside a count.
            "wide": (item - items // 2) << 40,
            "w": made.integers(0, 5, count),
            "heavy": made.integers(0, 5, count) << 40,
            "f": made.random(count),
        }
    )


def board(windows: list[Any], **settings: Any) -> dict[str, sb.HeavyHitters]:
    return {
        f"q{i}": sb.HeavyHitters(k=1 + 2 * i, time="t", by=("g",), window=window, **settings)
        for i, window in enumerate(windows)
    }


def states(monitor: sb.Monitor) -> list[Any]:
    sessions = monitor.board.sessions.values()
    return [session.synopsis.counts for session in sessions]  # type: ignore[attr-defined]


def shown(answers: Any) -> list[Any]:
    return [
        (a.start, a.end, a.table.to_pylist(), a.changes.to_pylist(), a.total, a.exact, a.bounds)
        for a in answers
    ]


@st.composite
def differing_windows(draw: st.DrawFn) -> list[sb.TimeWindow]:
    slides = draw(st.sampled_from([[3], [2, 3, 4, 6], [5, 10, 20]]))
    found = []
    for _ in range(draw(st.integers(2, 4))):
        slide = draw(st.sampled_from(slides))
        size, offset = draw(st.integers(slide + 1, 40)), draw(st.sampled_from([0, 0, 1]))
        found.append(sb.TimeWindow(size, slide=slide, lateness=2, offset=offset))
    return found


def alike(together: sb.Monitor, alone: dict[str, sb.Monitor], batch: pa.Table, item: str) -> None:
    """Push a batch to a board and to each query alone, and compare all that can be read."""
    found = together.push(batch)
    for name, monitor in alone.items():
        own = monitor.push(batch)
        assert shown([a for a in found if a.name == name]) == shown(own), name
        counts, mine = together.stats()[name], monitor.stats()
        for count in ("retained", "rows_late", "rows_unused", "windows_out"):
            assert counts[count] == mine[count], (name, count)
        for last in (None, 3):
            assert shown([together.peek(name, last)]) == shown([monitor.peek(last)]), name
        if len(batch):
            key, group = batch[item][0].as_py(), batch["g"][0].as_py()
            place = together.position(key, group=group, name=name)
            assert place == monitor.position(key, group=group)
    together._check()


@settings(max_examples=25, deadline=None)
@given(
    windows=differing_windows(),
    item=st.sampled_from(["n", "id", "wide"]),
    weight=st.sampled_from([None, "w", "heavy"]),
    keep=st.sampled_from([(), (), ("f",)]),
    groups=st.sampled_from([1, 4, 60]),
    items=st.sampled_from([3, 40]),
    late=st.sampled_from([0, 2, 2, 9]),
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, 300), max_size=4),
    step=st.sampled_from([0, 0, 4]),
    room=st.sampled_from([1, 1 << 24]),
    moving=st.sampled_from([None, None, 1, 2]),
)
def test_boards_answer_as_their_queries_do(
    windows: list[sb.TimeWindow], item: str, weight: str | None, keep: tuple[str, ...],
    groups: int, items: int, late: int, seed: int, cuts: list[int], step: int, room: int,
    moving: int | None,
) -> None:  # fmt: skip
    """With rows that are late for some queries and not for others, they part, and go on alone.

    Sums move with the windows, or are counted for each window, or both in turns.
    """
    named = board(windows, item=item, weight=weight, keep=keep, proof=seed % 3 == 0)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    together = sb.Monitor(named)
    table = stream(seed, 300, items, groups, late)
    edges = sorted({0, *cuts, 300, *(range(0, 40, step) if step else ())})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_groups, "_MOST_ROOM", room)
        for i, (low, high) in enumerate(pairwise(edges)):
            if moving is not None:
                patch.setattr(shared_groups, "_NUMBER", 0 if i % moving else 10**6)
                patch.setattr(shared_groups, "_SCAN", 10**6 if i % moving else 0)
            alike(together, alone, table.slice(low, high - low), item)
            if seed % 2:
                together = sb.Monitor.restore(together.snapshot())
                for name, monitor in alone.items():
                    assert shown([together.peek(name)]) == shown([monitor.peek()]), name
        found = together.flush()
        for name, monitor in alone.items():
            assert shown([a for a in found if a.name == name]) == shown(monitor.flush()), name


SAME = [sb.TimeWindow(size, slide=10) for size in (20, 50, 70, 120)]
SLIDES = [
    sb.TimeWindow(size, slide=slide) for size, slide in [(60, 10), (300, 15), (45, 10), (200, 25)]
]


@pytest.mark.parametrize("windows", [SAME, SLIDES], ids=["same slides", "slides"])
@pytest.mark.parametrize("keep", [(), ("f",)])
def test_one_set_of_lists_is_kept_and_goes_on(windows: list[Any], keep: tuple[str, ...]) -> None:
    named = board(windows, item="n", keep=keep)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    together = sb.Monitor(named)
    table = stream(5, 3_000, 40, 9)
    for low in range(0, 3_000, 250):
        if low == 1_500:
            (kept,) = together.board.kept_together()
            assert kept[0] == list(named)
            together = sb.Monitor.restore(sb.Monitor.restore(together.snapshot()).snapshot())
        alike(together, alone, table.slice(low, 250), "n")
        assert all(isinstance(state, GroupView) for state in states(together))
        (lists,) = {state.lists for state in states(together)}
    assert isinstance(lists, SharedGroups)
    assert lists.removals > 1_000
    assert "keeps one set of pane counts with q1, q2, q3" in sb.explain(named)


def test_sums_move_where_a_window_has_many_panes_of_the_same_items() -> None:
    made = np.random.default_rng(1)
    columns = {"n": made.integers(0, 5, 20_000), "g": made.integers(0, 3, 20_000)}
    table = pa.table({"t": np.arange(20_000) // 40, **columns})
    named = board([sb.TimeWindow(size, slide=1) for size in (50, 150)], item="n")
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    together = sb.Monitor(named)
    for low in range(0, 20_000, 1_000):
        alike(together, alone, table.slice(low, 1_000), "n")
    assert all(state.sums is not None for state in states(together))


def test_ten_queries_keep_little_more_than_the_largest_one() -> None:
    made = np.random.default_rng(3)
    rows = 60_000
    item, group = (made.random(rows) ** 3 * 500).astype(np.int64), made.integers(0, 40, rows)
    table = pa.table({"t": np.arange(rows) // 100, "n": item, "g": group})
    named = board([sb.TimeWindow(60 * n, slide=10) for n in range(1, 11)], item="n")
    together, largest = sb.Monitor(named), sb.Monitor(named["q9"])
    for monitor in (together, largest):
        for low in range(0, rows, 5_000):
            monitor.push(table.slice(low, 5_000))
    assert together.stats()["state_bytes"] <= 1.3 * largest.stats()["state_bytes"]


def test_groups_that_are_gone_are_forgotten_and_their_codes_used_again() -> None:
    made, rows = np.random.default_rng(12), 12_000
    time = np.arange(rows) // 10
    group = 20 * (time // 4) + made.integers(0, 40, rows)
    table = pa.table({"t": time, "n": made.integers(0, 50, rows), "g": group})
    named = board([sb.TimeWindow(40, slide=20), sb.TimeWindow(90, slide=15)], item="n")
    together = sb.Monitor(named)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    for low in range(0, 10_000, 500):
        alike(together, alone, table.slice(low, 500), "n")
    (lists,) = {state.lists for state in states(together)}
    assert lists.groups < 3_000 < len(np.unique(group[:10_000]))
    two = table.slice(9_998, 2).set_column(0, "t", pa.array([1_055, 1_045]))
    for low in (0, 1):  # slides of 15 are sealed up to 1,050, those of 20 are not
        alike(together, alone, two.slice(low, 1), "n")
    assert all(type(state) is GroupedCounts for state in states(together))
    alike(
        together, alone, table.slice(10_000).set_column(0, "t", pa.array(time[-2_000:] + 60)), "n"
    )


@pytest.mark.parametrize(("weight", "shared"), [("w", True), ("f", False)])
def test_only_whole_numbers_are_counted_together(weight: str, shared: bool) -> None:
    named = board(SAME, item="n", weight=weight)
    together = sb.Monitor(named)
    together.push(stream(5, 500, 30, 4))
    assert all(isinstance(state, GroupView) is shared for state in states(together))


def test_who_keeps_one_state() -> None:
    window = sb.TimeWindow
    windows = [window(20, slide=10), window(60, slide=5), window(10), window(5, slide=10)]
    named = board([*windows, window(60, slide=10, lateness=5)], item="n")
    (family,) = who_shares.families(named)
    assert who_shares.unions(named, family) == [["q0", "q1"]]
    lines = sb.explain(named).split("\n")
    assert [lines[3 * i + 3].partition("; ")[2] for i in range(5)] == [
        "keeps one set of pane counts with q1, cut wherever a window of any of them begins or ends",
        "keeps one set of pane counts with q0, cut wherever a window of any of them begins or ends",
        "keeps its own counts, as its window has a single pane",
        "keeps its own counts, as its window has gaps between its slides",
        "keeps its own counts: no other has the same lateness and panes that fit",
    ]


def test_many_items_of_a_group_are_sorted_and_the_best_found() -> None:
    """More than are compared one with another, and than fit the room for those that may win."""
    made = np.random.default_rng(4)
    item = (made.random(40_000) ** 2 * 6_000).astype(np.int64)
    table = pa.table({"t": np.arange(40_000) // 20, "n": item, "g": made.integers(0, 2, 40_000)})
    windows = [sb.TimeWindow(size, slide=500) for size in (1_000, 1_500)]
    for k in (1, 100, 700, 9_000):
        named = {
            f"q{i}": sb.HeavyHitters(k=k, item="n", by=("g",), time="t", window=window)
            for i, window in enumerate(windows)
        }
        found = sb.rank(table, named)
        for name, query in named.items():
            assert found[name].equals(sb.rank(table, query)), (k, name)


@st.composite
def count_windows(draw: st.DrawFn) -> list[sb.CountWindow]:
    slides = draw(st.sampled_from([[3], [2, 3, 4, 6], [5, 10, 20]]))
    chosen = draw(st.lists(st.sampled_from(slides), min_size=2, max_size=4))
    return [sb.CountWindow(draw(st.integers(each + 1, 40)), slide=each) for each in chosen]


@settings(max_examples=20, deadline=None)
@given(
    windows=count_windows(),
    item=st.sampled_from(["n", "id", "wide"]),
    weight=st.sampled_from([None, "w", "heavy"]),
    keep=st.sampled_from([(), (), ("f",)]),
    groups=st.sampled_from([1, 4, 60]),
    items=st.sampled_from([3, 40]),
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, 120), max_size=4),
    step=st.sampled_from([0, 0, 4]),
)
def test_boards_over_count_windows_answer_as_their_queries_do(
    windows: list[sb.CountWindow], item: str, weight: str | None, keep: tuple[str, ...],
    groups: int, items: int, seed: int, cuts: list[int], step: int,
) -> None:  # fmt: skip
    named = board(windows, item=item, weight=weight, keep=keep, proof=seed % 3 == 0)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    together = sb.Monitor(named)
    table = stream(seed, 120, items, groups)
    edges = sorted({0, *cuts, 120, *(range(0, 16, step) if step else ())})
    for low, high in pairwise(edges):
        alike(together, alone, table.slice(low, high - low), item)
        if seed % 2:
            together = sb.Monitor.restore(together.snapshot())
            for name, monitor in alone.items():
                assert shown([together.peek(name)]) == shown([monitor.peek()]), name
            together.push(table.slice(0, 0))  # they keep one state again
    assert all(isinstance(state, TapeView) for state in states(together))


def test_ten_queries_over_count_windows_keep_no_more_than_the_largest_one() -> None:
    made, rows = np.random.default_rng(3), 60_000
    item, group = (made.random(rows) ** 3 * 500).astype(np.int64), made.integers(0, 40, rows)
    table = pa.table({"t": np.arange(rows), "n": item, "g": group})
    named = board([sb.CountWindow(60 * n, slide=30) for n in range(1, 11)], item="n")
    together, largest = sb.Monitor(named), sb.Monitor(named["q9"])
    for monitor in (together, largest):
        for low in range(0, rows, 5_000):
            monitor.push(table.slice(low, 5_000))
    (lists,) = {state.lists for state in states(together)}
    assert isinstance(lists, GroupTapes)
    assert together.stats()["state_bytes"] <= largest.stats()["state_bytes"]
    assert "keeps one set of pane counts with q1" in sb.explain(named)
