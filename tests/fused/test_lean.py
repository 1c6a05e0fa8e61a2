"""On Spark, reports that no answer can show lose their value; answers stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.contract.capabilities import LeanSummaries
from skyband.spark.summarise import Summariser
from support import spark_session, spark_simulator

ROWS = 30_000
WINDOW = sb.TimeWindow(300, slide=100)


def reports(seed: int, streams: int, spread: float = 1.0) -> pa.Table:
    """Objects that report once in each stream, or in some, at times that differ a little."""
    rng = np.random.default_rng(seed)
    objects = ROWS // streams
    ids = np.tile(rng.permutation(objects), streams)
    stream = np.repeat(np.arange(streams), objects)
    ts = 1_000 + ids * 400 // objects + rng.integers(0, 120, len(ids))
    kept = (rng.random(len(ids)) < 0.8) | (stream == 0)
    order = np.argsort(ts[kept], kind="stable")
    columns = {
        "ts": ts[kept][order],
        "object": ids[kept][order],
        "router": np.array([f"r{n}" for n in range(streams)])[stream[kept][order]],
        "load": np.round(rng.random(int(kept.sum())) ** spread, 4),
    }
    return pa.table(columns)


def query_of(streams: int, **more: Any) -> sb.FusedTopK:
    names = tuple(f"r{n}" for n in range(streams))
    told: dict[str, Any] = {"k": 5, "id": "object", "stream": "router", "value": "load"}
    return sb.FusedTopK(**told, time="ts", window=WINDOW, streams=names, **more)


def packed(query: sb.Query, table: pa.Table, on_bad: str = "raise") -> tuple[int, float]:
    """Bytes of the summaries, and the part of the values that were taken away."""
    plan = spark_simulator.plan_of(query, {"": table}, on_bad=on_bad)
    (label,) = plan.labels
    worker = Summariser(plan, label, "")
    worker.summarise(table)
    runs = worker.shards[0].whole()
    assert runs is not None
    synopsis = worker.intake.synopsis
    assert isinstance(synopsis, LeanSummaries)
    lean = synopsis.lean(runs) if on_bad == "raise" else runs
    changed = lean.parts["reports"]["value"] != runs.parts["reports"]["value"]
    (blob,) = (each for each in worker.flush().column("payload").to_pylist() if each)
    return len(blob), float(np.mean(changed))


@pytest.mark.parametrize(
    ("streams", "combine", "algorithm"),
    [
        (2, "sum", "eaa"),
        (2, "sum", "sla"),
        (3, "sum", "eaa"),
        (2, "min", "eaa"),
        (2, "product", "sla"),
        (2, (2.0, 0.5), "eaa"),
    ],
)
def test_answers_are_those_of_all_values(streams: int, combine: Any, algorithm: str) -> None:
    query = query_of(streams, combine=combine, algorithm=algorithm)
    for seed, parts in ((1, 1), (2, 3)):
        table = reports(seed, streams, spread=0.5)
        plan = spark_simulator.plan_of(query, {"": table})
        job = spark_simulator.Job(plan, parts=parts)
        size = -(-table.num_rows // 4)
        pushes = [table.slice(start, size) for start in range(0, table.num_rows, size)]
        got = pa.concat_tables([job.push({"": push}) for push in pushes])
        want, _ = spark_session.embedded(query, pushes)
        assert want.num_rows
        assert spark_session.rows(got) == spark_session.rows(want), (seed, parts)


def test_most_values_need_not_travel() -> None:
    table = reports(3, 2)
    bytes_lean, part = packed(query_of(2), table)
    bytes_whole, untouched = packed(query_of(2), table, on_bad="skip")
    assert part > 0.65
    assert untouched == 0.0  # a refused report might be one that others were measured by
    assert bytes_lean < 0.7 * bytes_whole
    for kept in ({"recurrences": 2}, {"algorithm": "eaa-approx"}, {"combine": "max"}):
        assert packed(query_of(2, **kept), table)[1] == 0.0
    assert packed(query_of(2, bounds=(0.0, 1e9)), table)[1] == 0.0
