"""Files: only needed columns are read, ahead of their use, in the order of time."""

from __future__ import annotations

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
from skyband.embedded import ahead, formats, text_files, time_order
from skyband.embedded.sources import batches_of
from skyband.engine.chunks import chunks_of
from skyband.engine.session import Session
from support import streams

STREAM = streams.stream(5, 400, time_type=pa.timestamp("us"), unit=1_000_000, id_type="string")
TABLE = STREAM.table.select(["ts", "id", "score"])
WINDOW = sb.TimeWindow("60 s", slide="20 s")
QUERY = sb.TopK(k=3, score="score", id="id", time="ts", window=WINDOW)
WANT = sb.rank(TABLE, QUERY).to_pylist()
SHUFFLED = TABLE.take(pa.array(np.random.default_rng(7).permutation(TABLE.num_rows)))


def write(table: pa.Table, path: Path, rows: int = 40) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows)
    elif path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    elif path.suffix == ".arrow":
        pyarrow.feather.write_feather(table, path, chunksize=rows)
    elif path.suffix == ".arrows":
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
    else:
        lines = table.set_column(0, "ts", table["ts"].cast("timestamp[s]")).to_pandas()
        lines["ts"] = lines["ts"].dt.strftime("%Y-%m-%d %H:%M:%S")
        lines.to_json(path, orient="records", lines=True, double_precision=15)
    return path


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
    assert sb.rank(path, query, on_bad="skip")["x"].to_pylist() == [60.5]
    named = sb.TopK(k=1, score="x", id="id", window=sb.CountWindow(1))
    assert sb.rank(path, named, on_bad="skip")["id"].to_pylist() == ["a"]


def test_a_long_json_file_is_read_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text("".join(f'{{"x": {i}, "y": "{i}"}}\n' for i in range(2000)) + "null\n" * 3)
    query = sb.TopK(k=1, score="x", window=sb.CountWindow(500))
    want = sb.rank(path, query, on_bad="skip")
    monkeypatch.setattr(text_files, "_FIRST_BLOCK", 512)
    monkeypatch.setattr(text_files, "_BLOCK", 512)
    monkeypatch.setattr(text_files, "_WHOLE", 1024)
    tables = [t for t in batches_of(path) if t.num_rows]
    assert len(tables) > 10
    assert sum(t.num_rows for t in tables) == 2003
    assert sb.rank(path, query, on_bad="skip").equals(want)
    path.write_text(path.read_text() + '{"x": 0.5, "y": "?"}\n')
    with pytest.raises(sb.SchemaError, match=r"long\.jsonl.*could not be read as json"):
        sb.rank(path, query, on_bad="skip")


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
    with pytest.raises(sb.SchemaError, match=r"many\.csv.*much.*after byte"):
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
        monkeypatch.setattr("skyband.engine.intake._SMALL_CHUNK", 1)
        chunked = pa.concat_tables([TABLE.slice(i, 33) for i in range(0, 400, 33)])
        for threads in (1, 2):
            assert sb.rank(chunked, query, threads=threads).equals(want)
        monkeypatch.undo()


def test_a_bad_row_is_named_by_its_place_in_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.engine.intake._SMALL_CHUNK", 1)
    chunks = [pa.table({"x": [1.0, 2.0]}), pa.table({"x": [3.0, None]})]
    monitor = sb.Monitor(sb.TopK(k=1, score="x", window=sb.CountWindow(2)))
    with pytest.raises(sb.DataError, match="row 3"):
        monitor.push(pa.concat_tables(chunks))
    assert monitor.stats()["rows_in"] == 0


# Order --------------------------------------------------------------------------------------------


def parts(folder: Path, ending: str, order: list[int]) -> Path:
    """Files of 40 rows each: the i-th stretch of time is in the file named ``order[i]``."""
    for place, name in enumerate(order):
        write(TABLE.slice(40 * place, 40), folder / f"{name}.{ending}")
    return folder


