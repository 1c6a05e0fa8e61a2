"""Points of skylines, and which of them are best, by definition; greater is better."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

Point = tuple[int, ...]
SMALL = st.tuples(*[st.integers(0, 2)] * 3)


def best(points: np.ndarray, same: np.ndarray | None = None) -> np.ndarray:
    """Mask of the rows that no row dominates; greater is better, ``same`` must agree."""
    above = (points[:, None] >= points[None]).all(2) & (points[:, None] > points[None]).any(2)
    if same is not None:
        above &= same[:, None] == same[None]
    return np.asarray(~above.any(axis=0))


def beats(a: Point, b: Point) -> bool:
    return a != b and all(x >= y for x, y in zip(a, b, strict=True))


def array(
    points: list[Point], dimensions: int = 2
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.array(points, np.int64).reshape(len(points), dimensions)
