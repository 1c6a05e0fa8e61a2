"""Windows of one pane each: the answer is the pane's best rows, sorted."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Ints
from skyband.kernels.core.borrow import borrowed
from skyband.kernels.core.patient import kernel


@kernel
def sorted_runs(key: Ints, tie: Ints, offsets: Ints, runs: Ints) -> tuple[Ints, Ints]:
    """The rows of these runs, best first within each, by insertion; and where each run begins."""
    key, tie = borrowed(key), borrowed(tie)
    ends = np.zeros(len(runs) + 1, np.int64)
    for at in range(len(runs)):
        ends[at + 1] = ends[at] + offsets[runs[at] + 1] - offsets[runs[at]]
    rows = np.empty(ends[-1], np.int64)
    for at in range(len(runs)):
        start = i = ends[at]
        for row in range(offsets[runs[at]], offsets[runs[at] + 1]):
            j = i
            while j > start and (
                key[rows[j - 1]] < key[row]
                or (key[rows[j - 1]] == key[row] and tie[rows[j - 1]] < tie[row])
            ):
                rows[j] = rows[j - 1]
                j -= 1
            rows[j] = row
            i += 1
    return rows, ends
