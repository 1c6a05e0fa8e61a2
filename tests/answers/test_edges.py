"""Window edges have the type of the time column: naive in, naive out; a zone is kept."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oracle
import skyband as sb
from skyband import registry
from skyband.answers.answer import LazyTable
from support import command_line, conformance, sending, streams

SECOND = 1_000_000
WINDOW = sb.TimeWindow("2 s", slide="1 s")
ZONES = (None, "UTC", "Europe/Berlin", "+05:30")
TIMES = [
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in ZONES),
    pa.date32(),
    pa.date64(),
]


def edge_of(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", kind.tz if pa.types.is_timestamp(kind) else None)


def rows(kind: pa.DataType, count: int = 4) -> pa.Table:
    if pa.types.is_date(kind):
        times = pa.array([date(1970, 1, 1 + i) for i in range(count)], kind)
    else:
        naive = pa.timestamp("us")
        times = pa.array(np.arange(count) * SECOND, naive).cast(pa.timestamp("us", kind.tz))
        times = times.cast(kind)
    x = np.arange(count, dtype=np.float64)
    return pa.table({"ts": times, "x": x, "id": np.arange(count)})


def query(kind: pa.DataType) -> sb.TopK:
    window = sb.TimeWindow("2 days", slide="1 day") if pa.types.is_date(kind) else WINDOW
    return sb.TopK(k=1, score="x", id="id", time="ts", window=window)


def edges(table: pa.Table) -> list[pa.DataType]:
    return [table.schema.field(name).type for name in ("window_start", "window_end")]


@pytest.mark.parametrize("kind", TIMES, ids=str)
def test_rank_watch_and_monitor(kind: pa.DataType) -> None:
    want = edge_of(kind)
    table = rows(kind)
    ranked = sb.rank(table, query(kind))
    assert ranked.num_rows == 4
    assert edges(ranked) == [want, want]
    assert edges(sb.rank(table.slice(0, 0), query(kind))) == [want, want]
    ends = ranked["window_end"].to_pylist()
    assert [answer.end for answer in sb.watch(table, query(kind))] == ends
    assert ends[0].tzinfo is None if want.tz is None else ends[0].utcoffset() is not None
    monitor = sb.Monitor(query(kind))
    answers = monitor.push(table.slice(0, 2))
    monitor = sb.Monitor.restore(monitor.snapshot())
    peeked = monitor.peek()
    assert edges(peeked.table) == [want, want]
    assert (peeked.end.tzinfo is None) == (want.tz is None)
    answers += monitor.push(table.slice(2)) + monitor.flush()
    assert [edges(answer.table) for answer in answers] == [[want, want]] * 4
    assert [answer.start for answer in answers] == ranked["window_start"].to_pylist()


def test_integers_stay_integers() -> None:
    table = pa.table({"ts": pa.array([0, 1, 2], pa.int32()), "x": [1.0, 2.0, 3.0]})
    window = sb.TimeWindow(2, slide=1)
    ranked = sb.rank(table, sb.TopK(k=1, score="x", time="ts", window=window))
    assert edges(ranked) == [pa.int64(), pa.int64()]
    naive = rows(pa.timestamp("us"))
    ranked = sb.rank(naive, sb.TopK(k=1, score="x", time="ts", window=sb.CountWindow(2)))
    assert edges(ranked) == [pa.int64(), pa.int64()]


@pytest.mark.parametrize("kind", registry.kinds())
@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_every_query_and_its_changes(kind: str, zone: str | None) -> None:
    """Edges have the type of the time column, and answers equal those over UTC."""
    found: dict[str | None, list[Any]] = {}
    for each in (zone, "UTC"):
        moment = pa.timestamp("us", each)
        settings = conformance.SETTINGS[kind][-1]
        window = oracle.TimeWindow(30, 7, lateness=6)
        stream = conformance.long_stream(kind, settings, window, "uniform")
        batches, _, table = sending.sent(stream, settings)
        zoned = [_zoned(batch, moment) for batch in batches]
        asked = conformance.query_of(kind, window, settings, _zoned(table, moment))
        monitor = sb.Monitor(asked)
        answers = [answer for batch in zoned for answer in monitor.push(batch)]
        answers += monitor.flush()
        assert answers
        for answer in answers:
            assert edges(answer.table) == [moment, moment]
        plain = ("ts", "trades_ts", "risks_ts", "window_start", "window_end")
        found[each] = [
            (
                pa.scalar(answer.end, moment).value,
                [_without(row, plain) for row in streams.rows_of(answer.table)],
                [_without(row, plain) for row in streams.rows_of(answer.changes)],
            )
            for answer in answers
        ]
    assert found[zone] == found["UTC"]


def _without(row: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def _zoned(batch: Any, moment: pa.DataType) -> Any:
    if isinstance(batch, dict):
        return {name: _zoned(table, moment) for name, table in batch.items()}
    ticks = batch["ts"].cast(pa.int64()).cast(pa.timestamp("us"))
    at = batch.schema.get_field_index("ts")
    return batch.set_column(at, "ts", ticks.cast(moment))


SIDES = {"n": pa.timestamp("us", "Europe/Berlin"), "s": pa.timestamp("ms")}


@pytest.mark.parametrize("order", [("n", "s"), ("s", "n")])
def test_of_several_sources_the_first_one_decides(order: tuple[str, ...]) -> None:
    asked = sb.FusedTopK(k=1, id="id", value="x", streams=order, bounds=(0, 9), time="ts",
                         window=WINDOW)  # fmt: skip
    want = edge_of(SIDES[order[0]])
    for names in (("n", "s"), ("s", "n")):
        ranked = sb.rank({name: rows(SIDES[name]) for name in names}, asked)
        assert edges(ranked) == [want, want]
        assert ranked.num_rows == 4
        monitor = sb.Monitor(asked)
        answers = [a for name in names for a in monitor.push({name: rows(SIDES[name])})]
        assert answers
        assert all(edges(answer.table) == [want, want] for answer in answers)


def test_answers_join_back_to_the_users_own_data() -> None:
    table = rows(pa.timestamp("us"))
    ranked = sb.rank(table, query(pa.timestamp("us"))).drop_columns(["ts", "id", "x"])
    assert table.join(ranked, keys="ts", right_keys="window_end", join_type="inner").num_rows == 3


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("limit", [[], ["--limit", "2"]])
@pytest.mark.parametrize(("zone", "first"), [
    (None, "1970-01-01T00:00:01"), ("Europe/Berlin", "1970-01-01T01:00:01+01:00"),
])  # fmt: skip
def test_the_command_line(
    tmp_path: Path, zone: str | None, first: str, limit: list[str], changes: bool
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(rows(pa.timestamp("us", zone)), path)
    words = ["topk", str(path), "--score", "x", "--time", "ts", "--window", "2 s", "--slide", "1 s",
             "-k", "1", "--format", "json", *limit]  # fmt: skip
    out = command_line.run(*words, *(["--changes"] if changes else [])).stdout
    got = json.loads(out.splitlines()[0])["window_end"]
    assert datetime.fromisoformat(got) == datetime.fromisoformat(first)
    assert got.replace(" ", "T") == first


def test_the_table_of_an_answer_is_built_when_it_is_read() -> None:
    """A later push does not change it, and what is built is built once."""
    window = sb.TimeWindow(4, slide=2)
    monitor = sb.Monitor(sb.TopK(k=1, score="score", id="id", time="ts", window=window))
    batches = [pa.table({"ts": [t], "id": [t], "score": [float(t % 5)]}) for t in range(12)]
    found = [answer for batch in batches for answer in monitor.push(batch)]
    every = [answer._all for answer in found]
    assert all(isinstance(answers.made, LazyTable) for answers in every)
    assert not any(answers.made._table for answers in every)
    assert [answer.table["id"].to_pylist() for answer in found] == [[1], [3], [4], [4], [9]]
    assert [answer.changes.num_rows for answer in found] == [1, 2, 2, 0, 2]
    assert every[0].table is every[0].table
