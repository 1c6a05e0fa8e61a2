"""FusedTopK, in addition to the shared suites: functions, ids, silent streams, shards, windows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oracle
import skyband as sb
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs
from skyband.contract.synopsis import Synopsis
from skyband.data.group_table import GroupTable
from skyband.engine.clock import clock_for
from skyband.engine.intake import Intake
from skyband.engine.per_group import make_synopsis
from skyband.fused.live_reports import IdKeys
from support import conformance, streams
from support.fused_cases import ALL, COMBINES, EXACT, fused, scores, table

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
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))]
)
def test_objects_that_report_once_ever(algorithm: str, combine: str, seed: int) -> None:
    settings = conformance.FUSED | {
        "k": 2,
        "streams": ("a", "b", "c"),
        "combine": combine,
        "returns": algorithm == "sla",  # sla keeps all reports in any case
        "algorithm": algorithm,
        "options": conformance.OPTIONS[algorithm],
    }
    # `size` exceeds the length of the stream, so an object never reports twice in a stream.
    stream = streams.reports(seed, 300, size=10**9, objects=80, batches=11)
    for window in (oracle.TimeWindow(30, 3), oracle.CountWindow(50, 1)):
        conformance.compare("FusedTopK", window, settings, stream)


def test_returns_false_keeps_less() -> None:
    stream = streams.reports(5, 2000, size=10**9, objects=1500, streams=("a", "b"))
    kept = {}
    for returns in (True, False):
        monitor = sb.Monitor(fused(sb.CountWindow(500, 10), algorithm="eaa", returns=returns))
        monitor.push(stream.table)
        monitor.session.synopsis.sweep()  # type: ignore[attr-defined]
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
    assert len(set(given)) == len(words) - 2  # "a" is like "a\0", and so are the long ones
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
# Shards, shorter windows, two ways of folding


def placed(query: sb.FusedTopK, rows: pa.Table) -> tuple[Synopsis[Any], Any]:
    """A synopsis bound to a table, and the summaries of its panes."""
    synopsis = make_synopsis(query)
    intake = Intake(query, synopsis)
    taken = intake.take("", rows)
    groups = GroupTable((), rows.schema)
    found = clock_for(query, [query], [""]).place(taken, synopsis.axes.get(""), groups).rows
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
            one = np.array([window])
            asked = Windows(one, np.array([first]), np.array([end]), np.zeros(1, np.int64))
            found = synopsis.fold(mine, asked)
            assert found is not None
            synopsis._check()
            answers.append(found)
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
def test_pane_by_pane_is_the_same_as_many_at_once(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = streams.reports(4, 500, size=40, objects=200, streams=("a", "b"))
    options = {} if algorithm == "sla" else {"slack": 50}
    query = fused(sb.TimeWindow(40, slide=3), k=3, algorithm=algorithm, options=options)
    whole = sb.rank(stream.table, query)
    slow = type(make_synopsis(query))
    fold = slow.fold

    def one_by_one(self: Any, panes: Runs, windows: Windows) -> Runs | None:
        found, at = [], 0
        for number, end in enumerate(windows.end):
            upto = int(np.searchsorted(panes.stamp, end))
            mine = panes.slice(at, upto)
            found.append(fold(self, mine, windows.slice(number, number + 1)))
            at = upto
        fold(self, panes.slice(at, len(panes)), windows.slice(0, 0))
        kept = [runs for runs in found if runs is not None]
        return Runs.concat(kept) if kept else None

    monkeypatch.setattr(slow, "fold", one_by_one)
    assert sb.rank(stream.table, query).equals(whole)
