"""The one total order, tested by itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.data.order import row_order

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
