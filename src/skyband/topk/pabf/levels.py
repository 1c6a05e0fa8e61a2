"""What epsilon means: the width of a level, for a column of scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["steps"]

_NARROWER = 1 - 2.0**-10
"""Leaves room for rounding in score / step: at most 3 / 2^13 of a step, see ``pabf_merge``."""


def steps(epsilon: float, dtype: np.dtype[Any]) -> tuple[float, int]:
    """The step for float scores and that for integer scores, which is 0 if scores are floats.

    Integers in one level differ by less than ``ceil(epsilon)``, so by less than epsilon.

    >>> steps(2.5, np.dtype(np.int64))
    (2.49755859375, 3)
    """
    whole = 0 if dtype.kind == "f" else max(1, min(math.ceil(epsilon), 1 << 62))
    return epsilon * _NARROWER, whole
