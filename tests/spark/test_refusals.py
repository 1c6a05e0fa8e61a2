"""What is refused before a job starts, or at the first bad row; each error says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from support import spark_session, streams

pytestmark = pytest.mark.spark
SECONDS = sb.TimeWindow("10 s", slide="5 s")


def topk(window: Any = SECONDS, **settings: Any) -> sb.TopK:
    given: dict[str, Any] = {"k": 3, "score": "score", "id": "id", "time": "ts", "window": window}
    return sb.TopK(**(given | settings))


@pytest.fixture(scope="module")
def stream(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = streams.stream(1, 20, time_type=pa.timestamp("us", tz="UTC"), unit=1_000_000)
    return spark_session.stream_of(spark, tmp_path_factory.mktemp("refused") / "in", [made.table])


@pytest.fixture(scope="module")
def batch(spark: Any) -> Any:
    return spark.createDataFrame(streams.stream(1, 20).table)


def test_count_windows(stream: Any, batch: Any) -> None:
    from skyband.spark import rank

    for frame in (stream, batch):
        with pytest.raises(sb.EngineError, match="integers"):
            rank(frame, topk(sb.CountWindow(10)))


@pytest.mark.parametrize(
    "window",
    [
        sb.TimeWindow("1500 us"),
        sb.TimeWindow("3 ms", slide="1500 us"),
        sb.TimeWindow("3 ms", lateness="1 us"),
        sb.TimeWindow("3 ms", offset="1 us"),
    ],
)
def test_windows_finer_than_a_millisecond(stream: Any, window: Any) -> None:
    from skyband.spark import rank

    with pytest.raises(sb.EngineError, match="whole milliseconds"):
        rank(stream, topk(window))


def test_a_watermark_that_is_there_already(stream: Any) -> None:
    from skyband.spark import rank

    with pytest.raises(sb.EngineError, match="withWatermark"):
        rank(stream.withWatermark("ts", "1 second"), topk())


def test_what_is_no_dataframe_and_what_does_not_fit(stream: Any, batch: Any) -> None:
    from skyband.spark import rank

    with pytest.raises(sb.SchemaError, match="Spark DataFrames"):
        rank(pa.table({"ts": [1]}), topk())
    with pytest.raises(sb.SchemaError, match="one source"):
        rank({"a": stream}, topk())
    with pytest.raises(sb.SchemaError, match="'nothing' is missing"):
        rank(stream, topk(score="nothing"))
    with pytest.raises(sb.QueryError, match="shards"):
        rank(stream, topk(), shards=0)
    with pytest.raises(sb.QueryError, match="on_bad"):
        rank(stream, topk(), on_bad="ignore")  # type: ignore[arg-type]
    with pytest.raises(sb.QueryError, match=r"sb\.TopK"):
        rank(stream, "top 10")  # type: ignore[arg-type]
    join = sb.SkylineJoin(
        left="l", right="r", on="id", prefer={"score": "min"}, time="ts", window=SECONDS
    )
    with pytest.raises(sb.SchemaError, match="mapping"):
        rank(stream, join)
    with pytest.raises(sb.SchemaError, match="'r' is missing"):
        rank({"l": stream}, join)
    with pytest.raises(sb.EngineError, match="all streaming, or none"):
        rank({"l": stream, "r": batch}, join)


def test_bad_rows_stop_a_stream_or_are_left_out(spark: Any, tmp_path: Path) -> None:
    """A time before 1970 is a bad row of a stream; a batch DataFrame may hold it."""
    from skyband.spark import rank
    from skyband.spark.metrics import read_progress

    nan = float("nan")
    table = pa.table({"ts": [-5, 3, 4, 60], "id": list("abcd"), "score": [9.0, nan, 1.0, 1.0]})
    window = sb.TimeWindow(10)
    frame = spark_session.stream_of(spark, tmp_path / "in", [table])
    got, progress = spark_session.collect(
        rank(frame, topk(window), on_bad="skip"), tmp_path / "one"
    )
    assert got["id"].to_pylist() == ["c"]
    assert sum((read_progress(each) or {}).get("rows_bad", 0) for each in progress) == 2
    with pytest.raises(Exception, match=r"DataError.*column 'ts', row 0: before 1970.*\(-5\)"):
        spark_session.collect(rank(frame, topk(window)), tmp_path / "two")
    good = rank(spark.createDataFrame(table), topk(window), on_bad="skip").toArrow()
    assert good["id"].to_pylist() == ["a", "c", "d"]


class TestWatermarkPolicy:
    """If the fastest source set the watermark, rows of slower sources would be late."""

    NAME = "spark.sql.streaming.multipleWatermarkPolicy"

    @pytest.mark.parametrize("value", ["max", "MAX"])
    def test_the_fastest_source_may_not_set_the_pace(
        self, spark: Any, stream: Any, value: str
    ) -> None:
        from skyband.spark import rank

        prefer = {"score": "min", "weight": "max"}
        join = sb.SkylineJoin(
            left="l", right="r", on="id", prefer=prefer, time="ts", window=SECONDS
        )
        sides = {
            "l": stream.select("ts", "id", "score"),
            "r": stream.select("ts", "id", "weight"),
        }
        rank(sides, join)
        spark.conf.set(self.NAME, value)
        try:
            with pytest.raises(sb.EngineError, match=rf"{self.NAME} is '{value}'.*'min'"):
                rank(sides, join)
        finally:
            spark.conf.unset(self.NAME)

    def test_a_session_whose_settings_cannot_be_changed(self) -> None:
        from skyband.spark.sessions import check_session

        class Conf:
            def get(self, name: str, default: str = "") -> str:
                return "max" if name == TestWatermarkPolicy.NAME else default

            def set(self, name: str, value: str) -> None:
                raise AssertionError(f"{name} is set to {value}")

        class Session:
            conf = Conf()

        with pytest.raises(sb.EngineError, match=self.NAME):
            check_session(Session(), streaming=True)


class TestRequirements:
    def test_no_java(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        from skyband.spark.sessions import require_java

        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        with pytest.raises(sb.EngineError, match="JAVA_HOME"):
            require_java()
        monkeypatch.delenv("JAVA_HOME")
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(sb.EngineError, match="install Java 17"):
            require_java()

    def test_an_old_java(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        from skyband.spark.sessions import require_java

        (tmp_path / "bin").mkdir()
        java = tmp_path / "bin" / "java"
        java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
        java.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        with pytest.raises(sb.EngineError, match="Java 8"):
            require_java()

    @pytest.mark.parametrize("module", ["pyspark", "pandas", "google.protobuf"])
    def test_a_missing_package(self, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
        import sys

        from skyband.spark import rank

        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(sb.EngineError, match=r"skyband\[spark\]"):
            rank(None, topk())

    def test_workers_that_lack_something(self) -> None:
        from skyband.spark.sessions import _judge, _workers_failed

        wanted = {"skyband": "1.0", "pandas": None}
        fine = {"python": "p", "problems": {}, "versions": {"skyband": "1.0"}}
        _judge(fine, wanted)
        with pytest.raises(sb.EngineError, match="cannot import skyband"):
            _judge(fine | {"problems": {"skyband": "ModuleNotFoundError: x"}}, wanted)
        with pytest.raises(sb.EngineError, match="same version"):
            _judge(fine | {"versions": {"skyband": "0.9"}}, wanted)
        assert "minor version" in _workers_failed("x\n[PYTHON_VERSION_MISMATCH] Python in worker")
        assert "PYSPARK_PYTHON" in _workers_failed("Cannot run program")
