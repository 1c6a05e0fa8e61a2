"""Queries of a board on Spark that are readers of one fold: one key, each pane stored once.

The parts run in one process, with simulated batches and timers. Answers equal the embedded ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.engine.fold import folds_of, widest
from skyband.errors import EngineError
from skyband.jobs.spark.checkpoint import closing_of
from skyband.spark.bucket import CACHED_FOLDS
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


def plain(answers: Sequence[dict[str, Any]]) -> list[Any]:
    return sorted(answers, key=lambda row: [repr(value) for value in row.values()])


def shown(answers: Sequence[sb.Answer], name: str, changes: bool = False) -> list[Any]:
    own = [answer for answer in answers if answer.name == name]
    if not changes:
        return plain([row for answer in own for row in answer.table.to_pylist()])
    edges = [{"window_start": answer.start, "window_end": answer.end} for answer in own]
    both = zip(edges, own, strict=True)
    return plain([edge | row for edge, answer in both for row in answer.changes.to_pylist()])


SAME = [sb.TimeWindow(60, slide=10), sb.TimeWindow(90, slide=10), sb.TimeWindow(20, slide=10)]
MIXED = [*SAME, sb.TimeWindow(45, slide=5), sb.TimeWindow(3, slide=7)]


@st.composite
def windows(draw: st.DrawFn, count: int = 4) -> list[sb.TimeWindow]:
    """Most have the same slide, so that their queries may be readers of one fold."""
    slides = draw(st.sampled_from([[4], [10], [3, 4, 6], [5, 10]]))
    drawn = []
    for _ in range(draw(st.integers(1, count))):
        slide = draw(st.sampled_from(slides))
        size = draw(st.sampled_from([slide // 2, slide, 2 * slide, 5 * slide, 23, 40]))
        lateness = draw(st.sampled_from([2, 2, 2, 9]))
        offset = draw(st.sampled_from([0, 0, 0, 1]))
        drawn.append(sb.TimeWindow(size, slide=slide, lateness=lateness, offset=offset))
    return drawn


FORGETFUL = st.sampled_from([0.0, 0.3, 1.0])
"""How often the folds are built again from what is stored, as after a restart."""


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12)
@given(
    windows=windows(),
    late=st.sampled_from([0, 2, 9, 30]),
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, 90), max_size=6),
    by=st.sampled_from([(), (), ("g",)]),
    shards=st.sampled_from([1, 1, 2]),
    forgetful=FORGETFUL,
    changes=st.booleans(),
)
def test_answers_are_those_of_the_embedded_engine(
    kind: str, windows: list[sb.TimeWindow], late: int, seed: int, cuts: list[int],
    by: tuple[str, ...], shards: int, forgetful: float, changes: bool,
) -> None:  # fmt: skip
    board, table = board_of(kind, windows, by=by), rows(seed, late=late)
    job = BoardJob(board, {"": table}, shards=shards, changes=changes)
    monitor, chance = sb.Monitor(board), np.random.default_rng(seed)
    for low, high in pairwise(sorted({0, 90, *cuts})):
        batch = table.slice(low, high - low)
        job.forgetful = bool(chance.random() < forgetful)
        answers, want = job.push({"": batch}), monitor.push(batch)
        for name in board:
            assert plain(answers[name]) == shown(want, name, changes), name
    stats = monitor.stats()
    for name in board:
        assert job.counts[name]["rows_late"] == stats[name]["rows_late"], name
        if shards == 1 and not by:
            assert job.counts[name]["windows_out"] == stats[name]["windows_out"], name


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=7)
@given(
    windows=windows(6),
    lives=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=6, max_size=6),
    late=st.sampled_from([0, 9]),
    seed=st.integers(0, 1000),
    by=st.sampled_from([(), (), ("g",)]),
    shards=st.sampled_from([1, 1, 2]),
    forgetful=FORGETFUL,
)
def test_queries_come_and_go_while_the_others_go_on(
    kind: str, windows: list[sb.TimeWindow], lives: list[tuple[int, int]], late: int, seed: int,
    by: tuple[str, ...], shards: int, forgetful: float,
) -> None:  # fmt: skip
    """A query that is added answers the windows that begin at or after what was seen.

    It has not seen a row of that very time, so the window that begins with it is not compared.
    """
    table, chance = rows(seed, 160, late), np.random.default_rng(seed)
    board = board_of(kind, [*windows, windows[0]], by=by)
    board = {name: board[name] for name in chance.permutation(list(board)).tolist()}
    lives = [*lives[: len(board) - 1], (0, 4)]  # one stays, so that the board is never empty
    spans = dict(zip(board, lives, strict=True))
    first = {n: query for n, query in board.items() if spans[n][0] == 0}
    job = BoardJob(first, {"": table}, shards=shards)
    alone = {name: sb.Monitor({name: query}) for name, query in board.items()}
    since = dict.fromkeys(first, 0)
    for part in range(4):
        now = {n: q for n, q in board.items() if spans[n][0] <= part < sum(spans[n])}
        since |= {name: job.watermark for name in now if name not in since}
        job.restart(now)
        for low in range(40 * part, 40 * part + 40, 10):
            batch = table.slice(low, 10)
            job.forgetful = bool(chance.random() < forgetful)
            answers = job.push({"": batch})
            for name, monitor in alone.items():
                want = [row for row in shown(monitor.push(batch), name) if _after(row, since, name)]
                if name in now:
                    assert all(row["window_start"] >= since[name] for row in answers[name])
                    mine = [row for row in answers[name] if _after(row, since, name)]
                    assert plain(mine) == want, name
    for key, head in job.kept().items():
        assert set(head["queries"]) == set(job.plan.labels.get(key[0], head["queries"]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("known", [[], ["q1"]])
def test_each_query_that_is_added_begins_with_its_own_first_window(
    kind: str, known: list[str]
) -> None:
    """Also if others with the same label, and longer windows, are added at the same time."""
    table = rows(4, 300).set_column(0, "t", pa.array(1_000 + np.arange(300)))
    board, other = board_of(kind, SAME), query("TopK", 1, MIXED[3])
    job = BoardJob({"other": other} | {name: board[name] for name in known}, {"": table})
    job.push({"": table.slice(0, 100)})
    job.restart({"other": other} | board)
    answers = job.push({"": table.slice(100)})
    for name, own in board.items():
        if name not in known:
            monitor = sb.Monitor({name: own})
            want = shown(monitor.push(table.slice(100)), name)
            assert plain(answers[name]) == [row for row in want if row["window_start"] >= 1_100]
            assert min(row["window_start"] for row in answers[name]) == 1_100


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shards", [1, 2])
def test_a_reader_goes_on_without_the_one_with_the_longest_window(kind: str, shards: int) -> None:
    """Panes that only that one's windows covered are no longer there."""
    short, long = sb.TimeWindow(4, slide=4, lateness=2), sb.TimeWindow(12, slide=4, lateness=2)
    table, board = rows(3, 160), board_of(kind, [short, long])
    job, monitor = BoardJob(board, {"": table}, shards=shards), sb.Monitor(board)
    for low in range(0, 160, 10):
        if low == 40:
            job.restart({"q0": board["q0"]})
        batch = table.slice(low, 10)
        answers, want = job.push({"": batch}), monitor.push(batch)
        for name in job.plan.plans:
            assert plain(answers[name]) == shown(want, name), (low, name)


