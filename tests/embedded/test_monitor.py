"""Pushing, sealing, errors that change nothing, snapshots, peeks."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb

TEN = sb.TimeWindow(10, slide=5)


def query(**changed: Any) -> sb.TopK:
    settings: dict[str, Any] = {"k": 2, "score": "x", "id": "id", "time": "t", "window": TEN}
    return sb.TopK(**(settings | changed))


def rows(*triples: tuple[int, str, float]) -> pa.Table:
    times, ids, scores = zip(*triples, strict=True) if triples else ((), (), ())
    return pa.table(
        {
            "t": pa.array(times, pa.int64()),
            "id": pa.array(ids, pa.string()),
            "x": pa.array(scores, pa.float64()),
        }
    )


def ids(answers: list[sb.Answer]) -> list[tuple[int, list[str]]]:
    return [(answer.end, answer.table["id"].to_pylist()) for answer in answers]


def test_a_window_is_answered_when_the_watermark_reaches_its_end() -> None:
    #  t        0    4  |     9  | 10
    #  ends             5        10     the row at 10 moves the watermark to 10: both are due
    monitor = sb.Monitor(query())
    assert monitor.push(rows((0, "a", 1.0), (4, "b", 2.0))) == []
    assert ids(monitor.push(rows((9, "c", 3.0)))) == [(5, ["b", "a"])]
    assert ids(monitor.push(rows((10, "d", 0.0)))) == [(10, ["c", "b"])]
    assert ids(monitor.flush()) == [(15, ["c", "d"])]
    assert monitor.flush() == []


def test_lateness_holds_the_watermark_back() -> None:
    monitor = sb.Monitor(query(window=sb.TimeWindow(10, slide=5, lateness=3)))
    assert monitor.push(rows((0, "a", 1.0), (7, "b", 2.0))) == []
    assert ids(monitor.push(rows((4, "late but not too late", 9.0), (8, "c", 0.0)))) == [
        (5, ["late but not too late", "a"])
    ]
    monitor.push(rows((4, "too late", 99.0)))
    assert monitor.stats()["rows_late"] == 1


def test_rows_of_one_push_are_judged_by_the_watermark_before_it() -> None:
    monitor = sb.Monitor(query())
    answers = monitor.push(rows((20, "a", 1.0), (1, "b", 2.0)))
    assert monitor.stats()["rows_late"] == 0
    assert ids(answers) == [(5, ["b"]), (10, ["b"]), (15, [])]


def test_silence_gives_one_empty_answer_with_the_leavers() -> None:
    monitor = sb.Monitor(query())
    monitor.push(rows((0, "a", 1.0)))
    answers = monitor.push(rows((1_000_000, "b", 1.0)))
    assert ids(answers) == [(5, ["a"]), (10, ["a"]), (15, [])]
    assert answers[-1].changes.to_pylist() == [
        {"change": "leave", "id": "a", "from_rank": 1, "to_rank": None}
    ]
    assert answers[-1].total == 0


def test_an_answer_knows_its_window_its_total_and_that_it_is_exact() -> None:
    at = pa.array([0, 3_000_000], pa.timestamp("us"))
    table = pa.table({"t": at, "id": ["a", "b"], "x": [1, 2]})
    window = sb.TimeWindow("4 seconds")
    (answer,) = list(sb.watch(table, query(k=1, window=window)))
    assert (answer.start.isoformat(), answer.end.isoformat()) == (
        "1970-01-01T00:00:00",
        "1970-01-01T00:00:04",
    )
    assert (answer.total, answer.exact, answer.bounds) == (2, True, {})
    assert answer.table.schema.names == ["window_start", "window_end", "rank", "id", "x", "t"]
    assert answer.table.schema.field("window_end").type == pa.timestamp("us")
    assert answer.table.schema.field("rank").type == pa.int32()


def test_changes_follow_ranks_by_id() -> None:
    monitor = sb.Monitor(query(window=sb.TimeWindow(5)))
    monitor.push(rows((0, "a", 2.0), (1, "b", 1.0), (5, "b", 4.0), (6, "c", 3.0)))
    last = monitor.flush()[-1].changes.to_pylist()
    assert last == [
        {"change": "move", "id": "b", "from_rank": 2, "to_rank": 1},
        {"change": "enter", "id": "c", "from_rank": None, "to_rank": 2},
        {"change": "leave", "id": "a", "from_rank": 1, "to_rank": None},
    ]


def test_an_error_changes_nothing() -> None:
    monitor = sb.Monitor(query())
    monitor.push(rows((0, "a", 1.0)))
    before, stats = monitor.snapshot(), monitor.stats()
    with pytest.raises(sb.DataError, match=r"'x', row 1: the score is not a number"):
        monitor.push(rows((99, "b", 5.0), (100, "c", float("nan"))))
    with pytest.raises(sb.SchemaError, match="'x' was present"):
        monitor.push(rows((99, "b", 5.0)).drop_columns(["x"]))
    assert monitor.snapshot() == before
    assert monitor.stats() == stats
    assert ids(monitor.push(rows((5, "d", 0.0)))) == [(5, ["a"])]


def test_skipped_rows_are_counted_and_move_the_watermark() -> None:
    monitor = sb.Monitor(query(), on_bad="skip")
    answers = monitor.push(rows((0, "a", 1.0), (1_000, "b", float("nan"))))
    assert ids(answers)[0] == (5, ["a"])
    assert ids(answers)[-1][1] == []  # the first empty window, which shows what left
    assert {n: monitor.stats()[n] for n in ("rows_in", "rows_bad")} == {"rows_in": 2, "rows_bad": 1}
    assert monitor.flush() == []


def test_a_snapshot_goes_on_in_another_process(tmp_path: Path) -> None:
    first, second = rows((0, "a", 1.0), (6, "b", 3.0)), rows((7, "c", 2.0), (12, "d", 9.0))
    whole = sb.Monitor(query())
    whole.push(first)
    (tmp_path / "state").write_bytes(whole.snapshot())
    pa.ipc.new_stream(str(tmp_path / "rows"), second.schema).write_table(second)
    code = """
