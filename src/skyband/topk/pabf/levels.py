"""What epsilon means: the step of the levels, for a column of scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["steps"]

_NARROWER = 1 - 2.0**-10
"""Room for the rounding of score / step: at most 3 / 2^13 of a step, see ``pabf_levels``."""


def steps(epsilon: float, dtype: np.dtype[Any]) -> tuple[float, int]:
    """The step of float scores and of integer ones; the latter is 0 where scores are floats.

    Integers of one level differ by less than ``ceil(epsilon)``, so by less than epsilon.

    >>> steps(2.5, np.dtype(np.int64))
    (2.49755859375, 3)
    """
    whole = 0 if dtype.kind == "f" else max(1, min(math.ceil(epsilon), 1 << 62))
    return epsilon * _NARROWER, whole
