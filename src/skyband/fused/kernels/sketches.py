"""Sketches of the streams' objects that forget as the window moves.

*Appearances* (Flajolet and Martin): a bit (bitmap, level) is set by an object whose hash chooses
the bitmap and has ``level`` trailing zeros. Here each bit holds the last pane that set it, so that
the bits of any window are those with a late enough stamp.

*Self-join size* (Alon, Matias, Szegedy; one bucket per row as in Charikar's count sketch): each
report adds +1 or -1 to a counter, by its hash. Each block of panes has its own counters, which add
up.
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Codes, Hashes, Ints
from skyband.kernels.hashing import mix
from skyband.kernels.patient import kernel

_ONE = np.uint64(1)
_SALT = np.uint64(0xD1B54A32D192ED03)
_HALF = np.uint64(32)


@kernel
def stamp_bits(hashes: Hashes, stream: Codes, pane: Ints, stamps: Ints) -> None:
    """Set the bits of some reports, ordered by pane; ``stamps`` is (streams, bitmaps, levels)."""
    bitmaps, levels = stamps.shape[1], stamps.shape[2]
    for row in range(len(hashes)):
        # Shards are chosen by the hash itself, so the bits come from another hash.
        bits = mix(hashes[row] ^ _SALT)
        bitmap = np.int64(((bits >> _HALF) * np.uint64(bitmaps)) >> _HALF)
        level = 0
        while level < levels - 1 and not bits & _ONE:
            bits = bits >> _ONE
            level += 1
        stamps[stream[row], bitmap, level] = pane[row]


def bits_since(stamps: Ints, first: int) -> Hashes:
    """The bits of each (stream, bitmap) that were set since pane ``first``, level 0 lowest."""
    bits = _ONE << np.arange(stamps.shape[2], dtype=np.uint64)
    words: Hashes = np.where(stamps >= first, bits, np.uint64(0)).sum(axis=2, dtype=np.uint64)
    return words


@kernel
def count_reports(
    hashes: Hashes, stream: Codes, block: Ints, counters: Ints, totals: Ints, blocks: Ints
) -> None:
    """Add reports to the counters (slots, streams, rows, width) of their blocks, and to totals.

    A slot that holds another block is cleared first.
    """
    slots, _, rows, width = counters.shape
    for i in range(len(hashes)):
        slot = block[i] % slots
        if blocks[slot] != block[i]:
            blocks[slot] = block[i]
            counters[slot] = 0
            totals[slot] = 0
        s = stream[i]
        totals[slot, s] += 1
        bits = hashes[i]
        for row in range(rows):
            bits = mix(bits ^ _SALT)
            bucket = np.int64((bits >> _HALF) % np.uint64(width))
            counters[slot, s, row, bucket] += 1 if bits & _ONE else -1
