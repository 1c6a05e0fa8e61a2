"""``TopK(distinct=...)``: each id once. The shared suites compare it with the definition."""

from __future__ import annotations

import json
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
from skyband import registry
from skyband.jobs import parse_job
from support import conformance, streams
from support.command_line import good
from support.shards import sharded

WINDOW = sb.TimeWindow(10, slide=5)


def topk(**more: Any) -> sb.TopK:
    common: dict[str, Any] = {"k": 2, "score": "x", "id": "id", "time": "t", "window": WINDOW}
    return sb.TopK(**(common | more))


@pytest.mark.nojit
@pytest.mark.parametrize("mode", ["best", "latest"])
@pytest.mark.parametrize("slide", [1, 3])
@given(data=st.data())
@settings(max_examples=20)
def test_many_rows_of_few_ids(mode: str, slide: int, data: st.DataObject) -> None:
    """Chains of rows of one id, over many panes, with ties in score, time and kept columns."""
    is_count = data.draw(st.booleans())
    size = data.draw(st.integers(1, 9))
    window: Any = oracle.CountWindow(size, slide) if is_count else oracle.TimeWindow(size, slide)
    stream = data.draw(streams.streams(max_rows=40))
    by = data.draw(st.sampled_from(((), ("g",))))
    chosen = {"k": data.draw(st.integers(1, 3)), "score": "price", "id": "kind", "time": "ts"}
    chosen |= {"distinct": mode, "by": by, "keep": ("volume",), "largest": data.draw(st.booleans())}
    restarts, peeks = data.draw(st.booleans()), data.draw(st.booleans())
    conformance.compare("TopK", window, chosen, stream, restarts, peeks)


@pytest.mark.parametrize("window", [WINDOW, sb.LandmarkWindow(5), sb.DecayWindow(5, slide=5)])
@pytest.mark.parametrize("order", [1, -1])
def test_of_the_latest_rows_of_an_id_the_one_with_the_best_score_counts(
    window: Any, order: int
) -> None:
    rows = [("a", 9, 1), ("a", 3, 2), ("a", 5, 2), ("b", 4, 1)][::order]
    monitor = sb.Monitor(topk(distinct="latest", window=window))
    for name, score, time in rows:
        assert not monitor.push(pa.table({"id": [name], "x": [score], "t": [time]}))
    (answer,) = monitor.flush()[:1]
    assert answer.table.select(["id", "x"]).to_pylist() == [
        {"id": "a", "x": 5},
        {"id": "b", "x": 4},
    ]


@pytest.mark.parametrize("mode", ["best", "latest"])
def test_rank_and_shards_equal_the_monitor(mode: Any) -> None:
    """A monitor keeps more than rank, watch and Spark do: it may be asked for positions."""
    stream = streams.stream(3, 400, pattern="crowded", ids=25, step=2, groups=3)
    for by in ((), ("g",)):
        query = sb.TopK(k=3, score="score", id="id", time="ts", by=by, distinct=mode,
                        keep=("volume",), window=sb.TimeWindow(30, slide=7))  # fmt: skip
        monitor = sb.Monitor(query)
        answers = [*monitor.push(stream.table), *monitor.flush()]
        want = [row for answer in answers for row in answer.table.to_pylist()]
        assert sb.rank(stream.table, query).to_pylist() == want
        for shards in (1, 3):
            found = sharded(query, [stream.table.slice(0, 150), stream.table.slice(150)], shards)
            assert [row for answer in found for row in answer.table] == want


def test_one_id_may_fill_a_pane() -> None:
    """The best rows of a pane may all have one id: then more of them are looked at."""
    rows = 3_000
    x = np.arange(rows)
    ids = np.where(x >= 10, 0, x)
    table = pa.table({"t": np.zeros(rows, np.int64), "id": ids, "x": x})
    got = sb.rank(table, topk(k=3, distinct="best"))
    assert got["id"].to_pylist()[:3] == [0, 9, 8]
    assert got["x"].to_pylist()[:3] == [rows - 1, 9, 8]


def test_a_better_row_hides_a_later_one_until_it_expires() -> None:
    table = pa.table({"t": [0, 6, 7, 30], "id": list("aabz"), "x": [9, 5, 7, 0]})
    found = {
        mode: [
            list(zip(a.table["id"].to_pylist(), a.table["x"].to_pylist(), strict=True))
            for a in sb.watch(table, topk(distinct=mode))
        ][:3]
        for mode in ("best", "latest")
    }
    assert found["best"] == [[("a", 9)], [("a", 9), ("b", 7)], [("b", 7), ("a", 5)]]
    assert found["latest"] == [[("a", 9)], [("b", 7), ("a", 5)], [("b", 7), ("a", 5)]]


