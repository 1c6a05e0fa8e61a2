"""Bringing rows into runs: stable orders by small integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.kernels.jit import jit

__all__ = ["arrival_numbers", "counting_order", "fold_sign", "ranks_within", "spread"]

Ints = npt.NDArray[np.int64]
_LOW_BITS = np.int64(0x7FFF_FFFF_FFFF_FFFF)


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
def fold_sign(bits: Ints, flip: bool) -> Ints:
    """Bits of doubles as integers in the doubles' order, reversed by ``flip``; its own inverse."""
    folded = np.empty(len(bits), np.int64)
    mask = np.int64(-1) if flip else np.int64(0)
    for i in range(len(bits)):
        folded[i] = bits[i] ^ ((bits[i] >> 63) & _LOW_BITS) ^ mask
    return folded


@jit
def spread(values: npt.NDArray[Any], lengths: Ints) -> npt.NDArray[Any]:
    """Each value as often as its stretch is long."""
    found = np.empty(lengths.sum(), values.dtype)
    at = 0
    for run in range(len(lengths)):
        value = values[run]
        for _ in range(lengths[run]):
            found[at] = value
            at += 1
    return found


@jit
def ranks_within(offsets: Ints) -> npt.NDArray[np.int32]:
    """1, 2, 3, ... within each stretch."""
    ranks = np.empty(offsets[-1], np.int32)
    for run in range(len(offsets) - 1):
        start = offsets[run]
        for i in range(start, offsets[run + 1]):
            ranks[i] = i - start + 1
    return ranks
