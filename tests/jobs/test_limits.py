"""What a job takes of its rows: times near the clock, and values that its sinks can hold."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb
from skyband.jobs import parse_job
from skyband.jobs.local.local_job import LocalJob, run_local
from skyband.jobs.sinks.base import NO_NUL, SIGNED, UTF8, YEARS, row_limits
from skyband.jobs.sinks.files import sink_of
from support.local_jobs import job, out, rows, written

MOST = 2**63 - 1
ZONED = pa.timestamp("us", "UTC")


class TestValues:
    @pytest.mark.parametrize(
        ("test", "column", "bad"),
        [
            (NO_NUL, pa.array(["a\0", None, "", "b"]), [0]),
            (NO_NUL, pa.array(["a\0", "b", "c\0"]).slice(1), [1]),
            (NO_NUL, pa.array(["a\0", "b"]).slice(1), []),
            (NO_NUL, pa.array(["a", "\0"], pa.large_string()), [1]),
            (NO_NUL, pa.array(["a", "\0"], pa.string_view()), [1]),
            (NO_NUL, pa.array(["a", "\0", None, "\0"]).dictionary_encode(), [1, 3]),
            (NO_NUL, pa.array(["a", "b"]).dictionary_encode(), []),
            (NO_NUL, pa.chunked_array([["a"], ["\0"]]), [1]),
            (NO_NUL, pa.array([b"\0"]), []),
            (NO_NUL, pa.array([], pa.string()), []),
            (SIGNED, pa.array([0, MOST, MOST + 1, None], pa.uint64()), [2]),
            (SIGNED, pa.array([MOST], pa.int64()), []),
            (YEARS, pa.array([0, 253_402_300_800, None], pa.timestamp("s")), [1]),
            (YEARS, pa.array([-62_135_596_801], pa.timestamp("s", "Asia/Tokyo")), [0]),
            (YEARS, pa.array([MOST, -MOST], pa.timestamp("ns")), []),
            (YEARS, pa.array([0, 3_000_000], pa.date32()), [1]),
            (YEARS, pa.array([0, 3_000_000 * 86_400_000], pa.date64()), [1]),
            (YEARS, pa.array([MOST]), []),
            (YEARS, pa.array([1, MOST, None], pa.duration("ms")), [1]),
            (YEARS, pa.array([MOST, -MOST], pa.duration("us")), []),
            (YEARS, pa.array([[0], [MOST], None], pa.list_(pa.timestamp("us"))), [1]),
            (YEARS, pa.array([{"a": [MOST]}], pa.struct([("a", pa.list_(pa.int64()))])), []),
            (UTF8, pa.array([b"a", b"\xff", None, b""]), [1]),
            (UTF8, pa.array([b"a", b"\xff"], pa.binary_view()).slice(1), [0]),
            (UTF8, pa.array([b"\xff\xff"], pa.binary(2)).dictionary_encode(), [0]),
            (UTF8, pa.array(["a"]), []),
        ],
        ids=[f"case {number}" for number in range(26)],
    )
    def test_what_a_sink_cannot_hold(self, test: Any, column: Any, bad: list[int]) -> None:
        mask = test[1](column)
        assert ([] if mask is None else np.flatnonzero(mask).tolist()) == bad

    def test_a_time_that_is_held_is_a_time_of_python(self) -> None:
        """In any zone: the edges of what is held can be read."""
        for seconds in (-62_135_510_400, 253_402_214_399):
            column = pa.array([seconds], pa.timestamp("s", "Pacific/Kiritimati"))
            assert YEARS[1](column) is None
            assert column.to_pylist()[0].year in (1, 9999)


def told(folder: Path, sink: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A job that leaves out bad rows and writes them down."""
    made = job(folder, **{"on_bad": "skip", **more})
    made["queries"] = {
        name: {
            "kind": "TopK",
            "k": k,
            "score": "bytes",
            "id": "flow",
            "time": "ts",
            "keep": ["more"],
            "window": {"size": "10 s"},
            "sink": sink
            if name == "one"
            else {"kind": "files", "path": str(folder / "out" / name)},
        }
        for name, k in (("one", 2), ("other", 3))
    }
    made["dead_letters"] = {"kind": "files", "path": str(folder / "bad")}
    return made


def letters(folder: Path) -> list[dict[str, Any]]:
    lines = [each.read_text().splitlines() for each in sorted((folder / "bad").iterdir())]
    return [json.loads(line) for each in lines for line in each]


