"""``keep``: further columns of the rows in an answer, of any type, at the end of the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.contract.runs import Runs
from skyband.data.keys import hash_any, hash_kept
from skyband.engine.per_group import make_synopsis
from skyband.query import from_spec
from support.shards import sharded

TYPES: dict[str, pa.Array] = {
    "text": pa.array(["p", None, "r", "s", "t", "u"]),
    "list": pa.array([[1, 2], None, [], [4], [5, None], [6]]),
    "struct": pa.array([{"a": 1, "b": "q"}, None, {"a": None, "b": "z"}, {}, {"a": 5}, {"b": "x"}]),
    "map": pa.array([[("k", 1)], [], None, [("z", 3)], [("a", None)], []],
                    pa.map_(pa.string(), pa.int64())),
    "dict": pa.array(["x", "y", None, "x", "z", "y"]).dictionary_encode(),
    "deep": pa.array([[{"d": ["x"]}], [], None, [{"d": None}], [None], [{"d": []}]]),
    "coded": pa.array([{"d": "x"}, {"d": "y"}, None, {"d": "x"}, {"d": "z"}, {"d": None}],
                      pa.struct([("d", pa.dictionary(pa.int8(), pa.string()))])),
    "pair": pa.array([[1, 2], [3, 4], None, [5, 6], [7, 8], [9, None]], pa.list_(pa.int8(), 2)),
    "bytes": pa.array([b"a", b"", None, b"d", b"e", b"f"]),
    "bool": pa.array([True, None, False, True, True, False]),
    "decimal": pa.array([1, 2, 3, None, 5, 6], pa.decimal128(9, 2)),
    "null": pa.nulls(6),
    "interval": pa.array([(1, 2, 3), None, (0, 0, 1), (0, 0, 2), (0, 1, 0), (1, 0, 0)],
                         pa.month_day_nano_interval()),
}  # fmt: skip
TABLE = pa.table(
    {"t": [0, 1, 2, 3, 4, 5], "id": list("abcabc"), "x": [9, 2, 3, 5, 7, 1], "p": [0.5] * 6} | TYPES
)
KEEP = tuple(TYPES)
WINDOW = sb.TimeWindow(4, slide=2)
QUERIES: dict[str, dict[str, Any]] = {
    "TopK": {"score": "x", "id": "id"},
    "UncertainTopK": {"score": "x", "probability": "p", "id": "id"},
    "HeavyHitters": {"item": "id"},
}
CASES = [
    ("TopK", "skyband"), ("TopK", "mintopk"), ("TopK", "sma"), ("UncertainTopK", "scsq"),
    ("HeavyHitters", "exact"), ("HeavyHitters", "fsw"), ("HeavyHitters", "ss"),
    ("HeavyHitters", "fsp"),
]  # fmt: skip


def query_of(kind: str, **more: Any) -> Any:
    given = {"k": 2, "time": "t", "window": WINDOW, "keep": KEEP} | QUERIES[kind]
    return getattr(sb, kind)(**(given | more))


def wanted(kind: str, answer: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The kept columns that each row of an answer must have, looked up in ``TABLE``."""
    rows, found = TABLE.to_pylist(), []
    for row in answer:
        live = [
            r for r in rows
            if row["window_start"] <= r["t"] < row["window_end"] and r["id"] == row["id"]
        ]  # fmt: skip
        if kind == "HeavyHitters":
            found.append(max(live, key=lambda r: r["t"]))
        else:
            found.append(next(r for r in live if r["x"] == row["x"]))
    return [{name: row[name] for name in KEEP} for row in found]


@pytest.mark.parametrize(("kind", "algorithm"), CASES)
def test_any_type_is_kept(kind: str, algorithm: str) -> None:
    query = query_of(kind, algorithm=algorithm)
    table = sb.rank(TABLE, query)
    assert tuple(table.column_names[-len(KEEP) :]) == KEEP
    assert table.schema.field("dict").type == pa.string()
    for name in KEEP:
        if name != "dict":
            assert table.schema.field(name).type == TABLE.schema.field(name).type
    got = table.to_pylist()
    assert len(got) >= 6
    want = wanted(kind, got)
    assert [{name: row[name] for name in KEEP} for row in got] == want
    monitor, seen = sb.Monitor(query), []
    for number in range(6):
        seen += monitor.push(TABLE.slice(number, 1))
        monitor._check()
        monitor = sb.Monitor.restore(monitor.snapshot())
    seen += monitor.flush()
    assert [row for answer in seen for row in answer.table.to_pylist()] == got
    for answer in sharded(query, [TABLE.slice(0, 3), TABLE.slice(3)], 2):
        assert [{n: row[n] for n in KEEP} for row in answer.table] == wanted(kind, answer.table)


