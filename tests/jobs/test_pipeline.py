"""Jobs from a file: what is refused, how a plan is shown, and complete runs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.jobs import check_ready, explain, load_job, parse_job
from skyband.jobs.report import Report, newest_window
from support import spark_session, streams

JOB = """
name = "best"
checkpoint = "state"

[source]
kind = "files"
path = "in"
files_per_batch = 1

[query]
kind = "TopK"
k = 2
score = "score"
id = "id"
time = "ts"
by = ["g"]

[query.window]
size = 30
slide = 10
lateness = 5

[sink]
kind = "files"
path = "out"

[dead_letters]
kind = "files"
path = "bad"
format = "json"

[trigger]
once = true
"""


SOCKET = {
    "kind": "socket",
    "host": "127.0.0.1",
    "port": 9999,
    "path": None,
    "files_per_batch": None,
}
POSTGRES = {"kind": "postgres", "path": None, "table": "t", "dsn": "host=127.0.0.1"}
FUSED = {
    "kind": "FusedTopK",
    "value": "score",
    "score": None,
    "streams": ["r1", "r2"],
}


def job(**changes: Any) -> dict[str, Any]:
    """The job above with some tables changed; None removes one."""
    told = tomllib.loads(JOB)
    for name, value in changes.items():
        if value is None:
            told.pop(name, None)
        elif isinstance(value, dict) and isinstance(told.get(name), dict):
            told[name] = {k: v for k, v in (told[name] | value).items() if v is not None}
        else:
            told[name] = value
    return told


class TestRefused:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"nme": "x"}, "no key 'nme'"),
            ({"checkpoint": None}, "needs 'checkpoint'"),
            ({"checkpoint": 3}, "checkpoint must be text"),
            ({"shards": True}, "shards must be a whole number"),
            ({"on_bad": "ignore"}, "on_bad must be one of skip, raise"),
            ({"source": {"kind": "carrier pigeon"}}, "one of files, http, kafka, rate, socket"),
            ({"source": {"path": None}}, r"\[source\] needs 'path'"),
            ({"source": {"topic": "x"}}, r"\[source\] has no key 'topic'"),
            ({"source": None}, "give one"),
            ({"sources": {"a": {}}}, "give one"),
            ({"sink": {"kind": "printer"}}, "console, files, http, kafka, postgres"),
            ({"query": {"kind": "Bottom"}}, "TopK"),
            ({"query": {"q": 1}}, "has no key 'q'"),
            ({"query": {"k": None}}, "'k'"),
            ({"query": {"k": 0}}, "at least 1"),
            ({"query": {"window": None}}, r"\[query.window\] is missing"),
            ({"query": {"window": {"slide": 3}}}, "needs a size"),
            ({"query": {"window": {"size": 3, "hop": 1}}}, "no key 'hop'"),
            ({"query": {"window": {"half_life": 3}}}, "needs a slide"),
            ({"query": {"window": {"since": 3, "size": 3, "slide": 1}}}, "no key 'size'"),
            ({"trigger": {"every": "1 s"}}, "either every or once"),
            ({"trigger": {"once": None, "every": "soon"}}, "not understood"),
            ({"metrics": {}}, "needs 'port'"),
            ({"metrics": {"port": 65_536}}, r"\[metrics\] port must be from 1 to 65535"),
            ({"shards": 0}, "shards must be a whole number of at least 1"),
            ({"name": " "}, "name is empty"),
            ({"source": {"files_per_batch": 0}}, "files_per_batch must be a whole number of at"),
            ({"source": {"format": "xls"}}, r"\[source\] format must be one of parquet, csv"),
            ({"source": {"options": {"mode": "DROPMALFORMED"}}}, "hides records"),
            ({"source": {"reader": "me"}}, r"\[source\] reader must be one of workers, spark"),
            ({"source": {"reader": "spark", "format": "ipc"}}, "no reader for Arrow IPC"),
            ({"source": {"reader": "workers", "format": "orc"}}, "not 'orc'"),
            ({"source": {"reader": "workers", "columns": {"a": "b"}}}, "columns are SQL"),
            ({"source": {"reader": "spark", "storage": {"region": "x"}}}, "storage is for files"),
            ({"source": {"path": "wasb://box/x"}}, 'not wasb:.*reader="spark"'),
            ({"source": {"options": {"mergeSchema": True}}}, "no option 'mergeSchema'"),
            ({"source": {"columns": {"ts": 3}}}, "columns.ts must be an SQL expression"),
            ({"source": SOCKET}, "JSON values need a schema"),
            ({"source": SOCKET | {"port": 0, "schema": "ts bigint"}}, "port must be from 1"),
            ({"source": SOCKET | {"format": "yaml"}}, "format must be one of json, avro, text"),
            ({"source": SOCKET | {"format": "avro"}}, "needs avro_schema"),
            (
                {"source": SOCKET | {"format": "avro", "avro_schema": "/nowhere.avsc"}},
                "avro_schema '/nowhere.avsc' cannot be read",
            ),
            ({"sink": {"format": "xls"}}, r"\[sink\] format must be one of parquet, csv, json"),
            ({"dead_letters": {"format": "xls"}}, r"\[dead_letters\] format must be one of"),
            ({"dead_letters": {"path": "out"}}, "give it a different folder"),
            ({"sink": {"kind": "postgres", "path": None, "table": "t"}}, "either dsn, or dsn_env"),
            ({"sink": POSTGRES | {"table": "t; drop"}}, "table must be a plain name"),
            ({"sink": POSTGRES | {"table": "a..b"}}, "table must be a plain name"),
            ({"query": {"window": {"size": "1500 us"}}}, "whole milliseconds"),
            ({"query": FUSED}, r"needs stream.*\[sources.r1\] and \[sources.r2\]"),
            ({"trigger": {"once": None, "every": "0 s"}}, "must be above 0"),
            ({"source": None, "sources": {"a": {"kind": "files", "path": "x"}}}, "one source"),
        ],
    )
    def test_mistakes(self, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(sb.QueryError, match=message):
            parse_job(job(**changes))

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            (SOCKET | {"schema": "ts bigint, v array<int>"}, "'array'.*reader = \"spark\""),
            ({"format": "csv", "schema": "ts bigint, v interval"}, 'reader = "spark"'),
        ],
    )
    def test_types_that_workers_do_not_read(self, source: dict[str, Any], message: str) -> None:
        told = parse_job(job(engine="spark", source=source, sink={"path": "/nowhere"}))
        with pytest.raises(sb.QueryError, match=message):
            check_ready(told)
        check_ready(parse_job(job(engine="spark", source=source | {"reader": "spark"})))

    def test_windows_without_a_size(self) -> None:
        for written, window in (
            ('{ half_life = "30 m", slide = "1 m" }', sb.DecayWindow("30 m", slide="1 m")),
            ('{ since = 2026-01-01T00:00:00Z, slide = "1 m" }',
             sb.LandmarkWindow("1 m", "2026-01-01")),
            ('{ since = "first", slide = "1 m", lateness = "1 s" }',
             sb.LandmarkWindow("1 m", lateness="1 s")),
        ):  # fmt: skip
            told = job(query={"window": None})
            told["query"]["window"] = tomllib.loads(f"window = {written}")["window"]
            found = parse_job(told)
            assert next(iter(found.queries.values())).window == window
            assert "window every 1 m " in explain(found)

    def test_a_query_of_several_streams_wants_several_sources(self) -> None:
        told = job(query=None)
        told["query"] = {
            "kind": "SkylineJoin",
            "left": "l",
            "right": "r",
            "on": "id",
            "prefer": {"a": "min"},
            "time": "ts",
            "window": {"size": 10},
        }
        with pytest.raises(sb.QueryError, match=r"\[sources.l\] and \[sources.r\]"):
            parse_job(told)
        told["sources"] = {"l": told.pop("source")}
        with pytest.raises(sb.QueryError, match="source 'r' is missing"):
            parse_job(told)

    def test_files(self, tmp_path: Path) -> None:
        with pytest.raises(sb.QueryError, match="cannot be read"):
            load_job(tmp_path / "nothing.toml")
        (tmp_path / "job.toml").write_text("name = ")
        with pytest.raises(sb.QueryError, match="is not TOML"):
            load_job(tmp_path / "job.toml")
        (tmp_path / "job.toml").write_text(JOB.replace("k = 2", "k = -1"))
        with pytest.raises(sb.QueryError, match=r"job\.toml: k must be"):
            load_job(tmp_path / "job.toml")


def test_explain(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB)
    found = load_job(tmp_path / "job.toml")
    assert found.checkpoint == str(tmp_path / "state")
    text = explain(found)
    for part in (
        "files path=",
        "TopK",
        "window 30 every 10",
        "by g",
        "all there is",
        "3 per window",
        "by the workers",
    ):
        assert part in text
    assert "by Spark's reader" in explain(parse_job(job(source={"reader": "spark"})))
    secret = parse_job(job(sink={"kind": "postgres", "path": None, "table": "t", "dsn": "secret"}))
    assert "secret" not in explain(secret)


def test_the_demo_is_a_job() -> None:
    found = load_job(Path(__file__).parents[2] / "examples" / "spark_demo.toml")
    assert found.engine == "spark"


def test_the_verb_explains_and_complains(tmp_path: Path) -> None:
    pytest.importorskip("typer", reason="the command line is an extra")
    (tmp_path / "job.toml").write_text(JOB)
    command = [sys.executable, "-m", "skyband", "pipeline", str(tmp_path / "job.toml")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    shown = subprocess.run(
        [*command, "--explain"], env=environment, capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("pipeline best\n")
    (tmp_path / "job.toml").write_text(JOB.replace("k = 2", "k = 0"))
    refused = subprocess.run(
        [*command, "--explain"], env=environment, capture_output=True, text=True, check=False
    )
    assert refused.returncode != 0
    assert "at least 1" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.spark
class TestRuns:
    def test_files_to_files_twice(self, spark: Any, tmp_path: Path) -> None:
        from skyband.jobs.spark.run_job import run

        stream = streams.stream(9, 120, step=3, batches=4, start=1_000)
        batches = [table.select(["ts", "id", "g", "score"]) for table in stream.batches]
        broken = pa.table({"ts": [2_000], "id": ["z"], "g": ["g0"], "score": [float("nan")]})
        spark_session.write_batches(tmp_path / "in", batches)
        (tmp_path / "job.toml").write_text(JOB)
        told = load_job(tmp_path / "job.toml")
        run(told, spark)
        spark_session.write_batches(tmp_path / "in", [*batches, broken.cast(batches[0].schema)])
        (tmp_path / "in" / "half of it.parquet").write_bytes(b"PAR1 and no more")
        reports: list[Report] = []
        run(told, spark, reports.append)
        # The bad row moves the watermark, so that all windows before it are answered.
        want, _ = spark_session.embedded(told.queries[told.name], [*batches, broken], on_bad="skip")
        got = spark.read.parquet(str(tmp_path / "out")).toArrow()
        assert spark_session.rows(got) == spark_session.rows(want)
        last = reports[-1]
        assert (last.rows, last.bad, last.late) == (2, 2, 0)  # the rows of the second run
        assert last.windows > 0
        assert last.state_bytes is not None
        assert last.watermark == pytest.approx(1.995)
        order = [("g", "ascending"), ("rank", "ascending")]  # Spark gives groups in any order
        shown = last.answers["best"].sort_by(order)
        assert shown.equals(newest_window(got.sort_by(order)))
        letters = spark.read.json(str(tmp_path / "bad")).orderBy("record").collect()
        assert [row.record and json.loads(row.record)["id"] for row in letters] == [None, "z"]
        assert letters[0].file.endswith("half of it.parquet")
        assert "could not be read as parquet" in letters[0].reason
        assert "not a number" in letters[1].reason
        assert letters[1].file.endswith("0004.parquet")
        # The checkpoint folder now belongs to this query.
        (tmp_path / "job.toml").write_text(JOB.replace("k = 2", "k = 3"))
        with pytest.raises(sb.EngineError, match="another query"):
            run(load_job(tmp_path / "job.toml"), spark)
        (tmp_path / "state" / "skyband.json").unlink()
        with pytest.raises(sb.EngineError, match="empty folder"):
            run(told, spark)

    def test_lines_that_are_not_json(self, spark: Any, tmp_path: Path) -> None:
        from skyband.jobs.spark.run_job import start

        lines = [{"ts": 1_000 + n, "id": f"i{n}", "score": float(n % 7)} for n in range(60)]
        sent = [json.dumps(line) for line in lines]
        sent[5:5] = ["{oops", '{"ts": "soon"}']
        with socket.create_server(("127.0.0.1", 0)) as server:
            source = {
                "kind": "socket",
                "host": "127.0.0.1",
                "port": server.getsockname()[1],
                "schema": "ts bigint, id string, score double",
            }
            told = job(source=None, trigger=None, query={"by": None})
            told |= {"source": source, "checkpoint": str(tmp_path / "state")}
            told["sink"]["path"] = str(tmp_path / "out")
            told["dead_letters"]["path"] = str(tmp_path / "bad")
            queries = [start(parse_job(told), spark).query]
            peers = [server.accept()[0] for _ in queries]
            try:
                for peer in peers:
                    peer.sendall(("\n".join(sent) + "\n").encode())
                for query in queries:
                    query.processAllAvailable()
            finally:
                for query in queries:
                    query.stop()
                for peer in peers:
                    peer.close()
        letters = spark.read.json(str(tmp_path / "bad")).collect()
        assert sorted(row.record for row in letters) == ['{"ts": "soon"}', "{oops"]
        got = spark.read.parquet(str(tmp_path / "out"))
        assert got.count() > 0
