"""``TimeWindow(revise=)``: a late row corrects the answers of the windows that it belongs to."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import skyband as sb
from support import conformance, streams
from support.suites import cases, examples, in_turn, is_exact, registered, settings_of

EVERY = cases()


@st.composite
def revised_windows(draw: st.DrawFn) -> oracle.TimeWindow:
    window = draw(streams.time_windows(max_lateness=3))
    return dataclasses.replace(window, revise=draw(st.integers(1, 60)))


@pytest.mark.nojit
@pytest.mark.parametrize(("kind", "algorithm", "number"), EVERY)
def test_every_answer_and_every_correction(kind: str, algorithm: str, number: int) -> None:
    chosen = settings_of(kind, algorithm, number)

    @given(data=st.data())
    @settings(max_examples=examples(kind, total=24, most=10))
    def holds(data: st.DataObject) -> None:
        window = data.draw(revised_windows())
        # Some rows are in time, some correct answers, and some are too late for that.
        lateness = data.draw(st.integers(0, 2 * (window.revise or 0)))
        stream = data.draw(conformance.small_streams(kind, chosen, window, lateness))
        restarts, peeks = data.draw(st.booleans()), data.draw(st.booleans())
        conformance.compare(kind, window, chosen, stream, restarts, peeks)

    holds()


@pytest.mark.parametrize(("kind", "algorithm", "number"), EVERY)
def test_longer_streams(kind: str, algorithm: str, number: int) -> None:
    chosen = settings_of(kind, algorithm, number)
    pattern = in_turn(kind, algorithm, number, streams.PATTERNS)[-1]
    window = oracle.TimeWindow(30, 7, lateness=2, revise=90)
    stream = conformance.long_stream(kind, chosen, oracle.TimeWindow(30, 7), pattern)
    if isinstance(stream, streams.Stream) and chosen.get("stream", "") is not None:
        table = delayed(stream.table)
        stream = dataclasses.replace(stream, table=table, rows=streams.rows_of(table))
    conformance.compare(kind, window, chosen, stream, restarts=number % 2 == 0, peeks=number == 0)


def test_the_suite_has_every_algorithm() -> None:
    assert {case.values[:2] for case in EVERY} == registered()


def last_revisions(answers: Sequence[sb.Answer]) -> list[dict[str, Any]]:
    """The rows of each window's last answer, without their revision, by window."""
    newest = {answer.end: answer for answer in answers}
    tables = [newest[end].table.drop_columns(["revision"]) for end in sorted(newest)]
    return [row for table in tables for row in streams.rows_of(table)]


def delayed(table: pa.Table) -> pa.Table:
    """The rows as they come if each is late by up to 150."""
    random = np.random.default_rng(5)
    arrival = table["ts"].to_numpy() + random.integers(0, 150, table.num_rows)
    return table.take(np.argsort(arrival, kind="stable"))


@pytest.mark.parametrize(
    ("kind", "algorithm", "number"),
    [each for each in EVERY if is_exact(*each.values[:2]) and each.values[2] == 0],
)
@pytest.mark.parametrize("batches", [1, 4, 40])
def test_the_last_revisions_are_the_answers_of_rows_in_order(
    kind: str, algorithm: str, number: int, batches: int
) -> None:
    chosen = settings_of(kind, algorithm, number)
    if kind == "SkylineJoin":
        pytest.skip("two tables have no order of their own; the suites above cover them")
    window: dict[str, Any] = {"size": 30, "slide": 7, "lateness": 3}
    stream = conformance.long_stream(kind, chosen, oracle.TimeWindow(30, 7), "crowded")
    assert isinstance(stream, streams.Stream)
    table, build = delayed(stream.table), getattr(sb, kind)
    step = -(-table.num_rows // batches)
    monitor = sb.Monitor(build(window=sb.TimeWindow(**window, revise=200), **chosen), late="raise")
    answers = []
    for at in range(0, table.num_rows, step):
        answers += monitor.push(table.slice(at, step))
        monitor = sb.Monitor.restore(monitor.snapshot())
    answers += monitor.flush()
    wanted = sb.rank(table, build(window=sb.TimeWindow(**window), **chosen))
    problem = oracle.difference(last_revisions(answers), streams.rows_of(wanted), oracle.SUMS[kind])
    assert problem is None, problem
    assert batches == 1 or max(answer.revision for answer in answers) > 0


def rows(*many: tuple[int, float]) -> pa.Table:
    return pa.table({"t": [t for t, _ in many], "x": [x for _, x in many]})


def query(**window: Any) -> sb.TopK:
    return sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow(10, **window))


