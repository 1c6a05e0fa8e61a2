"""A list of at most m monitored items: a hash table to find them, a lazy heap to find the least.

Counts only grow during a pane, so the heap keeps old keys: an old key is a lower bound, and only
the top is ever updated. A hit costs no heap operation.
``heap`` is a permutation of all slots: the first ``size`` are in use, the others are free.

The table holds pairs (hash, slot + 1), probed one after the other; zero marks an empty pair.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Array, Codes, Hashes, Ints
from skyband.kernels.jit import jit

_ONE = np.uint64(1)
_TWO = np.uint64(2)
_EMPTY = np.uint64(0)


class PaneItems(NamedTuple):
    """What panes bring: items that were counted before, and rows; both split by pane.

    ``weights`` of length 0 stand for 1. ``missing`` bounds, for each pane, how often an item
    occurred that is not among the known ones.
    """

    stamp: Ints
    keys: Hashes  # of the rows; 64-bit integers may stand here as they are
    weights: Array
    offsets: Ints
    known: Hashes
    counts: Array
    errors: Array
    known_offsets: Ints
    missing: Array


def table_size(capacity: int) -> tuple[int, np.uint64]:
    """Words of a table for this many items, and the shift that leads from a hash to its home."""
    bits = max(3, (4 * capacity - 1).bit_length())
    return 2 << bits, np.uint64(64 - bits)


@jit
def table_find(table: Hashes, shift: np.uint64, key: np.uint64) -> Any:
    """The slot of a hash, or -1."""
    mask = np.uint64((len(table) >> 1) - 1)
    at = key >> shift
    while table[_TWO * at + _ONE] != _EMPTY and table[_TWO * at] != key:
        at = (at + _ONE) & mask
    return np.int64(table[_TWO * at + _ONE]) - 1


@jit
def table_add(table: Hashes, shift: np.uint64, key: np.uint64, slot: Any) -> None:
    """Add a hash that is not in the table."""
    mask = np.uint64((len(table) >> 1) - 1)
    at = key >> shift
    while table[_TWO * at + _ONE] != _EMPTY:
        at = (at + _ONE) & mask
    table[_TWO * at] = key
    table[_TWO * at + _ONE] = np.uint64(slot + 1)


@jit
def table_remove(table: Hashes, shift: np.uint64, key: np.uint64) -> None:
    """Remove a hash that is in the table, and move back what was pushed past it."""
    mask = np.uint64((len(table) >> 1) - 1)
    hole = key >> shift
    while table[_TWO * hole] != key or table[_TWO * hole + _ONE] == _EMPTY:
        hole = (hole + _ONE) & mask
    at = (hole + _ONE) & mask
    while table[_TWO * at + _ONE] != _EMPTY:
        home = table[_TWO * at] >> shift
        if (at - home) & mask >= (at - hole) & mask:
            table[_TWO * hole] = table[_TWO * at]
            table[_TWO * hole + _ONE] = table[_TWO * at + _ONE]
            hole = at
        at = (at + _ONE) & mask
    table[_TWO * hole + _ONE] = _EMPTY


@jit
def sift(heap: Codes, size: int, at: int, low: Array, slack: Array) -> None:
    """Restore the heap below ``at``: least ``low`` on top, of equal ones the most ``slack``."""
    slot, key, extra = heap[at], low[at], slack[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            low[right] < low[child] or (low[right] == low[child] and slack[right] > slack[child])
        ):
            child = right
        if low[child] > key or (low[child] == key and slack[child] <= extra):
            break
        heap[at], low[at], slack[at] = heap[child], low[child], slack[child]
        at = child
    heap[at], low[at], slack[at] = slot, key, extra


@jit
def heapify(
    heap: Codes, size: int, low: Array, slack: Array, base: Array, cur: Array, err: Array,
) -> None:  # fmt: skip
    """Update all keys (a count is ``base + cur``) and restore the heap."""
    for at in range(size):
        slot = heap[at]
        low[at] = base[slot] + cur[slot]
        slack[at] = err[slot]
    for at in range(size // 2 - 1, -1, -1):
        sift(heap, size, at, low, slack)


@jit
def least(
    heap: Codes, size: int, low: Array, slack: Array, base: Array, cur: Array, err: Array,
) -> Any:  # fmt: skip
    """The least count of all, whose slot is then on top."""
    while True:
        slot = heap[0]
        now = base[slot] + cur[slot]
        if low[0] == now:
            return now
        low[0] = now
        slack[0] = err[slot]
        sift(heap, size, 0, low, slack)
