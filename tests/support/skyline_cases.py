"""The definition of a skyline over arrays."""

from __future__ import annotations

import numpy as np


def best(points: np.ndarray, same: np.ndarray | None = None) -> np.ndarray:
    """Mask of the rows that no row dominates; greater is better, ``same`` must agree."""
    above = (points[:, None] >= points[None]).all(2) & (points[:, None] > points[None]).any(2)
    if same is not None:
        above &= same[:, None] == same[None]
    return np.asarray(~above.any(axis=0))
