"""Clocks, against the definition of which windows are due."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.contract.runs import Runs
from skyband.data.group_table import GroupTable
from skyband.engine.clock import ArrivalClock, TimeClock, windows_due
from skyband.engine.placement import NEVER, ReadBatch
from skyband.panes import Panes

pytestmark = pytest.mark.nojit

SIZES = st.integers(1, 12)


def sealed_panes(*panes: int) -> Runs:
    return Runs(np.array(panes, np.int64), np.zeros(len(panes), np.int32), {})


NOBODY = GroupTable([], pa.schema([]))


def seen(source: str, greatest: int) -> ReadBatch:
    none = pa.RecordBatch.from_pydict({"t": pa.array([], pa.int64())})
    return ReadBatch(source, none, None, 1, None, greatest, in_order=True)


@given(
    SIZES,
    SIZES,
    st.integers(0, 5),
    st.lists(st.tuples(st.integers(0, 15), st.booleans()), min_size=1, max_size=12),
)
def test_windows_are_due_once(
    size: int, slide: int, offset: int, steps: list[tuple[int, bool]]
) -> None:
    """The watermark moves in steps; some of them seal a pane with rows."""
    panes = Panes(size, slide, offset % slide)
    clock = TimeClock(panes, 0, ["a"])
    assert clock.sealed == NEVER
    watermark = -20
    filled: list[int] = []
    due: list[int] = []
    for ahead, rows in steps:
        low = clock.sealed if clock.watermark is not None else int(panes.pane_of(watermark))
        watermark += ahead
        sealed = int(panes.pane_of(watermark))
        fresh = [low] if rows and low < sealed and panes.used(np.array([low]))[0] else []
        filled += fresh
        (now,) = clock.advance(watermark, sealed_panes(*fresh), NOBODY)
        due += now.number.tolist()
        assert clock.sealed == sealed
        upto = panes.last_window_ending_by(watermark)
        full = {w for w in range(-60, upto + 1) if covers(panes, w, filled)}
        empty = {w + 1 for w in full} - full
        assert due == sorted(w for w in full | empty if w <= upto)
        later = {p for p in filled if panes.last_window_of(p) >= upto}
        assert later <= set(clock.filled.tolist())
        if clock.answered is not None:
            assert set(clock.filled.tolist()) == later
        again = TimeClock(panes, 0, [])
        again.restore(clock.state())
        assert again.state() == clock.state()
        clock = again


def covers(panes: Panes, window: int, filled: list[int]) -> bool:
    return any(panes.first_pane(window) <= pane < panes.end_pane(window) for pane in filled)


def test_windows_due_begin_after_those_answered() -> None:
    panes = Panes(4, 1)  # the windows of pane p are p + 1 to p + 4
    filled = np.array([0, 1, 9])
    assert windows_due(panes, filled, 2, 30).tolist() == [3, 4, 5, 6, 10, 11, 12, 13, 14]
    assert windows_due(panes, filled, 5, 12).tolist() == [6, 10, 11, 12]
    assert windows_due(panes, filled, 6, 12).tolist() == [10, 11, 12]
    assert windows_due(panes, filled[:0], 6, 12).tolist() == []


def test_the_slowest_source_holds_the_watermark() -> None:
    clock = TimeClock(Panes(10, 5), 3, ["a", "b"])
    assert (clock.target(), clock.greatest, clock.final()) == (None, None, None)
    clock.place(seen("a", 20), None, NOBODY)
    assert (clock.target(), clock.greatest) == (None, 20)
    clock.place(seen("b", 12), None, NOBODY)
    clock.place(seen("a", 15), None, NOBODY)
    assert (clock.target(), clock.greatest) == (9, 20)
    clock.ignored.add("b")
    assert clock.target() == 17
    clock.ignored.add("a")
    assert clock.target() == 17  # with nobody to wait for, the greatest time counts
    clock.advance(19, None, NOBODY)
    assert clock.target() == 19


def test_the_last_watermark_is_the_end_after_the_last_row() -> None:
    clock = TimeClock(Panes(10, 5), 3, ["a"])
    clock.place(seen("a", 20), None, NOBODY)
    assert clock.final() == 25
    clock.advance(30, None, NOBODY)
    assert clock.final() == 30
    unseen = TimeClock(Panes(10, 5), 3, ["a"])
    unseen.watermark = 4
    assert (unseen.final(), unseen.target()) == (4, 4)


def test_a_copy_goes_its_own_way() -> None:
    clock = TimeClock(Panes(10, 5), 3, ["a", "b"])
    other = clock.copied()
    other.place(seen("a", 4), None, NOBODY)
    other.ignored.add("b")
    assert clock.seen == {"a": None, "b": None}
    assert clock.ignored == set()


def test_readers_of_different_sizes_have_their_own_empty_windows() -> None:
    long, short = Panes(6, 2), Panes(2, 2)
    clock = TimeClock(long, 0, ["a"], readers=[long, short])
    due = clock.advance(20, sealed_panes(1), NOBODY)
    assert [each.number.tolist() for each in due] == [[2, 3, 4, 5], [2, 3]]
    clock.keep_readers([1])
    assert [each.number.tolist() for each in clock.advance(22, None, NOBODY)] == [[]]


def test_arrivals_of_each_group() -> None:
    clock = ArrivalClock(Panes(6, 3), grouped=True, readers=[Panes(6, 3)] * 2)
    groups = GroupTable(["g"], pa.schema([("g", pa.string())]))

    def arrive(*names: str) -> list[tuple[int, str]]:
        batch = pa.RecordBatch.from_pydict({"g": list(names)})
        clock.place(
            ReadBatch("", batch, None, len(names), None, None, in_order=False), None, groups
        )
        assert clock.passes(clock.target(), 0)
        first, second = clock.advance(clock.target(), None, groups)
        assert first.group is not None
        assert second.group is not None
        assert first.number.tolist() == second.number.tolist()
        assert first.group.tolist() == second.group.tolist()
        keys = groups.gather(first.group)[0].to_pylist()
        return list(zip(first.number.tolist(), keys, strict=True))

    assert arrive("a", "a", "b") == []
    assert arrive("b", "b", "b", "b") == [(1, "b")]
    assert arrive("c", "b", "a", "a", "a", "a") == [(1, "a"), (2, "a"), (2, "b")]
    assert not clock.passes(clock.target(), 0)
    assert clock.counts[:3].tolist() == [6, 6, 1]
