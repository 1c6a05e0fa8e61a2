"""The kernels of the core, against definitions in plain Python."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.kernels.arrange import arrival_numbers, counting_order, split_by_code
from skyband.kernels.strings import prefix_keys

pytestmark = pytest.mark.nojit


@given(st.lists(st.integers(0, 4), max_size=20), st.integers(0, 3))
def test_rows_in_the_order_of_their_codes(codes: list[int], unused: int) -> None:
    size = max(codes, default=-1) + 1 + unused
    order, starts = counting_order(np.array(codes, np.int64), size)
    assert order.tolist() == sorted(range(len(codes)), key=lambda row: codes[row])
    assert starts.tolist() == [sum(code < c for code in codes) for c in range(size + 1)]


@given(
    st.lists(st.lists(st.sampled_from([0, 1, 2, 5, 19, 39]), max_size=9), max_size=4),
    st.sampled_from([40, 41, 500]),
)
def test_stretches_split_by_code(stretches: list[list[int]], size: int) -> None:
    # The wide range of codes makes a stretch sort its few codes; a narrow one would count them.
    check_split(stretches, size)


@given(st.lists(st.lists(st.integers(0, 3), max_size=9), max_size=4))
def test_stretches_split_by_one_of_few_codes(stretches: list[list[int]]) -> None:
    check_split(stretches, 4)


@pytest.mark.parametrize("size", [15, 16, 17])
def test_two_codes_of_sixteen(size: int) -> None:
    # Two codes, one of them the last: at 16 there are just enough codes to sort them.
    check_split([[size - 1, 0, size - 1], [3, 1]], size)


def check_split(stretches: list[list[int]], size: int) -> None:
    codes = np.array([code for each in stretches for code in each], np.int32)
    offsets = np.cumsum([0, *map(len, stretches)])
    order, run_stretch, run_code, run_start = split_by_code(offsets, codes, size)
    wanted = [
        (stretch, int(code), [i for i in range(first, last) if codes[i] == code])
        for stretch, (first, last) in enumerate(itertools.pairwise(offsets))
        for code in sorted(set(codes[first:last].tolist()))
    ]
    assert order.tolist() == [row for _, _, rows in wanted for row in rows]
    assert run_stretch.tolist() == [stretch for stretch, _, _ in wanted]
    assert run_code.tolist() == [code for _, code, _ in wanted]
    ends = np.cumsum([len(rows) for _, _, rows in wanted]).tolist()
    assert run_start.tolist() == [0, *ends]


def test_arrivals_are_numbered_in_their_group() -> None:
    counts = np.array([5, 0, 7])
    numbers = arrival_numbers(np.array([0, 2, 0, 1, 0], np.int32), counts)
    assert numbers.tolist() == [5, 7, 6, 0, 7]
    assert counts.tolist() == [8, 1, 8]


@given(st.lists(st.binary(min_size=2, max_size=13), max_size=6), st.integers(0, 2))
def test_keys_in_the_order_of_eight_bytes(texts: list[bytes], skip: int) -> None:
    offsets = np.cumsum([0, *map(len, texts)])
    data = np.frombuffer(b"".join(texts), np.uint8)
    wanted = [
        int.from_bytes(text[skip : skip + 8].ljust(8, b"\0"), "big") - 2**63 for text in texts
    ]
    assert prefix_keys(offsets, data, skip).tolist() == wanted
