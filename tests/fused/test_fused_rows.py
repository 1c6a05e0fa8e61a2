"""FusedTopK: bad rows, too many reports, schemas, and functions that fail."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oracle
import skyband as sb
from skyband.fused.base import Guard
from support import conformance, results, streams
from support.fused_cases import ALL, fused, scores, table

# ---------------------------------------------------------------------------------------------
# Bad rows


@pytest.mark.parametrize("algorithm", ALL)
@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("stream", "c", "not one of the query's streams"),
        ("stream", None, "not one of the query's streams"),
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


def test_messages_name_the_stream_its_bounds_and_a_way_out() -> None:
    reports = table([(3, "p", "a", 0.5), (4, "q", "b", 6.0), (5, "p", "b", 1.0)])
    query = fused(sb.TimeWindow(10), bounds=((0.0, 1.0), (0.5, 5.0)))
    said = r"row 1: the value is outside the bounds of stream 'b', 0.5 to 5 \(6.0\)"
    with pytest.raises(sb.DataError, match=said):
        sb.rank(reports, query)
    moments = pa.array([1_362_099_600, 1_362_099_660], pa.timestamp("s", "UTC"))
    twice = table([(3, "p", "a", 0.5), (4, "p", "a", 0.6)]).set_column(0, "ts", moments)
    said = "in the stream 'a' at time 2013-03-01 01:01:00[+]00:00: .* repeats='max', 'latest'"
    with pytest.raises(sb.DataError, match=said):
        sb.rank(twice, fused(sb.TimeWindow("1 hour")))


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
    query = fused(
        sb.TimeWindow(10, slide=slide),
        algorithm=algorithm,
        options={} if algorithm == "sla" else {"slack": 0},
    )
    if algorithm == "sla":
        query = fused(sb.TimeWindow(10, slide=slide), algorithm=algorithm)
    with pytest.raises(sb.DataError, match="'p' has too many reports in the stream 'a' at time 5"):
        sb.rank(table(TOO_MANY), query)
    monitor = sb.Monitor(query, on_bad="skip")
    got = results.Got()
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
    with pytest.raises(sb.DataError, match="'q' has too many reports"):
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
        if rng.random() < 0.8:  # otherwise the rows are refused and must leave no trace
            kept, good = taken, ~bad
            guard.admit(hashes[good], stream[good], panes[good], panes[good] - 6)
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
    monkeypatch.setattr(
        "skyband.fused.live_reports.STRETCH", 2
    )  # so that part of the batch is done before
    wrong: list[str] = []

    def combine(values: Any) -> Any:
        # Values above 0.9 occur late in the batch that fails, and as upper bounds.
        if wrong and ((values > 0.9) & (values < 1)).any():
            return values[:, 0] * np.nan if wrong == ["nan"] else values
        return values.sum(axis=1)

    options = {} if algorithm == "sla" else {"slack": 0}
    query = fused(window, algorithm=algorithm, by=by, combine=combine, options=options)
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
