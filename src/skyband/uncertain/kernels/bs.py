"""BS, the base synopsis: all rows of the window in row order, and the window's compact set.

Rows are in blocks of sorted slots, and blocks in a chain. Finding a place costs two binary
searches, inserting or deleting moves slots within one block: O(log W) as with the paper's balanced
trees, and better for caches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Ints
from skyband.kernels.arrange import with_room
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel
from skyband.uncertain.kernels.types import UncertainRowsState, before, better

BLOCK = 256  # slots in a block

# Places in ``num``.
BLOCKS = 0  # in use; the chain lists the free ones after them
LOW = 1  # the oldest slot that is live
HIGH = 2
INSERTED = 3
DELETED = 4
NUMBERS = 5


class SortedRows(NamedTuple):
    """The window's rows in row order."""

    block: Ints
    filled: Ints
    chain: Ints
    num: Ints


@jit
def _place(rows: UncertainRowsState, s: SortedRows, slot: int) -> int:
    """The place in the chain of the block where a slot belongs."""
    low, high = 0, s.num[BLOCKS] - 1
    while low < high:
        middle = (low + high) // 2
        block = s.chain[middle]
        if better(rows, s.block[block, s.filled[block] - 1], slot):
            low = middle + 1
        else:
            high = middle
    return low


@jit
def _roomy(s: SortedRows) -> SortedRows:
    """Room for one more block."""
    size = len(s.filled)
    if s.num[BLOCKS] < size:
        return s
    filled, chain = with_room(s.filled, size, 2 * size), with_room(s.chain, size, 2 * size)
    for b in range(size, 2 * size):
        chain[b] = b
    return SortedRows(with_room(s.block, size, 2 * size), filled, chain, s.num)


@jit
def _insert(rows: UncertainRowsState, s: SortedRows, slot: int) -> SortedRows:
    s.num[INSERTED] += 1
    if s.num[BLOCKS] == 0:
        s.num[BLOCKS] = 1
        s.filled[s.chain[0]] = 0
    at = _place(rows, s, slot)
    block = s.chain[at]
    if s.filled[block] == BLOCK:
        s = _roomy(s)
        fresh = s.chain[s.num[BLOCKS]]
        for i in range(s.num[BLOCKS], at + 1, -1):
            s.chain[i] = s.chain[i - 1]
        s.chain[at + 1] = fresh
        s.num[BLOCKS] += 1
        half = BLOCK // 2
        for i in range(half):
            s.block[fresh, i] = s.block[block, half + i]
        s.filled[fresh] = half
        s.filled[block] = half
        if better(rows, s.block[block, half - 1], slot):
            block = fresh
    n = s.filled[block]
    i = before(rows, s.block[block], n, slot)
    for j in range(n, i, -1):
        s.block[block, j] = s.block[block, j - 1]
    s.block[block, i] = slot
    s.filled[block] = n + 1
    return s


@jit
def _delete(rows: UncertainRowsState, s: SortedRows, slot: int) -> None:
    s.num[DELETED] += 1
    at = _place(rows, s, slot)
    block = s.chain[at]
    n = s.filled[block]
    i = before(rows, s.block[block], n, slot)
    for j in range(i, n - 1):
        s.block[block, j] = s.block[block, j + 1]
    s.filled[block] = n - 1
    if n == 1:
        s.num[BLOCKS] -= 1
        for j in range(at, s.num[BLOCKS]):
            s.chain[j] = s.chain[j + 1]
        s.chain[s.num[BLOCKS]] = block


@kernel
def sorted_fold(rows: UncertainRowsState, s: SortedRows, offsets: Ints, gone: Ints) -> SortedRows:
    """Add panes; those before ``gone[i]`` expire before pane i, the last of them at the end."""
    num = s.num
    for i in range(len(offsets)):
        while num[LOW] < num[HIGH] and rows.pane[num[LOW]] < gone[i]:
            _delete(rows, s, num[LOW])
            num[LOW] += 1
        if i + 1 < len(offsets):
            for slot in range(offsets[i], offsets[i + 1]):
                s = _insert(rows, s, slot)
            num[HIGH] = offsets[i + 1]
    return s


@kernel
def sorted_read(rows: UncertainRowsState, s: SortedRows, first: int, most: int) -> Ints:
    """The best rows of panes from ``first`` on, in row order; if fewer than ``most``, all."""
    slots = np.empty(most, np.int64)
    n = 0
    at = 0
    while at < s.num[BLOCKS] and n < most:
        block = s.chain[at]
        for i in range(s.filled[block]):
            slot = s.block[block, i]
            if n < most and rows.pane[slot] >= first:
                slots[n] = slot
                n += 1
        at += 1
    return slots[:n]