def table(*given: tuple[Any, str, int, int]) -> pa.Table:
    """Rows of a time, a flow, its bytes, and an unsigned number."""
    times, flows, sizes, more = ([each[i] for each in given] for i in range(4))
    columns = [pa.array(times, ZONED), flows, sizes, pa.array(more, pa.uint64())]
    return pa.table(columns, names=["ts", "flow", "bytes", "more"])


def test_what_postgres_cannot_hold_is_a_bad_row(tmp_path: Path, dsn: str) -> None:
    """The job goes on, and the row is a dead letter: of the query beside it too, for both share."""
    import psycopg

    at = datetime(2026, 1, 5, tzinfo=UTC)
    written(
        tmp_path,
        [
            table((at, "a", 1, 0), (at, "b\0", 9, 0), (at, "c", 8, MOST + 1), (at, "d", 2, MOST)),
            table((at + timedelta(seconds=20), "e", 1, 0)),
        ],
    )
    made = told(tmp_path, {"kind": "postgres", "table": "held", "dsn": dsn})
    made["queries"]["third"] = made["queries"]["other"] | {"keep": []}
    made["queries"]["third"]["sink"] = {"kind": "files", "path": str(tmp_path / "out" / "third")}
    progress = run_local(parse_job(made))
    assert progress.bad == 2
    with psycopg.connect(dsn) as connection:
        found = connection.execute("SELECT flow, more FROM held ORDER BY window_end, rank")
        assert found.fetchall() == [("d", MOST), ("a", 0), ("e", 0)]
    assert [row["flow"] for row in out(tmp_path, "other")] == ["d", "a", "e"]
    assert [row["flow"] for row in out(tmp_path, "third")] == ["b\0", "c", "d", "e"]
    nul, unsigned = letters(tmp_path)
    assert json.loads(nul["record"])["flow"] == "b\0"
    assert "'flow': the text contains a NUL character, which the sink cannot hold" in nul["reason"]
    assert "one: " in nul["reason"]
    assert "third: " not in nul["reason"]
    assert f"'more': the number is above {MOST}" in unsigned["reason"]


def test_a_bad_value_stops_a_job_that_raises(tmp_path: Path, dsn: str) -> None:
    written(tmp_path, [table((datetime(2026, 1, 5, tzinfo=UTC), "b\0", 9, 0))])
    made = told(tmp_path, {"kind": "postgres", "table": "strict", "dsn": dsn}, on_bad="raise")
    with pytest.raises(sb.DataError, match="column 'flow', row 0: the text contains a NUL"):
        run_local(parse_job(made))


NOW = 1_800_000_000.0
"""The clock of these tests: 2027-01-15 08:00."""


