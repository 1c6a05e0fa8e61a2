"""The HTTP interface over a real server on loopback: rows in, answers and events out."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.jobs.ddl import arrow_schema
from skyband.serve.limits import ServiceLimits
from support import served

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[served.Client]:
    with served.serving(served.new_service(tmp_path, on_bad="raise")) as client:
        yield client


def table(found: list[dict[str, Any]]) -> pa.Table:
    schema = arrow_schema("[source]", served.SCHEMA)
    from skyband.serve.bodies import read_body

    return read_body("json", served.ndjson(found), schema)


def expected(found: list[dict[str, Any]]) -> dict[str, list[sb.Answer]]:
    monitor = sb.Monitor(served.board())
    answers: dict[str, list[sb.Answer]] = {"busiest": [], "talkers": []}
    for answer in monitor.push(table(found)):
        assert answer.name is not None
        answers[answer.name].append(answer)
    return answers


def test_answers_are_those_of_the_monitor(client: served.Client) -> None:
    found = served.rows(0, 20)
    assert client.post(found).json == {"rows": 20}
    for name, answers in expected(found).items():
        got = client.answers(name)
        assert [set(each) for each in got] == [
            {"start", "end", "rows", "changes", "exact", "bounds", "total"}
        ] * len(answers)
        for one, answer in zip(got, answers, strict=True):
            assert (one["start"], one["end"]) == (answer.start.isoformat(), answer.end.isoformat())
            assert (one["exact"], one["bounds"], one["total"]) == (True, {}, answer.total)
            for part, truth in (("rows", answer.table), ("changes", answer.changes)):
                assert [list(row) for row in one[part]] == [truth.column_names] * truth.num_rows
                for column in truth.column_names:
                    values = [
                        v.isoformat() if hasattr(v, "isoformat") else v
                        for v in truth[column].to_pylist()
                    ]
                    assert [row[column] for row in one[part]] == values


def test_last_and_end_choose_answers(client: served.Client) -> None:
    client.post(served.rows(0, 20))
    every = client.answers("talkers")
    assert client.answers("talkers", "last=2") == every[-2:]
    assert client.answers("talkers", "last=0") == []
    assert len(client.get("/api/answers/talkers").json["answers"]) == min(20, len(every))
    end = "2026-01-05T08:00:08"
    for asked in (f"{end}Z", f"{end}%2B00:00", f"{end}+00:00", "2026-01-05T09:00:08%2B01:00"):
        (one,) = client.answers("talkers", f"end={asked}")
        assert one["end"] == "2026-01-05T08:00:08+00:00"
    assert client.get("/api/answers/talkers?end=2026-01-05T08:00:09Z").status == 404
    assert client.get("/api/answers/nobody?last=1").status == 404
    for wrong in ("last=-1", "last=x", "end=soon", "last=1&end=2026-01-05T08:00:08Z"):
        assert client.get(f"/api/answers/talkers?{wrong}").status == 400


def test_all_three_formats_give_the_same_rows(tmp_path: Path) -> None:
    found = served.rows(0, 12)
    names = list(found[0])
    lines = [",".join(names), *(",".join(str(row[n]) for n in names) for row in found)]
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table(found).schema) as writer:
        writer.write_table(table(found))
    bodies = {
        served.NDJSON: served.ndjson(found),
        "text/csv; charset=utf-8": "\n".join(lines).encode(),
        "application/vnd.apache.arrow.stream": sink.getvalue(),
    }
    got = []
    for i, (kind, body) in enumerate(bodies.items()):
        with served.serving(served.new_service(tmp_path / str(i))) as client:
            assert client.post(body, content_type=kind).json == {"rows": 12}
            got.append((client.answers("busiest"), client.answers("talkers")))
    assert got[0] == got[1] == got[2]
    assert got[0][0]


def test_what_cannot_be_read_changes_nothing(client: served.Client) -> None:
    good = served.rows(0, 3)
    wrong = [dict(served.rows(3, 1)[0], bytes="many")]
    reply = client.post(good + wrong)
    assert reply.status == 400
    assert reply.json["row"] == 3
    assert reply.json["line"] == 4
    assert reply.json["column"] == "bytes"
    assert "'many' is not of type int64" in reply.json["reason"]
    assert client.post(served.ndjson(good) + b"nonsense\n").json["line"] == 4
    metrics = client.get("/metrics").body.decode()
    assert 'skyband_rows_in_total{query="busiest"} 0\n' in metrics
    assert client.post(good).json == {"rows": 3}  # none of them is late


def test_bad_rows_are_refused_whole_or_counted(tmp_path: Path) -> None:
    found = served.rows(0, 6)
    found[2] = dict(found[2], host=None)
    found[4] = dict(found[4], bytes=None)
    with served.serving(served.new_service(tmp_path / "raise", on_bad="raise")) as client:
        reply = client.post(found, idempotency_key="k")
        assert reply.status == 400
        assert (reply.json["row"], reply.json["column"]) == (2, "host")
        assert "null" in reply.json["reason"]
        assert client.answers("busiest") == []
        # The key was not used up, since nothing was applied.
        assert client.post(served.rows(0, 6), idempotency_key="k").json == {"rows": 6}
    with served.serving(served.new_service(tmp_path / "skip", on_bad="skip")) as client:
        reply = client.post(found)
        assert reply.status == 200
        assert reply.json["rows"] == 6
        assert reply.json["bad"] == 2
        assert "host" in reply.json["reason"]
        metrics = client.get("/metrics").body.decode()
        assert 'skyband_rows_bad_total{query="busiest"} 1\n' in metrics
        assert 'skyband_rows_bad_total{query="talkers"} 2\n' in metrics


def test_late_rows_are_counted_in_the_reply(client: served.Client) -> None:
    assert client.post(served.rows(10, 5)).json == {"rows": 5}
    assert client.post(served.rows(2, 3)).json == {"rows": 3, "late": 3}
    assert client.post(served.rows(14, 2)).json == {"rows": 2}


def test_a_key_is_applied_once(client: served.Client) -> None:
    found = served.rows(0, 8)
    for _ in range(3):
        assert client.post(found, idempotency_key="first").json == {"rows": 8}
    assert 'rows_in_total{query="busiest"} 8\n' in client.get("/metrics").body.decode()
    assert client.post(served.rows(8, 1), idempotency_key="first").status == 422
    assert client.post(b"nonsense", idempotency_key="first").status == 422
    assert client.post(found, idempotency_key="x" * 256).status == 400


def test_the_board_is_described(client: served.Client) -> None:
    told = client.get("/api/board").json
    assert told["engine"] == "local"
    assert told["sources"] == [
        {
            "name": "rows",
            "kind": "http",
            "columns": {
                "ts": "timestamp[us, tz=UTC]",
                "flow": "string",
                "host": "string",
                "bytes": "int64",
            },
        }
    ]
    busiest, talkers = told["queries"]
    assert (busiest["name"], busiest["kind"]) == ("busiest", "TopK")
    assert busiest["columns"] == ["window_start", "window_end", "rank", "flow", "bytes", "ts"]
    assert talkers["columns"] == ["window_start", "window_end", "rank", "host", "count", "error"]
    assert talkers["window"] | {"size": "4 s", "slide": "2 s"} == talkers["window"]
    assert talkers["spec"]["weight"] == "bytes"


@pytest.mark.parametrize(
    "end", ["9" * 5_000, "--5", "0001-01-01T00:00:00%2B01:00", "9999-12-31T23:59:59-01:00"]
)
def test_an_end_beyond_all_times_is_no_failure_of_ours(client: served.Client, end: str) -> None:
    reply = client.get(f"/api/answers/busiest?end={end}")
    assert reply.status == 400
    assert "ISO 8601" in reply.json["error"]


def test_a_json_document_is_one_row_or_a_list_of_rows(client: served.Client) -> None:
    found, kind = served.rows(0, 9), "application/json"
    for body, rows in ((found[0], 1), (found[1:], 8), ([], 0)):
        reply = client.post(json.dumps(body, indent=1).encode(), content_type=kind)
        assert reply.json == {"rows": rows}
    assert [one["total"] for one in client.answers("busiest")] == [
        each.total for each in expected(found)["busiest"]
    ]
    refused = client.post(json.dumps([found[8], {"bytes": "x"}]).encode(), content_type=kind)
    assert refused.status == 400
    assert (refused.json["row"], refused.json["column"], "line" in refused.json) == (
        1, "bytes", False,
    )  # fmt: skip


def test_large_integers_are_text(tmp_path: Path) -> None:
    with served.serving(served.new_service(tmp_path)) as client:
        found = served.rows(0, 4)
        found[0]["bytes"], found[1]["bytes"] = 2**53, 2**53 + 1
        client.post(found)
        answer = client.answers("busiest")[-1]
        assert [row["bytes"] for row in answer["rows"][:2]] == ["9007199254740993", 2**53]


def test_too_large_other_types_and_unknown_sources(tmp_path: Path) -> None:
    limits = ServiceLimits(body_bytes=1_000)
    with served.serving(served.new_service(tmp_path, limits=limits)) as client:
        reply = client.post(served.rows(0, 50))
        assert reply.status == 413
        assert "smaller parts" in reply.json["error"]
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            assert client.post(served.rows(0, 1), content_type=kind).status == 415
        assert client.post(served.rows(0, 1), content_encoding="gzip").status == 415
        assert client.post(served.rows(0, 1), source="trades").status == 404
        assert client.get("/api/rows/rows").status == 405
        # A body without a length is counted while it comes.
        chunks = b"400\r\n" + b" " * 1024 + b"\r\n0\r\n\r\n"
        assert raw(client.port, chunks, "Transfer-Encoding: chunked").startswith(b"HTTP/1.1 413")


def raw(port: int, body: bytes, *headers: str) -> bytes:
    import socket

    lines = ["POST /api/rows/rows HTTP/1.1", "Host: localhost", f"Content-Type: {served.NDJSON}"]
    with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
        line.sendall("\r\n".join([*lines, *headers, "", ""]).encode() + body)
        return line.recv(4000)


def test_when_the_engine_is_behind_requests_are_sent_away(tmp_path: Path) -> None:
    service = served.new_service(tmp_path, limits=ServiceLimits(waiting_requests=2))
    hold, at_work = threading.Event(), threading.Event()
    push = service.job.monitor.push

    def slow(*given: Any) -> Any:
        at_work.set()
        assert hold.wait(20)
        return push(*given)

    service.job.monitor.push = slow  # type: ignore[method-assign, assignment]
    with served.serving(service) as client:
        replies: list[served.Reply] = []

        def send(first: int) -> None:
            replies.append(client.post(served.rows(first, 1)))

        threads = [threading.Thread(target=send, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        assert at_work.wait(20)
        while service.waiting[0] < 2:
            time.sleep(0.01)
        reply = client.post(served.rows(5, 1))
        assert reply.status == 429
        assert int(reply.headers["retry-after"]) >= 1
        assert client.get("/healthz").json["waiting_requests"] == 2
        hold.set()
        for thread in threads:
            thread.join()
        assert [each.status for each in replies] == [200, 200]
        assert client.post(served.rows(5, 1)).status == 200


def test_integer_times_are_not_told_as_seconds(tmp_path: Path) -> None:
    query = sb.TopK(k=1, score="n", time="turn", window=sb.TimeWindow(2))
    service = served.new_service(tmp_path, {"best": query}, schema="turn bigint, n int")
    with served.serving(service) as client:
        assert client.post(b'{"turn": 5, "n": 1}\n').json == {"rows": 1}
        text = client.get("/metrics").body.decode()
        assert 'source_rows_total{source="rows"} 1\n' in text
        assert not [line for line in text.splitlines() if "_seconds" in line and line[0] != "#"]


def test_two_sources(tmp_path: Path) -> None:
    query = sb.SkylineJoin(
        left="trades", right="risks", on="stock", prefer={"price": "min", "risk": "min"},
        time="ts", window=sb.TimeWindow(4, slide=2),
    )  # fmt: skip
    schemas = {
        "trades": arrow_schema("", "ts bigint, stock string, price double"),
        "risks": arrow_schema("", "ts bigint, stock string, risk double"),
    }
    with served.serving(served.new_service(tmp_path, {"best": query}, schema=schemas)) as client:
        trades = [{"ts": i, "stock": f"s{i % 3}", "price": float(i % 4)} for i in range(8)]
        risks = [{"ts": i, "stock": f"s{i % 3}", "risk": float(i % 5)} for i in range(8)]
        assert client.post(trades, "trades").json == {"rows": 8}
        assert client.answers("best") == []
        assert client.post(risks, "risks").json == {"rows": 8}
        ends = [answer["end"] for answer in client.answers("best")]
        assert ends == [2, 4, 6]
        assert client.answers("best", "end=4")[0]["start"] == 0
        assert client.post(risks, "rows").status == 404


def test_openapi_names_every_path(client: served.Client) -> None:
    told = json.loads(client.get("/api/openapi.json").body)
    assert set(told["paths"]) == {
        "/", "/api/board", "/api/answers/{name}", "/api/events", "/api/peek/{name}",
        "/api/position/{name}", "/api/rows/{source}",
        "/api/session", "/api/openapi.json", "/metrics", "/healthz",
        "/static/{name}",
    }  # fmt: skip
