"""``where``: which rows count, in every kind of query and on both engines."""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv

import oracle
import skyband as sb
from support import conformance, spark_session, streams

WHERE: dict[str, list[Any]] = {
    "TopK": [{"g": ["x", "z"]}, {"kind": "a", "price": [0, 2]}, "price * 2 > weight or kind = 'b'"],
    "HeavyHitters": [{"kind": "b"}, {"weight": [1, 2]}],
    "UncertainTopK": ["not p in (0.5, 1.0)"],
    "FusedTopK": [{"g": "x"}],
    "Skyline": ["kind != 'b' and not price <= 1"],
    "SkylineJoin": [{"stock": ["u", "v"]}, {"price": [0, 1, 3]}],
}
CASES = [
    pytest.param(kind, number, where, id=f"{kind}-{number}-{where}")
    for kind, wheres in WHERE.items()
    for where in wheres
    for number in ((0, 6) if kind == "FusedTopK" else (0, -1))
]


def chosen(kind: str, number: int, where: Any) -> dict[str, Any]:
    given = conformance.SETTINGS[kind][number] | {"where": where}
    # Without the rows that do not count, reports of an object are closer together.
    return given | ({"recurrences": 20} if kind == "FusedTopK" else {})


@pytest.mark.parametrize(("kind", "number", "where"), CASES)
@given(data=st.data())
@settings(max_examples=8)
def test_time_windows(kind: str, number: int, where: Any, data: st.DataObject) -> None:
    window = data.draw(streams.time_windows())
    asked = chosen(kind, number, where)
    lateness = window.lateness * data.draw(st.integers(1, 2))
    stream = data.draw(conformance.small_streams(kind, asked, window, lateness))
    restarts, peeks = data.draw(st.booleans()), data.draw(st.booleans())
    conformance.compare(kind, window, asked, stream, restarts, peeks)


@pytest.mark.parametrize(("kind", "number", "where"), CASES)
@given(data=st.data())
@settings(max_examples=6)
def test_count_windows(kind: str, number: int, where: Any, data: st.DataObject) -> None:
    window = data.draw(streams.count_windows())
    asked = chosen(kind, number, where)
    if not conformance.fits(asked, window):
        pytest.skip("several sources, so no count windows")
    stream = data.draw(conformance.small_streams(kind, asked, window))
    restarts, peeks = data.draw(st.booleans()), data.draw(st.booleans())
    conformance.compare(kind, window, asked, stream, restarts, peeks)


@pytest.mark.parametrize("window", [oracle.DecayWindow(9, 4, lateness=5), oracle.LandmarkWindow(6)])
@pytest.mark.parametrize("kind", ["TopK", "HeavyHitters"])
def test_windows_without_a_size(kind: str, window: Any) -> None:
    asked = conformance.SETTINGS[kind][0] | {"where": {"kind": "a", "price": [1, 2, 5]}}
    asked |= {"score": "price * weight", "ties": "share"} if kind == "TopK" else {"ties": "share"}
    stream = streams.stream(7, 150, lateness=5 if window.lateness else 0, step=3, gap=40, batches=6)
    conformance.compare(kind, window, asked, stream, restarts=True, peeks=True)


# What is left out ---------------------------------------------------------------------------------

WINDOW = sb.TimeWindow(10)
FLOWS = pa.table(
    {
        "t": [1, 2, 3, 12, 25],
        "id": ["a", "b", "c", "d", "e"],
        "x": [1.0, math.nan, 2.0, None, 1.0],
        "s": ["web", "ssh", "web", None, "ssh"],
    }
)


def topk(**changed: Any) -> sb.TopK:
    given: dict[str, Any] = {"k": 2, "score": "x", "id": "id", "time": "t", "window": WINDOW}
    return sb.TopK(**(given | {"where": {"s": "web"}} | changed))


