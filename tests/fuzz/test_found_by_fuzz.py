"""Bugs found by random inputs (``make fuzz``), each reduced to its smallest form."""

from __future__ import annotations

import contextlib
import datetime as dt
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import skyband as sb
from support import unwritten

COUNT = sb.CountWindow(4)
VIEWS = [pa.string_view(), pa.binary_view()]


@pytest.mark.parametrize("kind", VIEWS, ids=str)
@pytest.mark.parametrize(
    "query",
    [
        sb.TopK(k=2, score="x", id="id", time="t", window=sb.TimeWindow(10)),
        sb.TopK(k=2, score="x", id="id", time="t", by=("id",), window=sb.TimeWindow(10)),
        sb.HeavyHitters(k=2, item="id", time="t", window=sb.TimeWindow(10), algorithm="fsw"),
        sb.Skyline(prefer={"x": "min"}, id="id", time="t", window=sb.TimeWindow(10)),
    ],
    ids=lambda query: query.kind,
)
def test_views_of_text_are_text(kind: pa.DataType, query: sb.Query) -> None:
    texts = ["b", "a", "b", None]
    table = pa.table({"t": [3, 1, 2, 4], "x": [1, 2, 3, 0], "id": pa.array(texts, kind)})
    plain = pa.string() if kind == pa.string_view() else pa.binary()
    same = table.set_column(2, "id", table["id"].cast(plain))
    with pytest.warns(sb.SkybandWarning):
        assert sb.rank(table, query, on_bad="skip").equals(sb.rank(same, query, on_bad="skip"))


@pytest.mark.nojit
@pytest.mark.parametrize("wish", ["min", "max"])
def test_a_skyline_of_integers_that_are_one_float(wish: str) -> None:
    top = np.iinfo(np.int64).max
    x = [top, top - 1, top - 2, top - 3]
    table = pa.table({"x": x, "y": [1, 2, 3, 4]})
    query = sb.Skyline(prefer={"x": wish, "y": "min"}, window=COUNT)
    expected = x if wish == "min" else x[:1]
    assert sorted(sb.rank(table, query)["x"].to_pylist(), reverse=True) == expected


@pytest.mark.parametrize("algorithm", ["exact", "ss", "fss", "fsp", "fsw", "fsw-r", "fsw-f"])
def test_items_of_encoded_integers_out_of_order(algorithm: str) -> None:
    encoded = pa.array([7, 8, 7, 7]).dictionary_encode()
    table = pa.table({"t": [3, 1, 1, 2], "item": encoded, "g": ["a", "b", "a", "b"]})
    query = sb.HeavyHitters(
        k=1, item="item", time="t", by=("g",), window=sb.TimeWindow(10), algorithm=algorithm
    )
    assert sb.rank(table, query)["item"].to_pylist() == [7, 7]


@pytest.mark.nojit
def test_a_fold_without_windows_leaves_nothing_behind() -> None:
    query = sb.FusedTopK(
        k=1, id="id", stream="s", value="v", streams=("a", "b"), algorithm="eaa-approx",
        time="t", window=sb.TimeWindow(5, slide=3),
    )  # fmt: skip
    #  a pane ends at 1, the first window at 3
    rows: dict[str, list[Any]] = {"t": [0, 1], "id": [*"pq"], "s": [*"ab"], "v": [0.5, 0.5]}
    monitor = sb.Monitor(query)
    assert monitor.push(pa.table(rows)) == []
    monitor._check()


