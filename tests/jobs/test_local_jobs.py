"""Jobs in this process: the same answers as ``sb.rank``, once each, whatever happens."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import explain, parse_job, problems_of, run_job
from skyband.jobs.job import Section
from skyband.jobs.local.checkpoint import Checkpoint, read_lines
from skyband.jobs.local.run import LocalJob, run_local
from skyband.jobs.local.sources import make_source

WINDOW = {"size": 300, "slide": 60}
QUERIES: dict[str, dict[str, Any]] = {
    "busiest": {"kind": "TopK", "k": 2, "score": "bytes", "id": "flow", "time": "ts"},
    "talkers": {"kind": "HeavyHitters", "k": 3, "item": "flow", "time": "ts"},
}


def rows(hours: int, each: int = 400, seed: int = 5) -> list[pa.Table]:
    """One table per hour, in the order of time."""
    rng = np.random.default_rng(seed)
    return [
        pa.table(
            {
                "ts": np.sort(rng.integers(hour * 3600, (hour + 1) * 3600, each)),
                "flow": rng.integers(0, 20, each),
                "bytes": rng.integers(0, 10_000, each),
            }
        )
        for hour in range(hours)
    ]


def written(folder: Path, tables: list[pa.Table]) -> Path:
    (folder / "in").mkdir(exist_ok=True)
    for i, table in enumerate(tables):
        pq.write_table(table, folder / "in" / f"{i:03}.parquet")
    return folder / "in"


def job(folder: Path, **changes: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": "network",
        "engine": "local",
        "checkpoint": str(folder / "state"),
        "source": {"kind": "files", "path": str(folder / "in"), "rows_per_batch": 150},
        "queries": {
            name: query
            | {"window": WINDOW, "sink": {"kind": "files", "path": str(folder / "out" / name)}}
            for name, query in QUERIES.items()
        },
        "trigger": {"once": True, "close": True},
    }
    return told | changes


def query_of(name: str) -> sb.query.Query:
    told = QUERIES[name] | {"window": sb.TimeWindow(**WINDOW)}
    return sb.query.KINDS[told.pop("kind")](**told)


def out(folder: Path, name: str) -> list[dict[str, Any]]:
    found = pq.read_table(folder / "out" / name)
    ordered = found.sort_by([("window_end", "ascending"), ("rank", "ascending")])
    return list(ordered.to_pylist())


def wanted(folder: Path, name: str) -> list[dict[str, Any]]:
    return list(sb.rank(folder / "in", query_of(name)).to_pylist())


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
    monkeypatch.setattr("skyband.jobs.local.run._SAVE_EVERY", 3600)
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
    (tmp_path / "lines").write_bytes(b'{"a": 1}\n{"b"')
    assert read_lines(tmp_path / "lines") == [{"a": 1}]
    assert (tmp_path / "lines").read_bytes() == b'{"a": 1}\n'


RUN = """
import sys
from skyband.jobs import load_job
from skyband.jobs.local import run
run._SAVE_EVERY, run._SAVE_SHARE = 0.02, 0
run.run_local(load_job(sys.argv[1]))
"""


def killed(folder: Path, kills: int, seed: int) -> int:
    """Run a job, kill it at random moments, and let it end; how often it was really killed."""
    chance = random.Random(seed)
    file = folder / "job.toml"
    file.write_text(toml_of(job(folder)))
    command = [sys.executable, "-c", RUN, str(file)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    count = 0
    for _ in range(kills):
        begun = folder / "state" / "batches"
        mark = len(read_lines(begun)) if begun.exists() else 0
        process = subprocess.Popen(command, env=environment)
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            if begun.exists() and begun.read_bytes().count(b"\n") != mark:
                break
            time.sleep(0.001)
        time.sleep(chance.random() * 0.05)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            count += 1
        process.wait(60)
    assert subprocess.run(command, env=environment, timeout=120, check=False).returncode == 0
    return count


def toml_of(told: dict[str, Any], prefix: str = "") -> str:
    plain = [f"{k} = {json.dumps(v)}\n" for k, v in told.items() if not isinstance(v, dict)]
    for name, table in told.items():
        if isinstance(table, dict):
            plain.append(f"[{prefix}{name}]\n" + toml_of(table, f"{prefix}{name}."))
    return "".join(plain)


def check_killed(folder: Path, kills: int) -> None:
    written(folder, rows(15))
    assert killed(folder, kills, seed=3) >= kills // 2
    for name in QUERIES:
        assert out(folder, name) == wanted(folder, name)


def test_a_killed_job_writes_each_window_once(tmp_path: Path) -> None:
    check_killed(tmp_path, 3)


@pytest.mark.slow
def test_a_job_killed_a_hundred_times_writes_each_window_once(tmp_path: Path) -> None:
    for part in range(10):
        (tmp_path / str(part)).mkdir()
        check_killed(tmp_path / str(part), 10)


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


class Receiver(BaseHTTPRequestHandler):
    """Refuses the first message of each window once."""

    got: list[dict[str, Any]]
    tries: dict[str, int]
    status = 503

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers["Idempotency-Key"]
        type(self).tries[key] = self.tries.get(key, 0) + 1
        self.send_response(self.status if self.tries[key] == 1 else 204)
        self.end_headers()
        if self.tries[key] > 1:
            self.got.append(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, type[Receiver]]]:
    monkeypatch.setattr("skyband.jobs.webhook._FIRST_WAIT", 0.001)
    kind = type("Mine", (Receiver,), {"got": [], "tries": {}})
    server = HTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", kind
    server.shutdown()
    server.server_close()


class TestWebhook:
    def told(self, folder: Path, url: str, **more: Any) -> dict[str, Any]:
        told = job(folder)
        told["queries"] = {"busiest": told["queries"]["busiest"]}
        told["queries"]["busiest"]["sink"] = {"kind": "http", "url": url, **more}
        return told

    def test_a_message_per_window(self, tmp_path: Path, receiver: Any) -> None:
        url, got = receiver
        written(tmp_path, rows(1))
        run_job(parse_job(self.told(tmp_path, url)))
        assert set(got.tries.values()) == {2}
        assert [row for message in got.got for row in message["rows"]] == wanted(
            tmp_path, "busiest"
        )
        assert got.got[0]["key"] == f"network/busiest/{got.got[0]['window_end']}"

    def test_what_is_not_accepted(self, tmp_path: Path, receiver: Any) -> None:
        url, got = receiver
        got.status = 400
        written(tmp_path, rows(1, each=20))
        with pytest.raises(sb.EngineError, match=r"did not accept.*status 400.*undelivered"):
            run_job(parse_job(self.told(tmp_path, url)))
        got.tries.clear()
        kept = tmp_path / "lost" / "messages"
        run_job(parse_job(self.told(tmp_path, url, undelivered=str(kept))))
        lost = [json.loads(json.loads(line)["message"]) for line in kept.read_text().splitlines()]
        assert [row for each in lost for row in each["rows"]] == wanted(tmp_path, "busiest")


def test_everything_that_is_wrong_at_once(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(
        """name = "best"
