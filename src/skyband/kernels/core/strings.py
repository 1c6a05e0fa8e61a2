"""Kernels over bytes of varying length: spans `[begin, begin + size)` of one flat array."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient

SPARE = 32
"""Bytes that a target of `copy_spans` must have beyond its last span."""

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]


def bytes_and_words(data: Bytes) -> tuple[Bytes, Words]:
    """`data` and a view of it in which element i is the word of the 8 bytes from i on.

    Kernels so read and write 8 bytes at a time at any position. Data of under 16 bytes is padded
    with zeros: a view of one element would count as contiguous, hence compile all anew.
    """
    if len(data) < 16:
        padded = np.zeros(16, np.uint8)
        padded[: len(data)] = data
        padded.flags.writeable = data.flags.writeable
        data = padded
    return data, np.ndarray((len(data) - 7,), np.uint64, data, 0, (1,))


@patient
@jit
def copy_spans(
    begin: NDArray[np.int64],
    size: NDArray[np.int64],
    source: Bytes,
    source_words: Words,
    target: Bytes,
    target_words: Words,
    at: int,
) -> int:
    """Copy spans of `source` one after another to `target` from `at` on; returns their end.

    Up to `SPARE` bytes beyond the end are overwritten: short spans are copied as four words
    whatever their size, because a mispredicted branch costs more than four moves.
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


@patient
@jit
def place_spans(
    slots: NDArray[np.int64], size: NDArray[np.int64], at: int, spans: NDArray[np.int64]
) -> int:
    """Point `slots` to spans that lie one after another from `at` on; returns the bytes gained.

    `spans` has a row of begin and size a slot. What the slots held before is subtracted, so the
    sum of all gains is what is in use.
    """
    gained = 0
    for i in range(len(slots)):
        slot = slots[i]
        gained += size[i] - spans[slot, 1]
        spans[slot, 0] = at
        spans[slot, 1] = size[i]
        at += size[i]
    return gained


@patient
@jit
def read_spans(
    slots: NDArray[np.int64],
    spans: NDArray[np.int64],
    begin: NDArray[np.int64],
    size: NDArray[np.int64],
    offsets: NDArray[np.int64],
) -> None:
    """Begin and size of the spans in `slots`, and their offsets once they are copied in order."""
    at = 0
    offsets[0] = 0
    for i in range(len(slots)):
        slot = slots[i]
        begin[i] = spans[slot, 0]
        size[i] = spans[slot, 1]
        at += size[i]
        offsets[i + 1] = at