import sys, pyarrow as pa, skyband as sb
folder = sys.argv[1]
monitor = sb.Monitor.restore(open(folder + "/state", "rb").read())
answers = monitor.push(pa.ipc.open_stream(folder + "/rows").read_all()) + monitor.flush()
print([(a.end, a.table["id"].to_pylist(), a.changes.to_pylist()) for a in answers])
print(monitor.stats()["rows_in"])
"""
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    answers = whole.push(second) + whole.flush()
    want = [(a.end, a.table["id"].to_pylist(), a.changes.to_pylist()) for a in answers]
    assert told.stdout.splitlines() == [str(want), "4"]


def test_a_snapshot_before_the_first_batch() -> None:
    monitor = sb.Monitor.restore(sb.Monitor(query()).snapshot())
    assert monitor.push(rows((0, "a", 1.0))) == []
    assert ids(monitor.flush()) == [(5, ["a"])]


@pytest.mark.parametrize("spoil", [lambda b: b[:-3], lambda b: b"x" + b[1:], lambda _: b""])
def test_a_spoilt_snapshot_is_refused(spoil: Any) -> None:
    monitor = sb.Monitor(query())
    monitor.push(rows((0, "a", 1.0)))
    with pytest.raises(sb.EngineError):
        sb.Monitor.restore(spoil(monitor.snapshot()))


def test_peek_reads_sealed_panes_and_shorter_windows() -> None:
    monitor = sb.Monitor(query(k=1, window=sb.TimeWindow(20, slide=5)))
    monitor.push(rows((0, "a", 9.0), (6, "b", 7.0), (11, "c", 5.0), (16, "open", 99.0)))
    assert monitor.peek().table["id"].to_pylist() == ["a"]
    assert (monitor.peek().start, monitor.peek().end) == (-5, 15)
    assert monitor.peek(last=10).table["id"].to_pylist() == ["b"]
    assert monitor.peek(last=5).table["id"].to_pylist() == ["c"]
    with pytest.raises(sb.QueryError, match="at most the window's size"):
        monitor.peek(last=25)
    with pytest.raises(sb.EngineError, match="there is no answer yet"):
        sb.Monitor(query()).peek()


def test_peek_of_count_windows_by_group() -> None:
    window = sb.CountWindow(4, slide=2)
    monitor = sb.Monitor(sb.TopK(k=1, score="x", id="id", by=("g",), window=window))
    table = pa.table({"g": list("aabaab"), "id": range(6), "x": [5, 1, 3, 2, 4, 0]})
    monitor.push(table)
    seen = monitor.peek().table.select(["g", "id", "x"]).to_pylist()
    assert seen == [{"g": "a", "id": 0, "x": 5}, {"g": "b", "id": 2, "x": 3}]


def test_groups_without_live_rows_are_forgotten() -> None:
    monitor = sb.Monitor(sb.TopK(k=1, score="x", time="t", by=("g",), window=sb.TimeWindow(10)))
    sizes = []
    for step in range(30):
        n = 2_000
        batch = {"t": [step * 10] * n, "g": range(step * n, step * n + n), "x": range(n)}
        answers = monitor.push(pa.table(batch))
        assert all(answer.table.num_rows == n for answer in answers)
        sizes.append(monitor.stats()["state_bytes"])
    assert max(sizes[10:]) <= 1.5 * max(sizes[:10])


def test_an_idle_source_stops_holding_the_others_back() -> None:
    fused = sb.FusedTopK(
        k=1, id="id", value="x", streams=("n", "s"), time="t", window=sb.TimeWindow(10)
    )
    monitor = sb.Monitor(fused, idle="50 ms")
    report = rows((0, "a", 0.5), (25, "b", 0.5))
    assert monitor.push({"n": report}) == []
    time.sleep(0.1)
    assert [a.end for a in monitor.push({"n": rows((26, "c", 0.5))})] == [10, 20]


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: sb.Monitor("topk"), "takes a query"),  # type: ignore[arg-type]
        (lambda: sb.Monitor(query(), on_bad="ignore"), "on_bad"),  # type: ignore[arg-type]
        (lambda: sb.Monitor(query(), idle=-1), "idle"),
        (lambda: sb.Monitor(query(options={"speed": 11})), "no option"),
    ],
)
def test_monitors_that_make_no_sense(made: Any, told: str) -> None:
    with pytest.raises(sb.QueryError, match=told):
        made()


def test_a_mapping_is_refused_where_there_is_one_source() -> None:
    with pytest.raises(sb.SchemaError, match="one source"):
        sb.Monitor(query()).push({"a": rows()})


def test_a_monitor_shows_what_it_answers_and_how_far_it_is() -> None:
    query = sb.TopK(k=1, score="x", window=sb.CountWindow(2))
    alone, board = sb.Monitor(query), sb.Monitor({"best": query, "again": query})
    assert repr(alone) == "<Monitor of TopK: 0 rows in, 0 windows out>"
    for monitor in (alone, board):
        monitor.push(pa.table({"x": [1, 2, 3]}))
    assert repr(alone) == "<Monitor of TopK: 3 rows in, 1 windows out>"
    assert repr(board) == "<Monitor of best (TopK), again (TopK): 3 rows in, 2 windows out>"
