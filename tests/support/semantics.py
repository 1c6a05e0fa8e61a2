"""The compact sets and answers of one semantics, as tests ask the kernels for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyband.arrays import Floats, Ints
from skyband.uncertain.base import rule_of
from skyband.uncertain.kernels.compact import answer, compact_end
from skyband.uncertain.kernels.types import READ


class Semantics:
    """The compact sets of one semantics, over probabilities of rows in row order.

    The paper's readings 8, 6, 5 and 2, with the probabilities of its table 1:

    >>> pk = Semantics("pk-topk", 2)
    >>> pk.end([0.4, 0.5, 0.8, 0.4])
    3
    >>> pk.admits([0.4, 0.5])
    False
    >>> positions, chances = pk.answer([0.4, 0.5, 0.8, 0.4])
    >>> positions.tolist(), chances.round(6).tolist()
    ([2, 1], [0.64, 0.5])
    """

    def __init__(self, kind: str, k: int, threshold: float | None = None) -> None:
        self.rule = rule_of(kind, k, threshold)

    def end(self, probabilities: Sequence[float] | Floats, slack: float = READ) -> int | None:
        """How many rows the compact set has; None if there is none."""
        given = np.asarray(probabilities, np.float64)
        found = compact_end(self.rule, given, np.arange(len(given)), len(given), slack)
        return None if found < 0 else int(found)

    def admits(self, probabilities: Sequence[float] | Floats) -> bool:
        """Whether these rows have a compact set at all."""
        return self.end(probabilities) is not None

    def answer(self, probabilities: Sequence[float] | Floats) -> tuple[Ints, Floats]:
        """Positions of the answered rows in the answer's order, and their chances."""
        given = np.asarray(probabilities, np.float64)
        room = max(len(given), self.rule.k)
        found, chance = np.empty(room, np.int64), np.empty(room)
        count = answer(self.rule, given, np.arange(len(given)), len(given), found, chance)
        return found[:count], chance[:count]
