from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband
from skyband.data.keys import KeyIndex, hash_array, hash_columns, is_key_type
from skyband.errors import EngineError, SchemaError
from skyband.kernels import hashing

pytestmark = pytest.mark.nojit

DAY = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 1)

# A type, and distinct values of it.
CASES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [0, 1, -1, 127, -128]),
    (pa.int16(), [0, 1, -1, 2**15 - 1]),
    (pa.int32(), [0, 1, -1, -(2**31)]),
    (pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63)]),
    (pa.uint8(), [0, 1, 255]),
    (pa.uint16(), [0, 1, 2**16 - 1]),
    (pa.uint32(), [0, 1, 2**32 - 1]),
    (pa.uint64(), [0, 1, 2**64 - 1]),
    (pa.bool_(), [True, False]),
    (pa.float16(), [np.float16(0), np.float16(1.5), np.float16("inf")]),
    (pa.float32(), [0.0, 1.5, float("nan"), float("inf"), -1.5]),
    (pa.float64(), [0.0, 1.5, float("nan"), float("-inf"), 5e-324]),
    (pa.date32(), [DAY, dt.date(1969, 12, 31)]),
    (pa.date64(), [DAY, dt.date(1969, 12, 31)]),
    (pa.time32("ms"), [dt.time(1), dt.time(2)]),
    (pa.time64("us"), [dt.time(1), dt.time(2)]),
    (pa.timestamp("us"), [NOON, NOON + dt.timedelta(microseconds=1)]),
    (pa.timestamp("ns", "UTC"), [NOON, NOON + dt.timedelta(microseconds=1)]),
    (pa.duration("ms"), [dt.timedelta(1), dt.timedelta(-1)]),
    (pa.decimal128(20, 2), [Decimal("1.00"), Decimal("-1.00"), Decimal("123456789012345678.90")]),
    (pa.decimal256(60, 0), [Decimal(1), Decimal(-1), Decimal(10) ** 50]),
    (pa.string(), ["", "a", "ab", "a\0", "longer than eight", "x" * 40, "x" * 41]),
    (pa.large_string(), ["", "a", "été", "x" * 100]),
    (pa.string_view(), ["", "a", "longer than twelve bytes"]),
    (pa.binary(), [b"", b"\0", b"\0\0", b"\0" * 8, b"\0" * 9, b"\0" * 33]),
    (pa.large_binary(), [b"", b"\xff"]),
    (pa.binary_view(), [b"", b"\xff", b"longer than twelve bytes"]),
    (pa.binary(3), [b"abc", b"abd"]),
    (pa.binary(16), [b"0123456789abcdef", b"0123456789abcdeg"]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "été"]),
    (pa.dictionary(pa.uint32(), pa.int64()), [7, 8, -9]),
]
IDS = [str(kind) for kind, _ in CASES]


def array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if kind in (pa.string_view(), pa.binary_view()):
        plain = pa.string() if kind == pa.string_view() else pa.binary()
        return pa.array(values, plain).cast(kind)
    if pa.types.is_dictionary(kind):  # pa.array makes dictionaries of large strings only lately
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


@pytest.mark.parametrize(("kind", "values"), CASES, ids=IDS)
def test_equal_values_and_only_those_hash_alike(kind: pa.DataType, values: list[Any]) -> None:
    rows = [None, *values, *reversed(values), None]
    hashes = hash_array(array(rows, kind))
    assert hashes.dtype == np.uint64
    assert np.array_equal(hashes, hashes[::-1])
    assert len(set(hashes.tolist())) == len(values) + 1
    assert hashes[0] == hashing.NULL_HASH


