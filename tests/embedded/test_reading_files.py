"""Files: only needed columns are read, ahead of their use."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.data.columns import chunks_of
from skyband.embedded import formats, text_files
from skyband.embedded import read_ahead as ahead
from skyband.embedded.sources import batches_of
from skyband.engine.session import Session
from support.files import QUERY, TABLE, WANT, WINDOW, write


def seen(source: Any, query: sb.Query, monkeypatch: pytest.MonkeyPatch) -> list[pa.Table]:
    """The batches with rows that a query is given."""
    found: list[pa.Table] = []
    push = Session.pushing

    def spy(self: Session, data: Any) -> Any:
        found.append(data)
        return push(self, data)

    with monkeypatch.context() as patched:
        patched.setattr(Session, "pushing", spy)
        sb.rank(source, query)
    return [table for table in found if table.num_rows]


# Columns ------------------------------------------------------------------------------------------

WIDE = TABLE.append_column("note", pa.array(["x"] * 400)).append_column("n", pa.array(range(400)))


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow", "arrows", "jsonl"])
def test_only_needed_columns_are_read(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "_FIRST_BLOCK", 4096)  # so that there are several blocks
    monkeypatch.setattr(text_files, "_BLOCK", 4096)
    path = write(WIDE, tmp_path / f"wide.{ending}")
    tables = seen(path, QUERY, monkeypatch)
    assert {tuple(sorted(table.column_names)) for table in tables} == {("id", "score", "ts")}
    assert sum(table.num_rows for table in tables) == 400
    got = sb.rank(path, QUERY)
    assert [{**row, "ts": None} for row in got.to_pylist()] == [{**r, "ts": None} for r in WANT]


def test_a_skyline_needs_every_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(WIDE, tmp_path / "wide.parquet")
    query = sb.Skyline(prefer={"score": "max", "n": "min"}, window=WINDOW, time="ts")
    assert {len(table.column_names) for table in seen(path, query, monkeypatch)} == {5}


def test_row_groups_and_dictionaries_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = pa.array([f"host-{i % 3}" for i in range(4000)])
    flows = pa.array([f"flow number {i}" for i in range(4000)])
    table = pa.table({"t": range(4000), "host": hosts, "flow": flows})
    pq.write_table(table, tmp_path / "hosts.parquet", row_group_size=1000)
    monkeypatch.setattr(formats, "BATCH_ROWS", 1000)
    few = sb.HeavyHitters(k=2, item="host", time="t", window=sb.TimeWindow(500))
    tables = seen(tmp_path / "hosts.parquet", few, monkeypatch)
    assert [t.num_rows for t in tables] == [1000] * 4
    assert all(pa.types.is_dictionary(t.schema.field("host").type) for t in tables)
    many = sb.HeavyHitters(k=2, item="flow", time="t", window=sb.TimeWindow(500))
    tables = seen(tmp_path / "hosts.parquet", many, monkeypatch)
    assert tables[0].schema.field("flow").type == pa.string()  # its dictionary would be as long
    for query in (few, many):
        assert sb.rank(tmp_path / "hosts.parquet", query).equals(sb.rank(table, query))


def test_small_row_groups_are_read_together_and_huge_ones_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(TABLE, tmp_path / "flows.parquet", rows=50)
    monkeypatch.setattr(formats, "BATCH_ROWS", 100)
    assert [t.num_rows for t in seen(path, QUERY, monkeypatch)] == [100] * 4
    monkeypatch.setattr(formats, "_HUGE_GROUP", 40)
    monkeypatch.setattr(formats, "_PIECE_ROWS", 25)
    assert [t.num_rows for t in seen(path, QUERY, monkeypatch)] == [25] * 16
    assert sb.rank(path, QUERY).to_pylist() == WANT


def test_json_types_come_from_all_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "_FIRST_BLOCK", 64)
    path = tmp_path / "late_types.jsonl"
    lines = [f'{{"x": {i}, "id": null}}' for i in range(50)] + ['{"x": 60.5, "id": "a"}', "null"]
    path.write_text("\n".join(lines) + "\n")
    query = sb.TopK(k=1, score="x", window=sb.CountWindow(51))
    with pytest.warns(sb.SkybandWarning):
        assert sb.rank(path, query, on_bad="skip")["x"].to_pylist() == [60.5]
    named = sb.TopK(k=1, score="x", id="id", window=sb.CountWindow(1))
    with pytest.warns(sb.SkybandWarning):
        assert sb.rank(path, named, on_bad="skip")["id"].to_pylist() == ["a"]


def test_a_long_json_file_is_read_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text("".join(f'{{"x": {i}, "y": "{i}"}}\n' for i in range(2000)) + "null\n" * 3)
    query = sb.TopK(k=1, score="x", window=sb.CountWindow(500))
    with pytest.warns(sb.SkybandWarning):
        want = sb.rank(path, query, on_bad="skip")
    monkeypatch.setattr(text_files, "_FIRST_BLOCK", 512)
    monkeypatch.setattr(text_files, "_BLOCK", 512)
    monkeypatch.setattr(text_files, "_WHOLE", 1024)
    tables = [t for t in batches_of(path) if t.num_rows]
    assert len(tables) > 10
    assert sum(t.num_rows for t in tables) == 2003
    with pytest.warns(sb.SkybandWarning):
        assert sb.rank(path, query, on_bad="skip").equals(want)
    path.write_text(path.read_text() + '{"x": 0.5, "y": "?"}\n')
    with pytest.raises(sb.SchemaError, match=r"long\.jsonl.*could not be read as json"):
        sb.rank(path, query, on_bad="skip")


def test_names_in_a_json_file_that_are_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "_FIRST_BLOCK", 64)
    path = tmp_path / "bytes.jsonl"
    path.write_bytes(b'{"x": 1, "\xc4": 2}\n' * 50)
    query = sb.TopK(k=1, score="x + 1", window=sb.CountWindow(5))
    with pytest.raises(sb.SchemaError, match=r"bytes\.jsonl.*could not be read as json"):
        sb.rank(path, query)


@pytest.mark.parametrize(
    "wrap", [lambda kind: kind, pa.list_, lambda kind: pa.struct([("a", kind)])]
)
def test_a_union_of_no_types_in_an_arrow_file(tmp_path: Path, wrap: Any) -> None:
    """Arrow's arrays of such a type end the process."""
    path = tmp_path / "damaged.arrows"
    schema = pa.schema([("t", pa.int64()), ("x", wrap(pa.dense_union([])))])
    path.write_bytes(schema.serialize().to_pybytes())
    query = sb.TopK(k=1, score="t", window=sb.CountWindow(5))
    with pytest.raises(sb.SchemaError, match=r"'damaged\.arrows' could not .* union of no types"):
        sb.rank(path, query)


