"""Durations and the arithmetic of panes, with drawings where they help."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband.engine.clock import windows_due
from skyband.panes import ArrivalPanes, Panes
from skyband.window import parse_duration

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10 minutes", 600),
        ("1 minute", 60),
        ("90 s", 90),
        ("90s", 90),
        ("250 ms", 0.25),
        ("1 hour 30 minutes", 5400),
        ("INTERVAL 2 DAYS", 172_800),
        ("interval '5' minute", 300),
        ("1.5 seconds", 1.5),
        ("1 week", 604_800),
        ("3 milliseconds 5 microseconds", 0.003005),
        (timedelta(minutes=2), 120),
    ],
)
def test_durations_as_spark_users_write_them(text: str | timedelta, seconds: float) -> None:
    assert parse_duration(text) == round(seconds * SECOND)


@pytest.mark.parametrize(
    "minutes",
    [np.timedelta64(2, "m"), np.timedelta64(120 * 10**9, "ns"), pd.Timedelta("2min")],
)
def test_durations_of_numpy_and_pandas(minutes: Any) -> None:
    window = sb.TimeWindow(minutes, slide=minutes, lateness=minutes, offset=minutes)
    assert window.panes == sb.TimeWindow("2 minutes", offset="2 minutes").panes
    assert window.lateness_ticks == 120 * SECOND
    query = sb.TopK(k=1, score="x", time="t", window=window)
    same = sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow(*4 * (timedelta(minutes=2),)))
    assert query.fingerprint == same.fingerprint
    assert sb.DecayWindow(minutes, slide=minutes).panes.half_life == 120 * SECOND
    monitor = sb.Monitor(query, idle=minutes)
    assert monitor.session.idle == 120
    monitor.push(pa.table({"t": pa.array([0], pa.timestamp("s")), "x": [1]}))
    monitor.flush()
    assert monitor.peek(last=minutes).table.num_rows == 1


@pytest.mark.parametrize(
    "given",
    [
        np.timedelta64(1, "M"),
        np.timedelta64(5),
        np.timedelta64("NaT"),
        pd.NaT,
        np.timedelta64(1500, "ns"),
        pd.Timedelta(1500, "ns"),
    ],
)
def test_durations_of_numpy_and_pandas_without_a_length_in_microseconds(given: Any) -> None:
    with pytest.raises(sb.QueryError, match=r"fixed length|whole number|must be a string"):
        sb.TimeWindow(given)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1 month", "months and years"),
        ("2 years", "months and years"),
        ("soon", "not understood"),
        ("", "empty"),
        ("5 parsecs", "unknown unit"),
        ("10", "not understood"),
        ("100 ns", "microsecond"),
        ("0.5 us", "whole number"),
    ],
)
def test_durations_that_make_no_sense(text: str, told: str) -> None:
    with pytest.raises(sb.QueryError, match=told):
        parse_duration(text)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"size": "0 s"}, "positive"),
        ({"size": "0 s", "slide": "1 s"}, "size must be positive"),
        ({"size": 10, "slide": 0}, "slide must be positive"),
        ({"size": "10 s", "slide": "-1 s"}, "positive"),
        ({"size": "10 s", "lateness": "-1 s"}, "lateness"),
        ({"size": "10 s", "slide": 5}, "all durations or all integers"),
        ({"size": 10.5}, "string"),
        ({"size": True}, "string"),
    ],
)
def test_time_windows_that_make_no_sense(arguments: dict[str, object], told: str) -> None:
    with pytest.raises(sb.QueryError, match=told):
        sb.TimeWindow(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(("size", "slide"), [(0, 1), (10, 0), (10, -2), ("10 s", 1), (2.5, 1)])
def test_count_windows_that_make_no_sense(size: object, slide: object) -> None:
    with pytest.raises(sb.QueryError):
        sb.CountWindow(size, slide)  # type: ignore[arg-type]


def test_two_panes_a_slide() -> None:
    #  size 10, slide 4: 10 mod 4 = 2
    #
    #  ends         4         8         12        16
    #  panes   ├ 0 ┼ 1 ┼ 2 ┼ 3 ┼ 4 ┼ 5 ┼ 6 ┼ 7 ┤
    #          0   2   4   6   8   10  12  14  16
    #                      ├────── [6, 16) ──────┤
    panes = Panes(10, 4)
    assert panes.per_window == 5
    assert [int(p) for p in panes.pane_of(np.arange(17))] == [i // 2 for i in range(17)]
    assert panes.end_of(4) == 16
    assert (panes.first_pane(4), panes.end_pane(4)) == (3, 8)


def test_slide_longer_than_size_leaves_gaps() -> None:
    #  size 2, slide 5: windows [3, 5), [8, 10); times in between belong to no window
    #
    #  panes   ├─── 0 ───┼ 1 ┼─── 2 ───┼ 3 ┤
    #          0         3   5         8   10
    panes = Panes(2, 5)
    assert panes.gaps
    assert panes.pane_of(np.arange(10)).tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]
    assert panes.used(np.arange(4)).tolist() == [False, True, False, True]


sizes = st.integers(1, 40)


@given(sizes, sizes, st.integers(-50, 50), st.integers(-300, 300))
def test_a_window_covers_its_panes_and_no_other(
    size: int, slide: int, offset: int, position: int
) -> None:
    panes = Panes(size, slide, offset % slide)
    pane = int(panes.pane_of(position))
    assert panes.pane_start(pane) <= position < panes.pane_end(pane)
    assert panes.pane_end(pane) == panes.pane_start(pane + 1)
    assert panes.used(np.array([pane])).tolist() == [
        any(
            end - size <= position < end
            for end in range(offset - 400, offset + 400)
            if (end - offset) % slide == 0
        )
    ]
    for window in range(int(panes.first_window_of(pane)) - 3, int(panes.last_window_of(pane)) + 4):
        end = panes.end_of(window)
        inside = end - size <= position < end
        assert inside == (panes.first_pane(window) <= pane < panes.end_pane(window))
        known = panes.first_window_of(pane) <= window <= panes.last_window_of(pane)
        assert inside == known
    assert panes.last_window_ending_by(int(panes.end_of(7))) == 7


@given(sizes, sizes, st.sets(st.integers(-60, 60), max_size=6), st.integers(0, 200))
def test_windows_due_are_those_with_rows_and_the_first_empty_one(
    size: int, slide: int, places: set[int], until: int
) -> None:
    panes = Panes(size, slide)
    filled = np.array(sorted({int(panes.pane_of(p)) for p in places}), np.int64)
    upto = panes.last_window_ending_by(until)
    low = panes.last_window_ending_by(-200)
    full = {
        w
        for w in range(low, upto + 1)
        if any(panes.first_pane(w) <= pane < panes.end_pane(w) for pane in filled)
    }
    first_empty = {w + 1 for w in full} - full
    want = sorted(w for w in full | first_empty if w <= upto)
    assert windows_due(panes, filled, low - 1, upto).tolist() == want


def test_the_times_whose_windows_have_valid_edges() -> None:
    window = sb.TimeWindow(10, 4, lateness=3)
    margin = 10 + 2 * 4 + 3
    assert window.reach == (-(1 << 63) + margin, (1 << 63) - 1 - margin)
    minute = 60 * SECOND
    low, high = sb.TimeWindow("10 minutes", "4 minutes", "3 minutes").reach
    day = 24 * 60 * minute
    # The first and the last microsecond of Python's calendar, less a day for time zones.
    assert low == -62_135_596_800 * SECOND + day + margin * minute
    assert high == 253_402_300_800 * SECOND - 1 - day - margin * minute


def test_the_largest_windows() -> None:
    most = 1 << 60
    assert sb.TimeWindow(most, most, lateness=most).panes == Panes(most, most)
    assert sb.CountWindow(most).panes == ArrivalPanes(most, most)
    for size, slide, lateness in ((most + 1, 1, 0), (1, most + 1, 0), (1, 1, most + 1)):
        with pytest.raises(sb.QueryError, match="at most"):
            sb.TimeWindow(size, slide, lateness)
    with pytest.raises(sb.QueryError, match="at most"):
        sb.CountWindow(most + 1)


def test_the_smallest_windows() -> None:
    assert sb.TimeWindow(1).panes == Panes(1, 1)
    assert sb.CountWindow(1).panes == ArrivalPanes(1, 1)
    assert sb.CountWindow(1, 1).ticks(3, "last") == 3
    with pytest.raises(sb.QueryError, match="number of rows"):
        sb.CountWindow(1).ticks("3 s", "last")


def test_zero_needs_no_unit_and_one_does() -> None:
    assert sb.TimeWindow("10 s", lateness=0, offset=0).lateness_ticks == 0
    assert sb.TimeWindow("10 s", offset="13 s").panes.offset == 3 * SECOND
    assert not sb.TimeWindow("10 s").integer
    assert sb.TimeWindow(np.int64(10), lateness=4).lateness_ticks == 4  # type: ignore[arg-type]
    for extra in ({"lateness": 1}, {"offset": 1}, {"lateness": False}):
        with pytest.raises(sb.QueryError):
            sb.TimeWindow("10 s", **extra)


def test_other_durations_in_the_ticks_of_a_window() -> None:
    assert sb.TimeWindow("10 s").ticks("1 s", "last") == SECOND
    assert sb.TimeWindow(10).ticks(7, "last") == 7
    with pytest.raises(sb.QueryError, match="integer"):
        sb.TimeWindow(10).ticks("1 s", "last")
    assert parse_duration(timedelta(days=1, microseconds=3)) == 86_400 * SECOND + 3


@pytest.mark.parametrize(
    ("slide", "since"), [(5, "2026-01-01"), (5, 2.5), ("1 minute", 5), ("1 minute", 0)]
)
def test_a_landmark_is_an_integer_where_slide_is_one(slide: Any, since: Any) -> None:
    with pytest.raises(sb.QueryError, match="since must be a time"):
        sb.LandmarkWindow(slide=slide, since=since)


def test_a_landmark_keeps_its_moment() -> None:
    assert sb.LandmarkWindow(slide=5, since=7).since == 7
    moment = datetime(2026, 1, 1, 12, tzinfo=UTC)
    for since in ("2026-01-01 12:00", "2026-01-01T13:00:00+01:00", moment):
        assert sb.LandmarkWindow(slide="1 minute", since=since).since == moment
