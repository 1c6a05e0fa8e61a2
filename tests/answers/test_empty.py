"""An empty source gives the query's full columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import oracle
import skyband as sb
from skyband import registry
from support import conformance, sending
from support.command_line import good

WINDOW = oracle.TimeWindow(30, 7)
CASES = [(kind, number) for kind in registry.kinds() for number in (0, -1)]


def case(kind: str, number: int) -> tuple[sb.Query, Any]:
    """A query and a source with rows."""
    settings = conformance.SETTINGS[kind][number]
    stream = conformance.long_stream(kind, settings, WINDOW, "uniform")
    batches, _, table = sending.sent(stream, settings)
    query = conformance.query_of(kind, WINDOW, settings, table)
    if isinstance(batches[0], dict):
        whole: dict[str, Any] = {}
        for batch in batches:
            for name, part in batch.items():
                whole[name] = pa.concat_tables([whole[name], part]) if name in whole else part
        return query, whole
    return query, pa.concat_tables(batches)


def each(source: Any, change: Any) -> Any:
    if isinstance(source, Mapping):
        return {name: change(table) for name, table in source.items()}
    return change(source)


def untyped(table: pa.Table) -> pa.Table:
    return pa.table({name: pa.nulls(0) for name in table.column_names})


@pytest.mark.parametrize(("kind", "number"), CASES)
def test_a_source_without_rows_has_every_column_and_type(
    kind: str, number: int, tmp_path: Path
) -> None:
    query, source = case(kind, number)
    full = sb.rank(source, query)
    assert full.num_rows
    path = iter(range(9))

    def written(table: pa.Table) -> Path:
        file = tmp_path / f"{next(path)}.parquet"
        pq.write_table(table.slice(0, 0), file)
        return file

    for empty in (
        each(source, lambda table: table.slice(0, 0)),
        each(source, lambda table: [table.slice(0, 0)] * 2),
        each(source, lambda table: table.slice(0, 0).to_reader()),
        each(source, lambda table: [untyped(table), table.slice(0, 0)]),
        each(source, written),
    ):
        got = sb.rank(empty, query)
        assert got.num_rows == 0
        assert got.schema == full.schema


@pytest.mark.parametrize(("kind", "number"), CASES)
def test_a_source_without_types_has_every_column_by_name(
    kind: str, number: int, tmp_path: Path
) -> None:
    query, source = case(kind, number)
    full = sb.rank(source, query).schema
    path = iter(range(9))

    def written(table: pa.Table) -> Path:
        file = tmp_path / f"{next(path)}.csv"
        file.write_text(",".join(table.column_names) + "\n", encoding="utf-8")
        return file

    for nothing in (untyped, lambda table: [untyped(table)], written):
        got = sb.rank(each(source, nothing), query)
        assert got.num_rows == 0
        if kind != "SkylineJoin":
            assert got.column_names == full.names
        edges = [got.schema.field(name).type for name in ("window_start", "window_end")]
        assert edges == [pa.int64(), pa.int64()]
        # The types come with later rows.
        filled = each(source, lambda table: [untyped(table), table.sort_by("ts")])
        assert sb.rank(filled, query).schema == full


@pytest.mark.parametrize(("kind", "number"), CASES)
def test_a_source_without_any_batch_has_the_columns_that_the_query_names(
    kind: str, number: int
) -> None:
    query, source = case(kind, number)
    full = sb.rank(source, query).schema
    got = sb.rank(each(source, lambda _: []), query)
    assert got.num_rows == 0
    if kind in ("Skyline", "SkylineJoin"):  # all input columns, which are not known yet
        named: dict[str, str] = query.prefer  # type: ignore[attr-defined]
        assert {"window_start", "window_end", *named} <= set(got.column_names)
    else:
        assert got.column_names == full.names


def sides(kind: str) -> Iterator[tuple[sb.Query, dict[str, Any], str]]:
    for number in range(len(conformance.SETTINGS[kind])):
        query, source = case(kind, number)
        for name in source if isinstance(source, dict) else ():
            yield query, source, name


@pytest.mark.parametrize("kind", ["FusedTopK", "SkylineJoin"])
def test_one_side_of_several_may_be_empty(kind: str) -> None:
    for query, source, name in sides(kind):
        full = sb.rank(source, query).schema
        got = sb.rank(source | {name: source[name].slice(0, 0)}, query)
        assert got.schema == full
        for nothing in ([], [untyped(source[name])]):
            got = sb.rank(source | {name: nothing}, query)
            if kind == "FusedTopK":
                assert got.schema == full
            else:
                named: dict[str, str] = query.prefer  # type: ignore[attr-defined]
                assert got.num_rows == 0
                assert set(named) <= set(got.column_names)


def test_a_missing_column_is_told_of_a_source_without_rows() -> None:
    query = sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow(3))
    with pytest.raises(sb.SchemaError, match="column 'x' is missing"):
        sb.rank(pa.table({"t": pa.nulls(0), "y": pa.nulls(0)}), query)


def test_a_monitor_takes_a_batch_that_says_nothing_and_goes_on() -> None:
    monitor = sb.Monitor(sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow(3)))
    nothing = pa.table({"t": pa.nulls(0), "x": pa.nulls(0)})
    assert monitor.push(nothing) == []
    assert len(monitor.push(pa.table({"t": [0, 3], "x": [1.0, 2.0]}))) == 1
    assert monitor.push(nothing) == []
    assert len(monitor.flush()) == 1


def test_the_command_line_writes_the_header_of_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("ts,x\n", encoding="utf-8")
    words = ("-k", 1, "--score", "x", "--time", "ts", "--window", "2 s", "--format", "csv")
    out = good("topk", path, *words)
    assert out.replace('"', "").split() == ["window_start,window_end,rank,x,ts"]