@pytest.mark.parametrize("shards", [1, 2])
def test_another_query_may_have_the_name_of_one_that_was_removed(shards: int) -> None:
    """Its changes begin with an empty answer, and not with the last one of the other query."""
    table = rows(4, 300).set_column(0, "t", pa.array(1_000 + np.arange(300)))
    often, later = query("HeavyHitters", 2, SAME[0]), query("TopK", 2, SAME[2])
    boards: list[Board] = [
        {"often": often, "q": query("TopK", 3, SAME[0])}, {"often": often},
        {"often": often, "q": later},
    ]  # fmt: skip
    job = BoardJob(boards[0], {"": table}, shards=shards, changes=True)
    for part, board in enumerate(boards):
        job.restart(board)
        answers = job.push({"": table.slice(part * 100, 100)})
    answer = sb.rank(table.slice(200), later).to_pylist()
    first = [row for row in answer if row["window_start"] == 1_200]
    changed = [row for row in answers["q"] if row["window_start"] == 1_200]
    assert [row["change"] for row in changed] == ["enter"] * len(first) != []


@pytest.mark.parametrize("board", [("fresh", "known"), ("known", "fresh")])
def test_a_query_that_is_added_after_a_job_was_closed(board: tuple[str, ...]) -> None:
    """Rows of closed windows are late for the others, wherever it stands on the board."""
    window = sb.TimeWindow(20, slide=10)
    queries: Board = {"known": query("TopK", 2, window), "fresh": query("TopK", 1, window)}
    table = rows(1, 40).set_column(0, "t", pa.array(1_000 + np.arange(40)))
    job = BoardJob({"known": queries["known"]}, {"": table})
    job.push({"": table})
    closing = closing_of(job.plan, 1_039)
    assert closing is not None
    job.plan = replace(job.plan, closing=closing)
    job.watermark = closing.watermark_ms
    ends = {row["window_end"] for row in job.push({})["known"]}
    assert max(ends) == closing.watermark_ms == 1_040
    job.restart({name: queries[name] for name in board})
    job.plan = replace(job.plan, closing=closing)
    job.push({"": table.slice(35)})
    assert job.counts["known"]["rows_late"] == 5


