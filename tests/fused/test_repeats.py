"""``FusedTopK(repeats=…)``: how several live reports of an object in one stream count."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import skyband as sb
from support import conformance, spark_session, streams

REPEATS = ("max", "latest", "mean")
SHAPES: list[dict[str, Any]] = [
    {"k": 2},
    {"k": 1, "by": ("g",), "combine": "max", "bounds": (-1.0, 1.0)},
    {"k": 3, "stream": None, "combine": {"a": 2.0, "b": 0.5}},
]


@pytest.mark.parametrize("repeats", REPEATS)
@pytest.mark.parametrize("shape", SHAPES)
@given(data=st.data())
@settings(max_examples=12)
def test_every_answer(repeats: str, shape: dict[str, Any], data: st.DataObject) -> None:
    asked = conformance.FUSED | shape | {"repeats": repeats}
    counted = data.draw(st.booleans()) and asked["stream"] is not None
    window: Any = data.draw(streams.count_windows() if counted else streams.time_windows())
    lateness = 0 if counted else window.lateness * data.draw(st.integers(1, 2))
    many: dict[str, Any] = {
        "recurrences": 99,
        "max_rows": 20,
        "lateness": lateness,
        "count": counted,
    }
    stream = data.draw(streams.report_streams(size=window.size, **many))
    restarts, peeks = data.draw(st.booleans()), data.draw(st.booleans())
    conformance.compare("FusedTopK", window, asked, stream, restarts, peeks)


SEEN = pa.table(
    {
        "t": [0, 1, 2, 2, 3],
        "car": ["a", "b", "a", "a", "b"],
        "cam": ["n", "n", "n", "n", "s"],
        "v": [0.9, 0.5, 0.2, 0.4, 0.25],
    }
)


def fused(**asked: Any) -> sb.FusedTopK:
    given: dict[str, Any] = {"k": 2, "id": "car", "stream": "cam", "value": "v", "time": "t"}
    given |= {"streams": ("n", "s"), "window": sb.TimeWindow(10), "combine": "sum"}
    return sb.FusedTopK(**(given | asked))


@pytest.mark.parametrize(
    ("repeats", "scores"),
    [
        ("max", [("a", 0.9), ("b", 0.75)]),
        ("latest", [("b", 0.75), ("a", 0.4)]),  # of two at the same time, the greater one
        ("mean", [("b", 0.75), ("a", 0.5)]),
    ],
)
def test_the_rules(repeats: str, scores: list[tuple[str, float]]) -> None:
    table = sb.rank(SEEN, fused(repeats=repeats))
    got = [(row["car"], round(row["score"], 9)) for row in table.to_pylist()]
    assert got == scores


def test_a_sum_still_needs_a_limit() -> None:
    with pytest.raises(sb.DataError, match="reports too often"):
        sb.rank(SEEN, fused())
    table = sb.rank(SEEN, fused(recurrences=3))
    assert table["score"].to_pylist() == [pytest.approx(1.5), 0.75]
    same = sb.rank(SEEN, fused(recurrences=3, algorithm="reports"))
    assert same["car"].to_pylist() == table["car"].to_pylist()


def test_a_limit_above_one_is_kept() -> None:
    with pytest.raises(sb.DataError, match="at most recurrences=2"):
        sb.rank(SEEN, fused(repeats="max", recurrences=2))
    assert sb.rank(SEEN, fused(repeats="max", recurrences=3))["car"].to_pylist() == ["a", "b"]


def test_what_is_refused() -> None:
    with pytest.raises(sb.QueryError, match="repeats must be one of sum, max, latest, mean"):
        fused(repeats="median")
    for name in ("eaa", "sla", "eaa-approx"):
        with pytest.raises(sb.QueryError, match=f"repeats= does nothing for {name}.*reports"):
            fused(repeats="max", algorithm=name)
    assert fused(repeats="mean", bounds=(-1.0, 1.0), recurrences=3).most_reports == 3
    assert (
        fused().fingerprint == fused(repeats="sum").fingerprint != fused(repeats="max").fingerprint
    )


def test_on_spark() -> None:
    pytest.importorskip("pyspark")
    from support import spark_simulator

    stream = streams.reports(3, 150, size=30, streams=("a", "b"), recurrences=5, batches=4)
    asked = conformance.FUSED | {"k": 3, "repeats": "latest"}
    query = conformance.query_of("FusedTopK", oracle.TimeWindow(30, 10), asked, stream.table)
    sources = spark_simulator.first_tables(stream.batches)
    job = spark_simulator.Job(spark_simulator.plan_of(query, sources, shards=2), 2)
    got = pa.concat_tables([job.push({"": batch}) for batch in stream.batches])
    want, _ = spark_session.embedded(query, stream.batches)
    assert got.to_pylist() == want.to_pylist()
    assert want.num_rows > 9