@pytest.mark.parametrize("ending", ["arrow", "arrows"])
def test_an_arrow_file_with_damaged_offsets_is_refused(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{ending}"
    table = pa.table({"x": [1, 2, 3], "id": ["abc", "def", "ghi"]})
    make = pa.ipc.new_file if ending == "arrow" else pa.ipc.new_stream
    with make(path, table.schema) as writer:
        writer.write_table(table)
    whole = path.read_bytes()
    offsets = np.array([0, 3, 6, 9], np.int32).tobytes()
    assert offsets in whole
    far = np.array([0, 1 << 29, 6, 9], np.int32).tobytes()  # reading there would crash the process
    path.write_bytes(whole.replace(offsets, far))
    query = sb.TopK(k=2, score="x", id="id", window=sb.CountWindow(3))
    with pytest.raises(sb.SchemaError, match="could not be read"):
        sb.rank(path, query)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_text_that_is_no_utf8_is_refused(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{ending}"
    if ending == "jsonl":
        path.write_bytes(b'{"x": 1, "id": "abc"}\n')
    else:
        pq.write_table(pa.table({"x": [1], "id": ["abc"]}), path, use_dictionary=False)
    path.write_bytes(path.read_bytes().replace(b"abc", b"\xff\xfea"))
    query = sb.TopK(k=1, score="x", id="id", window=sb.CountWindow(1))
    with pytest.raises(sb.SchemaError, match="could not be read"):
        sb.rank(path, query)


NULL_RECORDS = """
import io, pathlib, sys
import skyband as sb
from skyband.cli.stdin import stdin_batches

query = sb.TopK(k=9, score="x", window=sb.CountWindow(1))
path = pathlib.Path(sys.argv[1])
for text in (
    "null", "\\ufeffnull", "\\n null\\n", "nullx", "null null", "null\\n{\\"x\\": 1}",
    "{\\"x\\": 2, \\"y\\":\\nnull}",
):
    path.write_text(text, "utf-8")
    try:
        print(sb.rank(path, query, on_bad="skip")["x"].to_pylist())
    except sb.SchemaError as error:
        print("refused")

class Lines(io.BytesIO):
    def read1(self, size):
        return self.readline()

print([t.to_pylist() for t in stdin_batches(Lines(b"{\\"x\\": 1}\\n null\\n"))])
"""


def test_a_null_record_at_the_start_of_json_is_a_row_without_values(tmp_path: Path) -> None:
    """It ends the process inside Arrow's reader, so this test runs in a process of its own."""
    found = subprocess.run(
        [sys.executable, "-c", NULL_RECORDS, tmp_path / "rows.jsonl"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    refused = ["refused"] * 5
    assert found.stdout.splitlines() == [*refused, "[1]", "[2]", "[[{'x': 1}], [{'x': None}]]"]


def test_names_of_columns_that_are_no_utf8(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"\xff\xfex,id\n1,abc\n")
    with pytest.raises(sb.SchemaError, match="could not be read"):
        sb.rank(path, sb.TopK(k=1, score="x", window=sb.CountWindow(1)))


def test_a_batch_that_is_an_array() -> None:
    monitor = sb.Monitor(sb.TopK(k=1, score="x", window=sb.CountWindow(1)))
    with pytest.raises(sb.SchemaError, match="Arrow interface"):
        monitor.push(pa.array([1, 2]))


def test_a_time_column_that_is_there_twice() -> None:
    times = pa.array([1, 2])
    table = pa.table([times, times, times], names=["t", "t", "x"])
    with pytest.raises(sb.SchemaError, match="twice"):
        sb.rank(table, sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow(1)))


def test_runs_out_of_order() -> None:
    runs = pc.run_end_encode(pa.array(["a", "a", "b"]))
    table = pa.table({"t": [3, 2, 1], "x": [1, 2, 3], "id": runs})
    query = sb.TopK(k=3, score="x", id="id", time="t", window=sb.TimeWindow(10))
    assert sb.rank(table, query)["id"].to_pylist() == ["b", "a", "a"]


def test_ids_and_items_of_halves_are_ordered() -> None:
    halves = pa.array(np.array([2.0, 0.5, 1.0, 0.5], np.float16))
    table = pa.table({"x": [1, 1, 1, 1], "t": [1, 1, 1, 1], "id": halves})
    topk = sb.TopK(k=4, score="x", id="id", time="t", window=sb.TimeWindow(2))
    assert sb.rank(table, topk)["id"].to_pylist() == [0.5, 0.5, 1.0, 2.0]
    heavy = sb.HeavyHitters(k=3, item="id", time="t", window=sb.TimeWindow(2))
    assert sb.rank(table, heavy)["id"].to_pylist() == [0.5, 1.0, 2.0]
    skyline = sb.Skyline(prefer={"x": "min"}, id="id", window=COUNT)
    assert sb.rank(table, skyline)["id"].to_pylist() == [0.5, 0.5, 1.0, 2.0]


LOW, HIGH = -(1 << 63), (1 << 63) - 1


@pytest.mark.parametrize("far", [LOW, LOW + 5, HIGH, HIGH - 5])
def test_times_whose_windows_have_no_edge_are_bad(far: int) -> None:
    table = pa.table({"t": [7, far], "x": [1, 2]})
    query = sb.TopK(k=2, score="x", time="t", window=sb.TimeWindow(9, slide=4))
    with pytest.raises(sb.DataError, match="'t', row 1: the time is out of range"):
        sb.rank(table, query)
    monitor = sb.Monitor(query, on_bad="skip")
    monitor.push(table)
    ends = [answer.end for answer in monitor.flush()]
    assert ends == [8]
    assert monitor.stats()["rows_bad"] == 1
    monitor.push(table.slice(1))


@pytest.mark.parametrize("year", [1, 9999, -290_000, 290_000])
def test_moments_whose_windows_python_cannot_show_are_bad(year: int) -> None:
    seconds = int((year - 1970) * 365.2425 * 86_400)
    table = pa.table({"t": pa.array([seconds], pa.timestamp("s")), "x": [1]})
    query = sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow("800 days"))
    with pytest.raises(sb.DataError, match="out of range"):
        sb.rank(table, query)


@pytest.mark.parametrize(
    "build",
    [
        lambda: sb.TimeWindow(None),  # type: ignore[arg-type]
        lambda: sb.TimeWindow(1 << 61),
        lambda: sb.TimeWindow(dt.timedelta.max),
        lambda: sb.TimeWindow(1, slide=1 << 70),
        lambda: sb.CountWindow(1 << 61),
        lambda: sb.TopK(k=1 << 31, score="x", window=COUNT),
        lambda: sb.SkylineJoin(
            left="a", right="b", on="k", prefer={"x": "min"}, time=3, window=sb.TimeWindow(1)  # type: ignore[arg-type]
        ),
        lambda: sb.FusedTopK(k=1, id="i", value="v", streams=("a",), window=COUNT, combine=True),  # type: ignore[arg-type]
        lambda: sb.FusedTopK(k=1, id="i", value="v", streams=("a",), window=COUNT, bounds=3),
        lambda: sb.FusedTopK(k=1, id="i", value="v", streams=("a",), window=COUNT, bounds=("x", 1)),
    ],
)  # fmt: skip
def test_settings_of_quite_another_kind_are_refused(build: Callable[[], object]) -> None:
    with pytest.raises(sb.QueryError):
        build()


def test_a_snapshot_of_an_empty_queue_holds_nothing_of_the_process() -> None:
    query = sb.UncertainTopK(k=2, score="x", probability="p", window=COUNT, algorithm="csq")
    monitor = sb.Monitor(query)
    monitor.push(pa.table({"x": [1.0], "p": [0.5]}))
    blob = monitor.snapshot()
    assert sb.Monitor.restore(blob).snapshot() == blob


def test_a_snapshot_without_a_version_is_damaged() -> None:
    blob = bytearray(sb.Monitor(sb.TopK(k=1, score="x", window=COUNT)).snapshot())
    blob[8:12] = bytes(4)
    with pytest.raises(sb.EngineError, match="damaged"):
        sb.Monitor.restore(bytes(blob))


@pytest.mark.nojit
@pytest.mark.skipif(not unwritten.VISIBLE, reason="compiled kernels do not call numpy's empty")
@pytest.mark.parametrize("algorithm", ["ss", "fss", "fsp", "fsw", "fsw-r"])
def test_errors_of_fractional_weights_are_numbers(algorithm: str) -> None:
    """The zero of a kernel was computed as 0 times a value that nobody had written: maybe NaN."""
    query = sb.HeavyHitters(
        k=2, item="i", weight="w", time="t", window=sb.TimeWindow(2), algorithm=algorithm
    )
    with unwritten.filled(0xFF):
        table = sb.rank(pa.table({"t": [0, 1], "i": ["a", "b"], "w": [1.5, 0.5]}), query)
    assert table.select(["count", "error"]).to_pydict() == {"count": [1.5, 0.5], "error": [0, 0]}


def test_a_snapshot_does_not_depend_on_the_order_in_which_groups_came() -> None:
    query = sb.FusedTopK(
        k=1, id="i", stream="s", value="v", streams=("x",), by=("g",), window=sb.CountWindow(2)
    )
    monitor = sb.Monitor(query)
    rows: dict[str, list[Any]] = {"g": [*"baab"], "i": [1, 2, 3, 4]}
    rows |= {"s": ["x"] * 4, "v": [0.5] * 4}
    monitor.push(pa.table(rows).slice(0, 3))  # the second group has the first answer
    monitor.push(pa.table(rows).slice(3))
    blob = monitor.snapshot()
    assert sb.Monitor.restore(blob).snapshot() == blob


@pytest.mark.parametrize("algorithm", ["csq", "ccsq", "scsq", "scsq-buffer"])
def test_a_snapshot_does_not_depend_on_the_last_answer(algorithm: str) -> None:
    query = sb.UncertainTopK(k=2, score="x", probability="p", window=COUNT, algorithm=algorithm)
    monitor = sb.Monitor(query)
    assert monitor.push(pa.table({"x": [1.0, 2.0, 3.0] * 9, "p": [0.5] * 27}))
    monitor.peek()
    blob = monitor.snapshot()
    assert sb.Monitor.restore(blob).snapshot() == blob


def test_a_parquet_file_whose_names_are_damaged_is_refused(tmp_path: Path) -> None:
    """Each place in a file that names the first column, damaged by itself."""
    table = pa.table({"first": [1, 2], "t": [1, 2], "x": [1.0, 3.0]})
    pq.write_table(table, tmp_path / "good.parquet")
    whole = (tmp_path / "good.parquet").read_bytes()
    query = sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow(10))
    at, answered = whole.find(b"first"), []
    while at >= 0:
        (tmp_path / "bad.parquet").write_bytes(whole[:at] + b"\xca" + whole[at + 1 :])
        with contextlib.suppress(sb.SkybandError):
            answered.append(sb.rank(tmp_path, query)["x"].to_pylist())
        at = whole.find(b"first", at + 1)
    assert answered.count([3.0]) == len(answered)


def test_halves_can_be_filtered() -> None:
    halves = pa.array(np.array([0.5, 0.1, -0.0, np.nan], np.float16))
    table = pa.table({"x": [4, 3, 2, 1], "h": halves})
    for wanted, shown in (([0.5], [4]), ([0.1, 0.0], [3, 2]), ([float("nan")], [])):
        query = sb.TopK(k=4, score="x", window=COUNT, where={"h": wanted})
        monitor = sb.Monitor(query)
        monitor.push(table)
        assert monitor.stats()["rows_filtered"] == 4 - len(shown)


def test_a_day_that_python_cannot_show_is_named() -> None:
    days = pa.array([0, 2**31 - 1], pa.int32()).cast(pa.date32())
    table = pa.table({"day": days, "x": [1, 2]})
    query = sb.TopK(k=1, score="x", time="day", window=sb.TimeWindow("1 d"))
    with pytest.raises(sb.DataError, match="2147483647"):
        sb.rank(table, query)


@pytest.mark.parametrize("kind", [pa.time32("s"), pa.time64("us"), pa.time64("ns")], ids=str)
def test_times_of_day_can_be_filtered(kind: pa.DataType) -> None:
    times = pa.array([dt.time(12), dt.time(13, 30)], pa.time64("us")).cast(kind)
    table = pa.table({"x": [1, 2], "at": times})
    query = sb.TopK(k=1, score="x", window=sb.CountWindow(1), where={"at": "12:00"})
    assert sb.rank(table, query)["x"].to_pylist() == [1]
    wrong = sb.TopK(k=1, score="x", window=sb.CountWindow(1), where={"at": "noon"})
    with pytest.raises(sb.SchemaError, match="'at'"):
        sb.rank(table, wrong)


@pytest.mark.parametrize("kind", VIEWS, ids=str)
def test_small_pushes_of_views_can_be_filtered(kind: pa.DataType) -> None:
    window = sb.CountWindow(2)
    query = sb.TopK(k=2, score="x", id="id", window=window, where={"g": "a"})
    monitor = sb.Monitor(query)
    ids = pa.array(["u", "v", "w"], pa.string()).cast(kind)
    pushed = pa.table({"x": [1, 2, 3], "id": ids, "g": ["a", "b", "a"]})
    shown = [answer.table["x"].to_pylist() for _ in range(2) for answer in monitor.push(pushed)]
    assert shown == [[3, 1], [3, 1]]
