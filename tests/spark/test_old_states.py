"""States that ``skyband.spark.rank`` of 0.1 kept: this version continues with them.

``states/0.1.0.json`` holds what 0.1 stored for some queries after one micro-batch: per state key
the head and the panes, and the watermark and timers that Spark would keep.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from support import spark_simulator
from support.spark_simulator import Job, Memory

STATES: dict[str, Any] = json.loads(
    (Path(__file__).parent / "states" / "0.1.0.json").read_text(encoding="utf-8")
)
WINDOW = sb.TimeWindow("10 s", slide="2 s", lateness="1 s")


def rows(columns: dict[str, list[Any]]) -> pa.Table:
    table = pa.table(columns)
    return table.set_column(0, "ts", table["ts"].cast(pa.timestamp("us", "UTC")))


def query_of(state: dict[str, Any]) -> sb.Query:
    settings = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in state["settings"].items()
    }
    found: sb.Query = getattr(sb, state["kind"])(**settings, window=WINDOW)
    return found


def continued(state: dict[str, Any]) -> Job:
    """A job over the state that 0.1 has left."""
    first = rows(state["first"])
    plan = spark_simulator.plan_of(query_of(state), {"": first}, shards=state["shards"])
    job = Job(plan, forgetful=True)
    for bucket, shard, head, panes in state["stores"]:
        store = job.stores[bucket, shard] = Memory()
        store.blob = base64.b64decode(head)
        store.kept = {int(pane): base64.b64decode(blob) for pane, blob in panes.items()}
    job.timers = {(bucket, shard): at for bucket, shard, at in state["timers"]}
    job.seen, job.watermark = dict(state["seen"]), state["watermark"]
    return job


@pytest.mark.parametrize("name", STATES)
def test_a_state_of_the_first_version_continues(name: str) -> None:
    state = STATES[name]
    first, second = rows(state["first"]), rows(state["second"])
    job = continued(state)
    found = job.push({"": second})
    assert found.num_rows > 30
    again = Job(job.plan, forgetful=True)
    assert again.push({"": first}).num_rows == state["answered"]
    assert in_order(found) == in_order(again.push({"": second}))


def in_order(answers: pa.Table) -> list[dict[str, Any]]:
    by = [name for name in ("window_end", "g", "rank", "id") if name in answers.column_names]
    found: list[dict[str, Any]] = answers.sort_by([(n, "ascending") for n in by]).to_pylist()
    return found