def test_a_csv_file_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "_FIRST_BLOCK", 256)
    monkeypatch.setattr(text_files, "_BLOCK", 512)
    path = tmp_path / "many.csv"
    path.write_bytes(b"\xef\xbb\xbfx,name\n" + b"".join(b"%d,n%d\n" % (i, i) for i in range(999)))
    query = sb.TopK(k=2, score="x", id="name", window=sb.CountWindow(333))
    assert sb.rank(path, query)["name"].to_pylist() == [
        "n332",
        "n331",
        "n665",
        "n664",
        "n998",
        "n997",
    ]
    with path.open("ab") as file:
        file.write(b"much,n\n")
    with pytest.raises(sb.SchemaError, match=r"many\.csv.*much.*after byte.*from the first row on"):
        sb.rank(path, query)


def test_null_records_are_found_wherever_they_stand() -> None:
    for text in (
        "null",
        " null\n",
        '{"x":1}\nnull',
        '{"x":1}\r\n\t null\n{"x":2}',
        '\n\nnull\n{"x":1}',
    ):
        assert text_files._may_have_null(text.encode()), text
        assert text_files.read_json(text.encode()).num_rows == text.count("x") + 1
    assert not text_files._may_have_null(b'{"x":null}\n{"x":1}\n')


# Reading ahead ------------------------------------------------------------------------------------


def test_loads_run_ahead_in_other_threads_and_stay_in_order() -> None:
    ran: list[tuple[int, int]] = []

    def load(i: int) -> pa.Table:
        ran.append((i, threading.get_ident()))
        return pa.table({"i": [i]})

    loads = (partial(load, i) for i in range(20))
    tables = ahead.read_ahead(loads, threads=2)
    assert [next(tables)["i"][0].as_py() for _ in range(3)] == [0, 1, 2]
    deadline = threading.Event()
    for _ in range(100):
        if len(ran) > 3:
            break
        deadline.wait(0.02)
    assert len(ran) > 3  # the fourth was read although nobody asked for it yet
    assert len(ran) <= 3 + 3  # but not all of them
    assert threading.get_ident() not in {thread for _, thread in ran}
    assert [t["i"][0].as_py() for t in tables] == list(range(3, 20))


def test_batches_beyond_the_budget_are_read_one_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "AHEAD_BYTES", 100)
    live, most = [0], [0]

    def load(i: int) -> pa.Table:
        live[0] += 1
        most[0] = max(most[0], live[0])
        return pa.table({"i": np.arange(1000)})

    for _ in ahead.read_ahead((partial(load, i) for i in range(12)), threads=4):
        live[0] -= 1
        threading.Event().wait(0.005)
    assert most[0] <= 3  # the one in use, the one that waits, and one at the start


def test_an_error_comes_in_its_turn_and_one_thread_reads_here() -> None:
    def loads(fail_at: int) -> Iterator[ahead.Load]:
        for i in range(5):
            if i == fail_at:
                raise sb.SchemaError("broken")
            yield partial(pa.table, {"i": [i]})

    for threads in (1, 2):
        tables = ahead.read_ahead(loads(3), threads)
        assert [next(tables)["i"][0].as_py() for _ in range(3)] == [0, 1, 2]
        with pytest.raises(sb.SchemaError, match="broken"):
            next(tables)
    ids: list[int] = []

    def one() -> pa.Table:
        ids.append(threading.get_ident())
        return pa.table({"i": [1]})

    assert len(list(ahead.read_ahead(iter([one] * 3), threads=1))) == 3
    assert set(ids) == {threading.get_ident()}


