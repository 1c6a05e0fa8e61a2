"""No row is dropped silently: what was left out is warned of, counted and shown."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from support.command_line import run

WINDOW = sb.TimeWindow(10, slide=5)
LATE = [3, 20, 21, 1, 2]
BAD_SCORE = "column 'x', row 2: the score is null (None)"


def topk(**changed: Any) -> sb.TopK:
    given: dict[str, Any] = {"k": 1, "score": "x", "id": "id", "time": "t", "window": WINDOW}
    return sb.TopK(**(given | changed))


def rows(times: list[Any], scores: list[Any] | None = None) -> pa.Table:
    scores = [1] * len(times) if scores is None else scores
    return pa.table({"t": times, "id": ["a"] * len(times), "x": pa.array(scores, pa.int64())})


def one_by_one(times: list[int]) -> list[pa.Table]:
    return [rows([time]) for time in times]


def told(table: pa.Table) -> Any:
    return json.loads(table.schema.metadata[b"skyband"])


def test_rank_warns_once_with_counts_and_the_first_reason() -> None:
    # Sorted by time, the bad rows are the first and the last; the reason has the table's own row.
    table = rows([9, 5, 1, 20], [4, 3, None, None])
    with pytest.warns(sb.SkybandWarning) as caught:
        found = sb.rank(table, topk(), on_bad="skip")
    (warning,) = caught
    reason = f"{BAD_SCORE} (and 1 more like it)"
    assert str(warning.message) == f"2 bad rows left out; the first: {reason}"
    assert warning.filename == __file__
    assert told(found) == {
        "rows_in": 4,
        "rows_late": 0,
        "rows_bad": 2,
        "rows_unused": 0,
        "reason": reason,
    }


def test_rank_of_an_iterable_says_which_lateness_late_rows_need() -> None:
    with pytest.warns(sb.SkybandWarning, match=r"^2 late rows left out; .*lateness=20") as caught:
        found = sb.rank(one_by_one(LATE), topk(), on_bad="skip")
    assert len(caught) == 1
    assert told(found)["rows_late"] == 2
    kept = topk(window=sb.TimeWindow(10, slide=5, lateness=20))
    assert sb.rank(one_by_one(LATE), kept).schema.metadata is None


def test_a_board_warns_once_and_names_its_queries() -> None:
    board = {
        "least": topk(largest=False),
        "items": sb.HeavyHitters(k=1, item="id", time="t", window=WINDOW),
    }
    table = rows([1, 2, 3], [1, 2, None])
    with pytest.warns(sb.SkybandWarning) as caught:
        found = sb.rank(table, board, on_bad="skip")
    (warning,) = caught
    assert str(warning.message) == f"least: 1 bad row left out; the first: {BAD_SCORE}"
    assert told(found["least"])["rows_bad"] == 1
    assert found["items"].schema.metadata is None


def test_files_that_had_to_be_sorted_say_only_what_is_left_out_in_the_end(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,id,x\n1,a,1\n30,a,1\n2,a,1\n,a,5\n")
    with pytest.warns(sb.SkybandWarning, match="^1 bad row left out; the first: column 't'"):
        found = sb.rank(tmp_path / "a.csv", topk(), on_bad="skip")
    assert told(found)["rows_late"] == 0


def test_nothing_is_said_where_nothing_was_left_out() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = sb.rank(rows([1, 2]), topk(), on_bad="skip")
        assert table.schema.metadata is None
        gaps = sb.rank(rows([1, 6, 11]), topk(window=sb.TimeWindow(5, slide=10)))
    assert told(gaps)["rows_unused"] == 2  # no window has them, as the query says: no warning


def test_watch_knows_what_it_left_out_so_far() -> None:
    found = sb.watch(one_by_one(LATE), topk(), on_bad="skip")
    assert found.stats()["rows_in"] == 0
    first = next(found)
    assert (first.end, found.stats()["rows_late"]) == (5, 0)
    assert [answer.end for answer in found] == [10, 15, 25]
    stats = found.stats()
    assert (stats["rows_in"], stats["rows_late"], stats["windows_out"]) == (5, 2, 4)
    board = sb.watch([rows([1], [None])], {"one": topk()}, on_bad="skip")
    assert list(board) == []
    assert board.stats()["one"]["rows_bad"] == 1


def test_the_repr_of_a_monitor_says_what_was_left_out() -> None:
    monitor = sb.Monitor(topk())
    monitor.push(rows([1, 20]))
    assert repr(monitor) == "<Monitor of TopK: 2 rows in, 3 windows out>"
    monitor.push(rows([2, 3]))
    assert repr(monitor).endswith("4 rows in, 3 windows out; 2 late rows left out>")
    monitor.flush()
    monitor.push(rows([21]))  # its pane was sealed by the flush
    assert "; 3 late rows left out>" in repr(monitor)
    board = sb.Monitor({"gaps": topk(window=sb.TimeWindow(5, slide=10)), "all": topk()}, "skip")
    board.push(rows([1, 6], [5, None]))
    assert repr(board).endswith(
        "; gaps: 1 bad row left out; 1 row in no window left out; all: 1 bad row left out>"
    )


def test_the_command_line_says_the_same(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(rows([1, 2, 3], [1, 2, None]), file)
    words = ["topk", file, "--k", 1, "--score", "x", "--id", "id", "--time", "t", "--window", 2]
    result = run(*words, "--slide", 4, "--on-bad", "skip", "--format", "json")
    assert result.exit_code == 0
    line = f"1 bad row left out; 1 row in no window left out; the first: {BAD_SCORE}"
    assert line in result.stderr