@pytest.mark.parametrize(("kind", "values"), CASES, ids=IDS)
def test_slices_chunks_and_missing_nulls_change_nothing(
    kind: pa.DataType, values: list[Any]
) -> None:
    rows = [*values, None] * 5
    whole = array(rows, kind)
    hashes = hash_array(whole)
    for start in (0, 1, 7, 9, len(rows)):
        assert np.array_equal(hash_array(whole.slice(start)), hashes[start:])
        assert np.array_equal(hash_array(whole.slice(start, 3)), hashes[start : start + 3])
    chunked = pa.chunked_array([whole.slice(0, 3), whole.slice(3, 0), whole.slice(3)])
    assert np.array_equal(hash_array(chunked), hashes)
    assert np.array_equal(hash_array(pa.chunked_array([whole])), hashes)
    assert len(hash_array(pa.chunked_array([], kind))) == 0
    assert len(hash_array(whole.slice(0, 0))) == 0
    assert len(hash_array(array([], kind))) == 0
    assert np.array_equal(hash_array(array(values, kind)), hashes[: len(values)])
    assert np.array_equal(hash_array(array([None, None], kind)), [hashing.NULL_HASH] * 2)


def alike(values: Sequence[Any], *kinds: pa.DataType) -> None:
    first, *others = (hash_array(array(values, kind)) for kind in kinds)
    for other in others:
        assert np.array_equal(first, other)


def test_equal_values_of_related_types_hash_alike() -> None:
    signed = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
    unsigned = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    alike([0, 1, 100, None], *signed, *unsigned)
    alike([-1, -100], *signed, pa.dictionary(pa.int32(), pa.int64()))
    alike([1.5, float("nan"), -0.0], pa.float32(), pa.float64())
    alike([b"abc", b"123"], pa.binary(), pa.binary(3), pa.large_binary(), pa.binary_view())
    alike(
        ["", "a", "twelve bytes", "more than twelve bytes", None],
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int8(), pa.large_string()),
    )


def test_zeros_are_alike_and_so_are_nans() -> None:
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001], np.uint64)
    nans = hash_array(pa.array(bits.view(np.float64)))
    assert len(set(nans.tolist())) == 1
    zeros = hash_array(pa.array([0.0, -0.0]))
    assert zeros[0] == zeros[1] != nans[0]


def test_dictionaries_with_nulls_duplicates_and_rows_unused() -> None:
    values = pa.array(["a", None, "b", "a", "never"])
    indices = pa.array([0, 1, 2, 3, None, 0, 2], pa.int8())
    encoded = pa.DictionaryArray.from_arrays(indices, values)
    expected = hash_array(pa.array(["a", None, "b", "a", None, "a", "b"]))
    assert np.array_equal(hash_array(encoded), expected)
    assert np.array_equal(hash_array(encoded.slice(3, 2)), expected[3:5])
    # The values behind nulls may be anything.
    raw = np.array([0, 99], np.int8)
    buffers = [pa.py_buffer(b"\x01"), pa.py_buffer(raw)]
    wild = pa.DictionaryArray.from_arrays(pa.Array.from_buffers(pa.int8(), 2, buffers), ["a", "b"])
    assert np.array_equal(hash_array(wild), hash_array(pa.array(["a", None])))


def test_run_ends_extensions_and_nulls() -> None:
    rows = pa.array(["a", "a", None, "b"])
    assert np.array_equal(hash_array(pc.run_end_encode(rows)), hash_array(rows))
    raw = pa.array([b"0123456789abcdef", None], pa.binary(16))
    identifiers = pa.ExtensionArray.from_storage(pa.uuid(), raw)
    assert np.array_equal(hash_array(identifiers), hash_array(raw))
    assert np.array_equal(hash_array(pa.nulls(3)), [hashing.NULL_HASH] * 3)


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.int64()),
        pa.struct([("a", pa.int64())]),
        pa.map_(pa.string(), pa.int64()),
        pa.list_(pa.int64(), 2),
        pa.month_day_nano_interval(),
    ],
)
def test_nested_types_are_refused_with_advice(kind: pa.DataType) -> None:
    assert not is_key_type(kind)
    with pytest.raises(SchemaError, match="cast it") as raised:
        hash_array(pa.nulls(1, kind))
    assert str(kind) in str(raised.value)


