"""The parts of a board on Spark, run in one process: keys, timers, lateness, queries that join."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb

pytest.importorskip("pyspark")

from skyband.data.ipc import table_from
from skyband.data.letters import RAW, UNREAD, CarriedColumns
from skyband.spark.finishing import answer_rows, typed_rows
from skyband.spark.summarise import summariser
from support.board_simulator import BoardJob, board_plan_of


def rows(seed: int, count: int = 90) -> pa.Table:
    made = np.random.default_rng(seed)
    time = 1_000 + np.cumsum(made.choice([0, 1, 3, 20], count)) - made.integers(0, 30, count)
    return pa.table(
        {
            "t": time,
            "id": [f"id{n}" for n in made.integers(0, 7, count)],
            "g": [f"g{n}" for n in made.integers(0, 4, count)],
            "x": made.integers(0, 40, count) / 40,
        }
    )


def sorted_rows(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda row: [repr(value) for value in row.values()])


def embedded(monitor: sb.Monitor, push: Any, board: Mapping[str, sb.Query]) -> dict[str, Any]:
    found: dict[str, list[Any]] = {name: [] for name in board}
    for answer in monitor.push(push):
        found[str(answer.name)] += answer.table.to_pylist()
    return found


def window(size: int, slide: int, lateness: int) -> sb.TimeWindow:
    return sb.TimeWindow(size, slide=slide, lateness=lateness)


BOARD: dict[str, sb.Query] = {
    "best": sb.TopK(k=2, score="x", id="id", time="t", by=("g",), window=window(30, 7, 5)),
    "often": sb.HeavyHitters(k=2, item="id", time="t", window=window(40, 20, 30)),
    "front": sb.Skyline(prefer={"x": "max", "t": "min"}, time="t", window=window(9, 9, 0)),
}


def test_bad_records_are_one_letter_with_the_reasons_of_all_queries() -> None:
    times = [1_001, None, 1_002, None]
    given = {"t": times, "id": ["a", None, None, None], "g": ["g", None, "g", None]}
    table = pa.table(given | {"x": [1.0, None, float("nan"), None]})
    table = table.append_column(UNREAD, pa.array([False, True, False, True]))
    table = table.append_column(RAW, pa.array([None, b"{oops", None, b"\xff"], pa.binary()))
    carried = CarriedColumns(
        "not JSON that fits the schema", {}, ("t", "id", "g", "x"), letters=True
    )
    plan = board_plan_of(BOARD, {"": rows(0)}, on_bad="skip")
    run = summariser(plan, "", carried)
    packed = [row for batch in run(iter(table.to_batches())) for row in batch.to_pylist()]
    letters = pa.concat_tables(table_from(row["letters"]) for row in packed if row["letters"])
    told = {row["record"]: row["reason"] for row in letters.to_pylist()}
    assert letters.num_rows == len(told) == 3
    assert told["{oops"] == "not JSON that fits the schema"
    (reason,) = (reason for record, reason in told.items() if "1002" in str(record))
    assert [part.split(":")[0] for part in reason.split("; ")] == ["best", "often", "front"]
    assert sum(row["rows_in"] for row in packed) == 4
    assert sum(row["rows_bad"] for row in packed) == 2 + 3  # unread once, the other by each query


@pytest.mark.parametrize("seed", range(4))
def test_each_query_keeps_its_own_lateness(seed: int) -> None:
    table = rows(seed)
    job, monitor = BoardJob(BOARD, {"": table}), sb.Monitor(BOARD)
    answered = 0
    for at in range(0, 90, 15):
        batch = table.slice(at, 15)
        found, want = job.push({"": batch}), embedded(monitor, batch, BOARD)
        for name in BOARD:
            assert sorted_rows(found[name]) == sorted_rows(want[name]), name
            answered += len(found[name])
    assert answered > 50
    assert monitor.stats()["front"]["rows_late"] > 0  # and the others have fewer


def test_two_sources_and_one_watermark() -> None:
    def fused(k: int, **window_of: Any) -> sb.FusedTopK:
        return sb.FusedTopK(
            k=k, id="id", value="x", streams=("a", "b"), time="t", recurrences=90,
            window=sb.TimeWindow(**window_of),
        )  # fmt: skip

    board = {"short": fused(1, size=20, slide=10), "long": fused(3, size=60, slide=20, lateness=9)}
    sources = {"a": rows(1), "b": rows(2)}
    job, monitor = BoardJob(board, sources), sb.Monitor(board, on_bad="skip")
    answered = 0
    for at in range(0, 90, 30):
        push = {name: table.slice(at, 30) for name, table in sources.items()}
        found, want = job.push(push), embedded(monitor, push, board)
        for name in board:
            assert sorted_rows(found[name]) == sorted_rows(want[name]), name
            answered += len(found[name])
    assert answered > 20


@pytest.mark.parametrize("by", [(), ("g",)])
def test_a_query_that_joins_later_begins_with_the_first_whole_window(by: tuple[str, ...]) -> None:
    table = rows(3).sort_by("t")
    joined = sb.TopK(k=1, score="x", id="id", time="t", by=by, window=window(25, 10, 4))
    first: dict[str, sb.Query] = {"often": BOARD["often"], "best": BOARD["best"]}
    job, monitor = BoardJob(first, {"": table}), sb.Monitor({"often": BOARD["often"]})
    alone, found, want = sb.Monitor({"joined": joined}), [], []
    for at in range(0, 90, 15):
        if at == 45:
            job.restart({"often": BOARD["often"], "joined": joined})
            seen = job.watermark
        batch = table.slice(at, 15)
        got = job.push({"": batch})
        kept = embedded(monitor, batch, {"often": joined})
        assert sorted_rows(got["often"]) == sorted_rows(kept["often"])
        found += got.get("joined", [])
        want += embedded(alone, batch, {"joined": joined})["joined"]
    wanted = [row for row in want if row["window_start"] >= seen]
    assert sorted_rows(found) == sorted_rows(wanted)
    assert len(found) > 5


def test_a_group_that_comes_late_is_not_a_query_that_joins() -> None:
    """All keys of a query exist from its first batch on, whatever groups have come."""
    query = sb.TopK(k=1, score="x", time="t", by=("g",), window=sb.TimeWindow(100, slide=10))
    table = pa.table({"t": [1_001, 1_002], "g": ["first", "second"], "x": [0.5, 0.25]})
    job = BoardJob({"best": query}, {"": table})
    job.push({"": table.slice(0, 1)})
    late = pa.table({"t": [1_003, 1_060], "g": ["third", "first"], "x": [0.75, 0.5]})
    answers = job.push({"": late})["best"]
    assert {row["g"] for row in answers} == {"first", "third"}


def test_times_and_odd_values_survive_the_way_through_text() -> None:
    kinds: dict[str, Any] = {
        "x": pa.array([1.5, float("nan"), float("-inf")]),
        "when": pa.array([1, -2, None], pa.timestamp("us", "Europe/Berlin")),
        "naive": pa.array([1, 2**53 + 1, None], pa.timestamp("us")),
        "day": pa.array([1, 2, None], pa.date32()),
        "price": pa.array(["1.10", "2.20", None]).cast(pa.decimal128(9, 2)),
        "octets": pa.array([b"\\x00\\xff", b"", None], pa.binary()),
        "big": pa.array([2**63 - 1, -(2**63), None]),
        "yes": pa.array([True, False, None]),
        "told": pa.array([[("a", 0.5)], [], None], pa.map_(pa.string(), pa.float64())),
    }
    edges = {name: pa.array([5, 6, 7], pa.int64()) for name in ("window_start", "window_end")}
    table = pa.table({**edges, "rank": pa.array([1, 2, 3], pa.int32()), **kinds})
    query = sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow(9))
    board = board_plan_of({"q": query}, {"": rows(1)})
    told = answer_rows(board, "q", table)
    assert told.column("rank").to_pylist() == [1, 2, 3]
    (batch,) = typed_rows(table.schema)(iter(told.to_batches()))
    back = pa.Table.from_batches([batch])
    assert back.schema == table.schema
    assert str(back.to_pylist()) == str(table.to_pylist())
