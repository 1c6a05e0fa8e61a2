"""Counting the items of many runs."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Array, Codes, Hashes, Ints
from skyband.kernels.arrange import with_room
from skyband.kernels.hashing import mix
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel

_ONE = np.uint64(1)
_EMPTY = np.uint64(0)
_STAND_IN = np.uint64(0x6C62272E07BB0142)
"""Stands for the hash that marks an empty slot."""
_FEWEST_BITS = 3
_FIRST_BITS = 11
_SHORT = 12


@jit
def _count_some(
    hashes: Hashes, raw: bool, weights: Array, start: int, stop: int, base: int, n: int, room: int,
    keys: Hashes, sums: Array, shift: np.uint64, first: Ints, peak: bool,
) -> tuple[int, int]:  # fmt: skip
    """Count rows until there is no room for another item; returns the row reached and the items.

    A separate function, so that the arrays of the table are fixed while the loop runs: that is five
    times as fast as a loop in which they may grow.
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
            sums[slot] = max(sums[slot], w) if peak else sums[slot] + w
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


@kernel
def count_runs(
    hashes: Hashes, raw: bool, weights: Array, offsets: Ints, peak: bool = False
) -> tuple[Ints, Array, Ints]:
    """The distinct items of each run in order of first appearance: first position, weight, offsets.

    ``raw`` keys are integers that are not hashed yet; ``weights`` of length 0 stand for one each.
    With ``peak``, the weight of an item is the greatest one of its rows, not their sum. A run's
    table starts with the final size of the last one, but no larger than its rows need, and grows by
    a factor of four: many short runs cost no more than their rows, and the table of a long run with
    few items stays in the cache.
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
            out = with_room(out, n, n + _SHORT)
        if stop - at <= _SHORT:
            # So few rows are compared with each other: a table would cost more.
            for i in range(at, stop):
                key = hashes[i]
                w = weights[i] if len(weights) else one
                found = base
                while found < n and hashes[first[found]] != key:
                    found += 1
                if found < n:
                    out[found] = max(out[found], w) if peak else out[found] + w
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
                keys[: 1 << bits], sums, shift, first, peak,
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
        out = with_room(out, base, n)
        table = keys[: 1 << bits]
        for i in range(base, n):
            key = mix(hashes[first[i]]) if raw else hashes[first[i]]
            out[i] = sums[_slot_of(key, table, shift)]
        ends[run + 1] = n
    return first[:n].copy(), out[:n].copy(), ends


@kernel
def sum_runs(values: Array, offsets: Ints) -> Array:
    """The sum of each run of values that are not negative; below 0 if it does not fit."""
    sums = np.zeros(len(offsets) - 1, values.dtype)
    for run in range(len(sums)):
        total = sums[run]
        for i in range(offsets[run], offsets[run + 1]):
            total += values[i]
            if total < 0:  # an integer has wrapped; it would be positive again later
                break
        sums[run] = total
    return sums


@kernel
def add_refs(codes: Codes, refs: Codes) -> None:
    """Count entries by code."""
    for code in codes:
        refs[code] += 1


@kernel
def drop_refs(codes: Codes, refs: Codes) -> Codes:
    """Take entries away again; the codes that have none left."""
    dead = np.empty(len(codes), np.int32)
    n = 0
    for code in codes:
        refs[code] -= 1
        if refs[code] == 0:
            dead[n] = code
            n += 1
    return dead[:n].copy()
