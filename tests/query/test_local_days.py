"""``TimeWindow(zone=...)``: days of people, across changes of the clock."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import skyband as sb
from oracle.days import DayWindow, day_windows, lateness_of
from oracle.one_window import definition
from skyband import registry
from skyband.engine.fold import folds_of
from skyband.jobs.parsing import read_query
from skyband.query import from_spec
from support import conformance, sending, suites

CHANGES = {
    "America/New_York": (datetime(2026, 3, 8), datetime(2026, 11, 1)),
    "Europe/Berlin": (datetime(2026, 3, 29), datetime(2026, 10, 25)),
    "Australia/Lord_Howe": (datetime(2026, 4, 5), datetime(2026, 10, 4)),  # by half an hour
    "America/Sao_Paulo": (datetime(2017, 10, 15), datetime(2018, 2, 18)),  # at midnight
    "America/Toronto": (datetime(1919, 3, 31),),  # at 23:30, to 00:30
    "America/St_Johns": (datetime(2006, 10, 29),),  # at 00:01, to 23:01 of the day before
    "Pacific/Apia": (datetime(2011, 12, 30),),  # the date that is missing
    "America/Juneau": (datetime(1867, 10, 19),),  # a day of 48 hours
}
PLACES = [(zone, change) for zone, changes in CHANGES.items() for change in changes]
CLOCKS = (timedelta(), timedelta(hours=2, minutes=30), timedelta(days=4), timedelta(hours=-1))


@st.composite
def day_cases(draw: st.DrawFn, slack: int = 0) -> tuple[DayWindow, list[list[oracle.Row]]]:
    """A window of days, and pushes around a change of the clock, ``slack`` hours out of order."""
    zone, change = draw(st.sampled_from(PLACES))
    size, slide = draw(st.integers(1, 8)), draw(st.integers(1, 3 if slack else 9))
    size = max(size, slide) if slack else size
    late = timedelta(hours=draw(st.integers(0, slack)))
    window = DayWindow(size, slide, zone, draw(st.sampled_from(CLOCKS)), late)
    near = sorted({window.edge((change - datetime(1970, 1, 1)).days + day) for day in (-1, 0, 1)})
    tick = timedelta(microseconds=1)
    edges = [at + step for at in near for step in (-tick, timedelta(), tick)]
    spread = st.integers(-9 * 48, 9 * 48).map(lambda half: near[0] + half * timedelta(minutes=30))
    times = draw(st.lists(st.sampled_from(edges) | spread, min_size=1, max_size=12))
    back = [draw(st.integers(0, slack)) for _ in times]
    order = sorted(range(len(times)), key=lambda n: times[n] + timedelta(hours=back[n]))
    rows = [{"ts": times[n], "x": draw(st.integers(0, 3)), "id": n} for n in order]
    cut = draw(st.integers(0, len(rows))) if slack else 0
    return window, [part for part in (rows[:cut], rows[cut:]) if part]


def query_of(window: DayWindow) -> sb.TopK:
    sizes = {"size": f"{window.size} days", "slide": f"{window.slide} days"}
    shape = sb.TimeWindow(**sizes, zone=window.zone, offset=window.offset, lateness=window.lateness)
    return sb.TopK(k=2, score="x", id="id", time="ts", window=shape)


def table_of(rows: list[oracle.Row]) -> pa.Table:
    kinds = {"ts": pa.timestamp("us", "UTC"), "x": pa.int64(), "id": pa.int64()}
    return pa.Table.from_pylist(rows, pa.schema(kinds.items()))


def ids_of(answers: Any) -> list[Any]:
    # As instants: to Python, an hour that comes twice is equal to no hour of another zone.
    return [
        (each.start.astimezone(UTC), each.end.astimezone(UTC), each.table["id"].to_pylist())
        for each in answers
    ]


def wanted(window: DayWindow, rows: list[oracle.Row]) -> list[Any]:
    asked = {"k": 2, "score": "x", "id": "id", "time": "ts"}
    windows = [each._asdict() for each in day_windows(rows, "ts", window)]
    tables = [each["rows"] and definition("TopK", each["rows"], asked) for each in windows]
    ids = [[row["id"] for row in table] for table in tables]
    return [(each["start"], each["end"], own) for each, own in zip(windows, ids, strict=True)]


@given(day_cases())
@settings(max_examples=80, deadline=None)
def test_windows_end_when_the_clocks_show_midnight(case: Any) -> None:
    window, pushes = case
    rows = [row for push in pushes for row in push]
    assert ids_of(sb.watch(table_of(rows), query_of(window))) == wanted(window, rows)
    panes = query_of(window).window.panes
    for time in pc.cast(table_of(rows)["ts"], pa.int64()).to_pylist():
        first = panes.first_window_from(time)  # where a query joins a running stream
        assert first is not None
        assert panes.start_of(first - 1) < time <= panes.start_of(first)


@given(day_cases(slack=30))
@settings(max_examples=50, deadline=None)
def test_late_rows_are_judged_in_real_time(case: Any) -> None:
    window, pushes = case
    late = [n for marks in lateness_of(pushes, "ts", window) for n in marks]
    rows = [row for push in pushes for row in push]
    monitor, answers = sb.Monitor(query_of(window)), []
    for push in pushes:
        monitor = sb.Monitor.restore(monitor.snapshot())
        answers += monitor.push(table_of(push))
        monitor._check()
    answers += monitor.flush()
    taken = [row for row, is_late in zip(rows, late, strict=True) if not is_late]
    assert monitor.stats()["rows_late"] == sum(late)
    assert ids_of(answers) == wanted(window, taken)


FIRST_SETTINGS = [case for case in suites.cases() if case.values[2] == 0]


@pytest.mark.parametrize(("kind", "algorithm", "number"), FIRST_SETTINGS)
def test_a_zone_that_never_changes_is_an_offset(kind: str, algorithm: str, number: int) -> None:
    """Every algorithm, with peeks and late rows: Kolkata is 5:30 ahead of UTC."""
    settings = suites.settings_of(kind, algorithm, number)
    stream = conformance.long_stream(kind, settings, oracle.TimeWindow(30, 10), "crowded")
    moment = pa.timestamp("us", "UTC")

    def days(table: pa.Table) -> pa.Table:  # a unit of time becomes four hours
        at = pc.multiply(table["ts"].cast(pa.int64()), 14_400_000_000).cast(moment)
        return table.set_column(table.schema.get_field_index("ts"), "ts", at)

    sent, _, _ = sending.sent(stream, settings)
    pushes = [
        {n: days(t) for n, t in push.items()} if isinstance(push, dict) else days(push)
        for push in sent
    ]
    runs = []
    for more in ({"zone": "Asia/Kolkata"}, {"offset": timedelta(hours=-5.5)}):
        window: Any = sb.TimeWindow("5 days", slide="2 days", lateness="20 hours", **more)
        if kind == "SkylineJoin":
            short = sb.TimeWindow("3 days", slide="2 days", lateness="20 hours", **more)
            window = {settings["left"]: window, settings["right"]: short}
        query = getattr(sb, kind)(window=window, **settings)
        peeks = registry.load(kind, registry.choose(query)).peeks
        lasts = [None] * (len(pushes) + 1) if peeks else []
        runs.append(conformance.run(query, pushes, lasts=lasts))
    assert len(runs[0].answers) > 3
    assert runs[0].answers == runs[1].answers
    assert runs[0].peeks == runs[1].peeks
    assert runs[0].stats == runs[1].stats


NEW_YORK = "America/New_York"


def spring(kind: pa.DataType, hours: int = 96, ahead: int = 0) -> pa.Table:
    """A row an hour around March 8, 2026, when clocks in New York go ahead."""
    times = [datetime(2026, 3, 7, 1) + timedelta(hours=ahead + hour) for hour in range(hours)]
    columns = {"id": [n % 7 for n in range(hours)], "x": [n * 37 % 101 for n in range(hours)]}
    return pa.table({"t": pa.array(times, pa.timestamp("us")).cast(kind), **columns})


def counts(days: pa.Table | str, window: sb.TimeWindow, **more: Any) -> list[Any]:
    query = sb.HeavyHitters(k=9, item="id", time="t", window=window, **more)
    return [(str(each.start), str(each.end), each.total) for each in sb.watch(days, query)]


SHOWN = [
    ("2026-03-06 00:00:00-05:00", "2026-03-07 00:00:00-05:00", 4),
    ("2026-03-07 00:00:00-05:00", "2026-03-08 00:00:00-05:00", 24),
    ("2026-03-08 00:00:00-05:00", "2026-03-09 00:00:00-04:00", 23),
    ("2026-03-09 00:00:00-04:00", "2026-03-10 00:00:00-04:00", 24),
    ("2026-03-10 00:00:00-04:00", "2026-03-11 00:00:00-04:00", 21),
]


@pytest.mark.parametrize("tz", [None, "UTC", "Asia/Tokyo"])
def test_edges_are_shown_in_the_windows_zone(tz: str | None, tmp_path: Path) -> None:
    """Times without a zone count as UTC; where the column has another zone, it does not matter."""
    rows = spring(pa.timestamp("ms", tz))
    pq.write_table(rows, tmp_path / "rows.parquet")
    window = sb.TimeWindow("1 day", zone=NEW_YORK)
    assert counts(rows, window) == counts(str(tmp_path / "rows.parquet"), window) == SHOWN
    query = sb.TopK(k=1, score="x", time="t", window=window)
    assert sb.rank(rows, query).schema.field("window_end").type == pa.timestamp("us", NEW_YORK)


def test_a_board_shares_panes_within_a_zone_only() -> None:
    rows, board = spring(pa.timestamp("us")), {}
    for name, zone in (("one", NEW_YORK), ("other", NEW_YORK), ("utc", None)):
        for days in (2, 3):
            window = sb.TimeWindow(f"{days} days", slide="1 day", zone=zone)
            board[f"{name}{days}"] = sb.HeavyHitters(k=3, item="id", time="t", window=window)
    assert len(folds_of(board)) == 2
    tables = sb.rank(rows, board)
    assert all(tables[name].equals(sb.rank(rows, query)) for name, query in board.items())
    monitor = sb.Monitor(board["one3"])
    monitor.push(rows)
    for last, start in (("1 day", 10), ("2 days", 9), ("3 days", 8)):
        assert monitor.peek(last=last).start.date() == date(2026, 3, start - 1)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"size": "6 hours"}, "size '6 hours' is not a whole number of days"),
        ({"size": "1 day", "slide": "36 hours"}, "slide '36 hours' is not a whole number of days"),
        ({"size": 7}, "zone needs a size in days"),
        ({"size": "1 day", "zone": "Mars/Base"}, "zone 'Mars/Base' is not a known time zone"),
        ({"size": "1 day", "zone": "America"}, "zone 'America' is not a known time zone"),
        ({"size": "1 day", "zone": ""}, "zone '' is not a known time zone"),
        ({"size": "1 day", "zone": 5}, "zone 5 is not a known time zone"),
    ],
)
def test_what_a_zone_refuses(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(sb.QueryError, match=problem):
        sb.TimeWindow(**{"zone": NEW_YORK, **given})


def test_the_ends_of_the_calendar() -> None:
    """Rows whose windows would lie outside it are bad; others are answered, in any zone."""
    times = [datetime.min, datetime(1, 1, 20), datetime(9999, 12, 10), datetime.max]
    rows = pa.table({"t": pa.array(times, pa.timestamp("us")), "x": [1, 2, 3, 4]})
    for zone in ("Pacific/Apia", "America/Juneau"):
        query = sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow("2 days", zone=zone))
        with pytest.warns(sb.SkybandWarning, match="2 bad rows"):
            table = sb.rank(rows, query, on_bad="skip")
        assert table["x"].to_pylist() == [2, 3]
        assert len(str(table["window_end"].to_pylist())) > 0


def test_jobs_the_command_line_and_old_states(tmp_path: Path) -> None:
    table = {"kind": "HeavyHitters", "k": 9, "item": "id", "time": "t"}
    problems: list[tuple[str, str]] = []
    shape = {"size": "1 day", "zone": NEW_YORK}
    read = read_query("queries.a", table | {"window": shape}, problems)
    assert problems == []
    window = sb.TimeWindow("1 day", zone=NEW_YORK)
    query = sb.HeavyHitters(k=9, item="id", time="t", window=window)
    assert read == query == from_spec(json.loads(json.dumps(query.spec())))
    decay = {"half_life": "1 day", "slide": "1 day", "zone": NEW_YORK}
    assert read_query("queries.a", table | {"window": decay}, problems) is None
    assert "has no key 'zone'" in problems[0][1]
    assert "zone" not in str(replace(query, window=sb.TimeWindow("1 day")).spec())

    pytest.importorskip("typer", reason="the command line is an extra")
    from support.command_line import bad, good

    pq.write_table(spring(pa.timestamp("us", "UTC")), tmp_path / "rows.parquet")
    asked = ("heavy-hitters", tmp_path / "rows.parquet", "-k", 1, "--item", "id", "--time", "t")
    told = good(*asked, "--window", "1 day", "--zone", NEW_YORK, "--format", "csv")
    assert [line.split(",")[1][:19] for line in told.splitlines()[1:]] == [s[1][:19] for s in SHOWN]
    assert "--window '1 hour' is not" in bad(*asked, "--window", "1 hour", "--zone", NEW_YORK)
    assert "--zone works only with" in bad(*asked, "--count", 5, "--zone", NEW_YORK)


def test_on_spark() -> None:
    pytest.importorskip("pyspark")
    from support import both_engines

    pushes = [spring(pa.timestamp("us"), 60, ahead) for ahead in (0, 48, 96)]
    window = sb.TimeWindow("3 days", slide="2 days", lateness="13 hours", zone=NEW_YORK)
    query = sb.HeavyHitters(k=3, item="id", time="t", window=window)
    how: Any = {"shards": 2, "parts": 2, "changes": False, "forgetful": True, "least": 6}
    both_engines.compare("HeavyHitters", query, pushes, **how)


def test_on_a_board_on_spark() -> None:
    """Edges are instants, so windows of several zones go together; those without a zone do not."""
    pytest.importorskip("pyspark")
    from support import board_simulator

    windows = {"day": sb.TimeWindow("1 day", zone=NEW_YORK), "hour": sb.TimeWindow("1 hour")}
    board = {n: sb.TopK(k=1, score="number", time="t", window=w) for n, w in windows.items()}
    for zone in ("UTC", None):
        rows = spring(pa.timestamp("us", zone))
        rows = rows.append_column("number", pa.array(range(rows.num_rows)))
        if zone is None:
            with pytest.raises(sb.EngineError, match="edges of another type"):
                board_simulator.ranked_batch(board, rows)
            continue
        parted, together = board_simulator.ranked_batch(board, rows), sb.rank(rows, board)
        assert parted == {name: table.to_pylist() for name, table in together.items()}
