"""BS, the base synopsis: all rows of the window in row order, and the window's compact set.

Rows stand in blocks of sorted slots, blocks in a chain. Finding a place costs two binary searches,
inserting or deleting a move within one block: O(log W) as with the paper's balanced trees, and
kinder to caches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.jit import jit
from skyband.kernels.uncertain.compact import answer, compact_end
from skyband.kernels.uncertain.queue import before, oldest_pane
from skyband.kernels.uncertain.types import KEEP, Floats, Ints, Rows, Rule, better, grown

__all__ = ["Sorted", "expire_sorted", "fold_sorted", "read_sorted"]

BLOCK = 256  # slots in a block

# Places in ``num``.
BLOCKS = 0  # in use; the chain's other places name the free ones
HEAD = 1  # slots in the head
HEAD_OLDEST = 2
CLOSED = 3  # whether the head is a compact set, not just all rows
STALE = 4
LOW = 5  # the oldest slot that is live
HIGH = 6
INSERTED = 7
DELETED = 8
REBUILT = 9
NUMBERS = 10


class Sorted(NamedTuple):
    """The window's rows in row order; ``head`` is its compact set."""

    block: Ints
    count: Ints
    chain: Ints
    head: Ints
    num: Ints


@jit
def _place(rows: Rows, s: Sorted, slot: int) -> int:
    """The place in the chain of the block where a slot belongs."""
    low, high = 0, s.num[BLOCKS] - 1
    while low < high:
        middle = (low + high) // 2
        block = s.chain[middle]
        if better(rows, s.block[block, s.count[block] - 1], slot):
            low = middle + 1
        else:
            high = middle
    return low


@jit
def _roomy(s: Sorted) -> Sorted:
    """Room for one more block."""
    size = len(s.count)
    if s.num[BLOCKS] < size:
        return s
    block = np.empty((2 * size, BLOCK), np.int64)
    block[:size] = s.block
    count = np.zeros(2 * size, np.int64)
    count[:size] = s.count
    chain = np.arange(2 * size)
    chain[:size] = s.chain
    return Sorted(block, count, chain, s.head, s.num)


@jit
def _insert(rows: Rows, s: Sorted, slot: int) -> Sorted:
    s.num[INSERTED] += 1
    if s.num[BLOCKS] == 0:
        s.num[BLOCKS] = 1
        s.count[s.chain[0]] = 0
    at = _place(rows, s, slot)
    block = s.chain[at]
    if s.count[block] == BLOCK:
        s = _roomy(s)
        fresh = s.chain[s.num[BLOCKS]]
        for i in range(s.num[BLOCKS], at + 1, -1):
            s.chain[i] = s.chain[i - 1]
        s.chain[at + 1] = fresh
        s.num[BLOCKS] += 1
        half = BLOCK // 2
        for i in range(half):
            s.block[fresh, i] = s.block[block, half + i]
        s.count[fresh] = half
        s.count[block] = half
        if better(rows, s.block[block, half - 1], slot):
            block = fresh
    n = s.count[block]
    i = before(rows, s.block[block], n, slot)
    for j in range(n, i, -1):
        s.block[block, j] = s.block[block, j - 1]
    s.block[block, i] = slot
    s.count[block] = n + 1
    return s


@jit
def _delete(rows: Rows, s: Sorted, slot: int) -> None:
    s.num[DELETED] += 1
    at = _place(rows, s, slot)
    block = s.chain[at]
    n = s.count[block]
    i = before(rows, s.block[block], n, slot)
    for j in range(i, n - 1):
        s.block[block, j] = s.block[block, j + 1]
    s.count[block] = n - 1
    if n == 1:
        s.num[BLOCKS] -= 1
        for j in range(at, s.num[BLOCKS]):
            s.chain[j] = s.chain[j + 1]
        s.chain[s.num[BLOCKS]] = block


