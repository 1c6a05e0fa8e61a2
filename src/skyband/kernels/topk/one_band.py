"""One k-skyband for windows of many sizes and many k, of one group.

Rows are sorted, best first. ``better`` says how many better rows lie in the same or in newer panes;
a row with k of them can be in no answer any more. So the answer of any window that ends with the
newest pane is a prefix of the rows whose pane is in the window:

    key      9  8  7  7  5  2
    pane     1  3  1  2  4  4
    window   ·  8  ·  7  5  2      [2, 5), the best 2 are 8 and 7

A new pane changes only the rows that are worse than its best one, and a row changes at most k times
before it is dropped. So whatever the order of scores, a row costs O(k) in all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from skyband.arrays import Ints
from skyband.kernels.core.jit import piece
from skyband.kernels.core.patient import kernel_of
from skyband.kernels.topk.runs import Runs

_SLACK = 256  # so many rows may have expired before they are looked for


class Band(NamedTuple):
    """The rows of a skyband, best first, in the beginning of arrays that may have more room."""

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
    most: Ints  # how many rows to read
    at: Ints  # where to write them


def _work(*args: Any) -> int:
    _band, size, runs, _k, reads, *_ = args
    per_pane = size + len(runs.key) // max(1, len(runs.pane))
    return int(len(runs.key) + len(runs.pane) * per_pane + reads.most.sum())


@kernel_of(work=_work)
def fold_band(
    band: Band, size: int, runs: Runs, k: int, reads: Reads, out: Ints, lengths: Ints, expired: int
) -> int:
    """Push panes and read windows; returns the number of rows of the band.

    ``band`` has room for all rows of ``runs``, which are sorted within each pane, best first. Rows
    that are read are written to ``out`` as slot, key and tie, and how many there are to
    ``lengths``. Panes before ``expired`` are dropped at the end.
    """
    at = 0
    most = 2 * size + _SLACK
    for w in range(len(reads.end) + 1):
        over = w == len(reads.end)
        while at < len(runs.pane) and (over or runs.pane[at] < reads.end[w]):
            size = _push(band, size, runs, at, k)
            at += 1
        if over:
            break
        if size > most:
            size = _expire(band, size, reads.expired[w])
            most = 2 * size + _SLACK
        to = reads.at[w]
        last = to + reads.most[w]
        i = 0
        while i < size and to < last:
            if band.pane[i] >= reads.first[w]:
                out[0, to] = band.slot[i]
                out[1, to] = band.key[i]
                out[2, to] = band.tie[i]
                to += 1
            i += 1
        lengths[w] = to - reads.at[w]
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
