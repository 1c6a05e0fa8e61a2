"""What tests of UncertainTopK share: queries, and compact sets in exact arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import skyband as sb
from oracle.uncertain import by_recursion
from support.semantics import Semantics

ALGORITHMS = ("bs", "csq", "ccsq", "scsq", "scsq-buffer")
KINDS = ("pk-topk", "pt-k", "u-kranks", "u-topk")
THRESHOLD = 0.3

# Quarters make many ties; sums of the other values have rounding errors.
quarters = st.sampled_from((0.25, 0.5, 0.75, 1.0))
odd = st.sampled_from((1e-12, 1e-3, 0.1, 0.3, 1 / 3, 0.5, 0.7, 0.999, 1 - 1e-12, 1.0))
probability = st.one_of(quarters, odd, st.floats(0.001, 1.0))

# The radar readings of the paper's Table 1: 5, 6, 8, 2 in order of arrival.
RADAR = pa.table({"speed": [5, 6, 8, 2], "p": [0.8, 0.5, 0.4, 0.4], "car": ["X", "Y", "Z", "W"]})


def of(kind: str, k: int) -> Semantics:
    return Semantics(kind, k, THRESHOLD if kind == "pt-k" else None)


def query(kind: Any, window: Any, k: int = 2, **more: Any) -> sb.UncertainTopK:
    threshold = THRESHOLD if kind == "pt-k" else None
    names = {"score": "speed", "probability": "p", "id": "car"}
    return sb.UncertainTopK(
        k=k, window=window, semantics=kind, threshold=threshold, **(names | more)
    )


class Exact:
    """Compact sets in exact arithmetic, straight from their definitions."""

    def __init__(self, kind: str, k: int) -> None:
        self.kind, self.k = kind, k

    def end(self, given: Sequence[float]) -> int | None:
        p = [Fraction(each) for each in given]
        return next((d for d in range(1, len(p) + 1) if self.closes(p[:d])), None)

    def closes(self, p: list[Fraction]) -> bool:
        """Whether the compact set may end with the last of these rows."""
        k, d = self.k, len(p)
        at_rank, _ = by_recursion(p, k)
        r = self.counts(p)
        if self.kind == "pk-topk":
            return sum(sum(ranks) >= sum(r) for ranks in at_rank) >= k
        if self.kind == "pt-k":
            return sum(r) < Fraction(THRESHOLD)
        if self.kind == "u-kranks":
            return any(ranks[k - 1] >= max(r) for ranks in at_rank)
        bound = product(max(each, 1 - each) for each in p)
        return d >= k and max(self.rho(p[:i]) for i in range(k, d + 1)) >= bound

    def counts(self, p: list[Fraction]) -> list[Fraction]:
        """The probabilities that exactly 0, 1, ... k - 1 rows exist."""
        r = [Fraction(1)] + [Fraction(0)] * (self.k - 1)
        for each in p:
            r = [r[j] * (1 - each) + (r[j - 1] * each if j else 0) for j in range(self.k)]
        return r

    def rho(self, p: list[Fraction]) -> Fraction:
        ranked = sorted(p, reverse=True)
        chosen, others = ranked[: self.k], ranked[self.k :]
        return product(chosen) * product(1 - each for each in others)


def product(values: Any) -> Fraction:
    result = Fraction(1)
    for value in values:
        result *= value
    return result
