"""``Monitor(late=...)``: late rows are counted, refused, or handed over whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb

FAST = sb.TopK(k=1, score="x", time="t", where={"g": ["a", "b"]}, window=sb.TimeWindow(10))
SLOW = sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow(20, slide=5, lateness=15))


def rows(*many: tuple[int | None, float, str]) -> pa.Table:
    columns = [list(column) for column in zip(*many, strict=True)]
    return pa.table({"t": pa.array(columns[0], pa.int64()), "x": columns[1], "g": columns[2]})


FIRST = rows((3, 1.0, "a"), (25, 2.0, "a"))
MIXED = rows(
    (26, 1.0, "a"), (None, 2.0, "a"), (4, float("nan"), "a"), (19, 4.0, "c"),
    (24, 5.0, "b"), (4, 6.0, "b"),
)  # fmt: skip


def test_a_function_gets_the_late_rows_of_a_push_whole() -> None:
    late: list[pa.Table] = []
    monitor = sb.Monitor(FAST, on_bad="skip", late=late.append)
    monitor.push(FIRST.append_column("note", pa.array(["p", "q"])))
    assert late == []
    many = 1 << 16  # a chunk of its own: row numbers are those of the whole table
    filler = pa.table({"t": np.full(many, 25), "x": np.zeros(many), "g": ["a"] * many})
    notes = pa.array([str(i - many) for i in range(many + 6)])
    monitor.push(pa.concat_tables([filler, MIXED]).append_column("note", notes))
    (table,) = late  # bad rows, and rows that do not count, are not late
    assert table.to_pylist() == [{"t": 4, "x": 6.0, "g": "b", "note": "5"}]
    assert monitor.stats()["rows_late"] == 1


def test_a_board_hands_over_each_late_row_once_with_its_reasons() -> None:
    handed: list[pa.Table] = []
    monitor = sb.Monitor({"fast": FAST, "slow": SLOW}, on_bad="skip", late=handed.append)
    monitor.push(FIRST)
    monitor.push(MIXED)
    assert [table["t"].to_pylist() for table in handed] == [[4]]

    told: list[tuple[int, list[int], list[str]]] = []

    def note(table: pa.Table, late: Any) -> None:
        told.extend((table.num_rows, each.numbers.tolist(), each.reasons) for each in late)

    monitor = sb.Monitor({"fast": FAST, "slow": SLOW}, on_bad="skip")
    monitor.board.tell_late(note)
    monitor.push(FIRST)
    monitor.push(MIXED)
    assert told == [
        (6, [5], ["late by 21 for query fast"]),
        (6, [5], ["late by 6 for query slow"]),
    ]


def test_times_behind_are_told_in_words() -> None:
    second = 1_000_000
    table = pa.table({"t": pa.array([0, 200 * second], pa.timestamp("us")), "x": [1.0, 2.0]})
    monitor = sb.Monitor(sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow("10 s")))
    reasons: list[str] = []
    monitor.board.tell_late(lambda _, late: reasons.extend(late[0].reasons))
    monitor.push(table)
    monitor.push(table.slice(0, 1))
    assert reasons == ["late by 200 seconds"]


@pytest.mark.parametrize("on_bad", ["raise", "skip"])
def test_a_push_with_a_late_row_fails_as_a_whole(on_bad: Any) -> None:
    monitor = sb.Monitor(FAST, on_bad=on_bad, late="raise")
    monitor.push(FIRST)
    for again in (monitor, sb.Monitor.restore(monitor.snapshot())):
        before = again.stats()
        with pytest.raises(sb.DataError, match=r"1 row came too late.*lateness=21 "):
            again.push(rows((26, 9.0, "a"), (4, 6.0, "b")))
        assert again.stats() == before
        (answer,) = again.push(rows((30, 0.0, "a")))
        assert answer.table["x"].to_pylist() == [2.0]
    patient = sb.Monitor.restore(monitor.snapshot(), late="count")
    patient.push(rows((4, 6.0, "b")))
    assert patient.stats()["rows_late"] == 1


def test_a_function_that_fails_undoes_the_push() -> None:
    def fail(table: pa.Table) -> None:
        raise OSError("the disk is full")

    monitor = sb.Monitor({"fast": FAST, "slow": SLOW}, late=fail)
    monitor.push(FIRST)
    before = monitor.stats()
    with pytest.raises(OSError, match="disk"):
        monitor.push(rows((4, 6.0, "b"), (60, 1.0, "a")))
    assert monitor.stats() == before
    assert monitor.push(rows((60, 1.0, "a")))[0].table["x"].to_pylist() == [2.0]


def test_late_is_checked() -> None:
    with pytest.raises(sb.QueryError, match="late"):
        sb.Monitor(FAST, late="drop")  # type: ignore[arg-type]