@given(st.lists(st.binary(max_size=70), max_size=20), st.integers(0, 5))
@settings(max_examples=50)
def test_bytes_hash_alike_wherever_they_lie(values: list[bytes], skip: int) -> None:
    hashes = hash_array(pa.array(values, pa.binary()))
    alone = [hash_array(pa.array([value], pa.binary()))[0] for value in values]
    assert hashes.tolist() == alone
    moved = pa.array([b"?" * skip, *values], pa.large_binary()).slice(1)
    assert np.array_equal(hash_array(moved), hashes)
    assert len(set(hashes.tolist())) == len(set(values))


@given(st.lists(st.one_of(st.none(), st.text(max_size=20)), max_size=20))
@settings(max_examples=50)
def test_layouts_of_text_agree(values: list[str | None]) -> None:
    alike(values, pa.string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()))


def test_column_order_matters_and_one_column_is_itself() -> None:
    a, b = pa.array([1, 2, 3, None]), pa.array(["x", "y", "x", "x"])
    both = hash_columns([a, b])
    assert np.array_equal(hash_columns([a]), hash_array(a))
    assert not (both == hash_columns([b, a])).any()
    assert len(set(both.tolist())) == 4
    # Pairs of small integers, which collide if hashes are combined poorly.
    grid = np.arange(40)
    pairs = hash_columns([pa.array(np.repeat(grid, 40)), pa.array(np.tile(grid, 40))])
    assert len(np.unique(pairs)) == 1600


