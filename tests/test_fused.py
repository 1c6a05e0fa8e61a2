"""FusedTopK beyond the definition at every step: bad rows, sharding, dominance, promises."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import conformance
import oracle
import skyband as sb
import streams
from skyband.fold import make_synopsis
from skyband.fused.eaa import Eaa
from skyband.fused.guard import Guard
from skyband.fused.ids import IdKeys
from skyband.groups import GroupTable
from skyband.intake import Intake
from skyband.synopsis import Synopsis

EXACT = ("sla", "eaa")
ALL = ("sla", "eaa", "eaa-approx")
COMBINES: list[Any] = [
    "sum",
    "mean",
    "min",
    "max",
    "product",
    {"a": 2.0, "b": 0.0, "c": 0.5},
    [1.0, 1.0, 3.0],
    lambda values: np.sort(np.asarray(values), axis=-1)[..., 1],
]


def fused(window: Any, **settings: Any) -> sb.FusedTopK:
    given: dict[str, Any] = conformance.FUSED | {"k": 2, "time": None}
    given |= {} if isinstance(window, sb.CountWindow) else {"time": "ts"}
    return sb.FusedTopK(window=window, **(given | settings))


def table(rows: Sequence[tuple[Any, ...]], id_type: pa.DataType | None = None) -> pa.Table:
    """Rows of (ts, object, stream, value)."""
    ts, names, stream, value = zip(*rows, strict=True)
    return pa.table({
        "ts": pa.array(ts, pa.int64()),
        "object": pa.array(names, id_type),
        "stream": pa.array(stream, pa.string()),
        "value": pa.array(value, pa.float64()),
    })  # fmt: skip


def scores(answer: sb.Answer) -> list[tuple[Any, float]]:
    return list(
        zip(answer.table["object"].to_pylist(), answer.table["score"].to_pylist(), strict=True)
    )


# ---------------------------------------------------------------------------------------------
# The definition, for every function


@pytest.mark.parametrize("algorithm", EXACT)
@pytest.mark.parametrize("number", range(len(COMBINES)))
@pytest.mark.parametrize("recurrences", [1, 3])
def test_every_function(algorithm: str, number: int, recurrences: int) -> None:
    settings = conformance.FUSED | {
        "k": 3,
        "streams": ("a", "b", "c"),
        "combine": COMBINES[number],
        "recurrences": recurrences,
        "bounds": [(0.0, 1.0), (0.0, 3.0), (0.0, 1.0)],
        "algorithm": algorithm,
        "options": conformance.OPTIONS[algorithm],
    }
    window = oracle.TimeWindow(25, 4, lateness=3)
    for seed, objects in ((1, 7), (2, 40), (3, 200)):
        stream = streams.reports(
            seed, 300, size=25, recurrences=recurrences, objects=objects, lateness=3, batches=7
        )
        conformance.compare("FusedTopK", window, settings, stream)


@pytest.mark.parametrize("algorithm", EXACT)
@pytest.mark.parametrize("combine", ["sum", "min", "max", "product"])
@pytest.mark.parametrize("seed", range(4))
def test_objects_that_report_once_ever(algorithm: str, combine: str, seed: int) -> None:
    settings = conformance.FUSED | {
        "k": 2,
        "streams": ("a", "b", "c"),
        "combine": combine,
        "returns": False,
        "algorithm": algorithm,
        "options": conformance.OPTIONS[algorithm],
    }
    # No window is longer than the stream, so a report too many goes to a fresh object for ever.
    stream = streams.reports(seed, 300, size=10**9, objects=80, batches=11)
    conformance.compare("FusedTopK", oracle.TimeWindow(30, 3), settings, stream)
    conformance.compare("FusedTopK", oracle.CountWindow(50, 1), settings, stream)


def test_returns_false_keeps_less() -> None:
    stream = streams.reports(5, 2000, size=10**9, objects=1500, streams=("a", "b"))
    kept = {}
    for returns in (True, False):
        monitor = sb.Monitor(fused(sb.CountWindow(500, 10), algorithm="eaa", returns=returns))
        monitor.push(stream.table)
        kept[returns] = monitor.stats()["retained"]
    assert kept[False] < kept[True] < 500


@pytest.mark.parametrize("algorithm", ALL)
@pytest.mark.parametrize("id_type", [pa.int64(), pa.string(), pa.float64(), pa.decimal128(25, 2)])
def test_ids_of_any_type_decide_ties(algorithm: str, id_type: pa.DataType) -> None:
    names = pa.array([30, 4, 200, 11, 7, 6]).cast(pa.int64()).cast(id_type)
    rows = pa.table({"object": names, "stream": ["a"] * 6, "value": [0.5] * 6})
    query = fused(sb.CountWindow(6), k=3, algorithm=algorithm)
    found = sb.rank(rows, query)["object"].to_pylist()
    assert found == sorted(names.to_pylist())[:3]


@pytest.mark.parametrize("algorithm", ALL)
def test_ids_that_differ_late(algorithm: str) -> None:
    names = [f"a long common prefix {n}" for n in (30, 11, 20, 12)]
    rows = pa.table({"object": names, "stream": ["a"] * 4, "value": [0.5, 0.5, 0.9, 0.5]})
    found = sb.rank(rows, fused(sb.CountWindow(4), k=2, algorithm=algorithm))
    assert found["object"].to_pylist() == [names[2], names[1]]


@pytest.mark.parametrize("begin", ["", "the same "])
def test_keys_never_contradict_the_order_of_ids(begin: str) -> None:
    words = ["b", "a", "a\0", "ab", "abcdefgh", "abcdefghi", "ä", "z", "\U0001f600"]
    words = [begin + word for word in words]
    keys = IdKeys()
    assert keys.narrows(pa.array(words[:1]))
    assert keys.narrows(pa.array(words))
    assert not keys.narrows(pa.array(words[3:]))
    given = keys.of(pa.array(words)).tolist()
    ordered = sorted(zip(words, given, strict=True), key=lambda pair: pair[0].encode())
    assert all(key <= next_key for (_, key), (_, next_key) in itertools.pairwise(ordered))
    assert len(set(given)) == len(words) - 2  # "a" and "a\0" look alike, and the long ones
    assert keys.of(pa.array([-5, 3, 7])).tolist() == [-5, 3, 7]
    assert len(set(keys.of(pa.array([1, 2, 2**64 - 1], pa.uint64())).tolist())) == 3


@pytest.mark.parametrize("algorithm", EXACT)
def test_ids_that_begin_alike_until_one_does_not(algorithm: str) -> None:
    names = [f"a common beginning {n:02}" for n in range(40, 10, -1)]
    names += ["a common end", "b"]
    rows = pa.table({"object": names, "stream": ["a"] * 32, "value": [0.5] * 32})
    query = fused(sb.CountWindow(32, slide=8), k=3, algorithm=algorithm)
    monitor = sb.Monitor(query)
    for start in range(0, 32, 8):
        (answer,) = monitor.push(rows.slice(start, 8))
        assert [name for name, _ in scores(answer)] == sorted(names[: start + 8])[:3]
        monitor = sb.Monitor.restore(monitor.snapshot())


# ---------------------------------------------------------------------------------------------
# Streams that fall silent, objects that never complete


@pytest.mark.parametrize("algorithm", ALL)
def test_a_stream_that_never_reports_counts_as_its_lower_bound(algorithm: str) -> None:
    rows = table([(0, "p", "a", 0.5), (1, "q", "a", 0.25)])
    query = fused(sb.TimeWindow(10), algorithm=algorithm, bounds={"a": (0, 1), "b": (-2, 5)}, k=5)
    assert sb.rank(rows, query)["score"].to_pylist() == [-1.5, -1.75]


@pytest.mark.parametrize("algorithm", ALL)
def test_values_expire_one_by_one(algorithm: str) -> None:
    rows = table([(0, "p", "a", 1.0), (4, "p", "b", 0.5), (11, "q", "a", 0.25), (30, "z", "a", 0)])
    query = fused(sb.TimeWindow(10, slide=5), algorithm=algorithm)
    answers = list(sb.watch([rows], query))
    assert [(a.end, scores(a)) for a in answers] == [
        (5, [("p", 1.5)]),
        (10, [("p", 1.5)]),
        (15, [("q", 0.25)]),
        (20, [("q", 0.25)]),
        (25, []),
        (35, [("z", 0.0)]),
    ]


@pytest.mark.parametrize("algorithm", ALL)
def test_an_idle_source_stops_holding_the_others(algorithm: str) -> None:
    query = fused(sb.TimeWindow(10), algorithm=algorithm, stream=None)
    monitor = sb.Monitor(query)
    rows = table([(1, "p", "a", 0.5), (25, "q", "a", 0.5)])
    assert monitor.push({"a": rows}) == []
    late = monitor.push({"b": table([(21, "p", "b", 0.5)])})
    assert [(a.end, scores(a)) for a in late] == [(10, [("p", 0.5)]), (20, [])]


# ---------------------------------------------------------------------------------------------
# Bad rows


@pytest.mark.parametrize("algorithm", ALL)
@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("stream", "c", "no stream of the query"),
        ("stream", None, "no stream of the query"),
        ("value", 1.5, "outside the bounds"),
        ("value", float("nan"), "not a number"),
        ("value", None, "null"),
        ("object", None, "the id is null"),
        ("ts", None, "the time is null"),
    ],
)
def test_bad_rows(algorithm: str, column: str, value: Any, said: str) -> None:
    good = {"ts": 3, "object": "p", "stream": "a", "value": 0.5}
    schema = {n: str(t) for n, t in streams.report_columns(pa.string()).items() if n != "g"}
    kinds = pa.schema([(n, {"int64": pa.int64(), "double": pa.float64()}.get(t, pa.string()))
                       for n, t in schema.items()])  # fmt: skip
    rows = pa.Table.from_pylist([good, good | {column: value}, good | {"object": "q"}], kinds)
    query = fused(sb.TimeWindow(10), algorithm=algorithm)
    monitor = sb.Monitor(query)
    with pytest.raises(sb.DataError, match=said):
        monitor.push(rows)
    monitor = sb.Monitor(query, on_bad="skip")
    monitor.push(rows)
    assert monitor.stats()["rows_bad"] == 1
    (answer,) = monitor.flush()
    assert scores(answer) == [("p", 0.5), ("q", 0.5)]


TOO_MANY = [
    (0, "p", "a", 0.1),
    (3, "q", "a", 0.2),
    (5, "p", "a", 0.3),  # the second live report of p
    (9, "p", "b", 0.4),
    (10, "p", "a", 0.5),  # good: the first has expired, and the second was not taken
]


@pytest.mark.parametrize("algorithm", ALL)
@pytest.mark.parametrize("slide", [1, 5])
def test_a_report_too_many(algorithm: str, slide: int) -> None:
    query = fused(sb.TimeWindow(10, slide=slide), algorithm=algorithm, options={"slack": 0})
    if algorithm == "sla":
        query = fused(sb.TimeWindow(10, slide=slide), algorithm=algorithm)
    with pytest.raises(sb.DataError, match="'p' reports too often in the stream 'a' at time 5"):
        sb.rank(table(TOO_MANY), query)
    monitor = sb.Monitor(query, on_bad="skip")
    got = conformance.Got()
    for row in TOO_MANY:
        conformance._read(got, monitor.push(table([row])))
    conformance._read(got, monitor.flush())
    assert monitor.stats()["rows_bad"] == 1
    without = [row for row in TOO_MANY if row[0] != 5]
    want = oracle.answers(
        "FusedTopK",
        oracle.TimeWindow(10, slide),
        [streams.rows_of(table(without))],
        **(conformance.FUSED | {"k": 2}),
    )
    assert [answer[:3] for answer in got.answers] == [
        (answer.start, answer.end, answer.table) for answer in want.answers
    ]


@pytest.mark.parametrize("algorithm", ALL)
def test_of_reports_at_one_time_the_later_arrival_is_bad(algorithm: str) -> None:
    rows = [(5, "p", "a", 0.1), (4, "p", "a", 0.2), (4, "p", "a", 0.3)]
    query = fused(sb.TimeWindow(10, lateness=5), algorithm=algorithm)
    monitor = sb.Monitor(query, on_bad="skip")
    for row in rows:
        monitor.push(table([row]))
    (answer,) = monitor.flush()
    assert scores(answer) == [("p", 0.2)]
    assert monitor.stats()["rows_bad"] == 2
    assert answer.total == 1


@pytest.mark.parametrize("algorithm", ALL)
@pytest.mark.parametrize("by", [(), ("g",)])
def test_a_refused_report_leaves_the_monitor_as_it_was(algorithm: str, by: tuple[str, ...]) -> None:
    query = fused(sb.TimeWindow(10, slide=5), algorithm=algorithm, by=by)
    monitor = sb.Monitor(query)

    def push(*rows: tuple[Any, ...]) -> list[sb.Answer]:
        made = table(rows)
        return monitor.push(made.append_column("g", pa.array(["x"] * len(made))))

    push((0, "p", "a", 0.5), (6, "q", "a", 0.5), (12, "r", "a", 0.5))
    before = monitor.snapshot()
    with pytest.raises(sb.DataError, match="'q' reports too often"):
        push((13, "q", "a", 0.5), (20, "s", "a", 0.25))
    after = monitor.snapshot()
    assert sb.Monitor.restore(after).stats() == sb.Monitor.restore(before).stats()
    assert before == after
    answers = push((20, "s", "a", 0.25))
    assert [(a.end, scores(a)) for a in answers] == [(15, [("q", 0.5), ("r", 0.5)]),
                                                     (20, [("r", 0.5)])]  # fmt: skip


@pytest.mark.parametrize("most", [1, 2, 5])
def test_guard_against_counting(most: int) -> None:
    rng = random.Random(most)
    guard = Guard(most)
    kept: list[tuple[int, int, int]] = []
    pane = 0
    for _ in range(60):
        rows = []
        for _ in range(rng.randrange(30)):
            pane += rng.choice((0, 0, 1))
            rows.append((rng.randrange(12), rng.randrange(2), pane))
        hashes = np.array([r[0] for r in rows], np.uint64)
        stream = np.array([r[1] for r in rows], np.int32)
        panes = np.array([r[2] for r in rows], np.int64)
        bad = guard.bad(hashes, stream, panes, panes - 6)
        taken = list(kept)
        for row, is_bad in zip(rows, bad.tolist(), strict=True):
            live = sum(r[:2] == row[:2] and r[2] >= row[2] - 6 for r in taken)
            assert is_bad == (live >= most)
            if not is_bad:
                taken.append(row)
        if rng.random() < 0.8:  # otherwise the rows are refused, and nothing must remain of them
            kept, good = taken, ~bad
            guard.take(hashes[good], stream[good], panes[good], panes[good] - 6)
        guard._check()
        again = Guard(most)
        again.restore(guard.state())
        again._check()


def test_guard_can_be_turned_off() -> None:
    query = fused(sb.CountWindow(2), algorithm="eaa", options={"guard": False})
    rows = pa.table({"object": ["p", "p"], "stream": ["a", "a"], "value": [0.5, 0.25]})
    assert sb.rank(rows, query)["score"].to_pylist() == [0.75]


# ---------------------------------------------------------------------------------------------
# Schemas and specs


def test_sources_agree_on_the_type_of_ids() -> None:
    monitor = sb.Monitor(fused(sb.TimeWindow(10), stream=None))
    monitor.push({"a": table([(0, "p", "a", 0.5)])})
    with pytest.raises(sb.SchemaError, match="cast them so that all sources agree"):
        monitor.push({"b": table([(0, 7, "b", 0.5)], pa.int64())})
    coded = table([(0, "p", "b", 0.5)])
    monitor.push({"b": coded.set_column(1, "object", coded["object"].dictionary_encode())})
    (answer,) = monitor.flush()
    assert scores(answer) == [("p", 1.0)]


def test_one_table_needs_the_stream_column() -> None:
    rows = table([(0, "p", "a", 0.5)])
    with pytest.raises(sb.SchemaError, match="needs stream="):
        sb.rank(rows, fused(sb.TimeWindow(10), stream=None))
    with pytest.raises(sb.SchemaError, match="cast it to a string"):
        sb.rank(rows, fused(sb.TimeWindow(10), stream="ts"))
    alone = fused(sb.TimeWindow(10), stream=None, streams=("a",))
    assert sb.rank(rows.drop_columns("stream"), alone)["score"].to_pylist() == [0.5]


def test_a_count_window_takes_one_table() -> None:
    with pytest.raises(sb.SchemaError, match="one source"):
        sb.rank({"a": table([(0, "p", "a", 0.5)])}, fused(sb.CountWindow(3)))


def test_streams_may_be_coded_and_values_whole_numbers() -> None:
    rows = table([(0, "p", "a", 1), (0, "q", "b", 3)])
    coded = rows.set_column(2, "stream", rows["stream"].dictionary_encode())
    whole = coded.set_column(3, "value", coded["value"].cast(pa.int8()))
    found = sb.rank(whole, fused(sb.TimeWindow(10), bounds=(0, 5)))
    assert found["score"].to_pylist() == [3.0, 1.0]
    assert found.schema.field("score").type == pa.float64()


def test_the_value_column_may_be_called_score() -> None:
    rows = table([(0, "p", "a", 0.5)]).rename_columns(["ts", "object", "stream", "score"])
    found = sb.rank(rows, fused(sb.TimeWindow(10), value="score"))
    assert found.column_names == ["window_start", "window_end", "rank", "object", "score"]


def test_a_function_that_returns_no_score_an_object() -> None:
    with pytest.raises(sb.QueryError, match="one score for each of the 2 objects"):
        sb.Monitor(fused(sb.TimeWindow(10), combine=lambda values: values))
    with pytest.raises(sb.QueryError, match="not a number"):
        sb.Monitor(fused(sb.TimeWindow(10), combine=lambda values: values[:, 0] * np.nan))
    with pytest.raises(sb.QueryError, match="monotone"):
        sb.Monitor(fused(sb.TimeWindow(10), combine=lambda values: -values[:, 0]))


@pytest.mark.parametrize("algorithm", ALL)
@pytest.mark.parametrize("by", [(), ("g",)])
@pytest.mark.parametrize("window", [sb.TimeWindow(10, slide=5), sb.CountWindow(9, slide=2)])
def test_a_function_that_fails_midway_changes_nothing(
    algorithm: str, by: tuple[str, ...], window: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skyband.fused.live.STRETCH", 2)  # so that something is done before
    wrong: list[str] = []

    def combine(values: Any) -> Any:
        # Values above 0.9 come in the batch that fails, behind others; and as upper bounds.
        if wrong and ((values > 0.9) & (values < 1)).any():
            return values[:, 0] * np.nan if wrong == ["nan"] else values
        return values.sum(axis=1)

    query = fused(window, algorithm=algorithm, by=by, combine=combine, options={"slack": 0})
    if algorithm == "sla":
        query = fused(window, algorithm=algorithm, by=by, combine=combine)
    monitor, plain = sb.Monitor(query), sb.Monitor(query)
    rng = np.random.default_rng(3)
    rows = [
        (t, f"o{t}", "ab"[t % 3 % 2], float(v)) for t, v in enumerate(rng.integers(0, 15, 60) / 16)
    ]
    rows[29] = (29, "o29", "a", 0.95)
    for start in range(0, 60, 12):
        made = table(rows[start : start + 12])
        made = made.append_column("g", pa.array([f"g{t % 2}" for t in range(start, start + 12)]))
        if start == 24:
            before = monitor.snapshot()
            for how, said in (("nan", "NaN"), ("shape", "one score for each")):
                wrong[:] = [how]
                with pytest.raises(sb.QueryError, match=said):
                    monitor.push(made)
                assert monitor.snapshot() == before
                monitor._check()
            wrong.clear()
        got, due = monitor.push(made), plain.push(made)
        assert [a.table for a in got] == [a.table for a in due]
        assert [a.bounds for a in got] == [a.bounds for a in due]
    kept = ("rows_in", "rows_bad", "windows_out", "retained", "reports", "objects")
    assert [monitor.stats()[name] for name in kept] == [plain.stats()[name] for name in kept]
    if not isinstance(window, sb.CountWindow):
        assert [a.table for a in monitor.flush()] == [a.table for a in plain.flush()]


def test_a_function_of_ones_own_is_given_again_on_restore() -> None:
    def combine(values: Any) -> Any:
        return values.max(axis=1)

    monitor = sb.Monitor(fused(sb.TimeWindow(10), combine=combine))
    monitor.push(table([(0, "p", "a", 0.5), (1, "p", "b", 0.75)]))
    blob = monitor.snapshot()
    with pytest.raises(sb.EngineError, match="give it again"):
        sb.Monitor.restore(blob)
    (answer,) = sb.Monitor.restore(blob, combine=combine).flush()
    assert scores(answer) == [("p", 0.75)]


# ---------------------------------------------------------------------------------------------
# Shards, shorter windows, two ways of folding


def placed(query: sb.FusedTopK, rows: pa.Table) -> tuple[Synopsis[Any], Any]:
    """A synopsis bound to a table, and the summaries of its panes."""
    synopsis = make_synopsis(query)
    intake = Intake(query, synopsis)
    taken = intake.take("", rows)
    found = intake.place(taken, GroupTable((), rows.schema), np.iinfo(np.int64).min).rows
    assert found is not None
    return synopsis, synopsis.summarise(found)


@pytest.mark.parametrize("algorithm", EXACT)
@pytest.mark.parametrize("shards", [2, 3])
def test_shards_by_object_finish_to_the_whole(algorithm: str, shards: int) -> None:
    stream = streams.reports(3, 400, size=40, objects=90, streams=("a", "b"))
    options = conformance.OPTIONS[algorithm]
    query = fused(sb.TimeWindow(40, slide=5), k=3, algorithm=algorithm, options=options)
    rows = stream.table
    whole, runs = placed(query, rows)
    shard = whole.shard("", rows.to_batches()[0], shards)
    assert set(shard.tolist()) == set(range(shards))
    parts = [placed(query, rows.filter(pa.array(shard == n))) for n in range(shards)]
    panes = query.window.panes
    for window in range(1, int(rows["ts"][-1].as_py()) // 5):
        first, end = int(panes.first_pane(window)), int(panes.end_pane(window))
        answers = []
        for synopsis, summary in [(whole, runs), *parts]:
            mine = summary.take((summary.stamp >= end - panes.per_slide) & (summary.stamp < end))
            synopsis.push(mine)
            synopsis.seal(first, end)
            synopsis._check()
            answers.append(synopsis.partial(first, end).stamped(np.array([window])[:1]))
        want = whole.finish(answers[:1]).parts["rows"]
        got = whole.finish(answers[1:]).parts["rows"]
        assert got["object"].to_pylist() == want["object"].to_pylist()
        assert got["score"].tolist() == want["score"].tolist()


@pytest.mark.parametrize("algorithm", EXACT)
@pytest.mark.parametrize("combine", ["sum", "max"])
def test_shorter_windows_than_the_querys(algorithm: str, combine: str) -> None:
    stream = streams.reports(9, 300, size=40, objects=60, streams=("a", "b"))
    options = conformance.OPTIONS[algorithm]
    window = sb.TimeWindow(40, slide=4)
    query = fused(window, k=3, algorithm=algorithm, combine=combine, options=options)
    monitor = sb.Monitor(query)
    checked = 0
    for start in range(0, 300, 10):
        monitor.push(stream.table.slice(start, 10))
        seen = stream.rows[: start + 10]
        now = seen[-1]["ts"] // 4 * 4
        for last in (4, 12, 40):
            live = [row for row in seen if now - last <= row["ts"] < now]
            settings = conformance.FUSED | {"k": 3, "combine": combine}
            settings.pop("time")
            want = oracle.fused(live, **settings)  # type: ignore[arg-type]
            got = streams.rows_of(monitor.peek(last=last).table.select(["object", "score"]))
            assert oracle.difference(got, want, ("score",)) is None
            checked += len(want)
    assert checked > 100


@pytest.mark.parametrize("algorithm", EXACT)
def test_pane_by_pane_is_the_same_as_many_at_once(algorithm: str) -> None:
    stream = streams.reports(4, 500, size=40, objects=200, streams=("a", "b"))
    options = {} if algorithm == "sla" else {"slack": 50}
    query = fused(sb.TimeWindow(40, slide=3), k=3, algorithm=algorithm, options=options)
    whole = sb.rank(stream.table, query)
    slow = make_synopsis(query)
    fold = type(slow).fold
    try:
        type(slow).fold = Synopsis.fold  # type: ignore[method-assign]
        assert sb.rank(stream.table, query).equals(whole)
    finally:
        type(slow).fold = fold  # type: ignore[method-assign]


# ---------------------------------------------------------------------------------------------
# Interval dominance


Instance = tuple[str, int, float, float]
"""Object, pane, current and best score, of one moment."""


def instances(rows: Sequence[tuple[int, str, int, float]], d: int = 2) -> list[Instance]:
    """All instances of reports (pane, object, stream, value), for the sum of values in [0, 1]."""
    found = []
    for pane, name in sorted({(row[0], row[1]) for row in rows}):
        later = {s: v for p, o, s, v in rows if o == name and p >= pane}
        found.append((name, pane, sum(later.values()), sum(later.get(s, 1.0) for s in range(d))))
    return found


def dominators(instance: Instance, all_: Sequence[Instance]) -> set[str]:
    """Distinct objects of the same pane or newer ones that stand before an instance's best."""
    name, pane, _, best = instance
    return {
        other for other, p, current, _ in all_ if p >= pane and (-current, other) < (-best, name)
    }