def test_rows_that_do_not_count_are_not_bad_and_move_the_mark() -> None:
    monitor = sb.Monitor(topk())
    answers = monitor.push(FLOWS)
    # The row at 25 does not count, but it ends the window [0, 10) and the empty one after it.
    assert [(a.start, a.table["id"].to_pylist(), a.total) for a in answers] == [
        (0, ["c", "a"], 2),
        (10, [], 0),
    ]
    stats = monitor.stats()
    assert (stats["rows_in"], stats["rows_filtered"], stats["rows_bad"]) == (5, 3, 0)


def test_late_rows_that_do_not_count_are_not_late() -> None:
    batches = [FLOWS, pa.table({"t": [2], "id": ["z"], "x": [9.0], "s": ["ssh"]})]
    assert sb.rank(iter(batches), topk())["id"].to_pylist() == ["c", "a"]
    monitor = sb.Monitor(topk())
    for batch in batches:
        monitor.push(batch)
    assert monitor.stats()["rows_late"] == 0


@pytest.mark.parametrize("window", [WINDOW, sb.CountWindow(2)])
def test_a_time_that_cannot_be_read_is_always_bad(window: Any) -> None:
    table = pa.table({"t": [1, 2, None], "id": ["a", "b", "c"], "x": [1.0] * 3, "s": ["web"] * 3})
    table = table.set_column(3, "s", pa.array(["web", "ssh", "ssh"]))
    with pytest.raises(sb.DataError, match="1 bad row: column 't', row 2: the time is null"):
        sb.Monitor(topk(window=window)).push(table)
    monitor = sb.Monitor(topk(window=window), on_bad="skip")
    monitor.push(table)
    stats = monitor.stats()
    assert (stats["rows_bad"], stats["rows_filtered"]) == (1, 1)


def test_a_time_out_of_range_is_always_bad() -> None:
    table = FLOWS.set_column(0, "t", pa.array([1, 2, 3, 12, (1 << 63) - 1]))
    with pytest.raises(sb.DataError, match="row 4: the time is out of range"):
        sb.Monitor(topk()).push(table)


def test_bad_rows_are_named_by_their_place_in_the_batch() -> None:
    table = FLOWS.set_column(2, "x", pa.array([1.0, None, math.nan, None, None]))
    with pytest.raises(sb.DataError, match=r"1 bad row: column 'x', row 2: the score is not"):
        sb.Monitor(topk()).push(table)


def test_a_count_window_counts_only_rows_that_count() -> None:
    query = topk(window=sb.CountWindow(2), time=None, k=1)
    monitor = sb.Monitor(query)
    assert [a.end for a in monitor.push(FLOWS)] == [2]
    assert monitor.stats()["rows_filtered"] == 3


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_files_and_boards(ending: str, tmp_path: Path) -> None:
    """Columns that only a filter or an expression needs are read from files, too."""
    stream = streams.stream(5, 80)
    path = tmp_path / f"rows.{ending}"
    write = pq.write_table if ending == "parquet" else csv.write_csv
    write(stream.table, path)
    window = sb.TimeWindow(20, slide=10)
    where: dict[str, Any] = {"kind": "a", "price": [1, 2, 5]}
    given: dict[str, Any] = {"k": 2, "time": "ts", "window": window}
    board = {
        "some": sb.TopK(score="price * weight", id="id", where=where, **given),
        "others": sb.HeavyHitters(item="item", where="not kind = 'a' and price < 5", **given),
        "all": sb.HeavyHitters(item="item", **given),
    }
    found = sb.rank(str(path), board)
    for name, query in board.items():
        want = sb.rank(stream.table, query)
        assert found[name].to_pylist() == want.to_pylist()
        assert sb.rank(str(path), query).to_pylist() == want.to_pylist()
        assert want.num_rows > 3
    assert found["others"].to_pylist() != found["all"].to_pylist()


def test_a_missing_column_is_named_with_those_there_are() -> None:
    with pytest.raises(sb.SchemaError, match="'gone' is missing; the columns are: t, id, x, s"):
        sb.rank(FLOWS, topk(where={"gone": 1}))


