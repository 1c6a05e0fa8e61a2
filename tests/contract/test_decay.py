"""Decay windows at their edges: long times, gaps, digits, forgetting, bounds, refusals."""

from __future__ import annotations

import datetime as dt
import math
import random
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb

SECOND = 1_000_000
START = 1_767_225_600 * SECOND  # 2026-01-01


def table(times: list[int], kind: Any = None, **columns: Any) -> pa.Table:
    """Rows at these microseconds after the beginning of 2026."""
    made = pa.array([START + time for time in times], pa.int64()).cast(pa.timestamp("us"))
    return pa.table({"ts": made if kind is None else made.cast(kind), **columns})


def topk(half_life: str = "1 s", slide: str = "1 s", **more: Any) -> sb.TopK:
    settings = {"k": 1, "score": "x", "time": "ts", **more}
    return sb.TopK(window=sb.DecayWindow(half_life, slide=slide), **settings)


def hitters(window: sb.DecayWindow, **more: Any) -> sb.HeavyHitters:
    return sb.HeavyHitters(**{"k": 3, "item": "item", "time": "ts", **more}, window=window)


def test_which_ends_are_answered() -> None:
    """Those whose slide has rows; an old row alone is never answered again.

    rows    a  b        |         |      c
    ends            10        20        30
    """
    rows = table([0, 3 * SECOND, 25 * SECOND], x=[4.0, 1.0, 1.0], id=["a", "b", "c"])
    query = topk("10 s", "10 s", id="id", k=9)
    got = list(sb.watch(rows, query))
    assert [answer.end.second for answer in got] == [10, 30]
    assert [answer.start for answer in got] == [None, None]
    names = ["window_start", "window_end", "rank", "id", "x", "decayed", "ts"]
    assert got[0].table.column_names == names
    assert got[0].table["window_start"].null_count == 2
    assert got[0].table["window_start"].type == pa.timestamp("us")
    assert got[1].table["id"].to_pylist() == ["c", "a", "b"]
    assert got[1].table["decayed"].to_pylist() == pytest.approx([2**-0.5, 4 * 2**-3, 2**-2.7])
    assert got[1].total == pytest.approx(2**-0.5 + 2**-3 + 2**-2.7)


def test_ten_years_at_a_half_life_of_a_second() -> None:
    """Scores that differ in the last digits keep their order however late it is."""
    years = 10 * 365 * 86_400 * SECOND
    for later in (0, years):
        times = [later, later, later + SECOND - 1]
        rows = table(times, x=[1_000_000.1, 1_000_000.0, 1.0], id=["a", "b", "c"])
        got = sb.rank(rows, topk(id="id", k=3))
        assert got["id"].to_pylist() == ["a", "b", "c"]
    rows = table([years, years], x=[1_000_000.0, 1_000_000.1], id=["a", "b"])
    assert sb.rank(rows, topk(id="id"))["id"].to_pylist() == ["b"]
    every_ten_days = [day * 86_400 * SECOND for day in range(0, 3650, 10)]
    rows = table(every_ten_days, x=[1.0] * 365, item=["i"] * 365)
    got = sb.rank(rows, topk(k=5))
    assert got.num_rows == 1 + 2 + 3 + 4 + 361 * 5  # older rows are behind, and weigh nothing
    assert got["decayed"].to_pylist()[-5:] == [0.5, 0.0, 0.0, 0.0, 0.0]
    assert got["ts"].to_pylist()[-5:] == rows["ts"].to_pylist()[:-6:-1]
    counts = sb.rank(rows, hitters(sb.DecayWindow("1 s", slide="1 s")))
    assert set(counts["count"].to_pylist()) == {0.5}
    assert counts.num_rows == 365


