"""Windows that are corrected: what sinks, messages and the page keep is the last revision."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import explain, parse_job
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.job import JobSection
from skyband.jobs.local.posts import Request
from skyband.jobs.sinks.base import SinkTarget, TableRows, messages_of
from skyband.jobs.sinks.files import FilesSink
from skyband.serve.bodies import read_body
from skyband.serve.history import Event, History
from support import served
from support.local_jobs import corrected, job

SCHEMA = pa.schema(
    [("window_start", pa.int64()), ("window_end", pa.int64()), ("revision", pa.int32()),
     ("g", pa.string()), ("rank", pa.int32()), ("id", pa.string())]
)  # fmt: skip


def window(end: int, revision: int, names: str, group: str | None = "x") -> pa.Table:
    """A window that ends there, with one row per letter."""
    count = len(names)
    columns = [[end - 10] * count, [end] * count, [revision] * count, [group] * count]
    columns += [list(range(1, count + 1)), list(names)]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)


def rows(*windows: pa.Table) -> TableRows:
    return TableRows(windows, SCHEMA)


def test_files_have_the_revision_in_their_names(tmp_path: Path) -> None:
    section = JobSection("files", {"path": str(tmp_path)})
    sink = FilesSink(SinkTarget(section, query="best", revises=True))
    sink.open("run")
    sink.write(3, rows(window(10, 1, "ab"), window(20, 0, "c"), window(30, 0, "d")))
    sink.write(4, rows(window(10, 2, "a")))
    found = {path.name: pq.read_table(path) for path in sorted(tmp_path.glob("*.parquet"))}
    assert list(found) == [f"best-run-0000000{n}.parquet" for n in ("3-r0", "3-r1", "4-r2")]
    for name, table in found.items():
        assert set(table["revision"].to_pylist()) == {int(name[-9])}
    assert [table["window_end"].to_pylist() for table in found.values()] == [
        [20, 30],
        [10, 10],
        [10],
    ]
    again = FilesSink(SinkTarget(section, query="best", revises=True))
    again.open("run")
    again.write(3, rows(window(10, 1, "ab")))  # a checkpoint that was restored from a copy
    assert not list(tmp_path.glob("*-00000004-r2.parquet"))


def test_messages_are_of_whole_windows_in_their_last_revision() -> None:
    given = rows(window(10, 1, "ab"), window(10, 2, "cd"), window(20, 0, "e"))
    target = SinkTarget(JobSection("http", {}), job="network", query="best", revises=True)
    found = list(messages_of(given, target))
    assert [(m["key"], m["revision"], [row["id"] for row in m["rows"]]) for m in found] == [
        ("network/best/10", 2, ["c", "d"]),
        ("network/best/20", 0, ["e"]),
    ]


def test_kafka_sends_a_window_under_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    from skyband.jobs.sinks import kafka

    monkeypatch.setattr("skyband.jobs.world.require_kafka", lambda: None)
    section = JobSection("kafka", {"topic": "t", "servers": "s"})
    target = SinkTarget(section, job="network", query="best", revises=True)
    sink = kafka.KafkaSink(target)
    ((key, message),) = sink._messages(rows(window(10, 1, "ab")))
    assert (key, message["revision"], len(message["rows"])) == ("network/best/10", 1, 2)
    plain = kafka.KafkaSink(replace(target, revises=False))
    assert [each["id"] for _, each in plain._messages(rows(window(10, 1, "ab")))] == ["a", "b"]


class TestPostgres:
    def sink(self, dsn: str, table: str, run: str) -> Any:
        from skyband.jobs.sinks.postgres import PostgresSink

        section = JobSection("postgres", {"dsn": dsn, "table": table})
        made = PostgresSink(SinkTarget(section, job="best", query="best", by=("g",), revises=True))
        made.open(run)
        return made

    def stored(self, dsn: str, table: str) -> str:
        import psycopg

        with psycopg.connect(dsn) as connection:
            found = connection.execute(
                "SELECT window_end, max(revision), string_agg(id, '' ORDER BY g, id) "
                f"FROM {table} GROUP BY window_end ORDER BY window_end"
            ).fetchall()
        return " ".join(f"{end}.{revision}:{names}" for end, revision, names in found)

    def test_a_correction_replaces_its_window(self, dsn: str) -> None:
        sink = self.sink(dsn, "corrected", "a")
        batches = [
            [window(10, 0, "ab"), window(10, 0, "z", None), window(20, 0, "c")],
            [window(10, 1, "d"), window(30, 0, "e")],
            [window(10, 2, "fg", None), window(20, 1, "h"), window(20, 2, "i")],
        ]
        for number, batch in enumerate(batches):
            sink.write(number, rows(*batch))
        last = "10.2:dfg 20.2:i 30.0:e"
        assert self.stored(dsn, "corrected") == last
        for number, batch in enumerate(batches):  # all of them again, as after a kill
            again = self.sink(dsn, "corrected", "a")
            again.write(number, rows(*batch))
            assert self.stored(dsn, "corrected") == last

    def test_a_newer_run_is_not_corrected_by_an_older_one(self, dsn: str) -> None:
        old, new = self.sink(dsn, "runs", "a"), self.sink(dsn, "runs", "b")
        old.write(0, rows(window(10, 0, "a"), window(20, 0, "b"), window(30, 0, "c")))
        old.write(1, rows(window(10, 1, "d")))
        new.write(0, rows(window(10, 0, "e"), window(20, 0, "f")))
        assert self.stored(dsn, "runs") == "10.0:e 20.0:f 30.0:c"
        old.write(2, rows(window(20, 1, "x"), window(30, 1, "g")))
        assert self.stored(dsn, "runs") == "10.0:e 20.0:f 30.1:g"
        new.write(1, rows(window(20, 1, "h")))
        assert self.stored(dsn, "runs") == "10.0:e 20.1:h 30.1:g"


def event(number: int, end: int, revision: int) -> Event:
    return Event(number, "a", str(end), json.dumps({"end": end, "revision": revision}), revision)


def test_the_history_keeps_the_last_revision(tmp_path: Path) -> None:
    history = History(["a"], 4, tmp_path / "answers")
    history.add([event(1, 10, 0), event(2, 20, 0)], 2)
    history.write()
    history.add([event(3, 10, 1), event(4, 30, 0)], 4)
    history.add([event(5, 10, 2)], 5)
    for _ in range(3):
        shown = [(each.end, each.revision) for each in history.newest("a", 9)]
        assert shown == [("10", 2), ("20", 0), ("30", 0)]
        assert [each.end for each in history.newest("a", 1)] == ["30"]
        assert [each.end for each in history.first()] == ["30"]
        # One who has seen the first answer gets the others in their last form, without a gap.
        assert [each.number for each in history.since(1) or ()] == [2, 4, 5]
        history.write()
        history._damaged = True  # so that the next one is written anew
        history.write()
        history = History(["a"], 4, tmp_path / "answers")


def test_a_job_says_how_long_windows_are_corrected(tmp_path: Path) -> None:
    told = corrected(job(tmp_path))
    found = parse_job(told)
    assert [found.revises(name) for name in found.queries] == [True, True]
    assert explain(found).count("revise 1000000") == 2
    told["queries"]["busiest"]["sink"]["changes"] = ["enter"]
    assert not parse_job(told).revises("busiest")
    told["queries"]["busiest"]["window"] = {"count": 10, "revise": 5}
    with pytest.raises(sb.QueryError, match="no key 'revise'; its keys are count, slide"):
        parse_job(told)


def test_the_page_and_the_letters_of_a_job_with_corrections(tmp_path: Path) -> None:
    window = sb.TimeWindow("4 seconds", revise="1 minute")
    best = sb.TopK(k=1, score="bytes", id="flow", time="ts", window=window)
    letters = JobSection("files", {"path": str(tmp_path / "letters"), "writer": None})
    settings: dict[str, Any] = {"late": "letters", "dead_letters": letters}
    service = served.new_service(tmp_path / "state", {"best": best}, **settings)
    schema = arrow_schema("[source]", served.SCHEMA)

    def post(second: int, size: int) -> None:
        row = served.rows(second, 1)[0] | {"bytes": size}
        table = read_body("json", served.ndjson([row]), schema)
        key = str(second)
        service.inbox.submit(Request("", table, 100, key, key)).result(20)

    for second, size in ((1, 5), (9, 6), (2, 7), (100, 1), (3, 9), (90, 8)):
        post(second, size)
    kept = [json.loads(each.text) for each in service.history.newest("best", 9)]
    service.close()
    assert [(each["revision"], [r["bytes"] for r in each["rows"]]) for each in kept] == [
        (1, [7]), (0, []), (0, [6]), (0, []), (0, [8]),
    ]  # fmt: skip
    text = "".join(path.read_text() for path in (tmp_path / "letters").glob("*.json*"))
    assert "late by 97 seconds for query best" in text
    assert "late by 10" not in text
