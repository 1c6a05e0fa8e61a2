"""PABF's guarantee: at every rank of every window, less than epsilon below the true score.

Small odd streams are compared with the oracle's whole ranking of each window: an answer must
consist of rows of it, in its order, with the true number of rows. Longer ones are checked with
numpy.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from support import conformance, streams
from support.shards import sharded

SETTINGS: list[dict[str, Any]] = [
    {"k": 2, "score": "score", "id": "id", "time": "ts", "epsilon": 3.0},
    {"k": 1, "score": "score", "time": "ts", "largest": False, "epsilon": 20.0, "delta": 0.9},
    {"k": 3, "score": "score", "id": "id", "time": "ts", "by": ("g",), "epsilon": 0.5},
    {"k": 20, "score": "weight", "id": "id", "time": "ts", "by": ("g", "kind"), "epsilon": 2},
]
SECTIONS = range(len(SETTINGS))


def check(
    tables: list[list[oracle.Row]], ranking: list[list[oracle.Row]], query: dict[str, Any]
) -> None:
    """Assert the guarantee of answers, given the whole ranking of the same windows."""
    assert len(tables) == len(ranking)
    by, score = query.get("by", ()), query["score"]
    sign = 1 if query.get("largest", True) else -1
    for got, want in zip(tables, ranking, strict=True):
        groups = dict.fromkeys(tuple(row[c] for c in by) for row in want)
        assert list(dict.fromkeys(tuple(row[c] for c in by) for row in got)) == list(groups)
        for group in groups:
            mine = [row for row in got if tuple(row[c] for c in by) == group]
            true = [row for row in want if tuple(row[c] for c in by) == group]
            assert [row["rank"] for row in mine] == list(range(1, min(query["k"], len(true)) + 1))
            for row, best in zip(mine, true, strict=False):
                if row[score] != best[score]:
                    assert 0 < sign * (best[score] - row[score]) < query["epsilon"]
            rest = iter(_bare(true))
            assert all(row in rest for row in _bare(mine)), "not rows of the window in their order"


def _bare(rows: list[oracle.Row]) -> list[oracle.Row]:
    return [{name: value for name, value in row.items() if name != "rank"} for row in rows]


def ranking(window: Any, query: dict[str, Any], stream: streams.Stream) -> list[list[oracle.Row]]:
    exact = {n: v for n, v in query.items() if n not in ("epsilon", "delta", "options")}
    want = oracle.answers("TopK", window, stream.row_batches, **(exact | {"k": 10**6}))
    return [answer.table for answer in want.answers]


def keeps(window: Any, query: dict[str, Any], stream: streams.Stream, restarts: bool) -> None:
    built = conformance.query_of("TopK", window, query | {"algorithm": "pabf"}, stream.table)
    got = conformance.run(built, stream.batches, restarts)
    check([answer[2] for answer in got.answers], ranking(window, query, stream), query)


@pytest.mark.nojit
@pytest.mark.parametrize("number", SECTIONS)
@given(data=st.data())
@settings(max_examples=30)
def test_time_windows(number: int, data: st.DataObject) -> None:
    window = data.draw(streams.time_windows())
    stream = data.draw(streams.streams(max_rows=16, lateness=window.lateness))
    keeps(window, SETTINGS[number], stream, data.draw(st.booleans()))


@pytest.mark.nojit
@pytest.mark.parametrize("number", SECTIONS)
@given(data=st.data())
@settings(max_examples=25)
def test_count_windows(number: int, data: st.DataObject) -> None:
    window = data.draw(streams.count_windows())
    stream = data.draw(streams.streams(max_rows=16))
    keeps(window, SETTINGS[number], stream, data.draw(st.booleans()))


@pytest.mark.parametrize("pattern", streams.PATTERNS)
@pytest.mark.parametrize("score_type", list(streams.SCORE_TYPES))
@pytest.mark.parametrize("shift", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_streams_of_many_panes(pattern: str, score_type: str, shift: int) -> None:
    """Settings take turns; with all shifts, every stream is read with each of them."""
    stream = streams.stream(
        5, 300, pattern=pattern, score_type=score_type, lateness=5, step=2, gap=40, batches=9
    )
    turn = streams.PATTERNS.index(pattern) + list(streams.SCORE_TYPES).index(score_type) + shift
    keeps(oracle.TimeWindow(30, 7, lateness=5), SETTINGS[turn % 3], stream, restarts=True)
    keeps(oracle.CountWindow(60, 4), SETTINGS[(turn + 1) % 3], stream, restarts=False)


@pytest.mark.parametrize("number", SECTIONS)
@pytest.mark.parametrize("shards", [1, 3])
def test_shards_keep_the_promise(number: int, shards: int) -> None:
    window, query = oracle.TimeWindow(30, 7, lateness=6), SETTINGS[number]
    for pattern in ("uniform", "falling", "crowded"):
        stream = streams.stream(3, 200, pattern=pattern, lateness=6, step=2, gap=30, batches=6)
        built = conformance.query_of("TopK", window, query | {"algorithm": "pabf"}, stream.table)
        tables = [answer.table for answer in sharded(built, stream.batches, shards)]
        full = ranking(window, query, stream)
        check([t for t in tables if t], [t for t in full if t], query)


@pytest.mark.parametrize("number", SECTIONS)
def test_batches_do_not_matter(number: int) -> None:
    stream = streams.stream(4, 200, pattern="sine", lateness=6, step=2, gap=30, batches=7)
    window = oracle.TimeWindow(30, 7, lateness=6)
    query = conformance.query_of(
        "TopK", window, SETTINGS[number] | {"algorithm": "pabf"}, stream.table
    )
    answers = [
        conformance.run(query, batches).answers
        for batches in (
            [stream.table],
            stream.batches,
            [stream.table.slice(i, 1) for i in range(200)],
        )
    ]
    assert answers[0] == answers[1] == answers[2]
