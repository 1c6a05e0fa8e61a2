"""What the kernels of UncertainTopK pass to each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Floats, Ints
from skyband.kernels.core.jit import jit

__all__ = [
    "FAR",
    "KEEP",
    "READ",
    "Floats",
    "Ints",
    "Rows",
    "Rule",
    "before",
    "better",
    "grown",
    "merged",
    "oldest_pane",
    "sort_before",
    "sort_list",
    "sort_slots",
    "without",
]


# How much a compact set must exceed its condition. What is kept exceeds it by more than rounding
# can ever take back, so that a reader, who asks for none, always finds its own end inside.
KEEP = 2.0**-30
READ = 0.0


_FEW = 16  # slots that are sorted by insertion
FAR = np.iinfo(np.int64).max


class Rule(NamedTuple):
    """A semantics with its parameters: all that kernels know of a query."""

    kind: int
    k: int
    threshold: float


class Rows(NamedTuple):
    """Rows by slot; panes ascend with the slots, and within a pane slots run from best to worst."""

    key: Ints
    prob: Floats
    pane: Ints


@jit
def better(rows: Rows, a: int, b: int) -> bool:
    """Whether slot a stands before slot b in row order."""
    if rows.key[a] != rows.key[b]:
        return bool(rows.key[a] > rows.key[b])
    if rows.pane[a] != rows.pane[b]:
        return bool(rows.pane[a] > rows.pane[b])  # every row of a later pane is later
    return a < b


@jit
def oldest_pane(rows: Rows, slots: Ints, n: int) -> int:
    """The oldest pane among these rows."""
    oldest = FAR
    for i in range(n):
        oldest = min(oldest, rows.pane[slots[i]])
    return oldest


@jit
def before(rows: Rows, slots: Ints, n: int, last: int) -> int:
    """How many of n sorted rows stand before a given one."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if better(rows, slots[middle], last):
            low = middle + 1
        else:
            high = middle
    return low


@jit
def merged(rows: Rows, a: Ints, na: int, b: Ints, nb: int, out: Ints) -> int:
    """Two sorted lists of slots, without common ones, as one."""
    i = 0
    j = 0
    n = 0
    while i < na and j < nb:
        if better(rows, b[j], a[i]):
            out[n] = b[j]
            j += 1
        else:
            out[n] = a[i]
            i += 1
        n += 1
    while i < na:
        out[n] = a[i]
        i += 1
        n += 1
    while j < nb:
        out[n] = b[j]
        j += 1
        n += 1
    return n


@jit
def sort_slots(rows: Rows, low: int, high: int) -> Ints:
    """The slots [low, high) in row order."""
    return sort_list(rows, np.arange(low, high))


@jit
def sort_list(rows: Rows, a: Ints) -> Ints:
    """Slots in row order: short stretches by insertion, then merged; ``a`` is overwritten."""
    n = len(a)
    key = rows.key
    for start in range(0, n, _FEW):
        for i in range(start + 1, min(start + _FEW, n)):
            slot = a[i]
            j = i
            while j > start and (
                key[a[j - 1]] < key[slot]
                or (key[a[j - 1]] == key[slot] and better(rows, slot, a[j - 1]))
            ):
                a[j] = a[j - 1]
                j -= 1
            a[j] = slot
    b = np.empty(n, np.int64)
    width = _FEW
    while width < n:
        for start in range(0, n, 2 * width):
            middle = min(start + width, n)
            end = min(middle + width, n)
            i, j = start, middle
            for at in range(start, end):
                left = i < middle
                if left and j < end:
                    one, two = key[a[i]], key[a[j]]
                    left = one > two or (one == two and better(rows, a[i], a[j]))
                if left:
                    b[at] = a[i]
                    i += 1
                else:
                    b[at] = a[j]
                    j += 1
        a, b = b, a
        width *= 2
    return a


@jit
def sort_before(rows: Rows, low: int, high: int, last: int) -> Ints:
    """Those of the slots [low, high) that stand before a given one, in row order."""
    kept = np.empty(high - low, np.int64)
    n = 0
    for slot in range(low, high):
        if better(rows, slot, last):
            kept[n] = slot
            n += 1
    return sort_list(rows, kept[:n])


@jit
def grown(array: Ints, need: int) -> Ints:
    """The array itself where it has room, else a copy of at least twice its length."""
    if need <= len(array):
        return array
    more = np.empty(max(need, 2 * len(array)), np.int64)
    for i in range(len(array)):
        more[i] = array[i]
    return more


@jit
def without(rows: Rows, slots: Ints, n: int, first: int, out: Ints) -> int:
    """Only the rows of panes from ``first`` on."""
    kept = 0
    for i in range(n):
        if rows.pane[slots[i]] >= first:
            out[kept] = slots[i]
            kept += 1
    return kept
