"""The parts of the Spark engine over windows without a size, without Spark: both engines agree."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import oracle
import skyband as sb
from skyband.spark.bucket import Bucket
from support import conformance, spark_simulator, streams
from support.both_engines import compare
from support.spark_cases import pushes_of
from support.unsized_cases import cases, positive, settings_of

WINDOWS: dict[str, list[Any]] = {
    "decay": [oracle.DecayWindow(1, 7, lateness=3), oracle.DecayWindow(20, 5, lateness=3)],
    "landmark": [oracle.LandmarkWindow(7, None, 3), oracle.LandmarkWindow(9, 1040, 3)],
}
CASES = [pytest.param(sort, *each.values, id=each.id) for sort in WINDOWS for each in cases(sort)]


def made(sort: str, kind: str, name: str, number: int, window: Any) -> tuple[sb.Query, Any]:
    chosen = settings_of(kind, name)[number] | {"algorithm": name}
    stream: Any = conformance.long_stream(kind, chosen, window, "crowded")
    stream = positive(stream)
    query = conformance.query_of(kind, window, chosen, stream.table)
    return query, pushes_of(stream, chosen)


@pytest.mark.parametrize(("sort", "kind", "name", "number"), CASES)
def test_streaming_is_monitor(sort: str, kind: str, name: str, number: int) -> None:
    query, pushes = made(sort, kind, name, number, WINDOWS[sort][number % 2])
    pushes = pushes[: len(pushes) * 2 // 3]
    bounded = getattr(query, "capacity", None) is not None
    # Each shard has its own capacity, so the bounds differ.
    how = {"shards": 1 if bounded else 2, "parts": 1 if bounded else 2}
    compare(kind, query, pushes, **how, changes=False, forgetful=True, least=10)
    if not query.groups:
        how = {"shards": 1, "parts": 1}
        compare(kind, query, pushes, **how, changes=True, forgetful=False, least=1)


@pytest.mark.parametrize(("sort", "kind", "name", "number"), CASES)
def test_batches(sort: str, kind: str, name: str, number: int) -> None:
    window = WINDOWS[sort][0]
    query, pushes = made(sort, kind, name, number, window)
    whole = pa.concat_tables(pushes)
    want = sb.rank(whole, query)
    assert want.num_rows > 10
    plan = spark_simulator.plan_of(query, {"": whole}, shards=3, streaming=False)
    got = spark_simulator.run_batch(plan, {"": whole})
    problem = oracle.difference(streams.rows_of(got), streams.rows_of(want), oracle.SUMS[kind])
    assert problem is None, problem


def test_a_batch_rewrites_only_the_parts_it_touched() -> None:
    """A thousand items are in 64 parts; a pane with one item changes one of them."""
    window = sb.DecayWindow(1000, slide=10)
    query = sb.HeavyHitters(k=1, item="item", time="ts", window=window)
    first = pa.table({"ts": [5] * 1000, "item": list(range(1000))})
    plan = spark_simulator.plan_of(query, {"": first})
    job = spark_simulator.Job(plan, forgetful=True)
    job.push({"": first})
    job.push({"": pa.table({"ts": [15, 21], "item": [7, 7]})})
    (store,) = job.stores.values()

    def parts() -> dict[int, bytes]:
        (stored,) = Bucket(plan, job.label, store).folds
        return {part: store.kept[slot] for part, (slot, *_) in stored.parts.items()}

    before = parts()
    assert len(before) == 64
    job.push({"": pa.table({"ts": [35], "item": [8]})})
    after = parts()
    assert sum(after[part] != before[part] for part in before) == 1
    assert len(store.kept) == 65  # and one open pane
