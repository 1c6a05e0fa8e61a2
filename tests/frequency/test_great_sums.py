"""Weights whose sum is more than a whole number holds: a clear error, and nothing half applied."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from support.board_simulator import BoardJob
from support.spark_simulator import Job, plan_of, run_batch

HALF = 2**62
MOST = 2**63 - 1
WINDOWS = [
    sb.TimeWindow(10),
    sb.TimeWindow(10, slide=5),
    sb.TimeWindow(10, slide=3),
    sb.CountWindow(3),
    sb.CountWindow(3, slide=1),
    sb.LandmarkWindow(5),
]
EXACT: list[tuple[str | None, Any]] = [("exact", window) for window in WINDOWS[:5]]
EXACT += [(None, WINDOWS[-1])]
SKETCHES = [(n, window) for n in ("ss", "fss", "fsp", "fsw", "fsw-r") for window in WINDOWS[:5]]


def query(window: Any, algorithm: str | None = "exact", **more: Any) -> sb.HeavyHitters:
    common: dict[str, Any] = {"k": 2, "item": "id", "weight": "w", "time": "t", "window": window}
    return sb.HeavyHitters(**(common | {"algorithm": algorithm} | more))


def rows(*weights: int, ids: str | None = None, times: Any = None) -> pa.Table:
    names = list(ids or "a" * len(weights))
    when = list(times or range(len(weights)))
    return pa.table({"id": names, "g": names, "w": pa.array(weights, pa.int64()), "t": when})


@pytest.mark.parametrize("by", [(), ("g",)])
@pytest.mark.parametrize(("algorithm", "window"), EXACT + SKETCHES)
def test_a_sum_that_does_not_fit_is_an_error_that_says_what_to_do(
    algorithm: str | None, window: Any, by: tuple[str, ...]
) -> None:
    asked = query(window, algorithm, by=by)
    with pytest.raises(sb.DataError, match=r"id='a'.*weight='w \* 1.0'") as error:
        sb.rank(rows(HALF, HALF, 5), asked)
    assert "no row of this batch was applied" in str(error.value).lower()
    with pytest.raises(sb.DataError, match="id='a'"):  # wraps twice
        sb.rank(rows(HALF, HALF, HALF, HALF, 5), query(sb.CountWindow(5), algorithm, by=by))


@pytest.mark.parametrize("by", [(), ("g",)])
@pytest.mark.parametrize(("algorithm", "window"), EXACT + SKETCHES)
def test_the_greatest_sum_that_fits_is_right(
    algorithm: str | None, window: Any, by: tuple[str, ...]
) -> None:
    table = sb.rank(rows(HALF, HALF - 1, 0), query(window, algorithm, by=by))
    assert max(table["count"].to_pylist()) == MOST
    if isinstance(window, sb.LandmarkWindow):
        return
    later = [[0, 1, 2, 20, 21, 22], [0, 1, 2, 3, 4, 5]][isinstance(window, sb.CountWindow)]
    weights = (HALF, HALF - 1, 0) * 2  # together they do not fit, but no window holds them all
    table = sb.rank(rows(*weights, times=later), query(window, algorithm, by=by))
    assert max(table["count"].to_pylist()) == MOST


@pytest.mark.parametrize("by", [(), ("g",)])
@pytest.mark.parametrize(("algorithm", "window"), EXACT + SKETCHES)
def test_the_push_that_goes_too_far_is_refused_and_the_stream_goes_on(
    algorithm: str | None, window: Any, by: tuple[str, ...]
) -> None:
    monitor, other = (sb.Monitor(query(window, algorithm, by=by)) for _ in range(2))
    good = [rows(HALF, times=[1]), rows(3, ids="b", times=[2]), rows(1, times=[30])]
    for batch in good[:2]:
        monitor.push(batch), other.push(batch)
    before = monitor.snapshot()
    with pytest.raises(sb.DataError, match="id='a'"):
        monitor.push(rows(HALF, times=[2]))
    assert monitor.snapshot() == before
    again = sb.Monitor.restore(before)
    with pytest.raises(sb.DataError, match="id='a'"):
        again.push(rows(HALF, times=[2]))
    tables = [
        [answer.table for each in good[2:] for answer in m.push(each)]
        + [answer.table for answer in m.flush()]
        for m in (monitor, other, again)
    ]
    assert tables[0] == tables[1] == tables[2]


def test_many_small_pushes_do_not_fit_either() -> None:
    monitor = sb.Monitor(query(sb.TimeWindow(10)))
    monitor.push(rows(MOST - 200, times=[1]))
    for _ in range(200):
        monitor.push(rows(1, times=[1]))
    with pytest.raises(sb.DataError, match="id='a'"):
        monitor.push(rows(1, times=[1]))
    (answer,) = monitor.flush()
    assert answer.table["count"].to_pylist() == [MOST]
    assert answer.total == MOST


def test_totals_must_fit_although_every_item_does() -> None:
    with pytest.raises(sb.DataError, match=r"id='b'|id='a'"):
        sb.rank(rows(HALF, HALF, ids="ab"), query(sb.TimeWindow(10)))


def test_all_queries_of_a_board_are_left_as_they_were() -> None:
    board = {
        "day": query(sb.TimeWindow(20, slide=5)),
        "hour": query(sb.TimeWindow(5)),
        "rows": sb.HeavyHitters(k=1, item="id", time="t", window=sb.TimeWindow(5)),
    }
    monitor = sb.Monitor(board)
    monitor.push(rows(HALF, times=[1]))
    before = monitor.snapshot()
    with pytest.raises(sb.DataError, match=r"query 'day'.*id='a'"):
        monitor.push(rows(HALF, times=[8]))
    assert monitor.snapshot() == before
    monitor.push(rows(HALF - 1, times=[8]))
    best = {(a.name, a.end): a.table["count"].to_pylist() for a in monitor.flush()}
    assert best["day", 10] == [MOST]


def test_floats_and_decay_hold_any_sum() -> None:
    table = rows(HALF, HALF, 5)
    floats = sb.rank(table, query(sb.TimeWindow(10), weight="w * 1.0"))
    assert floats["count"].to_pylist() == [2.0**63]
    decayed = sb.rank(table, query(sb.DecayWindow(1000, slide=10), None))
    assert 2.0**62 < decayed["count"][0].as_py() < 2.0**63


SPARK_WINDOWS = [
    sb.TimeWindow("10 seconds"),
    sb.TimeWindow("10 seconds", slide="3 seconds"),
    sb.LandmarkWindow("5 seconds"),
]


def timed(*weights: int) -> pa.Table:
    table = rows(*weights)
    return table.set_column(3, "t", table["t"].cast(pa.timestamp("s")).cast(pa.timestamp("us")))


def push_row_by_row(job: Any, table: pa.Table) -> None:
    for row in range(len(table)):
        job.push({"": table.slice(row, 1)})


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("window", SPARK_WINDOWS)
def test_a_batch_on_spark_refuses_it_too(window: Any, parts: int, shards: int) -> None:
    algorithm = None if isinstance(window, sb.LandmarkWindow) else "exact"
    table = timed(HALF, HALF, HALF, HALF, 5)
    plan = plan_of(query(window, algorithm), {"": table}, shards=shards, streaming=False)
    with pytest.raises(sb.DataError, match="id='a'"):
        run_batch(plan, {"": table}, parts)


@pytest.mark.parametrize("forgetful", [False, True])
@pytest.mark.parametrize("window", SPARK_WINDOWS)
def test_a_stream_on_spark_refuses_it_too(window: Any, forgetful: bool) -> None:
    algorithm = None if isinstance(window, sb.LandmarkWindow) else "exact"
    table = timed(HALF, HALF, HALF, HALF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    job = Job(plan_of(query(window, algorithm), {"": table}), forgetful=forgetful)
    with pytest.raises(sb.DataError, match="id='a'"):
        push_row_by_row(job, table)


def test_a_board_on_spark_refuses_it_too() -> None:
    table = timed(HALF, HALF, HALF, HALF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    board = {"long": query(SPARK_WINDOWS[1]), "short": query(sb.TimeWindow("3 seconds"))}
    job = BoardJob(board, {"": table})
    with pytest.raises(sb.DataError, match="add up to more"):
        push_row_by_row(job, table)
