"""The one total order, tested by itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.data.order import id_ranks, order_by_value, row_order, scores_of, sortable, unsortable

pytestmark = pytest.mark.nojit


def test_each_criterion_decides_after_the_ones_before_it() -> None:
    #           row   0  1  2  3  4  5
    score = np.array([1, 2, 2, 2, 2, 2])
    later = np.array([9, 1, 5, 5, 5, 5])
    ids = pa.array(["a", "a", "b", "a", "a", "a"])
    probability = np.array([1.0, 1.0, 1.0, 0.25, 0.75, 0.5])
    assert row_order(score, later, ids, probability).tolist() == [4, 5, 3, 2, 1, 0]
    assert row_order(score, later, ids).tolist() == [3, 4, 5, 2, 1, 0]
    assert row_order(score, later).tolist() == [2, 3, 4, 5, 1, 0]
    segment = np.array([0, 1, 1, 0, 0, 0])
    assert row_order(score, later, ids, probability, segment).tolist() == [4, 5, 3, 0, 2, 1]


@pytest.mark.parametrize("algorithm", ["bs", "csq", "ccsq", "scsq", "scsq-buffer"])
def test_of_rows_alike_the_likelier_stands_first(algorithm: str) -> None:
    table = pa.table({"t": [1, 1], "x": [5, 5], "p": [0.25, 0.75]})
    query = sb.UncertainTopK(
        k=1, score="x", probability="p", time="t", window=sb.TimeWindow(2), algorithm=algorithm
    )
    assert sb.rank(table, query)["topk_probability"].to_pylist() == [0.75]


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("kind", ["f8", "f4", "u8", "i8", "i2"])
def test_sortable_integers_are_in_the_order_of_the_values(kind: str, largest: bool) -> None:
    dtype = np.dtype(kind)
    if dtype.kind == "f":
        infinity = float("inf")
        values = np.array([-infinity, -2.5, -1.0, -0.0, 0.5, 1.0, 2.5, infinity], dtype)
    else:
        limits = np.iinfo(kind)
        values = np.array([limits.min, limits.min + 1, 3, 4, limits.max - 1, limits.max], dtype)
    keys = sortable(values, largest)
    steps = np.diff(keys.astype(object))
    assert (steps > 0).all() if largest else (steps < 0).all()
    back = unsortable(keys, dtype, largest)
    assert back.dtype == dtype
    assert back.tolist() == values.tolist()


@pytest.mark.parametrize("kind", ["f8", "u8", "i4"])
def test_the_greatest_is_the_best_unless_told_otherwise(kind: str) -> None:
    values = np.array([3, 9, 4], kind)
    keys = sortable(values)
    assert np.argmax(keys) == 1
    assert unsortable(keys, values.dtype).tolist() == values.tolist()
    column = pa.array(values)
    assert scores_of(keys, column.type) == column
    assert scores_of(sortable(values, largest=False), column.type, largest=False) == column


def test_keys_are_turned_into_scores_without_being_changed() -> None:
    for values in (np.array([2.5, -1.0]), np.array([3, 4], np.uint64), np.array([-3, 4])):
        for largest in (True, False):
            keys = sortable(values, largest)
            before = keys.copy()
            unsortable(keys, values.dtype, largest)
            assert keys.tolist() == before.tolist()


def test_zeros_of_either_sign_are_equal() -> None:
    first, second = sortable(np.array([0.0, -0.0]))
    assert first == second


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([3, -1, 3, 2], pa.int32()),
        pa.array([3, 1 << 63, 3, 2], pa.uint64()),
        pa.array(["b", "ab", "b", "é"]),
        pa.array(["b", "ab", "b", "é"], pa.string_view()),
        pa.array([b"b", b"ab", b"b", b"c"], pa.binary_view()),
        pa.array([b"bb", b"ab", b"bb", b"cc"], pa.binary(2)),
        pa.array([True, False, True, True]),
        pa.array(np.array([1.5, -2.0, 1.5, 9.0], np.float16)),
        pa.array(["b", "ab", "b", "c"]).dictionary_encode(),
    ],
)  # fmt: skip
def test_ranks_are_in_the_order_of_the_ids(ids: pa.Array) -> None:
    ranks, plain = id_ranks(ids), ids.to_pylist()
    for i, one in enumerate(plain):
        for j, other in enumerate(plain):
            assert (ranks[i] < ranks[j]) == (one < other)
            assert (ranks[i] == ranks[j]) == (one == other)


def test_nulls_come_last_in_the_order_of_columns() -> None:
    columns = [
        pa.array(["b", None, "a", "b"]),
        pa.array(np.array([2.0, 0.0, 0.0, 1.0], np.float16)),
    ]
    assert order_by_value(columns).tolist() == [2, 3, 0, 1]
    assert order_by_value([columns[0].dictionary_encode()]).tolist()[-1] == 1
