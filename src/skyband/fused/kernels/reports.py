"""The live reports of fused objects: a log in the order of panes, one chain per object.

    log     report   0  1  2  3  4  5  6        head .. size are live
            code     7  2  7  9  2  7  4
            chain    2  4  5  ·  ·  ·  ·        the next report of the same object

    object  code     first  last                ``links[code]``
             7         0      5

A report expires at the head of the log, where it is always the first of its object's chain. The
values of objects are returned as a matrix (objects x streams); scores are computed elsewhere, so
that a user's own function costs no more than a sum.
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Codes, Floats, Ints, Mask
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel

Reports = tuple[Codes, Codes, Floats, Ints]
"""Object, stream, value and pane of each report."""
Log = tuple[Codes, Codes, Floats, Ints, Codes]
"""The same for the live reports, and the next report of the same object."""


@jit
def _values(report: int, log: Log, low: Floats, row: Floats, there: Mask) -> None:
    """The value of every stream from a chain of reports, and whether it has one.

    A stream without a report has its lower bound.
    """
    stream, value, chain = log[1], log[2], log[4]
    row[:], there[:] = 0.0, False
    while report >= 0:
        s = stream[report]
        row[s] += value[report]
        there[s] = True
        report = chain[report]
    for s in range(len(low)):
        if not there[s]:
            row[s] = low[s]


@jit
def _link(report: int, owner: int, chain: Codes, links: Codes) -> None:
    """Append a report to the chain of its object."""
    last = links[owner, 1]
    if last < 0:
        links[owner, 0] = report
    else:
        chain[last] = report
    chain[report] = -1
    links[owner, 1] = report


@kernel
def values_of(codes: Codes, links: Codes, log: Log, low: Floats) -> tuple[Floats, Mask]:
    """The values of some objects, and where they have reports."""
    found = np.empty((len(codes), len(low)))
    present = np.empty((len(codes), len(low)), np.bool_)
    for i in range(len(codes)):
        _values(links[codes[i], 0], log, low, found[i], present[i])
    return found, present


@kernel
def dead_of(touched: Codes, links: Codes, mark: Ints, serial: int) -> Codes:
    """Those objects that have no reports, each once."""
    dead = np.empty(len(touched), np.int32)
    count = 0
    for i in range(len(touched)):
        code = touched[i]
        if links[code, 0] < 0 and mark[code] != serial:
            mark[code] = serial
            dead[count] = code
            count += 1
    return dead[:count]


@kernel
def advance(
    rows: Reports, step_end: Ints, step_first: Ints, log: Log, head: int, size: int, links: Codes,
    ever: Codes, mark: Ints, serial: int, low: Floats,
) -> tuple[int, int, Codes, Floats, Mask, Ints]:  # fmt: skip
    """Take rows and expire reports, step by step; which objects changed, and to which values.

    A step takes the rows up to ``step_end`` and then drops panes before ``step_first``. Each object
    that changed is returned once per step, as it is at the end of the step: its value in every
    stream, and whether it has a live report there. ``mark`` holds no number above ``serial``.
    """
    new_code, new_stream, new_value, new_pane = rows
    code, stream, value, pane, chain = log
    steps = len(step_end)
    room = len(new_code) + len(new_code) + size - head
    touched = np.empty(room, np.int32)
    values = np.empty((room, len(low)))
    present = np.empty((room, len(low)), np.bool_)
    offsets = np.zeros(steps + 1, np.int64)
    count = 0
    row = 0
    for step in range(steps):
        begin = count
        now = serial + step + 1
        while row < step_end[step]:
            owner = new_code[row]
            code[size] = owner
            stream[size] = new_stream[row]
            value[size] = new_value[row]
            pane[size] = new_pane[row]
            _link(size, owner, chain, links)
            ever[owner, new_stream[row]] += 1
            if mark[owner] != now:
                mark[owner] = now
                touched[count] = owner
                count += 1
            size += 1
            row += 1
        while head < size and pane[head] < step_first[step]:
            owner = code[head]
            links[owner, 0] = chain[head]
            if chain[head] < 0:
                links[owner, 1] = -1
            if mark[owner] != now:
                mark[owner] = now
                touched[count] = owner
                count += 1
            head += 1
        for i in range(begin, count):
            _values(links[touched[i], 0], log, low, values[i], present[i])
        offsets[step + 1] = count
    return head, size, touched[:count], values[:count], present[:count], offsets
