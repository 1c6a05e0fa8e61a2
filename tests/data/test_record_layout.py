"""Records that are written alike: the values and bad rows of Arrow's reader, for all shapes."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.data import record_layout
from skyband.data.json_records import read_records
from skyband.data.text_types import MOMENT

SCHEMA = pa.schema([
    ("a", pa.int64()), ("t", pa.int8()), ("v", pa.float64()), ("f", pa.float32()),
    ("s", pa.string()), ("b", pa.bool_()), ("z", pa.int32()),
])  # fmt: skip
PLAIN = '{"a": 1, "t": 2, "v": 0.5, "f": 1.5, "s": "x", "b": true, "x": 3, "z": 4}'
WHOLE = ["0", "1", "-1", "17", "127", "128", "-128", "-129", "2147483647", "2147483648",
         "999999999999999999", "1000000000000000000", "-999999999999999999",
         "9223372036854775807", "9223372036854775808", "-9223372036854775808",
         "00", "01", "-0", "-01", "-", "+1", "1.", "12345678901234567890123", ""]  # fmt: skip
NUMBERS = ["0.1", "-0.0", "1e5", "1E-5", "1e+308", "1e999", "-1e999", "1e-999", ".5", "5.", "1e",
           "1e+", "0x1", "1.7976931348623157e308", "0.84442185152504812", "1_0", "1.0.0",
           "NaN", "Inf", "-Infinity", '"NaN"']  # fmt: skip
TEXTS = ['"x"', '""', '"a longer text, of more than sixteen bytes"', '"é"', '"\U0001f600"', '"\\n"',
         '"\\u0041"', '"\\ud800"', '"a\tb"', '"a\x00b"', '"a\x7fb"', '"1"', '"true"', '"null"',
         '"2026-11-16T10:00:00Z"', '"unfinished', '"12345678"', '"1234567\\\\"', "'x'"]  # fmt: skip
OTHER = ["true", "false", "null", "nul", "nulls", "True", "tru", "fals", "falsee", "{}", "[]",
         "[1, 2]", '{"a": 1}', "undefined", "1 2", "true,", '1, "a": 2', '1, "q": 2', "1}",
         "null null", " 1", "1 ", "\t1"]  # fmt: skip
VALUES = WHOLE + NUMBERS + TEXTS + OTHER
WHOLE_RECORDS = [
    b"", b" ", b"{}", b"null", b"[]", b"17", PLAIN.encode()[:-1], PLAIN.encode() + b"}",
    PLAIN.encode() + b" ", b" " + PLAIN.encode(), PLAIN.encode() + b"\n" + PLAIN.encode(),
    PLAIN.encode() + PLAIN.encode(), PLAIN.replace('"a"', '"A"').encode(),
    PLAIN.replace(", ", ",").encode(), PLAIN.replace(": ", ":").encode(),
    b'{"t": 2, "a": 1}', b'{"a": 1}', b'{"a": 1, "a": 2}', b'{"s": "\xff"}',
    b"\xef\xbb\xbf" + PLAIN.encode(), PLAIN.replace('"x"', '"\\\\"').encode(),
    PLAIN.encode().replace(b'"x": 3', b'"x": "\xff"'), PLAIN.encode().replace(b'"x"', b'"\xff"', 1),
    PLAIN.encode()[:30], PLAIN.encode()[:56], b'{"a"', b'{"a": ', b'{"a": 1, "t',
]  # fmt: skip


def both(records: list[bytes | None], schema: pa.Schema = SCHEMA, few: int = 1) -> tuple[Any, Any]:
    """What records give with and without layouts."""
    found = []
    values = pa.array([b'{"', *records, b'"}'], pa.binary())[1:-1]
    for least in (few, 1 << 40):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(record_layout, "FEW", least)
            batch, bad = read_records(values, schema)
        batch.validate(full=True)
        assert batch.schema == schema
        found.append([
            "bad" if no else repr(tuple(row.values()))
            for row, no in zip(batch.to_pylist(), bad, strict=True)
        ])  # fmt: skip
    return found[0], found[1]


def same(records: list[bytes | None], schema: pa.Schema = SCHEMA) -> None:
    got, wanted = both(records, schema)
    for record, one, other in zip(records, got, wanted, strict=True):
        assert one == other, record


def record(values: dict[str, str], keys: list[str], gap: str, colon: str) -> str:
    inner = f",{gap}".join(f'"{key}":{colon}{values[key]}' for key in keys)
    return f"{{{inner}}}"


FIRST = {"a": "1", "t": "2", "v": "0.5", "f": "1.5", "s": '"x"', "b": "true", "x": "3", "z": "4"}


@pytest.mark.parametrize("key", FIRST)
def test_every_value_in_every_column(key: str) -> None:
    plain: list[bytes | None] = [PLAIN.encode()] * 3
    odd = [record(FIRST | {key: value}, list(FIRST), " ", " ") for value in VALUES]
    for one in odd if key in "avsbx" else ():
        same([*plain, one.encode("utf-8", "surrogatepass"), *plain])
    same([*plain, *(one.encode("utf-8", "surrogatepass") for one in odd), *plain])


def test_odd_records() -> None:
    plain: list[bytes | None] = [PLAIN.encode()] * 3
    for one in [*WHOLE_RECORDS, None]:
        same([*plain, one, *plain])
        same([one, *plain])
    same([*WHOLE_RECORDS, *plain, None, *WHOLE_RECORDS])
    same([])
    same([None, None])


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 30), st.sampled_from(["", " ", " \t"]))
def test_any_mixture(choose: random.Random, count: int, gap: str) -> None:
    keys = choose.sample(list(FIRST), choose.randint(1, len(FIRST)))
    records: list[bytes | None] = []
    for _ in range(count):
        values = dict(FIRST)
        if choose.random() < 0.5:
            values[choose.choice(keys)] = choose.choice(VALUES)
        order = keys if choose.random() < 0.9 else choose.sample(keys, len(keys))
        text = record(values, order, gap, choose.choice([gap, gap, ""]))
        raw = text.encode("utf-8", "surrogatepass")
        if choose.random() < 0.1:
            raw = raw[: choose.randrange(len(raw) + 1)]
        if choose.random() < 0.1:
            at = choose.randrange(len(raw) + 1)
            raw = raw[:at] + bytes([choose.randrange(256)]) + raw[at + 1 :]
        records.append(None if choose.random() < 0.02 else raw)
    same(records)


class Noting:
    """Counts the records that are left to Arrow's reader."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        from skyband.data import json_records

        self.left: list[int] = []
        own = record_layout.read_alike

        def noting(*given: Any) -> Any:
            found = own(*given)
            self.left.append(len(found[1]))
            return found

        patch.setattr(json_records, "read_alike", noting)