def test_rows_of_score_0_come_after_rows_of_any_age() -> None:
    """A row leaves only when it is beaten, and 0 is behind every other score."""
    rows = table([0, 1, 2000 * SECOND, 2000 * SECOND], x=[9.0, 8.0, 2.0, 0.0])
    for distinct in (None, "best"):
        got = sb.rank(
            rows.append_column("id", pa.array(["a", "b", "c", "d"])),
            topk(k=2, id="id", distinct=distinct),
        )
        assert got["x"].to_pylist() == [9.0, 8.0, 2.0, 9.0]
        assert got["decayed"].to_pylist()[2:] == [2.0 * 2**-1, 0.0]


def test_the_latest_row_of_an_id_may_be_worse_than_those_of_others() -> None:
    """Ids that were behind come up again, although their rows were read long before."""
    rows = table([0, SECOND, 4 * SECOND], x=[8.0, 20.0, 0.5], id=["a", "b", "b"])
    got = sb.rank(rows, topk("10 s", k=1, id="id", distinct="latest"))
    assert got["id"].to_pylist() == ["a", "b", "a"]


def test_a_year_without_rows_at_a_slide_of_a_second() -> None:
    year = 365 * 86_400 * SECOND
    rows = table([0, year, 2 * year], x=[8.0, 2.0, 1.0], item=["a", "a", "b"])
    ends = sb.rank(rows, topk("365 days", "1 s", k=2))
    assert ends["x"].to_pylist() == [8.0, 8.0, 2.0, 8.0, 1.0]  # the tie goes to the later row
    got = sb.rank(rows, hitters(sb.DecayWindow("365 days", slide="1 s")))
    tiny = 2 ** (-1 / (365 * 86_400))
    wanted = [1 * tiny, 1.5 * tiny, 1 * tiny, 0.75 * tiny]
    assert got["count"].to_pylist() == pytest.approx(wanted, rel=1e-12)


def test_one_row_in_2099() -> None:
    far = (dt.datetime(2099, 1, 1) - dt.datetime(2026, 1, 1)) // dt.timedelta(microseconds=1)
    rows = table([0, SECOND, far, far + 2], x=[1e300, 5.0, 1.0, 0.0], item=["a", "b", "c", "d"])
    got = sb.rank(rows, topk("1 minute", "1 minute", k=4))
    assert got["x"].to_pylist() == [1e300, 5.0, 1.0, 1e300, 5.0, 0.0]
    assert got["decayed"].to_pylist()[2:] == [0.5, 0.0, 0.0, 0.0]
    monitor = sb.Monitor(hitters(sb.DecayWindow("1 minute", slide="1 minute")))
    monitor.push(rows)
    (last,) = monitor.flush()
    assert last.table["item"].to_pylist() == ["d", "c"]
    assert last.total == pytest.approx(2 * 2**-1)
    assert monitor.stats()["retained"] <= 4
    monitor.push(table([5 * SECOND], x=[1.0], item=["a"]))
    assert monitor.stats()["rows_late"] == 1


def test_what_is_left_after_1000_half_lives() -> None:
    rows = table([0, 1000 * SECOND - 1, 1000 * SECOND], x=[1.0, 0.0, 0.0], id=["a", "b", "c"])
    got = sb.rank(rows, topk("1 s", "1 s", id="id", k=3))
    assert got["id"].to_pylist() == ["a", "a", "b", "a", "c", "b"]
    assert got["decayed"].to_pylist() == [0.5, 2.0**-1000, 0.0, 2.0**-1001, 0.0, 0.0]
    rows = table([0, 3000 * SECOND], x=[math.inf, 1.0], g=["a", "b"], id=["a", "b"])
    got = sb.rank(rows, topk(by="g", id="id"))
    assert got["g"].to_pylist() == ["a", "b"]  # group a is forgotten
    got = sb.rank(rows, topk(id="id", k=2))
    assert got["decayed"].to_pylist() == [math.inf, math.inf, 0.5]


