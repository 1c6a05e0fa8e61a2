"""A fold that starts from a clock and from panes answers as one that took all of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.contract.runs import Runs
from skyband.data.group_table import GroupTable
from skyband.engine.clock import TimeClock
from skyband.engine.fold import Fold
from skyband.engine.intake import Intake, refuse
from skyband.engine.per_group import make_synopsis

pytestmark = pytest.mark.nojit

ROWS = pa.table({"ts": list(range(30)), "x": [7 * i % 11 for i in range(30)]})
QUERY = sb.TopK(k=2, score="x", time="ts", window=sb.TimeWindow(6, slide=2), algorithm="skyband")


def panes_of(query: sb.Query) -> list[Runs]:
    """A summary of each pane of two rows."""
    reader = make_synopsis(query)
    intake = Intake(query, reader)
    found = []
    for start in range(0, ROWS.num_rows, 2):
        read = intake.take("", ROWS.slice(start, 2))
        clock = TimeClock(query.window.panes, 0, ("",))
        placed = clock.place(read, reader.axes[""], GroupTable((), ROWS.schema))
        assert placed.rows is not None
        found.append(reader.summarise(placed.rows))
    return found


def new_fold(query: sb.Query) -> Fold:
    synopsis = make_synopsis(query)
    synopsis.bind("", ROWS.schema)
    return Fold([query], synopsis, GroupTable((), ROWS.schema), refuse, ("",))


def answers(fold: Fold, watermark: int) -> list[tuple[int, list[Any], int]]:
    step = fold.begin(watermark)
    (found,) = [None] if step is None else fold.answered(step, fold.finished(step))
    views = [] if found is None else found.views()
    return [(int(a.end), a.table["x"].to_pylist(), int(a.total)) for a in views]


@pytest.mark.parametrize("watermark", [1, 2, 7, 8, 9, 20])
def test_answers_go_on(watermark: int) -> None:
    panes = panes_of(QUERY)
    whole, resumed = new_fold(QUERY), new_fold(QUERY)
    for pane in panes:
        whole.take(pane)
    answers(whole, watermark)
    none = panes[0].slice(0, 0)
    live = [pane for pane in panes if pane.stamp[0] >= (watermark - 6) // 2]
    resumed.resume(whole.clock.state(), [none, *live])
    assert resumed.clock.sealed == watermark // 2
    want = answers(whole, 30)
    assert next(end for end, _, _ in want) == watermark // 2 * 2 + 2
    assert answers(resumed, 30) == want


def test_without_a_clock_every_pane_is_open() -> None:
    whole, resumed = new_fold(QUERY), new_fold(QUERY)
    for pane in panes_of(QUERY):
        whole.take(pane)
    resumed.resume(None, panes_of(QUERY))
    assert answers(resumed, 30) == answers(whole, 30)


def test_a_part_of_the_answers_is_made_of_all_panes() -> None:
    whole, part = new_fold(QUERY), new_fold(QUERY)
    for pane in panes_of(QUERY):
        whole.take(pane)
        part.take(pane)
    for watermark in (4, 12, 30):
        step = part.begin(watermark)
        assert step is not None
        (partial,) = part.folded(step)
        assert partial is not None
        views = part.answer(0, [partial], step.windows[0]).views()
        got = [(int(a.end), a.table["x"].to_pylist(), int(a.total)) for a in views]
        assert got == answers(whole, watermark)
