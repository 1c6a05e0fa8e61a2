"""``ties="all"``: every row that ties with the k-th, at most ``most`` of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import skyband as sb
from skyband.jobs import parse_job
from skyband.query import from_spec
from support import board_simulator, conformance, spark_simulator, streams
from support.command_line import good
from support.sending import sent
from support.streams import rows_of
from support.truth import truth

TOPK: dict[str, Any] = {"score": "price", "time": "ts", "ties": "all"}
COUNTED: dict[str, Any] = {"item": "item", "time": "ts", "ties": "all"}


@st.composite
def questions(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A kind of query and its settings; scores and counts tie often."""
    asked: dict[str, Any] = {"k": draw(st.sampled_from((1, 2, 4)))}
    asked |= {
        "by": draw(st.sampled_from(((), ("g",)))),
        "most": draw(st.sampled_from((None, 4, 5))),
    }
    asked["keep"] = draw(st.sampled_from(((), ("volume", "kind"))))
    asked["where"] = draw(st.sampled_from(({}, {"kind": ["a"]})))
    if draw(st.booleans()):
        score, largest = draw(st.sampled_from(("price", "score"))), draw(st.booleans())
        asked |= {"score": score, "largest": largest, "id": draw(st.sampled_from((None, "id")))}
        if draw(st.booleans()):
            asked |= {"id": "item", "distinct": draw(st.sampled_from(("best", "latest")))}
        return "TopK", TOPK | asked
    asked["weight"] = draw(st.sampled_from((None, "weight", "weight * 0.25")))
    return "HeavyHitters", COUNTED | asked | {"item": draw(st.sampled_from(("item", "id")))}


def compare(kind: str, window: Any, asked: dict[str, Any], stream: Any, restarts: bool) -> None:
    """Tables, changes and peeks are those of the definition; so is what was cut."""
    conformance.compare(kind, window, asked, stream, restarts, peeks=True)
    tables, rows, table = sent(stream, asked)
    got = conformance.run(conformance.query_of(kind, window, asked, table), tables)
    whole = truth(kind, window, rows, asked | {"most": 10**6}).run.answers
    for seen, every in zip(got.answers, whole, strict=True):
        assert seen.bounds == {"cut": most_cut(seen.table, every.table, asked["by"])}


def most_cut(shown: list[Any], every: list[Any], by: tuple[str, ...]) -> int:
    """Of the group from which most was cut, how many rows."""

    def sizes(rows: list[Any]) -> dict[Any, int]:
        groups = [tuple(row[name] for name in by) for row in rows]
        return {group: groups.count(group) for group in groups}

    have = sizes(shown)
    return max((count - have[group] for group, count in sizes(every).items()), default=0)