def random_reports(rng: random.Random, n: int) -> list[tuple[int, str, int, float]]:
    """One report a pane, of each object and stream once: the values are all different."""
    pairs = [(f"o{i}", s) for i in range(n) for s in (0, 1)]
    rng.shuffle(pairs)
    return [(pane, name, s, rng.random()) for pane, (name, s) in enumerate(pairs[:n])]


@pytest.mark.parametrize("seed", range(20))
def test_dominance_persists_and_is_transitive(seed: int) -> None:
    rng = random.Random(seed)
    rows = random_reports(rng, 14)
    before: dict[tuple[str, int], set[str]] = {}
    for n in range(1, len(rows) + 1):
        now = instances(rows[:n])
        found = {(i[0], i[1]): dominators(i, now) for i in now}
        for key, names in before.items():
            assert names <= found[key]
        for i, j in itertools.product(now, now):
            beats = j[1] >= i[1] and (-j[2], j[0]) < (-i[3], i[0])
            if beats:
                assert found[j[0], j[1]] <= found[i[0], i[1]]
        before = found


def retained(monitor: sb.Monitor) -> set[tuple[str, int]]:
    """The (object, pane) instances that a swept EAA holds."""
    synopsis = monitor._synopsis
    assert isinstance(synopsis, Eaa)
    synopsis.sweep()
    synopsis._check()
    log: tuple[Any, ...] = synopsis.log
    code, _, _, pane, _ = (column[synopsis.head : synopsis.size] for column in log)
    assert synopsis.ids is not None
    names = synopsis.ids.gather(code).to_pylist()
    return set(zip(names, pane.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_dominance_set_is_what_is_kept_and_all_of_it_is_needed(seed: int, k: int) -> None:
    rng = random.Random(seed)
    rows = random_reports(rng, 30)
    query = fused(sb.TimeWindow(30, slide=1), k=k, algorithm="eaa", options={"slack": 0})
    monitor = sb.Monitor(query)
    monitor.push(as_table([*rows, (30, "last", 0, 0.0)]))
    now = instances(rows)
    undominated = {(i[0], i[1]) for i in now if len(dominators(i, now)) < k}
    assert retained(monitor) == undominated  # sufficient, as every other test shows
    assert monitor.stats()["retained"] == len(undominated)

    # Necessary: when all that is older has expired, an instance gets its maxima and is answered.
    for name, pane, _, _ in now:
        if (name, pane) not in undominated:
            continue
        seen = {s for p, o, s, _ in rows if o == name and p >= pane}
        more = [(pane + 29, name, s, 1.0) for s in {0, 1} - seen]
        again = sb.Monitor(query)
        answers = again.push(as_table([*rows, *more, (pane + 30, "last", 0, 0.0)]))
        assert answers[-1].end == pane + 30
        assert name in answers[-1].table["object"].to_pylist()


def as_table(rows: Sequence[tuple[int, str, int, float]]) -> pa.Table:
    return table([(pane, name, "ab"[s], value) for pane, name, s, value in rows])


# ---------------------------------------------------------------------------------------------
# The approximate algorithm


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sketch", ["fm", "hll"])
@pytest.mark.parametrize("returns", [True, False])
@pytest.mark.parametrize("combine", ["sum", "min"])
def test_the_approximate_answer_keeps_its_promise(
    seed: int, sketch: str, returns: bool, combine: str
) -> None:
    size = 10**9 if not returns else 60
    stream = streams.reports(seed, 800, size=size, objects=500, streams=("a", "b"), step=1)
    settings = conformance.FUSED | {"k": 4, "combine": combine}
    run = oracle.answers(
        "FusedTopK", oracle.TimeWindow(60, 5), [stream.rows], **(settings | {"k": 10**6})
    )
    options = {"slack": 0, "sketch": sketch, "bitmaps": 64}
    query = fused(
        sb.TimeWindow(60, slide=5), k=4, algorithm="eaa-approx", options=options,
        returns=returns, combine=combine,
    )  # fmt: skip
    monitor = sb.Monitor(query)
    answers = []
    for start in range(0, 800, 20):
        answers += monitor.push(stream.table.slice(start, 20))
        monitor._check()
        if start % 200 == 0:
            monitor = sb.Monitor.restore(monitor.snapshot())
    answers += monitor.flush()
    inexact = 0
    for answer, want in zip(answers, run.answers, strict=True):
        assert answer.end == want.end
        if not want.table:
            continue
        truth = {row["object"]: row["score"] for row in want.table}
        shown, missed = scores(answer), answer.bounds["missed"]
        assert len(shown) == min(4, len(truth))
        for name, score in shown:
            assert score <= truth[name] + 1e-12
            assert truth[name] <= max(score, missed) + 1e-12
        names = {name for name, _ in shown}
        last = shown[-1][1]
        assert all(s <= max(last, missed) + 1e-12 for n, s in truth.items() if n not in names)
        right = [(row["object"], row["score"]) for row in want.table[:4]]
        if answer.exact:
            assert shown == right
        inexact += not answer.exact
    assert inexact  # or nothing was ever dropped, and the test means little


def test_the_approximate_algorithm_keeps_less_and_is_mostly_right() -> None:
    from skyband.datasets.fused import correlated_reports

    rows = correlated_reports(6000, correlation=0.5, recent=250, seed=2)
    found, kept = {}, {}
    for algorithm in ALL:
        options = {} if algorithm == "sla" else {"slack": 0}
        query = fused(
            sb.CountWindow(1000, slide=50), k=10, streams=("s0", "s1"), algorithm=algorithm,
            options=options, returns=False,
        )  # fmt: skip
        monitor = sb.Monitor(query)
        answers = monitor.push(rows)
        found[algorithm] = [set(a.table["object"].to_pylist()) for a in answers]
        kept[algorithm] = monitor.stats()["retained"]
    assert found["sla"] == found["eaa"]
    assert kept["eaa-approx"] < 0.6 * kept["eaa"] < 0.6 * kept["sla"]
    pairs = zip(found["eaa-approx"], found["sla"], strict=True)
    assert np.mean([len(got & want) / 10 for got, want in pairs]) > 0.8


@pytest.mark.parametrize("algorithm", ALL)
def test_recurrences_can_be_estimated(algorithm: str) -> None:
    stream = streams.reports(
        6, 600, size=50, recurrences=4, objects=12, streams=("a", "b"), batches=5
    )
    settings = conformance.FUSED | {"k": 3, "recurrences": "estimate", "algorithm": algorithm}
    want = oracle.answers("FusedTopK", oracle.TimeWindow(50, 10), stream.row_batches, **settings)
    query = fused(sb.TimeWindow(50, slide=10), k=3, recurrences="estimate", algorithm=algorithm)
    got = conformance.run(query, stream.batches, restarts=True)
    if algorithm == "sla":
        conformance.check("FusedTopK", got, want)
    if algorithm != "eaa-approx":  # which knows whether it has dropped anything
        assert {answer.exact for answer in sb.watch(stream.table, query)} == {algorithm == "sla"}
    hits = [
        len({r["object"] for r in answer[2]} & {r["object"] for r in right.table}) / 3
        for answer, right in zip(got.answers, want.answers, strict=True)
    ]
    assert np.mean(hits) > 0.9