def told(answers: Sequence[sb.Answer]) -> list[Any]:
    return [(a.end, a.revision, a.table["x"].to_pylist()) for a in answers]


def test_a_window_is_answered_again_once_a_push_before_those_that_end() -> None:
    monitor = sb.Monitor(query(revise=25))
    monitor.push(rows((3, 1.0), (12, 2.0), (25, 3.0)))
    assert told(monitor.push(rows((4, 5.0), (13, 6.0), (31, 0.0), (5, 7.0)))) == [
        (10, 1, [7.0]),
        (20, 1, [6.0]),
        (30, 0, [3.0]),
    ]
    stats = monitor.stats()
    assert (stats["rows_late"], stats["windows_out"]) == (0, 5)
    assert told(monitor.push(rows((5, 8.0)))) == []  # 31 - 25 = 6: too late
    assert told(monitor.push(rows((6, 8.0)))) == [(10, 2, [8.0])]
    assert monitor.stats()["rows_late"] == 1


def test_changes_are_against_the_answer_before() -> None:
    monitor = sb.Monitor(query(revise=25))
    monitor.push(rows((3, 1.0), (12, 2.0), (25, 3.0)))
    (corrected,) = monitor.push(rows((13, 9.0)))
    assert [row["change"] for row in corrected.changes.to_pylist()] == ["enter", "leave"]
    assert corrected.changes["x"].to_pylist() == [9.0, 2.0]
    (after,) = monitor.push(rows((31, 0.0)))
    assert after.changes["x"].to_pylist() == [3.0, 9.0]  # against the last revision
    assert "revision 1" in repr(corrected)
    assert "revision" not in repr(after)


def test_a_window_that_had_no_rows_has_no_revision_before() -> None:
    monitor = sb.Monitor(query(revise=100))
    assert told(monitor.push(rows((3, 1.0), (55, 2.0)))) == [(10, 0, [1.0]), (20, 0, [])]
    for number, end in ((33, 40), (25, 30)):  # newer than all that were answered, and not
        (answer,) = monitor.push(rows((number, 3.0)))
        assert told([answer]) == [(end, 0, [3.0])]
        assert [row["change"] for row in answer.changes.to_pylist()] == ["enter"]
    assert told(monitor.push(rows((18, 4.0)))) == [(20, 1, [4.0])]
    (answer,) = monitor.push(rows((61, 0.0)))
    assert told([answer]) == [(60, 0, [2.0])]
    assert answer.changes["x"].to_pylist() == [2.0, 3.0]  # against the window that ends at 40


def test_a_late_row_is_in_windows_to_come() -> None:
    for size, ends in ((30, [30, 40]), (10, [30])):
        asked = sb.TopK(
            k=1, score="x", time="t",
            window=sb.TimeWindow(size, slide=10, lateness=40, revise=25),
        )  # fmt: skip
        monitor = sb.Monitor(asked)
        assert told(monitor.push(rows((65, 1.0)))) == []
        assert told(monitor.push(rows((12, 2.0)))) == [(20, 0, [2.0])]
        shown = [2.0] if size == 30 else []  # or the first empty window after one with rows
        assert told(monitor.push(rows((80, 1.0)))) == [(end, 0, shown) for end in ends]


