"""How many cells a sketch needs: the fullest of them decides how good its bounds can be.

Items fall into cells at random. If at most d items share a cell, the ``capacity`` m items of the
list are in at least m / d cells, so the least monitored count μ is at most the total of the
(m / d)-th fullest cell (Homem and Carvalho, Theorems 4 and 5). With m / d of at least k, that is
the total of the k-th fullest cell or less: a sketch can then tell the best k items from the rest.
"""

from __future__ import annotations

from math import ceil, lgamma, log, sqrt

import numpy as np

__all__ = ["cells_for", "fullest_cell"]


def fullest_cell(distinct: int, cells: int) -> float:
    """The expected number of distinct items in the fullest cell: E(D_max) of Theorem 5.

    As in the paper, the number of items in a cell is taken to follow a Poisson distribution.

    >>> round(fullest_cell(100_000, 10_000), 2)
    24.28
    """
    mean = distinct / cells
    most = ceil(mean + 12 * sqrt(mean * log(cells + 2)) + 12 * log(cells + 2)) + 10
    number = np.arange(most + 1)
    factorials = np.array([lgamma(i + 1) for i in range(most + 1)])
    share = np.exp(number * log(mean) - mean - factorials)
    more = np.append(np.cumsum(share[::-1])[::-1][1:], 0.0)  # that a cell has more than so many
    return float((1 - np.exp(cells * np.log1p(-np.minimum(more, 1 - 1e-16)))).sum())


def cells_for(distinct: int, k: int, capacity: int) -> int:
    """The least number of cells for which the fullest is expected to hold at most m / k items.

    ``distinct`` is the number of distinct items in a window.

    >>> cells_for(100_000, k=100, capacity=2_000)
    13782
    """
    if capacity < 2 * k:
        raise ValueError(f"capacity ({capacity}) must be at least twice k ({k})")
    low, high = 1, 2
    while fullest_cell(distinct, high) > capacity / k:
        low, high = high, 2 * high
        if high > 64 * distinct:
            return high
    while high - low > 1:
        middle = (low + high) // 2
        if fullest_cell(distinct, middle) > capacity / k:
            low = middle
        else:
            high = middle
    return high
