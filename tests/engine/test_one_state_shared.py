"""Queries of a board that keep one state: tables of groups, and summaries for the greatest k."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from test_one_state import compare, queries, states, stream

import skyband as sb
from skyband.engine import open_panes, small_pushes
from skyband.engine.fold import Fold
from skyband.engine.unions import Union


def test_groups_that_are_gone_are_forgotten_once_no_query_needs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Codes are freed and used again, when queries have parted, too."""
    made, rows = np.random.default_rng(12), 12_000
    time = np.arange(rows) // 10
    group = 20 * (time // 4) + made.integers(0, 40, rows)
    table = pa.table(
        {"t": time, "id": np.arange(rows), "x": made.integers(0, 50, rows), "g": group}
    )
    named = queries("groups", [sb.TimeWindow(40, slide=20), sb.TimeWindow(90, slide=15)])
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
