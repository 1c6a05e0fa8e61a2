"""Skylines of two joined streams: layers, shorter windows, late sides, shards, errors."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.engine.per_group import make_synopsis
from support.skyline_cases import best

PAIR = {"a": "min", "b": "max", "c": "min", "d": "max"}
ALGORITHMS = [
    ("naive", None),
    ("isj", None),
    ("lsj", 1),
    ("lsj", 2),
    ("lsj", 1000),
    ("lsj", None),
    ("gsj", None),
]


def two(seed: int, n: int, how: str, keys: int = 5) -> dict[str, pa.Table]:
    """Two streams of points that are correlated, independent, anti-correlated, or full of ties."""
    rng = np.random.default_rng(seed)
    found = {}
    for side, names in (("l", "ab"), ("r", "cd")):
        base, other = rng.random(n), rng.random(n)
        second = {"correlated": -base - other / 9, "anti": base + other / 9}.get(how, other)
        points = np.stack([base, second], axis=1)
        if how == "tied":
            points = np.floor(points * 3)
        # One key in six occurs on this side only.
        key = [f"{side}{k}" if k % 6 == 5 else f"k{k}" for k in rng.integers(0, keys + 1, n)]
        kind = rng.integers(0, 2, n)
        columns = {"ts": np.sort(rng.integers(0, n, n)), "k": key, f"kind_{side}": kind}
        found[side] = pa.table(columns | dict(zip(names, points.T, strict=True)))
    return found


def join_query(algorithm: str, layers: int | None = None, **more: Any) -> sb.SkylineJoin:
    settings: dict[str, Any] = {"prefer": PAIR, "window": sb.TimeWindow(60, slide=9), "on": "k"}
    settings |= {"algorithm": algorithm, "layers": layers, "time": "ts"}
    return sb.SkylineJoin(left="l", right="r", **(settings | more))


def joined_best(left: list[Any], right: list[Any], diff: bool = False) -> list[tuple[Any, ...]]:
    pairs = [(a, b) for a in left for b in right if a["k"] == b["k"]]
    if not pairs:
        return []
    points = np.array([[-a["a"], a["b"], -b["c"], b["d"]] for a, b in pairs])
    same = np.array([2 * a["kind_l"] + b["kind_r"] for a, b in pairs]) if diff else None
    kept = best(points, same)
    return sorted(
        (a["k"], a["ts"], a["kind_l"], a["a"], a["b"], b["ts"], b["kind_r"], b["c"], b["d"])
        for (a, b), keep in zip(pairs, kept, strict=True)
        if keep
    )


@pytest.mark.parametrize("how", ["correlated", "independent", "anti", "tied"])
@pytest.mark.parametrize("diff", [False, True])
def test_every_slide_of_every_algorithm(
    how: str, diff: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skyband.skyline.lsj._FEW", 0)  # let small layers share, too
    monkeypatch.setattr("skyband.skyline.lsj._FEW_LIVE", 57)  # graphs come and go
    sources = two(3, 130, how)
    rows = {side: table.to_pylist() for side, table in sources.items()}
    prefer = PAIR | ({"kind_l": "diff", "kind_r": "diff"} if diff else {})
    tables = [
        sb.rank(sources, join_query(name, layers, prefer=prefer)) for name, layers in ALGORITHMS
    ]
    for (name, layers), table in zip(ALGORITHMS, tables, strict=True):
        assert table.equals(tables[0]), (name, layers)
    for end in range(9, 137, 9):
        live = [[r for r in rows[s] if end - 60 <= r["ts"] < end] for s in ("l", "r")]
        mine = tables[0].filter(pa.compute.equal(tables[0]["window_end"], end))
        got = [tuple(row.values())[2:] for row in mine.to_pylist()]
        assert got == joined_best(live[0], live[1], diff)


def test_layers_share_again_after_a_lull(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.skyline.lsj._FEW", 5)
    monkeypatch.setattr("skyband.skyline.lsj._FEW_LIVE", 40)
    steps = np.repeat([1, 6, 1, 6, 1], [60, 15, 50, 12, 50])
    sources = {
        side: table.set_column(table.column_names.index("ts"), "ts", pa.array(np.cumsum(steps)))
        for side, table in two(9, len(steps), "independent").items()
    }
    monitor, plain = sb.Monitor(join_query("lsj")), sb.Monitor(join_query("naive"))
    linked = []
    for start in range(0, len(steps), 10):
        push = {side: table.slice(start, 10) for side, table in sources.items()}
        assert [a.table for a in monitor.push(push)] == [a.table for a in plain.push(push)]
        monitor._check()
        synopsis: Any = monitor.session.synopsis
        linked.append(synopsis.linked[0] == synopsis.live[0].expired + len(synopsis.live[0]))
        monitor = sb.Monitor.restore(monitor.snapshot())
    lulls = [b for a, b in pairwise(linked) if a != b]
    assert lulls[:4] == [True, False, True, False]


@pytest.mark.nojit
@pytest.mark.parametrize(("algorithm", "layers"), ALGORITHMS)
def test_a_small_join_keeps_its_invariants(algorithm: str, layers: int | None) -> None:
    sources = two(5, 40, "tied", keys=2)
    query = join_query(algorithm, layers, window=sb.TimeWindow(20, slide=6))
    monitor, plain = sb.Monitor(query), sb.Monitor(join_query("naive", window=query.window))
    for start in range(0, 40, 5):
        push = {side: table.slice(start, 5) for side, table in sources.items()}
        got = monitor.push(push)
        monitor._check()
        assert [a.table for a in got] == [a.table for a in plain.push(push)]
        monitor = sb.Monitor.restore(monitor.snapshot())
    assert [a.table for a in monitor.flush()] == [a.table for a in plain.flush()]


@pytest.mark.parametrize("algorithm", ["naive", "isj", "lsj", "gsj"])
def test_shorter_windows_of_a_join(algorithm: str) -> None:
    sources = two(8, 80, "independent")
    rows = {side: table.to_pylist() for side, table in sources.items()}
    monitor = sb.Monitor(join_query(algorithm, window=sb.TimeWindow(40, slide=5)))
    plain = sb.Monitor(join_query(algorithm, window=sb.TimeWindow(40, slide=5)))
    for start in range(0, 80, 20):
        push = {side: table.slice(start, 20) for side, table in sources.items()}
        answers = monitor.push(push)
        for last in (7, 15, 40):
            seen = monitor.peek(last=last)
            live = [
                [r for r in rows[s][: start + 20] if seen.end - last // 5 * 5 <= r["ts"] < seen.end]
                for s in ("l", "r")
            ]
            got = [tuple(row.values())[2:] for row in seen.table.to_pylist()]
            assert got == joined_best(live[0], live[1])
        # A peek changes nothing.
        assert [a.table for a in answers] == [a.table for a in plain.push(push)]


@pytest.mark.parametrize("algorithm", ["naive", "isj", "lsj", "gsj"])
def test_keys_of_several_columns_and_self_joins(algorithm: str) -> None:
    table = pa.table(
        {"ts": [1, 2, 3, 4], "k": [1, 1, 2, 1], "m": ["p", "p", "p", "q"], "v": [5, 3, 1, 9]}
    )
    query = sb.SkylineJoin(
        left="one", right="two", on=("k", "m"), prefer={"one_v": "min", "two_v": "max"},
        time="ts", window=sb.TimeWindow(10), algorithm=algorithm,
    )  # fmt: skip
    got = sb.rank({"one": table, "two": table}, query)
    assert got.column_names[2:] == ["k", "m", "one_ts", "one_v", "two_ts", "two_v"]
    pairs = list(zip(got["one_v"].to_pylist(), got["two_v"].to_pylist(), strict=True))
    assert pairs == [(3, 5), (9, 9), (1, 1)]


@pytest.mark.parametrize("algorithm", ["naive", "isj", "lsj", "gsj"])
def test_a_side_without_rows(algorithm: str) -> None:
    trades = pa.table({"ts": [1, 12, 25], "k": [1, 2, 3], "a": [5, 3, 1]})
    none = pa.table({name: pa.array([], pa.int64()) for name in ("ts", "k", "c")})
    prefer = {"a": "min", "c": "min"}
    query = join_query(algorithm, prefer=prefer, window=sb.TimeWindow(10))
    sides: list[Any] = [[], none]
    for right in sides:
        answers = list(sb.watch({"l": trades, "r": right}, query))
        assert [answer.end for answer in answers] == [10, 20, 30]
        assert [answer.table.num_rows for answer in answers] == [0, 0, 0]
        assert [answer.total for answer in answers] == [1, 1, 1]
    assert "k" in sb.rank({"l": trades, "r": []}, query).column_names


@pytest.mark.parametrize("algorithm", ["naive", "isj", "lsj", "gsj"])
def test_rows_wait_for_a_side_that_shows_itself_late(algorithm: str) -> None:
    left = pa.table({"ts": [1, 2, 11], "k": [1, 1, 1], "a": [5, 3, 1]})
    right = pa.table({"ts": [13], "k": [1], "c": [1]})
    query = join_query(
        algorithm, prefer={"a": "min", "c": "min"}, window=sb.TimeWindow(20, slide=5)
    )
    monitor = sb.Monitor(query)
    monitor.push({"l": left})
    fold = monitor.session.fold
    assert fold is not None
    fold.clock.ignored.add("r")  # as if it had been silent for too long
    assert [a.table.num_rows for a in monitor.push({"l": left.slice(2)})] == [0, 0]
    monitor = sb.Monitor.restore(monitor.snapshot())
    answers = [*monitor.push({"r": right}), *monitor.flush()]
    assert answers[-1].table["a"].to_pylist() == [1, 1]
    assert answers[-1].changes["change"].to_pylist() == ["enter", "enter"]


@pytest.mark.parametrize("algorithm", ["naive", "isj", "lsj", "gsj"])
@pytest.mark.parametrize("shards", [2, 3])
def test_shards_by_join_key_merge_exactly(algorithm: str, shards: int) -> None:
    sources = two(11, 90, "anti", keys=20)
    query = join_query(algorithm, window=sb.TimeWindow(50, slide=50))
    whole = make_synopsis(query)
    for side, table in sources.items():
        whole.bind(side, table.schema)
    batches = {side: table.combine_chunks().to_batches()[0] for side, table in sources.items()}
    shard = {side: whole.shard(side, batch, shards) for side, batch in batches.items()}
    found = []
    for number in range(shards):
        monitor = sb.Monitor(query)
        mine = {s: t.filter(pa.array(shard[s] == number)) for s, t in sources.items()}
        assert all(table.num_rows for table in mine.values())
        monitor.push(mine)
        monitor.flush()
        found.append(monitor.session.synopsis.partial(1, 2))
    merged = whole.finish([runs.stamped(np.zeros(len(runs), np.int64)) for runs in found])
    got = pa.table(dict(merged.parts["rows"].columns))
    want = sb.rank(sources, query)
    last = want.filter(pa.compute.equal(want["window_end"], 100)).drop_columns(
        ["window_start", "window_end"]
    )
    assert got.to_pylist() == last.to_pylist()


@pytest.mark.parametrize(
    ("left", "right", "prefer", "problem"),
    [
        ({"v": [1]}, {"v": [1]}, {"v": "min"}, "'l_v' or 'r_v'"),
        ({"a": [1]}, {"c": [1]}, {"nothing": "min"}, "'nothing' is missing"),
        ({"v": [1], "r_v": [1]}, {"v": [1]}, {"l_v": "min"}, "twice"),
        ({"a": [1]}, {"k": ["x"], "c": [1]}, {"a": "min"}, "never match"),
        ({"a": ["x"]}, {"c": [1]}, {"a": "min"}, "number or a time"),
        ({"a": [1], "window_end": [1]}, {"c": [1]}, {"a": "min"}, "answer column"),
    ],
)
def test_names_that_do_not_fit(left: Any, right: Any, prefer: Any, problem: str) -> None:
    sides = {"l": {"ts": [1], "k": [1]} | left, "r": {"ts": [1], "k": [1]} | right}
    with pytest.raises(sb.SchemaError, match=problem):
        sb.rank(
            {side: pa.table(columns) for side, columns in sides.items()},
            join_query("gsj", prefer=prefer),
        )


def test_null_keys_and_values_of_a_join_are_bad() -> None:
    left = pa.table({"ts": [1, 2, 3], "k": [1, None, 1], "a": [1.0, 1.0, None]})
    right = pa.table({"ts": [1], "k": [1], "c": [1.0]})
    query = join_query("gsj", prefer={"a": "min", "c": "min"})
    with pytest.raises(sb.DataError, match="join column is null"):
        sb.rank({"l": left, "r": right}, query)
    with pytest.warns(sb.SkybandWarning):
        assert sb.rank({"l": left, "r": right}, query, on_bad="skip").num_rows == 1


def test_keys_without_rows_are_forgotten() -> None:
    n = 9000
    side = {"ts": np.arange(n), "k": np.arange(n)}
    sources = {"l": pa.table(side | {"a": np.ones(n)}), "r": pa.table(side | {"c": np.ones(n)})}
    prefer = {"a": "min", "c": "min"}
    for name in ("gsj", "isj"):
        query = join_query(name, prefer=prefer, window=sb.TimeWindow(100, slide=50))
        monitor = sb.Monitor(query)
        for start in range(0, n, 300):
            monitor.push({side: table.slice(start, 300) for side, table in sources.items()})
        assert len(monitor.session.synopsis.keys) < 4000  # type: ignore[attr-defined]
        monitor._check()


@pytest.mark.nojit
@pytest.mark.parametrize("algorithm", ["naive", "isj", "lsj", "gsj"])
def test_a_row_is_judged_by_the_best_of_all_its_partners(algorithm: str) -> None:
    """The first layer finds (9, 4) and (1, 9), which dominate (5, 3) but not (5, 5)."""
    query = sb.SkylineJoin(
        left="l", right="r", on="k", prefer={"x": "max", "y": "max"}, time="t",
        window=sb.TimeWindow(10), algorithm=algorithm,
    )  # fmt: skip
    sides = {
        "l": pa.table({"t": [1, 2, 3], "k": ["b", "a", "c"], "x": [9, 5, 1]}),
        "r": pa.table({"t": [1, 2, 3, 4], "k": ["b", "a", "a", "c"], "y": [4, 5, 3, 9]}),
    }
    table = sb.rank(sides, query)
    pairs = zip(table["x"].to_pylist(), table["y"].to_pylist(), strict=True)
    assert sorted(pairs) == [(1, 9), (5, 5), (9, 4)]


@pytest.mark.nojit
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("algorithm", ["isj", "lsj"])
def test_an_index_of_cells_that_change_their_meaning(algorithm: str, seed: int) -> None:
    """Windows with one value of a "diff" column follow windows with two, and the other way round.

    Rows are then in cells of key and value instead of key, and there may be as many of both.
    """
    rng = np.random.default_rng(seed)
    n = 40
    sources = {
        side: pa.table({
            "ts": np.arange(n), "k": np.arange(n) % 10 == 4, "kind": np.arange(n) // 10 % 2,
            name: rng.integers(0, 9, n),
        })
        for side, name in (("l", "a"), ("r", "c"))
    }  # fmt: skip
    prefer = {"a": "min", "c": "min", "l_kind": "diff", "r_kind": "diff"}
    window = sb.TimeWindow(6, slide=2)
    query = join_query(algorithm, prefer=prefer, window=window)
    monitor = sb.Monitor(query)
    answers = []
    for start in range(0, n, 4):
        answers += monitor.push({side: t.slice(start, 4) for side, t in sources.items()})
        monitor._check()
    wanted = sb.watch(sources, join_query("naive", prefer=prefer, window=window))
    for got, want in zip(answers, wanted, strict=False):
        assert got.table == want.table
    assert len(answers) > 15


@pytest.mark.parametrize("values", [30, 10_000])
def test_joins_with_many_undominated_pairs(values: int) -> None:
    random = np.random.default_rng(values)
    sides = {}
    for side in ("left", "right"):
        made = random.dirichlet(np.ones(3), 400) + random.normal(0, 0.02, (400, 1))
        columns = {f"{side}{n}": (made[:, n] * values).astype(np.int64) for n in range(3)}
        key = pa.array(random.integers(0, 20, 400))
        sides[side] = pa.table({"t": np.arange(400), "key": key, **columns})
    prefer = {f"{side}{n}": "max" for side in sides for n in range(3)}
    answers = {}
    for algorithm in ("gsj", "naive"):
        window = sb.TimeWindow(200, slide=40)
        query = sb.SkylineJoin(
            left="left", right="right", on="key", prefer=prefer, time="t", window=window,
            algorithm=algorithm,
        )  # fmt: skip
        answers[algorithm] = sb.rank(sides, query)
    assert answers["naive"].num_rows > 1_000
    assert answers["gsj"].equals(answers["naive"])
