"""Histograms over panes, in blocks of some 64 buckets; see ``kernels.frequency.fsw_rows``."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.arrays import Array

__all__ = ["blocked", "flat", "new_blocks"]

_WIDTH = 64
"""The most buckets of a block."""


def new_blocks(owners: int, panes: int, dtype: Any) -> Array:
    """Empty histograms: an array of (block, owner, bucket)."""
    blocks = -(-panes // _WIDTH)
    return np.zeros((blocks, owners, -(-panes // blocks)), dtype)


def blocked(histograms: Array, like: Array) -> Array:
    """Histograms, one per row, in blocks like those of ``like``; of one group, or of several."""
    blocks, owners, width = like.shape
    lead = histograms.shape[:-2]
    found = np.zeros((*lead, owners, blocks * width), histograms.dtype)
    found[..., : histograms.shape[-1]] = histograms
    split = found.reshape(*lead, owners, blocks, width)
    return np.ascontiguousarray(np.moveaxis(split, -2, -3))


def flat(blocks: Array, panes: int) -> Array:
    """The inverse of ``blocked``: one row of ``panes`` buckets per owner."""
    *lead, count, owners, width = blocks.shape
    rows = np.moveaxis(blocks, -3, -2).reshape(*lead, owners, count * width)
    return np.ascontiguousarray(rows[..., :panes])
