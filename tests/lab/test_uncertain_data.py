"""Uncertain streams: the generators, and real streams if SKYBAND_DATA names their folder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb
from lab.datasets.real import data_folder
from lab.datasets.uncertain import METHODS, fires, icebergs, random_order, worst_order

needs_data = pytest.mark.skipif(data_folder() is None, reason="SKYBAND_DATA is not set")


def test_random_order_is_seeded_and_has_distinct_scores() -> None:
    table = random_order(1000, seed=4)
    assert table.equals(random_order(1000, seed=4))
    assert sorted(table["score"].to_pylist()) == list(range(1, 1001))
    assert 0 < min(table["p"].to_pylist()) <= max(table["p"].to_pylist()) <= 1


def test_in_the_worst_order_every_row_is_kept() -> None:
    # Scores and probabilities fall, so each row is in some answer: nothing can be dropped.
    table = worst_order(400)
    query = sb.UncertainTopK(
        k=2, score="score", probability="p", id="id", window=sb.CountWindow(100, slide=1)
    )
    monitor = sb.Monitor(query)
    seen: set[int] = set()
    for answer in monitor.push(table):
        seen |= set(answer.table["id"].to_pylist())
    assert seen >= set(range(302))  # all rows that have been the second oldest
    assert monitor.stats()["retained"] >= 90


@needs_data
def test_icebergs_have_the_paper_s_probabilities() -> None:
    table = icebergs()
    assert set(table["p"].to_pylist()) <= set(METHODS.values())
    assert min(table["score"].to_pylist()) == 0.0
    settings: dict[str, Any] = {"score": "score", "probability": "p", "id": "id", "time": "ts"}
    settings["window"] = sb.TimeWindow("30 days", slide="5 days")
    ours, base = (
        sb.rank(table, sb.UncertainTopK(k=5, **settings, algorithm=name))
        for name in ("scsq-buffer", "bs")
    )
    assert ours.num_rows > 100
    assert ours.equals(base)


@needs_data
def test_fires_come_out_of_order_and_some_are_bad_rows() -> None:
    table = fires().slice(0, 20_000)
    times = table["ts"].cast(pa.int64()).to_numpy()
    assert (np.diff(times) < 0).any()
    bad = int(pc.sum(pc.equal(table["p"], 0.0)).as_py())
    assert bad > 0
    settings: dict[str, Any] = {"score": "score", "probability": "p", "id": "id", "time": "ts"}
    settings["k"] = 3
    window = sb.TimeWindow("6 hours", slide="1 hour", lateness="2 days")
    monitor = sb.Monitor(sb.UncertainTopK(window=window, **settings), on_bad="skip")
    tables = []
    for start in range(0, table.num_rows, 1000):
        tables += [answer.table for answer in monitor.push(table.slice(start, 1000))]
    tables += [answer.table for answer in monitor.flush()]
    assert monitor.stats()["rows_bad"] == bad
    assert monitor.stats()["rows_late"] == 0
    with pytest.warns(sb.SkybandWarning):
        sorted_first = sb.rank(table, sb.UncertainTopK(window=window, **settings), on_bad="skip")
    assert pa.concat_tables(tables).equals(sorted_first)