def test_the_skyband_of_ids_is_small() -> None:
    rng = np.random.default_rng(4)
    rows = 20_000
    table = pa.table({"id": rng.integers(0, 2_000, rows), "x": rng.random(rows)})
    query = sb.TopK(k=3, score="x", id="id", distinct="best", window=sb.CountWindow(10_000, 50))
    monitor = sb.Monitor(query)
    monitor.push(table)
    assert monitor.stats()["retained"] < 100
    latest = sb.TopK(k=3, score="x", id="id", distinct="latest", window=sb.CountWindow(10_000, 50))
    monitor = sb.Monitor(latest)
    monitor.push(table)
    live = len(np.unique(table["id"].to_numpy()[10_000:]))
    assert monitor.stats()["retained"] == live


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(sb.QueryError, match="needs id="):
        topk(distinct="best", id=None)
    with pytest.raises(sb.QueryError, match="one of best, latest"):
        topk(distinct="worst")
    with pytest.raises(sb.QueryError, match=r"mintopk does not answer.*'best'.*skyband-distinct"):
        topk(distinct="best", algorithm="mintopk")
    with pytest.raises(sb.QueryError, match="latest does not answer TopK with distinct='best'"):
        topk(distinct="best", algorithm="latest")
    with pytest.raises(sb.QueryError, match="skyband-distinct does not answer"):
        topk(algorithm="skyband-distinct")
    with pytest.raises(sb.QueryError, match=r"decay does not answer.*'latest'.*decay-distinct"):
        topk(distinct="latest", window=sb.DecayWindow(9, slide=3), algorithm="decay")
    assert registry.choose(topk(distinct="best")) == "skyband-distinct"
    assert registry.choose(topk(distinct="latest")) == "latest"
    assert topk().fingerprint == topk(distinct=None, keep=()).fingerprint


def test_peek_names_only_algorithms_that_answer_the_query() -> None:
    monitor = sb.Monitor(topk(algorithm="mintopk"))
    monitor.push(pa.table({"t": [0], "id": ["a"], "x": [1]}))
    with pytest.raises(sb.EngineError) as refused:
        monitor.peek()
    assert "skyband'" in str(refused.value)
    assert "distinct" not in str(refused.value)


@pytest.mark.parametrize("mode", ["best", "latest"])
@pytest.mark.parametrize(
    "window", [sb.DecayWindow(5, slide=4), sb.LandmarkWindow(slide=4)], ids=["decay", "landmark"]
)
def test_windows_that_no_row_leaves(mode: str, window: Any) -> None:
    rng = np.random.default_rng(6)
    rows = 150
    table = pa.table({"t": np.sort(rng.integers(0, 60, rows)), "id": rng.integers(0, 12, rows),
                      "x": rng.integers(1, 9, rows), "n": np.arange(rows)})  # fmt: skip
    decays = isinstance(window, sb.DecayWindow)
    query = topk(k=4, distinct=mode, window=window, keep=("n",))
    got = sb.rank(table, query)
    found: dict[int, list[Any]] = {}
    for row in got.to_pylist():
        found.setdefault(row["window_end"], []).append((row["id"], row["x"], row["t"]))
    assert len(found) >= 10

    def value(row: Any) -> Any:
        weight = 2.0 ** (row["t"] / 5) if decays else 1
        return row["x"] * weight, row["t"], -row["id"]

    for end, answer in found.items():
        live = [row for row in table.to_pylist() if row["t"] < end]
        best: dict[int, Any] = {}
        for row in live:
            turn = value(row) if mode == "best" else (row["t"], *value(row))
            known = best.get(row["id"])
            if known is None or turn > known[0]:
                best[row["id"]] = turn, row
        want = sorted((row for _, row in best.values()), key=value, reverse=True)[:4]
        assert answer == [(row["id"], row["x"], row["t"]) for row in want], end
    monitor, seen = sb.Monitor(query), []
    for batch in (table.slice(0, 50), table.slice(50)):
        seen += monitor.push(batch)
        monitor = sb.Monitor.restore(monitor.snapshot())
    seen += monitor.flush()
    assert [row for answer in seen for row in answer.table.to_pylist()] == got.to_pylist()
    retained = monitor.stats()["retained"]
    if mode == "best":
        assert retained == 4