# Chunks -------------------------------------------------------------------------------------------


def test_large_chunks_are_not_joined_and_small_ones_are() -> None:
    big = np.arange(100_000)
    table = pa.concat_tables([pa.table({"x": big}), pa.table({"x": big})])
    found = chunks_of(table)
    assert [c.num_rows for c in found] == [100_000] * 2
    ours = {c.column(0).buffers()[1].address for c in found}
    assert ours == {c.buffers()[1].address for c in table["x"].chunks}
    small = pa.concat_tables([pa.table({"x": [i]}) for i in range(50)])
    assert [c.num_rows for c in chunks_of(small)] == [50]
    assert [c.num_rows for c in chunks_of(small.slice(0, 0))] == [0]
    long = pa.table({"x": np.arange((1 << 20) + 5)})
    assert [c.num_rows for c in chunks_of(long)] == [1 << 20, 5]


@pytest.mark.parametrize("window", [WINDOW, sb.CountWindow(70, slide=30)], ids=["time", "count"])
@pytest.mark.parametrize("by", [(), ("id",)], ids=["", "by"])
def test_chunks_give_the_same_answers(
    window: Any, by: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = [
        sb.TopK(k=3, score="score", time="ts", window=window, by=by),
        sb.HeavyHitters(k=3, item="score", time="ts", window=window, by=by),
    ]
    for query in queries:
        want = sb.rank(TABLE, query)
        monkeypatch.setattr("skyband.data.columns._SMALL_CHUNK", 1)
        chunked = pa.concat_tables([TABLE.slice(i, 33) for i in range(0, 400, 33)])
        for threads in (1, 2):
            assert sb.rank(chunked, query, threads=threads).equals(want)
        monkeypatch.undo()


def test_a_bad_row_is_named_by_its_place_in_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.data.columns._SMALL_CHUNK", 1)
    chunks = [pa.table({"x": [1.0, 2.0]}), pa.table({"x": [3.0, None]})]
    monitor = sb.Monitor(sb.TopK(k=1, score="x", window=sb.CountWindow(2)))
    with pytest.raises(sb.DataError, match="row 3"):
        monitor.push(pa.concat_tables(chunks))
    assert monitor.stats()["rows_in"] == 0


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "2"])
def test_threads_are_validated(threads: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: sb.rank(TABLE, QUERY, threads=threads),
        lambda: sb.watch(TABLE, QUERY, threads=threads),
        lambda: sb.Monitor(QUERY, threads=threads),
    ]
    for call in calls:
        with pytest.raises(sb.QueryError, match="threads must be a positive integer"):
            call()


# Times in JSON ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "unit"),
    [
        (["1970-01-01T00:00:00.250Z", "1970-01-01T02:00:01.5+02:00"], "us"),
        (["1970-01-01 00:00:00.250", "1970-01-01 00:00:01.500000"], "us"),
        (["1970-01-01T00:00:00.25Z", None, "1970-01-01T00:00:01.500000000Z"], "ns"),
        (["1970-01-01T00:00:00Z", "1970-01-01T00:00:01.5Z"], "us"),
        (["1970-01-01T00:00:00Z", "1970-01-01T00:00:01Z"], "s"),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.filterwarnings("ignore::skyband.SkybandWarning")  # a time is null
def test_times_with_fractions_of_seconds(
    times: list[Any], unit: str, whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not whole:  # the first line decides
        monkeypatch.setattr(text_files, "_WHOLE", 0)
        times = [times[-1].replace(":01", ":00"), times[-1]]
    lines = [json.dumps({"ts": time, "x": place}) for place, time in enumerate(times)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    query = sb.TopK(k=3, score="x", time="ts", window=sb.TimeWindow("1 s"))
    answer = sb.rank(tmp_path / "a.jsonl", query, on_bad="skip")
    assert answer.schema.field("ts").type == pa.timestamp(unit)
    assert answer.schema.field("window_end").type == pa.timestamp("us")
    assert answer["window_end"].cast(pa.int64()).to_pylist() == [1_000_000, 2_000_000]


@pytest.mark.parametrize("text", ["1970-01-01T00:00:00.5Z or so", "later", "1970-13-01T00:00:00Z"])
def test_text_that_is_not_always_a_time_stays_text(text: str, tmp_path: Path) -> None:
    lines = [json.dumps({"x": 1, "note": note}) for note in ("1970-01-01T00:00:00.5Z", text)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    query = sb.TopK(k=2, score="x", keep=("note",), window=sb.CountWindow(2))
    assert sb.rank(tmp_path / "a.jsonl", query).schema.field("note").type == pa.string()
