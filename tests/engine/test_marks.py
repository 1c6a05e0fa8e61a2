"""The watermark belongs to the source: every row with a readable time moves it, even a bad one."""

from __future__ import annotations

import pyarrow as pa
import pytest

import skyband as sb
from support import spark_simulator

QUERY = sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow(10))
BATCHES = [
    pa.table({"t": [1, 2], "x": [5.0, 7.0]}),
    pa.table({"t": [25], "x": pa.array([None], pa.float64())}),  # bad, but its time can be read
    pa.table({"t": [3, 26], "x": [9.0, 1.0]}),  # the first is late
]


def test_a_bad_row_moves_the_mark() -> None:
    monitor = sb.Monitor(QUERY, on_bad="skip")
    assert [len(monitor.push(batch)) for batch in BATCHES] == [0, 2, 0]
    stats = monitor.stats()
    assert (stats["rows_bad"], stats["rows_late"]) == (1, 1)


def test_a_bad_row_moves_the_mark_on_spark() -> None:
    pytest.importorskip("pyspark")
    job = spark_simulator.Job(spark_simulator.plan_of(QUERY, {"": BATCHES[0]}, on_bad="skip"))
    answers = pa.concat_tables([job.push({"": batch}) for batch in BATCHES])
    assert answers["x"].to_pylist() == [7.0]
    assert (job.stats["rows_bad"], job.stats["rows_late"]) == (1, 1)


def test_a_row_without_a_time_moves_nothing() -> None:
    monitor = sb.Monitor(QUERY, on_bad="skip")
    first = pa.table({"t": pa.array([1, None], pa.int64()), "x": [5.0, 7.0]})
    assert monitor.push(first) == []
    assert monitor.stats()["rows_bad"] == 1


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("ms")])
def test_a_time_beyond_the_calendar_is_a_bad_row_and_moves_nothing(kind: pa.DataType) -> None:
    query = sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow("10 s"))
    far = pa.array([0, 2**62], pa.int64()).view(kind)
    table = pa.table({"t": far, "x": [1.0, 2.0]})
    with pytest.raises(sb.DataError, match="row 1: the time is out of range"):
        sb.rank(table, query)
    monitor = sb.Monitor(query, on_bad="skip")
    assert monitor.push(table) == []
    assert monitor.stats()["rows_bad"] == 1
