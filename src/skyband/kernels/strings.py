"""Kernels over bytes of varying length: spans `[begin, begin + size)` of one flat array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.arrays import Codes, Hashes, Ints
from skyband.kernels.patient import kernel

SPARE = 32
"""Bytes that a target of `copy_spans` must have beyond its last span."""

Bytes = NDArray[np.uint8]
Words = Hashes
Offsets = Codes | Ints


def bytes_and_words(data: Bytes) -> tuple[Bytes, Words]:
    """`data` and a view of it in which element i is the word of the 8 bytes from i on.

    So kernels read and write 8 bytes at a time at any position. Data of under 16 bytes is padded
    with zeros: a view of one element would count as contiguous, and kernels compile again for it.
    """
    if len(data) < 16:
        padded = np.zeros(16, np.uint8)
        padded[: len(data)] = data
        padded.flags.writeable = data.flags.writeable
        data = padded
    return data, np.ndarray((len(data) - 7,), np.uint64, data, 0, (1,))


@kernel
def copy_spans(
    begin: Ints, size: Ints, source: Bytes, source_words: Words, target: Bytes, target_words: Words,
    at: int,
) -> int:  # fmt: skip
    """Copy spans of `source` one after another to `target` from `at` on; returns their end.

    Up to `SPARE` bytes beyond the end are overwritten: short spans of any size are
    copied as four words, because a mispredicted branch costs more than four moves.
    """
    safe = len(source) - SPARE
    for i in range(len(begin)):
        s = begin[i]
        n = size[i]
        if s + n <= safe:
            target_words[at] = source_words[s]
            target_words[at + 8] = source_words[s + 8]
            target_words[at + 16] = source_words[s + 16]
            target_words[at + 24] = source_words[s + 24]
            for j in range(32, n, 8):
                target_words[at + j] = source_words[s + j]
        else:
            for j in range(n):
                target[at + j] = source[s + j]
        at += n
    return at


@kernel
def place_spans(slots: Ints, size: Ints, at: int, spans: Ints) -> int:
    """Point `slots` to spans that lie one after another from `at` on; returns the bytes gained.

    `spans` has one row per slot: begin and size. What the slots held before is subtracted, so the
    sum of all gains is the number of bytes in use.
    """
    gained = 0
    for i in range(len(slots)):
        slot = slots[i]
        gained += size[i] - spans[slot, 1]
        spans[slot, 0] = at
        spans[slot, 1] = size[i]
        at += size[i]
    return gained


@kernel
def common_prefix(offsets: Offsets, data: Bytes, prefix: Bytes) -> int:
    """How many bytes of a prefix all strings begin with."""
    common = len(prefix)
    for row in range(len(offsets) - 1):
        start = offsets[row]
        common = min(common, offsets[row + 1] - start)
        for i in range(common):
            if data[start + i] != prefix[i]:
                common = i
                break
    return common


@kernel
def prefix_keys(offsets: Offsets, data: Bytes, skip: int) -> Ints:
    """Integers in the order of eight bytes of each string, after the first ``skip`` ones.

    All strings are at least ``skip`` long.
    """
    keys = np.empty(len(offsets) - 1, np.int64)
    for i in range(len(keys)):
        start = np.int64(offsets[i]) + skip
        size: Any = min(np.int64(offsets[i + 1]) - start, np.int64(8))
        word = np.uint64(0)
        for j in range(8):
            word = word << np.uint64(8)
            if j < size:
                word = word | np.uint64(data[start + j])
        keys[i] = np.int64(word ^ np.uint64(0x8000000000000000))
    return keys