@pytest.mark.parametrize("where", [{"s": []}, {"s": {}}, {"": 1}, {3: 1}, "", 5, {"s": [[1]]}])
def test_filters_that_make_no_sense(where: Any) -> None:
    with pytest.raises(sb.QueryError, match="where"):
        topk(where=where)


# Several sources ----------------------------------------------------------------------------------

TRADES = pa.table({"t": [1, 2], "stock": ["u", "v"], "price": [1, 2], "venue": ["n", "s"]})
RISKS = pa.table({"t": [1, 2], "stock": ["u", "v"], "risk": [2, 1]})


def join(text: str | None = None, **where: Any) -> sb.SkylineJoin:
    prefer = {"price": "min", "risk": "min"}
    sides: dict[str, Any] = {"left": "trades", "right": "risks", "on": "stock", "time": "t"}
    return sb.SkylineJoin(**sides, prefer=prefer, window=WINDOW, where=text or where)


def test_each_source_is_filtered_by_the_columns_that_it_has() -> None:
    both = {"trades": TRADES, "risks": RISKS}
    assert sb.rank(both, join(venue="s"))["stock"].to_pylist() == ["v"]
    assert sb.rank(both, join(stock="u"))["stock"].to_pylist() == ["u"]
    assert sb.rank(both, join(stock="u", venue="s")).num_rows == 0
    with pytest.raises(sb.SchemaError, match="no source has a column 'gone'"):
        sb.rank(both, join(gone=1))


def test_each_source_is_filtered_by_the_conditions_that_it_has_all_columns_of() -> None:
    both = {"trades": TRADES, "risks": RISKS}
    assert sb.rank(both, join("risk < 2 and venue = 's'"))["stock"].to_pylist() == ["v"]
    assert sb.rank(both, join("risk < 2 and (price = 1 or venue = 'n')")).num_rows == 0
    assert sb.rank(both, join("stock != 'v'"))["stock"].to_pylist() == ["u"]
    with pytest.raises(sb.SchemaError, match="no source has a column 'gone'"):
        sb.rank(both, join("gone = 1 and risk < 2"))
    with pytest.raises(sb.SchemaError, match=r"no source has all columns .* price, risk;"):
        sb.rank(both, join("price < risk"))


def test_a_source_that_never_comes_has_no_column() -> None:
    query = sb.FusedTopK(
        k=1, id="car", value="v", streams=("n", "s"), time="t", window=WINDOW, where={"gone": 1}
    )
    table = pa.table({"t": [1], "car": ["a"], "v": [0.5]})
    with pytest.raises(sb.SchemaError, match="no source has a column 'gone'"):
        sb.rank({"n": table}, query)


# The query as text --------------------------------------------------------------------------------


def test_the_filter_is_part_of_the_query() -> None:
    assert topk(where={"s": "web"}) == topk(where={"s": ["web"]})
    assert topk(where={"s": "web"}).fingerprint == topk(where={"s": ["web"]}).fingerprint
    assert topk(where={"s": "web"}).fingerprint != topk(where={"s": "dns"}).fingerprint
    assert "where={'s': ('web',)}" in repr(topk())
    assert topk(where=None) == topk(where={})
    text = topk(where=" s = 'web' ")
    assert text == topk(where="s = 'web'")
    assert sb.Monitor.restore(sb.Monitor(text).snapshot()).query == text
    assert "where s = 'web'" in sb.explain(text)


def test_settings_that_have_their_defaults_are_no_part_of_the_fingerprint() -> None:
    plain = sb.TopK(k=1, score="x", window=sb.CountWindow(9))
    assert plain.fingerprint == "3cda4ed3acfd173d74bb1fff587a7123"
    for more in ({"k": 2}, {"id": "x"}, {"largest": False}, {"where": {"s": 1}}, {"by": ("s",)}):
        other: Any = {"k": 1, "score": "x"} | more
        assert sb.TopK(**other, window=sb.CountWindow(9)).fingerprint != plain.fingerprint


