"""Times that are text or numbers since 1970: the answers are those of the same timestamps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import skyband as sb
from support import spark_simulator
from support.spark_cases import ranked

WINDOW = sb.TimeWindow("10 minutes", slide="5 minutes", lateness="2 minutes")
ROWS = 300


def stamps(fraction: bool = False, zone: str | None = None) -> pa.Array:
    """Times of whole seconds, or of milliseconds, in no order."""
    rng = np.random.default_rng(5)
    micros = rng.integers(1_000, 11_000, ROWS) * 1_000_000
    micros += fraction * rng.integers(0, 1_000, ROWS) * 1_000
    return pa.array(micros, pa.timestamp("us", zone))


def table(times: Any) -> pa.Table:
    scores = np.random.default_rng(6).integers(0, 50, ROWS)
    return pa.table({"at": times, "id": [f"id{i}" for i in range(ROWS)], "score": scores})


def text(times: pa.Array, form: str) -> pa.Array:
    return pa.array([moment.strftime(form) for moment in times.to_pylist()])


def query(**form: Any) -> sb.TopK:
    return sb.TopK(k=3, score="score", id="id", **({"time": "at"} | form), window=WINDOW)


SECONDS, MILLIS = stamps(), stamps(fraction=True)
MOMENTS = stamps(fraction=True, zone="UTC")
FORMS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "German": (text(SECONDS, "%d.%m.%Y %H:%M:%S"), SECONDS, {"time_format": "%d.%m.%Y %H:%M:%S"}),
    "twelve hours": (
        text(SECONDS, "%b %d, %Y %I:%M:%S %p"), SECONDS, {"time_format": "%b %d, %Y %I:%M:%S %p"}
    ),
    "fractions": (
        text(MILLIS, "%d.%m.%Y %H:%M:%S.%f"), MILLIS, {"time_format": "%d.%m.%Y %H:%M:%S.%f"}
    ),
    "zones": (
        text(stamps(zone="America/New_York"), "%d/%b/%Y:%H:%M:%S %z"),
        stamps(zone="UTC"),
        {"time_format": "%d/%b/%Y:%H:%M:%S %z"},
    ),
    "fractions and zones": (
        text(MOMENTS, "%Y%m%d %H%M%S,%f%z"), MOMENTS, {"time_format": "%Y%m%d %H%M%S,%f%z"}
    ),
    "a dictionary": (
        text(SECONDS, "%Y %j %H%M%S").dictionary_encode(), SECONDS, {"time_format": "%Y %j %H%M%S"}
    ),
    "iso": (text(MILLIS, "%Y-%m-%dT%H:%M:%S.%f"), MILLIS, {"time_format": "iso"}),
    "iso in UTC": (text(MOMENTS, "%Y-%m-%dT%H:%M:%S.%fZ"), MILLIS, {"time_format": "iso"}),
    "seconds": (SECONDS.cast(pa.int64()).to_numpy() // 1_000_000, None, {"time_unit": "s"}),
    "seconds with fractions": (
        MOMENTS.cast(pa.int64()).to_numpy() / 1e6 + 1e-7, MOMENTS, {"time_unit": "s"}
    ),
    "milliseconds": (MOMENTS.cast(pa.int64()).to_numpy() // 1_000, MOMENTS, {"time_unit": "ms"}),
    "nanoseconds": (MOMENTS.cast(pa.int64()).to_numpy() * 1_000, MOMENTS, {"time_unit": "ns"}),
    "one setting": (
        text(SECONDS, "%d.%m.%y %H-%M-%S"),
        SECONDS,
        {"time": {"column": "at", "format": "%d.%m.%y %H-%M-%S"}},
    ),
}  # fmt: skip


@pytest.fixture(params=FORMS)
def case(request: pytest.FixtureRequest) -> tuple[pa.Table, pa.Table, dict[str, Any]]:
    """Rows as they are written, the same rows with timestamps, and the form of the times."""
    written, times, form = FORMS[request.param]
    return table(written), table(stamps(zone="UTC") if times is None else times), form


def same(got: pa.Table, want: pa.Table) -> None:
    assert got.num_rows > 20
    edge = want.schema.field("at").type
    got = got.set_column(got.column_names.index("at"), "at", got["at"].cast(edge, safe=False))
    assert got.equals(want)


Case = tuple[pa.Table, pa.Table, dict[str, Any]]


def test_answers_are_those_of_timestamps(case: Case) -> None:
    written, timed, form = case
    same(sb.rank(written, query(**form)), sb.rank(timed, query()))


def test_timestamps_may_be_there_already(case: Case) -> None:
    _, timed, form = case
    assert sb.rank(timed, query(**form)).equals(sb.rank(timed, query()))


def test_files_are_sorted_by_such_times(case: Case, tmp_path: Path) -> None:
    written, timed, form = case
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(3):
        pq.write_table(written.slice(i * 100, 100), folder / f"{i}.parquet")
    same(sb.rank(folder, query(**form)), sb.rank(timed, query()))


def test_monitors_and_their_snapshots(case: Case) -> None:
    written, timed, form = case
    order = pc.sort_indices(timed, [("at", "ascending")])
    monitor, plain = sb.Monitor(query(**form)), sb.Monitor(query())
    for i in range(0, ROWS, 60):
        part = order.slice(i, 60)
        got, want = monitor.push(written.take(part)), plain.push(timed.take(part))
        assert [(a.start, a.end, a.table["id"]) for a in got] == [
            (a.start, a.end, a.table["id"]) for a in want
        ]
        monitor = sb.Monitor.restore(monitor.snapshot())
    assert len(monitor.flush()) == len(plain.flush()) > 0


def test_spark_agrees(case: Case) -> None:
    pytest.importorskip("pyspark")
    written, timed, form = case
    order = pc.sort_indices(timed, [("at", "ascending")])
    pushes = [written.take(order.slice(i, 100)) for i in range(0, ROWS, 100)]
    asked = query(**form)
    plan = spark_simulator.plan_of(asked, spark_simulator.first_tables(pushes), shards=2)
    job = spark_simulator.Job(plan, 2, forgetful=True)
    got = pa.concat_tables([job.push(spark_simulator.by_source(push)) for push in pushes])
    monitor = sb.Monitor(asked)
    want = pa.concat_tables([a.table for push in pushes for a in monitor.push(push)])
    assert ranked(got, asked) == ranked(want, asked)
    assert got.num_rows > 20


def test_where_sees_timestamps() -> None:
    rows = pa.table({"at": [0, 59, 61, 90], "score": [1, 4, 2, 3]})
    asked = sb.TopK(
        k=9, score="score", time="at", time_unit="s", window=sb.TimeWindow("1 hour"),
        where="at > '1970-01-01 00:01'",
    )  # fmt: skip
    assert sb.rank(rows, asked)["score"].to_pylist() == [3, 2]


@pytest.mark.parametrize(
    ("values", "form", "told"),
    [
        (["01.02.2026", "soon", None], {"time_format": "%d.%m.%Y"},
         r"row 1: not a time of the format '%d\.%m\.%Y' \('soon'\); .*row 2: the time is null"),
        (["2026-02-01", "1.2.2026"], {"time_format": "iso"},
         r"row 1: not a time of the format 'iso'"),
        ([1.0, 1e300, float("nan")], {"time_unit": "s"}, r"2 bad rows: .*out of range for a time"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", [{}, {"where": "score > 0"}])
def test_what_is_no_time_is_a_bad_row(
    values: list[Any], form: dict[str, Any], told: str, where: dict[str, Any]
) -> None:
    rows = pa.table({"at": values, "score": range(1, len(values) + 1)})
    asked = sb.TopK(k=9, score="score", time="at", window=sb.TimeWindow("1 day"), **form, **where)
    with pytest.raises(sb.DataError, match=told):
        sb.rank(rows, asked)
    monitor = sb.Monitor(asked, on_bad="skip")
    monitor.push(rows)
    assert monitor.stats()["rows_bad"] == len(values) - 1


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"time_unit": "minutes"}, "time_unit must be one of s, ms, us, ns"),
        ({"time_format": "dd.mm.yyyy"}, "written like '%d.%m.%Y %H:%M', not 'dd.mm.yyyy'"),
        ({"time_format": "%H:%M%f"}, "%f only after a point"),
        ({"time_format": "%Y", "time_unit": "s"}, "give one of them"),
        ({"time": {"column": "at", "unit": 5}}, "time_unit must be one of"),
    ],
)
def test_forms_that_are_none(form: dict[str, Any], told: str) -> None:
    with pytest.raises(sb.QueryError, match=told):
        query(**form)


def test_columns_of_other_types() -> None:
    rows = pa.table({"at": ["1"], "id": ["a"], "score": [1]})
    with pytest.raises(sb.SchemaError, match="time_unit='s' is for numbers; for text"):
        sb.rank(rows, query(time_unit="s"))
    with pytest.raises(sb.SchemaError, match="is for text; for seconds since 1970"):
        sb.rank(rows.set_column(0, "at", pa.array([1])), query(time_format="%Y"))
    with pytest.raises(sb.SchemaError, match="for text give time_format"):
        sb.rank(rows, query())


def test_rows_as_dicts() -> None:
    monitor = sb.Monitor(query(time_unit="s"))
    assert monitor.push([{"at": 0, "id": "a", "score": 1}, {"id": "b", "score": 2, "at": 60}]) == []
    assert monitor.push([]) == []
    (first, *_) = monitor.push([{"at": 3_600.0, "id": "c", "score": 3}])
    assert first.table["id"].to_pylist() == ["b", "a"]
    assert first.to_pandas()["id"].tolist() == pa.table(first)["id"].to_pylist()
    with pytest.raises(sb.SchemaError, match=r"'score' had type int64 .* has double now"):
        monitor.push([{"at": 3_600, "id": "c", "score": 3.5}])
    with pytest.raises(sb.SchemaError, match="differ in type"):
        monitor.push([{"at": 1, "id": "c", "score": 3}, {"at": 1, "id": "c", "score": "3"}])
    with pytest.raises(sb.SchemaError, match="must hold dicts"):
        monitor.push([{"at": 1, "id": "c", "score": 3}, ("at", 1)])
    with pytest.raises(sb.DataError, match="the id is null"):
        monitor.push([{"at": 3_600, "score": 3}, {"at": 3_600, "id": "d", "score": 3}])


def test_json_rows(tmp_path: Path) -> None:
    lines = [{"at": f"0{i}.02.2026", "id": "a", "score": i} for i in (1, 2, 3)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    asked = query(time={"column": "at", "format": "%d.%m.%Y"})
    assert sb.rank(tmp_path / "rows.jsonl", asked)["score"].to_pylist() == [1, 1, 2, 2, 3]
