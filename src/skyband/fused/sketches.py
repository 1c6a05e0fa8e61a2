"""What the streams have in common, estimated in constant space over a sliding window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.fused.guard import frozen
from skyband.kernels.fused_sketch import (
    count_reports,
    highest_set,
    lowest_unset,
    stamp_bits,
)

__all__ = ["Appearances", "SelfJoin"]

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]

NEVER = int(np.iinfo(np.int64).min)
LEVELS = 40
_PHI = 0.77351
_SMALL = 1.75
"""The exponent of Scheuermann and Mauve's correction for few objects a bitmap."""


class Appearances:
    """How many distinct objects some streams have in common: one stamped sketch a stream.

    Time O(1) a report; state ``bitmaps`` x 40 stamps a stream. The standard error of a union is
    about 0.78 / sqrt(bitmaps) with the estimator of Flajolet and Martin ("fm"), 1.04 /
    sqrt(bitmaps) with that of HyperLogLog ("hll") over the same bits; an intersection, by
    inclusion and exclusion, has errors of the size of its unions' errors.

    >>> sketch = Appearances(2, 256)
    >>> hashes = np.arange(3000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    >>> for stream, known in enumerate((hashes[:2000], hashes[1000:])):
    ...     number = np.full(2000, stream, np.int32)
    ...     sketch.add(known, number, np.zeros(2000, np.int64))
    >>> 0.3 < sketch.conditional(0b01, first=0)[1] < 0.7
    True
    """

    def __init__(self, streams: int, bitmaps: int, estimator: str = "fm") -> None:
        self.estimator = estimator
        self.stamps = np.full((streams, bitmaps, LEVELS), NEVER, np.int64)

    def add(self, hashes: Hashes, stream: Codes, pane: Ints) -> None:
        """Take reports, ordered by pane."""
        stamp_bits(frozen(hashes), frozen(stream), frozen(pane), self.stamps)

    def union(self, mask: int, first: int) -> float:
        """Distinct objects in any stream of a mask (a bit each) since pane ``first``."""
        if self.estimator == "hll":
            return _hyperloglog(highest_set(self.stamps, mask, first))
        return _flajolet_martin(lowest_unset(self.stamps, mask, first))

    def conditional(self, mask: int, first: int) -> npt.NDArray[np.float64]:
        """For each stream, its share of the objects that all other streams of a mask have."""
        return _Estimates(self, first).conditional(mask)

    def conditionals(self, masks: Ints, first: int) -> npt.NDArray[np.float64]:
        """``conditional`` of many masks, each union estimated once."""
        estimates = _Estimates(self, first)
        return np.array([estimates.conditional(int(mask)) for mask in masks]).reshape(
            len(masks), len(self.stamps)
        )


class _Estimates:
    """Estimates of one moment, remembered."""

    def __init__(self, sketch: Appearances, first: int) -> None:
        self.sketch = sketch
        self.first = first
        self.streams = len(sketch.stamps)
        self.unions: dict[int, float] = {0: 0.0}

    def union(self, mask: int) -> float:
        if mask not in self.unions:
            self.unions[mask] = self.sketch.union(mask, self.first)
        return self.unions[mask]

    def intersection(self, mask: int) -> float:
        """By inclusion and exclusion over all subsets."""
        total, subset = 0.0, mask
        while subset:
            total += self.union(subset) * (1 if subset.bit_count() % 2 else -1)
            subset = (subset - 1) & mask
        least = min(self.union(1 << s) for s in range(self.streams) if mask >> s & 1)
        return min(max(total, 0.0), least)

    def conditional(self, mask: int) -> npt.NDArray[np.float64]:
        """For a stream of the mask, given the others of it; 1 where nothing is known."""
        found = np.ones(self.streams)
        for s in range(self.streams):
            given = _fewer(mask & ~(1 << s))
            known = self.intersection(given) if given else 0.0
            if known > 0.0:
                found[s] = min(self.intersection(given | 1 << s) / known, 1.0)
        return found


def _fewer(mask: int, most: int = 6) -> int:
    """At most so many of a mask's streams: the terms of an intersection double with each."""
    while mask.bit_count() > most:
        mask &= mask - 1
    return mask


def _flajolet_martin(unset: Ints) -> float:
    mean = float(unset.mean())
    return float(len(unset) / _PHI * (2.0**mean - 2.0 ** (-_SMALL * mean)))


def _hyperloglog(highest: Ints) -> float:
    m = len(highest)
    estimate = 0.7213 / (1 + 1.079 / m) * m * m / float((2.0 ** -highest.astype(np.float64)).sum())
    empty = int((highest == 0).sum())
    if estimate <= 2.5 * m and empty:
        return float(m * np.log(m / empty))
    return float(estimate)


class SelfJoin:
    """The self-join size (the sum of squared frequencies) of each stream, over a sliding window.

    Time O(rows) a report; state blocks x rows x width counters a stream. The window is rounded up
    to whole blocks. One row's standard error is sqrt(2 / width) of the size, that of their median
    less.
    """

    BLOCKS, ROWS, WIDTH = 32, 5, 128

    def __init__(self, streams: int, panes: int) -> None:
        self.length = -(-panes // (self.BLOCKS - 1))
        """Panes in a block, so that a window and a block under way fit."""
        self.blocks = np.full(self.BLOCKS, NEVER, np.int64)
        self.counters = np.zeros((self.BLOCKS, streams, self.ROWS, self.WIDTH), np.int64)
        self.totals = np.zeros((self.BLOCKS, streams), np.int64)

    def add(self, hashes: Hashes, stream: Codes, pane: Ints) -> None:
        """Take reports, ordered by pane."""
        block = frozen(pane // self.length)
        count_reports(
            frozen(hashes), frozen(stream), block, self.counters, self.totals, self.blocks
        )

    def sizes(self, first: int) -> tuple[npt.NDArray[np.float64], Ints]:
        """The self-join size and the number of reports of each stream since pane ``first``."""
        live = self.blocks >= first // self.length
        rows = (self.counters[live].sum(axis=0).astype(np.float64) ** 2).sum(axis=2)
        return np.median(rows, axis=1), self.totals[live].sum(axis=0)

    def recurrences(self, first: int) -> int:
        """How often an object is reported in a stream, as a report chosen at random sees it."""
        sizes, totals = self.sizes(first)
        some = totals > 0
        if not some.any():
            return 1
        # Exactly one each makes a size equal to the total: its error must not make two of it.
        slack = 1.0 + 2.0 * (2.0 / self.WIDTH / self.ROWS) ** 0.5
        return max(1, int(np.ceil((sizes[some] / totals[some] / slack).max())))

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Flat arrays for a snapshot."""
        return {"blocks": self.blocks, "counters": self.counters, "totals": self.totals}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over a snapshot."""
        self.blocks = arrays["blocks"].copy()
        self.counters = arrays["counters"].copy()
        self.totals = arrays["totals"].copy()
