"""Every registered query and algorithm on Spark, against the embedded engine on the same batches.

Exact algorithms give equal tables; approximate ones keep the bounds that their answers carry
(``bounds_kept``). ``tests/test_spark_parts.py`` compares far more streams, without Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import approximate
import clusters
import conformance
import oracle
import skyband as sb
import test_spark_parts as parts
from skyband import registry

pytestmark = [pytest.mark.spark, pytest.mark.slow]
WINDOW = oracle.TimeWindow(30, 10, lateness=3)  # streams are later than that now and then


def cases() -> list[Any]:
    found = []
    for kind in registry.kinds():
        for name in registry.algorithms(kind):
            many = len(conformance.SETTINGS.get(kind, ()))
            for number in range(many):
                # One setting of each runs always, a different one for each algorithm.
                quick = number == registry.algorithms(kind).index(name) % many
                marks = [] if quick else [pytest.mark.slow]
                case = pytest.param(kind, name, number, id=f"{kind}-{name}-{number}", marks=marks)
                found.append(case)
    return found


@pytest.mark.parametrize(("kind", "name", "number"), cases())
def test_streaming(spark: Any, tmp_path: Path, kind: str, name: str, number: int) -> None:
    from skyband.spark import rank

    chosen = parts.settings_of(kind, name, number) | approximate.EXTRA.get(name, {})
    stream = conformance.long_stream(kind, chosen, WINDOW, "uniform")
    pushes = thirds(parts.pushes_of(stream, chosen))
    try:
        query = parts.query_of(kind, WINDOW, chosen, stream)
    except sb.QueryError as refused:
        pytest.skip(f"no such query: {refused}")
    sources: dict[str, list[pa.Table]] = {}
    for push in pushes:
        for source, table in by_source(push).items():
            sources.setdefault(source, []).append(table)
    frames = {
        source: clusters.stream_of(spark, tmp_path / f"in-{source}", tables)
        for source, tables in sources.items()
    }
    given = frames if set(frames) != {""} else frames[""]
    shards = 2 if number % 2 else None
    got, _ = clusters.collect(rank(given, query, shards=shards), tmp_path)
    if registry.load(kind, name).exact:
        want, _ = clusters.embedded(query, pushes)
        problem = oracle.difference(
            parts.ranked(got, query), parts.ranked(want, query), oracle.SUMS[kind]
        )
        assert problem is None, problem
    else:
        approximate.check(kind, query, got, pushes)


def by_source(push: Any) -> dict[str, pa.Table]:
    return dict(push) if isinstance(push, Mapping) else {"": push}


def thirds(pushes: list[Any]) -> list[Any]:
    """Three pushes made of many, so that a test needs few micro-batches."""
    found = []
    for part in range(3):
        some = pushes[part * len(pushes) // 3 : (part + 1) * len(pushes) // 3]
        merged: dict[str, list[pa.Table]] = {}
        for push in some:
            for source, table in by_source(push).items():
                merged.setdefault(source, []).append(table)
        tables = {source: pa.concat_tables(many) for source, many in merged.items()}
        found.append(tables)
    # A batch takes a file of every source, so one that has no rows is there too.
    empty = {source: table.slice(0, 0) for tables in found for source, table in tables.items()}
    return [empty | tables if set(empty) != {""} else tables[""] for tables in found]
