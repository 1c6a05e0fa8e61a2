"""Jobs in this process: the same answers as ``sb.rank``, once each, whatever happens."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import parse_job, run_job
from skyband.jobs.job import JobSection
from skyband.jobs.local.checkpoint import Checkpoint
from skyband.jobs.local.files import FileSource
from skyband.jobs.local.local_job import JobProgress, LocalJob, run_local
from skyband.jobs.local.sources import make_source
from skyband.kernels import notice
from support.local_jobs import QUERIES, job, out, query_of, rows, wanted, written


def test_a_job_gives_what_rank_gives(tmp_path: Path) -> None:
    written(tmp_path, rows(3))
    run_job(parse_job(job(tmp_path)))
    for name in QUERIES:
        assert out(tmp_path, name) == wanted(tmp_path, name)


def test_a_single_query(tmp_path: Path) -> None:
    written(tmp_path, rows(2))
    told = job(tmp_path)
    query = told.pop("queries")["busiest"]
    sink = query.pop("sink")
    run_job(parse_job(told | {"query": query, "sink": sink}))
    assert out(tmp_path, "busiest") == wanted(tmp_path, "busiest")
    assert next((tmp_path / "out" / "busiest").iterdir()).name.startswith("network-")


def test_jobs_do_not_flush_unless_asked(tmp_path: Path) -> None:
    written(tmp_path, rows(1))
    run_job(parse_job(job(tmp_path, trigger={"once": True})))
    last = max(row["window_end"] for row in out(tmp_path, "busiest"))
    assert last == max(row["window_end"] for row in wanted(tmp_path, "busiest")) - 60
    run_job(parse_job(job(tmp_path)))  # closes what the first run left open
    assert out(tmp_path, "busiest") == wanted(tmp_path, "busiest")


def test_new_files_are_read_as_they_appear(tmp_path: Path) -> None:
    tables = rows(3)
    written(tmp_path, tables[:1])
    os.utime(tmp_path / "in" / "000.parquet", (1, 1))
    running = LocalJob(parse_job(job(tmp_path, trigger={})))
    steps = running.steps(lambda: False)
    try:
        for _ in range(3):  # 400 rows in batches of 150
            next(steps)
        pq.write_table(tables[1], tmp_path / "in" / "100.parquet")
        os.utime(tmp_path / "in" / "100.parquet", (1, 1))
        next(steps)
        assert running.progress.rows == 550
    finally:
        steps.close()
        running.close()


def test_a_restart_reads_each_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.jobs.local.local_job._SAVE_EVERY", 3600)
    written(tmp_path, rows(3))
    running = LocalJob(parse_job(job(tmp_path)))
    steps = running.steps(lambda: False)
    for _ in range(4):
        next(steps)
    steps.close()  # as after a crash: the state was not saved
    assert running.progress.saves == 0
    again = run_local(parse_job(job(tmp_path)))
    assert again.replayed == 4
    assert again.rows == 1200
    third = run_local(parse_job(job(tmp_path)))
    assert (third.replayed, third.rows) == (0, 0)
    for name in QUERIES:
        assert out(tmp_path, name) == wanted(tmp_path, name)


def test_a_line_that_a_crash_cut_off_is_removed(tmp_path: Path) -> None:
    written(tmp_path, rows(1))
    (tmp_path / "lots").write_bytes(b'[]\n[["a"')
    source = FileSource(
        "[source]", JobSection("files", {"path": str(tmp_path / "in")}), tmp_path / "lots"
    )
    assert source.take(source.first, last=True) is not None
    assert (tmp_path / "lots").read_bytes().startswith(b'[]\n[["/')


def test_changes_and_dead_letters(tmp_path: Path) -> None:
    table = rows(1)[0]
    worse = table.set_column(2, "bytes", pa.array([None, *table["bytes"].to_pylist()[1:]]))
    written(tmp_path, [worse])
    letters = {"kind": "files", "path": str(tmp_path / "bad"), "format": "json"}
    run_job(parse_job(job(tmp_path, changes=True, dead_letters=letters)))
    (found,) = (tmp_path / "bad").glob("*.json")
    (letter,) = [json.loads(line) for line in found.read_text().splitlines()]
    assert letter["reason"].startswith("busiest: column 'bytes': the score is null")
    assert letter["file"].endswith("000.parquet")
    assert json.loads(letter["record"])["flow"] == table["flow"][0].as_py()
    changes = pq.read_table(tmp_path / "out" / "busiest")
    assert changes.column_names[:4] == ["window_start", "window_end", "change", "flow"]
    strict = job(tmp_path, on_bad="raise", checkpoint=str(tmp_path / "other"))
    with pytest.raises(sb.DataError, match="bytes"):
        run_job(parse_job(strict))


def test_late_and_bad_rows_are_told(tmp_path: Path) -> None:
    """Counts are those since the job was started."""
    first = {"ts": [1, 9], "flow": [1, 2], "bytes": [1, 2]}
    later = {"ts": [0, 10], "flow": [3, 4], "bytes": [3, None]}
    told = job(tmp_path, trigger={"once": True})
    told["queries"] = {"best": told["queries"]["busiest"] | {"window": {"size": 2}}}
    for name, counts in ((first, (2, 0, 0)), (later, (2, 1, 1)), (later, (2, 1, 1))):
        number = len(list((tmp_path / "in").glob("*")))
        written(tmp_path, [pa.table(name)], number)
        report = run_local(parse_job(told)).report()
        assert (report.rows, report.late, report.bad) == counts
        assert report.state_bytes


def test_compiling_does_not_count_as_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(notice, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    progress = JobProgress(rows=30)
    with notice.waiting():
        now[0] += 20
    now[0] += 3
    assert progress.report().rate == 10


def test_several_sources(tmp_path: Path) -> None:
    left, right = ({"ts": [0, 5, 11, 31], "stock": list("xyxy")} for _ in range(2))
    pq.write_table(pa.table(left | {"price": [3.0, 2.0, 1.0, 2.5]}), tmp_path / "l.parquet")
    pq.write_table(pa.table(right | {"risk": [1.0, 2.0, 3.0, 1.5]}), tmp_path / "r.parquet")
    sides = {"trades": "l", "risks": "r"}
    query: dict[str, Any] = {"left": "trades", "right": "risks", "on": "stock", "time": "ts"}
    prefer = {"price": "min", "risk": "min"}
    told = {
        "name": "pairs",
        "engine": "local",
        "checkpoint": str(tmp_path / "state"),
        "sources": {
            name: {"kind": "files", "path": str(tmp_path / f"{file}.parquet"), "rows_per_batch": 2}
            for name, file in sides.items()
        },
        "query": {"kind": "SkylineJoin", **query, "prefer": prefer, "window": {"size": 10}},
        "sink": {"kind": "files", "path": str(tmp_path / "out")},
        "trigger": {"once": True, "close": True},
    }
    run_job(parse_job(told))
    sources = {name: tmp_path / f"{file}.parquet" for name, file in sides.items()}
    spec = sb.SkylineJoin(**query, prefer=prefer, window=sb.TimeWindow(10))
    found = pq.read_table(tmp_path / "out").sort_by([("window_end", "ascending")])
    assert found.to_pylist() == sb.rank(sources, spec).to_pylist()


class TestRefused:
    def test_another_query(self, tmp_path: Path) -> None:
        written(tmp_path, rows(1))
        run_job(parse_job(job(tmp_path)))
        told = job(tmp_path)
        told["queries"]["busiest"]["k"] = 7
        with pytest.raises(sb.EngineError, match="busiest changed since"):
            run_job(parse_job(told))

    def test_a_folder_of_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "state").mkdir()
        (tmp_path / "state" / "thesis.txt").write_text("years of work")
        with pytest.raises(sb.EngineError, match="not empty"):
            run_job(parse_job(job(tmp_path)))

    def test_a_file_that_changed(self, tmp_path: Path) -> None:
        written(tmp_path, rows(1))
        running = LocalJob(parse_job(job(tmp_path)))
        steps = running.steps(lambda: False)
        next(steps)
        steps.close()
        written(tmp_path, rows(1, each=500))
        with pytest.raises(sb.EngineError, match=r"000\.parquet' has changed"):
            run_job(parse_job(job(tmp_path)))

    def test_a_damaged_snapshot(self, tmp_path: Path) -> None:
        written(tmp_path, rows(1))
        run_job(parse_job(job(tmp_path)))
        (tmp_path / "state" / "snapshot").write_bytes(b"?")
        with pytest.raises(sb.EngineError, match="snapshot is damaged"):
            run_job(parse_job(job(tmp_path)))

    def test_a_checkpoint_from_spark(self, tmp_path: Path) -> None:
        (tmp_path / "skyband.json").write_text('{"run": "x", "identity": {}}')
        with pytest.raises(sb.EngineError, match="written on Spark"):
            Checkpoint(str(tmp_path), "network", {})

    def test_what_only_local_jobs_do(self, tmp_path: Path) -> None:
        source = {"kind": "http", "schema": "ts bigint, flow string"}
        told = parse_job(job(tmp_path, engine="spark", source=source))
        with pytest.raises(sb.QueryError, match="local"):
            run_job(told)


def lines_to(host_port: list[int], text: bytes) -> threading.Thread:
    """Serve some lines to the first that connects."""
    server = socket.create_server(("127.0.0.1", 0))
    host_port.append(server.getsockname()[1])

    def serve() -> None:
        with server, server.accept()[0] as connection:
            connection.sendall(text)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def test_lines_from_a_socket(tmp_path: Path) -> None:
    rows = [{"ts": i, "flow": i % 3, "bytes": (7 * i) % 11} for i in range(20)]
    text = "\n".join(json.dumps(row) for row in rows) + "\n{oops\n"
    port: list[int] = []
    thread = lines_to(port, text.encode())
    source = {
        "kind": "socket",
        "host": "127.0.0.1",
        "port": port[0],
        "schema": "ts bigint, flow bigint, bytes bigint",
        "columns": {"ts": "ts", "flow": "flow", "bytes": "bytes * 2 + 1"},
    }
    letters = {"kind": "files", "path": str(tmp_path / "bad")}
    run_job(parse_job(job(tmp_path, source=source, dead_letters=letters)))
    thread.join(10)
    table = pa.Table.from_pylist([row | {"bytes": 2 * row["bytes"] + 1} for row in rows])
    assert out(tmp_path, "busiest") == sb.rank(table, query_of("busiest")).to_pylist()
    (found,) = (tmp_path / "bad").glob("*.json")
    letter = json.loads(found.read_text())
    assert (letter["reason"], letter["record"]) == ("not JSON that fits the schema", "{oops")


def test_a_generated_stream_can_be_read_again(tmp_path: Path) -> None:
    source = {"kind": "rate", "rows_per_batch": 5, "columns": {"ts": "timestamp", "n": "value"}}
    rate = make_source("", JobSection("rate", source), tmp_path)
    one = rate.take(None, last=False)
    assert one is not None
    two = rate.take(one[1], last=False)
    assert two is not None
    assert two[0]["n"].to_pylist() == [5, 6, 7, 8, 9]
    assert rate.again(one[1], two[1]).equals(two[0])


@pytest.mark.spark
def test_several_queries_on_spark(spark: Any, tmp_path: Path) -> None:
    """One streaming query answers them all; the last windows wait for the watermark."""
    from skyband.jobs.spark.run_job import run

    tables = rows(2)
    written(tmp_path, tables[:1])
    told = job(tmp_path, engine="spark", trigger={"once": True})
    told["source"] = {"kind": "files", "path": str(tmp_path / "in")}
    run(parse_job(told), spark)
    written(tmp_path, tables)
    run(parse_job(told), spark)
    for name in QUERIES:
        monitor = sb.Monitor(query_of(name))
        answers = monitor.push(tables[0]) + monitor.push(tables[1])
        assert out(tmp_path, name) == [row for a in answers for row in a.table.to_pylist()]
    mark = json.loads((tmp_path / "state" / "skyband.json").read_text())
    assert list(mark["identity"]["board"]) == list(QUERIES)
    told["queries"]["busiest"]["k"] = 3
    with pytest.raises(sb.EngineError, match="query 'busiest'"):
        run(parse_job(told), spark)


def test_letters_of_a_computed_score_and_a_filter(tmp_path: Path) -> None:
    made = rows(1)
    written(tmp_path, made)
    told = job(tmp_path, dead_letters={"kind": "files", "path": str(tmp_path / "bad")})
    told["queries"]["busiest"] |= {"score": "bytes / flow", "where": {"flow": [0, 1, 2]}}
    run_job(parse_job(told))
    texts = [path.read_text() for path in (tmp_path / "bad").iterdir()]
    letters = [json.loads(line) for text in texts for line in text.splitlines()]
    flows = made[0]["flow"].to_pylist()
    assert len(letters) == flows.count(0) > 5
    reason = "busiest: column 'bytes / flow': the score is not a number (nan)"
    assert {letter["reason"] for letter in letters} == {reason}
    assert all(json.loads(letter["record"])["flow"] == 0 for letter in letters)


class TestColumns:
    """What a source computes its columns from belongs to its checkpoint."""

    def told(self, folder: Path, **columns: str) -> Any:
        made = job(folder)
        same = {name: name for name in ("ts", "flow", "bytes")}
        made["source"]["columns"] = {} if columns == {"none": ""} else same | columns
        return parse_job(made)

    @pytest.mark.parametrize("before", [{}, {"none": ""}, {"bytes": "bytes * 1"}])
    def test_a_column_with_another_meaning_is_refused(
        self, tmp_path: Path, before: dict[str, str]
    ) -> None:
        written(tmp_path, rows(1))
        run_local(self.told(tmp_path, **before))
        with pytest.raises(sb.EngineError, match=r"\[source\] columns: bytes changed since"):
            LocalJob(self.told(tmp_path, bytes="bytes * 2"))
        LocalJob(self.told(tmp_path, **before)).close()

    def test_columns_may_come_and_go(self, tmp_path: Path) -> None:
        written(tmp_path, rows(1))
        run_local(self.told(tmp_path, none=""))
        run_local(self.told(tmp_path))
        LocalJob(self.told(tmp_path, more="bytes * 2")).close()
        with pytest.raises(sb.EngineError, match="columns: more changed"):
            LocalJob(self.told(tmp_path, more="bytes * 3"))
        LocalJob(self.told(tmp_path)).close()
        LocalJob(self.told(tmp_path, none="")).close()

    def test_a_service_refuses_them_too(self, tmp_path: Path) -> None:
        from skyband.serve.service import Service

        def names(told: Any) -> list[str]:
            service = Service(told)
            until = time.monotonic() + 20
            while not service.status.finished:
                assert time.monotonic() < until
                time.sleep(0.01)
            service.close()
            return list(service.schemas[""].names)

        written(tmp_path, rows(1))
        assert names(self.told(tmp_path)) == ["ts", "flow", "bytes"]
        with pytest.raises(sb.EngineError, match="columns: bytes changed"):
            Service(self.told(tmp_path, bytes="bytes * 2"))
        assert names(self.told(tmp_path, more="bytes * 2")) == ["ts", "flow", "bytes", "more"]