def flips(hash_of: Any, inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """How often each output bit flips when an input bit flips; rows of `inputs` are bytes."""
    base = hash_of(inputs)
    shares = []
    for bit in range(inputs.shape[1] * 8):
        changed = inputs.copy()
        changed[:, bit // 8] ^= 1 << (bit % 8)
        difference = (hash_of(changed) ^ base).view(np.uint8).reshape(len(inputs), 8)
        shares.append(np.unpackbits(difference, axis=1).mean(axis=0))
    return np.array(shares)


@pytest.mark.parametrize("width", [3, 8, 11, 20, 37])
def test_every_input_bit_changes_every_output_bit_half_the_time(width: int) -> None:
    inputs = np.random.default_rng(width).integers(0, 256, (128, width), np.uint8)
    shares = flips(lambda rows: hashing.hash_fixed(rows.reshape(-1), width), inputs)
    distance = np.abs(shares - 0.5)
    # One share of 128 coin flips has a standard deviation of 0.044.
    assert distance.max() < 0.25
    assert distance.mean() < 0.05


def test_integers_are_mixed_well() -> None:
    inputs = np.arange(128, dtype=np.int64).view(np.uint8).reshape(-1, 8)
    shares = flips(lambda rows: hashing.hash_int64(rows.reshape(-1).view(np.int64)), inputs)
    assert np.abs(shares - 0.5).max() < 0.25


def test_hashes_are_the_same_in_every_process() -> None:
    code = (
        "import pyarrow as pa; from skyband.data.keys import hash_columns\n"
        "print(hash_columns([pa.array([1, -5]), pa.array(['a', 'some longer text'])]).tolist())"
    )
    env = os.environ | {"PYTHONPATH": str(Path(skyband.__file__).parents[1])}
    seen = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=env | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        seen.add(done.stdout.strip())
    here = hash_columns([pa.array([1, -5]), pa.array(["a", "some longer text"])])
    assert seen == {str(here.tolist())}


def test_hashes_stay_what_they_are() -> None:
    """Snapshots hold hashes, so changing the hashes changes the format."""
    assert hash_array(pa.array([0, -1])).tolist() == [16294208416658607535, 16490336266968443936]
    assert hash_array(pa.array(["", "skyband", "sliding window", "x" * 50])).tolist() == [
        7960286522194355700,
        1094174804891017869,
        3687384299311783461,
        446507865293259298,
    ]


def rows_of(*numbers: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.array(numbers, np.uint64)


def test_codes_follow_first_appearance() -> None:
    index = KeyIndex()
    codes, fresh_rows, fresh_codes = index.encode(rows_of(9, 7, 9, 0, 7))
    assert codes.tolist() == [0, 1, 0, 2, 1]
    assert fresh_rows.tolist() == [0, 1, 3]
    assert fresh_codes.tolist() == [0, 1, 2]
    dtypes = [str(part.dtype) for part in (codes, fresh_rows, fresh_codes)]
    assert dtypes == ["int32", "int64", "int32"]
    assert len(index) == 3
    assert index.find(rows_of(0, 1, 9)).tolist() == [2, -1, 0]
    assert index.hashes(np.array([2, 0])).tolist() == [0, 9]
    assert [len(part) for part in index.encode(rows_of())] == [0, 0, 0]


def test_growth_within_a_batch_keeps_codes() -> None:
    index = KeyIndex()
    hashes = hashing.hash_int64(np.arange(2000))
    codes, fresh_rows, fresh_codes = index.encode(np.concatenate([hashes, hashes]))
    assert np.array_equal(codes, np.tile(np.arange(2000), 2))
    assert np.array_equal(fresh_rows, np.arange(2000))
    assert np.array_equal(fresh_codes, np.arange(2000))
    assert index.nbytes < 150 * 2000
    index._check()


def test_released_codes_come_again() -> None:
    index = KeyIndex()
    index.encode(rows_of(1, 2, 3))
    index.release(np.array([1]))
    assert (len(index), index.bound) == (2, 3)
    assert index.find(rows_of(2)).tolist() == [-1]
    codes, fresh_rows, fresh_codes = index.encode(rows_of(3, 5, 6))
    assert codes.tolist() == [2, 1, 3]
    assert (fresh_rows.tolist(), fresh_codes.tolist()) == ([1, 2], [1, 3])
    index._check()
    for wrong in ([0, 0], [4], [-1]):
        (copy := KeyIndex()).restore(index.state())
        with pytest.raises(EngineError, match="not in use"):
            copy.release(np.array(wrong))


# Keys with few home slots near the end of the table, so that probes collide and wrap around.
CROWDED = st.sampled_from([n << 60 | m for n in (0, 14, 15) for m in range(12)])


@given(st.lists(st.tuples(st.lists(CROWDED, max_size=25), st.integers(0, 2**32)), max_size=8))
@settings(max_examples=60)
def test_the_index_agrees_with_a_dictionary(steps: list[tuple[list[int], int]]) -> None:
    index, model = KeyIndex(), dict[int, int]()
    for keys, seed in steps:
        codes, fresh_rows, fresh_codes = index.encode(rows_of(*keys))
        new = [keys[row] for row in fresh_rows]
        assert new == [key for key in dict.fromkeys(keys) if key not in model]
        assert [keys.index(key) for key in new] == fresh_rows.tolist()
        model.update(zip(new, fresh_codes.tolist(), strict=True))
        assert len(set(model.values())) == len(model) == len(index)
        assert codes.tolist() == [model[key] for key in keys]
        gone = [key for place, key in enumerate(model) if seed >> (place % 32) & 1]
        index.release(np.array([model.pop(key) for key in gone], np.int32))
        index._check()
        assert (index.find(rows_of(*gone)) == -1).all()
        (copy := KeyIndex()).restore(index.state())
        copy._check()
        probe = rows_of(*keys, 123456789)
        left, right = copy.encode(probe), index.encode(probe)
        assert np.array_equal(left.codes, right.codes)
        assert np.array_equal(left.fresh_rows, right.fresh_rows)
        assert np.array_equal(left.fresh_codes, right.fresh_codes)
        model |= dict(zip(probe.tolist(), index.find(probe).tolist(), strict=True))


def test_a_state_is_a_copy() -> None:
    index = KeyIndex()
    index.encode(rows_of(1, 2))
    state = index.state()
    for part in state.values():
        part.flags.writeable = False
    (copy := KeyIndex()).restore(state)
    copy.encode(rows_of(3))
    index.release(np.array([0]))
    assert (len(copy), len(index)) == (3, 1)
    assert state["hashes"].tolist() == [1, 2]
