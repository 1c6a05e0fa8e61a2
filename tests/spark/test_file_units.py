"""Files as workers read them, without Spark: formats, types, units, and files that are bad."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.data.csv_records import CsvForm
from skyband.data.letters import RAW, REASON, UNREAD
from skyband.spark import file_units
from skyband.spark.file_units import FILE, FileForm, read_units, schema_of_file, split_units
from skyband.spark.locations import check_scheme, newest_here, open_location

TABLE = pa.table(
    {
        "ts": pa.array([1_000_000, 2_000_000, 3_500_000], pa.timestamp("us")),
        "id": ["a", "b, c", 'say "é"'],
        "v": [1.5, 2.0, -3.25],
        "n": [1, 2**40, 3],
    }
)


def listed(*paths: Path, **changes: Any) -> Iterator[pa.RecordBatch]:
    """What Spark's file source says of files."""
    rows = []
    for path in paths:
        about = path.stat() if path.exists() else None
        millis = (about.st_mtime_ns if about else 0) // 1_000_000
        time = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=millis)
        row = {"file": path.as_uri(), "length": about.st_size if about else 9, "time": time}
        rows.append(row | changes)
    kinds = pa.schema(
        [("file", pa.string()), ("length", pa.int64()), ("time", pa.timestamp("us", tz="UTC"))]
    )
    yield pa.RecordBatch.from_pylist(rows, schema=kinds)


def read(form: FileForm, wanted: pa.Schema, *paths: Path, **changes: Any) -> pa.Table:
    units = split_units(form)(listed(*paths, **changes))
    return pa.Table.from_batches(read_units(form, wanted)(units))


def write(table: pa.Table, path: Path) -> Path:
    kind = path.name.partition(".")[2]
    if kind == "parquet":
        pq.write_table(table, path)
    elif kind in ("arrow", "arrows"):
        make = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
        with make(path, table.schema) as out:
            out.write_table(table)
    elif kind in ("csv", "tsv", "csv.gz"):
        options = pc.WriteOptions(delimiter="\t" if kind == "tsv" else ",")
        with pa.output_stream(path) as out:
            pc.write_csv(table, out, options)
    else:
        text = "".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist())
        opened = gzip.open if kind.endswith("gz") else open
        with opened(path, "wt", encoding="utf-8") as out:
            out.write(text)
    return path


KINDS = ["parquet", "arrow", "arrows", "csv", "tsv", "csv.gz", "jsonl", "json.gz"]


@pytest.mark.parametrize("kind", KINDS)
def test_formats(tmp_path: Path, kind: str) -> None:
    """Every format gives the same columns, also in a file with a blank in its name."""
    path = write(TABLE, tmp_path / f"rows of today.{kind}")
    assert schema_of_file(FileForm(), path.as_uri()) == TABLE.schema
    wanted = pa.schema([TABLE.schema.field(name) for name in ("v", "ts", "id")])
    got = read(FileForm(), wanted, path)
    assert got.select(wanted.names).equals(TABLE.select(wanted.names))
    assert got[UNREAD].to_pylist() == [False] * 3
    assert got[RAW].null_count == got[REASON].null_count == 3
    assert set(got[FILE].to_pylist()) == {f"file://{path}"}


def test_types_that_spark_does_not_have(tmp_path: Path) -> None:
    nanos = pa.array([-1, 1_999, 2_000], pa.timestamp("ns", tz="Europe/Paris"))
    table = pa.table(
        {
            "t": nanos,
            "u8": pa.array([1, 2, 255], pa.uint8()),
            "u64": pa.array([1, 2, 2**64 - 1], pa.uint64()),
            "d": pa.array(["x", "y", "x"]).dictionary_encode(),
            "big": pa.array(["x", None, "z"], pa.large_string()),
        }
    )
    path = tmp_path / "a.arrow"
    write(table, path)
    types = schema_of_file(FileForm(), path.as_uri())
    zone = pa.timestamp("us", tz="UTC")
    kinds = [zone, pa.int16(), pa.decimal128(20, 0), pa.string(), pa.string()]
    assert types.types == kinds
    got = read(FileForm(), types, path)
    assert got["t"].cast(pa.int64()).to_pylist() == [-1, 1, 2]
    assert got["u8"].to_pylist() == [1, 2, 255]
    assert [int(value) for value in got["u64"].to_pylist()] == [1, 2, 2**64 - 1]
    assert got["d"].to_pylist() == ["x", "y", "x"]
    assert got["big"].to_pylist() == ["x", None, "z"]


