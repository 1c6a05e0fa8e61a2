"""Every kind of query and window can be described, answered and shown as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.local.posts import Request
from skyband.query import Query
from skyband.serve.page import describe
from support import served

TIMED = sb.TimeWindow(4, slide=2)
SCHEMA = arrow_schema("", "n bigint, id string, g string, x double, p double, s string")
QUERIES: dict[str, Query] = {
    "topk": sb.TopK(k=3, score="x", id="id", time="n", window=TIMED),
    "no id": sb.TopK(k=3, score="x * 2", time="n", window=TIMED),
    "decay": sb.TopK(k=3, score="x", id="id", time="n", window=sb.DecayWindow(4, slide=2)),
    "landmark": sb.HeavyHitters(k=3, item="id", time="n", window=sb.LandmarkWindow(slide=2)),
    "count window": sb.TopK(k=2, score="x", id="id", by=("g",), window=sb.CountWindow(4, slide=2)),
    "groups": sb.HeavyHitters(k=2, item="id", time="n", by=("g",), window=TIMED),
    "uncertain": sb.UncertainTopK(k=2, score="x", probability="p", id="id", time="n", window=TIMED),
    "fused": sb.FusedTopK(
        k=2, id="id", stream="s", value="p", streams=("r1", "r2"), time="n", window=TIMED
    ),
    "skyline": sb.Skyline(prefer={"x": "min", "p": "max"}, id="id", time="n", window=TIMED),
}


def table(count: int) -> pa.Table:
    rows = [
        {
            "n": i,
            "id": f"id-{i}",
            "g": "ab"[i % 2],
            "x": float(i * 7 % 5),
            "p": (i % 9 + 1) / 10,
            "s": f"r{i % 2 + 1}",
        }
        for i in range(count)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_is_described_and_shown(name: str, tmp_path: Path) -> None:
    service = served.new_service(tmp_path, {name: QUERIES[name]}, schema=SCHEMA)
    (told,) = json.loads(json.dumps(describe(service, {"": "http"}, "all", "local")))["queries"]
    assert service.inbox.submit(Request("", table(20), 1)).result(60) == {"rows": 20}
    answers: list[Any] = [json.loads(event.text) for event in service.history.newest(name, 99)]
    assert answers
    for answer in answers:
        assert all(list(row) == told["columns"] for row in answer["rows"])
    assert told["ranked"] == ("rank" in told["columns"])
    assert told["value"] is None or told["value"] in told["columns"]
    assert (told["value"] is None) == (name == "skyline")
    assert set(told["key"]) <= set(told["columns"])
    service.close()
    again = served.new_service(tmp_path, {name: QUERIES[name]}, schema=SCHEMA)
    assert [json.loads(e.text) for e in again.history.newest(name, 99)] == answers
    again.close()
