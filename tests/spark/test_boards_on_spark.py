"""Boards on Spark: one Spark query for several questions, each answered as if it were alone."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.engine.fold import folds_of
from support import spark_session, streams

pytestmark = pytest.mark.spark
MOMENT = pa.timestamp("us", tz="UTC")


def window(size: str = "30 ms", slide: str = "7 ms", lateness: str = "5 ms") -> sb.TimeWindow:
    return sb.TimeWindow(size, slide=slide, lateness=lateness)


BEST = sb.TopK(k=3, score="score", id="id", time="ts", by=("g",), window=window())
OFTEN = sb.HeavyHitters(k=2, item="id", time="ts", window=window("40 ms", "20 ms", "30 ms"))
WIDER = sb.HeavyHitters(k=4, item="id", time="ts", window=window("60 ms", "20 ms", "30 ms"))
FRONT = sb.Skyline(prefer={"score": "max", "ts": "min"}, time="ts", window=window("14 ms"))
BOARD = {"best": BEST, "often": OFTEN, "front": FRONT, "wider": WIDER}


def flows(batches: int = 4) -> streams.Stream:
    return streams.stream(
        7, 40 * batches, lateness=5, step=3, gap=60, batches=batches, groups=5, time_type=MOMENT,
        unit=1_000, start=1_000,
    )  # fmt: skip


def test_a_batch_of_a_board_is_that_of_each_query(spark: Any) -> None:
    from skyband.spark import rank, split

    table = flows().table
    found = rank(spark.createDataFrame(table).repartition(3), BOARD, shards=2).persist()
    assert found.columns == ["query", "window_start", "window_end", "rank", "answer"]
    assert set(found.schema["answer"].metadata) == set(BOARD)
    rows = found.toArrow().to_pylist()
    first = next(row for row in rows if row["query"] == "often")
    want = sb.rank(table, OFTEN).to_pylist()[0]
    assert json.loads(first["answer"]) == {n: want[n] for n in ("id", "count", "error")}
    assert {row["rank"] for row in rows if row["query"] == "front"} == {None}
    for name, each in split(found, BOARD).items():
        wanted = sb.rank(table, BOARD[name])
        assert each.columns == wanted.column_names
        assert each.toArrow().to_pylist() == wanted.to_pylist()
    changed = split(
        rank(spark.createDataFrame(table), {"often": OFTEN}, changes=True), {"often": OFTEN}
    )
    assert changed["often"].columns[:3] == ["window_start", "window_end", "change"]
    found.unpersist()


def test_changes_of_several_shards(spark: Any, tmp_path: Path) -> None:
    from skyband.spark import rank

    batches = flows(3).batches
    board = {"best": BEST, "often": OFTEN, "wider": WIDER}
    frame = spark_session.stream_of(spark, tmp_path / "in", batches)
    answers = rank(frame, board, shards=2, changes=True)
    (rows,), _ = spark_session.collect_all([answers], tmp_path)
    for name, query in board.items():
        want, _ = spark_session.embedded(query, batches, changes=True)
        assert spark_session.rows(typed(answers, rows, name)) == spark_session.rows(want), name


def typed(answers: Any, rows: pa.Table, name: str) -> pa.Table:
    """The rows of one query, in its own columns; as split does, without a job of Spark."""
    from skyband.spark.finishing import schema_from_text, typed_rows

    schema = schema_from_text(answers.schema["answer"].metadata[name])
    own = rows.filter(pa.compute.equal(rows["query"], name)).combine_chunks()
    return pa.Table.from_batches(typed_rows(schema)(iter(own.to_batches())), schema)


def test_a_stream_whose_board_changes(spark: Any, tmp_path: Path) -> None:
    """One query is removed and one is added between two runs of one checkpoint."""
    from skyband.spark import rank, split
    from skyband.spark.checkpoint import read_heads, read_state

    batches, tried = flows(4).batches, list[Any]()
    fresh = sb.TopK(k=1, score="score", id="id", time="ts", window=window("20 ms", "10 ms"))
    found: dict[str, list[pa.Table]] = {name: [] for name in (*BOARD, "fresh")}

    def run(board: dict[str, sb.Query], upto: int) -> list[Any]:
        spark_session.write_batches(tmp_path / "in", batches[:upto])
        schema = spark.read.parquet(str(tmp_path / "in")).schema
        frame = spark_session.read_stream(spark, tmp_path / "in", schema)
        answers = rank(frame, board, on_bad="skip")

        def sink(batch: Any, _: int) -> None:
            rows = batch.toArrow()
            for name in board:
                found[name].append(typed(answers, rows, name))
            if rows.num_rows and not tried:
                tried.extend(split(batch, board)["best"].toArrow().to_pylist())
                mine = found["best"][-1].to_pylist()
                assert sorted(map(str, tried)) == sorted(map(str, mine))

        writer = answers.writeStream.foreachBatch(sink).outputMode("append")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        return spark_session.run_out(writer.start)

    progress = run(BOARD, 2)
    stepped = [p.stateOperators for p in progress]
    assert {len(operators) for operators in stepped} == {1}
    state = read_state(spark, str(tmp_path / "checkpoint")).to_pylist()
    counts = Counter(row["query"] for row in state)
    assert counts == {BEST.fingerprint: 16} | {q.fingerprint: 1 for q in (OFTEN, WIDER, FRONT)}
    heads = [
        list(head["queries"]) for _, head, _ in read_heads(spark, str(tmp_path / "checkpoint"))
    ]
    assert all(heads.count(names) == (16 if names == ["best"] else 1) for names in folds_of(BOARD))
    run({"best": BEST, "often": OFTEN, "fresh": fresh, "wider": WIDER}, 4)

    for name in ("best", "often", "wider"):
        want, _ = spark_session.embedded(BOARD[name], batches)
        got = pa.concat_tables(found[name])
        assert spark_session.rows(got) == spark_session.rows(want), name
    want, _ = spark_session.embedded(FRONT, batches[:2])
    assert spark_session.rows(pa.concat_tables(found["front"])) == spark_session.rows(want)
    assert tried
    # The added query begins with the first window that starts at or after the greatest time seen.
    seen = max(max(batch["ts"].to_pylist()) for batch in batches[:2])
    whole, _ = spark_session.embedded(fresh, batches)
    later = whole.filter(pa.compute.greater_equal(whole["window_start"], pa.scalar(seen, MOMENT)))
    assert spark_session.rows(pa.concat_tables(found["fresh"])) == spark_session.rows(later)


def test_boards_that_spark_refuses(spark: Any) -> None:
    from skyband.spark import rank, split

    table = flows(1).table
    frame = spark.createDataFrame(table.append_column("other", table["ts"]))
    elsewhere = sb.TopK(k=1, score="score", time="other", window=window())
    with pytest.raises(sb.EngineError, match="'elsewhere' has time='other'"):
        rank(frame, BOARD | {"elsewhere": elsewhere})
    counted = sb.TopK(k=1, score="score", time="ts", window=sb.CountWindow(3))
    with pytest.raises(sb.EngineError, match="'counted': Spark has no order of arrival"):
        rank(frame, {"best": BEST, "counted": counted})
    with pytest.raises(sb.QueryError, match="at least one query"):
        rank(frame, {})
    with pytest.raises(sb.SchemaError, match=r"query 'often': .*'id'"):
        rank(frame.drop("id"), {"often": OFTEN})

    def fused(*names: str) -> sb.FusedTopK:
        return sb.FusedTopK(
            k=1, id="id", value="score", streams=names, bounds=(-9.0, 1e9), time="ts",
            window=window(),
        )  # fmt: skip

    sources = dict.fromkeys("abc", frame)
    with pytest.raises(sb.EngineError, match="'ab' does not read source 'c'"):
        rank(sources, {"abc": fused("a", "b", "c"), "ab": fused("a", "b")})
    with pytest.raises(sb.SchemaError, match="does not have the types of query 'best'"):
        split(frame, BOARD)
