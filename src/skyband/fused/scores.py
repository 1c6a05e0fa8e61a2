"""From values (objects x streams) to one score per object, combined in the order of streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skyband.arrays import Floats
from skyband.errors import QueryError
from skyband.query.fused import FusedTopK

__all__ = ["Scorer", "scorer"]

Scorer = Callable[[Floats], Floats]


def _left_to_right(step: Callable[[Floats, Floats], Floats]) -> Scorer:
    def combine(values: Floats) -> Floats:
        total = values[:, 0].copy()
        for stream in range(1, values.shape[1]):
            total = step(total, values[:, stream])
        return total

    return combine


_sum = _left_to_right(np.add)
_NAMED: dict[str, Scorer] = {
    "sum": _sum,
    "mean": lambda values: _sum(values) / values.shape[1],
    "min": _left_to_right(np.minimum),
    "max": _left_to_right(np.maximum),
    "product": _left_to_right(np.multiply),
}


def scorer(query: FusedTopK) -> Scorer:
    """The function that the query's ``combine`` stands for."""
    combine: Any = query.combine
    if isinstance(combine, str):
        return _NAMED[combine]
    if callable(combine):
        bounds = np.array(query.pairs).T
        low, high = _own(combine, bounds.copy())
        if low > high:
            raise QueryError(
                "combine= must be monotone: greater values must not lower the score, but it scores "
                "the upper bounds below the lower bounds"
            )
        return lambda values: _own(combine, values)
    weights = np.array(query.weights)
    return lambda values: _sum(values * weights)


def _own(combine: Callable[[Floats], Any], values: Floats) -> Floats:
    """Call a user's function; raises if what it returned cannot be used as scores."""
    if not len(values):
        return np.zeros(0)
    scores = np.asarray(combine(values), np.float64)
    if scores.shape != (len(values),):
        raise QueryError(
            f"combine= got values of shape {values.shape} and must return one score for each of "
            f"the {len(values)} objects; it returned an array of shape {scores.shape}"
        )
    if np.isnan(scores).any():
        raise QueryError("combine= returned a score that is not a number (NaN)")
    return np.ascontiguousarray(scores)  # kernels would be compiled again for others