def moment(**ahead: float) -> datetime:
    return datetime.fromtimestamp(NOW, UTC) + timedelta(**ahead)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock on the wall that is set by hand."""
    shown = [NOW]
    monkeypatch.setattr(time, "time", lambda: shown[0])
    return shown


class TestAhead:
    def test_a_row_far_ahead_makes_no_other_late(self, tmp_path: Path, clock: list[float]) -> None:
        good = [(moment(hours=hour), f"f{hour}", 1, 0) for hour in (-50_000, -5, -4, 0, 23)]
        far = [(moment(days=days), f"d{days}", 9, 0) for days in (2, 2_000_000)]
        written(tmp_path, [table(*good[:2], far[0], far[1]), table(*good[2:])])
        made = told(tmp_path, {"kind": "console"})
        made["source"]["rows_per_batch"] = 2
        progress = run_local(parse_job(made))
        assert (progress.bad, progress.late) == (2, 0)
        assert [row["flow"] for row in out(tmp_path, "other")] == [each[1] for each in good]
        first, second = letters(tmp_path)
        assert "'ts': the time is more than 1 day ahead of this machine's clock" in first["reason"]
        assert json.loads(second["record"])["flow"] == "d2000000"

    def test_a_batch_is_judged_by_the_clock_it_was_read_at(
        self, tmp_path: Path, clock: list[float]
    ) -> None:
        """After a crash the same rows are bad as before, however late it is by then."""
        written(tmp_path, [table((moment(), "a", 1, 0), (moment(hours=25), "b", 1, 0))])
        made = told(tmp_path, {"kind": "console"})
        steps = LocalJob(parse_job(made)).steps(lambda: False)
        assert next(steps).bad == 1
        steps.close()
        clock[0] += 7_200
        progress = run_local(parse_job(made))
        assert (progress.replayed, progress.bad) == (1, 1)
        assert [row["flow"] for row in out(tmp_path, "other")] == ["a"]

    @pytest.mark.parametrize(("ahead", "bad"), [("none", 0), ("3 days", 0), ("47 hours", 1)])
    def test_how_far_is_too_far(
        self, tmp_path: Path, clock: list[float], ahead: str, bad: int
    ) -> None:
        written(tmp_path, [table((moment(days=2), "a", 1, 0))])
        assert run_local(parse_job(told(tmp_path, {"kind": "console"}, ahead=ahead))).bad == bad

    def test_wrong_settings(self, tmp_path: Path) -> None:
        for wrong, match in (("soon", "ahead"), ("-1 day", "ahead"), (5, "ahead must be text")):
            with pytest.raises(sb.QueryError, match=match):
                parse_job(job(tmp_path, ahead=wrong))

    def test_integer_times_may_be_any(self, tmp_path: Path, clock: list[float]) -> None:
        """Nobody knows what they count."""
        made = rows(1)[0]
        far = pc.add(made["ts"], 2**61)
        written(tmp_path, [made.set_column(0, "ts", far)])
        assert run_local(parse_job(job(tmp_path, on_bad="skip"))).bad == 0

    def test_generated_rows_may_run_ahead_of_the_clock(self, tmp_path: Path) -> None:
        made = told(tmp_path, {"kind": "console"})
        made["source"] = {
            "kind": "rate",
            "columns": {"ts": "timestamp", "flow": "value", "bytes": "value", "more": "value"},
            "rows_per_batch": 200_000,
        }
        running = LocalJob(parse_job(made))
        steps = running.steps(lambda: False)
        assert next(steps).bad == next(steps).bad == 0
        steps.close()
        running.close()

    def test_a_row_alone_is_judged_too(self, clock: list[float]) -> None:
        """A push of one row takes a short way, once the columns are known."""
        query = sb.TopK(k=1, score="bytes", id="flow", time="ts", window=sb.TimeWindow("10 s"))
        monitor = sb.Monitor(query, on_bad="skip")
        limits = row_limits(parse_job(told(Path(), {"kind": "console"})), {})["one"]
        for row in ((moment(), "a", 1, 0), (moment(days=2), "b", 1, 0), (moment(), "c", 1, 0)):
            monitor.board.limit({"one": limits}, NOW)
            monitor.push(table(row))
        assert (monitor.stats()["rows_bad"], monitor.stats()["rows_late"]) == (1, 0)

    def test_a_source_with_a_row_far_ahead_is_read_like_others(
        self, tmp_path: Path, clock: list[float]
    ) -> None:
        """Its turn comes by the times that count."""
        query = sb.FusedTopK(
            k=1, id="flow", value="bytes", streams=("one", "two"), bounds=(0, 10), time="ts",
            window=sb.TimeWindow("10 s"),
        )  # fmt: skip
        monitor = sb.Monitor(query, on_bad="skip")
        limits = row_limits(parse_job(told(Path(), {"kind": "console"})), {})["one"]
        monitor.board.limit({"fused": limits}, NOW)
        near, far = table((moment(), "a", 1, 0)), table((moment(days=9), "a", 1, 0))
        monitor.push({"one": far, "two": near})
        assert monitor.board.in_turn(["one", "two"]) == ["one", "two"]


def test_every_sink_says_what_it_refuses(tmp_path: Path, dsn: str) -> None:
    sinks = {
        "postgres": {"table": "t", "dsn": dsn},
        "http": {"url": "http://127.0.0.1:1/"},
        "console": {},
        "files": {"path": str(tmp_path / "x"), "format": "json"},
    }
    for kind, settings in sinks.items():
        made = parse_job(told(tmp_path, {"kind": kind, **settings}))
        refused = sink_of(made, "one").refuses
        assert YEARS in refused
        assert (NO_NUL in refused, SIGNED in refused) == (kind == "postgres",) * 2
        assert set(row_limits(made, {"one": sink_of(made, "one")})["other"].values) == set(refused)
    for form, refuses in (("parquet", ()), ("csv", (UTF8,))):
        files = {"kind": "files", "path": str(tmp_path / "x"), "format": form}
        assert sink_of(parse_job(told(tmp_path, files)), "one").refuses[: len(refuses)] == refuses


@pytest.mark.parametrize("kind", [pa.list_(pa.int8()), pa.time64("us")])
def test_a_type_that_a_sink_cannot_hold_stops_a_job_before_it_begins(
    tmp_path: Path, dsn: str, kind: pa.DataType
) -> None:
    """So the job can be repaired, and begins with the first row."""
    given = table((datetime(2026, 1, 5, tzinfo=UTC), "a", 9, 0))
    written(tmp_path, [given.set_column(3, "more", pa.nulls(1, kind))])
    sinks = [{"kind": "postgres", "table": "nested", "dsn": dsn}]
    if pa.types.is_nested(kind):
        sinks += [{"kind": "files", "path": str(tmp_path / "x"), "format": "csv"}]
    for sink in sinks:
        made = told(tmp_path, sink)
        with pytest.raises(sb.SchemaError, match=r"a column of type .* leave it out"):
            run_local(parse_job(made))
        made["queries"]["one"]["keep"] = []
        assert run_local(parse_job(made)).windows == 2
        (tmp_path / "state").rename(tmp_path / f"state of {sink['kind']}")


def test_bad_rows_of_any_type_become_letters(tmp_path: Path) -> None:
    given = table((datetime(2026, 1, 5, tzinfo=UTC), "a", 9, 0)).append_column(
        "view", pa.array(["b"], pa.string_view())
    )
    written(tmp_path, [given.set_column(2, "bytes", pa.nulls(1, pa.int64()))])
    assert run_local(parse_job(told(tmp_path, {"kind": "console"}))).bad == 1
    assert json.loads(letters(tmp_path)[0]["record"])["view"] == "b"


def test_on_spark_the_summaries_leave_such_rows_out() -> None:
    """The part of the work that Spark gives to its workers."""
    pytest.importorskip("pyspark")
    from skyband.engine.intake import RowLimits
    from skyband.spark.plan import BoardPlan, QueryPlan
    from skyband.spark.summarise import Summariser

    query = sb.TopK(k=2, score="bytes", id="flow", time="ts", window=sb.TimeWindow("10 s"))
    at = datetime.now(UTC)
    made = table((at, "a", 1, 0), (at, "b\0", 2, 0), (at + timedelta(days=2), "c", 3, 0))
    schema = made.select(["flow", "bytes", "ts"]).schema
    plan = QueryPlan(query, {"": schema}, 1, "skip", False, True)
    for limits, bad in ((RowLimits(), 0), (RowLimits(86_400_000_000, "1 day", (NO_NUL,)), 2)):
        board = BoardPlan({"": replace(plan, limits=limits)}, alone=True)
        (label,) = board.labels
        worker = Summariser(board, label, "")
        worker.summarise(made)
        assert worker.counts["rows_bad"] == bad
        assert worker.seen is not None
        assert (worker.seen < (at.timestamp() + 86_400) * 1e6) == bool(bad)


@pytest.mark.spark
def test_a_job_on_spark_does_the_same(spark: Any, tmp_path: Path, dsn: str) -> None:
    """A board with a family, whose queries have other sinks."""
    import psycopg

    from skyband.jobs.spark.run_job import run

    at = datetime(2026, 1, 5, tzinfo=UTC)
    first = table((at, "a", 1, 0), (at, "b\0", 9, 0), (at + timedelta(days=400_000), "c", 1, 0))
    later = table((at + timedelta(seconds=30), "d", 1, 0))
    written(tmp_path, [each.drop_columns("more") for each in (first, later)])
    sink = {"kind": "postgres", "table": "sparked", "dsn": dsn}
    made = told(tmp_path, sink, engine="spark", shards=1, trigger={"once": True, "close": True})
    made["source"] = {"kind": "files", "path": str(tmp_path / "in"), "files_per_batch": 1}
    for query in made["queries"].values():
        del query["keep"]
    run(parse_job(made), spark)
    with psycopg.connect(dsn) as connection:
        found = connection.execute("SELECT flow FROM sparked ORDER BY window_end").fetchall()
    assert found == [("a",), ("d",)]
    assert [row["flow"] for row in out(tmp_path, "other")] == ["a", "d"]
    reasons = sorted(letter["reason"] for letter in letters(tmp_path))
    assert len(reasons) == 2
    assert "NUL character" in reasons[0]
    assert "1 day ahead" in reasons[1]
