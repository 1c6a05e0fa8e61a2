"""One k-skyband of each group, for windows of many sizes and many k.

The rows of a group are sorted, best first. ``better`` says how many better rows lie in the same or
in newer panes; a row with k of them can be in no answer any more. So the answer of any window that
ends with the newest pane is a prefix of the rows whose pane is in the window:

    key      9  8  7  7  5  2
    pane     1  3  1  2  4  4
    window   ·  8  ·  7  5  2      [2, 5), the best 2 are 8 and 7

A new pane changes only the rows that are worse than its best one, and a row changes at most k times
before it is dropped. So whatever the order of scores, a row costs O(k) in all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Ints
from skyband.kernels.core.jit import piece
from skyband.kernels.core.patient import kernel_of
from skyband.kernels.topk.runs import Runs

_SLACK = 256  # so many rows may have expired before they are looked for


class Band(NamedTuple):
    """The rows of skybands, each best first, in the beginning of arrays that may have more room."""

    key: Ints
    tie: Ints
    slot: Ints
    pane: Ints
    better: Ints


class Reads(NamedTuple):
    """Windows to read, in order of their ends."""

    first: Ints  # its first pane
    end: Ints  # after its last pane
    expired: Ints  # panes before this one are needed by no later window
    most: Ints  # how many rows to read of each group
    at: Ints  # where to write them


class Turns(NamedTuple):
    """Runs by group: those of group g are ``run[ends[g]:ends[g + 1]]``, in order of their panes."""

    run: Ints
    ends: Ints


def _work(*args: Any) -> int:
    _band, _starts, sizes, runs, _turns, _k, reads, *_ = args
    per_pane = (int(sizes.sum()) + len(runs.key)) // len(sizes) if len(sizes) else 0
    return int(len(runs.key) + len(runs.pane) * per_pane + reads.most.sum())


def _counting(*args: Any) -> int:
    pane, _starts, turns, _run_pane, _offsets, first, *_ = args
    return int(len(pane) + len(turns.run) + len(first) * (len(turns.ends) - 1))


@kernel_of(work=_counting)
def count_rows(
    pane: Ints, starts: Ints, turns: Turns, run_pane: Ints, offsets: Ints, first: Ints, end: Ints,
    most: Ints, out: Ints,
) -> None:  # fmt: skip
    """How many rows ``fold_bands`` will read of each window and group, at most ``most``.

    A row is dropped only if a window has k better ones, so it is enough to count those that there
    are: in the bands, whose panes are ``pane`` from ``starts`` on, and in runs.
    """
    for g in range(len(turns.ends) - 1):
        own = turns.run[turns.ends[g] : turns.ends[g + 1]]
        rows = np.zeros(len(own) + 1, np.int64)
        panes = np.empty(len(own), np.int64)
        for i in range(len(own)):
            panes[i] = run_pane[own[i]]
            rows[i + 1] = rows[i] + offsets[own[i] + 1] - offsets[own[i]]
        held = np.sort(pane[starts[g] : starts[g + 1]])
        for w in range(len(end)):
            low, high = np.searchsorted(panes, first[w]), np.searchsorted(panes, end[w])
            found = len(held) - np.searchsorted(held, first[w]) + rows[high] - rows[low]
            out[w, g] = min(found, most[w])


@kernel_of(work=_work)
def fold_bands(
    band: Band, starts: Ints, sizes: Ints, runs: Runs, turns: Turns, k: int, reads: Reads,
    out: Ints, expired: int,
) -> None:  # fmt: skip
    """Push panes and read windows, group by group; writes the number of rows left to ``sizes``.

    The band of group g has ``sizes[g]`` rows from ``starts[g]`` on, and room up to the next one for
    all its rows in ``runs``, which are sorted within each run, best first. Rows that are read are
    written to ``out`` as slot, key and tie. Panes before ``expired`` are dropped at the end.
    """
    for g in range(len(sizes)):
        low, high = starts[g], starts[g + 1]
        if low < high:
            own = Band(
                band.key[low:high], band.tie[low:high], band.slot[low:high], band.pane[low:high],
                band.better[low:high],
            )  # fmt: skip
            mine = turns.run[turns.ends[g] : turns.ends[g + 1]]
            sizes[g] = _fold(own, sizes[g], runs, mine, k, reads, g, out, expired)


def _work_each(*args: Any) -> int:
    return _work(*args[:7])


@kernel_of(work=_work_each)
def fold_each(
    band: Band, starts: Ints, sizes: Ints, runs: Runs, turns: Turns, k: int, reads: Reads,
    ends: Ints, out: Ints, expired: Ints,
) -> None:  # fmt: skip
    """As ``fold_bands``, where each group has its own windows, and panes that expire.

    Those of group g are ``reads.first[ends[g]:ends[g + 1]]`` and so on.
    """
    for g in range(len(sizes)):
        low, high = starts[g], starts[g + 1]
        if low < high:
            own = Band(
                band.key[low:high], band.tie[low:high], band.slot[low:high], band.pane[low:high],
                band.better[low:high],
            )  # fmt: skip
            a, b = ends[g], ends[g + 1]
            asked = Reads(
                reads.first[a:b], reads.end[a:b], reads.expired[a:b], reads.most[a:b],
                reads.at[a:b],
            )  # fmt: skip
            mine = turns.run[turns.ends[g] : turns.ends[g + 1]]
            sizes[g] = _fold(own, sizes[g], runs, mine, k, asked, 0, out, expired[g])


def _counting_each(*args: Any) -> int:
    pane, _starts, turns, _run_pane, _offsets, _ends, first, *_ = args
    return int(len(pane) + len(turns.run) + len(first))


@kernel_of(work=_counting_each)
def count_each(
    pane: Ints, starts: Ints, turns: Turns, run_pane: Ints, offsets: Ints, ends: Ints, first: Ints,
    end: Ints, most: Ints, out: Ints,
) -> None:  # fmt: skip
    """As ``count_rows``, where each group has its own windows: those from ``ends[g]`` on."""
    for g in range(len(ends) - 1):
        if ends[g] == ends[g + 1]:
            continue
        own = turns.run[turns.ends[g] : turns.ends[g + 1]]
        rows = np.zeros(len(own) + 1, np.int64)
        panes = np.empty(len(own), np.int64)
        for i in range(len(own)):
            panes[i] = run_pane[own[i]]
            rows[i + 1] = rows[i] + offsets[own[i] + 1] - offsets[own[i]]
        held = np.sort(pane[starts[g] : starts[g + 1]])
        for w in range(ends[g], ends[g + 1]):
            low, high = np.searchsorted(panes, first[w]), np.searchsorted(panes, end[w])
            found = len(held) - np.searchsorted(held, first[w]) + rows[high] - rows[low]
            out[w] = min(found, most[w])


@piece
def _fold(
    band: Band, size: int, runs: Runs, mine: Ints, k: int, reads: Reads, group: int, out: Ints,
    expired: int,
) -> int:  # fmt: skip
    """As ``fold_bands``, for one group; returns the number of rows of its band."""
    at = 0
    most = 2 * size + _SLACK
    for w in range(len(reads.end) + 1):
        over = w == len(reads.end)
        while at < len(mine) and (over or runs.pane[mine[at]] < reads.end[w]):
            size = _push(band, size, runs, mine[at], k)
            at += 1
        if over:
            break
        if size > most:
            size = _expire(band, size, reads.expired[w])
            most = 2 * size + _SLACK
        to = reads.at[w, group]
        last = to + reads.most[w, group]
        i = 0
        while i < size and to < last:
            if band.pane[i] >= reads.first[w]:
                out[0, to] = band.slot[i]
                out[1, to] = band.key[i]
                out[2, to] = band.tie[i]
                to += 1
            i += 1
    return _expire(band, size, expired)


@piece
def _push(band: Band, size: int, runs: Runs, at: int, k: int) -> int:
    """Merge the rows of a pane into the band, from the worst to the best; the new size."""
    start = runs.offsets[at]
    new = min(runs.offsets[at + 1] - start, k)
    pane = runs.pane[at]
    end: int = size + new
    i = size - 1
    j = new - 1
    to = end - 1
    while j >= 0:
        # Of equal scores the newer row is the better one.
        if i >= 0 and runs.key[start + j] >= band.key[i]:
            count = band.better[i] + j + 1
            if count < k:
                _move(band, to, i)
                band.better[to] = count
                to -= 1
            i -= 1
        else:
            band.key[to] = runs.key[start + j]
            band.tie[to] = runs.tie[start + j]
            band.slot[to] = runs.slot[start + j]
            band.pane[to] = pane
            band.better[to] = j
            to -= 1
            j -= 1
    dropped = to - i
    if dropped > 0:
        for x in range(to + 1, end):
            _move(band, x - dropped, x)
    return end - dropped


@piece
def _move(band: Band, to: int, row: int) -> None:
    band.key[to] = band.key[row]
    band.tie[to] = band.tie[row]
    band.slot[to] = band.slot[row]
    band.pane[to] = band.pane[row]
    band.better[to] = band.better[row]


@piece
def _expire(band: Band, size: int, first: int) -> int:
    """Drop panes before ``first``; the new size."""
    to = 0
    for i in range(size):
        if band.pane[i] >= first:
            if to < i:
                _move(band, to, i)
            to += 1
    return to
