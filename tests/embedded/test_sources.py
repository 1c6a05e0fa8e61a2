"""Every kind of source gives the same answers; late rows in streams are reported."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.embedded import text_files
from support import streams

STREAM = streams.stream(3, 200, time_type=pa.timestamp("us"), unit=1_000_000, id_type="string")
TABLE = STREAM.table.select(["ts", "id", "score"])
QUERY = sb.TopK(k=3, score="score", id="id", time="ts", window=sb.TimeWindow("60 s", slide="20 s"))
WANT = sb.rank(TABLE, QUERY)


def parquet(folder: Path) -> Any:
    pq.write_table(TABLE, folder / "flows.parquet", row_group_size=50)
    return folder / "flows.parquet"


def many_parquet(folder: Path) -> Any:
    for i in range(4):
        pq.write_table(TABLE.slice(i * 50, 50), folder / f"part-{i}.parquet")
    return str(folder / "part-*.parquet")


def folder_of_parquet(folder: Path) -> Any:
    many_parquet(folder)
    return folder


def csv(folder: Path) -> Any:
    pyarrow.csv.write_csv(TABLE, folder / "flows.csv")
    return str(folder / "flows.csv")


def jsonl(folder: Path) -> Any:
    lines = [
        f'{{"ts": "{row["ts"]:%Y-%m-%d %H:%M:%S}", "id": "{row["id"]}", "score": {row["score"]}}}'
        for row in TABLE.to_pylist()
    ]
    (folder / "flows.jsonl").write_text("\n".join(lines))
    return folder / "flows.jsonl"


def ipc_file(folder: Path) -> Any:
    pyarrow.feather.write_feather(TABLE, folder / "flows.arrow")
    return folder / "flows.arrow"


def ipc_stream(folder: Path) -> Any:
    with pa.ipc.new_stream(folder / "flows.arrows", TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=30)
    return folder / "flows.arrows"


def compressed_csv(folder: Path) -> Any:
    with pa.output_stream(str(folder / "flows.csv.gz"), compression="gzip") as file:
        pyarrow.csv.write_csv(TABLE, file)
    return folder


def compressed_jsonl(folder: Path) -> Any:
    text = jsonl(folder).read_bytes()
    (folder / "flows.jsonl").unlink()
    with pa.output_stream(str(folder / "flows.ndjson.zst"), compression="zstd") as file:
        file.write(text)
    return folder / "flows.ndjson.zst"


def pandas(_: Path) -> Any:
    return TABLE.to_pandas()


def polars(_: Path) -> Any:
    import polars as pl

    return pl.from_arrow(TABLE)


def lazy_frame(_: Path) -> Any:
    import polars as pl

    return pl.DataFrame(TABLE).lazy().with_columns(unused=pl.col("id").str.len_chars())


def duckdb(_: Path) -> Any:
    import duckdb as db

    flows = TABLE  # noqa: F841  DuckDB finds it by its name
    return db.sql("select * from flows")  # a relation of DuckDB 1.2 keeps no connection alive


def reader(_: Path) -> Any:
    return TABLE.to_reader(max_chunksize=40)


def generator(_: Path) -> Iterator[Any]:
    return (TABLE.slice(start, 37) for start in range(0, 200, 37))


def record_batches(_: Path) -> Any:
    return TABLE.to_batches(max_chunksize=10)


def unsorted_table(_: Path) -> Any:
    return TABLE.take(pa.array(range(199, -1, -1)))


def chunked_table(_: Path) -> Any:
    return pa.Table.from_batches(TABLE.to_batches(max_chunksize=7))


KINDS: list[Callable[[Path], Any]] = [
    *(parquet, many_parquet, folder_of_parquet, csv, jsonl, ipc_file, ipc_stream),
    *(
        compressed_csv,
        compressed_jsonl,
        lazy_frame,
        pandas,
        polars,
        duckdb,
        reader,
        generator,
        record_batches,
        unsorted_table,
        chunked_table,
    ),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_source_gives_the_same_answers(kind: Callable[[Path], Any], tmp_path: Path) -> None:
    got = sb.rank(kind(tmp_path), QUERY)
    same = [name for name in WANT.column_names if name != "ts"]
    assert got.column_names == WANT.column_names
    assert got.select(same).to_pylist() == WANT.select(same).to_pylist()


@pytest.mark.parametrize("kind", [parquet, generator, pandas], ids=lambda kind: kind.__name__)
def test_watch_gives_one_answer_a_window(kind: Callable[[Path], Any], tmp_path: Path) -> None:
    tables = [answer.table for answer in sb.watch(kind(tmp_path), QUERY)]
    got = pa.concat_tables([t.cast(WANT.schema) for t in tables])
    assert got.to_pylist() == WANT.to_pylist()


def test_input_is_not_copied_nor_touched() -> None:
    before = TABLE.to_pylist()
    sb.rank(TABLE, QUERY)
    assert TABLE.to_pylist() == before


def test_a_late_row_in_a_stream_is_an_error_that_says_which_lateness_would_do() -> None:
    batches = [TABLE.slice(100, 50), TABLE.slice(0, 50)]
    with pytest.raises(sb.DataError, match="lateness='") as told:
        sb.rank(batches, QUERY)
    lateness = str(told.value).split("lateness='")[1].split("'")[0]
    window = sb.TimeWindow("60 s", slide="20 s", lateness=lateness)
    patient = sb.TopK(k=3, score="score", id="id", time="ts", window=window)
    got = sb.rank(batches, patient)
    assert got.num_rows == sb.rank(pa.concat_tables(batches), QUERY).num_rows
    with pytest.warns(sb.SkybandWarning):
        assert sb.rank(batches, QUERY, on_bad="skip").num_rows < got.num_rows


def test_progress_is_told_the_rows_read() -> None:
    told: list[int] = []
    sb.rank(TABLE.to_batches(max_chunksize=50), QUERY, progress=told.append)
    assert told == [50, 100, 150, 200]


def test_empty_sources() -> None:
    none = sb.rank(TABLE.slice(0, 0), QUERY)
    assert none.schema == WANT.schema
    assert none.num_rows == 0
    assert sb.rank([], QUERY).num_rows == 0
    assert sb.rank([], QUERY).column_names[:3] == ["window_start", "window_end", "rank"]
    assert list(sb.watch(TABLE.slice(0, 0), QUERY)) == []
    assert list(sb.watch(iter([TABLE.slice(0, 0)]), QUERY)) == []


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "arrow"])
def test_files_without_rows(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"none.{ending}"
    empty = TABLE.slice(0, 0)
    if ending == "parquet":
        pq.write_table(empty, path)
    elif ending == "csv":
        pyarrow.csv.write_csv(empty, path)
    elif ending == "jsonl":
        path.write_text("")
    else:
        pyarrow.feather.write_feather(empty, path)
    assert sb.rank(path, QUERY).num_rows == 0


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("nowhere/*.parquet", "no file matches"),
        (42, "not a source"),
        ([1, 2], "not a source"),
        ({"a": TABLE}, "one source"),
    ],
)
def test_sources_that_are_none(source: Any, told: str) -> None:
    with pytest.raises(sb.SchemaError, match=told):
        sb.rank(source, QUERY)


def test_a_file_of_an_unknown_kind(tmp_path: Path) -> None:
    (tmp_path / "flows.xls").write_text("?")
    with pytest.raises(sb.SchemaError, match="no known file extension"):
        sb.rank(tmp_path / "flows.xls", QUERY)
    (tmp_path / "flows.parquet").write_text("not parquet")
    with pytest.raises(sb.SchemaError, match="could not be read"):
        sb.rank(tmp_path / "flows.parquet", QUERY)


@pytest.mark.parametrize("size", [1 << 20, 1 << 28], ids=["by blocks", "whole"])
@pytest.mark.parametrize("name", ["flows.csv.bz2", "flows.jsonl.lz4"])
def test_long_compressed_text(
    name: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "_WHOLE", size)
    rows = 150_000
    table = pa.table(
        {"ts": range(rows), "id": range(rows), "score": [i % 977 + 0.5 for i in range(rows)]}
    )
    query = sb.TopK(k=3, score="score", id="id", time="ts", window=sb.TimeWindow(9_000))
    with pa.output_stream(str(tmp_path / name), compression="detect") as file:
        if ".csv" in name:
            pyarrow.csv.write_csv(table, file)
        else:
            file.write("\n".join(map(json.dumps, table.to_pylist())).encode())
    assert sb.rank(tmp_path / name, query).equals(sb.rank(table, query))
    cut = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(cut[: len(cut) // 2])
    with pytest.raises(sb.SchemaError, match=rf"{name}' could not be read as (csv|json)"):
        sb.rank(tmp_path / name, query)


def test_a_folder_is_read_without_hidden_files(tmp_path: Path) -> None:
    folder = folder_of_parquet(tmp_path)
    for name in (".part-9.parquet", "_part-9.parquet", "._part-0.parquet", "_SUCCESS"):
        (folder / name).write_bytes(b"")
    (folder / "_temporary").mkdir()
    pq.write_table(TABLE, folder / "_temporary" / "part-0.parquet")
    assert sb.rank(folder, QUERY).equals(WANT)


def test_a_folder_without_files_to_read_says_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "flows.parquet.gz").write_bytes(b"")
    with pytest.raises(
        sb.SchemaError, match=r"folder .* has no files that Skyband reads.*\.parquet, .*\.csv"
    ):
        sb.rank(tmp_path, QUERY)


@pytest.mark.parametrize("rows", [[{"ts": 1, "id": "a", "score": 2.0}], iter([{"ts": [1]}])])
def test_python_dicts_in_an_iterable_are_refused(rows: Any) -> None:
    with pytest.raises(sb.SchemaError, match=r"dict is not a source.*pa\.Table\.from_pylist"):
        sb.rank(rows, QUERY)


def test_a_dict_of_columns_is_refused_with_advice() -> None:
    with pytest.raises(sb.SchemaError, match=r"not a mapping.*pa\.table"):
        sb.rank({"ts": [1], "id": ["a"], "score": [2.0]}, QUERY)


# Polars hands over text as views, which Arrow can neither take nor sort.
VIEW = pa.string_view()
NESTED: list[tuple[pa.DataType, list[Any]]] = [
    (pa.dictionary(pa.uint32(), VIEW), ["a", "b", "a", "c"]),
    (pa.list_(VIEW), [["a"], [], ["b", "c"], None]),
    (pa.large_list(VIEW), [["a"], [], ["b", "c"], None]),
    (pa.list_(VIEW, 1), [["a"], ["b"], ["c"], None]),
    (pa.struct([("v", VIEW)]), [{"v": "a"}, {"v": None}, None, {"v": "b"}]),
    (pa.map_(VIEW, pa.list_(VIEW)), [[("k", ["a"])], [], None, [("l", None)]]),
]


def viewed(kind: pa.DataType, values: list[Any]) -> pa.Table:
    plain = pa.dictionary(pa.uint32(), pa.string())
    column = pa.array(values, plain) if pa.types.is_dictionary(kind) else pa.array(values, kind)
    if pa.types.is_dictionary(kind):
        column = pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(VIEW))
    return pa.table({"t": [4, 2, 1, 3], "x": [1, 2, 3, 4], "v": column})


@pytest.mark.parametrize(("kind", "values"), NESTED, ids=str)
def test_views_within_other_types(kind: pa.DataType, values: list[Any], tmp_path: Path) -> None:
    table = viewed(kind, values)
    query = sb.TopK(k=4, score="x", time="t", keep=("v",), window=sb.TimeWindow(10))
    answer = sb.rank(table, query)
    assert answer["v"].to_pylist() == table["v"].to_pylist()[::-1]
    assert "view" not in str(answer.schema.field("v").type)
    for part in range(2):  # of files that overlap, all rows are sorted
        pyarrow.feather.write_feather(table.slice(2 * part, 2), tmp_path / f"{part}.arrow")
    assert sb.rank(tmp_path, query).equals(answer)


def test_categories_of_polars() -> None:
    polars = pytest.importorskip("polars")
    table = viewed(*NESTED[0])
    frame = polars.DataFrame({"t": [4, 2, 1, 3], "x": [1, 2, 3, 4], "v": ["a", "b", "a", "c"]})
    frame = frame.with_columns(polars.col("v").cast(polars.Categorical))
    window = sb.TimeWindow(3)
    for query in (
        sb.TopK(
            k=2, score="x", id="v", time="t", by=("v",), window=window, where={"v": ["a", "b"]}
        ),
        sb.HeavyHitters(k=2, item="v", time="t", window=window),
        sb.Skyline(prefer={"x": "min"}, time="t", window=window),
    ):
        assert sb.rank(frame, query).equals(sb.rank(table, query))
        assert sb.rank(frame, query).num_rows
