"""How much the streams have in common, estimated in constant space over a sliding window."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import numpy as np

from skyband.arrays import Codes, Floats, Hashes, Ints, Saved
from skyband.data.flat_state import FlatState, Form, Forms, require
from skyband.fused.kernels.sketches import bits_since, count_reports, stamp_bits
from skyband.kernels.borrow import frozen

NEVER = int(np.iinfo(np.int64).min)
LEVELS = 24
"""Enough for 2^24 objects per bitmap."""
_FEW = 8
"""Up to this many streams, all subsets of streams are estimated at once."""
_PHI = 0.77351
_SMALL = 1.75
"""The exponent of Scheuermann and Mauve's correction for few objects per bitmap."""


def bitmaps_for(objects: int, most: int) -> int:
    """Bitmaps that are worth their memory for so many objects: about one per eight of them.

    >>> [bitmaps_for(objects, 64) for objects in (50, 200, 400, 1_000)]
    [16, 32, 64, 64]
    """
    return min(most, max(16, 1 << (objects // 8 - 1).bit_length()))


def levels_for(objects: int, bitmaps: int) -> int:
    """Levels that are enough for so many objects: those above are hardly ever reached.

    A bitmap has objects / bitmaps of them, so its highest bit lies near the logarithm of that, and
    six levels above with a probability of one in 64.

    >>> [levels_for(objects, 64) for objects in (200, 1_000, 100_000, 10**9)]
    [9, 11, 17, 24]
    """
    return min(LEVELS, int(np.ceil(np.log2(objects / bitmaps + 1))) + 6)


class Appearances(FlatState):
    """How many distinct objects some streams have in common: one timestamped sketch per stream.

    Time O(1) per report; state ``bitmaps`` x ``levels`` stamps per stream. The standard error of a
    union is about 0.78 / sqrt(bitmaps) with the estimator of Flajolet and Martin ("fm"), and 1.04 /
    sqrt(bitmaps) with that of HyperLogLog ("hll") over the same bits. An intersection is computed
    by inclusion and exclusion; its errors are as large as those of its unions.

    >>> sketch = Appearances(2, 256)
    >>> hashes = np.arange(3000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    >>> for stream, known in enumerate((hashes[:2000], hashes[1000:])):
    ...     number = np.full(2000, stream, np.int32)
    ...     sketch.add(known, number, np.zeros(2000, np.int64))
    >>> 0.35 < float(sketch.conditionals(np.array([0b01]), first=0)[0, 1]) < 0.65  # it is a half
    True
    """

    saved_arrays = ("stamps",)

    def __init__(
        self, streams: int, bitmaps: int, estimator: str = "fm", levels: int = LEVELS
    ) -> None:
        self.estimator = estimator
        self.stamps = np.full((streams, bitmaps, levels), NEVER, np.int64)

    def restore(self, arrays: Saved) -> None:
        require(arrays["stamps"].shape == self.stamps.shape, "stamps")
        super().restore(arrays)

    def add(self, hashes: Hashes, stream: Codes, pane: Ints) -> None:
        """Take reports, ordered by pane."""
        stamp_bits(frozen(hashes), frozen(stream), frozen(pane), self.stamps)

    def conditionals(self, masks: Ints, first: int) -> Floats:
        """For each mask (one bit per stream) and stream, its share of what the mask's others share.

        That is, of the distinct objects since pane ``first`` that they all contain.
        """
        words = bits_since(self.stamps, first)
        if len(words) <= _FEW:
            common = self._common(words).tolist().__getitem__
        else:
            common = cache(lambda mask: float(self._common(words[_streams(mask)])[-1]))
        shares = np.ones((len(masks), len(words)))
        for row, mask in enumerate(masks.tolist()):
            for s in range(len(words)):
                given = _fewer(mask & ~(1 << s))
                known = common(given) if given else 0.0
                if known > 0.0:
                    shares[row, s] = min(common(given | 1 << s) / known, 1.0)
        return shares

    def estimate(self, words: Hashes) -> Floats:
        """Cardinalities from sets of bitmaps, one set per row."""
        return (_hyperloglog if self.estimator == "hll" else _flajolet_martin)(words)

    def _common(self, words: Hashes) -> Floats:
        """How many objects all streams of a set have in common, for every set of some streams."""
        d, bitmaps = words.shape
        sets = np.arange(1 << d)
        unions = np.zeros((len(sets), bitmaps), np.uint64)
        for s in range(d):
            unions[1 << s : 2 << s] = unions[: 1 << s] | words[s]
        size = self.estimate(unions)
        size[0] = 0.0
        # Inclusion and exclusion for all sets at once: sums over subsets, stream by stream.
        common = np.where(np.bitwise_count(sets) % 2 == 1, size, -size)
        least = np.full(len(sets), np.inf)
        for s in range(d):
            inside = (sets >> s & 1) == 1
            common[inside] += common[sets[inside] ^ 1 << s]
            least[inside] = np.minimum(least[inside], size[1 << s])
        return np.clip(common, 0.0, least)


def _streams(mask: int) -> list[int]:
    return [s for s in range(mask.bit_length()) if mask >> s & 1]


def _fewer(mask: int, most: int = 6) -> int:
    """At most ``most`` of a mask's streams: each one doubles the terms of an intersection."""
    while mask.bit_count() > most:
        mask &= mask - 1
    return mask


def _flajolet_martin(words: Hashes) -> Floats:
    lowest = np.bitwise_count((~words & (words + np.uint64(1))) - np.uint64(1))
    mean = lowest.mean(axis=1)
    estimate: Floats = words.shape[1] / _PHI * (2.0**mean - 2.0 ** (-_SMALL * mean))
    return _counted(words, estimate, 1.5)


def _hyperloglog(words: Hashes) -> Floats:
    m = words.shape[1]
    highest = np.frexp(words.astype(np.float64))[1]
    estimate: Floats = 0.7213 / (1 + 1.079 / m) * m * m / (2.0**-highest).sum(axis=1)
    return _counted(words, estimate, 2.5)


def _counted(words: Hashes, estimate: Floats, upto: float) -> Floats:
    """Correct the estimate for few objects per bitmap, from the number of empty bitmaps."""
    m = words.shape[1]
    empty = np.maximum((words == 0).sum(axis=1), 1)
    few = m * np.log(m / empty)
    return np.where((few <= upto * m) & (estimate <= 2 * upto * m), few, estimate)


class SelfJoin(FlatState):
    """The self-join size (the sum of squared frequencies) of each stream, over a sliding window.

    Time O(rows) per report; state blocks x rows x width counters per stream. The window is rounded
    up to whole blocks. The relative standard error of one row is sqrt(2 / width); that of the
    rows' median is smaller.
    """

    BLOCKS, ROWS, WIDTH = 32, 5, 128
    saved_arrays = ("blocks", "counters", "totals")
    saved_forms: ClassVar[Forms] = dict.fromkeys(saved_arrays, Form(BLOCKS))

    def __init__(self, streams: int, panes: int) -> None:
        self.length = -(-panes // (self.BLOCKS - 1))
        """Panes per block, chosen so that a whole window and the current block fit."""
        self.blocks = np.full(self.BLOCKS, NEVER, np.int64)
        self.counters = np.zeros((self.BLOCKS, streams, self.ROWS, self.WIDTH), np.int64)
        self.totals = np.zeros((self.BLOCKS, streams), np.int64)

    def add(self, hashes: Hashes, stream: Codes, pane: Ints) -> None:
        """Take reports, ordered by pane."""
        block = frozen(pane // self.length)
        count_reports(
            frozen(hashes), frozen(stream), block, self.counters, self.totals, self.blocks
        )

    def sizes(self, first: int) -> tuple[Floats, Ints]:
        """The self-join size and the number of reports of each stream since pane ``first``."""
        live = self.blocks >= first // self.length
        rows = (self.counters[live].sum(axis=0).astype(np.float64) ** 2).sum(axis=2)
        return np.median(rows, axis=1), self.totals[live].sum(axis=0)

    def recurrences(self, first: int) -> int:
        """How often the object of a randomly chosen report is reported in its stream."""
        sizes, totals = self.sizes(first)
        some = totals > 0
        if not some.any():
            return 1
        # One report per object makes the size equal to the total: its error must not give two.
        slack = 1.0 + 2.0 * (2.0 / self.WIDTH / self.ROWS) ** 0.5
        return max(1, int(np.ceil((sizes[some] / totals[some] / slack).max())))
