"""Alerts and the rank of one: what callers ask of answers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from support import spark_session, streams

ROWS = pa.table({"id": list("abcab"), "x": [5, 7, 6, 8, 9], "note": list("pqrst"), "t": range(5)})


def topk(**asked: Any) -> sb.TopK:
    given: dict[str, Any] = {"k": 2, "score": "x", "id": "id", "time": "t"}
    return sb.TopK(**(given | {"window": sb.CountWindow(3, slide=1)} | asked))


# Alerts -------------------------------------------------------------------------------------------


def test_only_what_enters_or_leaves_with_its_row() -> None:
    every = list(sb.watch(ROWS, topk()))
    assert [a.changes["change"].to_pylist() for a in every] == [
        ["enter"],
        ["enter", "move"],
        ["enter", "leave"],
        ["enter", "move", "leave"],
        ["move", "move"],
    ]
    alerts = list(sb.watch(ROWS, topk(), only="changes"))
    assert [a.end for a in alerts] == [1, 2, 3, 4]
    names = ["change", "id", "from_rank", "to_rank", "x", "t"]
    assert all(a.changes.column_names == names for a in alerts)
    told = [[tuple(row.values()) for row in a.changes.to_pylist()] for a in alerts]
    assert told == [
        [("enter", "a", None, 1, 5, 0)],
        [("enter", "b", None, 1, 7, 1)],
        [("enter", "c", None, 2, 6, 2), ("leave", "a", 2, None, 5, 0)],
        [("enter", "a", None, 1, 8, 3), ("leave", "c", 2, None, 6, 2)],
    ]
    # The whole table is still there.
    assert alerts[-1].table.equals(every[3].table)


def test_alerts_by_group_of_skylines_and_of_boards() -> None:
    stream = streams.stream(3, 60, step=2, batches=5)
    window = sb.TimeWindow(12, slide=4)
    top = sb.TopK(k=2, score="score", id="id", time="ts", by=("g",), window=window)
    sky = sb.Skyline(prefer={"price": "min", "volume": "max"}, time="ts", window=window)
    for query in (top, sky):
        whole = sb.watch(stream.batches, query, on_bad="skip")
        alerts = list(sb.watch(stream.batches, query, on_bad="skip", only="changes"))
        wanted = {}
        for answer in whole:
            rows = [r for r in answer.changes.to_pylist() if r["change"] != "move"]
            if rows:
                wanted[answer.end] = rows
        assert [a.end for a in alerts] == list(wanted)
        for answer in alerts:
            got = answer.changes.to_pylist()
            short = [{name: row[name] for name in wanted[answer.end][0]} for row in got]
            assert short == wanted[answer.end]
    board = list(sb.watch(stream.batches, {"top": top, "sky": sky}, "skip", only="changes"))
    assert {a.name for a in board} == {"top", "sky"}


def test_only_takes_one_word() -> None:
    with pytest.raises(sb.QueryError, match="only must be one of changes, not 'moves'"):
        sb.watch(ROWS, topk(), only="moves")  # type: ignore[arg-type]


def test_the_command_line(tmp_path: Any) -> None:
    pytest.importorskip("typer")
    from support.command_line import bad, good

    path = tmp_path / "rows.parquet"
    pq.write_table(ROWS, path)
    asked = ("topk", path, "-k", 2, "--score", "x", "--id", "id", "--count", 3, "--slide", 1)
    text = good(*asked, "--on", "enter,leave", "--format", "csv")
    assert text.splitlines() == [
        '"window_start","window_end","change","id","from_rank","to_rank","x"',
        '0,1,"enter","a",,1,5',
        '0,2,"enter","b",,1,7',
        '0,3,"enter","c",,2,6',
        '0,3,"leave","a",2,,5',
        '1,4,"enter","a",,1,8',
        '1,4,"leave","c",2,,6',
    ]
    lines = good(*asked, "--on", "leave", "--watch", "--format", "csv").splitlines()
    assert [line.split(",")[3] for line in lines] == ['"id"', '"a"', '"c"']
    assert "enter, leave, move" in bad(*asked, "--on", "arrive")


def test_alerts_on_spark() -> None:
    pytest.importorskip("pyspark")
    from support import spark_simulator

    stream = streams.stream(7, 90, step=4, batches=4)
    query = sb.TopK(k=2, score="score", id="id", time="ts", window=sb.TimeWindow(30, slide=10))
    sources = spark_simulator.first_tables(stream.batches)
    plan = spark_simulator.plan_of(query, sources, shards=2, changes=("enter", "leave"))
    job = spark_simulator.Job(plan, 2)
    got = pa.concat_tables([job.push({"": batch}) for batch in stream.batches])
    want, _ = spark_session.embedded(query, stream.batches, changes=True)
    wanted = [row for row in want.to_pylist() if row["change"] != "move"]
    names = want.column_names
    assert got.select(names).to_pylist() == wanted
    assert got.column_names == [*names, "score", "ts"]
    assert any(row["change"] == "leave" for row in wanted)
    assert plan.first.identity["changes"] == ["enter", "leave"]


# The rank of one ----------------------------------------------------------------------------------


def test_the_rank_of_an_id() -> None:
    *_, answer = sb.watch(ROWS, topk(k=3))
    assert (answer.rank_of("b"), answer.rank_of("a"), answer.rank_of("c")) == (1, 2, 3)
    assert answer.rank_of("z") is None
    assert answer.rank_of(5) is None
    again = pa.table({"id": list("aab"), "x": [5, 9, 7], "t": [0, 1, 2]})
    *_, answer = sb.watch(again, topk(k=3))
    assert answer.rank_of("a") == 1  # the best of two rows


def test_the_rank_of_an_id_in_its_group() -> None:
    rows = ROWS.append_column("g", pa.array(["u", "v", "u", "v", None]))
    (answer,) = sb.watch(rows, topk(by=("g",), window=sb.TimeWindow(9)))
    assert answer.rank_of("a", g="u") == 2
    assert answer.rank_of("a", {"g": "v"}) == 1
    assert answer.rank_of("b", by={"g": "v"}) == 2
    assert answer.rank_of("b", g="u") is None
    assert answer.rank_of("b", g=None) == 1
    for group in ({}, {"h": 1}):
        with pytest.raises(sb.QueryError, match=r"its group: g=\.\.\."):
            answer.rank_of("a", group)


def test_the_rank_of_an_item() -> None:
    window = sb.CountWindow(5)
    (answer,) = sb.watch(ROWS, sb.HeavyHitters(k=2, item="id", window=window, ties="share"))
    assert (answer.rank_of("a"), answer.rank_of("b")) == (1, 1)
    (answer,) = sb.watch(ROWS, sb.HeavyHitters(k=5, item=("id", "x"), window=window))
    assert answer.rank_of(("a", 5)) == 1
    assert answer.rank_of(("a", 7)) is None
    with pytest.raises(sb.QueryError, match="pass an item as a tuple of id, x"):
        answer.rank_of("a")


def test_who_has_no_rank() -> None:
    window = sb.CountWindow(5)
    sky = sb.Skyline(prefer={"x": "min"}, id="id", window=window)
    (answer,) = sb.watch(ROWS, sky)
    with pytest.raises(sb.QueryError, match="this Skyline has no ranks"):
        answer.rank_of("a")
    (answer,) = sb.watch(ROWS, sb.TopK(k=1, score="x", window=window))
    with pytest.raises(sb.QueryError, match="this TopK has no id="):
        answer.rank_of("a")


def test_alerts_take_one_kind_and_refuse_unknown_ones() -> None:
    answer = list(sb.watch(ROWS, topk()))[2]
    assert answer.alerts("leave").equals(answer.alerts(("leave",)))
    assert answer.alerts("leave")["id"].to_pylist() == ["a"]
    with pytest.raises(sb.QueryError, match="enter, leave, move"):
        answer.alerts("left")