def test_nothing_is_half_corrected() -> None:
    monitor = sb.Monitor(query(revise=25), late="raise")
    monitor.push(rows((3, 1.0), (25, 3.0)))
    before = monitor.snapshot()
    with pytest.raises(sb.DataError):
        monitor.push(rows((4, 5.0), (-9, 6.0), (31, 0.0)))
    assert monitor.snapshot() == before
    values: dict[str, Any] = {
        "id": "o",
        "stream": "s",
        "value": "v",
        "streams": ("a", "b"),
        "time": "t",
    }
    fused = sb.FusedTopK(k=1, window=sb.TimeWindow(10, revise=50), bounds=(0, 1), **values)
    monitor = sb.Monitor(fused)

    def report(t: int, o: str) -> pa.Table:
        return pa.table({"t": [t], "o": [o], "s": ["a"], "v": [0.5]})

    for t, o in ((1, "x"), (12, "y"), (30, "z")):
        monitor.push(report(t, o))
    before = monitor.snapshot()
    with pytest.raises(sb.DataError, match="too many reports"):
        monitor.push(report(14, "y"))
    assert monitor.snapshot() == before
    with pytest.raises(sb.DataError, match="too many reports"):  # of a window that had no rows
        monitor.push(pa.concat_tables([report(25, "q"), report(26, "q")]))
    assert monitor.snapshot() == before
    (answer,) = monitor.push(report(14, "x"))
    assert (answer.end, answer.revision) == (20, 1)


@pytest.mark.parametrize("algorithm", ["exact", "fss"])
def test_readers_of_one_fold_are_corrected_together(algorithm: str) -> None:
    def board(**more: Any) -> dict[str, sb.Query]:
        settings: dict[str, Any] = {"item": "item", "time": "ts", "algorithm": algorithm}
        short, long = sb.TimeWindow(12, 6, **more), sb.TimeWindow(30, 6, **more)
        return {
            "short": sb.HeavyHitters(k=1, window=short, **settings),
            "long": sb.HeavyHitters(k=3, window=long, **settings),
            "skewed": sb.TopK(k=2, score="score", time="ts", by=("g",), window=long),
        }

    stream = streams.stream(3, 150, lateness=40, step=2, batches=12)
    alone = {name: sb.Monitor(each) for name, each in board(lateness=1, revise=25).items()}
    monitor = sb.Monitor(board(lateness=1, revise=25))
    assert len(monitor.board.sessions) == (2 if algorithm == "exact" else 3)
    for batch in stream.batches:
        each = {name: told_of(own.push(batch)) for name, own in alone.items()}
        found = monitor.push(batch)
        assert {n: told_of([a for a in found if a.name == n]) for n in alone} == each
        monitor = sb.Monitor.restore(monitor.snapshot())
    assert monitor.stats()["long"]["rows_late"] > 0


def told_of(answers: Sequence[sb.Answer]) -> list[Any]:
    return [(a.end, a.revision, a.table.to_pylist(), a.changes.to_pylist()) for a in answers]


@pytest.mark.parametrize("settings", [{"against": "previous"}, {"aggregate": "mean"}])
def test_rankings_by_growth_and_by_an_aggregate(settings: dict[str, Any]) -> None:
    chosen = {"k": 3, "item": "item", "weight": "weight", "time": "ts"} | settings
    for size, slide, seed in ((10, 10, 1), (10, 4, 2), (4, 10, 3)):
        window = oracle.TimeWindow(size, slide, lateness=1, revise=30)
        stream = streams.stream(seed, 90, lateness=40, step=2, gap=25, batches=9)
        conformance.compare("HeavyHitters", window, chosen, stream, restarts=True, peeks=slide < 9)


def test_each_side_of_a_join_has_its_own_window() -> None:
    window = oracle.SideWindows((("trades", 12), ("risks", 7)), 5, lateness=1, revise=30)
    chosen = conformance.SETTINGS["SkylineJoin"][0]
    sides = streams.two_sides(4, 80, lateness=40, batches=10)
    conformance.compare("SkylineJoin", window, chosen, sides, restarts=True, peeks=True)


