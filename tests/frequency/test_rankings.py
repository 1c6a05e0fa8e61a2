"""Items by an aggregate of their weights, and by how much they grow, against the definition."""

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
from support.streams import rows_of

SIGNED = "weight - 2"
FRACTIONS = "weight * 0.25 - 0.5"
SUMS = oracle.SUMS["HeavyHitters"]
COMMON: dict[str, Any] = {"item": "item", "time": "ts"}


@st.composite
def rankings(draw: st.DrawFn) -> dict[str, Any]:
    """Settings of a query that ranks by an aggregate or by growth."""
    asked: dict[str, Any] = {"k": draw(st.sampled_from((1, 2, 5)))}
    asked |= {"by": draw(st.sampled_from(((), ("g",)))), "ties": draw(st.sampled_from(TIES))}
    asked["keep"] = draw(st.sampled_from(((), ("price", "kind"))))
    asked["where"] = draw(st.sampled_from(({}, {"kind": ["a"]})))
    if draw(st.booleans()):
        asked["aggregate"] = draw(st.sampled_from(("sum", "mean", "max", "min")))
        asked["weight"] = draw(st.sampled_from(("weight", SIGNED, FRACTIONS)))
        asked["largest"] = draw(st.booleans())
        asked["min_rows"] = draw(st.sampled_from((1, 2)))
    else:
        asked["against"] = "previous"
        asked["weight"] = draw(st.sampled_from((None, "weight", "weight * 0.25")))
        asked["min_count"] = draw(st.sampled_from((1, 2, 0.5)))
        if draw(st.booleans()):
            asked |= {"order": "ratio", "smoothing": draw(st.sampled_from((1, 0.5)))}
    return asked | {"item": draw(st.sampled_from(("item", ("item", "volume")))), "time": "ts"}


TIES = ("rank", "share")


@given(rankings(), streams.time_windows(), st.data(), st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_answers_are_those_of_the_definition(
    asked: dict[str, Any], window: Any, data: st.DataObject, restarts: bool, peeks: bool
) -> None:
    stream = data.draw(streams.streams(max_rows=20, lateness=window.lateness))
    conformance.compare("HeavyHitters", window, asked, stream, restarts, peeks)


EVERY: list[dict[str, Any]] = [
    *({"aggregate": name, "weight": SIGNED} for name in ("sum", "mean", "max", "min")),
    {"aggregate": "mean", "weight": FRACTIONS, "by": ("g",), "largest": False, "min_rows": 2},
    {"aggregate": "max", "weight": "weight", "by": ("g",), "keep": ("kind",)},
    {"against": "previous", "keep": ("price",)},
    {"against": "previous", "weight": "weight", "by": ("g",)},
    {"against": "previous", "order": "ratio", "smoothing": 2, "min_count": 3, "by": ("g",)},
]


@pytest.mark.parametrize("asked", EVERY, ids=repr)
def test_a_long_stream(asked: dict[str, Any]) -> None:
    """Enough rows for compiled kernels, and for many panes to come and go."""
    window = oracle.TimeWindow(40, 7, lateness=5)
    stream = conformance.long_stream("HeavyHitters", {}, window, "crowded")
    conformance.compare("HeavyHitters", window, {"k": 3, **COMMON} | asked, stream, True, True)


def wide_stream(seed: int, rows: int) -> pa.Table:
    """Rows of some groups in order of time, in milliseconds."""
    made = np.random.default_rng(seed)
    time = np.cumsum(made.integers(0, 900, rows)) * 1_000
    return pa.table({
        "ts": pa.array(time, pa.timestamp("us", tz="UTC")),
        "g": [f"g{n}" for n in made.integers(0, 3, rows)],
        "item": [f"a long common beginning {n}" for n in made.integers(0, 12, rows) ** 2 // 12],
        "weight": made.integers(1, 9, rows),
        "price": made.integers(0, 9, rows),
        "kind": made.integers(0, 9, rows).astype(str),
    })  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "shards"), [(EVERY[1], 1), (EVERY[5], 3), (EVERY[6], 3), (EVERY[8], 1)], ids=repr
)
def test_spark_gives_the_same_answers(asked: dict[str, Any], shards: int) -> None:
    table = wide_stream(3, 400)
    window = sb.TimeWindow("10 seconds", slide="3 seconds", lateness="1 second")
    query = sb.HeavyHitters(k=3, window=window, **COMMON, **asked)
    want = rows_of(sb.rank(table, query))
    plan = spark_simulator.plan_of(query, {"": table}, shards=shards, streaming=False)
    batch = rows_of(spark_simulator.run_batch(plan, {"": table}, 3))
    assert oracle.difference(batch, want, SUMS) is None
    plan = spark_simulator.plan_of(query, {"": table}, shards=shards)
    job = spark_simulator.Job(plan, parts=2, forgetful=True)
    pushed = [job.push({"": table.slice(at, 80)}) for at in range(0, 400, 80)]
    rows = sorted(
        (row for each in pushed for row in rows_of(each)),
        key=lambda row: (row["window_end"], row.get("g", ""), row["rank"]),
    )
    assert len(rows) > 50
    assert oracle.difference(rows, want[: len(rows)], SUMS) is None


