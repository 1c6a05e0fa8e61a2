"""Bringing rows into runs: stable orders by small integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.kernels.jit import jit

__all__ = [
    "arrival_numbers",
    "counting_order",
    "fold_sign",
    "ranks_within",
    "split_by_code",
    "spread",
]

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
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
def split_by_code(offsets: Ints, codes: Codes, size: int) -> tuple[Ints, Ints, Codes, Ints]:
    """Within each stretch a stable order of rows by code below ``size``.

    Returns the order and its runs: the stretch and the code of each, and where they start.
    """
    n = len(codes)
    order = np.empty(n, np.int64)
    run_stretch = np.empty(n, np.int64)
    run_code = np.empty(n, np.int32)
    run_start = np.empty(n + 1, np.int64)
    runs = 0
    counts = np.zeros(size, np.int64)
    for stretch in range(len(offsets) - 1):
        first, last = offsets[stretch], offsets[stretch + 1]
        fresh = runs
        # Codes of this stretch, each once, then in order.
        for i in range(first, last):
            code = codes[i]
            if counts[code] == 0:
                run_code[runs] = code
                runs += 1
            counts[code] += 1
        if (runs - fresh) * 8 > size:
            runs = fresh
            for code in range(size):
                if counts[code]:
                    run_code[runs] = code
                    runs += 1
        else:
            run_code[fresh:runs].sort()
        at = first
        for run in range(fresh, runs):
            code = run_code[run]
            run_stretch[run] = stretch
            run_start[run] = at
            at += counts[code]
            counts[code] = run_start[run]
        for i in range(first, last):
            code = codes[i]
            order[counts[code]] = i
            counts[code] += 1
        for run in range(fresh, runs):
            counts[run_code[run]] = 0
    run_start[runs] = n
    return order, run_stretch[:runs].copy(), run_code[:runs].copy(), run_start[: runs + 1].copy()


@jit
def arrival_numbers(groups: Codes, counts: Ints) -> Ints:
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
