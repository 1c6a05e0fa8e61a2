"""Queries of a board that keep one state: tables of groups, and summaries for the greatest k."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_one_state import Window, compare, differing_windows, queries, shown, states, stream

import skyband as sb
from skyband.engine import groups, open_panes, small_pushes
from skyband.engine.fold import Fold
from skyband.engine.unions import Union

BY_GROUP = pytest.mark.parametrize("kind", ["groups", "Skyline by group"])


@BY_GROUP
def test_groups_that_are_gone_are_forgotten_once_no_query_needs_them(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Codes are freed and used again, when queries have parted, too."""
    made, rows = np.random.default_rng(12), 12_000
    time = np.arange(rows) // 10
    group = 20 * (time // 4) + made.integers(0, 40, rows)
    table = pa.table(
        {"t": time, "id": np.arange(rows), "x": made.integers(0, 50, rows), "g": group}
    ).append_column("y", pa.array(made.integers(0, 50, rows)))
    named = queries(kind, [sb.TimeWindow(40, slide=20), sb.TimeWindow(90, slide=15)])
    together = sb.Monitor(named)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    compare(together, alone, table.slice(0, 6_000), 500)
    together = sb.Monitor.restore(together.snapshot())
    compare(together, alone, table.slice(6_000, 4_000), 500)
    folds = [session.fold for session in together.board.sessions.values()]
    first, second = [fold.groups for fold in folds if fold is not None]
    assert first is second
    assert len(first) < 3_000 < len(np.unique(group[:10_000]))
    assert states(together)[0] is not None
    rows_of_two = table.slice(9_998, 2).set_column(0, "t", pa.array([1_055, 1_045]))
    compare(together, alone, rows_of_two, 1)  # slides of 15 are sealed to 1,050, those of 20 not
    assert states(together) == [None, None]
    later = table.set_column(0, "t", pa.array(time + 1_060))
    monkeypatch.setattr(Union, "_unite", lambda _: True)  # they never come together
    compare(together, alone, later, 500)
    assert states(together) == [None, None]
    first, second = [fold.groups for fold in folds if fold is not None]
    assert first is second
    assert len(first) < 3_000


@BY_GROUP
@settings(max_examples=10, deadline=None)
@given(
    windows=differing_windows(counting=False),
    seed=st.integers(0, 1000),
    drift=st.integers(1, 9),
    late=st.sampled_from([0, 2, 12]),
    step=st.sampled_from([5, 40]),
)
def test_groups_that_come_and_go(
    kind: str, windows: list[Window], seed: int, drift: int, late: int, step: int
) -> None:
    """Groups are forgotten, and their codes used again, as soon as there are two times as many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "_FEW", 2)
        named = queries(kind, windows)
        together = sb.Monitor(named)
        alone = {name: sb.Monitor(query) for name, query in named.items()}
        table = stream(seed, 160, late)
        group = table["t"].to_numpy() // drift + np.random.default_rng(seed).integers(0, 3, 160)
        table = table.set_column(table.column_names.index("g"), "g", pa.array(group))
        for low in range(0, 160, 40):
            compare(together, alone, table.slice(low, 40), step)
            for name, monitor in alone.items():
                for last in (None, 2):
                    assert shown([together.peek(name, last)]) == shown([monitor.peek(last)]), name
            if seed % 2:
                together = sb.Monitor.restore(together.snapshot())
                alone = {n: sb.Monitor.restore(each.snapshot()) for n, each in alone.items()}


@BY_GROUP
def test_a_state_drops_what_it_has_of_groups_that_are_forgotten(kind: str) -> None:
    """A batch may end several windows of one query, while another one has not sealed as much."""
    together = sb.Monitor(queries(kind, [sb.TimeWindow(40, slide=20), sb.TimeWindow(60, slide=15)]))
    together.push(stream(3, 400))
    one = states(together)[0]
    before = np.bincount(one.rows().group, one.rows().parts["rows"].lengths, minlength=5)
    assert one.sizes[3] > 0 < one.sizes[4]
    dropped = one.sizes[[1, 3]].sum()
    one.forget(np.array([1, 3], np.int32))
    one._check()
    after = np.bincount(one.rows().group, one.rows().parts["rows"].lengths, minlength=5)
    assert before.sum() - after.sum() == dropped
    assert after[[0, 2, 4]].tolist() == before[[0, 2, 4]].tolist()
    assert one.sizes[[1, 3]].tolist() == [0, 0]


def test_operations_are_counted_on_when_queries_part_or_are_restored() -> None:
    """By queries that keep one state, whose groups have no counts of their own."""
    names = ("comparisons", "redundant", "expired", "edges")
    named = queries("Skyline by group", [sb.TimeWindow(40, slide=20), sb.TimeWindow(60, slide=15)])
    together = sb.Monitor(named)
    table = stream(3, 400)
    together.push(table)
    done = {name: {count: together.stats()[name][count] for count in names} for name in named}
    assert min(done["q0"].values()) > 0
    again = sb.Monitor.restore(together.snapshot())
    assert {n: {count: again.stats()[n][count] for count in names} for n in named} == done
    again = sb.Monitor.restore(again.snapshot())
    again.push(table.slice(0, 0))  # they keep one state again
    assert states(again)[0] is not None
    assert {n: {count: again.stats()[n][count] for count in names} for n in named} == done
    (family,) = together.board._families.values()
    family.part()
    assert states(together) == [None, None]
    assert {n: {count: together.stats()[n][count] for count in names} for n in named} == done
    together._check()


def test_summaries_for_the_greatest_k_are_narrowed_when_queries_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first query asks for less than the second, which has the same panes."""
    monkeypatch.setattr(open_panes, "_MOST_PIECES", 1)
    monkeypatch.setattr(small_pushes, "_MOST_ROWS", 0)
    windows = [
        sb.TimeWindow(40, slide=20),
        sb.TimeWindow(40, slide=20),
        sb.TimeWindow(60, slide=15),
    ]
    named = queries("TopK", windows)
    together = sb.Monitor(named)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    table = stream(13, 200)
    time = np.append(np.arange(199) // 4, 42)  # 42 is late for the slide of 15 only
    compare(together, alone, table.set_column(0, "t", pa.array(time)).slice(0, 199), 7)
    again = sb.Monitor.restore(together.snapshot())
    folds = [session.fold for session in again.board.sessions.values()]
    assert [_most(fold) for fold in folds[:2]] == [1, 3]  # each has its own in a snapshot
    monkeypatch.setattr(open_panes, "_MOST_PIECES", 64)
    compare(together, alone, table.set_column(0, "t", pa.array(time)).slice(199), 1)
    assert states(together) == [None] * 3
    folds = [session.fold for session in together.board.sessions.values()]
    assert [_most(fold) for fold in folds[:2]] == [1, 3]
    compare(together, alone, table.set_column(0, "t", pa.array(time + 60)), 50)


def _most(fold: Fold | None) -> int:
    """The most rows that an open pane of a query has."""
    assert fold is not None
    return max(int(runs.parts["rows"].lengths.max()) for runs in fold.open.pieces)