def test_changes_have_the_same_columns_with_and_without_keep() -> None:
    for more in ({}, {"id": None}):
        plain, kept = (
            list(sb.watch(TABLE, query_of("TopK", keep=keep, **more))) for keep in ((), KEEP)
        )
        for one, other in zip(plain, kept, strict=True):
            assert one.changes == other.changes


@pytest.mark.parametrize("kind", list(QUERIES))
def test_names_that_collide_are_refused_when_bound(kind: str) -> None:
    for name in ("rank", "window_end"):
        with pytest.raises(sb.SchemaError, match="name of an answer column"):
            sb.rank(TABLE.append_column(name, TABLE["x"]), query_of(kind, keep=(name,)))
    with pytest.raises(sb.SchemaError, match="keep names the column 'id'"):
        sb.rank(TABLE, query_of(kind, keep=("text", "id")))
    with pytest.raises(sb.SchemaError, match="keep names the column 'text'"):
        sb.rank(TABLE, query_of(kind, keep=("text",), by=("text",)))
    with pytest.raises(sb.SchemaError, match="'other' is missing"):
        sb.rank(TABLE, query_of(kind, keep=("other",)))
    with pytest.raises(sb.QueryError, match="twice"):
        query_of(kind, keep=("text", "text"))
    assert query_of(kind, keep="text").keep == ("text",)
    assert sb.rank(TABLE, query_of(kind, keep="text")).column_names[-1] == "text"


def test_a_count_collides_only_where_it_is_shown() -> None:
    table = TABLE.append_column("count", TABLE["x"])
    with pytest.raises(sb.SchemaError, match="name of an answer column"):
        sb.rank(table, query_of("HeavyHitters", keep=("count",)))
    assert sb.rank(table, query_of("TopK", keep=("count",)))["count"].to_pylist()[0] == 9
    # The time of an item is not shown, so it may be kept.
    assert "t" in sb.rank(table, query_of("HeavyHitters", keep=("t",))).column_names


def test_a_type_that_arrow_cannot_copy_is_refused() -> None:
    views = pa.array(["a"], pa.string_view())
    column = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [views])
    table = pa.table({"t": [0], "x": [1], "v": column})
    with pytest.raises(sb.SchemaError, match="leave it out of keep"):
        sb.rank(table, sb.TopK(k=1, score="x", time="t", keep=("v",), window=WINDOW))


@pytest.mark.parametrize("kind", list(QUERIES))
def test_rows_that_differ_only_in_keep_go_by_the_hash(kind: str) -> None:
    """Neither the order of the rows nor the cut into batches changes the answer."""
    tags = pa.array([["a"], None, ["b", "c"], [], ["a", "b"]])
    table = pa.table({"t": [0] * 5, "id": ["z"] * 5, "x": [1] * 5, "p": [0.5] * 5, "tags": tags})
    order = np.argsort(hash_kept([tags]))
    answers = []
    for turn in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1], [3, 1, 4, 0, 2]):
        batches = [table.take([row]) for row in turn]
        query = query_of(kind, keep=("tags",), k=3)
        answers.append(sb.rank(pa.concat_tables(batches), query)["tags"].to_pylist())
        answers.append([t for a in sb.watch(batches, query) for t in a.table["tags"].to_pylist()])
        merged = sharded(query, batches, 1)
        answers.append([row["tags"] for answer in merged for row in answer.table])
    first = 1 if kind == "HeavyHitters" else 3
    assert answers[0][:first] == tags.take(order[:first]).to_pylist()
    assert all(answer == answers[0] for answer in answers)


