"""``ties="share"``: equal scores or counts share a rank."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from support import conformance, spark_session, streams

CASES: list[Any] = [
    ("TopK", {"k": 4, "score": "price", "id": "id", "time": "ts", "ties": "share"}),
    ("TopK", {"k": 3, "score": "score", "time": "ts", "by": ("g",), "ties": "share"}),
    ("HeavyHitters", {"k": 3, "item": "item", "time": "ts", "ties": "share"}),
    ("HeavyHitters", {"k": 2, "item": "item", "time": "ts", "by": ("g",), "ties": "share"}),
]


@pytest.mark.parametrize(("kind", "asked"), CASES)
@given(data=st.data())
@settings(max_examples=20)
def test_every_answer(kind: str, asked: dict[str, Any], data: st.DataObject) -> None:
    counted = data.draw(st.booleans())
    window: Any = data.draw(streams.count_windows() if counted else streams.time_windows())
    lateness = 0 if counted else window.lateness
    stream = data.draw(conformance.small_streams(kind, asked, window, lateness))
    restarts, peeks = data.draw(st.booleans()), data.draw(st.booleans())
    conformance.compare(kind, window, asked, stream, restarts, peeks)


ROWS = pa.table({"id": list("abcdef"), "x": [5, 7, 5, 3, 5, 7], "g": [1, 1, 1, 1, 2, 2]})


def ranks(**asked: Any) -> list[int]:
    given: dict[str, Any] = {"k": 4, "score": "x", "id": "id", "window": sb.CountWindow(6)}
    ranked: list[int] = sb.rank(ROWS, sb.TopK(**(given | asked)))["rank"].to_pylist()
    return ranked


def test_the_table_still_has_k_rows() -> None:
    assert ranks() == [1, 2, 3, 4]
    assert ranks(ties="share") == [1, 1, 3, 3]
    assert ranks(ties="share", k=6) == [1, 1, 3, 3, 3, 6]
    assert ranks(ties="share", k=6, largest=False) == [1, 2, 2, 2, 5, 5]


def test_each_group_has_its_own_ranks() -> None:
    # The last row of group 1 and the first one of group 2 have equal scores.
    rows = ROWS.take([1, 2, 5, 4])
    query = sb.TopK(k=2, score="x", by=("g",), window=sb.TimeWindow(9), time="t", ties="share")
    table = sb.rank(rows.append_column("t", pa.array([1, 2, 3, 4])), query)
    assert table["rank"].to_pylist() == [1, 2, 1, 2]
    same = rows.set_column(1, "x", pa.array([5, 5, 5, 5]))
    table = sb.rank(same.append_column("t", pa.array([1, 2, 3, 4])), query)
    assert table["rank"].to_pylist() == [1, 1, 1, 1]


def test_changes_show_the_shared_ranks() -> None:
    query = sb.TopK(k=3, score="x", id="id", window=sb.CountWindow(4, slide=1), ties="share")
    answers = sb.Monitor(query).push(pa.table({"id": list("abcd"), "x": [5, 5, 7, 5]}))
    told = [[tuple(row.values()) for row in a.changes.to_pylist()] for a in answers]
    assert told == [
        [("enter", "a", None, 1)],
        [("enter", "b", None, 1)],
        [("enter", "c", None, 1), ("move", "b", 1, 2), ("move", "a", 1, 2)],
        [("enter", "d", None, 2), ("leave", "a", 2, None)],
    ]


def test_equal_counts_of_a_sketch() -> None:
    query = sb.HeavyHitters(
        k=3, item="id", window=sb.CountWindow(6), ties="share", algorithm="ss", capacity=10
    )
    items = pa.table({"id": list("aabbcd")})
    assert sb.rank(items, query)["rank"].to_pylist() == [1, 1, 3]


def test_the_default_keeps_its_fingerprint_and_others_are_refused() -> None:
    window = sb.CountWindow(3)
    one, other = (sb.TopK(k=1, score="x", window=window, ties=ties) for ties in ("rank", "share"))
    assert one.fingerprint == sb.TopK(k=1, score="x", window=window).fingerprint
    assert one.fingerprint != other.fingerprint
    with pytest.raises(sb.QueryError, match="ties must be one of rank, share, all"):
        sb.HeavyHitters(k=1, item="x", window=window, ties="dense")  # type: ignore[arg-type]


def test_the_live_view_marks_rows_that_share_a_rank() -> None:
    view = pytest.importorskip("skyband.cli.view")
    query = sb.TopK(k=3, score="x", id="id", window=sb.CountWindow(4, slide=2), ties="share")
    answers = sb.Monitor(query).push(pa.table({"id": list("abcd"), "x": [5, 5, 5, 9]}))
    marks = {name[-1]: mark.plain for name, mark in view._marks(answers[1], query).items()}
    assert marks == {"d": "new", "c": "new", "b": "▼1"}


def test_on_spark() -> None:
    pytest.importorskip("pyspark")
    from support import spark_simulator

    stream = streams.stream(7, 90, step=9, batches=4)
    query = sb.HeavyHitters(k=4, item="item", time="ts", window=sb.TimeWindow(40), ties="share")
    sources = spark_simulator.first_tables(stream.batches)
    job = spark_simulator.Job(spark_simulator.plan_of(query, sources, shards=2), 2)
    got = pa.concat_tables([job.push({"": batch}) for batch in stream.batches])
    want, _ = spark_session.embedded(query, stream.batches)
    assert got.to_pylist() == want.to_pylist()
    shown = want["rank"].to_pylist()
    assert any(one == other for one, other in pairwise(shown))


@pytest.mark.parametrize("distinct", [None, "best", "latest"])
def test_positions_are_the_ranks_of_answers(distinct: Any) -> None:
    shared = [1, 1, 3, 3, 3, 6]
    ranks: dict[Any, list[int]] = {"rank": [1, 2, 3, 4, 5, 6], "share": shared, "all": shared}
    for ties, want in ranks.items():
        window: Any = sb.TimeWindow(9, slide=3)
        rows = ROWS.append_column("t", pa.array([0, 1, 2, 3, 4, 5]))
        if distinct is None:
            rows = rows.take(np.repeat(np.arange(6), ROWS["x"].to_numpy()))
            query: Any = sb.HeavyHitters(k=9, item="id", time="t", window=window, ties=ties)
        else:
            query = sb.TopK(
                k=9, score="x", id="id", time="t", window=window, ties=ties, distinct=distinct
            )
        monitor = sb.Monitor(query)
        monitor.push(rows)
        monitor.flush()
        peeked = monitor.peek()
        for name in "abcdef":
            place = monitor.position(name)
            assert (place and place.rank) == peeked.rank_of(name)
        assert peeked.table["rank"].to_pylist() == want