def test_an_item_that_comes_back() -> None:
    """It was forgotten after 20 half-lives: what it weighed then is its error."""
    rows = table([0, 20 * SECOND, 21 * SECOND, 40 * SECOND], item=["a", "b", "b", "a"])
    got = sb.rank(rows, hitters(sb.DecayWindow("1 s", slide="1 s"))).to_pylist()
    by_end: dict[int, list[Any]] = {row["window_end"].second: [] for row in got}
    for row in got:
        by_end[row["window_end"].second].append((row["item"], row["count"], row["error"]))
    assert by_end[21] == [("b", 0.5, 0.0)]  # a has had no row since 21 s before
    assert by_end[41] == [
        ("a", pytest.approx(0.5 + 2**-41, rel=1e-15), pytest.approx(2**-41)),
        ("b", pytest.approx(2**-21 + 2**-20), 0.0),
    ]


def test_an_item_of_weight_0_is_an_item() -> None:
    rows = table([0, 1], item=["a", "b"], w=[0.0, 0.0])
    got = sb.rank(rows, hitters(sb.DecayWindow("1 s", slide="1 s"), weight="w"))
    assert got.select(["item", "count", "error"]).to_pylist() == [
        {"item": "a", "count": 0.0, "error": 0.0},
        {"item": "b", "count": 0.0, "error": 0.0},
    ]
    assert got["count"].type == pa.float64()


def test_late_rows_within_lateness_count() -> None:
    window = sb.DecayWindow("5 s", slide="1 s", lateness="3 s")
    rng = random.Random(3)
    times = sorted(rng.randrange(60 * SECOND) for _ in range(300))
    items = [f"i{rng.randrange(6)}" for _ in times]
    want = sb.rank(table(times, item=items), hitters(window))
    order = sorted(range(300), key=lambda n: times[n] + rng.randrange(3 * SECOND))
    monitor = sb.Monitor(hitters(window))
    got = []
    for at in range(0, 300, 10):
        some = order[at : at + 10]
        rows = table([times[n] for n in some], item=[items[n] for n in some])
        got += monitor.push(rows)
    got += monitor.flush()
    assert monitor.stats()["rows_late"] == 0
    tables = pa.concat_tables([answer.table for answer in got])
    assert tables.drop_columns(["count"]).equals(want.drop_columns(["count"]))
    assert tables["count"].to_pylist() == pytest.approx(want["count"].to_pylist())


def test_space_saving_keeps_its_bounds() -> None:
    rng = random.Random(5)
    times = sorted(rng.randrange(200 * SECOND) for _ in range(3000))
    items = [f"i{min(int(rng.expovariate(0.15)), 300)}" for _ in times]
    window = sb.DecayWindow("20 s", slide="5 s")
    rows = table(times, item=items)
    truth: dict[Any, dict[str, float]] = {}
    for row in sb.rank(rows, hitters(window, k=1000)).to_pylist():
        truth.setdefault(row["window_end"], {})[row["item"]] = row["count"]
    monitor = sb.Monitor(hitters(window, k=5, capacity=12))
    answers = monitor.push(rows) + monitor.flush()
    assert len(answers) == len(truth) == 40
    wrong = 0
    for answer in answers:
        assert answer.table.num_rows == 5
        for row in answer.table.to_pylist():
            true = truth[answer.end][row["item"]]
            assert row["count"] - row["error"] - 1e-9 <= true <= row["count"] + 1e-9
            assert row["error"] <= answer.total / 13 + 1e-9
            wrong += row["error"] > 0
        assert not answer.exact
    assert wrong > 0
    assert monitor.stats()["retained"] == 12


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ms", "UTC"), pa.timestamp("s")])
def test_every_unit_of_time(kind: pa.DataType) -> None:
    rows = table([0, SECOND, 9 * SECOND], kind, x=[8.0, 1.0, 1.0], item=["a", "b", "b"])
    plain = table([0, SECOND, 9 * SECOND], x=[8.0, 1.0, 1.0], item=["a", "b", "b"])
    for query in (topk("3 s", "5 s", k=2), hitters(sb.DecayWindow("3 s", slide="5 s"))):
        got, want = (sb.rank(each, query) for each in (rows, plain))
        name = "count" if "count" in got.column_names else "decayed"
        assert got[name].to_pylist() == want[name].to_pylist()


