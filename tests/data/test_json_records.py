"""JSON records in the workers: all that Arrow's own reader shifts, refuses or crashes on."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.data import json_records
from skyband.data.json_records import ONE_BY_ONE, read_records
from skyband.data.text_types import MOMENT, NAIVE, check_types, typed

SCHEMA = pa.schema([("a", pa.int64()), ("v", pa.float64()), ("s", pa.string())])
GOOD = [
    (b'{"a": 1, "v": 0.5, "s": "x"}', (1, 0.5, "x")),
    (b"{}", (None, None, None)),
    (b'{"b": {"a": [1, {"c": "}"}]}, "a": 4}', (4, None, None)),
    (b'  {"a": 2}\t', (2, None, None)),
    (b'{"a":\n3}', (3, None, None)),
    (b'{"a": 1, "a": 2}', (2, None, None)),
    (b'{"s": 5}', (None, None, "5")),
    (b'{"s": {"x": [1, true]}}', (None, None, '{"x":[1,true]}')),
    (b'{"s": "\\u0000 \\u00e9 \\ud83d\\ude00"}', (None, None, "\x00 é \U0001f600")),
    (b'{"v": "NaN"}', (None, math.nan, None)),
    (b'{"v": -0}', (None, -0.0, None)),
    (b'{"a": -0}', (0, None, None)),
    (b'{"v": NaN}', (None, math.nan, None)),
    (b'{"v": Inf}', (None, math.inf, None)),
    (b'{"v": "-Infinity"}', (None, -math.inf, None)),
    (b'{"v": 12345678901234567890123}', (None, 1.2345678901234568e22, None)),
    (b'{"a": -9223372036854775808, "A": 3}', (-(2**63), None, None)),
    (b'\xef\xbb\xbf{"a": 9}', (9, None, None)),
]
BAD: list[bytes | None] = [
    None,
    b"",
    b" ",
    b"null",
    b"[]",
    b'"text"',
    b"17",
    b"{oops",
    b'{"a": 1}{"a": 2}',
    b'{"a": 1} {"a": 2}',
    b'{"a": 1}}',
    b'{"a": 1,}',
    b"{'a': 1}",
    b'{"a": 01}',
    b'{"a": 1.0}',
    b'{"a": 1e2}',
    b'{"a": "5"}',
    b'{"a": true}',
    b'{"a": 9223372036854775808}',
    b'{"v": "1.5"}',
    b'{"v": true}',
    b'{"s": "\xff"}',
    b'{"s": "\\ud800"}',
    b'{"s": "a\tb"}',
    b'{"a": 1}\n{"a": 2}',
    b'{"a": ' + b"[" * 5_000 + b"}",
]


def told(records: list[bytes | None], schema: pa.Schema = SCHEMA) -> list[Any]:
    """What each record gave: its values, or None if it cannot be read."""
    batch, bad = read_records(pa.array(records, pa.binary()), schema)
    batch.validate(full=True)
    assert batch.schema == schema
    assert batch.num_rows == len(records) == len(bad)
    rows = [tuple(row.values()) for row in batch.to_pylist()]
    assert all(set(row) == {None} for row, no in zip(rows, bad, strict=True) if no)
    return [None if no else repr(row) for row, no in zip(rows, bad, strict=True)]


@pytest.mark.parametrize(("record", "values"), GOOD)
def test_read(record: bytes, values: tuple[Any, ...]) -> None:
    assert told([record]) == [repr(values)]


@pytest.mark.parametrize("record", BAD)
def test_unreadable(record: bytes | None) -> None:
    assert told([record]) == [None]


def test_a_record_does_not_depend_on_its_neighbours() -> None:
    shapes = [record for record, _ in GOOD] + BAD
    wanted = {shape: told([shape])[0] for shape in shapes}
    plain = [b'{"a": %d}' % i for i in range(2 * ONE_BY_ONE)]
    for seed in range(4):
        records = [*plain, *shapes, *shapes]
        random.Random(seed).shuffle(records)
        got = told(records)
        for record, value in zip(records, got, strict=True):
            alone = wanted.get(record)
            number = None if record in wanted else json.loads(record or b"")["a"]
            assert value == (alone if record in wanted else repr((number, None, None))), record


@pytest.mark.parametrize("first", [b"null", b"", b"{oops", b'{"a": 1}{"a": 2}'])
def test_one_bad_record_at_the_head_of_a_long_block(first: bytes) -> None:
    records: list[bytes | None] = [first, *(b'{"a": %d}' % i for i in range(3 * ONE_BY_ONE))]
    got = told(records)
    assert got[0] is None
    assert got[1:] == [repr((i, None, None)) for i in range(3 * ONE_BY_ONE)]


def test_few_records_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halving stops at some hundred records: one by one is slow for a whole block."""
    counted: list[int] = []
    own = json_records._one_by_one

    def counting(raw: pa.Array, rows: Any, *more: Any) -> None:
        counted.append(len(rows))
        own(raw, rows, *more)

    monkeypatch.setattr(json_records, "_one_by_one", counting)
    records: list[bytes | None] = [b'{"a": %d}' % i for i in range(8 * ONE_BY_ONE)]
    records[5] = b'{"a": 1,}'
    got = told(records)
    assert got[5] is None
    assert sum(value is None for value in got) == 1
    assert sum(counted) == ONE_BY_ONE


