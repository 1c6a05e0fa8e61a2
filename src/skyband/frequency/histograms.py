"""Histograms over panes, in blocks of some 32 buckets; see ``kernels.frequency.fsw_rows``."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.arrays import Array

__all__ = ["blocked", "flat", "new_blocks"]

_WIDTH = 32
"""The most buckets of a block: two lines of a cache, for counters of 32 bits."""


def new_blocks(owners: int, panes: int, dtype: Any) -> Array:
    """Empty histograms: an array of (block, owner, bucket)."""
    blocks = -(-panes // _WIDTH)
    return np.zeros((blocks, owners, -(-panes // blocks)), dtype)


def blocked(histograms: Array, like: Array) -> Array:
    """Histograms, one per row, in blocks; ``like`` has the shape of the result."""
    blocks, owners, width = like.shape
    found = np.zeros((owners, blocks * width), histograms.dtype)
    found[:, : histograms.shape[1]] = histograms
    return np.ascontiguousarray(found.reshape(owners, blocks, width).transpose(1, 0, 2))


def flat(blocks: Array, panes: int) -> Array:
    """The inverse of ``blocked``: one row of ``panes`` buckets per owner."""
    owners = blocks.shape[1]
    return np.ascontiguousarray(blocks.transpose(1, 0, 2).reshape(owners, -1)[:, :panes])
