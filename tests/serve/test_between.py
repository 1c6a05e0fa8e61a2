"""Between windows: what a query would answer now, and where an id stands, as a Monitor says it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
import pytest

import skyband as sb
from skyband.jobs.ddl import arrow_schema
from skyband.serve.bodies import read_body
from skyband.serve.payload import answer_text
from support import served

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

SCHEMA = arrow_schema("[source]", served.SCHEMA)
BOARD = served.board() | {
    "best": sb.TopK(
        k=2, score="bytes", id="host", time="ts", distinct="best", window=served.WINDOW
    ),
    "pairs": sb.HeavyHitters(
        k=1, item=("flow", "bytes"), time="ts", by=("host", "bytes"), window=served.WINDOW
    ),
    "small": sb.TopK(
        k=1, score="bytes", id="flow", time="ts", window=served.WINDOW, algorithm="mintopk"
    ),
}
ROWS = served.rows(0, 12)


def monitor_of(rows: list[dict[str, Any]]) -> sb.Monitor:
    monitor = sb.Monitor(BOARD)
    monitor.push(read_body("json", served.ndjson(rows), SCHEMA))
    return monitor


def place(client: served.Client, name: str, **asked: Any) -> served.Reply:
    return client.get(f"/api/position/{name}?{urlencode(asked)}")


def check(client: served.Client, monitor: sb.Monitor) -> None:
    for name in ("busiest", "talkers", "best", "pairs"):
        reply = client.get(f"/api/peek/{name}")
        assert reply.status == 200
        assert reply.json == {
            "name": name,
            "answers": [json.loads(answer_text(monitor.peek(name)))],
        }
    ranked = 0
    for name in ("talkers", "best"):
        for host in sorted({row["host"] for row in ROWS}):
            wanted, reply = monitor.position(host, name=name), place(client, name, id=host)
            if wanted is None:
                assert reply.status == 404
                continue
            assert reply.json == {"name": name, **wanted._asdict()}
            ranked += 1
    assert ranked > 4
    for row in ROWS:
        item, group = (row["flow"], row["bytes"]), (row["host"], row["bytes"])
        known = monitor.position(item, group, "pairs")
        reply = place(client, "pairs", id=json.dumps(item), group=json.dumps(group))
        assert reply.status == (404 if known is None else 200)


def test_it_is_what_a_monitor_says_also_after_a_restart(tmp_path: Path) -> None:
    with served.serving(served.new_service(tmp_path, BOARD)) as client:
        for path in ("/api/peek/busiest", "/api/position/talkers?id=host-1"):
            assert client.get(path).status == 404
            assert "there is no answer yet" in client.get(path).json["error"]
        client.post(ROWS[:6])
        check(client, monitor_of(ROWS[:6]))
    with served.serving(served.new_service(tmp_path, BOARD)) as client:
        client.post(ROWS[6:])
        check(client, monitor_of(ROWS))


def test_what_cannot_be_answered(tmp_path: Path) -> None:
    with served.serving(served.new_service(tmp_path, BOARD)) as client:
        client.post(ROWS)
        wrong = {
            "/api/peek/none": (404, "choose from busiest, talkers"),
            "/api/position/none?id=1": (404, "choose from busiest, talkers"),
            "/api/position/talkers?id=nobody": (404, "no row of this id is live"),
            "/api/peek/small": (409, "keeps too little for peek"),
            "/api/position/busiest?id=flow-3": (409, "use distinct="),
            "/api/position/talkers": (400, "give the id"),
            "/api/position/talkers?id=host-1&group=x": (400, "no groups"),
            "/api/position/pairs?id=x&group=y": (400, "JSON list of flow, bytes"),
            "/api/position/pairs?id=[%22a%22,1]": (400, "pass the group too"),
            "/api/position/pairs?id=[%22a%22,%22b%22]&group=[%22a%22,1]": (400, "type int64"),
        }
        for path, (status, said) in wrong.items():
            reply = client.get(path)
            assert (reply.status, said in reply.json["error"]) == (status, True), reply.json
        told = {
            each["name"]: each["positions"] for each in client.get("/api/board").json["queries"]
        }
        assert told == {n: n in ("talkers", "best", "pairs") for n in BOARD}


def test_answers_that_come_from_elsewhere_cannot_be_asked(tmp_path: Path) -> None:
    from skyband.serve.page import Page

    shown = Page({"busiest": BOARD["busiest"]}, {"": SCHEMA}, tmp_path)
    with served.serving(shown) as client:
        reply = client.get("/api/peek/busiest")
        assert (reply.status, "elsewhere" in reply.json["error"]) == (409, True)


@pytest.mark.parametrize("kind", ["int64", "double", "bool", "timestamp[us, tz=UTC]", "binary"])
def test_ids_come_as_text_of_their_column(tmp_path: Path, kind: str) -> None:
    values: dict[str, tuple[pa.DataType, Any, str]] = {
        "int64": (pa.int64(), 2**60 + 1, str(2**60 + 1)),
        "double": (pa.float64(), 0.1, "0.1"),
        "bool": (pa.bool_(), True, "true"),
        "timestamp[us, tz=UTC]": (
            pa.timestamp("us", "UTC"), "2026-01-05T08:00:00Z", "2026-01-05T08:00:00Z"
        ),
        "binary": (pa.binary(), "AP8=", "AP8="),
    }  # fmt: skip
    column, value, text = values[kind]
    schema = pa.schema([("t", pa.int64()), ("id", column)])
    query = sb.HeavyHitters(k=1, item="id", time="t", window=sb.TimeWindow(4, slide=2))
    with served.serving(served.new_service(tmp_path, {"often": query}, schema=schema)) as client:
        client.post([{"t": t, "id": value} for t in range(6)])
        assert place(client, "often", id=text).json == {
            "name": "often", "rank": 1, "value": 4, "of": 1,
        }  # fmt: skip