def test_groups_that_may_be_corrected_are_not_forgotten() -> None:
    asked = sb.TopK(k=1, score="x", time="t", by=("g",), window=sb.TimeWindow(10, revise=10**6))
    monitor = sb.Monitor(asked)
    for start in range(0, 6000, 1000):
        names = [f"g{n}" for n in range(start, start + 1000)]
        monitor.push(pa.table({"t": [start] * 1000, "x": [1.0] * 1000, "g": names}))
    (answer,) = monitor.push(pa.table({"t": [5], "x": [2.0], "g": ["g7"]}))
    table = answer.table
    assert (answer.end, answer.revision, table.num_rows) == (10, 1, 1000)
    best = table.filter(pa.compute.equal(table["g"], "g7"))
    assert best["x"].to_pylist() == [2.0]


def test_state_is_kept_for_size_and_revise() -> None:
    sizes = []
    for revise in (None, 50, 500):
        asked = query(slide=5, revise=revise)
        monitor = sb.Monitor(asked)
        most = []
        for t in range(4000):
            monitor.push(rows((t, 1.0)))
            most.append(monitor.stats()["state_bytes"])
        assert max(most[2000:]) <= max(most[1000:2000]) + 500
        sizes.append(max(most))
    assert sizes[0] < sizes[1] < sizes[2] < 20 * sizes[1]


def test_rank_and_watch_show_revisions() -> None:
    pushes = [rows((3, 1.0), (12, 2.0)), rows((4, 5.0)), rows((25, 1.0))]
    table = sb.rank(iter(pushes), query(revise=25))
    assert table.column_names == ["window_start", "window_end", "revision", "rank", "x", "t"]
    assert table.schema.field("revision").type == pa.int32()
    found = zip(*(table[n].to_pylist() for n in ("window_end", "revision", "x")), strict=True)
    assert list(found) == [(10, 0, 1.0), (10, 1, 5.0), (20, 0, 2.0), (30, 0, 1.0)]
    assert "4 windows" in repr(sb.show(table, last=9))
    assert "[0, 10), revision 1" in repr(sb.show(table, last=9))
    assert [a.revision for a in sb.watch(iter(pushes), query(revise=25))] == [0, 1, 0, 0]
    whole = sb.rank(pa.concat_tables(pushes), query(revise=25))  # sorted first
    assert whole["revision"].to_pylist() == [0, 0, 0]
    assert whole["x"].to_pylist() == [5.0, 2.0, 1.0]
    assert "revision" not in sb.rank(iter(pushes[:1]), query()).column_names
    with pytest.raises(sb.DataError, match="too late"):
        sb.rank(iter([*pushes, rows((-9, 1.0))]), query(revise=25))


def test_a_query_that_joins_is_corrected_from_its_first_window_on() -> None:
    stream = streams.stream(8, 300, lateness=40, step=2, batches=12)
    board = {"old": sb.TopK(k=1, score="score", time="ts", window=sb.TimeWindow(9, revise=30))}
    window = sb.TimeWindow(20, slide=7, lateness=1, revise=30)
    added = sb.HeavyHitters(k=2, item="item", time="ts", window=window)
    monitor, alone = sb.Monitor(board), sb.Monitor(added)
    for batch in stream.batches[:4]:
        monitor.push(batch)
        alone.push(batch)
    monitor, diff = sb.Monitor.resume(monitor.snapshot(), board | {"new": added})
    first = diff.added["new"]
    found: list[Any] = []
    wanted: list[Any] = []
    for batch in stream.batches[4:]:
        found += [each for each in monitor.push(batch) if each.name == "new"]
        wanted += [each for each in alone.push(batch) if each.start >= first]
        assert all(each.start >= first for each in found)
        monitor = sb.Monitor.restore(monitor.snapshot())
    early = [t for b in stream.batches[4:] for t in b["ts"].to_pylist() if t < first]
    stats = monitor.stats()["new"]
    assert stats["rows_late"] + stats["rows_unused"] >= len(early) > 9
    # A row that came before may be at the very start of the first window.
    found, wanted = (
        [(a.end, a.revision, a.table.to_pylist()) for a in many if a.start > first]
        for many in (found, wanted)
    )
    assert found == wanted
    assert max(revision for _, revision, _ in found) > 0


