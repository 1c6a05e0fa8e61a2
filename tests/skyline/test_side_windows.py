"""A window per side of a join: windows of different sizes that end together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import skyband as sb
from skyband.jobs.job import explain
from skyband.jobs.parsing import parse_job
from skyband.panes import SidePanes
from skyband.query import from_spec
from support import both_engines, conformance, sending, streams
from support.command_line import good

ALGORITHMS = ["naive", "isj", "lsj", "gsj"]
JOIN: dict[str, Any] = {"left": "trades", "right": "risks", "on": "stock", "time": "ts"}
PREFER = {"price": "min", "risk": "min"}


def windows(left: int, right: int, slide: int, **more: Any) -> dict[str, sb.TimeWindow]:
    sizes = {"trades": left, "risks": right}
    return {name: sb.TimeWindow(size, slide=slide, **more) for name, size in sizes.items()}


def join_query(window: Any, **more: Any) -> sb.SkylineJoin:
    return sb.SkylineJoin(**JOIN, window=window, **({"prefer": PREFER} | more))


@st.composite
def side_windows(draw: st.DrawFn) -> oracle.SideWindows:
    sizes = [(name, draw(st.integers(1, 12))) for name in ("trades", "risks")]
    rest = draw(st.integers(1, 8)), draw(st.integers(0, 4)), draw(st.integers(-3, 3))
    return oracle.SideWindows(tuple(sizes), *rest)


@pytest.mark.nojit
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(data=st.data())
@settings(max_examples=15)
def test_every_answer_and_every_peek(algorithm: str, data: st.DataObject) -> None:
    window = data.draw(side_windows())
    own = {"algorithm": algorithm, "options": conformance.OPTIONS.get(algorithm, {})}
    number = data.draw(st.integers(0, 2))
    chosen = conformance.SETTINGS["SkylineJoin"][number] | own
    lateness = window.lateness * data.draw(st.integers(1, 2))
    stream = data.draw(streams.sides(max_rows=20, lateness=lateness))
    restarts, peeks = data.draw(st.booleans()), data.draw(st.booleans())
    conformance.compare("SkylineJoin", window, chosen, stream, restarts, peeks)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_longer_streams(algorithm: str) -> None:
    own = {"algorithm": algorithm, "options": conformance.OPTIONS.get(algorithm, {})}
    for sizes, restarts in (((40, 15), True), ((11, 38), False)):
        sides = tuple(zip(("trades", "risks"), sizes, strict=True))
        window = oracle.SideWindows(sides, 7, lateness=5)
        for number, chosen in enumerate(conformance.SETTINGS["SkylineJoin"]):
            stream = streams.two_sides(number, 90, lateness=5, batches=9)
            conformance.compare("SkylineJoin", window, chosen | own, stream, restarts, peeks=True)


@given(st.lists(st.integers(1, 15), min_size=2, max_size=2), st.integers(1, 9), st.integers(-4, 4))
@settings(max_examples=60)
def test_panes_are_cut_wherever_a_window_begins_or_ends(
    sizes: list[int], slide: int, offset: int
) -> None:
    sides = tuple(zip(("a", "b"), sizes, strict=True))
    panes = SidePanes(max(sizes), slide, offset % slide, sides)
    times = np.arange(-40, 40)
    shape = (dict(sides), slide, offset)
    cut = [oracle.cut_up_to(t, *shape) for t in times.tolist()]
    assert panes.pane_start(panes.pane_of(times)).tolist() == cut
    assert [int(panes.pane_start(panes.pane_of(int(t)))) for t in times] == cut
    for name, size in sides:
        own = panes.of(name)
        unused = [oracle.is_unused(t, size, slide, offset) for t in times.tolist()]
        assert (~own.used(panes.pane_of(times))).tolist() == unused
        for number in range(-3, 4):
            first, end = own.first_pane(number), own.end_pane(number)
            assert panes.pane_start(end) == own.end_of(number)
            assert panes.pane_start(first) == own.end_of(number) - size
            assert panes.first_of(name, end) == first


def test_a_small_example() -> None:
    """At 20 the trades of [10, 20) meet the risks of [0, 20)."""
    trades = pa.table({"ts": [3, 12, 14], "stock": ["a", "a", "b"], "price": [1, 5, 4]})
    risks = pa.table({"ts": [2, 13, 19], "stock": ["a", "b", "a"], "risk": [1, 7, 9]})
    query = join_query(windows(10, 20, 10))
    answers = list(sb.watch({"trades": trades, "risks": risks}, query))
    assert [(a.start, a.end, a.total) for a in answers] == [(-10, 10, 2), (0, 20, 5)]
    columns = ["stock", "price", "risk"]
    assert answers[0].table.select(columns).to_pylist() == [{"stock": "a", "price": 1, "risk": 1}]
    assert [tuple(row.values()) for row in answers[1].table.select(columns).to_pylist()] == [
        ("a", 5, 1), ("b", 4, 7)
    ]  # fmt: skip
    assert answers[1].table["window_start"].to_pylist() == [0, 0]


def test_the_first_empty_window_depends_on_whose_rows_are_left() -> None:
    """The trade of 1 is gone after the window that ends at 10, the risk of 1 only after 30."""
    late = {"stock": ["z"], "ts": [95]}
    for side, ends in (("trades", [10, 20, 100]), ("risks", [10, 20, 30, 40, 100])):
        rows = {"trades": {"price": [1]}, "risks": {"risk": [1]}}
        tables = {name: pa.table(late | columns) for name, columns in rows.items()}
        early = tables[side].set_column(1, "ts", pa.array([1]))
        tables[side] = pa.concat_tables([early, tables[side]])
        answers = list(sb.watch(tables, join_query(windows(10, 30, 10))))
        assert [a.end for a in answers] == ends
        assert [a.total for a in answers] == [1] * (len(ends) - 2) + [0, 2]


def test_rows_between_the_windows_of_one_side_are_unused() -> None:
    trades = pa.table({"ts": [1, 8], "stock": ["a", "a"], "price": [1, 2]})
    risks = pa.table({"ts": [1, 8], "stock": ["a", "a"], "risk": [1, 2]})
    monitor = sb.Monitor(join_query(windows(3, 10, 10)))
    monitor.push({"trades": trades, "risks": risks})
    (answer,) = monitor.flush()
    assert answer.table["price"].to_pylist() == [2]
    assert monitor.stats()["rows_unused"] == 1


@pytest.mark.parametrize(
    ("window", "problem"),
    [
        ({"trades": sb.TimeWindow(5)}, "name both sides: {'trades': ..., 'risks': ...}"),
        ({"trades": sb.TimeWindow(5), "other": sb.TimeWindow(5)}, "got 'trades', 'other'"),
        ({}, "got nothing"),
        ({"trades": sb.TimeWindow(5), "risks": sb.CountWindow(5)}, "must be a TimeWindow"),
        (windows(5, 5, 5) | {"risks": sb.TimeWindow(5, slide=1)}, "different slide"),
        (windows(5, 5, 5) | {"risks": sb.TimeWindow(5, offset=1)}, "different offset"),
        (windows(5, 5, 5) | {"risks": sb.TimeWindow(5, lateness=1)}, "different lateness"),
        (windows(5, 5, 5) | {"risks": sb.TimeWindow("5 s")}, "both in integers"),
    ],
)
def test_what_is_refused(window: Any, problem: str) -> None:
    with pytest.raises(sb.QueryError, match=problem.replace(".", r"\.").replace("{", r"\{")):
        join_query(window)


def test_other_queries_take_one_window() -> None:
    with pytest.raises(sb.QueryError, match="must be a TimeWindow"):
        sb.TopK(k=1, score="price", time="ts", window=windows(5, 6, 5))  # type: ignore[arg-type]


def test_the_query_can_be_written_down() -> None:
    query = join_query(windows(10, 25, 5, lateness=2))
    again = from_spec(query.spec())
    assert again == query
    assert again.fingerprint == query.fingerprint
    assert query.window["risks"] == sb.TimeWindow(25, slide=5, lateness=2)
    assert dict(query.window) == windows(10, 25, 5, lateness=2)
    # The order in which the windows are given means nothing.
    turned = join_query(dict(reversed(windows(10, 25, 5, lateness=2).items())))
    assert turned.fingerprint == query.fingerprint
    assert query.fingerprint != join_query(windows(25, 10, 5, lateness=2)).fingerprint
    told = sb.explain(query).splitlines()[1]
    assert told == "  window trades 10 and risks 25 every 5 lateness 2; 5 panes per window"


@pytest.mark.parametrize("shards", [1, 3])
def test_the_parts_of_the_spark_engine_agree(shards: int) -> None:
    stream = streams.two_sides(5, 120, lateness=3, batches=8)
    pushes = sending.pushes({name: each.batches for name, each in stream.items()})
    for sizes in ((40, 13), (9, 50)):
        query = join_query(windows(*sizes, 6, lateness=3))
        for forgetful in (False, True):
            both_engines.compare(
                "SkylineJoin", query, pushes, shards=shards, parts=2, changes=shards == 1,
                forgetful=forgetful, least=20,
            )  # fmt: skip


def test_on_the_command_line(tmp_path: Path) -> None:
    sides = {name: each.table for name, each in streams.two_sides(3, 60).items()}
    for name, table in sides.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    told = good(
        *("skyline-join", f"trades={tmp_path / 'trades.parquet'}"),
        *(f"risks={tmp_path / 'risks.parquet'}", "--left", "trades", "--right", "risks"),
        *("--on", "stock", "--time", "ts", "--prefer", "price=min,risk=min"),
        *("--window", "trades=40,risks=12", "--slide", 10, "--format", "csv"),
    )
    table = sb.rank(sides, join_query(windows(40, 12, 10)))
    assert told.count("\n") == table.num_rows + 1 > 5


def test_in_a_job_file() -> None:
    source = {"kind": "files", "path": "x.parquet"}
    told = {
        "name": "pairs",
        "engine": "local",
        "checkpoint": "state",
        "sources": {"trades": source, "risks": source},
        "query": {
            "kind": "SkylineJoin",
            **JOIN,
            "prefer": PREFER,
            "window": {"trades": {"size": 10, "slide": 5}, "risks": {"size": 25, "slide": 5}},
        },
        "sink": {"kind": "files", "path": "out"},
    }
    job = parse_job(told)
    assert next(iter(job.queries.values())) == join_query(windows(10, 25, 5))
    assert "window trades 10 and risks 25 every 5" in explain(job)
    told["query"]["window"]["risks"]["count"] = 3  # type: ignore[index]
    with pytest.raises(sb.QueryError, match=r"\[query.window.risks\] has no key 'size'"):
        parse_job(told)


@pytest.mark.spark
def test_on_spark(spark: Any) -> None:
    from skyband.spark import rank

    sides = {name: each.table for name, each in streams.two_sides(3, 60).items()}
    query = join_query(windows(40, 12, 10))
    frames = {name: spark.createDataFrame(table.to_pandas()) for name, table in sides.items()}
    found = rank(frames, query).toPandas()
    want = sb.rank(sides, query).to_pandas()
    assert len(want) > 5
    assert found.to_dict("records") == want.to_dict("records")
