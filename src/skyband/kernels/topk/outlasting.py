"""The k-skyband of rows that keep their order but are gone at different times.

A row can be dropped if k others are better and last at least as long. The sweep goes from the rows
that last longest to those that are gone first, and remembers the best k that it has seen:

    value     5    9    3    7    1          k = 1, rows from the first to go to the last to go
                                  1   kept: nothing lasts longer
                             7        kept
                        3             dropped: 7 is better and lasts longer
                   9                  kept: better than all that last longer
              5                       dropped
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Ints, Mask
from skyband.kernels.core.borrow import borrowed
from skyband.kernels.core.patient import kernel
from skyband.kernels.core.sorting import sort_best


@kernel
def outlasting(
    order: Ints, key: Ints, tie: Ints, last: Ints, owner: Ints, offsets: Ints, k: int
) -> tuple[Mask, Ints]:
    """Which rows have fewer than k better ones that last as long; and some scratch.

    ``order`` has the rows of each run best first, by ``key``, then ``tie``. ``last`` is when a row
    is last seen. If there are ``owner`` codes, only one row of each owner counts, and a row is
    dropped, too, if its owner has a better one that lasts as long. Rows that are equal in key and
    tie do not count for each other. Cost: a sort, and O(k) per row that is among the best.
    """
    key, tie, last = borrowed(key), borrowed(tie), borrowed(last)
    owner, offsets = borrowed(owner), borrowed(offsets)
    n_runs = len(offsets) - 1
    place = order.copy()
    spare = np.empty(len(place), np.int64)
    found = np.ones(len(place), np.bool_)
    longest = 1
    for run in range(n_runs):
        longest = max(longest, offsets[run + 1] - offsets[run])
    best = np.empty(min(k, longest), np.int64)  # rows, best first
    for run in range(n_runs):
        low, high = offsets[run], offsets[run + 1]
        sort_best(place[low:high], spare[low:high], last, last)  # stable
        n = 0
        for i in range(low, high):
            row = place[i]
            a, b = key[row], tie[row]
            at = n
            if n == k:
                at = k - 1
                least = best[at]
                if key[least] > a or (key[least] == a and tie[least] > b):
                    found[row] = False
                    continue
            if len(owner):
                own = 0
                while own < n and owner[best[own]] != owner[row]:
                    own += 1
                if own < n:
                    at = own
                    mine = best[own]
                    if key[mine] > a or (key[mine] == a and tie[mine] > b):
                        found[row] = False
                        continue
            n = max(n, at + 1)
            while at > 0 and (
                key[best[at - 1]] < a or (key[best[at - 1]] == a and tie[best[at - 1]] < b)
            ):
                best[at] = best[at - 1]
                at -= 1
            best[at] = row
    return found, place
