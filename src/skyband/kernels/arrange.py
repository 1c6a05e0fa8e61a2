"""Bringing rows into runs: stable orders by small integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.arrays import Array, Codes, Ints
from skyband.kernels.borrow import copy_rows
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel, patient


@jit
def order_by_code(codes: Array, size: int) -> tuple[Ints, Ints]:
    """A stable order of rows by codes below ``size``, and where each code's rows start."""
    starts = np.zeros(size + 1, np.int64)
    for code in codes:
        starts[code + 1] += 1
    for code in range(size):
        starts[code + 1] += starts[code]
    order = np.empty(len(codes), np.int64)
    place = np.empty(size, np.int64)
    for code in range(size):
        place[code] = starts[code]
    for row in range(len(codes)):
        code = codes[row]
        order[place[code]] = row
        place[code] += 1
    return order, starts


counting_order = patient(order_by_code)  # for Python; kernels call ``order_by_code``


@jit
def _sort(values: Codes, low: int, high: int) -> None:
    """Sort ``values[low:high]``: a Shell sort, which compiles in a tenth of the time of numpy's."""
    gap = high - low
    while gap > 1:
        gap = max(gap * 4 // 9, 1)
        for i in range(low + gap, high):
            value = values[i]
            j = i
            while j >= low + gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value


@kernel
def split_by_code(offsets: Ints, codes: Codes, size: int) -> tuple[Ints, Ints, Codes, Ints]:
    """A stable order of the rows of each stretch by their codes, which are below ``size``.

    Returns the order and its runs: the stretch and the code of each, and where each starts.
    """
    n = len(codes)
    order = np.empty(n, np.int64)
    run_stretch = np.empty(n, np.int64)
    run_code = np.empty(n, np.int32)
    run_start = np.empty(n + 1, np.int64)
    runs = 0
    counts = np.zeros(size, np.int64)
    for stretch in range(len(offsets) - 1):
        first, last = offsets[stretch], offsets[stretch + 1]
        fresh = runs
        # List each code of this stretch once, then sort them.
        for i in range(first, last):
            code = codes[i]
            if counts[code] == 0:
                run_code[runs] = code
                runs += 1
            counts[code] += 1
        if (runs - fresh) * 8 > size:
            runs = fresh
            for code in range(size):
                if counts[code]:
                    run_code[runs] = code
                    runs += 1
        else:
            _sort(run_code, fresh, runs)
        at = first
        for run in range(fresh, runs):
            code = run_code[run]
            run_stretch[run] = stretch
            run_start[run] = at
            at += counts[code]
            counts[code] = run_start[run]
        for i in range(first, last):
            code = codes[i]
            order[counts[code]] = i
            counts[code] += 1
        for run in range(fresh, runs):
            counts[run_code[run]] = 0
    run_start[runs] = n
    return order, run_stretch[:runs].copy(), run_code[:runs].copy(), run_start[: runs + 1].copy()


@kernel
def arrival_numbers(groups: Codes, counts: Ints) -> Ints:
    """The arrival number of each row in its group; ``counts`` is updated."""
    numbers = np.empty(len(groups), np.int64)
    for row in range(len(groups)):
        group = groups[row]
        numbers[row] = counts[group]
        counts[group] += 1
    return numbers


# Arrays that grow while a kernel writes to them --------------------------------------------------


@jit
def with_room(array: Any, used: int, needed: int) -> Any:
    """The array if it has ``needed`` rows, else a copy of the ``used`` ones with more room."""
    if needed <= len(array):
        return array
    more = np.zeros((max(needed, 2 * len(array)), *array.shape[1:]), array.dtype)
    copy_rows(more, array, used)
    return more