def test_large_files_are_cut_between_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"v": np.random.default_rng(1).random(10_000), "i": range(10_000)})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=1_000)
    small = tmp_path / "b.parquet"
    pq.write_table(table.slice(0, 5), small)
    monkeypatch.setattr(file_units, "UNIT_BYTES", path.stat().st_size // 4)
    units = pa.Table.from_batches(split_units(FileForm())(listed(path, small))).to_pylist()
    mine = [(unit["first"], unit["groups"]) for unit in units[:-1]]
    assert len(mine) > 2
    assert mine[0][0] == 0
    assert all(one[0] + one[1] == other[0] for one, other in pairwise(mine))
    assert sum(mine[-1]) == 10
    assert (units[-1]["first"], units[-1]["groups"]) == (0, -1)
    got = read(FileForm(), table.schema, path)
    assert got.select(["v", "i"]).equals(table)


def test_the_units_of_a_file_are_of_equal_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"v": np.random.default_rng(1).random(10_000)}), path, row_group_size=1_000
    )
    for part, groups in ((0.78, [5, 5]), (0.4, [4, 3, 3]), (0.09, [1] * 10)):
        monkeypatch.setattr(file_units, "UNIT_BYTES", int(path.stat().st_size * part))
        units = pa.Table.from_batches(split_units(FileForm())(listed(path)))
        assert units["groups"].to_pylist() == groups


def test_only_needed_columns_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    own = pq.ParquetFile.read_row_group

    def spy(self: Any, i: int, columns: Any = None, **more: Any) -> pa.Table:
        asked.append(columns)
        return own(self, i, columns=columns, **more)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", spy)
    path = write(TABLE, tmp_path / "a.parquet")
    read(FileForm(), pa.schema([("v", pa.float64())]), path)
    assert asked == [["v"]]