def test_readers_of_a_board_share_a_state_and_answer_as_alone() -> None:
    table = wide_stream(5, 500)
    board = {
        f"{k} of {size} {name}": sb.HeavyHitters(
            k=k, window=sb.TimeWindow(f"{size} seconds", slide="4 seconds"), **COMMON, **asked
        )
        for name, asked in (("mean", EVERY[4]), ("growth", EVERY[7]))
        for k, size in ((1, 10), (3, 18), (2, 14))
    }
    monitor = sb.Monitor(board)
    monitor.push(table.slice(0, 9))
    assert len(monitor.board.sessions) == 2
    together, parted = sb.rank(table, board), board_simulator.ranked_batch(board, table)
    for name, query in board.items():
        assert together[name].num_rows > 20
        assert together[name] == sb.rank(table, query)
        assert oracle.difference(parted[name], together[name].to_pylist(), SUMS) is None


def test_positions() -> None:
    """The rank that an answer over all items would show."""
    for asked in (EVERY[1], EVERY[3] | {"largest": False}, EVERY[7], EVERY[8]):
        query = sb.HeavyHitters(
            k=100, window=sb.TimeWindow("20 seconds", slide="4 seconds"), **COMMON, **asked
        )
        monitor = sb.Monitor(query)
        monitor.push(wide_stream(8, 300))
        rows = rows_of(monitor.peek().table)
        shown = "value" if query.aggregate else query.order
        for row in rows:
            place = monitor.position(row["item"], *([row["g"]] if query.by else []))
            assert place is not None
            assert (place.rank, place.value) == (row["rank"], pytest.approx(row[shown]))
        assert monitor.position("nobody", *(["g0"] if query.by else [])) is None


MOST = 2**63 - 1


def weighted(*weights: int, **more: Any) -> pa.Table:
    times = more.get("times", range(len(weights)))
    return pa.table({"item": ["a"] * len(weights), "weight": weights, "ts": list(times)})


@pytest.mark.parametrize("window", [sb.TimeWindow(10), sb.TimeWindow(10, slide=3)])
def test_whole_sums_are_right_or_an_error(window: Any) -> None:
    query = sb.HeavyHitters(k=1, window=window, aggregate="sum", weight="weight", **COMMON)
    assert MOST in sb.rank(weighted(MOST - 1, 1), query)["value"].to_pylist()
    assert -MOST in sb.rank(weighted(1 - MOST, -1), query)["value"].to_pylist()
    for weights in ((MOST, 1), (-MOST, -2), (-MOST - 1,), (MOST, MOST, -MOST, -MOST)):
        monitor = sb.Monitor(query)
        monitor.push(weighted(5))
        before = monitor.snapshot()
        with pytest.raises(sb.DataError, match=r"item='a'.*weight='weight \* 1.0'"):
            monitor.push(weighted(*weights))
        assert monitor.snapshot() == before
    monitor = sb.Monitor.restore(sb.Monitor(query).snapshot())
    monitor.push(weighted(-MOST, times=[0]))
    monitor.push(weighted(0, times=[7]))
    monitor = sb.Monitor.restore(monitor.snapshot())
    with pytest.raises(sb.DataError, match="item='a'"):
        monitor.push(weighted(-1, times=[7] if window.slide is None else [8]))


def test_other_aggregates_hold_any_numbers() -> None:
    table = weighted(MOST, -MOST - 1, MOST, 5)
    expected: dict[Any, float] = {"max": MOST, "min": -MOST - 1, "mean": 2.0**61}
    for name, value in expected.items():
        for largest in (True, False):
            query = sb.HeavyHitters(
                k=1, window=sb.TimeWindow(10), aggregate=name, weight="weight", largest=largest,
                **COMMON,
            )  # fmt: skip
            assert sb.rank(table, query)["value"].to_pylist() == [value]


def test_types_and_columns() -> None:
    small = {"int32": pa.int32(), "float": pa.float32(), "uint8": pa.uint8()}
    for kind in small.values():
        table = pa.table({"item": ["a"], "weight": pa.array([3], kind), "ts": [1]})
        for name in ("sum", "mean", "max", "min"):
            query = sb.HeavyHitters(
                k=1, window=sb.TimeWindow(10), aggregate=name, weight="weight", **COMMON
            )
            answer = sb.rank(table, query)
            floats = name == "mean" or pa.types.is_floating(kind)
            added = pa.float64() if floats else pa.int64()
            assert answer.schema.field("value").type == (kind if name in ("max", "min") else added)
            assert answer.schema.field("count").type == pa.int64()
            assert tuple(answer.column_names) == query.answer_names()
    every: list[dict[str, Any]] = [{}, {"order": "ratio"}]
    for more in every:
        query = sb.HeavyHitters(
            k=1, window=sb.TimeWindow(10), against="previous", keep=("weight",), **COMMON, **more
        )
        names = sb.rank(table, query).column_names
        assert names[4:] == ["count", "before", "gain", *(["ratio"] if more else []), "error",
                             "weight"]  # fmt: skip
        assert tuple(names) == query.answer_names()


