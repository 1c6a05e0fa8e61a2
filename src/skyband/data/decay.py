"""Weights that shrink with age, and an order of decayed scores that loses no digits.

A row of time ``t`` weighs ``2 ** (-(e - t) / half_life)`` at an end ``e``. All weights shrink
alike, so ``score * 2 ** (t / half_life)`` orders rows once and for all. That number is far too
large for a double, so it is kept as a pair (exponent, mantissa): those of
``score * 2 ** ((t mod half_life) / half_life)``, with ``t div half_life`` added to the exponent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Floats, Ints, Mask
from skyband.data.time_axis import native_ticks
from skyband.panes import DecayPanes

__all__ = ["Decay"]

_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_NOTHING = 5_000
"""After this many half-lives, any double is 0."""


class Decay:
    """The half-life of a window, applied to the native values of one time column."""

    def __init__(self, panes: DecayPanes, kind: pa.DataType) -> None:
        self.panes = panes
        self.kind = kind
        self.half_life = panes.half_life

    def _times(self, native: Ints) -> tuple[Ints, Any]:
        """Whole ticks, and what is left of a tick for times that are finer than ticks."""
        ticks = native_ticks(native, self.kind)
        if pa.types.is_timestamp(self.kind) and self.kind.unit == "ns":
            return ticks, np.mod(native, 1_000) / 1_000
        return ticks, 0.0

    def weights(self, native: Ints, ends: Any) -> Floats:
        """The weights of rows at these ends, in ticks; all rows are before their end."""
        # Exponents of up to 1,000 lose at most three digits, so a quotient of doubles is enough.
        ticks, rest = self._times(native)
        found: Floats = np.exp2((ticks - ends + rest) / self.half_life)
        return found

    def faded(self, values: Floats, age: Any) -> Floats:
        """Values after a time in ticks."""
        whole, part = np.divmod(age, self.half_life)
        return self._faded(values * np.exp2(-part / self.half_life), whole)

    @staticmethod
    def _faded(values: Floats, half_lives: Any) -> Floats:
        found: Floats = np.ldexp(values, -np.minimum(half_lives, _NOTHING))
        return found

    def decayed(self, score: Floats, native: Ints, ends: Any) -> Floats:
        """Scores times weights, without a loss of digits in between."""
        ticks, rest = self._times(native)
        whole, part = np.divmod(ends - ticks, self.half_life)
        mantissa, exponent = np.frexp(score)
        faded = mantissa * np.exp2((rest - part) / self.half_life)
        return self._faded(faded, whole - exponent)

    def order(self, score: Floats, native: Ints) -> tuple[Ints, Floats]:
        """The exponent and mantissa that order rows of these scores, none of which is below 0."""
        ticks, rest = self._times(native)
        whole, part = np.divmod(ticks, self.half_life)
        mantissa, exponent = np.frexp(score)
        mantissa, more = np.frexp(mantissa * np.exp2((part + rest) / self.half_life))
        exponent = whole + exponent + more
        exponent[score == 0] = _LEAST
        exponent[np.isinf(score)] = _MOST
        return exponent, mantissa

    def alive(self, native: Ints, end: Any, memory: int | None = None) -> Mask:
        """Which rows are at most ``memory`` ticks old at ``end``; by default 1,000 half-lives."""
        memory = self.panes.memory if memory is None else memory
        least = max(int(end) - memory, _LEAST)
        return np.asarray(native_ticks(native, self.kind) >= least)