class TestBadFiles:
    WANTED = pa.schema([("id", pa.string()), ("v", pa.float64())])

    def reason(self, *given: Any, **changes: Any) -> str:
        got = read(*given, **changes)
        assert got.num_rows == 1
        row = got.to_pylist()[0]
        assert row[UNREAD]
        assert row["id"] is row["v"] is row[RAW] is None
        assert row[FILE].endswith(given[2].name)
        return str(row[REASON])

    @pytest.mark.parametrize("kind", ["parquet", "arrow", "arrows", "csv.gz"])
    def test_half_written(self, tmp_path: Path, kind: str) -> None:
        whole = write(TABLE, tmp_path / f"whole.{kind}").read_bytes()
        path = tmp_path / f"part.{kind}"
        path.write_bytes(whole[: len(whole) * 2 // 3])
        format_ = {"csv.gz": "csv"}.get(kind, "parquet" if kind == "parquet" else "ipc")
        assert f"could not be read as {format_}" in self.reason(FileForm(), self.WANTED, path)

    @pytest.mark.parametrize("kind", ["parquet", "arrow", "csv"])
    def test_a_column_is_missing(self, tmp_path: Path, kind: str) -> None:
        path = write(TABLE.drop_columns(["v"]), tmp_path / f"a.{kind}")
        told = self.reason(FileForm(), self.WANTED, path)
        assert "column 'v' is missing; the columns are: ts, id, n" in told

    def test_a_column_of_another_type(self, tmp_path: Path) -> None:
        table = TABLE.set_column(2, "v", pa.array(["1", "x", "3"]))
        path = write(table, tmp_path / "a.parquet")
        assert "column 'v' has type string, not double" in self.reason(
            FileForm(), self.WANTED, path
        )

    def test_gone_or_changed(self, tmp_path: Path) -> None:
        gone = tmp_path / "gone.parquet"
        assert "is gone now" in self.reason(FileForm(), self.WANTED, gone)
        path = write(TABLE, tmp_path / "a.parquet")
        assert "it has changed" in self.reason(FileForm(), self.WANTED, path, length=5)
        before = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
        assert "it has changed" in self.reason(FileForm(), self.WANTED, path, time=before)

    def test_not_of_the_format(self, tmp_path: Path) -> None:
        path = tmp_path / "README.txt"
        path.write_text("hello")
        assert "could not be read as parquet" in self.reason(FileForm(), self.WANTED, path)
        assert "could not be read as ipc" in self.reason(FileForm("ipc"), self.WANTED, path)

    def test_other_files_are_read(self, tmp_path: Path) -> None:
        bad = tmp_path / "a.parquet"
        bad.write_bytes(b"PAR1")
        good = write(TABLE, tmp_path / "b.parquet")
        got = read(FileForm(), self.WANTED, bad, good)
        assert got[UNREAD].to_pylist() == [True, False, False, False]


class TestText:
    WANTED = pa.schema(
        [("ts", pa.timestamp("us", tz="UTC")), ("id", pa.string()), ("n", pa.int32())]
    )

    @pytest.mark.parametrize("block", [40, 1 << 20])
    def test_csv_with_bad_records(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
    ) -> None:
        monkeypatch.setattr(file_units, "BLOCK_BYTES", block)
        lines = [
            b"ts,x,id,n",
            b"2026-01-01T00:00:00Z,1,a, 1",
            b'2026-01-01 00:00:01,1,"b, ""c""\nd",2',
            b"",
            b"2026-01-01T00:00:02Z,1,short",
            b"2026-01-01T00:00:03Z,1,d,many",
            b"2026-01-01T00:00:04.123456789Z,1,,4",
            b"soon,1,e,5",
            b"2026-01-01T00:00:05Z,1,\xff,6",
            b"2026-01-01T00:00:06Z,1,f,3000000000",
            b"2026-01-01T00:00:07Z,1,NA,8",
        ]
        path = tmp_path / "a.csv"
        path.write_bytes(b"\r\n".join(lines) + b"\r\n")
        got = read(FileForm(), self.WANTED, path)
        good = got.filter(pa.compute.invert(got[UNREAD])).to_pylist()
        assert [row["n"] for row in good] == [1, 2, 4, 8]
        assert [row["id"] for row in good] == ["a", 'b, "c"\nd', None, "NA"]
        assert good[2]["ts"].microsecond == 123456
        assert [raw for raw in got[RAW].to_pylist() if raw] == [lines[i] for i in (4, 5, 7, 8, 9)]
        assert sum(got[UNREAD].to_pylist()) == 5
        assert set(got[REASON].to_pylist()) == {None, "not a CSV record that fits the schema"}

    def test_csv_without_a_header(self, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        path.write_text("2026-01-01;'a;b';7\n")
        told = CsvForm(header=False, delimiter=";", quote="'")
        got = read(FileForm(csv=told, positions=("ts", "id", "n")), self.WANTED, path)
        assert got["id"].to_pylist() == ["a;b"]
        found = schema_of_file(FileForm(csv=told), path.as_uri())
        assert found == pa.schema([("_c0", pa.date32()), ("_c1", pa.string()), ("_c2", pa.int64())])

    @pytest.mark.parametrize("block", [30, 1 << 20])
    def test_json_lines_with_bad_records(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
    ) -> None:
        monkeypatch.setattr(file_units, "BLOCK_BYTES", block)
        lines = [b"null", b'{"n": 1, "deep": {"a": [1]}}', b"", b"{oops", b'{"id": "x", "n": 2}']
        path = tmp_path / "a.ndjson"
        path.write_bytes(b"\r\n".join(lines))
        got = read(FileForm(), self.WANTED, path)
        assert got[UNREAD].to_pylist() == [True, False, True, False]
        assert got["n"].to_pylist() == [None, 1, None, 2]
        assert [raw and raw.strip() for raw in got[RAW].to_pylist()] == [
            b"null",
            None,
            b"{oops",
            None,
        ]

    def test_json_columns_are_told_from_the_beginning(self, tmp_path: Path) -> None:
        path = tmp_path / "a.json"
        path.write_text(
            '{"t": "2026-01-01T00:00:00Z", "u": "2026-01-01 00:00:00.25", "a": [1], "n": null}\n'
            '{"t": "2026-01-01T00:00:00.5Z", "u": null, "v": 1, "d": "2026-01-01"}\n'
        )
        found = schema_of_file(FileForm(), path.as_uri())
        times = {"t": pa.timestamp("us", tz="UTC"), "u": pa.timestamp("us")}
        rest = {"a": pa.string(), "n": pa.string(), "v": pa.int64(), "d": pa.string()}
        assert dict(zip(found.names, found.types, strict=True)) == times | rest
        got = read(FileForm(), found, path)
        assert got[UNREAD].to_pylist() == [False, False]
        assert got["a"].to_pylist() == ["[1]", None]


class TestLocations:
    @pytest.mark.parametrize(
        "path", ["/a/b*.parquet", "file:///a", "s3a://b/k", "gs://b", "hdfs://h/x"]
    )
    def test_known(self, path: str) -> None:
        check_scheme(path)

    def test_unknown(self) -> None:
        with pytest.raises(sb.EngineError, match=r"not wasb:.*reader=\"spark\""):
            check_scheme("wasb://box/flows")

    def test_settings_of_the_storage(self) -> None:
        given = {"region": "eu-west-1", "anonymous": True, "endpoint_override": "127.0.0.1:9"}
        system, path = open_location("s3a://box/my%20flows/a.parquet", given)
        assert isinstance(system, pa.fs.S3FileSystem)
        assert (system.region, path) == ("eu-west-1", "box/my flows/a.parquet")
        system, path = open_location("gs://box/a", {"anonymous": True})
        assert isinstance(system, pa.fs.GcsFileSystem)
        assert path == "box/a"

    def test_newest_files_of_this_machine(self, tmp_path: Path) -> None:
        (tmp_path / "sub dir").mkdir()
        (tmp_path / "_hidden").mkdir()
        names = ["old.parquet", "sub dir/new.parquet", ".dot", "_success", "_hidden/x.parquet"]
        for age, name in enumerate(names):
            (tmp_path / name).touch()
            os.utime(tmp_path / name, (1_000_000_000 + age,) * 2)
        wanted = [(tmp_path / name).as_uri() for name in ("sub dir/new.parquet", "old.parquet")]
        assert newest_here(str(tmp_path), 10) == wanted
        assert newest_here(f"{tmp_path}/**/*.parquet", 1) == wanted[:1]
        assert newest_here(f"file://{tmp_path}/*.parquet", 10) == wanted[1:]
        assert newest_here(f"{tmp_path}/nothing*", 10) == []
        assert newest_here("s3://box/*.parquet", 10) is None
        assert newest_here(f"{tmp_path}/{{a,b}}", 10) is None

    def test_local(self, tmp_path: Path) -> None:
        name = tmp_path / "a b%.parquet"
        name.touch()
        system, path = open_location(name.as_uri().replace("file://", "file:"), {})
        assert system.get_file_info(path).size == 0
        assert Path(path).samefile(name)
