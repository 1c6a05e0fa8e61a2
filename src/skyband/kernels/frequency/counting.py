"""Counting the items of many runs, and what orders items that count alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.arrays import Hashes, Ints
from skyband.kernels.core.hashing import mix
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient
from skyband.kernels.core.strings import Bytes

__all__ = ["count_runs", "grouped_keys", "prefix_keys", "sum_runs"]


_ONE = np.uint64(1)
_EMPTY = np.uint64(0)
_STAND_IN = np.uint64(0x6C62272E07BB0142)
"""Stands for the hash that marks an empty slot."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FEWEST_BITS = 3
_FIRST_BITS = 11
_SHORT = 12


@jit
def _count_some(
    hashes: Hashes,
    raw: bool,
    weights: NDArray[Any],
    start: int,
    stop: int,
    base: int,
    n: int,
    room: int,
    keys: Hashes,
    sums: NDArray[Any],
    shift: np.uint64,
    first: Ints,
) -> tuple[int, int]:
    """Count rows until there is room for no more items; returns the row reached and the items.

    A function of its own, so that the table's arrays are fixed while the loop runs: it is five
    times as fast as one in which they may grow.
    """
    mask = np.uint64(len(keys) - 1)
    one_each = len(weights) == 0
    w = sums[0] * 0 + 1
    for i in range(start, stop):
        key = mix(hashes[i]) if raw else hashes[i]
        if not one_each:
            w = weights[i]
        if key == _EMPTY:
            key = _STAND_IN
        slot = key >> shift
        while keys[slot] != key and keys[slot] != _EMPTY:
            slot = (slot + _ONE) & mask
        if keys[slot] == key:
            sums[slot] += w
        else:
            if n == room:
                return i, n
            keys[slot] = key
            sums[slot] = w
            first[n] = i
            n += 1
    return stop, n


@jit
def _slot_of(key: np.uint64, keys: Hashes, shift: np.uint64) -> np.uint64:
    """Where a key is, or would be."""
    if key == _EMPTY:
        key = _STAND_IN
    mask = np.uint64(len(keys) - 1)
    slot = key >> shift
    while keys[slot] != key and keys[slot] != _EMPTY:
        slot = (slot + _ONE) & mask
    return slot


@patient
@jit
def count_runs(
    hashes: Hashes, raw: bool, weights: NDArray[Any], offsets: Ints
) -> tuple[Ints, NDArray[Any], Ints]:
    """The distinct items of each run in order of first appearance: first position, weight, offsets.

    ``raw`` keys are integers whose hash is yet to be made; ``weights`` of length 0 stand for one
    each. A run's table begins with the size that the last one came to, but no larger than its rows
    need, and grows by four: many short runs cost no more than their rows, and a long run with few
    items stays in cache.
    """
    runs = len(offsets) - 1
    first = np.empty(len(hashes), np.int64)
    out = np.empty(1024, weights.dtype)
    ends = np.zeros(runs + 1, np.int64)
    keys = np.zeros(1 << _FIRST_BITS, np.uint64)
    sums = np.zeros(1 << _FIRST_BITS, weights.dtype)
    one = sums[0] + 1
    n, likely = 0, _FIRST_BITS
    for run in range(runs):
        at, stop = offsets[run], offsets[run + 1]
        base = n
        if n + _SHORT > len(out):
            grown = np.empty(2 * n + _SHORT, weights.dtype)
            grown[:n] = out[:n]
            out = grown
        if stop - at <= _SHORT:
            # So few rows are compared with one another: a table would cost more than they do.
            for i in range(at, stop):
                key = hashes[i]
                w = weights[i] if len(weights) else one
                found = base
                while found < n and hashes[first[found]] != key:
                    found += 1
                if found < n:
                    out[found] += w
                else:
                    first[n], out[n] = i, w
                    n += 1
            ends[run + 1] = n
            continue
        bits = _FEWEST_BITS
        while bits < likely and (1 << bits) < 2 * (stop - at):
            bits += 1
        keys[: 1 << bits] = _EMPTY
        while True:
            shift = np.uint64(64 - bits)
            at, n = _count_some(
                hashes, raw, weights, at, stop, base, n, base + (1 << (bits - 1)),
                keys[: 1 << bits], sums, shift, first,
            )  # fmt: skip
            if at == stop:
                break
            bits += 2
            wider = np.uint64(64 - bits)
            more_keys = np.zeros(1 << bits, np.uint64)
            more_sums = np.zeros(1 << bits, weights.dtype)
            for i in range(base, n):
                key = mix(hashes[first[i]]) if raw else hashes[first[i]]
                old = _slot_of(key, keys[: 1 << (bits - 2)], shift)
                new = _slot_of(key, more_keys, wider)
                more_keys[new] = keys[old]
                more_sums[new] = sums[old]
            keys, sums, likely = more_keys, more_sums, bits
        if n > len(out):
            grown = np.empty(2 * n, weights.dtype)
            grown[:base] = out[:base]
            out = grown
        table = keys[: 1 << bits]
        for i in range(base, n):
            key = mix(hashes[first[i]]) if raw else hashes[first[i]]
            out[i] = sums[_slot_of(key, table, shift)]
        ends[run + 1] = n
    return first[:n].copy(), out[:n].copy(), ends


@patient
@jit
def sum_runs(values: NDArray[Any], offsets: Ints) -> NDArray[Any]:
    """The sum of each run."""
    sums = np.zeros(len(offsets) - 1, values.dtype)
    for run in range(len(sums)):
        for i in range(offsets[run], offsets[run + 1]):
            sums[run] += values[i]
    return sums


@patient
@jit
def grouped_keys(hashes: Hashes, groups: NDArray[np.int32], offsets: Ints) -> Hashes:
    """Hashes of (item, group) for runs of one group each."""
    keys = np.empty(len(hashes), np.uint64)
    for run in range(len(groups)):
        salt = mix(np.uint64(groups[run]) * _GOLDEN)
        for i in range(offsets[run], offsets[run + 1]):
            keys[i] = mix(hashes[i] ^ salt)
    return keys


@patient
@jit
def prefix_keys(offsets: NDArray[Any], data: Bytes) -> Ints:
    """Integers in the order of the first eight bytes of each string."""
    keys = np.empty(len(offsets) - 1, np.int64)
    for i in range(len(keys)):
        start = np.int64(offsets[i])
        size: Any = min(np.int64(offsets[i + 1]) - start, np.int64(8))
        word = np.uint64(0)
        for j in range(8):
            word = word << np.uint64(8)
            if j < size:
                word = word | np.uint64(data[start + j])
        keys[i] = np.int64(word ^ np.uint64(0x8000000000000000))
    return keys