def test_the_command_line() -> None:
    fields = pytest.importorskip("skyband.cli.fields")

    def read(*words: str) -> Any:
        given = {"k": 1, "score": "x", "where": list(words)}
        return fields.query_of(sb.TopK, sb.CountWindow(1), given).where

    assert read("service=web,dns") == {"service": ("web", "dns")}
    assert read("port=80,443", "tls=true") == {"port": (80, 443), "tls": (True,)}
    assert read('port="80",81,name=a=b') == {"port": ("80", 81), "name": ("a=b",)}
    assert read('title="a, b=c"') == {"title": ("a, b=c",)}
    with pytest.raises(sb.QueryError, match="--where must be written name=value,value"):
        read("web")
    # What is no such list is a condition.
    for text in ("port in (80, 443)", "name = 'a' or x<9", "a=1 and b=2", "not tls", "a is null"):
        assert read(text) == text
    assert read("x > 1", "tls or y < 2") == "(x > 1) and (tls or y < 2)"
    names = ("O'Brien", "war and peace", '"x > 3"')
    assert [read(f"name={name}")["name"][0] for name in names] == [*names[:2], "x > 3"]
    with pytest.raises(sb.QueryError, match="write 'a=1' as one, too"):
        read("a=1", "x > 1")


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ({"service": ["web", "dns"], "day": date(2026, 1, 5)},
         {"service": ("web", "dns"), "day": ("2026-01-05",)}),
        ("service = 'web' or bytes > 9", "service = 'web' or bytes > 9"),
    ],
)  # fmt: skip
def test_a_job_file(where: Any, wanted: Any) -> None:
    jobs = pytest.importorskip("skyband.jobs")
    told = {
        "name": "busiest",
        "checkpoint": "state",
        "source": {"kind": "files", "path": "flows"},
        "sink": {"kind": "console"},
        "query": {
            "kind": "TopK",
            "k": 2,
            "score": "x",
            "time": "ts",
            "window": {"size": "1 minute"},
            "where": where,
        },
    }
    (query,) = jobs.parse_job(told).queries.values()
    assert query.where == wanted


# Spark --------------------------------------------------------------------------------------------


def test_summaries_on_spark_hold_only_rows_that_count() -> None:
    pytest.importorskip("pyspark")
    from support import spark_simulator

    stream = streams.stream(7, 200, lateness=5, step=2, gap=40, batches=6, groups=3)
    window = sb.TimeWindow(30, slide=7, lateness=5)
    query = sb.TopK(k=2, score="score", id="id", time="ts", by=("g",), window=window,
                    where="kind = 'a' and price + 0 in (0, 1, 2, 3, 4, 5)")  # fmt: skip
    sources = spark_simulator.first_tables(stream.batches)
    for shards in (1, 3):
        job = spark_simulator.Job(spark_simulator.plan_of(query, sources, shards=shards), 2)
        got = pa.concat_tables([job.push({"": batch}) for batch in stream.batches])
        want, stats = spark_session.embedded(query, stream.batches)
        names = ["window_end", "g", "rank"]
        order = [(name, "ascending") for name in names]
        assert got.sort_by(order).to_pylist() == want.sort_by(order).to_pylist()
        assert want.num_rows > 50
        assert job.stats["rows_filtered"] == stats["rows_filtered"] > 50
        assert job.stats["rows_in"] == stats["rows_in"] == 200


def test_the_oracle() -> None:
    rows: list[oracle.Row] = [{"ts": 1, "s": "a", "x": 1}, {"ts": 25, "s": None, "x": 9}]
    run = oracle.answers(
        "TopK", oracle.TimeWindow(10), [rows], k=1, score="x", time="ts", where={"s": ["a", "b"]}
    )
    assert [(a.end, a.total) for a in run.answers] == [(10, 1), (20, 0)]
    assert (run.rows_in, run.rows_filtered) == (2, 1)