def test_integer_times_and_nanoseconds() -> None:
    rows = pa.table({"ts": [0, 1, 15], "x": [8, 8, 1]})
    got = sb.rank(rows, sb.TopK(k=2, score="x", time="ts", window=sb.DecayWindow(4, slide=10)))
    assert got["window_end"].to_pylist() == [10, 10, 20, 20]
    assert got["window_start"].to_pylist() == [None] * 4
    wanted = [8 * 2**-2.25, 8 * 2**-2.5, 2**-1.25, 8 * 2**-4.75]
    assert got["decayed"].to_pylist() == pytest.approx(wanted)
    fine = pa.array([START * 1000, START * 1000 + 1], pa.int64()).cast(pa.timestamp("ns"))
    query = sb.TopK(k=2, score="x", time="ts", window=sb.DecayWindow("1 us", slide="1 us"))
    got = sb.rank(pa.table({"ts": fine, "x": [1.0, 1.0]}), query)
    assert got["decayed"].to_pylist() == pytest.approx([2**-0.999, 2**-1])


def test_scores_below_0_are_bad_rows() -> None:
    rows = table([0, 1, 2], x=[1.0, -0.5, -0.0])
    with pytest.raises(sb.DataError, match=r"column 'x'.*below 0"):
        sb.rank(rows, topk())
    with pytest.warns(sb.SkybandWarning):
        assert sb.rank(rows, topk(k=3), on_bad="skip")["x"].to_pylist() == [1.0, 0.0]


def test_refusals() -> None:
    window = sb.DecayWindow("1 s", slide="1 s")
    with pytest.raises(sb.QueryError, match="largest"):
        topk(largest=False)
    with pytest.raises(sb.QueryError, match="DecayWindow, which is for TopK, HeavyHitters"):
        sb.Skyline(prefer={"x": "min"}, time="ts", window=window)
    with pytest.raises(sb.QueryError, match=r"no algorithm 'skyband' over a DecayWindow.*decay"):
        topk(algorithm="skyband")
    with pytest.raises(sb.QueryError, match=r"no algorithm 'decay'; choose one of skyband"):
        sb.TopK(k=1, score="x", time="ts", window=sb.TimeWindow("1 s"), algorithm="decay")
    with pytest.raises(sb.QueryError, match="cells= does nothing for decay"):
        hitters(window, cells=3)
    with pytest.raises(sb.QueryError, match="a DecayWindow needs time="):
        sb.TopK(k=1, score="x", window=window)
    wrongs: tuple[dict[str, Any], ...] = (
        {"half_life": 0},
        {"half_life": "1 s", "slide": 5},
        {"lateness": -1},
    )
    for wrong in wrongs:
        with pytest.raises(sb.QueryError):
            sb.DecayWindow(**{"half_life": 4, "slide": 2, **wrong})
    with pytest.raises(sb.SchemaError, match="'decayed'"):
        sb.rank(table([0], x=[1.0], decayed=["a"]), topk(id="decayed"))
    monitor = sb.Monitor(topk())
    monitor.push(table([0, 5 * SECOND], x=[1.0, 2.0]))
    with pytest.raises(sb.EngineError, match="leave out last="):
        monitor.peek(last="1 s")
    seen = monitor.peek()
    assert seen.start is None
    assert seen.table["decayed"].to_pylist() == pytest.approx([2**-5])


def test_spec_round_trip() -> None:

    old = sb.TopK(k=10, score="x", time="ts", window=sb.TimeWindow("1 minute"))
    assert old.spec()["window"] == {
        "time": {"size": "1 minute", "slide": None, "lateness": 0, "offset": 0}
    }
    query = topk("90 s", "1 minute")
    assert sb.query.from_spec(query.spec()) == query
