"""Boards: several queries over one stream, each answered as if it were alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb

TEN = sb.TimeWindow(10, slide=5)
BUSIEST = sb.TopK(k=2, score="x", id="id", time="t", window=TEN)
TALKERS = sb.HeavyHitters(k=2, item="id", time="t", window=sb.TimeWindow(20, slide=4, lateness=3))
LATEST = sb.TopK(k=1, score="x", id="id", window=sb.CountWindow(4, slide=3))
BOARD = {"busiest": BUSIEST, "talkers": TALKERS, "latest": LATEST}


def rows(count: int = 40, seed: int = 0) -> pa.Table:
    made = np.random.default_rng(seed)
    return pa.table(
        {
            "t": np.sort(made.integers(0, 60, count)),
            "id": [f"id{n}" for n in made.integers(0, 6, count)],
            "x": made.integers(0, 50, count).astype(float),
            "unused": [None] * count,
        }
    )


def shown(answers: list[sb.Answer]) -> list[Any]:
    return [(a.start, a.end, a.table, a.changes, a.total, a.exact, a.bounds) for a in answers]


def of(name: str, answers: list[sb.Answer]) -> list[sb.Answer]:
    return [answer for answer in answers if answer.name == name]


def test_rank_gives_one_table_per_query_each_equal_to_that_of_the_query_alone() -> None:
    table = rows()
    found = sb.rank(table, BOARD)
    assert list(found) == ["busiest", "talkers", "latest"]
    for name, query in BOARD.items():
        assert found[name].equals(sb.rank(table, query)), name


def test_a_table_that_is_not_sorted_is_sorted_only_for_those_that_have_a_time() -> None:
    table = rows().take(np.random.default_rng(1).permutation(40))
    other = {"by_id": sb.TopK(k=1, score="x", time="n", window=sb.TimeWindow(8))}
    table = table.append_column("n", pa.array(np.random.default_rng(2).permutation(40)))
    found = sb.rank(table, BOARD | other)
    for name, query in (BOARD | other).items():
        assert found[name].equals(sb.rank(table, query)), name


def test_files_and_iterables(tmp_path: Path) -> None:
    table = rows(60)
    for part in range(3):
        pq.write_table(table.slice(20 * part, 20), tmp_path / f"part{part}.parquet")
    want = {name: sb.rank(table, query) for name, query in BOARD.items()}
    assert sb.rank(str(tmp_path / "*.parquet"), BOARD) == want
    assert sb.rank((table.slice(at, 7) for at in range(0, 60, 7)), BOARD) == want


def test_watch_gives_the_answers_of_one_push_query_by_query() -> None:
    batches = [rows().slice(at, 8) for at in range(0, 40, 8)]
    alone = {name: sb.Monitor(query) for name, query in BOARD.items()}
    want: list[Any] = []
    for batch in batches:
        want += [(n, each) for n, m in alone.items() for each in shown(m.push(batch))]
    want += [(name, each) for name, m in alone.items() for each in shown(m.flush())]
    found = list(sb.watch(batches, BOARD))
    assert [(a.name, *shown([a])) for a in found] == [(name, each) for name, each in want]
    assert {answer.name for answer in found} == set(BOARD)


def test_a_query_that_stands_alone_has_no_name() -> None:
    assert {answer.name for answer in sb.watch(rows(), BUSIEST)} == {None}
    assert {answer.name for answer in sb.watch(rows(), {"busiest": BUSIEST})} == {"busiest"}
    assert "busiest" in repr(next(sb.watch(rows(), {"busiest": BUSIEST})))


def test_peek_and_stats_go_by_name() -> None:
    monitor, alone = sb.Monitor(BOARD), {name: sb.Monitor(query) for name, query in BOARD.items()}
    for batch in (rows().slice(0, 25), rows().slice(25, 10)):
        monitor.push(batch)
        for each in alone.values():
            each.push(batch)
    for name, each in alone.items():
        found = monitor.peek(name)
        assert found.name == name
        assert shown([found]) == shown([each.peek()])
        assert monitor.stats()[name] == each.stats()
    assert shown([monitor.peek("busiest", last=5)]) == shown([alone["busiest"].peek(5)])
    stats = monitor.stats()
    assert stats["rows_in"] == 35
    for name in ("windows_out", "retained", "state_bytes"):
        assert stats[name] == sum(each.stats()[name] for each in alone.values())
    for asked in (None, "nobody", 3):
        with pytest.raises(sb.QueryError, match="'busiest', 'talkers', 'latest'"):
            monitor.peek(asked)


def test_a_snapshot_goes_on() -> None:
    monitor = sb.Monitor(BOARD, on_bad="skip")
    monitor.push(rows().slice(0, 23))
    restored = sb.Monitor.restore(monitor.snapshot())
    assert restored.query == BOARD
    assert restored.snapshot() == monitor.snapshot()
    for each in (monitor, restored):
        each._check()
    assert shown(restored.push(rows().slice(23))) == shown(monitor.push(rows().slice(23)))
    for name in ("rows_in", "windows_out", "retained"):
        assert restored.stats()[name] == monitor.stats()[name]
    assert shown(restored.flush()) == shown(monitor.flush())
    assert sb.Monitor.restore(sb.Monitor(BOARD).snapshot()).push(rows())


def worst(scores: np.ndarray) -> np.ndarray:
    return np.asarray(scores.min(axis=1))


def test_a_snapshot_of_a_board_takes_functions_by_the_name_of_their_query() -> None:
    fused = sb.FusedTopK(
        k=1, id="id", stream="s", value="x", streams=("a", "b"), combine=worst,
        bounds=(0.0, 50.0), recurrences=9, time="t", window=TEN,
    )  # fmt: skip
    table = rows().append_column("s", pa.array(["a", "b"] * 20))
    monitor = sb.Monitor({"worst": fused, "busiest": BUSIEST})
    monitor.push(table.slice(0, 20))
    blob = monitor.snapshot()
    with pytest.raises(sb.EngineError, match="combine= was a function"):
        sb.Monitor.restore(blob)
    for given in (worst, {"nobody": worst}):
        with pytest.raises(sb.EngineError, match="combine= must map names"):
            sb.Monitor.restore(blob, combine=given)
    restored = sb.Monitor.restore(blob, combine={"worst": worst})
    assert shown(restored.push(table.slice(20))) == shown(monitor.push(table.slice(20)))


def test_bad_rows_are_counted_by_name_and_move_the_mark_of_all() -> None:
    batch = pa.table(
        {
            "t": [1, 2, 30],
            "id": ["a", None, "c"],
            "x": pa.array([1.0, 2.0, None], pa.float64()),
        }
    )
    monitor = sb.Monitor(BOARD, on_bad="skip")
    answers = monitor.push(batch)
    stats = monitor.stats()
    assert [stats[name]["rows_bad"] for name in BOARD] == [2, 1, 2]
    assert [stats[name]["rows_in"] for name in BOARD] == [3, 3, 3]
    assert of("busiest", answers)[0].table["id"].to_pylist() == ["a"]  # the bad row moved the mark
    assert of("talkers", answers)[0].table["id"].to_pylist() == ["a"]


FAULTS = {
    "a bad row": (pa.table({"t": [99], "id": ["a"], "x": [np.nan]}), sb.DataError, "the score"),
    "a column that is missing": (pa.table({"t": [99], "x": [1.0]}), sb.SchemaError, "'id'"),
    "another type": (pa.table({"t": [99], "id": [1], "x": [1.0]}), sb.SchemaError, "'id' had type"),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("first", [True, False])
def test_an_error_in_one_query_leaves_all_as_they_were(name: str, first: bool) -> None:
    batch, error, told = FAULTS[name]
    board = {"talkers": TALKERS, "groups": sb.HeavyHitters(
        k=1, item="t", by=("id",), time="t", window=TEN), "busiest": BUSIEST}  # fmt: skip
    if first and name == "another type":
        board = {"talkers": TALKERS}
        batch = batch.set_column(0, "t", pa.array(["soon"]))
        told = "'t'"
    monitor = sb.Monitor(board)
    if not first:
        monitor.push(rows())
    before, stats = monitor.snapshot(), monitor.stats()
    with pytest.raises(error, match=f"query '.*{told}"):
        monitor.push(batch)
    assert monitor.snapshot() == before
    assert monitor.stats() == stats
    want = sb.Monitor(board)
    if not first:
        want.push(rows())
    more = rows() if first else pa.table({"t": [99], "id": ["a"], "x": [1.0]})
    assert shown(monitor.push(more)) == shown(want.push(more))
    assert shown(monitor.flush()) == shown(want.flush())


def test_an_error_in_a_fold_leaves_all_as_they_were() -> None:
    fails = True

    def fragile(scores: np.ndarray) -> np.ndarray:
        if fails and (scores == 60.0).any():
            raise ZeroDivisionError
        return np.asarray(scores.sum(axis=1))

    fused = sb.FusedTopK(
        k=1, id="id", stream="s", value="x", streams=("a", "b"), combine=fragile,
        bounds=(0.0, 99.0), time="t", window=TEN,
    )  # fmt: skip
    board = {"busiest": BUSIEST, "fused": fused, "talkers": TALKERS}
    first = pa.table({"t": [1, 6, 11], "id": ["a", "b", "c"], "x": [1.0, 2.0, 3.0], "s": ["a"] * 3})
    then = pa.table({"t": [14, 21], "id": ["a", "b"], "x": [60.0, 4.0], "s": ["b", "a"]})
    monitor, want = sb.Monitor(board), sb.Monitor(board)
    monitor.push(first)
    want.push(first)
    before = monitor.snapshot()
    with pytest.raises(ZeroDivisionError):
        monitor.push(then)
    assert monitor.snapshot() == before
    assert [monitor.stats()[name]["rows_in"] for name in board] == [3, 3, 3]
    fails = False
    assert shown(monitor.push(then)) == shown(want.push(then))


def test_a_late_row_in_one_query_stops_all() -> None:
    late = [rows().slice(0, 30), rows().slice(20)]
    tolerant = sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow(10, lateness=60))
    with pytest.raises(sb.DataError, match=r"query 'strict': .* came too late"):
        sb.rank(late, {"tolerant": tolerant, "strict": BUSIEST})
    with pytest.warns(sb.SkybandWarning):
        found = sb.rank(late, {"tolerant": tolerant, "strict": BUSIEST}, on_bad="skip")
    with pytest.warns(sb.SkybandWarning):
        assert found["strict"].equals(sb.rank(late, BUSIEST, on_bad="skip"))
    assert found["tolerant"].equals(sb.rank(late, tolerant))


def test_the_error_about_a_bad_row_names_its_row_in_the_table() -> None:
    table = pa.table({"t": [9, 3, 5], "id": ["a", "b", "c"], "x": [1.0, None, 2.0]})
    with pytest.raises(sb.DataError, match=r"query 'busiest': .*row 1"):
        sb.rank(table, {"talkers": TALKERS, "busiest": BUSIEST})


def test_a_batch_in_pieces_that_lacks_a_column() -> None:
    pieces = pa.concat_tables([rows(), rows()]).drop_columns(["x"])
    filtered = sb.HeavyHitters(k=1, item="id", time="t", window=TEN, where={"none": 1})
    for query, missing in ((BUSIEST, "x"), (filtered, "none")):
        with pytest.raises(sb.SchemaError, match=f"query 'second': .*{missing}"):
            sb.Monitor({"talkers": TALKERS, "second": query}).push(pieces)
    assert sb.Monitor({"talkers": TALKERS, "more": TALKERS}).push(pieces)


def test_each_query_reads_its_own_sources() -> None:
    def fused(*streams: str) -> sb.FusedTopK:
        return sb.FusedTopK(
            k=2, id="id", value="x", streams=streams, bounds=(0.0, 50.0), recurrences=99,
            time="t", window=TEN,
        )  # fmt: skip

    sources = {name: rows(seed=n) for n, name in enumerate("abc")}
    board = {"ab": fused("a", "b"), "bc": fused("b", "c")}
    found = sb.rank(sources, board)
    for name, query in board.items():
        own = {source: sources[source] for source in name}
        assert found[name].equals(sb.rank(own, query)), name
    monitor = sb.Monitor(board)
    monitor.push({"a": sources["a"]})
    assert [monitor.stats()[name]["rows_in"] for name in board] == [40, 0]
    monitor.push({"b": sources["b"], "c": sources["c"]})
    assert [monitor.stats()[name]["rows_in"] for name in board] == [80, 80]
    assert monitor.stats()["rows_in"] == 120
    with pytest.raises(sb.SchemaError, match="no query of the board reads source 'd'"):
        monitor.push({"d": sources["a"]})
    joined = sb.SkylineJoin(
        left="b", right="c", on="id", prefer={"b_x": "max"}, time="t", window=TEN
    )
    with pytest.raises(sb.SchemaError, match="query 'bc': source 'c' is missing"):
        sb.rank({"a": rows(), "b": rows()}, {"ab": fused("a", "b"), "bc": joined})
    with pytest.raises(sb.SchemaError, match=r"query 'busiest': TopK .* reads one source"):
        sb.rank(sources, board | {"busiest": BUSIEST})


@pytest.mark.parametrize(
    ("board", "told"),
    [
        ({}, "at least one query"),
        ({1: BUSIEST}, "must be text, not 1"),
        ({"": BUSIEST}, "must be text, not ''"),
        ({None: BUSIEST}, "must be text, not None"),
        ({"inner": {"busiest": BUSIEST}}, "'inner' is a mapping"),
        ({"busiest": "TopK"}, "'busiest' must be a query"),
    ],
)
def test_boards_that_make_no_sense(board: Any, told: str) -> None:
    for use in (sb.Monitor, lambda b: sb.rank(rows(), b), lambda b: sb.watch(rows(), b)):
        with pytest.raises(sb.QueryError, match=told):
            use(board)


def test_a_skyline_on_a_board_has_its_columns_in_the_order_of_the_source(tmp_path: Path) -> None:
    """Other queries may need the columns in another order."""
    table = pa.table({"z": [1, 2], "ts": [0, 1], "x": [3.0, 2.0], "a": ["p", "q"]})
    pq.write_table(table, tmp_path / "rows.parquet")
    window = sb.TimeWindow(10)
    board = {
        "best": sb.TopK(k=1, score="x", id="a", time="ts", window=window),
        "front": sb.Skyline(prefer={"x": "min"}, time="ts", window=window),
    }
    for source in (table, tmp_path / "rows.parquet"):
        found = sb.rank(source, board)["front"]
        assert found.column_names[2:] == table.column_names
        assert found.equals(sb.rank(source, board["front"]))
