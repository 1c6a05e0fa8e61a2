"""What the kernels of UncertainTopK pass to each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Floats, Ints
from skyband.kernels.jit import jit
from skyband.kernels.sorting import sort_best

# How much a compact set must exceed its condition. What is kept exceeds it by more than any
# rounding error, so that a reader, who asks for no margin, always finds an end inside.
KEEP = 2.0**-30
READ = 0.0
FAR = np.iinfo(np.int64).max


class SemanticsCode(NamedTuple):
    """A semantics with its parameters: all that kernels know of a query."""

    kind: int
    k: int
    threshold: float


class UncertainRowsState(NamedTuple):
    """Rows by slot; panes ascend with the slots, and within a pane slots run from best to worst."""

    key: Ints
    prob: Floats
    pane: Ints
    rule: SemanticsCode


@jit
def better(rows: UncertainRowsState, a: int, b: int) -> bool:
    """Whether slot a comes before slot b in row order."""
    if rows.key[a] != rows.key[b]:
        return bool(rows.key[a] > rows.key[b])
    if rows.pane[a] != rows.pane[b]:
        return bool(rows.pane[a] > rows.pane[b])  # every row of a later pane is later
    return a < b


@jit
def oldest_pane(rows: UncertainRowsState, slots: Ints, n: int) -> int:
    """The oldest pane among these rows."""
    oldest = FAR
    for i in range(n):
        oldest = min(oldest, rows.pane[slots[i]])
    return oldest


@jit
def before(rows: UncertainRowsState, slots: Ints, n: int, last: int) -> int:
    """How many of n sorted rows come before a given one."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if better(rows, slots[middle], last):
            low = middle + 1
        else:
            high = middle
    return low


@jit
def merged(rows: UncertainRowsState, a: Ints, na: int, b: Ints, nb: int, out: Ints) -> int:
    """Merge two sorted lists of slots that have none in common."""
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
def sort_slots(rows: UncertainRowsState, low: int, high: int) -> Ints:
    """The slots [low, high) in row order."""
    return sort_list(rows, np.arange(low, high))


@jit
def sort_list(rows: UncertainRowsState, slots: Ints) -> Ints:
    """Sort slots into row order; those that tie in key and pane must already ascend."""
    sort_best(slots, np.empty(len(slots), np.int64), rows.key, rows.pane)
    return slots


@jit
def sort_before(rows: UncertainRowsState, low: int, high: int, last: int) -> Ints:
    """Those of the slots [low, high) that come before a given one, in row order."""
    kept = np.empty(high - low, np.int64)
    n = 0
    for slot in range(low, high):
        if better(rows, slot, last):
            kept[n] = slot
            n += 1
    return sort_list(rows, kept[:n])


@jit
def without(rows: UncertainRowsState, slots: Ints, n: int, first: int, out: Ints) -> int:
    """Only the rows of panes from ``first`` on."""
    kept = 0
    for i in range(n):
        if rows.pane[slots[i]] >= first:
            out[kept] = slots[i]
            kept += 1
    return kept


@jit
def since(slots: Ints, start: int) -> Ints:
    """Only the slots from ``start`` on, in the same order."""
    kept = np.empty(len(slots), np.int64)
    n = 0
    for i in range(len(slots)):
        kept[n] = slots[i]
        n += slots[i] >= start
    return kept[:n]