def test_plots_show_the_last_revision() -> None:
    pytest.importorskip("matplotlib")
    from skyband.plot.frames import frame_of

    pushes = [rows((3, 1.0), (12, 2.0)), rows((4, 5.0)), rows((25, 1.0))]
    shown = [(10, [5.0]), (20, [2.0]), (30, [1.0])]
    table = sb.rank(iter(pushes), query(revise=25))
    for answers in (table, list(sb.watch(iter(pushes), query(revise=25)))):
        frame = frame_of(answers, query(revise=25), None)
        assert [(w.end, [row.value for row in w.spots]) for w in frame.windows] == shown


def test_files_are_sorted_rather_than_corrected(tmp_path: Any) -> None:
    import pyarrow.parquet as pq

    for number, times in enumerate([(3, 40), (12, 25)]):
        pq.write_table(rows(*((t, float(t)) for t in times)), tmp_path / f"{number}.parquet")
    table = sb.rank(str(tmp_path / "*.parquet"), query(revise=100))
    assert table["revision"].to_pylist() == [0, 0, 0, 0]


def test_a_column_named_revision_is_refused() -> None:
    table = rows((3, 1.0)).append_column("revision", pa.array([1]))
    asked = dataclasses.replace(query(revise=5), keep=("revision",))
    with pytest.raises(sb.SchemaError, match="revision"):
        sb.rank(table, asked)
    assert sb.rank(table, dataclasses.replace(query(), keep=("revision",))).num_rows == 1


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: sb.CountWindow(10, revise=5), "CountWindow takes no revise=, because arrivals"),
        (lambda: sb.DecayWindow(10, slide=5, revise=5), "DecayWindow takes no revise="),
        (lambda: sb.LandmarkWindow(slide=5, revise=5), "rows never leave it"),
        (lambda: sb.TimeWindow(10, revise=0), "revise must be positive"),
        (lambda: sb.TimeWindow(10, revise=-1), "revise must be positive"),
        (lambda: sb.TimeWindow(10, revise="1 hour"), "all durations or all integers"),
        (
            lambda: sb.SkylineJoin(
                left="a", right="b", on="k", prefer={"x": "min", "y": "min"}, time="t",
                window={"a": sb.TimeWindow(10, revise=5), "b": sb.TimeWindow(10)},
            ),
            "different revise",
        ),
    ],
)  # fmt: skip
def test_windows_without_corrections_say_why(make: Any, why: str) -> None:
    with pytest.raises(sb.QueryError, match=why):
        make()


@pytest.mark.parametrize("algorithm", ["fsw", "fss", "exact"])
def test_counters_that_have_grown_are_corrected(algorithm: str) -> None:
    asked = sb.HeavyHitters(
        k=2, item="i", weight="w", time="t", algorithm=algorithm,
        window=sb.TimeWindow(20, slide=5, revise=50),
    )  # fmt: skip
    monitor = sb.Monitor(asked)
    for t, item, weight in ((1, "a", 1), (12, "b", 1 << 40), (25, "c", 2), (30, "a", 1)):
        monitor.push(pa.table({"t": [t], "i": [item], "w": [weight]}))
    corrected = monitor.push(pa.table({"t": [13], "i": ["a"], "w": [1 << 41]}))
    assert [(a.end, a.table["i"][0].as_py()) for a in corrected] == [
        (end, "a") for end in (15, 20, 25, 30)
    ]
    assert corrected[-1].table["count"].to_pylist() == [1 << 41, 1 << 40]
