from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from skyband.data.packing import (
    FORMAT_VERSION,
    JSON,
    pack,
    schema_from_array,
    schema_to_array,
    unpack,
)
from skyband.errors import EngineError

pytestmark = pytest.mark.nojit

HEADER: dict[str, JSON] = {"query": "TopK", "k": 10, "bounds": [0.0, None], "deep": {"ü": True}}
ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "scores": np.arange(5, dtype=np.float64),
    "grid": np.arange(6, dtype=np.int32).reshape(2, 3),
    "raw": np.array([b"0123456789abcdef"] * 3).view("V16"),
    "times": np.array([0, 1], "M8[us]"),
    "flags": np.array([True, False]),
    "empty": np.zeros(0, np.uint8),
    "none": np.zeros((0, 4), np.int64),
    "one": np.array(7, np.int16),
    "backwards": np.arange(10)[::-2],
}


def test_what_is_packed_is_unpacked() -> None:
    header, arrays = unpack(pack(HEADER, ARRAYS))
    assert header == HEADER
    assert list(arrays) == list(ARRAYS)
    for name, expected in ARRAYS.items():
        assert arrays[name].dtype == expected.dtype
        assert arrays[name].shape == expected.shape
        assert arrays[name].tobytes() == expected.tobytes()


def test_arrays_are_aligned_read_only_views() -> None:
    blob = pack({}, {"a": np.arange(3, dtype=np.int8), "b": np.arange(100)})
    _, arrays = unpack(blob)
    whole = np.frombuffer(blob, np.uint8)
    for array in arrays.values():
        assert np.shares_memory(array, whole)
        assert (array.ctypes.data - whole.ctypes.data) % 64 == 0
        assert array.flags.aligned
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_any_buffer_will_do_and_odd_addresses_are_copied() -> None:
    blob = pack({"k": 1}, {"a": np.arange(100)})
    shifted = memoryview(b"?" + blob)[1:]
    for buffer in (bytearray(blob), memoryview(blob), pa.py_buffer(blob), shifted):
        header, arrays = unpack(buffer)
        assert header == {"k": 1}
        assert arrays["a"].flags.aligned
        assert not arrays["a"].flags.writeable
        assert arrays["a"].tolist() == list(range(100))


def test_equal_contents_give_equal_bytes() -> None:
    assert pack(HEADER, ARRAYS) == pack(HEADER, {k: v.copy() for k, v in ARRAYS.items()})


@given(
    st.dictionaries(
        st.text(max_size=5),
        hnp.arrays(
            st.one_of(hnp.integer_dtypes(), hnp.floating_dtypes(), hnp.boolean_dtypes()),
            hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
        ),
        max_size=4,
    )
)
@settings(max_examples=50)
def test_any_arrays_come_back(arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    _, back = unpack(pack({}, arrays))
    assert {name: (a.dtype, a.shape, a.tobytes()) for name, a in back.items()} == {
        name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()
    }


@pytest.mark.parametrize(
    "array",
    [np.array([object()]), np.zeros(2, [("a", "i4"), ("b", "i4")])],
    ids=["object", "record"],
)
def test_arrays_that_are_not_flat_are_refused(array: np.ndarray[Any, Any]) -> None:
    with pytest.raises(EngineError, match=r"'state'.*flat"):
        pack({}, {"state": array})


BLOB = pack(HEADER, {"a": np.arange(4)})


@pytest.mark.parametrize("blob", [b"", b"PAR1" * 20, b"SKYBAND", bytes(100)])
def test_foreign_bytes_are_refused(blob: bytes) -> None:
    with pytest.raises(EngineError, match="not a Skyband snapshot"):
        unpack(blob)


@pytest.mark.parametrize("length", [32, 40, len(BLOB) - 1, len(BLOB) - 32])
def test_truncated_bytes_are_refused(length: int) -> None:
    with pytest.raises(EngineError, match="cut off"):
        unpack(BLOB[:length])
    with pytest.raises(EngineError, match="added"):
        unpack(BLOB + b"\0")


@pytest.mark.parametrize("position", range(0, len(BLOB), 3))
def test_any_changed_byte_is_noticed(position: int) -> None:
    changed = bytearray(BLOB)
    changed[position] ^= 0x10
    with pytest.raises(EngineError):
        unpack(changed)


def test_a_newer_format_asks_for_an_upgrade() -> None:
    newer = bytearray(BLOB)
    struct.pack_into("<I", newer, 8, FORMAT_VERSION + 1)
    with pytest.raises(EngineError, match="upgrade"):
        unpack(newer)


@pytest.mark.parametrize(
    "index",
    [
        b"nonsense",
        b"[]",
        b'{"header":{}}',
        b'{"header":{},"arrays":[["a","<i8",[1000]]]}',
        b'{"header":{},"arrays":[["a","<i8",[-1]]]}',
        b'{"header":{},"arrays":[["a","O",[1]]]}',
        b'{"header":{},"arrays":[["a","whatever",[1]]]}',
        b'{"header":{},"arrays":[["a"]]}',
        b"\xff\xfe",
    ],
)
def test_an_index_that_makes_no_sense_is_refused(index: bytes) -> None:
    rest = struct.pack("<QQ", 128, len(index)) + index.ljust(96, b"\0")
    blob = struct.pack("<8sII", b"SKYBAND\0", FORMAT_VERSION, zlib.crc32(rest)) + rest
    with pytest.raises(EngineError, match="index"):
        unpack(blob)


def test_an_index_longer_than_the_blob_is_refused() -> None:
    rest = struct.pack("<QQ", 32, 10**6)
    blob = struct.pack("<8sII", b"SKYBAND\0", FORMAT_VERSION, zlib.crc32(rest)) + rest
    with pytest.raises(EngineError, match="index"):
        unpack(blob)


def test_a_schema_comes_back() -> None:
    fields = [
        pa.field("ts", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("car", pa.dictionary(pa.int32(), pa.string()), metadata={"unit": "none"}),
        pa.field("nested", pa.list_(pa.struct([("a", pa.decimal128(5, 2))]))),
    ]
    schema = pa.schema(fields, metadata={"made": "by hand"})
    _, arrays = unpack(pack({}, {"schema": schema_to_array(schema)}))
    assert schema_from_array(arrays["schema"]).equals(schema, check_metadata=True)
    with pytest.raises(EngineError, match="schema"):
        schema_from_array(np.zeros(20, np.uint8))
