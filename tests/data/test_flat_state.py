"""States that follow from declared attributes, retained rows, growing arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from skyband.arrays import Ints, grown
from skyband.data.flat_state import FlatState
from skyband.data.retained_rows import RetainedRows


class Sample(FlatState):
    saved_arrays = ("numbers", "size")
    saved_parts = (("rows/", "rows"),)

    def __init__(self) -> None:
        self.numbers: Ints = np.zeros(0, np.int64)
        self.size = 0
        self.rows = RetainedRows({"a": pa.string(), "b": pa.int64()}, length="length")


def test_a_state_is_what_the_class_declares() -> None:
    one = Sample()
    one.numbers, one.size = np.array([3, 1]), 7
    one.rows.append({"a": pa.array(["x", None]), "b": pa.array([1, 2])}, 2)
    state = one.state()
    assert {"numbers", "size", "rows/length", "rows/0/heap", "rows/1/values"} <= set(state)
    one.numbers[0] = 9  # a state is a copy
    for array in state.values():
        array.flags.writeable = False  # as those of a snapshot are
    two = Sample()
    two.restore(state)
    assert two.numbers.tolist() == [3, 1]
    assert two.size == 7
    assert len(two.rows) == 2
    two.numbers[0] = 5  # what was restored can be written to
    assert two.rows.gather(np.array([1, 0]))["a"].to_pylist() == [None, "x"]
    assert two.nbytes == two.numbers.nbytes + two.rows.nbytes > 16


def test_retained_rows_know_their_number_without_saving_it() -> None:
    rows = RetainedRows({"a": pa.int64()}, label="key")
    rows.put(np.array([2, 0]), {"a": pa.array([7, 8, 9])}, np.array([1, 2]))
    again = RetainedRows({"a": pa.int64()}, label="key")
    again.restore(rows.state())
    assert list(rows.state()) == ["key0/values"]
    assert len(again) == 3
    assert again.gather(np.array([0, 2]))["a"].to_pylist() == [9, 8]
    again.compact(np.array([2]))
    assert len(again) == 1


@pytest.mark.parametrize("fill", [0, -1, 0.5])
def test_a_grown_array_keeps_what_it_has(fill: float) -> None:
    short = np.array([[1.0, 2.0]])
    assert grown(short, 1) is short
    longer = grown(short, 3, fill)
    assert longer.tolist() == [[1.0, 2.0], [fill, fill], [fill, fill]]
    assert len(grown(longer, 4)) == 6  # at least twice as long
