"""Sorting positions by two columns, best first, and finding the k-th greatest value."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.arrays import Ints, Mask
from skyband.kernels.jit import jit, piece
from skyband.kernels.patient import kernel_of

_FEW = 16  # so many are sorted by insertion


@piece
def _insertion_sort(index: Ints, low: int, high: int, key: Any, tie: Any) -> None:
    for i in range(low + 1, high):
        row = index[i]
        a, b = key[row], tie[row]
        j = i
        while j > low:
            other = index[j - 1]
            if key[other] > a or (key[other] == a and tie[other] >= b):
                break
            index[j] = other
            j -= 1
        index[j] = row


@jit
def sort_best(index: Ints, spare: Ints, key: Any, tie: Any) -> None:
    """Sort positions: greater key first, then greater tie; stable.

    Short stretches are sorted by insertion and then merged; ``spare`` is as long as ``index``.
    """
    n = len(index)
    for start in range(0, n, _FEW):
        _insertion_sort(index, start, min(start + _FEW, n), key, tie)
    width = _FEW
    source, target = index, spare
    while width < n:
        for start in range(0, n, 2 * width):
            middle = min(start + width, n)
            end = min(middle + width, n)
            i, j = start, middle
            for at in range(start, end):
                left = i < middle
                if left and j < end:
                    one, two = source[i], source[j]
                    left = key[one] > key[two] or (key[one] == key[two] and tie[one] >= tie[two])
                if left:
                    target[at] = source[i]
                    i += 1
                else:
                    target[at] = source[j]
                    j += 1
        source, target = target, source
        width *= 2
    if n > _FEW:
        for i in range(n):
            index[i] = source[i]


def _sorted_by_numpy(key: Ints, tie: Ints, offsets: Ints) -> tuple[Ints, Mask]:
    low, high = offsets[0], offsets[-1]
    run = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.arange(len(key))
    order[low:high] = low + np.lexsort((~tie[low:high], ~key[low:high], run))
    key, tie = key[order[low:high]], tie[order[low:high]]
    equal = (run[1:] == run[:-1]) & (key[1:] == key[:-1]) & (tie[1:] == tie[:-1])
    tied = np.zeros(len(offsets) - 1, np.bool_)
    tied[run[1:][equal]] = True
    return order, tied


@kernel_of(stand_in=_sorted_by_numpy)
def sort_runs(key: Ints, tie: Ints, offsets: Ints) -> tuple[Ints, Mask]:
    """An order of rows, best first within each run, and whether a run still has tied rows.

    The greater key comes first, then the greater tie.
    """
    order = np.arange(len(key))
    spare = np.empty(len(key), np.int64)
    tied = np.zeros(len(offsets) - 1, np.bool_)
    for run in range(len(tied)):
        low, high = offsets[run], offsets[run + 1]
        if high - low > _FEW:
            sort_best(order[low:high], spare[low:high], key, tie)
        else:  # many runs are short, and a call would cost more than their rows
            _insertion_sort(order, low, high, key, tie)
        for i in range(low + 1, high):
            a, b = order[i - 1], order[i]
            if key[a] == key[b] and tie[a] == tie[b]:
                tied[run] = True
    return order, tied


@jit
def kth_greatest(values: Any, spare: Any, n: int, k: int) -> Any:
    """The k-th greatest of the first n values, k from 1; both arrays are overwritten."""
    seed = n
    while n > _FEW:
        # A random pivot, so that no order of the values is a bad one.
        seed = (seed * 1_664_525 + 1_013_904_223) & 0xFFFF_FFFF
        a = values[0]
        b = values[(seed * n) >> 32]
        c = values[n - 1]
        if a > b:
            a, b = b, a
        pivot = a if c < a else b if b < c else c
        less = 0
        more = 0
        for i in range(n):  # without branches: a value is written to both sides and counts on one
            x = values[i]
            values[less] = x
            less += x < pivot
            spare[more] = x
            more += x > pivot
        if k <= more:
            values, spare = spare, values
            n = more
        elif k <= n - less:
            return pivot
        else:
            k -= n - less
            n = less
    for i in range(1, n):
        x = values[i]
        j = i
        while j > 0 and values[j - 1] < x:
            values[j] = values[j - 1]
            j -= 1
        values[j] = x
    return values[k - 1]
