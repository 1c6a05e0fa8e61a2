"""Bodies of requests: Arrow's readers and the slow ones agree, and errors name their place."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.errors import QueryError
from skyband.jobs.ddl import arrow_schema
from skyband.serve import bodies
from skyband.serve.bodies import read_body
from skyband.serve.limits import UnreadableBody

SCHEMA = arrow_schema(
    "[source]", "ts timestamp, id string, n bigint, small int, x double, day date, `a b` boolean"
)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "ts": st.none()
        | st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 30)).map(datetime.isoformat)
        | st.just("2026-01-05T08:00:00+02:00"),
        "id": st.none() | TEXT,
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "small": st.none() | st.integers(-(2**31), 2**31 - 1),
        "x": st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-99, 99),
        "day": st.none() | st.dates().map(str),
        "a b": st.none() | st.booleans(),
        "other": st.none() | st.integers() | st.lists(st.integers(), max_size=2),
    },
)


@settings(max_examples=25)
@given(st.lists(ROWS, min_size=1, max_size=4), st.booleans())
def test_json_lines_are_read_alike_by_both_readers(
    rows: list[dict[str, Any]], ascii_: bool
) -> None:
    body = "\n".join(json.dumps(row, ensure_ascii=ascii_) for row in rows).encode()
    slow = bodies._table(bodies._json_rows(body, SCHEMA), SCHEMA)
    fast = bodies._json_at_once(body, SCHEMA)
    assert slow.num_rows == len(rows)
    if fast is not None:
        assert fast.equals(slow)
    assert read_body("json", body, SCHEMA).equals(slow)
    for indent in (None, 1):
        whole = json.dumps(rows, ensure_ascii=ascii_, indent=indent).encode()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bodies, "_STEP", 7)
            assert read_body("document", whole, SCHEMA).equals(slow)
    assert read_body("document", json.dumps(rows[0]).encode(), SCHEMA).equals(slow.slice(0, 1))


@settings(max_examples=300)
@given(st.text(st.sampled_from('[]{},:"\\ \n1ant'), max_size=16))
def test_a_document_is_read_only_if_it_is_json(text: str) -> None:
    schema = pa.schema([("a", pa.int64())])
    try:
        found: Any = json.loads(text)
    except ValueError:
        found = None
    rows = found if isinstance(found, list) else [found]
    good = all(isinstance(row, dict) and type(row.get("a", 0)) is int for row in rows)
    try:
        table = read_body("document", text.encode(), schema)
    except UnreadableBody:
        assert not good
    else:
        assert (good, table.num_rows) == (True, len(rows))


def test_json_lines_of_plain_rows_take_the_fast_way() -> None:
    row = {"ts": "2026-01-05T08:00:00.25Z", "id": "é", "n": 3, "x": 1.5, "day": "2026-01-05"}
    body = (json.dumps(row) + "\r\n").encode() * 3
    fast = bodies._json_at_once(body, SCHEMA)
    assert fast is not None
    assert fast["ts"][2].as_py() == datetime(2026, 1, 5, 8, 0, 0, 250_000, UTC)


@settings(max_examples=25)
@given(st.lists(ROWS, min_size=1, max_size=4))
def test_csv_is_read_alike_by_both_readers(rows: list[dict[str, Any]]) -> None:
    schema = pa.schema([each for each in SCHEMA if each.name != "a b"])  # 0 and 1 are booleans too
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_NOTNULL if hasattr(csv, "QUOTE_NOTNULL") else 0)
    writer.writerow(schema.names)
    for row in rows:
        cells = [row.get(name) for name in schema.names]
        writer.writerow(["" if cell is None else f"{cell}".replace("\r", "") for cell in cells])
    body = text.getvalue().encode()
    slow = bodies._table(bodies._csv_rows(body.decode(), schema.names, schema), schema)
    fast = bodies._csv_at_once(body, schema)
    if fast is not None and fast.num_rows == slow.num_rows:
        assert [fast[n].to_pylist() for n in ("n", "small", "x", "day", "ts")] == [
            slow[n].to_pylist() for n in ("n", "small", "x", "day", "ts")
        ]
    assert read_body("csv", body, schema).num_rows >= 0


@pytest.mark.parametrize(
    ("line", "column", "reason"),
    [
        (b"null", None, "is not a JSON object"),
        (b"[1]", None, "is not a JSON object"),
        (b'{"n": 1', None, "is not JSON"),
        (b'{"n": 1} {"n": 2}', None, "is not JSON"),
        (b'{"n": 1, "n": 2}', None, "twice"),
        (b'{"id": "\xff"}', None, "is not UTF-8"),
        (b'{"id": 7}', "id", "7 is not of type string"),
        (b'{"n": 1.5}', "n", "1.5 is not of type int64"),
        (b'{"n": true}', "n", "True is not of type int64"),
        (b'{"n": 9223372036854775808}', "n", "out of range"),
        (b'{"small": 2147483648}', "small", "out of range"),
        (b'{"x": "1"}', "x", "'1' is not of type double"),
        (b'{"ts": "yesterday"}', "ts", "'yesterday' is not of type timestamp"),
        (b'{"ts": 1767600000}', "ts", "1767600000 is not of type timestamp"),
        (b'{"day": "2026-02-30"}', "day", "is not of type date32"),
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_read_is_named(line: bytes, column: str | None, reason: str) -> None:
    with pytest.raises(UnreadableBody) as found:
        read_body("json", b'{"n": 1}\n\n' + line + b'\n{"n": 2}\n', SCHEMA)
    assert (found.value.row, found.value.line, found.value.column) == (1, 3, column)
    assert reason in found.value.reason


def test_a_block_that_begins_with_null_does_not_crash() -> None:
    with pytest.raises(UnreadableBody):
        read_body("json", b"null\n" * 3, SCHEMA)


@pytest.mark.parametrize(
    ("text", "row", "line", "reason"),
    [
        ("", None, 1, "has no header"),
        ("id\na\n", None, 1, "'n' is missing in the header"),
        ("id,n,n\na,1,2\n", None, 1, "'n' appears twice"),
        ("id,n\na,1\nb,x\n", 1, 3, "'x' is not of type int64"),
        ("id,n\na,1\n0x1,0x10\n", 1, 3, "'0x10' is not of type int64"),
        ('n,id\n"0X1F",a\n', 0, 2, "'0X1F' is not of type int64"),
        ("n,id\n 0x1f,a\n", 0, 2, "' 0x1f' is not of type int64"),
        ("id,n\na,1\nb\n", 1, 3, "has 1 values"),
        ('id,n\n"a\nb",1\n"c,2\n', 1, 4, "is not CSV"),
        ("id,n\n\0,1\n", None, None, "NUL"),
    ],
)
def test_csv_that_cannot_be_read_is_named(text: str, row: Any, line: Any, reason: str) -> None:
    schema = pa.schema([("id", pa.string()), ("n", pa.int64())])
    with pytest.raises(UnreadableBody) as found:
        read_body("csv", text.encode(), schema)
    assert (found.value.row, found.value.line) == (row, line)
    assert reason in found.value.reason


def test_text_that_begins_like_a_hexadecimal_number() -> None:
    schema = pa.schema([("id", pa.string()), ("n", pa.int64())])
    table = read_body("csv", b"id,n\n0x10,16\n", schema)
    assert table.to_pylist() == [{"id": "0x10", "n": 16}]


def test_csv_times_with_and_without_a_zone() -> None:
    schema = arrow_schema("", "ts timestamp, n bigint")
    body = b"n,ts,extra\n1,2026-01-05 08:00:00,x\n2,2026-01-05T08:00:00+02:00,y\n,,\n"
    table = read_body("csv", body, schema)
    assert table["ts"].to_pylist() == [
        datetime(2026, 1, 5, 8, tzinfo=UTC),
        datetime(2026, 1, 5, 6, tzinfo=UTC),
        None,
    ]
    assert table["n"].to_pylist() == [1, 2, None]


def test_arrow_streams_are_cast_or_refused() -> None:
    schema = pa.schema([("id", pa.string()), ("n", pa.int64())])

    def sent(table: pa.Table) -> bytes:
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue()

    good = pa.table(
        {"n": pa.array([1, 2], pa.int8()), "id": pa.array(["a", "b"]).dictionary_encode()}
    )
    assert read_body("arrow", sent(good), schema).to_pydict() == {"id": ["a", "b"], "n": [1, 2]}
    for wrong in (
        pa.table({"id": ["a"]}),
        pa.table({"id": ["a"], "n": ["x"]}),
        pa.table({"id": ["a"], "n": [1.0]}),
        pa.table({"id": ["a"], "n": pa.array([2**63], pa.uint64())}),
    ):
        with pytest.raises(UnreadableBody):
            read_body("arrow", sent(wrong), schema)
    for junk in (b"", b"junk", sent(good)[:-30]):
        with pytest.raises(UnreadableBody):
            read_body("arrow", junk, schema)


def test_binary_columns_are_base64() -> None:
    schema = arrow_schema("", "raw binary, price decimal(10, 2)")
    table = read_body("json", b'{"raw": "YWJj", "price": "1.25"}', schema)
    assert table.to_pylist()[0]["raw"] == b"abc"
    with pytest.raises(UnreadableBody, match="base64"):
        read_body("json", b'{"raw": "?"}', schema)


@pytest.mark.parametrize("text", ["", "a", "a strang", "a int, a int", "a int b int", "a int(3)"])
def test_schemas_that_are_not_understood(text: str) -> None:
    with pytest.raises(QueryError, match=r"\[source\] schema"):
        arrow_schema("[source]", text)