def flow(i: int) -> bytes:
    about = {"ts": "2026-11-16T10:00:00Z", "key": i, "bytes": i / 7, "who": {"x": None}.get("y")}
    return json.dumps(about).encode()


FLOWS = pa.schema([("ts", MOMENT), ("key", pa.int64()), ("bytes", pa.float64())])


def test_records_of_one_program_need_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    noting = Noting(monkeypatch)
    records = [flow(i) for i in range(300)]
    monkeypatch.setattr(record_layout, "FEW", 100)
    values = pa.array([b"x", *records, b"y"], pa.binary())[1:-1]
    batch, bad = read_records(values, FLOWS)
    assert noting.left == [0]
    assert not bad.any()
    assert batch["key"].to_pylist() == list(range(300))
    assert batch["bytes"].to_pylist() == [i / 7 for i in range(300)]
    assert set(batch["ts"].cast(pa.int64()).to_pylist()) == {1_794_823_200_000_000}
    read_records(values[:99], FLOWS)
    assert noting.left == [0, 99]


def test_several_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An optional key, or two writers: each layout is read without a parser, in order."""
    noting = Noting(monkeypatch)
    monkeypatch.setattr(record_layout, "FEW", 10)
    shapes = [b'{"key": %d}', b'{"key":%d}', b'{"bytes": 1.5, "key": %d}']
    choose = random.Random(1)
    records = [choose.choice(shapes[: 1 + (i > 200)]) % i for i in range(400)]
    records[300], records[301] = b'{"key": oops}', b'{"key": 1e0}'
    records += [shapes[2] % i for i in range(5)]
    batch, bad = read_records(pa.array(records, pa.binary()), FLOWS)
    assert noting.left == [7]
    assert bad.nonzero()[0].tolist() == [300, 301]
    wanted = [None if i in (300, 301) else i for i in range(400)] + list(range(5))
    assert batch["key"].to_pylist() == wanted


def test_the_first_record_may_be_odd(monkeypatch: pytest.MonkeyPatch) -> None:
    noting = Noting(monkeypatch)
    monkeypatch.setattr(record_layout, "FEW", 10)
    for odd in (b"null", b"", b'{"key": {}}', b'{"other": 1}', b'{"key": "\xff"}'):
        records = [odd, *(b'{"key": %d}' % i for i in range(400))]
        batch, _ = read_records(pa.array(records, pa.binary()), FLOWS)
        assert batch["key"].to_pylist() == [None, *range(400)]
    assert noting.left == [1] * 5


def test_text_that_is_not_utf8_leaves_its_layout_to_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    noting = Noting(monkeypatch)
    monkeypatch.setattr(record_layout, "FEW", 10)
    schema = pa.schema([("name", pa.string())])
    records = [b'{"name": "\xc3\xa9 %d"}' % i for i in range(400)]
    batch, bad = read_records(pa.array(records, pa.binary()), schema)
    assert batch["name"].to_pylist() == [f"é {i}" for i in range(400)]
    records[7] = b'{"name": "\xff"}'
    batch, bad = read_records(pa.array(records, pa.binary()), schema)
    assert bad.nonzero()[0].tolist() == [7]
    assert noting.left == [0, 400]


def test_layouts_are_given_up_if_they_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    noting = Noting(monkeypatch)
    monkeypatch.setattr(record_layout, "FEW", 10)
    records = [b'{"key":%s%d}' % (b" " * (i % 50), i) for i in range(500)]
    batch, bad = read_records(pa.array(records, pa.binary()), FLOWS)
    assert noting.left == [500]
    assert not bad.any()
    assert batch["key"].to_pylist() == list(range(500))


def test_decimals_are_left_to_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    noting = Noting(monkeypatch)
    monkeypatch.setattr(record_layout, "FEW", 1)
    schema = pa.schema([("key", pa.decimal128(20, 2))])
    batch, _ = read_records(pa.array([b'{"key": 1.25}'] * 3), schema)
    assert str(batch["key"][0].as_py()) == "1.25"
    assert noting.left == [3]
