"""The fold: rows that are refused when their pane is sealed, and what a step says about them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.data.group_table import GroupTable
from skyband.engine.clock import TimeClock
from skyband.engine.fold import Fold
from skyband.engine.intake import Intake
from skyband.engine.per_group import make_synopsis

pytestmark = pytest.mark.nojit

FUSED = sb.FusedTopK(
    k=2, id="o", stream="s", value="v", streams=("a", "b"), bounds=(0, 9), time="t",
    window=sb.TimeWindow(10, slide=5, lateness=6),
)  # fmt: skip


def reports(*rows: tuple[int, str, str, float]) -> pa.Table:
    times, objects, streams, values = zip(*rows, strict=True)
    return pa.table({"t": times, "o": objects, "s": streams, "v": values})


FIRST = reports((1, "x", "a", 5.0), (2, "y", "a", 4.0))
AGAIN = reports((3, "x", "a", 5.0), (3, "x", "b", 1.0), (7, "z", "a", 8.0), (9, "z", "b", 8.0))
"""In the same pane as before ``x`` reports a second time; then come panes of this batch alone."""
LATER = reports((40, "w", "a", 1.0))


def test_a_report_too_many_is_refused_if_it_came_in_another_batch() -> None:
    monitor = sb.Monitor(FUSED)
    assert not monitor.push(FIRST)
    assert not monitor.push(AGAIN)
    with pytest.raises(sb.DataError, match="x"):
        monitor.push(LATER)


def test_the_first_of_two_reports_counts() -> None:
    monitor = sb.Monitor(FUSED, on_bad="skip")
    answers = [a for batch in (FIRST, AGAIN, LATER) for a in monitor.push(batch)]
    assert monitor.stats()["rows_bad"] == 1
    scores = [dict(zip(*answer.table.select(["o", "score"]), strict=True)) for answer in answers]
    plain = [{str(o): s.as_py() for o, s in each.items()} for each in scores]
    assert plain == [{"x": 6.0, "y": 4.0}, {"z": 16.0, "x": 6.0}, {"z": 16.0}, {}]


def test_windows_are_counted() -> None:
    query = sb.TopK(k=1, score="v", time="t", window=sb.TimeWindow(10, slide=5))
    monitor = sb.Monitor(query)
    assert monitor.push(FIRST) == []
    assert monitor.stats()["windows_out"] == 0
    count = 0
    for batch in (AGAIN, LATER):
        count += len(monitor.push(batch))
        assert monitor.stats()["windows_out"] == count
        monitor = sb.Monitor.restore(monitor.snapshot())
    count += len(monitor.flush())
    assert monitor.stats()["windows_out"] == count == 5


def test_a_step_holds_what_is_left_only_if_rows_were_refused() -> None:
    reader = make_synopsis(FUSED)
    intake = Intake(FUSED, reader)
    found: list[Any] = []
    fold: Fold | None = None
    for batch in (FIRST, AGAIN, LATER):
        read = intake.take("", batch)
        clock = TimeClock(FUSED.window.panes, 0, ("",))
        placed = clock.place(read, reader.axes[""], GroupTable((), batch.schema))
        assert placed.rows is not None
        runs = reader.summarise(placed.rows)
        if fold is None:
            groups = GroupTable((), batch.schema)
            fold = Fold([FUSED], reader, groups, found.append, ("",))
        fold.take(runs)
    assert fold is not None
    assert fold.begin(2) is None, "no pane ends by 2"
    first = fold.begin(5)
    assert first is not None
    assert len(found) == 1
    assert first.faults is found[0]
    assert first.mended is first.sealed
    second = fold.begin(10)
    assert second is not None
    assert second.sealed is not None
    assert (second.mended, second.faults, len(found)) == (None, None, 1)
    third = fold.begin(20)
    assert third is not None
    assert third.mended is None, "nothing was sealed, so nothing was refused"