def test_hashes_do_not_depend_on_slices_or_encodings() -> None:
    for name, column in TYPES.items():
        hashes = hash_any(column)
        assert len(set(hashes.tolist())) == len(set(map(repr, column.to_pylist()))), name
        assert np.array_equal(hash_any(column.slice(2, 3)), hashes[2:5]), name
        assert np.array_equal(hash_any(pa.chunked_array([column[:2], column[2:]])), hashes), name


def test_dropped_rows_cost_nothing() -> None:
    """Summaries and state have the kept columns of retained rows only."""
    rows = 5_000
    table = pa.table({"t": [0] * rows, "x": np.arange(rows), "text": ["long text " * 20] * rows})
    query = sb.TopK(k=2, score="x", time="t", keep=("text",), window=sb.TimeWindow(4))
    monitor = sb.Monitor(query)
    monitor.push(table)
    assert monitor.stats()["state_bytes"] < 20_000
    (piece,) = monitor.session.fold.open.pieces  # type: ignore[union-attr]
    assert len(piece.parts["rows"]["shown:text"]) == 2
    assert len(Runs.unpack(piece.pack())[0].parts["rows"]) == 2


def test_a_sketch_keeps_columns_of_the_items_it_counts() -> None:
    rng = np.random.default_rng(5)
    rows = 4_000
    items = rng.zipf(1.2, rows) % 500
    table = pa.table({"t": np.arange(rows), "id": items, "n": np.arange(rows)})
    for name in ("ss", "fss", "fsw", "fsp"):
        query = sb.HeavyHitters(k=3, item="id", time="t", keep=("n",), algorithm=name, capacity=8,
                                window=sb.TimeWindow(400, slide=100),
                                options={"raw_rows": 32})  # fmt: skip
        synopsis_rows = 0
        monitor = sb.Monitor(query)
        for batch in table.to_batches(max_chunksize=500):
            for answer in monitor.push(batch):
                for row in answer.table.to_pylist():
                    live = items[max(0, row["window_start"]) : row["window_end"]]
                    latest = np.flatnonzero(live == row["id"])[-1] + max(0, row["window_start"])
                    assert row["n"] == latest, (name, row)
            latest_rows = monitor.session.synopsis.latest  # type: ignore[attr-defined]
            latest_rows._check()
            synopsis_rows = max(synopsis_rows, len(latest_rows.index))
        assert synopsis_rows <= 8 * 6


def test_columns_to_keep_are_part_of_the_query() -> None:
    for kind in QUERIES:
        query = query_of(kind)
        assert from_spec(query.spec()) == query
        assert query.fingerprint != query_of(kind, keep=()).fingerprint
    query = sb.TopK(k=1, score="x", window=sb.CountWindow(9))
    assert make_synopsis(query).query.kept == ()


@pytest.mark.parametrize(
    "window", [sb.DecayWindow(3, slide=2), sb.LandmarkWindow(slide=2)], ids=["decay", "landmark"]
)
def test_windows_that_no_row_leaves_keep_columns_too(window: Any) -> None:
    """The latest row of an item, and the row of each score, whatever the order of the rows."""
    kinds = ["TopK", "HeavyHitters"]
    kinds += ["UncertainTopK"] if isinstance(window, sb.LandmarkWindow) else []
    for kind in kinds:
        query = query_of(kind, window=window, keep=("list", "text"), k=3)
        table = sb.rank(TABLE, query)
        assert table.column_names[-2:] == ["list", "text"]
        rows = TABLE.to_pylist()
        for row in table.to_pylist():
            live = [r for r in rows if r["t"] < row["window_end"] and r["id"] == row["id"]]
            own = (
                max(live, key=lambda r: r["t"])
                if kind == "HeavyHitters"
                else next(r for r in live if r["x"] == row["x"])
            )
            assert (row["list"], row["text"]) == (own["list"], own["text"])
        monitor, seen = sb.Monitor(query), []
        for number in range(6):
            seen += monitor.push(TABLE.slice(number, 1))
            monitor = sb.Monitor.restore(monitor.snapshot())
        seen += monitor.flush()
        assert [row for answer in seen for row in answer.table.to_pylist()] == table.to_pylist()
