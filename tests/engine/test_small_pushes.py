"""A push that ends no pane does little: it leaves the open panes as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.contract.runs import Part, Runs
from skyband.engine.open_panes import OpenPanes

QUERIES = [
    sb.TopK(k=2, score="x", time="t", window=sb.TimeWindow(20, slide=10)),
    sb.HeavyHitters(k=2, item="id", time="t", window=sb.TimeWindow(20, slide=10)),
    sb.TopK(k=2, score="x", window=sb.CountWindow(20, slide=10)),
]


def row(t: int) -> pa.Table:
    return pa.table({"t": [t], "id": [t % 3], "x": [float(t * 7 % 11)]})


@pytest.mark.parametrize("query", QUERIES, ids=["topk", "items", "count"])
def test_open_panes_are_looked_at_only_when_one_ends(
    query: sb.Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    split = OpenPanes.split

    def spy(self: OpenPanes, *given: Any) -> Any:
        looked.append(1)
        return split(self, *given)

    monkeypatch.setattr(OpenPanes, "split", spy)
    monitor = sb.Monitor(query)
    got = []
    for t in range(200):
        got += monitor.push(row(t))
        if t == 8:
            assert not looked  # not before the first window ends, either
    assert len(looked) < 45  # about two of ten pushes
    want = sb.rank(pa.concat_tables([row(t) for t in range(200)]), query)
    tables = pa.concat_tables([a.table.cast(want.schema) for a in [*got, *monitor.flush()]])
    assert tables.equals(want)


def summary(pane: int, rows: int = 1) -> Runs:
    part = Part(np.array([0, rows]), {"x": np.zeros(rows)})
    return Runs(np.array([pane]), np.zeros(1, np.int32), {"rows": part}, {"rows": np.array([rows])})


def test_the_first_open_pane_is_known_after_every_change() -> None:
    panes = OpenPanes(lambda runs: runs.united())
    assert panes.least > 1 << 60
    for pane in (7, 5, 6):
        panes.take(summary(pane))
    assert panes.least == 5
    before = list(panes.pieces)
    _, rest = panes.split(lambda runs: runs.stamp < 6)
    panes.keep(rest)
    assert panes.least == 6
    panes.pieces = before  # as after a push that failed
    assert panes.least == 5


def test_pieces_are_combined_once_their_rows_have_doubled() -> None:
    panes = OpenPanes(lambda runs: runs.united())
    for _ in range(8):
        panes.take(summary(1, 60_000))
    assert len(panes.pieces) <= 3
    assert sum(len(p.parts["rows"]) for p in panes.pieces) == 480_000