checkpoint = 3
[source]
kind = "files"
pth = "in"
[queries.best]
kind = "TopK"
k = 0
score = "x"
time = "ts"
window = { size = 3 }
sink = { kind = "printer" }
[trigger]
once = true
every = "1 s"
"""
    )
    found = [(each.line, each.text.split(";")[0]) for each in problems_of(tmp_path / "job.toml")]
    assert [line for line, _ in found] == [2, 3, 5, 8, 12, 14]
    assert "checkpoint must be text" in found[0][1]
    assert "needs 'path'" in found[1][1]
    assert "no key 'pth'" in found[2][1]
    assert "k must be" in found[3][1]
    assert "kind must be one of" in found[4][1]
    assert "every and once" in found[5][1]


def test_a_first_job_takes_a_minute(tmp_path: Path) -> None:
    """``init`` drafts a job that runs as it is."""
    from typer.testing import CliRunner

    from skyband.cli.app import app

    tables = rows(2)
    times = [pa.array(t["ts"].to_numpy() * 1_000_000, pa.timestamp("us")) for t in tables]
    written(tmp_path, [t.set_column(0, "ts", s) for t, s in zip(tables, times, strict=True)])
    file = tmp_path / "first.toml"
    made = CliRunner().invoke(app, ["init", str(tmp_path / "in"), "-o", str(file)])
    assert made.exit_code == 0, made.output
    text = file.read_text()
    assert 'path = "in"' in text
    assert "2 files, 800 rows" in text
    assert 'score = "bytes"' in text
    assert CliRunner().invoke(app, ["check", str(file)]).output.endswith("first.toml is fine\n")
    again = CliRunner().invoke(app, ["init", str(tmp_path / "in"), "-o", str(file)])
    assert again.exit_code == 2
    ran = CliRunner().invoke(app, ["pipeline", str(file)])
    assert ran.exit_code == 0, ran.output
    answers = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert {row["query"] for row in answers} == {"best", "frequent"}


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
    assert (letter["reason"], letter["record"]) == ("not JSON of the schema", "{oops")


def test_a_generated_stream_can_be_read_again(tmp_path: Path) -> None:
    source = {"kind": "rate", "rows_per_batch": 5, "columns": {"ts": "timestamp", "n": "value"}}
    rate = make_source("", Section("rate", source), tmp_path)
    one = rate.take(None, last=False)
    assert one is not None
    two = rate.take(one[1], last=False)
    assert two is not None
    assert two[0]["n"].to_pylist() == [5, 6, 7, 8, 9]
    assert rate.again(one[1], two[1]).equals(two[0])


def test_a_sink_may_ask_for_what_enters_or_leaves(tmp_path: Path) -> None:
    made = rows(1)
    written(tmp_path, made)
    told = job(tmp_path)
    told["queries"]["busiest"]["sink"]["changes"] = ["enter", "leave"]
    assert "give   changes to files" in explain(parse_job(told))
    run_job(parse_job(told))
    wanted = [
        {"window_start": a.start, "window_end": a.end} | row
        for a in sb.watch(made[0], query_of("busiest"), only="changes")
        for row in a.changes.to_pylist()
    ]
    found = pq.read_table(tmp_path / "out" / "busiest").sort_by("window_end")
    assert found.to_pylist() == wanted
    names = ["window_start", "window_end", "change", "flow", "from_rank", "to_rank", "bytes", "ts"]
    assert list(wanted[0]) == names
    assert "rank" in out(tmp_path, "talkers")[0]
    for wrong in ([], ["arrive"]):
        told["queries"]["busiest"]["sink"]["changes"] = wrong
        with pytest.raises(sb.QueryError, match=r"\[queries.busiest.sink\] changes"):
            parse_job(told)


def test_postgres_holds_each_window_once(tmp_path: Path, dsn: str) -> None:
    import psycopg

    written(tmp_path, rows(2))
    told = job(tmp_path)
    for name, query in told["queries"].items():
        query["sink"] = {"kind": "postgres", "table": f"local_{name}", "dsn": dsn}
    running = LocalJob(parse_job(told))
    steps = running.steps(lambda: False)
    for _ in range(3):
        next(steps)
    steps.close()  # as after a crash: the batches are answered once more
    assert run_local(parse_job(told)).replayed == 3
    with psycopg.connect(dsn) as connection:
        for name in QUERIES:
            found = connection.execute(
                f"SELECT * FROM local_{name} ORDER BY window_end, rank"
            ).fetchall()
            assert found == [tuple(row.values()) for row in wanted(tmp_path, name)]


@pytest.mark.spark
def test_several_queries_on_spark(spark: Any, tmp_path: Path) -> None:
    """One streaming query answers them all; the last windows wait for the watermark."""
    from skyband.jobs.run import run

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
