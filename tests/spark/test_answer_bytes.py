"""Answers as bytes: the same table comes back, and large ones are small on the way."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from skyband.spark.finishing import answers_from, answers_to_bytes

ROWS = 60_000
WINDOWS, GROUPS = 6, 10_000


def answers() -> pa.Table:
    """What a top 10 with many groups answers: each window shows rows of each group."""
    rng = np.random.default_rng(5)
    place = np.arange(ROWS)
    edge = 1_700_000_000_000_000 + place // (ROWS // WINDOWS) * 60_000_000
    moment = pa.timestamp("us", tz="Europe/Paris")
    return pa.table(
        {
            "window_start": pa.array(edge).view(moment),
            "window_end": pa.array(edge + 600_000_000).view(moment),
            "group": pa.array(place // 10 % GROUPS),
            "rank": pa.array((place % 10 + 1).astype(np.int32)),
            "key": pa.array(rng.integers(-(2**30), 2**30, ROWS)),
            "bytes": pa.array(rng.random(ROWS)),
            "ts": pa.array(edge + rng.integers(0, 600_000_000, ROWS)).view(moment),
        }
    )


def test_many_answers_travel_in_less_than_half_of_their_bytes() -> None:
    table = answers()
    blob = answers_to_bytes(table)
    assert answers_from(blob, table.schema).equals(table)
    assert len(blob) / ROWS < 24  # 52 bytes a row otherwise


def wide(values: list[int], kind: pa.DataType) -> pa.Array:
    return pa.array(np.resize(np.array(values, kind.to_pandas_dtype()), ROWS), kind)


@pytest.mark.parametrize(
    "column",
    [
        wide([0, 2**64 - 1, 5], pa.uint64()),
        wide([2**64 - 1, 2**64 - 7], pa.uint64()),
        wide([-(2**63), 2**63 - 1], pa.int64()),
        wide([-(2**63), -(2**63) + 255], pa.int64()),
        wide([-5, 7, 100], pa.int8()),
        wide([3], pa.int16()),
        pa.array([None, 1, 2] * (ROWS // 3), pa.int64()),
        pa.array(["a", "bc", None] * (ROWS // 3)),
        pa.array([["a"], [], None] * (ROWS // 3)),
        pa.array(["x", "y"] * (ROWS // 2)).dictionary_encode(),
        pa.array(np.arange(ROWS, dtype=np.int32)).view(pa.date32()),
        pa.array(np.arange(ROWS)).view(pa.duration("us")),
    ],
    ids=lambda column: f"{column.type} {column[:2].to_pylist()}",
)
def test_every_kind_of_column_comes_back(column: pa.Array) -> None:
    table = answers().append_column("more", column)
    assert answers_from(answers_to_bytes(table), table.schema).equals(table)


def test_pieces_slices_and_small_tables_come_back() -> None:
    table = pa.concat_tables([answers(), answers()]).slice(7, ROWS + 20)
    assert answers_from(answers_to_bytes(table), table.schema).equals(table)
    assert answers_from(answers_to_bytes(table.slice(3, 9)), table.schema).equals(table.slice(3, 9))
    some = pa.schema([table.schema.field(name) for name in ("rank", "bytes")])
    assert answers_from(answers_to_bytes(table), some).equals(table.select(some.names))