# Positions ------------------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize("kind", ["best", "latest", "exact"])
@given(data=st.data())
@settings(max_examples=25)
def test_positions_follow_from_the_whole_answer(kind: str, data: st.DataObject) -> None:
    is_count = data.draw(st.booleans())
    window: Any = data.draw(streams.count_windows() if is_count else streams.time_windows())
    stream = data.draw(streams.streams(max_rows=30, lateness=getattr(window, "lateness", 0)))
    by = data.draw(st.sampled_from(((), ("g",), ("g", "kind"))))
    chosen: dict[str, Any] = {"k": 2, "time": "ts", "by": by}
    if kind == "exact":
        more: dict[str, Any] = {
            "item": "id",
            "weight": data.draw(st.sampled_from((None, "weight"))),
        }
        name, value, of_kind = "id", "count", "HeavyHitters"
    else:
        more = {"score": "price", "id": "id", "distinct": kind}
        name, value, of_kind = "id", "price", "TopK"
    chosen |= more
    query = conformance.query_of(of_kind, window, chosen, stream.table)
    whole = oracle.peeks(of_kind, window, stream.row_batches, [None] * (len(stream.batches) + 1),
                         **(chosen | {"k": 10**6}))  # fmt: skip
    monitor = sb.Monitor(query)
    for number, looked in enumerate(whole):
        if number < len(stream.batches):
            monitor.push(stream.batches[number])
        else:
            monitor.flush()
        if data.draw(st.booleans()):
            monitor = sb.Monitor.restore(monitor.snapshot())
        if looked is None:
            continue
        want = {(*(row[n] for n in by), row[name]): row for row in looked.table}
        sizes: dict[Any, int] = {}
        for *owner, _ in want:
            sizes[tuple(owner)] = sizes.get(tuple(owner), 0) + 1
        for row in stream.rows:
            group = tuple(row[n] for n in by)
            key = (*group, row[name])
            given_group = {0: None, 1: group[:1] and group[0], 2: group}[len(by)]
            got = monitor.position(row[name], given_group)
            if key not in want:
                assert got is None
            else:
                wanted = (want[key]["rank"], want[key][value], sizes[group])
                assert got == sb.Position(*wanted), key


def test_positions_that_cannot_be() -> None:
    table = pa.table({"t": [0, 12], "id": [1, 2], "x": [1.0, 2.0], "g": ["u", "v"]})
    for query, match in (
        (topk(), "distinct='best' or distinct='latest'"),
        (topk(distinct="best", window=sb.LandmarkWindow(slide=5)), "use a TimeWindow"),
        (sb.HeavyHitters(k=1, item="id", time="t", window=WINDOW, algorithm="fsw"), "'exact'"),
        (sb.Skyline(prefer={"x": "min"}, time="t", window=WINDOW), "TopK"),
    ):
        monitor = sb.Monitor(query)
        monitor.push(table)
        with pytest.raises(sb.EngineError, match=match):
            monitor.position(1)
    monitor = sb.Monitor(topk(distinct="latest", by=("g",)))
    with pytest.raises(sb.EngineError, match="there is no answer yet"):
        monitor.position(1, "u")
    monitor.push(table)
    assert monitor.position(1, "u") == (1, 1.0, 1)
    assert monitor.position(1, "v") is None
    assert monitor.position(1, "w") is None
    assert monitor.position(None, "u") is None
    assert monitor.position(1, None) is None  # there is no group null
    with pytest.raises(sb.QueryError, match="pass the group too, by g"):
        monitor.position(1)
    with pytest.raises(sb.QueryError, match="cannot be a value"):
        monitor.position("one", "u")
    with pytest.raises(sb.QueryError, match="group must have 1"):
        monitor.position(1, ("u", "v"))
    board = sb.Monitor({"now": topk(distinct="latest"), "best": topk(distinct="best")})
    board.push(table)
    assert board.position(1, name="best") == (1, 1.0, 1)
    board = sb.Monitor.restore(board.snapshot())
    assert board.position(1, name="best") == (1, 1.0, 1)
    with pytest.raises(sb.QueryError, match="name one of 'now', 'best'"):
        board.position(1)
    pairs = sb.HeavyHitters(k=1, item=("id", "g"), time="t", window=WINDOW)
    monitor = sb.Monitor(pairs)
    monitor.push(table)
    position = monitor.position((1, "u"))
    assert position is not None
    assert (position.rank, position.value, position.of) == (1, 1, 1)
    with pytest.raises(sb.QueryError, match="no groups"):
        monitor.position((1, "u"), "u")


# Where else it can be asked for -------------------------------------------------------------------


def test_the_command_line_and_job_files(tmp_path: Path) -> None:
    table = pa.table({"t": [0, 1, 2], "id": ["a", "b", "a"], "x": [9, 5, 3], "n": [[1], [], [2]]})
    pq.write_table(table, tmp_path / "rows.parquet")
    words = [
        "topk",
        tmp_path / "rows.parquet",
        "-k",
        2,
        "--score",
        "x",
        "--id",
        "id",
        "--time",
        "t",
    ]
    out = good(*words, "--window", 10, "--distinct", "latest", "--keep", "n", "--format", "json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["id"], row["x"], row["n"]) for row in rows] == [("b", 5, []), ("a", 3, [2])]
    told = {"kind": "TopK", "k": 2, "score": "x", "id": "id", "time": "t", "keep": ["n"]}
    job = parse_job({
        "name": "board", "checkpoint": "state", "source": {"kind": "files", "path": "*.parquet"},
        "query": told | {"distinct": "best", "window": {"size": 10}}, "sink": {"kind": "console"},
    })  # fmt: skip
    (query,) = job.queries.values()
    assert (query.keep, query.distinct) == (("n",), "best")  # type: ignore[attr-defined]