def _after(row: dict[str, Any], since: dict[str, int], name: str) -> bool:
    return bool(row["window_start"] > since.get(name, 0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by", [(), ("g",)])
def test_readers_share_keys_and_each_pane_is_stored_once(kind: str, by: tuple[str, ...]) -> None:
    CACHED_FOLDS.kept.clear()
    board, table = board_of(kind, MIXED, by=by), rows(1, 300)
    job, folds = BoardJob(board, {"": table}), folds_of(board)
    for low in range(0, 300, 20):
        job.push({"": table.slice(low, 20)})
    assert sorted(job.plan.labels.values()) == sorted(folds)
    assert {key[0] for key in job.stores} == set(job.plan.labels)
    for key, head in job.kept().items():
        (fold,) = head["folds"]
        assert fold["names"] == job.plan.labels[key[0]]
    built = [names for live, _ in CACHED_FOLDS.kept.values() for names, _ in live]
    assert built
    assert all(names in folds for names in built)
    for label, names in job.plan.labels.items():
        one = BoardJob({"one": widest([board[name] for name in names])}, {"": table})
        for low in range(0, 300, 20):
            one.push({"": table.slice(low, 20)})
        mine = {key: store for key, store in job.stores.items() if key[0] == label}
        assert stored(mine) == stored(one.stores)


def stored(stores: Any) -> int:
    return sum(len(blob) for store in stores.values() for blob in store.kept.values())


def test_labels_do_not_depend_on_which_queries_there_are() -> None:
    table = rows(1)
    board: Board = {
        "apart": sb.HeavyHitters(k=1, item="id", time="t", capacity=50, window=SAME[0]),
        **board_of("TopK", MIXED),
    }
    labels = BoardJob(board, {"": table}).plan.labels
    assert list(labels.values()) == folds_of(board)
    for name, own in board.items():
        (label,) = BoardJob({name: own}, {"": table}).plan.labels
        assert name in labels[label]


def test_the_state_of_a_label_goes_with_its_last_query() -> None:
    table = rows(4, 200).sort_by("t")
    other: Board = {"often": query("HeavyHitters", 2, SAME[0])}
    board = board_of("TopK", SAME)
    job = BoardJob(board | other, {"": table})
    job.push({"": table.slice(0, 100)})
    gone = {key: store for key, store in job.stores.items() if key[0] not in _labels(other)}
    assert all(store.blob is not None for store in gone.values())
    job.restart(other)
    job.push({"": table.slice(100)})
    assert [(store.blob, store.kept) for store in gone.values()] == [(None, {})] * len(gone)


def _labels(board: Board) -> list[str]:
    return list(BoardJob(board, {"": rows(1)}).plan.labels)


@pytest.mark.parametrize(
    "changed", [query("TopK", 8, SAME[1]), query("TopK", 3, SAME[0]), query("TopK", 3, MIXED[3])]
)
def test_a_changed_query_is_refused(changed: sb.Query) -> None:
    """Another query of the same name must not go on with its state."""
    table = rows(4, 200).sort_by("t")
    board = board_of("TopK", SAME)
    job = BoardJob(board, {"": table})
    job.push({"": table.slice(0, 100)})
    job.restart(board | {"q1": changed})
    with pytest.raises(EngineError, match="belongs to another query"):
        job.push({"": table.slice(100)})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("by", [(), ("g",)])
def test_a_batch_gives_the_same_tables(kind: str, shards: int, by: tuple[str, ...]) -> None:
    windows = [*MIXED, sb.TimeWindow(10, slide=5, lateness=3)]
    board, table = board_of(kind, windows, by=by), rows(5, 200, late=20)
    ranked = ranked_batch(board, table, shards=shards)
    for name, want in sb.rank(table, board).items():
        assert plain(ranked[name]) == plain(want.to_pylist()), name
    changed = ranked_batch(board, table, shards=shards, changes=True)
    answers = [*sb.watch([table], board)]
    for name in board:
        assert plain(changed[name]) == shown(answers, name, changes=True), name


def test_pieces_of_open_panes_are_joined_when_they_are_many() -> None:
    board, table = board_of("TopK", [sb.TimeWindow(100, slide=100)] * 2), rows(6, 120)
    table = table.set_column(0, "t", pa.array(1_000 + np.arange(120) // 2))
    end = table.slice(119).set_column(0, "t", pa.array([1_200]))
    job, monitor = BoardJob(board, {"": table}), sb.Monitor(board)
    for low in range(len(table)):
        job.push({"": table.slice(low, 1)})
    monitor.push(table)
    for store in job.stores.values():
        assert 0 < len(store.kept) <= 33
    answers, want = job.push({"": end}), monitor.push(end)
    for name in board:
        assert plain(answers[name]) == shown(want, name) != []
