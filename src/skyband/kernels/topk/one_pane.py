"""Windows of one pane each, for many groups: the answer is the pane's best rows, sorted."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Codes, Ints
from skyband.kernels.core.borrow import borrowed
from skyband.kernels.core.patient import kernel


@kernel
def sorted_panes(
    stamp: Ints, group: Codes, offsets: Ints, rows: tuple[Ints, Ints, Ints], by_rank: Codes
) -> tuple[Ints, Ints, Ints]:
    """Runs, sorted by (stamp, group), in the order of their stamps and of ``by_rank``.

    ``rows`` are key, tie and slot of each row. Returns the order of the runs, their new offsets,
    and slot, key and tie of all rows, best first within a run. O(runs + stamps × groups + rows × k)
    for runs of at most k rows.
    """
    key, tie, slot = borrowed(rows[0]), borrowed(rows[1]), borrowed(rows[2])
    n_runs = len(stamp)
    run_of = np.full(len(by_rank), -1, np.int64)
    order = np.empty(n_runs, np.int64)
    ends = np.empty(n_runs + 1, np.int64)
    out = np.empty((3, offsets[n_runs] - offsets[0]), np.int64)
    ends[0] = 0
    done = 0
    at = 0
    first = 0
    while first < n_runs:
        last = first
        while last < n_runs and stamp[last] == stamp[first]:
            run_of[group[last]] = last
            last += 1
        for place in range(len(by_rank)):
            run = run_of[by_rank[place]]
            if run < 0:
                continue
            run_of[by_rank[place]] = -1
            start = at
            for row in range(offsets[run], offsets[run + 1]):
                i = at
                while i > start and (
                    out[1, i - 1] < key[row]
                    or (out[1, i - 1] == key[row] and out[2, i - 1] < tie[row])
                ):
                    out[0, i], out[1, i], out[2, i] = out[0, i - 1], out[1, i - 1], out[2, i - 1]
                    i -= 1
                out[0, i], out[1, i], out[2, i] = slot[row], key[row], tie[row]
                at += 1
            order[done] = run
            done += 1
            ends[done] = at
        first = last
    return order, ends, out
