"""The panes that a sketch takes, as its kernels read them."""

from __future__ import annotations

from typing import NamedTuple

from skyband.arrays import Array, Hashes, Ints


class Pushed(NamedTuple):
    """What panes bring: items that were counted before, and rows; both split by pane.

    ``weights`` of length 0 stand for 1. ``missing`` bounds, for each pane, how often an item
    occurred that is not among the known ones.
    """

    stamp: Ints
    keys: Hashes  # of the rows; 64-bit integers may stand here as they are
    weights: Array
    offsets: Ints
    known: Hashes
    counts: Array
    errors: Array
    known_offsets: Ints
    missing: Array