ASCENDING = list(range(1, 11))
MIXED = [3, 1, 10, 2, 9, 8, 5, 7, 6, 4]


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
@pytest.mark.parametrize("order", [ASCENDING, MIXED], ids=["natural", "mixed"])
def test_files_come_in_the_order_of_time(ending: str, order: list[int], tmp_path: Path) -> None:
    assert sb.rank(parts(tmp_path, ending, order), QUERY).to_pylist() == WANT
    skipping = sb.rank(tmp_path / f"*.{ending}", QUERY, on_bad="skip")
    assert skipping.to_pylist() == WANT  # nothing was late


def test_watch_reads_files_in_the_order_of_time(tmp_path: Path) -> None:
    answers = sb.watch(parts(tmp_path, "parquet", MIXED), QUERY)
    assert [row for answer in answers for row in answer.table.to_pylist()] == WANT


@pytest.mark.parametrize("held", [1 << 30, 1], ids=["merged", "sorted"])
def test_files_that_overlap_are_merged(
    held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skyband.embedded import sources

    monkeypatch.setattr(sources, "SORT_BYTES", held)
    monkeypatch.setattr(time_order, "_FEW_ROWS", 16)
    monkeypatch.setattr(formats, "BATCH_ROWS", 1)
    for place in range(3):
        rows = pa.array(range(place, 400, 3))
        write(TABLE.take(rows), tmp_path / f"router-{place}.parquet", rows=20)
    assert sb.rank(tmp_path, QUERY).to_pylist() == WANT
    watched = [row for a in sb.watch(tmp_path, QUERY) for row in a.table.to_pylist()]
    assert watched == WANT


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow", "jsonl"])
def test_one_file_out_of_order_is_sorted(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "BATCH_ROWS", 1)
    monkeypatch.setattr(text_files, "_FIRST_BLOCK", 1024)
    monkeypatch.setattr(text_files, "_BLOCK", 1024)
    monkeypatch.setattr(text_files, "_WHOLE", 1024)
    path = write(SHUFFLED, tmp_path / f"mixed.{ending}")
    got = sb.rank(path, QUERY)
    assert [{**row, "ts": None} for row in got.to_pylist()] == [{**r, "ts": None} for r in WANT]
    with pytest.raises(sb.DataError, match=r"out of order.*lateness='.*rank sorts"):
        list(sb.watch(path, QUERY))


@pytest.mark.parametrize("text", ["plain", "dictionary", "both"])
def test_sorting_goes_through_files_where_memory_is_small(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_order, "SORT_BYTES", 1500)
    monkeypatch.setattr(time_order, "_RUN_BYTES", 200)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made: list[Path] = []
    kept = time_order._write

    def spy(path: Path, *rest: Any) -> Path:
        made.append(path)
        return kept(path, *rest)

    monkeypatch.setattr(time_order, "_write", spy)
    pieces = [SHUFFLED.slice(i, 30) for i in range(0, 400, 30)]
    for i, piece in enumerate(pieces):
        if text == "dictionary" or (text == "both" and i % 2):
            pieces[i] = piece.set_column(1, "id", piece["id"].combine_chunks().dictionary_encode())
    ticks = time_order.ticks_in(lambda c: c.cast("int64").to_numpy(), "ts")
    found = list(time_order.sorted_rows(iter(pieces), ticks))
    assert len(made) > 3
    assert not any(path.exists() for path in made)  # removed at the end
    want = SHUFFLED.take(pa.compute.sort_indices(SHUFFLED, [("ts", "ascending")]))
    got = [row for table in found for row in table.to_pylist()]
    assert got == want.to_pylist()  # rows of equal times keep their order
    assert max(table.num_rows for table in found) < 200


def test_rows_without_a_time_are_bad_rows_in_sorted_files_too(tmp_path: Path) -> None:
    ts = pa.chunked_array(
        [
            pa.concat_arrays(
                [SHUFFLED["ts"].combine_chunks().slice(0, 399), pa.nulls(1, "timestamp[us]")]
            )
        ]
    )
    path = write(SHUFFLED.set_column(0, "ts", ts), tmp_path / "holes.arrow")
    assert sb.rank(path, QUERY, on_bad="skip").num_rows > 0
    with pytest.raises(sb.DataError, match="the time is null"):
        sb.rank(path, QUERY)


def test_over_a_count_window_files_come_by_name_and_are_never_sorted(tmp_path: Path) -> None:
    folder = parts(tmp_path, "parquet", MIXED)
    query = sb.TopK(k=1, score="score", id="id", time="ts", window=sb.CountWindow(40))
    want = pa.concat_tables([pq.read_table(folder / f"{i}.parquet") for i in ASCENDING])
    assert sb.rank(folder, query).equals(sb.rank(want, query))


def test_without_statistics_names_decide_and_late_rows_are_sorted(tmp_path: Path) -> None:
    for place, name in enumerate(MIXED):
        table = TABLE.slice(40 * place, 40)
        pq.write_table(table, tmp_path / f"{name}.parquet", write_statistics=False)
    assert sb.rank(tmp_path, QUERY).to_pylist() == WANT
    with pytest.raises(sb.DataError, match="came too late"):
        list(sb.watch(tmp_path, QUERY))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_statistics_in_every_unit(unit: str, tmp_path: Path) -> None:
    table = TABLE.set_column(0, "ts", TABLE["ts"].cast(pa.timestamp(unit, "Asia/Tokyo")))
    for name, start in (("a", 200), ("b", 0)):
        write(table.slice(start, 200), tmp_path / f"{name}.parquet")
    got = [row for answer in sb.watch(tmp_path, QUERY) for row in answer.table.to_pylist()]
    assert got == sb.rank(table, QUERY).to_pylist()


def test_natural_order() -> None:
    names = ["day/10.csv", "day/2.csv", "day/a10b2.csv", "day/a2b10.csv", "day 2/1.csv", "1.csv"]
    found = sorted(map(Path, names), key=time_order.by_name)
    assert [str(path) for path in found] == [
        *("1.csv", "day/2.csv", "day/10.csv", "day/a2b10.csv", "day/a10b2.csv", "day 2/1.csv")
    ]


def test_an_iterable_is_read_as_it_comes(tmp_path: Path) -> None:
    folder = parts(tmp_path, "parquet", ASCENDING)
    paths = [folder / f"{i}.parquet" for i in MIXED]
    with pytest.raises(sb.DataError, match="came too late"):
        sb.rank(paths, QUERY)


@pytest.mark.parametrize(
    ("needed", "said"),
    [
        (5_399_999_759, "90 minutes"), (59 * 60_000_000, "1 hour"), (61_000_000, "61 seconds"),
        (86_400_000_001, "25 hours"), (2 * 86_400_000_000, "2 days"), (1_500, "1500 us"),
        (999_001, "1 second"), (1, "1 us"), (950, "1 ms"),
    ],
)  # fmt: skip
def test_durations_are_rounded_up(needed: int, said: str) -> None:
    from skyband.window import duration_text, parse_duration

    assert duration_text(needed) == said
    assert needed <= parse_duration(said) <= 1.1 * needed


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


# Boards -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_board_reads_files_as_its_queries_alone_do(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = {
        "time": QUERY,
        "more": sb.TopK(k=5, score="score", id="id", time="ts", window=sb.TimeWindow("40 s")),
        "count": sb.TopK(k=1, score="score", time="ts", window=sb.CountWindow(40)),
    }
    folder = parts(tmp_path, ending, MIXED)
    alone = {name: sb.rank(folder, query) for name, query in board.items()}
    assert alone["time"].to_pylist() == WANT
    for threads in (1, 2):
        together = sb.rank(folder, board, threads=threads)
        assert {name: table.to_pylist() for name, table in together.items()} == {
            name: table.to_pylist() for name, table in alone.items()
        }
    monkeypatch.setattr("skyband.engine.intake._SMALL_CHUNK", 1)
    chunked = pa.concat_tables([TABLE.slice(i, 33) for i in range(0, 400, 33)])
    two = {"time": board["time"], "more": board["more"]}
    for name, table in sb.rank(chunked, two, threads=2).items():
        assert table.equals(sb.rank(TABLE, two[name]))
