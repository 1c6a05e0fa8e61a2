"""``skyband.spark.files``: the same answers as the embedded engine, streaming and as a batch."""

from __future__ import annotations

import os
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import skyband as sb
from support import spark_session

pytestmark = pytest.mark.spark
WINDOW = sb.TimeWindow(20, slide=10, lateness=5)


def rows(seed: int, start: int, many: int = 60) -> pa.Table:
    """Rows over 60 ticks, with all columns that the queries below read."""
    numbers = [(seed * 7 + i * i * 13 + i) % 97 for i in range(many)]
    return pa.table(
        {
            "ts": pa.array([start + i * 60 // many for i in range(many)], pa.int64()),
            "id": [f"i{n % 11}-{seed}-{i}" for i, n in enumerate(numbers)],
            "item": [f"x{n % 9}" for n in numbers],
            "v": [n / 100 for n in numbers],
            "p": [(n + 1) / 100 for n in numbers],
            "s": ["r1" if n % 2 else "r2" for n in numbers],
            "g": [n % 3 for n in numbers],
            "unused": [None] * many,
        }
    )


QUERIES: dict[str, sb.Query] = {
    "TopK": sb.TopK(k=2, score="v", id="id", time="ts", window=WINDOW, by=("g",)),
    "HeavyHitters": sb.HeavyHitters(k=3, item="item", time="ts", window=WINDOW),
    "UncertainTopK": sb.UncertainTopK(
        k=2, score="v", probability="p", id="id", time="ts", window=WINDOW
    ),
    "FusedTopK": sb.FusedTopK(
        k=2, id="id", stream="s", value="v", streams=("r1", "r2"), time="ts", window=WINDOW
    ),
    "Skyline": sb.Skyline(prefer={"v": "max", "p": "min"}, id="id", time="ts", window=WINDOW),
    "SkylineJoin": sb.SkylineJoin(
        left="a",
        right="b",
        on="g",
        prefer={"v": "min", "p": "max"},
        time="ts",
        window=WINDOW,
    ),
}
SIDES = {"a": ["ts", "g", "v"], "b": ["ts", "g", "p"]}


def test_every_query_as_a_batch(spark: Any, tmp_path: Path) -> None:
    """All queries in one Spark job; a folder, a glob, a mapping and three formats."""
    from pyspark.sql import functions as F  # noqa: N812

    from skyband.spark import files, rank

    parts = [rows(i, 1_000 + 60 * i) for i in range(3)]
    table = pa.concat_tables(parts)
    (tmp_path / "in" / "sub folder").mkdir(parents=True)
    pq.write_table(parts[0], tmp_path / "in" / "0.parquet", row_group_size=25)
    with pa.ipc.new_file(tmp_path / "in" / "sub folder" / "1.arrow", parts[1].schema) as out:
        out.write_table(parts[1])
    pa.csv.write_csv(parts[2], tmp_path / "in" / "2.csv")
    for name, columns in SIDES.items():
        pq.write_table(table.select(columns), tmp_path / f"{name}.parquet")
    types = "ts bigint, id string, item string, v double, p double, s string, g bigint"
    table = table.drop_columns(["unused"])
    given: dict[str, Any] = {"schema": types, "options": {"header": True}, "streaming": False}
    folder = files(spark, tmp_path / "in", **given)
    sides = {name: files(spark, f"{tmp_path}/{name}.par*", streaming=False) for name in ("a", "b")}
    frames, wanted = [], []
    for i, (kind, query) in enumerate(QUERIES.items()):
        several = kind == "SkylineJoin"
        answers = rank(sides if several else folder, query, shards=2 if i % 2 else None)
        frames.append(answers.select(F.struct("*").alias(kind)))
        embedded = {name: table.select(columns) for name, columns in SIDES.items()}
        wanted.append(sb.rank(embedded if several else table, query))
    board = {name: QUERIES[name] for name in ("TopK", "HeavyHitters")}
    frames.append(rank(folder, board).select(F.struct("*").alias("board")))
    union = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    got = union.toArrow()
    for kind, want in zip(QUERIES, wanted, strict=True):
        own = got.column(kind).combine_chunks()
        mine = pa.Table.from_batches([pa.RecordBatch.from_struct_array(own.filter(own.is_valid()))])
        assert mine.column_names == want.column_names, kind
        assert spark_session.rows(mine) == spark_session.rows(want), kind
    of_board = [row["query"] for row in got["board"].to_pylist() if row is not None]
    lengths = {kind: want.num_rows for kind, want in zip(QUERIES, wanted, strict=True)}
    assert {name: of_board.count(name) for name in board} == {name: lengths[name] for name in board}


def test_a_column_may_have_any_name(spark: Any) -> None:
    """What a source sends along is not looked up by name, for a DataFrame has its columns there."""
    from skyband.spark.ranking import carried_of
    from skyband.spark.summarise import NOTHING

    assert carried_of(spark.range(1).withColumnRenamed("id", "carried")) is NOTHING


class Gathered:
    """A sink that keeps each batch once, as one that is idempotent by batch does."""

    def __init__(self) -> None:
        self.batches: dict[int, pa.Table] = {}

    def __call__(self, frame: Any, batch: int) -> None:
        self.batches[batch] = frame.toArrow()

    def table(self) -> pa.Table:
        return pa.concat_tables(table for _, table in sorted(self.batches.items()))


def put(folder: Path, number: int, table: pa.Table) -> None:
    path = folder / f"{number}.parquet"
    pq.write_table(table, path)
    os.utime(path, (1_000_000_000 + number,) * 2)


def test_streaming_with_a_restart_and_bad_files(spark: Any, tmp_path: Path) -> None:
    """One file per batch, the query stopped in between, a file that is only half there."""
    from skyband.spark import files, rank
    from skyband.spark.metrics import read_progress

    parts = [rows(i, 1_000 + 60 * i) for i in range(5)]
    folder = tmp_path / "in"
    folder.mkdir()
    for number, part in enumerate(parts[:2]):
        put(folder, number, part)
    query = QUERIES["TopK"]
    sink = Gathered()
    bad = 0

    def run() -> list[Any]:
        read = files(spark, folder, files_per_batch=1)
        answers = rank(read, query, on_bad="skip")

        def start() -> Any:
            writer = answers.writeStream.foreachBatch(sink).outputMode("append")
            writer = writer.option("checkpointLocation", str(tmp_path / "state"))
            return writer.trigger(availableNow=True).start()

        return spark_session.run_out(start)

    for more in (parts[2:], []):
        for progress in run():
            bad += int((read_progress(progress) or {}).get("rows_bad", 0))
        for number, part in enumerate(more, 2):
            put(folder, number, part)
        if more:
            (folder / "9.parquet").write_bytes((folder / "1.parquet").read_bytes()[:500])
    want, _ = spark_session.embedded(query, parts)
    assert spark_session.rows(sink.table()) == spark_session.rows(want)
    assert bad == 1


def test_files_copied_out_of_order(spark: Any, tmp_path: Path) -> None:
    """The first batch takes all files, so none of their rows is late; a bad file has a name."""
    from skyband.spark import files, rank

    parts = [rows(i, 1_000 + 60 * i) for i in range(3)]
    folder = tmp_path / "in"
    folder.mkdir()
    for number, part in zip((2, 0, 1), parts, strict=True):
        put(folder, number, part)
    os.utime(folder / "0.parquet", (500_000_000,) * 2)  # years older than the others
    query = QUERIES["HeavyHitters"]
    table, _ = spark_session.collect(rank(files(spark, folder), query), tmp_path)
    want, _ = spark_session.embedded(query, [pa.concat_tables(parts)])
    assert spark_session.rows(table) == spark_session.rows(want)
    (folder / "later.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(Exception, match=r"later\.parquet.*could not be read as parquet"):
        rank(files(spark, folder, streaming=False), query).collect()


class TestRefused:
    def test_before_anything_runs(self, spark: Any, tmp_path: Path) -> None:
        from skyband.spark import files, rank

        with pytest.raises(sb.SchemaError, match="no file matches"):
            files(spark, tmp_path / "nothing*.parquet")
        with pytest.raises(sb.EngineError, match=r"not wasb:.*reader=\"spark\""):
            files(spark, "wasb://box/flows")
        with pytest.raises(sb.QueryError, match="no option 'mergeSchema'"):
            files(spark, tmp_path, options={"mergeSchema": True})
        with pytest.raises(sb.QueryError, match="format must be one of"):
            files(spark, tmp_path, format="orc")
        with pytest.raises(sb.QueryError, match="files_per_batch must be"):
            files(spark, tmp_path, files_per_batch=0)
        with pytest.raises(sb.QueryError, match="schema 'ts wibble'"):
            files(spark, tmp_path, schema="ts wibble")
        with pytest.raises(sb.QueryError, match="has type list"):
            files(spark, tmp_path, schema="ts array<int>", format="json")
        pq.write_table(rows(1, 1), tmp_path / "a.parquet")
        with pytest.raises(sb.SchemaError, match="'w'"):
            rank(files(spark, tmp_path), sb.TopK(k=1, score="w", time="ts", window=WINDOW))
        (tmp_path / "a.parquet").write_bytes(b"no")
        with pytest.raises(sb.SchemaError, match=r"a\.parquet' could not be read as parquet"):
            files(spark, tmp_path)

    def test_a_folder_that_is_empty_yet(self, spark: Any, tmp_path: Path) -> None:
        from skyband.spark import files

        found = files(spark, f"{tmp_path}/**/*.parquet", schema="ts timestamp, v double")
        assert found.columns == ["ts", "v"]
        assert found.isStreaming
