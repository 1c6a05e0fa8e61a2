"""Sinks of local jobs: webhooks, PostgreSQL, some kinds of changes."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import explain, parse_job, run_job
from skyband.jobs.local.local_job import LocalJob, run_local
from support.local_jobs import QUERIES, job, out, query_of, rows, wanted, written


class Receiver(BaseHTTPRequestHandler):
    """Refuses the first message of each window once."""

    got: list[dict[str, Any]]
    tries: dict[str, int]
    asked: list[str | None]
    status = 503

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers["Idempotency-Key"]
        type(self).tries[key] = self.tries.get(key, 0) + 1
        self.send_response(self.status if self.tries[key] == 1 else 204)
        self.end_headers()
        if self.tries[key] > 1:
            self.got.append(body)
            self.asked.append(self.headers["Authorization"])

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, type[Receiver]]]:
    monkeypatch.setattr("skyband.jobs.sinks.webhook._FIRST_WAIT", 0.001)
    kind = type("Mine", (Receiver,), {"got": [], "tries": {}, "asked": []})
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

    def test_a_user_and_a_password_in_the_address(self, tmp_path: Path, receiver: Any) -> None:
        url, got = receiver
        written(tmp_path, rows(1))
        run_job(parse_job(self.told(tmp_path, url.replace("//", "//me:w%40rd@"))))
        assert set(got.asked) == {"Basic " + base64.b64encode(b"me:w@rd").decode()}
        assert len(got.got) == len(got.tries)

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


@pytest.mark.parametrize("most", [None, 3])
def test_the_console_shows_every_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], most: int | None
) -> None:
    """All rows of all windows, unless the job limits the rows of a batch."""
    written(tmp_path, rows(1))
    told = job(tmp_path)
    told["queries"] = {"busiest": told["queries"]["busiest"]}
    limit = {} if most is None else {"rows": most}
    told["queries"]["busiest"]["sink"] = {"kind": "console", **limit}
    run_job(parse_job(told))
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(row.pop("job"), row.pop("query")) for row in shown} == {("network", "busiest")}
    answers = wanted(tmp_path, "busiest")
    if most is None:
        assert len(answers) > 20
        assert shown == answers
    else:
        assert shown[:most] == answers[:most]
        assert len(shown) < len(answers)


def test_a_sink_may_ask_for_what_enters_or_leaves(tmp_path: Path) -> None:
    made = rows(1)
    written(tmp_path, made)
    told = job(tmp_path)
    told["queries"]["busiest"]["sink"]["changes"] = ["enter", "leave"]
    assert "write  changes to files" in explain(parse_job(told))
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


def counted(folder: Path, sink: dict[str, Any]) -> dict[str, Any]:
    """A job over count windows of each of three groups; one of them has a name for nobody."""
    teams = ["a", "a", "a", "a", "b", "b", None, None, "b", "b", "a", "a", "b/é", "b/é"]
    times = list(range(len(teams)))
    made = pa.table({"ts": times, "team": teams, "flow": times, "bytes": times})
    written(folder, [made])
    told = job(folder, on_bad="skip")
    told["queries"] = {"busiest": QUERIES["busiest"] | {"by": ["team"], "window": {"count": 2}}}
    told["queries"]["busiest"]["sink"] = sink
    told["source"]["rows_per_batch"] = 3
    return told


def every_group(folder: Path) -> list[tuple[Any, ...]]:
    """Each window of each group: its group, its end, and the rows' flows."""
    query = sb.TopK(
        k=2, score="bytes", id="flow", time="ts", by=("team",), window=sb.CountWindow(2)
    )
    found = sb.rank(folder / "in", query).to_pylist()
    assert len({(row["team"], row["window_end"]) for row in found}) == 7
    return [(row["team"], row["window_end"], row["rank"], row["flow"]) for row in found]


def test_a_message_per_window_of_each_group(tmp_path: Path, receiver: Any) -> None:
    url, got = receiver
    told = counted(tmp_path, {"kind": "http", "url": url})
    run_job(parse_job(told))
    assert len({message["key"] for message in got.got}) == len(got.got) == 7
    assert set(got.tries) == {message["key"] for message in got.got}
    assert 'network/busiest/["a"]/2' in got.tries
    found = [(each["group"], each["window_end"], len(each["rows"])) for each in got.got]
    assert ({"team": "b/é"}, 2, 2) in found
    assert ({"team": None}, 2, 2) in found
    shown = {
        (row["team"], row["window_end"], row["rank"], row["flow"])
        for each in got.got
        for row in each["rows"]
    }
    assert shown == set(every_group(tmp_path))


@pytest.mark.parametrize("crash", [False, True])
def test_postgres_holds_each_window_of_each_group_once(
    tmp_path: Path, dsn: str, crash: bool
) -> None:
    """The arrivals of each group are counted, so ends of one group say nothing of another."""
    import psycopg

    told = counted(tmp_path, {"kind": "postgres", "table": f"groups_{crash}".lower(), "dsn": dsn})
    if crash:
        steps = LocalJob(parse_job(told)).steps(lambda: False)
        for _ in range(3):
            next(steps)
        steps.close()
    assert run_local(parse_job(told)).replayed == 3 * crash
    with psycopg.connect(dsn) as connection:
        names = f"team, window_end, rank, flow FROM groups_{crash}"
        found = connection.execute(f"SELECT {names}").fetchall()
    assert sorted(found, key=repr) == sorted(every_group(tmp_path), key=repr)


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