@given(questions(), st.data(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_answers_are_those_of_the_definition(
    question: tuple[str, dict[str, Any]], data: st.DataObject, restarts: bool
) -> None:
    kind, asked = question
    window: Any = data.draw(st.one_of(streams.time_windows(), streams.count_windows()))
    lateness = getattr(window, "lateness", 0)
    compare(
        kind, window, asked, data.draw(streams.streams(max_rows=20, lateness=lateness)), restarts
    )


LONG: list[tuple[str, dict[str, Any]]] = [
    ("TopK", TOPK | {"k": 3, "id": "id", "by": ()}),
    ("TopK", TOPK | {"k": 2, "most": 3, "by": ("g",), "keep": ("kind",), "largest": False}),
    ("TopK", TOPK | {"k": 3, "id": "item", "distinct": "best", "by": (), "most": 4}),
    ("TopK", TOPK | {"k": 1, "id": "item", "distinct": "best", "by": ("g",), "keep": ("kind",)}),
    ("TopK", TOPK | {"k": 2, "id": "item", "distinct": "latest", "by": ("g",), "most": 2}),
    ("HeavyHitters", COUNTED | {"k": 3, "by": (), "most": 4}),
    ("HeavyHitters", COUNTED | {"k": 2, "weight": "weight", "by": ("g",), "keep": ("kind",)}),
    ("HeavyHitters", COUNTED | {"k": 2, "by": ("g",), "most": 2, "item": ("item", "volume")}),
]
WINDOWS: list[Any] = [
    oracle.TimeWindow(40, 7, lateness=5),
    oracle.TimeWindow(30, 30, lateness=5),
    oracle.CountWindow(30, 4),
]


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
@pytest.mark.parametrize(("kind", "asked"), LONG, ids=repr)
def test_a_long_stream(kind: str, asked: dict[str, Any], window: Any) -> None:
    compare(kind, window, asked, conformance.long_stream(kind, {}, window, "crowded"), True)


MEASURED: list[dict[str, Any]] = [
    {"aggregate": "max", "weight": "weight", "by": ("g",)},
    {"aggregate": "mean", "weight": "weight - 2", "by": (), "largest": False, "most": 3},
    {"against": "previous", "by": ()},
    {"against": "previous", "order": "ratio", "by": ("g",), "most": 2},
]


@pytest.mark.parametrize("asked", MEASURED, ids=repr)
def test_items_by_an_aggregate_or_by_growth(asked: dict[str, Any]) -> None:
    window = oracle.TimeWindow(40, 7, lateness=5)
    stream = conformance.long_stream("HeavyHitters", {}, window, "crowded")
    compare("HeavyHitters", window, {"k": 2} | COUNTED | asked, stream, True)


UNSIZED: list[tuple[str, dict[str, Any], Any]] = [
    ("TopK", TOPK | {"k": 2, "by": ("g",), "most": 3}, oracle.LandmarkWindow(7, lateness=5)),
    ("TopK", TOPK | {"k": 2, "by": (), "id": "id"}, oracle.LandmarkWindow(7, lateness=5)),
    ("HeavyHitters", COUNTED | {"k": 2, "by": ("g",)}, oracle.LandmarkWindow(7, lateness=5)),
    *(
        (
            "TopK",
            TOPK | {"k": 2, "id": "item", "distinct": distinct, "by": by, "most": most},
            oracle.LandmarkWindow(7, lateness=5),
        )
        for distinct, by, most in (("best", (), 3), ("latest", ("g",), 2), ("best", ("g",), None))
    ),
]


@pytest.mark.parametrize(("kind", "asked", "window"), UNSIZED, ids=repr)
def test_over_a_landmark(kind: str, asked: dict[str, Any], window: Any) -> None:
    compare(kind, window, asked, conformance.long_stream(kind, {}, window, "crowded"), True)


def wide_stream(rows: int) -> pa.Table:
    """Rows of some groups in order of time, of few scores and items."""
    made = np.random.default_rng(5)
    time = np.cumsum(made.integers(0, 900, rows)) * 1_000
    return pa.table({
        "ts": pa.array(time, pa.timestamp("us", tz="UTC")),
        "g": [f"g{n}" for n in made.integers(0, 3, rows)],
        "item": [f"a long common beginning {n}" for n in made.integers(0, 30, rows)],
        "price": made.integers(0, 4, rows),
        "kind": made.integers(0, 9, rows).astype(str),
    })  # fmt: skip


WINDOW = sb.TimeWindow("10 seconds", slide="3 seconds", lateness="1 second")
ON_SPARK: list[sb.Query] = [
    sb.TopK(k=2, window=WINDOW, keep=("kind",), id="item", by=("g",), **TOPK),
    sb.TopK(k=1, window=WINDOW, most=3, **TOPK),
    sb.TopK(k=1, window=WINDOW, id="item", distinct="best", most=3, **TOPK),
    sb.TopK(k=1, window=WINDOW, id="item", distinct="latest", by=("g",), **TOPK),
    sb.TopK(k=1, window=sb.LandmarkWindow(slide="3 seconds"), most=3, by=("g",), **TOPK),
    sb.HeavyHitters(k=2, window=WINDOW, **COUNTED),
    sb.HeavyHitters(k=1, window=WINDOW, most=2, by=("g",), **COUNTED),
]


@pytest.mark.parametrize("query", ON_SPARK, ids=repr)
@pytest.mark.parametrize("shards", [1, 3])
def test_spark_gives_the_same_answers(query: Any, shards: int) -> None:
    table = wide_stream(300)
    want = rows_of(sb.rank(table, query))
    answers = {(row["window_end"], row.get("g")) for row in want}
    assert len(want) > query.k * len(answers)
    plan = spark_simulator.plan_of(query, {"": table}, shards=shards, streaming=False)
    assert rows_of(spark_simulator.run_batch(plan, {"": table}, 3)) == want
    plan = spark_simulator.plan_of(query, {"": table}, shards=shards)
    job = spark_simulator.Job(plan, parts=2, forgetful=True)
    pushed = [job.push({"": table.slice(at, 60)}) for at in range(0, 300, 60)]
    key = lambda row: (row["window_end"], row.get("g", ""))  # noqa: E731
    rows = sorted((row for each in pushed for row in rows_of(each)), key=key)
    assert len(rows) > 30
    assert rows == want[: len(rows)]


def test_what_was_cut_is_among_the_bounds_of_spark() -> None:
    query, table = ON_SPARK[1], wide_stream(200)
    plan = spark_simulator.plan_of(query, {"": table}, shards=3, streaming=False, bounds=True)
    found = spark_simulator.run_batch(plan, {"": table}, 3)
    want = [answer.bounds["cut"] for answer in sb.watch(table, query) if len(answer.table)]
    ends = dict(zip(found["window_end"].to_pylist(), found["bounds"].to_pylist(), strict=True))
    assert [dict(bounds)["cut"] for bounds in ends.values()] == want
    assert max(want) > 3


def test_readers_of_a_board_answer_as_alone() -> None:
    table = wide_stream(300)
    board: dict[str, sb.Query] = {
        f"{k} of {size} {by}": sb.HeavyHitters(
            k=k, window=sb.TimeWindow(f"{size} seconds", slide="4 seconds"), by=by, **COUNTED
        )
        for by in ((), ("g",))
        for k, size in ((1, 10), (3, 18), (2, 14))
    }
    board["best"] = ON_SPARK[1]
    together, parted = sb.rank(table, board), board_simulator.ranked_batch(board, table)
    for name, query in board.items():
        assert together[name].num_rows > 20
        assert together[name] == sb.rank(table, query)
        assert parted[name] == together[name].to_pylist()


ROWS = pa.table({"id": list("abcdefgh"), "x": [5, 7, 5, 3, 5, 7, 5, 5], "t": range(8)})


def test_ranks_are_those_of_sql() -> None:
    query = sb.TopK(k=3, score="x", id="id", time="t", window=sb.TimeWindow(10), ties="all")
    (answer,) = sb.watch(ROWS, query)
    assert answer.table["id"].to_pylist() == ["f", "b", "h", "g", "e", "c", "a"]
    assert answer.table["rank"].to_pylist() == [1, 1, 3, 3, 3, 3, 3]
    assert answer.bounds == {"cut": 0}
    cut = sb.TopK(k=3, score="x", id="id", time="t", window=sb.TimeWindow(10), ties="all", most=4)
    (answer,) = sb.watch(ROWS, cut)
    assert answer.table["id"].to_pylist() == ["f", "b", "h", "g"]
    assert answer.bounds == {"cut": 3}
    assert answer.exact


def test_the_live_view_says_what_was_cut() -> None:
    view = pytest.importorskip("skyband.cli.view")
    query = sb.TopK(k=1, score="x", id="id", time="t", window=sb.TimeWindow(10), ties="all", most=1)
    (answer,) = sb.watch(ROWS, query)
    assert view._caption(answer, query, 0, ()).plain == "8 rows in the window · exact · 1 more tie"


def test_changes_show_shared_ranks() -> None:
    query = sb.TopK(k=1, score="x", id="id", window=sb.CountWindow(3, slide=1), ties="all")
    answers = sb.Monitor(query).push(pa.table({"id": list("abcd"), "x": [5, 5, 7, 7]}))
    told = [[tuple(row.values()) for row in a.changes.to_pylist()] for a in answers]
    assert told == [
        [("enter", "a", None, 1)],
        [("enter", "b", None, 1)],
        [("enter", "c", None, 1), ("leave", "b", 1, None), ("leave", "a", 1, None)],
        [("enter", "d", None, 1)],
    ]


def test_many_equal_scores_and_small_slides() -> None:
    """Rows that no answer can need any more are dropped, also if scores fall."""
    made = np.random.default_rng(3)
    scores = np.concatenate([np.full(900, 3), np.arange(900)[::-1], made.integers(0, 20, 900)])
    query = sb.TopK(k=2, score="x", window=sb.CountWindow(300, slide=2), ties="all", most=20)
    monitor = sb.Monitor(query)
    for at in range(0, 2700, 270):
        for answer in monitor.push(pa.table({"x": scores[at : at + 270]})):
            live = np.sort(scores[answer.start : answer.end])[::-1]
            every = int((live >= live[min(2, len(live)) - 1]).sum())
            assert answer.bounds["cut"] == max(0, every - 20)
            assert answer.table["x"].to_pylist() == live[: min(every, 20)].tolist()
        monitor._check()
    assert monitor.stats()["retained"] < 250


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (sb.TopK, {"ties": "share", "most": 5}, "most= does nothing without ties='all'"),
    (sb.TopK, {"most": 0}, "most must be a whole number"),
    (sb.TopK, {"most": 1}, r"most \(1\) must be at least k \(2\)"),
    (sb.TopK, {"window": sb.DecayWindow(5, slide=5)}, "over a DecayWindow"),
    (sb.HeavyHitters, {"window": sb.DecayWindow(5, slide=5)}, "over a DecayWindow"),
    (sb.TopK, {"algorithm": "sma"}, "sma does not answer TopK with ties='all'.*skyband-ties"),
    (sb.TopK, {"ties": "rank", "algorithm": "skyband-ties"}, "one of skyband, mintopk, sma, pabf"),
    (sb.HeavyHitters, {"algorithm": "ss"}, "ss does not answer HeavyHitters with ties='all'"),
    (sb.HeavyHitters, {"capacity": 9}, "capacity= and ties='all' do not go together"),
    (sb.HeavyHitters, {"proof": True}, "proof= and ties='all' do not go together"),
]


@pytest.mark.parametrize(("kind", "more", "message"), REFUSED, ids=repr)
def test_what_cannot_be_asked(kind: Any, more: dict[str, Any], message: str) -> None:
    names = {"score": "x"} if kind is sb.TopK else {"item": "x"}
    asked = {"k": 2, "window": sb.TimeWindow(9), "time": "t", "ties": "all"} | names | more
    with pytest.raises(sb.QueryError, match=message):
        kind(**asked)


def test_specs_jobs_and_the_command_line(tmp_path: Path) -> None:
    query: Any = ON_SPARK[1]
    assert from_spec(query.spec()) == query
    told = {
        "name": "ties", "engine": "local", "checkpoint": "state",
        "source": {"kind": "files", "path": "*.csv"},
        "query": {"kind": "TopK", "k": 1, "score": "price", "time": "ts", "ties": "all", "most": 3,
                  "window": {"size": "10 seconds", "slide": "3 seconds", "lateness": "1 second"}},
        "sink": {"kind": "console"},
    }  # fmt: skip
    assert list(parse_job(told, tmp_path).queries.values()) == [query]
    path = tmp_path / "rows.csv"
    path.write_text("t,x\n1,5\n2,5\n3,4\n4,5\n5,5\n")
    asked = ("-k", 1, "--score", "x", "--time", "t", "--window", 10, "--format", "csv")
    lines = good("topk", path, *asked, "--ties", "all", "--most", 3).splitlines()[1:]
    assert [line.split(",")[2:] for line in lines] == [["1", "5", t] for t in "542"]
