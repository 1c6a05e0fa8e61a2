"""Bringing rows into runs: stable orders by small integers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyband.kernels.jit import jit

__all__ = ["arrival_numbers", "counting_order", "ranks_within"]

Ints = npt.NDArray[np.int64]


@jit
def counting_order(codes: Ints, size: int) -> tuple[Ints, Ints]:
    """A stable order of rows by codes below ``size``, and where each code's rows start."""
    starts = np.zeros(size + 1, np.int64)
    for code in codes:
        starts[code + 1] += 1
    for code in range(size):
        starts[code + 1] += starts[code]
    order = np.empty(len(codes), np.int64)
    place = starts[:-1].copy()
    for row in range(len(codes)):
        code = codes[row]
        order[place[code]] = row
        place[code] += 1
    return order, starts


@jit
def arrival_numbers(groups: npt.NDArray[np.int32], counts: Ints) -> Ints:
    """The arrival number of each row in its group; ``counts`` moves on."""
    numbers = np.empty(len(groups), np.int64)
    for row in range(len(groups)):
        group = groups[row]
        numbers[row] = counts[group]
        counts[group] += 1
    return numbers


@jit
def ranks_within(offsets: Ints) -> npt.NDArray[np.int32]:
    """1, 2, 3, ... within each stretch."""
    ranks = np.empty(offsets[-1], np.int32)
    for run in range(len(offsets) - 1):
        start = offsets[run]
        for i in range(start, offsets[run + 1]):
            ranks[i] = i - start + 1
    return ranks
