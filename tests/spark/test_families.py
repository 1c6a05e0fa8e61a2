"""Families of a board on Spark: one key, one pass over the rows, each pane stored once.

The parts run in one process, with simulated batches and timers. Answers equal the embedded ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb

pytest.importorskip("pyspark")

from skyband.errors import EngineError
from skyband.spark.sessions import SESSIONS
from support.board_simulator import BoardJob, ranked_batch

KINDS = ("TopK", "HeavyHitters", "Skyline")
Board = dict[str, sb.Query]


def rows(seed: int, count: int = 90, late: int = 0) -> pa.Table:
    made = np.random.default_rng(seed)
    time = 1_000 + np.cumsum(made.choice([0, 1, 3, 20], count, p=[0.6, 0.2, 0.15, 0.05]))
    return pa.table(
        {
            "t": time - made.integers(0, late + 1, count),
            "id": [f"id{n}" for n in made.integers(0, 7, count)],
            "g": [f"g{n}" for n in made.integers(0, 4, count)],
            "x": made.integers(0, 9, count),
            "y": made.integers(0, 9, count),
        }
    )


def query(kind: str, k: int, window: sb.TimeWindow, **more: Any) -> sb.Query:
    common: Any = {"time": "t", "window": window} | more
    if kind == "TopK":
        return sb.TopK(k=k, score="x", id="id", **common)
    if kind == "HeavyHitters":
        return sb.HeavyHitters(k=k, item="id", **common)
    return sb.Skyline(prefer={"x": "max", "y": "min"}, **common)


def board_of(kind: str, windows: Sequence[sb.TimeWindow], **more: Any) -> Board:
    return {f"q{i}": query(kind, 1 + 2 * i, window, **more) for i, window in enumerate(windows)}


def plain(found: Sequence[dict[str, Any]]) -> list[Any]:
    return sorted(found, key=lambda row: [repr(value) for value in row.values()])


def shown(answers: Sequence[sb.Answer], name: str, changes: bool) -> list[Any]:
    own = [answer for answer in answers if answer.name == name]
    if not changes:
        return plain([row for answer in own for row in answer.table.to_pylist()])
    edges = [{"window_start": answer.start, "window_end": answer.end} for answer in own]
    both = zip(edges, own, strict=True)
    return plain([edge | row for edge, answer in both for row in answer.changes.to_pylist()])


@st.composite
def windows(draw: st.DrawFn) -> list[sb.TimeWindow]:
    slides = draw(st.sampled_from([[4], [3, 4, 6], [5, 10, 20]]))
    found = []
    for _ in range(draw(st.integers(1, 4))):
        slide = draw(st.sampled_from(slides))
        size = draw(st.sampled_from([slide // 2 or 1, slide, 2 * slide, 23, 40]))
        lateness = draw(st.sampled_from([2, 2, 2, 9]))
        offset = draw(st.sampled_from([0, 0, 1]))
        found.append(sb.TimeWindow(size, slide=slide, lateness=lateness, offset=offset))
    return found


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(
    windows=windows(),
    late=st.sampled_from([0, 2, 9, 30]),
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, 90), max_size=6),
    by=st.sampled_from([(), (), ("g",)]),
    shards=st.sampled_from([1, 1, 2]),
    forgetful=st.booleans(),
    changes=st.booleans(),
)
def test_answers_are_those_of_the_embedded_engine(
    kind: str, windows: list[sb.TimeWindow], late: int, seed: int, cuts: list[int],
    by: tuple[str, ...], shards: int, forgetful: bool, changes: bool,
) -> None:  # fmt: skip
    board = board_of(kind, windows, by=by)
    changes = changes and shards == 1
    table = rows(seed, late=late)
    job = BoardJob(board, {"": table}, forgetful, shards=shards, changes=changes)
    monitor = sb.Monitor(board)
    for low, high in pairwise(sorted({0, 90, *cuts})):
        batch = table.slice(low, high - low)
        found, want = job.push({"": batch}), monitor.push(batch)
        for name in board:
            assert plain(found[name]) == shown(want, name, changes), name
    stats = monitor.stats()
    for name in board:
        assert job.counts[name]["rows_late"] == stats[name]["rows_late"], name
        if shards == 1 and not by:
            assert job.counts[name]["windows_out"] == stats[name]["windows_out"], name


SLIDES = [sb.TimeWindow(60, slide=10), sb.TimeWindow(90, slide=15), sb.TimeWindow(45, slide=5)]


def pushed(job: BoardJob, monitor: sb.Monitor, table: pa.Table, step: int) -> int:
    """Push a table in batches to both, compare, and count the rows of all answers."""
    answered = 0
    for low in range(0, len(table), step):
        batch = table.slice(low, step)
        found, want = job.push({"": batch}), monitor.push(batch)
        for name in monitor.board.queries:
            assert plain(found[str(name)]) == shown(want, str(name), changes=False), name
            answered += len(found[str(name)])
    return answered


def sessions() -> list[Any]:
    return [each for kept, _ in SESSIONS.kept.values() for each in kept.values()]


@pytest.mark.parametrize("kind", KINDS)
def test_queries_share_one_key_one_session_and_each_pane(kind: str) -> None:
    SESSIONS.kept.clear()
    board, table = board_of(kind, SLIDES), rows(1, 400)
    job, monitor = BoardJob(board, {"": table}), sb.Monitor(board)
    assert pushed(job, monitor, table, 50) > 100
    assert len(job.stores) == 1
    ((key, head),) = job.kept().items()
    assert key[0].startswith(f"{kind} family")
    assert head["unions"] == [list(board)]
    assert head["pieces"]["audiences"] == [list(board)]
    (session,) = sessions()
    assert session.united
    longest = BoardJob({"q1": board["q1"]}, {"": table})
    pushed(longest, sb.Monitor({"q1": board["q1"]}), table, 50)
    alone, together = (
        sum(map(len, next(iter(j.stores.values())).kept.values())) for j in (longest, job)
    )
    assert together < 3.5 * alone  # five times as many panes of the same rows


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("forgetful", [False, True])
def test_queries_with_groups_keep_one_state_in_each_bucket(kind: str, forgetful: bool) -> None:
    SESSIONS.kept.clear()
    board, table = board_of(kind, SLIDES, by=("g",)), rows(1, 300)
    job, monitor = BoardJob(board, {"": table}, forgetful), sb.Monitor(board)
    assert pushed(job, monitor, table, 20) > 200
    if forgetful:
        return
    assert {label for label, *_ in job.stores} == set(job.plan.labels)
    assert [session.united for session in sessions()] == [True] * len(set(table["g"].to_pylist()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by", [(), ("g",)])
def test_sessions_that_are_built_again_go_on(kind: str, by: tuple[str, ...]) -> None:
    """Queries whose windows end at different times have to find the panes that they still need."""
    table, windows = rows(1, 240), [sb.TimeWindow(60, slide=5), sb.TimeWindow(90, slide=45)]
    table = table.set_column(0, "t", pa.array(1_000 + np.arange(240)))
    for low in (0, 20):
        board = board_of(kind, windows, by=by)
        job, monitor = BoardJob(board, {"": table}), sb.Monitor(board)
        pushed(job, monitor, table.slice(0, 100 + low), 20)
        SESSIONS.kept.clear()
        assert pushed(job, monitor, table.slice(100 + low), 5) > 20


@pytest.mark.parametrize("forgetful", [False, True])
def test_queries_that_keep_columns_share_their_counts_if_their_slides_are_the_same(
    forgetful: bool,
) -> None:
    SESSIONS.kept.clear()
    windows = [sb.TimeWindow(size, slide=10) for size in (60, 30, 100)]
    board, table = board_of("HeavyHitters", windows, keep=("y",)), rows(1, 300)
    job, monitor = BoardJob(board, {"": table}, forgetful), sb.Monitor(board)
    assert pushed(job, monitor, table, 20) > 100
    if not forgetful:
        (session,) = sessions()
        lists = {id(each.synopsis.counts.lists) for each in session.sessions.values()}
        assert len(lists) == 1


def test_a_query_that_shares_with_none_has_its_own_key() -> None:
    table = rows(1)
    board: Board = {
        "apart": sb.HeavyHitters(k=1, item="id", time="t", capacity=50, window=SLIDES[0]),
        **board_of("TopK", SLIDES),
    }
    job, monitor = BoardJob(board, {"": table}), sb.Monitor(board)
    pushed(job, monitor, table, 30)
    assert [label.split()[0] for label, *_ in job.stores] == ["apart", "TopK"]
    assert list(job.plan.labels.values()) == [["apart"], ["q0", "q1", "q2"]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_is_late_for_some_is_stored_for_the_others(kind: str) -> None:
    SESSIONS.kept.clear()
    board = board_of(kind, SLIDES)
    table = rows(2, 200).sort_by("t")
    last = -(-int(table["t"].to_numpy().max()) // 30) * 30 + 25  # that is 25 after a common cut
    more = {"id": ["a", "b"], "g": ["g", "g"], "x": [3, 9], "y": [3, 0]}
    late = pa.table({"t": [last, last - 1], **more}).cast(table.schema)
    job, monitor = BoardJob(board, {"": table}), sb.Monitor(board)
    pushed(job, monitor, table, 40)
    pushed(job, monitor, late.slice(0, 1), 1)
    assert [session.united for session in sessions()] == [True]
    # 24 after the cut: the slides of 10 and 5 have sealed up to 20 and 25, that of 15 up to 15.
    pushed(job, monitor, late.slice(1), 1)
    (head,) = job.kept().values()
    assert [len(names) for names in head["pieces"]["audiences"]] == [3, 2]
    assert job.counts["q2"]["rows_late"] == 1
    assert job.counts["q0"]["rows_late"] == job.counts["q1"]["rows_late"] == 0
    after = rows(3, 300).sort_by("t")
    shift = last - int(after["t"].to_numpy().min())
    after = after.set_column(0, "t", pa.array(after["t"].to_numpy() + shift))
    pushed(job, monitor, after.slice(0, 10), 5)
    assert not any(session.united for session in sessions())
    assert pushed(job, monitor, after.slice(10), 20) > 50
    assert [session.united for session in sessions()] == [True]  # that row is in no window any more


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("forgetful", [False, True])
def test_queries_come_and_go_while_the_others_go_on(kind: str, forgetful: bool) -> None:
    board = board_of(kind, SLIDES)
    table = rows(4, 300).sort_by("t")
    job, monitor = BoardJob(board, {"": table}, forgetful), sb.Monitor(board)
    pushed(job, monitor, table.slice(0, 100), 20)
    added = query(kind, 9, sb.TimeWindow(20, slide=4))
    job.restart({"q0": board["q0"], "q2": board["q2"], "added": added})
    seen = job.watermark
    alone, found = sb.Monitor({"added": added}), []
    alone.push(table.slice(0, 100))
    want: list[Any] = []
    for low in range(100, 300, 20):
        batch = table.slice(low, 20)
        got, wanted = job.push({"": batch}), monitor.push(batch)
        for name in ("q0", "q2"):
            assert plain(got[name]) == shown(wanted, name, changes=False), name
        found += got["added"]
        want += shown(alone.push(batch), "added", changes=False)
    assert plain(found) == plain([row for row in want if row["window_start"] >= seen])
    assert len(found) > 5
    (head,) = job.kept().values()
    assert set(head["members"]) == {"q0", "q2", "added"}
    assert head["unions"] == [["q0", "q2"], ["added"]]
    assert all("q1" not in names for names in head["pieces"]["audiences"])


def test_the_state_of_a_family_goes_with_its_last_query() -> None:
    table = rows(4, 200).sort_by("t")
    other: Board = {"often": query("HeavyHitters", 2, SLIDES[0])}
    board = board_of("TopK", SLIDES)
    job = BoardJob(board | other, {"": table})
    job.push({"": table.slice(0, 100)})
    job.restart(other)
    job.push({"": table.slice(100)})
    (gone,) = (store for key, store in job.stores.items() if key[0].startswith("TopK"))
    assert gone.blob is None
    assert not gone.kept


def test_a_changed_query_is_refused() -> None:
    table = rows(4, 200).sort_by("t")
    board = board_of("TopK", SLIDES)
    for changed in (query("TopK", 8, SLIDES[1]), query("HeavyHitters", 2, SLIDES[1])):
        job = BoardJob(board, {"": table})
        job.push({"": table.slice(0, 100)})
        job.restart(board | {"q1": changed})
        with pytest.raises(EngineError, match="belongs to another query"):
            job.push({"": table.slice(100)})


def test_states_by_query_are_refused_unless_the_board_is_keyed_so() -> None:
    """Version 0.2.0 had a key for each query; a job whose checkpoint it wrote goes on with them."""
    table = rows(4, 200).sort_by("t")
    board = board_of("TopK", SLIDES)
    old, monitor = BoardJob(board, {"": table}), sb.Monitor(board)
    told = {name: each for name, each in old.plan.identity.items() if name != "keys"}
    old.plan = old.plan.keyed_as(told)
    assert list(old.plan.labels) == ["q0", "q1", "q2"]
    assert old.plan.identity == told
    pushed(old, monitor, table.slice(0, 100), 20)
    assert {key[0] for key in old.stores} == {"q0", "q1", "q2"}
    assert pushed(old, monitor, table.slice(100), 20) > 20
    new = BoardJob(board, {"": table})
    assert new.plan.keyed_as(new.plan.identity) is new.plan
    assert new.plan.keyed_as(None) is new.plan
    new.stores, new.timers = old.stores, old.timers
    new.watermark = max(old.timers.values())
    with pytest.raises(EngineError, match=r"0\.2\.0"):
        new.push({"": table.slice(100)})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("by", [(), ("g",)])
def test_a_batch_gives_the_same_tables(kind: str, shards: int, by: tuple[str, ...]) -> None:
    windows = [*SLIDES, sb.TimeWindow(3, slide=7), sb.TimeWindow(10, slide=5, lateness=3)]
    board, table = board_of(kind, windows, by=by), rows(5, 200, late=20)
    found = ranked_batch(board, table, shards=shards)
    for name, want in sb.rank(table, board).items():
        assert plain(found[name]) == plain(want.to_pylist()), name


def test_pieces_of_open_panes_are_joined_when_they_are_many() -> None:
    board, table = board_of("TopK", [sb.TimeWindow(100, slide=100)] * 2), rows(6, 120)
    table = table.set_column(0, "t", pa.array(1_000 + np.arange(120) // 2))
    job, monitor = BoardJob(board, {"": table}), sb.Monitor(board)
    pushed(job, monitor, table, 1)
    (store,) = job.stores.values()
    assert 0 < len(store.kept) <= 32
    end = table.slice(119).set_column(0, "t", pa.array([1_200]))
    assert pushed(job, monitor, end, 1) == 1 + 3