@jit
def _best(rule: Rule, rows: Rows, s: Sorted, first: int, guess: int) -> tuple[Ints, int, int]:
    """The compact set of rows of panes from ``first`` on, its size, whether it is one."""
    look = guess
    while True:
        slots = np.empty(look, np.int64)
        n = 0
        whole = 1
        for at in range(s.num[BLOCKS]):
            block = s.chain[at]
            for i in range(s.count[block]):
                slot = s.block[block, i]
                if rows.pane[slot] >= first:
                    if n == look:
                        whole = 0
                        break
                    slots[n] = slot
                    n += 1
            if whole == 0:
                break
        end = compact_end(rule, rows.prob, slots, n, KEEP)
        if end > 0:
            return slots, end, 1
        if whole == 1:
            return slots, n, 0
        look *= 4


@jit
def expire_sorted(rows: Rows, s: Sorted, first: int) -> Sorted:
    """Panes before ``first`` are gone."""
    num = s.num
    if num[HEAD] > 0 and num[HEAD_OLDEST] < first:
        num[STALE] = 1
        num[HEAD] = 0
    slot = num[LOW]
    while slot < num[HIGH] and rows.pane[slot] < first:
        _delete(rows, s, slot)
        slot += 1
    num[LOW] = slot
    return s


@jit
def _take(rows: Rows, s: Sorted, low: int, high: int) -> Sorted:
    """Take the rows of a pane; the head is looked for again where one of them enters it."""
    num = s.num
    if num[CLOSED] == 0 or num[HEAD] == 0 or better(rows, low, s.head[num[HEAD] - 1]):
        num[STALE] = 1
    for slot in range(low, high):
        s = _insert(rows, s, slot)
    num[HIGH] = high
    return s


@jit
def _read(rule: Rule, rows: Rows, s: Sorted, first: int) -> Sorted:
    num = s.num
    head, n, closed = _best(rule, rows, s, first, max(4 * rule.k, 2 * num[HEAD]))
    num[REBUILT] += 1
    num[HEAD] = n
    num[CLOSED] = closed
    num[HEAD_OLDEST] = oldest_pane(rows, head, n)
    num[STALE] = 0
    return Sorted(s.block, s.count, s.chain, head, num)


@jit
def fold_sorted(
    rule: Rule,
    rows: Rows,
    s: Sorted,
    stamp: Ints,
    offsets: Ints,
    first: Ints,
    end: Ints,
    final: bool,
) -> tuple[Sorted, Ints, Floats, Ints]:
    """Take panes and read windows, as ``fold_queue`` does."""
    found = np.empty(max(64, len(first) * rule.k), np.int64)
    chance = np.empty(len(found) if final else 0)
    ends = np.zeros(len(first) + 1, np.int64)
    shown = np.empty(0, np.int64)
    chances = np.empty(0)
    count = 0
    at = 0
    pane = 0
    unread = True
    for w in range(len(first)):
        while pane < len(stamp) and stamp[pane] < end[w]:
            s = _take(rows, s, offsets[pane], offsets[pane + 1])
            pane += 1
        s = expire_sorted(rows, s, first[w])
        if s.num[STALE] == 1:
            s = _read(rule, rows, s, first[w])
            unread = True
        if unread:
            unread = False
            n = s.num[HEAD]
            if not final:
                shown = s.head
                count = n
            else:
                if max(n, rule.k) > len(shown):
                    shown = np.empty(2 * max(n, rule.k), np.int64)
                    chances = np.empty(len(shown))
                count = answer(rule, rows.prob, s.head, n, shown, chances)
        if at + count > len(found):
            found = grown(found, at + count)
            if final:
                more = np.empty(len(found))
                more[: len(chance)] = chance
                chance = more
        for j in range(count):
            found[at + j] = shown[j]
            if final:
                chance[at + j] = chances[j]
        at += count
        ends[w + 1] = at
    while pane < len(stamp):
        s = _take(rows, s, offsets[pane], offsets[pane + 1])
        pane += 1
    return s, found[:at], chance[:at] if final else chance, ends


@jit
def read_sorted(rule: Rule, rows: Rows, s: Sorted, first: int) -> Ints:
    """The compact set of the live panes from ``first`` on."""
    slots, n, _ = _best(rule, rows, s, first, 4 * rule.k)
    return slots[:n]
