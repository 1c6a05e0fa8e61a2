"""Counting the items of many runs, and what orders items that count alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.kernels.hashing import mix
from skyband.kernels.jit import jit
from skyband.kernels.strings import Bytes

__all__ = ["count_runs", "grouped_keys", "prefix_keys", "sum_runs"]

Hashes = NDArray[np.uint64]
Ints = NDArray[np.int64]

_ONE = np.uint64(1)
_TWO = np.uint64(2)
_EMPTY = np.uint64(0)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FEWEST_BITS = 3
_FIRST_BITS = 11


@jit
def count_runs(
    hashes: Hashes, weights: NDArray[Any], offsets: Ints
) -> tuple[Ints, NDArray[Any], Ints]:
    """The distinct items of each run in order of first appearance: first position, weight, offsets.

    ``weights`` of length 0 stand for one each. A run's table begins small and grows by four, so that
    many short runs cost no more than their rows and a long run with few items stays in cache.
    """
    runs = len(offsets) - 1
    one_each = len(weights) == 0
    first = np.empty(len(hashes), np.int64)
    sums = np.empty(len(hashes), weights.dtype)
    ends = np.zeros(runs + 1, np.int64)
    table = np.zeros(2 << _FIRST_BITS, np.uint64)  # slots of (hash, item number + 1)
    n = 0
    for run in range(runs):
        start, stop = offsets[run], offsets[run + 1]
        base = n
        bits = _FEWEST_BITS
        while bits < _FIRST_BITS and (1 << bits) < 2 * (stop - start):
            bits += 1
        table[: 2 << bits] = _EMPTY
        shift = np.uint64(64 - bits)
        mask = np.uint64((1 << bits) - 1)
        room = base + (1 << (bits - 1))
        for i in range(start, stop):
            key = hashes[i]
            slot = key >> shift
            while table[_TWO * slot + _ONE] != _EMPTY and table[_TWO * slot] != key:
                slot = (slot + _ONE) & mask
            known = table[_TWO * slot + _ONE]
            if known != _EMPTY:
                at = base + np.int64(known) - 1
                if one_each:
                    sums[at] += 1
                else:
                    sums[at] += weights[i]
                continue
            if n == room:
                bits += 2
                shift = np.uint64(64 - bits)
                mask = np.uint64((1 << bits) - 1)
                room = base + (1 << (bits - 1))
                if len(table) < (2 << bits):
                    table = np.zeros(2 << bits, np.uint64)
                else:
                    table[: 2 << bits] = _EMPTY
                for old in range(base, n):
                    place = hashes[first[old]] >> shift
                    while table[_TWO * place + _ONE] != _EMPTY:
                        place = (place + _ONE) & mask
                    table[_TWO * place] = hashes[first[old]]
                    table[_TWO * place + _ONE] = np.uint64(old - base + 1)
                slot = key >> shift
                while table[_TWO * slot + _ONE] != _EMPTY:
                    slot = (slot + _ONE) & mask
            first[n] = i
            if one_each:
                sums[n] = 1
            else:
                sums[n] = weights[i]
            n += 1
            table[_TWO * slot] = key
            table[_TWO * slot + _ONE] = np.uint64(n - base)
        ends[run + 1] = n
    return first[:n].copy(), sums[:n].copy(), ends


@jit
def sum_runs(values: NDArray[Any], offsets: Ints) -> NDArray[Any]:
    """The sum of each run."""
    sums = np.zeros(len(offsets) - 1, values.dtype)
    for run in range(len(sums)):
        for i in range(offsets[run], offsets[run + 1]):
            sums[run] += values[i]
    return sums


@jit
def grouped_keys(hashes: Hashes, groups: NDArray[np.int32], offsets: Ints) -> Hashes:
    """Hashes of (item, group) for runs of one group each."""
    keys = np.empty(len(hashes), np.uint64)
    for run in range(len(groups)):
        salt = mix(np.uint64(groups[run]) * _GOLDEN)
        for i in range(offsets[run], offsets[run + 1]):
            keys[i] = mix(hashes[i] ^ salt)
    return keys


@jit
def prefix_keys(offsets: NDArray[Any], data: Bytes) -> Ints:
    """Integers in the order of the first eight bytes of each string."""
    keys = np.empty(len(offsets) - 1, np.int64)
    for i in range(len(keys)):
        start = np.int64(offsets[i])
        size = min(np.int64(offsets[i + 1]) - start, 8)
        word = np.uint64(0)
        for j in range(8):
            word = word << np.uint64(8)
            if j < size:
                word = word | np.uint64(data[start + j])
        keys[i] = np.int64(word ^ np.uint64(0x8000000000000000))
    return keys