@pytest.mark.parametrize("bad", [[], BAD])
def test_threads_read_pieces(bad: list[bytes | None], monkeypatch: pytest.MonkeyPatch) -> None:
    """In any piece, all records stay in their order; a record may be longer than a piece."""
    monkeypatch.setattr(json_records, "_PIECE", 300)
    records: list[bytes | None] = [
        json.dumps({"a": a, "s": "x" * (a % 50)}).encode() for a in range(2_000)
    ]
    records[700] = json.dumps({"a": 700, "s": "y" * 1_000}).encode()
    records[1_000:1_000] = bad
    values = pa.array(records, pa.binary())
    alone, one_by_one = read_records(values, SCHEMA), []
    monkeypatch.setattr(json_records, "ONE_BY_ONE", 16)
    keep = json_records._one_by_one

    def noted(raw: pa.Array, rows: Any, *rest: Any) -> None:
        one_by_one.extend(rows)
        keep(raw, rows, *rest)

    monkeypatch.setattr(json_records, "_one_by_one", noted)
    together = read_records(values, SCHEMA, threads=True)
    assert together[0].equals(alone[0])
    assert together[1].tolist() == alone[1].tolist()
    assert together[1].sum() == len(bad)
    assert len(one_by_one) <= 17 * len(bad)


def test_no_records() -> None:
    batch, bad = read_records(pa.array([], pa.binary()), SCHEMA)
    assert (batch.num_rows, len(bad)) == (0, 0)


class TestTypes:
    def test_listed_types(self) -> None:
        schema = pa.schema(
            [("d", pa.date32()), ("t", MOMENT), ("n", NAIVE), ("b", pa.binary()), ("i", pa.int8())]
        )
        good = b'{"d": "2026-11-16", "t": "%s", "n": "2026-11-16T10:00:00.25", "b": "AAE=", "i": 7}'
        times = {
            b"2026-11-16T10:00:00Z": 0,
            b"2026-11-16 10:00:00": 0,
            b"2026-11-16T12:00:00+02:00": 0,
            b"2026-11-16T10:00:00.123456789Z": 123456,
            b"2026-11-16T10:00:00.123456789": 123456,
        }
        batch, bad = read_records(pa.array([good % time for time in times]), schema)
        assert not bad.any()
        rows = batch.to_pylist()
        zone = dt.UTC
        assert [row["t"] for row in rows] == [
            dt.datetime(2026, 11, 16, 10, 0, 0, micros, tzinfo=zone) for micros in times.values()
        ]
        assert rows[0]["d"] == dt.date(2026, 11, 16)
        assert rows[0]["n"] == dt.datetime(2026, 11, 16, 10, 0, 0, 250_000)
        assert (rows[0]["b"], rows[0]["i"]) == (b"\x00\x01", 7)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("d", '"soon"'),
            ("d", "3"),
            ("t", '"soon"'),
            ("t", "1700000000"),
            ("n", '"2026-11-16T10:00:00Z"'),
            ("b", '"not base64"'),
            ("i", "128"),
        ],
    )
    def test_values_that_do_not_fit(self, name: str, value: str) -> None:
        kinds = {"d": pa.date32(), "t": MOMENT, "n": NAIVE, "b": pa.binary(), "i": pa.int8()}
        schema = pa.schema([(name, kinds[name]), ("x", pa.int64())])
        records = [b'{"x": 1}', f'{{"x": 2, "{name}": {value}}}'.encode(), b'{"x": 3}']
        batch, bad = read_records(pa.array(records), schema)
        assert bad.tolist() == [False, True, False]
        assert batch["x"].to_pylist() == [1, None, 3]

    def test_times_with_and_without_a_zone_in_one_column(self) -> None:
        text = ["1970-01-01T00:00:01Z", "1970-01-01", None, "x", "1970-01-01T01:00:02.1234567+01"]
        found, wrong = typed(pa.array(text), MOMENT)
        assert found.cast(pa.int64()).to_pylist() == [1_000_000, 0, None, None, 2_123_456]
        assert wrong.tolist() == [False, False, False, True, False]

    def test_decimals_keep_all_digits(self) -> None:
        schema = pa.schema([("m", pa.decimal128(20, 2))])
        values = [b"1.25", b"12345678901234567.89", b'"0.5"', b"3", b"1.234", b"1e30", b"true"]
        records = [b'{"m": %s}' % value for value in values]
        batch, bad = read_records(pa.array(records), schema)
        assert bad.tolist() == [False] * 4 + [True] * 3
        found = [str(value) for value in batch["m"].to_pylist()[:4]]
        assert found == ["1.25", "12345678901234567.89", "0.50", "3.00"]
        check_types("[source]", schema)

    def test_other_types_are_refused(self) -> None:
        schema = pa.schema([("a", pa.list_(pa.int64()))])
        with pytest.raises(sb.QueryError, match=r"'a' has type list.*reader = \"spark\""):
            check_types("[source]", schema)


def test_small_batches_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    from skyband.spark import json_source

    monkeypatch.setattr(json_source, "_BLOCK_ROWS", 10)
    monkeypatch.setattr(json_source, "_BLOCK_BYTES", 2_000)
    sizes, schema = [4, 4, 0, 3, 1, 30, 2, 2], pa.schema([("n", pa.int64()), ("v", pa.binary())])
    values = iter(b"x" * (1_500 if n >= 42 else 5) for n in range(sum(sizes)))
    numbers = iter(range(sum(sizes)))
    batches = [
        pa.record_batch(
            [
                pa.array([next(numbers) for _ in range(n)]),
                pa.array([next(values) for _ in range(n)]),
            ],
            schema=schema,
        )
        if n
        else pa.RecordBatch.from_pylist([], schema=schema)
        for n in sizes
    ]
    found = list(json_source.gathered(iter(batches)))
    assert [batch.num_rows for batch in found] == [11, 31, 2, 2]
    assert pa.Table.from_batches(found).equals(pa.Table.from_batches(batches).combine_chunks())
    assert not list(json_source.gathered(iter([])))
