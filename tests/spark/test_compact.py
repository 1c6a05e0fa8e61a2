"""Runs in few bytes: what is packed comes back, in its types, and takes the bytes that we say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.contract.runs import Part, Runs
from skyband.data import packing
from skyband.data.keys import hash_array
from skyband.errors import EngineError
from skyband.spark import parcels
from skyband.spark.parcels import pack_compact, unpack_compact

ROWS = 3_000
RNG = np.random.default_rng(3)
IDS = pa.array(RNG.integers(10**12, 10**12 + 60_000, ROWS))


def runs(**columns: Any) -> Runs:
    offsets = np.array([0, 1_000, 1_000, ROWS])
    rows = {"rows": np.array([5, 0, 7])}
    part = Part(offsets, columns)
    return Runs(np.array([7, 7, 9]), np.array([0, 1, 0], np.int32), {"items": part}, rows)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and bool(np.array_equal(one, other))
    return bool(one.type == other.type and one.equals(other))


def check(given: Runs) -> bytes:
    blob = pack_compact(given, more=np.arange(3))
    found, extra = unpack_compact(blob)
    assert extra["more"].tolist() == [0, 1, 2]
    assert same(found.stamp, given.stamp)
    assert same(found.group, given.group)
    assert same(found.scalars["rows"], given.scalars["rows"])
    for name, part in given.parts.items():
        assert same(found.parts[name].offsets, part.offsets)
        assert list(found.parts[name].columns) == list(part.columns)
        assert all(same(found.parts[name][column], part[column]) for column in part.columns)
    return blob


@pytest.mark.parametrize(
    ("columns", "most"),
    [
        ({"count": np.ones(ROWS, np.int64)}, 0.2),
        ({"count": RNG.integers(1, 250, ROWS)}, 1.2),
        ({"time": 1_700_000_000_000_000 + np.cumsum(RNG.integers(0, 60_000, ROWS))}, 2.2),
        ({"id": IDS}, 2.2),
        ({"hash": hash_array(IDS), "id": IDS}, 2.2),
        ({"hash": hash_array(IDS)[::-1].copy(), "id": IDS}, 10.2),
        ({"at": IDS.cast(pa.timestamp("us", "Asia/Tokyo"))}, 2.2),
        ({"stream": RNG.integers(0, 3, ROWS).astype(np.int32), "value": RNG.random(ROWS)}, 9.2),
        ({"id": pa.array([None, *range(ROWS - 1)], pa.int64())}, 9.0),
        ({"name": pa.array([f"n{n % 9}" for n in range(ROWS)])}, 7.0),
    ],
)
def test_bytes_per_row(columns: dict[str, Any], most: float) -> None:
    blob = check(runs(**columns))
    assert len(blob) <= most * ROWS + 1_500


@settings(max_examples=40)
@given(
    st.sampled_from([np.int8, np.int16, np.int32, np.int64, np.uint16, np.uint32, np.uint64]),
    st.sampled_from(["any", "sorted", "few", "edges"]),
    st.integers(0, 2**32),
)
def test_whole_numbers_come_back(kind: Any, form: str, seed: int) -> None:
    made, edge = np.random.default_rng(seed), np.iinfo(kind)
    values = made.integers(edge.min, edge.max, 100, dtype=kind, endpoint=True)
    if form == "sorted":
        values.sort()
    elif form == "few":
        values = np.maximum(values, edge.max - kind(made.integers(1, 100)))
    elif form == "edges":
        values = made.choice(np.array([edge.min, edge.max, 0], kind), 100)
    found = parcels._narrow(values)
    if found is not None:
        small, told = found
        assert small.nbytes < values.nbytes
        assert same(parcels._widened(small, *told), values)


def test_what_version_0_1_packed_is_read() -> None:
    given = runs(hash=hash_array(IDS), id=IDS)
    found, _ = unpack_compact(given.pack())
    assert same(found.parts["items"]["id"], IDS)
    few = given.slice(1, 2)
    assert pack_compact(few) == few.pack()


def forged(change: Any) -> bytes:
    """Runs in few bytes whose header somebody changed; the checksum is right."""
    ids = pa.array(np.arange(ROWS) % 100)
    header, arrays = packing.unpack(pack_compact(runs(id=ids, value=RNG.random(ROWS))))
    change(header, arrays)
    return packing.pack(header, arrays)


def test_a_forged_column_reads_nothing_beyond_its_numbers() -> None:
    def wider(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        del header["narrow"]["part/items/id"]

    with pytest.raises(pa.ArrowInvalid, match="too small"):
        unpack_compact(forged(wider))


def test_forged_numbers_are_no_objects() -> None:
    def objects(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        header["narrow"]["part/items/id"][0] = "|O"

    with pytest.raises(EngineError, match="whole numbers"):
        unpack_compact(forged(objects))


def test_forged_offsets_are_refused() -> None:
    def beyond(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays["offsets/items"] = arrays["offsets/items"] + 1

    with pytest.raises(EngineError, match="offsets"):
        unpack_compact(forged(beyond))
