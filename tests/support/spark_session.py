"""Spark for tests: a session, and streams whose micro-batches are the pushes of a Monitor."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import skyband as sb
from skyband.spark.sessions import DAEMON, ONE_DAEMON

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of the JVM: only its quick compiler, as tests end before the other one would pay off."""
CLASSES = Path(__file__).resolve().parents[2] / "build" / "spark.jsa"
"""An archive of Spark's classes, if one was made: see ``spark_classes``."""
WARM = DAEMON | ONE_DAEMON
"""There is one daemon that forks Python workers, and it has imported what they need."""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.authenticate.socketTimeout": "120s",  # workers start slowly on a busy machine
    "spark.sql.session.timeZone": "America/Sao_Paulo",  # answers must not depend on it
    "spark.sql.streaming.stateStore.stateSchemaCheck": "true",
}


TOO_SLOW = "Python worker failed to connect back"
"""Spark's message when a worker did not start within its fixed ten seconds."""


def missing() -> str | None:
    """The reason why Spark cannot run here, if it cannot."""
    for module in ("pyspark", "pandas", "google.protobuf"):
        try:
            found = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            return f"{module} is not installed (the spark extra)"
    java = os.environ.get("JAVA_HOME")
    if not (java and (Path(java) / "bin" / "java").exists()) and shutil.which("java") is None:
        return "no Java"
    return None


def java_options() -> str:
    """Options of a JVM that runs Spark, with which it starts fast."""
    if not CLASSES.exists():
        return QUICK
    # A JVM that cannot use the archive, as it is of another version, goes without, and in silence.
    return f"{QUICK} -XX:SharedArchiveFile={CLASSES} -Xlog:disable"


def environment(**more: str) -> dict[str, str]:
    """The environment of a process that starts Spark: it starts fast and finds our modules."""
    path = os.pathsep.join(p for p in sys.path if p)
    return {
        **os.environ,
        "PYTHONPATH": path,
        "PYSPARK_PYTHON": str(Path(__file__).with_name("worker_python")),
        "SKYBAND_TEST_PATH": path,
        "SKYBAND_TEST_PYTHON": sys.executable,
        "SPARK_SUBMIT_OPTS": java_options(),
        "SPARK_LAUNCHER_OPTS": QUICK,
        **more,
    }


def local_session(master: str = "local[2]", **settings: str) -> Any:
    from pyspark.sql import SparkSession

    chosen = SETTINGS | settings
    if master.startswith("local"):
        chosen = WARM | chosen
        os.environ.update(environment())
    else:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("skyband tests")
    for name, value in chosen.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


class Kept:
    """A session that stays alive although a command stops it: other tests use the same JVM."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def stop(self) -> None:
        """Do nothing."""


def write_batches(folder: Path, batches: Sequence[pa.Table], first: int = 0) -> None:
    """Write one file per batch; Spark reads them in this order, by modification time.

    The files get numbers from ``first`` on. A query may run already: it sees whole files only.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(batches, first):
        aside = folder / f".{number:04}.parquet"
        pq.write_table(table, aside)
        os.utime(aside, (1_000_000_000 + number,) * 2)
        aside.rename(folder / f"{number:04}.parquet")


def read_stream(session: Any, folder: Path, schema: Any, parts: int = 1) -> Any:
    """A streaming DataFrame that reads one of the folder's files per micro-batch."""
    frame = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return frame if parts == 1 else frame.repartition(parts)


def stream_of(session: Any, folder: Path, batches: Sequence[pa.Table], parts: int = 1) -> Any:
    write_batches(folder, batches)
    return read_stream(session, folder, session.read.parquet(str(folder)).schema, parts)


def collect(frame: Any, folder: Path) -> tuple[pa.Table, list[Any]]:
    """All rows of a streaming DataFrame, once its source is exhausted, and its progress."""
    name = f"answers_{uuid.uuid4().hex}"

    def start() -> Any:
        # The memory sink cannot resume from a checkpoint, so another attempt starts afresh.
        shutil.rmtree(folder / "checkpoint", ignore_errors=True)
        writer = frame.writeStream.format("memory").queryName(name).outputMode("append")
        return writer.option("checkpointLocation", str(folder / "checkpoint")).start()

    progress = run_out(start)
    return frame.sparkSession.table(name).toArrow(), progress


def collect_all(frames: Sequence[Any], folder: Path) -> tuple[list[pa.Table], list[Any]]:
    """Like ``collect``, for several streaming DataFrames over the same sources, in one query.

    Starting a stateful query takes Spark seconds. Each frame becomes a separate column.
    """
    from pyspark.sql import functions as F  # noqa: N812

    columns = [frame.select(F.struct("*").alias(f"a{i}")) for i, frame in enumerate(frames)]
    union = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), columns)
    table, progress = collect(union, folder)
    found = []
    for column in table.columns:
        own = column.combine_chunks().filter(pc.is_valid(column.combine_chunks()))
        found.append(pa.Table.from_batches([pa.RecordBatch.from_struct_array(own)]))
    return found, progress


def run_out(start: Callable[[], Any], attempts: int = 5, stays: bool = False) -> list[Any]:
    """Run a query until its source is exhausted; retry if a worker was too slow to start.

    A query that ``stays`` waits for more, until its process is killed.
    """
    while True:
        query = start()
        try:
            if stays:
                query.awaitTermination()
            query.processAllAvailable()
            return list(query.recentProgress)
        except Exception as problem:
            attempts -= 1
            if TOO_SLOW not in str(problem) or not attempts:
                raise
        finally:
            query.stop()


def embedded(
    query: sb.Query, pushes: Sequence[Any], on_bad: Any = "raise", changes: bool = False
) -> tuple[pa.Table, Mapping[str, Any]]:
    """Rows that a Monitor gives for these pushes, without a flush, and its counts."""
    monitor = sb.Monitor(query, on_bad=on_bad)
    answers = [answer for push in pushes for answer in monitor.push(push)]
    tables = []
    for answer in answers:
        table = answer.changes if changes else answer.table
        if changes:
            edges = pa.table(
                {n: [v] * table.num_rows for n, v in (("start", answer.start), ("end", answer.end))}
            )
            columns = {"window_start": edges["start"], "window_end": edges["end"]}
            if "revision" in query.window_columns:
                columns["revision"] = pa.array([answer.revision] * table.num_rows, pa.int32())
            table = pa.table(columns | dict(zip(table.column_names, table.columns, strict=True)))
        if table.num_rows:
            tables.append(table)
    return (pa.concat_tables(tables) if tables else pa.table({})), monitor.stats()


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows sorted for comparison, as a stream's rows come in any order; times in microseconds.

    An empty table fails, as comparing two empty answers would show nothing.
    """
    assert table.num_rows > 0
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            ticks = table.column(i).cast(pa.timestamp("us", tz=field.type.tz)).cast(pa.int64())
            table = table.set_column(i, field.name, ticks)
    return sorted(table.to_pylist(), key=lambda row: [repr(value) for value in row.values()])