WINDOW = sb.TimeWindow(10)
MEAN: dict[str, Any] = {"aggregate": "mean", "weight": "w"}
GROWTH: dict[str, Any] = {"against": "previous"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"aggregate": "median", "weight": "w"}, "aggregate must be one of sum, mean, max, min"),
    ({"aggregate": "mean"}, "needs weight="),
    ({"min_rows": 2}, "min_rows= does nothing without aggregate="),
    ({"largest": False}, "largest= does nothing without aggregate="),
    (MEAN | {"min_rows": 0}, "min_rows must be"),
    (MEAN | GROWTH, "do not go together"),
    (MEAN | {"window": sb.CountWindow(5)}, "aggregate= is for a TimeWindow, not for a CountW"),
    (MEAN | {"window": sb.DecayWindow(5, slide=1)}, "aggregate= is for a TimeWindow"),
    (MEAN | {"proof": True}, "proof=True proves nothing more"),
    (MEAN | {"algorithm": "fsw"}, "fsw does not answer HeavyHitters with aggregate='mean'"),
    (MEAN | {"capacity": 50}, "capacity= does nothing for exact"),
    ({"against": "yesterday"}, "against must be one of previous"),
    ({"order": "ratio"}, "order= does nothing without against="),
    ({"min_count": 3}, "min_count= does nothing without against="),
    (GROWTH | {"order": "gains"}, "order must be one of gain, ratio"),
    (GROWTH | {"smoothing": 2}, "does nothing for order='gain'"),
    (GROWTH | {"order": "ratio", "smoothing": 0}, "smoothing must be a number"),
    (GROWTH | {"min_count": 0}, "min_count must be a number"),
    (GROWTH | {"window": sb.LandmarkWindow(5)}, "against= is for a TimeWindow"),
    (GROWTH | {"proof": True}, "proof=True proves nothing more"),
    (GROWTH | {"algorithm": "ss"}, "ss does not answer HeavyHitters with against='previous'"),
]


@pytest.mark.parametrize(("asked", "told"), REFUSED, ids=repr)
def test_what_does_not_go_together_is_refused(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(sb.QueryError, match=told):
        sb.HeavyHitters(**{"k": 1, "window": WINDOW, **COMMON} | asked)


def test_the_window_stays_the_one_that_was_given() -> None:
    query = sb.HeavyHitters(k=1, window=WINDOW, algorithm="exact", **COMMON, **GROWTH)
    assert query.window == WINDOW
    assert from_spec(query.spec()) == query
    plain = sb.HeavyHitters(k=1, window=WINDOW, algorithm="exact", **COMMON)
    assert plain.fingerprint != query.fingerprint
    assert "against previous" in sb.explain(query)


def test_command_line_and_job_files(tmp_path: Path) -> None:
    path = tmp_path / "air.csv"
    path.write_text("ts,station,pm25\n1,a,9\n2,b,3\n3,b,5\n12,b,1\n13,c,2\n")
    common = ("-k", 2, "--item", "station", "--time", "ts", "--window", 10, "--format", "csv")
    asked: tuple[Any, ...] = (
        "--weight",
        "pm25",
        "--aggregate",
        "mean",
        "--min-rows",
        2,
        "--no-largest",
    )
    head, *lines = good("heavy-hitters", path, *common, *asked).splitlines()
    assert head.replace('"', "").endswith("station,value,count,error")
    assert [line.replace('"', "").split(",", 3)[3] for line in lines] == ["b,4,2,0"]
    asked = ("--against", "previous", "--order", "ratio", "--smoothing", 2, "--min-count", 1)
    lines = good("heavy-hitters", path, *common, *asked).splitlines()[3:]
    assert [line.replace('"', "").split(",", 3)[3] for line in lines] == [
        "c,1,0,1,1.5,0", "b,1,2,-1,0.75,0",
    ]  # fmt: skip
    told = {
        "name": "air", "engine": "local", "checkpoint": "state",
        "source": {"kind": "files", "path": "*.csv"},
        "query": {"kind": "HeavyHitters", "k": 2, "item": "station", "time": "ts",
                  "against": "previous", "order": "ratio", "window": {"size": 60}},
        "sink": {"kind": "console"},
    }  # fmt: skip
    (query,) = parse_job(told, tmp_path).queries.values()
    assert query.extra_columns == ("count", "before", "gain", "ratio", "error")
