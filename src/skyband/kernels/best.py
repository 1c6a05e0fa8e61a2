"""The best codes by their values, found with a heap."""

from __future__ import annotations

from typing import Any

from skyband.arrays import Array, Codes, Ints
from skyband.kernels.jit import jit


@jit
def _before(a: int, b: int, found: Array, order_key: Ints, columns: int) -> Any:
    """Whether code a ranks before code b by the sums in ``found``."""
    if found[a, 0] != found[b, 0]:
        return found[a, 0] > found[b, 0]
    if columns > 1 and found[a, 1] != found[b, 1]:
        return found[a, 1] < found[b, 1]
    if order_key[a] != order_key[b]:
        return order_key[a] < order_key[b]
    return a < b


@jit
def _sift(heap: Array, size: int, at: int, found: Array, order_key: Ints, columns: int) -> None:
    """Restore the heap (worst on top) below ``at``."""
    code = heap[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and _before(heap[child], heap[child + 1], found, order_key, columns):
            child += 1
        if not _before(code, heap[child], found, order_key, columns):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = code


@jit
def best_of(
    members: Array, start: int, stop: int, refs: Codes, found: Array, order_key: Ints, k: int,
    decided: bool, heap: Array,
) -> int:  # fmt: skip
    """The best k live codes among members[start:stop] in ``heap``, best first; returns how many.

    ``members`` of length 0 stand for all codes; ``refs`` of length 0 mean that all are live. If
    order keys do not decide, codes that tie with the last one follow it.
    """
    columns = found.shape[1]
    every = len(members) == 0
    size = 0
    for i in range(start, stop):
        code = i if every else members[i]
        if len(refs) and refs[code] == 0:
            continue
        if size < k:
            heap[size] = code
            size += 1
            if size == k:
                for at in range(k // 2 - 1, -1, -1):
                    _sift(heap, size, at, found, order_key, columns)
        elif found[code, 0] >= found[heap[0], 0] and _before(
            code, heap[0], found, order_key, columns
        ):
            heap[0] = code
            _sift(heap, size, 0, found, order_key, columns)
    if size < k:
        for at in range(size // 2 - 1, -1, -1):
            _sift(heap, size, at, found, order_key, columns)
    for last in range(size - 1, 0, -1):
        worst = heap[0]
        heap[0] = heap[last]
        heap[last] = worst
        _sift(heap, last, 0, found, order_key, columns)
    if decided or size < k:
        return size
    worst = heap[size - 1]
    for i in range(start, stop):
        code = i if every else members[i]
        if (len(refs) and refs[code] == 0) or code <= worst or found[code, 0] != found[worst, 0]:
            continue
        if columns > 1 and found[code, 1] != found[worst, 1]:
            continue
        if order_key[code] == order_key[worst]:
            heap[size] = code
            size += 1
    return size
