"""``FusedTopK(repeats=…)``: how several live reports of an object in one stream count."""

from __future__ import annotations

from typing import Any

import numpy as np
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
    if repeats != "mean":
        asked["options"] = {"slack": 0}  # sweeps all the time
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


@pytest.mark.parametrize("repeats", ["max", "latest"])
@pytest.mark.parametrize("combine", ["sum", "min", "product", {"a": 0.5, "b": 2.0}])
def test_what_is_dropped_is_never_missed(repeats: str, combine: Any) -> None:
    """Few objects that report often, and a slide of one report: sweeps look at groups of panes."""
    stream = streams.reports(7, 400, size=90, streams=("a", "b"), recurrences=40, objects=25)
    asked: dict[str, Any] = conformance.FUSED | {"k": 3, "repeats": repeats, "combine": combine}
    window = sb.CountWindow(90, slide=1)
    answers = {}
    plans: dict[str, Any] = {"reports": {}, "eaa-repeats": {"slack": 0}}
    for algorithm, options in plans.items():
        query = sb.FusedTopK(**asked, window=window, algorithm=algorithm, options=options)
        answers[algorithm] = sb.rank(stream.table, query)
    assert answers["eaa-repeats"].equals(answers["reports"])
    assert answers["reports"].num_rows > 900


@pytest.mark.parametrize(("repeats", "most"), [("max", 536), ("latest", 779)])
def test_how_much_is_kept(repeats: str, most: int) -> None:
    """As many as the rules leave; for latest, the live pairs of object and stream."""
    rng = np.random.default_rng(3)
    n, objects = 6000, 400
    table = pa.table({
        "object": rng.integers(0, objects, n),
        "stream": np.array(["a", "b"])[rng.integers(0, 2, n)],
        "value": rng.random(n),
    })  # fmt: skip
    asked: dict[str, Any] = conformance.FUSED | {"k": 5, "repeats": repeats, "time": None}
    monitor = sb.Monitor(sb.FusedTopK(**asked, window=sb.CountWindow(3000, slide=100)))
    for start in range(0, n, 100):
        monitor.push(table.slice(start, 100))
    synopsis: Any = monitor.session.synopsis
    synopsis.sweep()
    stats = monitor.stats()
    assert stats["retained"] == most  # of 3,000 live reports
    assert stats["reports_in"] == n
    assert stats["dropped"] >= n - 3000 - stats["retained"]
    blob = monitor.snapshot()
    assert sb.Monitor.restore(blob).stats()["dropped"] == stats["dropped"]


def test_explain_says_what_cannot_be_dropped() -> None:
    assert "by eaa-repeats, exact" in sb.explain(fused(repeats="max"))
    assert len(sb.explain(fused(repeats="max")).splitlines()) == 2
    assert "objects are not dropped, because" in sb.explain(fused(repeats="latest"))
    told = sb.explain(fused(repeats="mean"))
    assert "by reports, exact" in told
    assert "a new report can lower a score" in told


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
    with pytest.raises(sb.DataError, match="has too many reports"):
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
    for repeats in ("sum", "mean"):
        with pytest.raises(
            sb.QueryError, match=f"does not answer FusedTopK with repeats='{repeats}'"
        ):
            fused(repeats=repeats, algorithm="eaa-repeats")
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
