"""Compares the parts of the Spark engine, run by the simulator, with the embedded engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import oracle
import skyband as sb
from support import spark_session, spark_simulator
from support.spark_cases import ranked


def compare(
    kind: str,
    query: sb.Query,
    pushes: Sequence[Any],
    *,
    shards: int,
    parts: int,
    changes: bool,
    forgetful: bool,
    least: int = 0,
) -> None:
    """Compare the answers of both engines, which must have at least ``least`` rows."""
    sources = spark_simulator.first_tables(pushes)
    if set(sources) != {""} and set(sources) != set(query.sources):
        return  # the engines treat a mapping that lacks a source as different queries
    plan = spark_simulator.plan_of(query, sources, shards=shards, changes=changes)
    job = spark_simulator.Job(plan, parts, forgetful)
    got = pa.concat_tables([job.push(spark_simulator.by_source(push)) for push in pushes])
    want, stats = spark_session.embedded(query, pushes, changes=changes)
    wanted = ranked(want, query) if want.num_rows else []
    assert len(wanted) >= least
    problem = oracle.difference(ranked(got, query), wanted, oracle.SUMS[kind])
    assert problem is None, problem
    for name in ("rows_in", "rows_late", "rows_unused", "rows_filtered"):
        assert job.stats[name] == stats[name], name
