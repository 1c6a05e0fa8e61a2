"""Weights that shrink with age, and an order of decayed scores that loses no digits.

A row of time ``t`` weighs ``2 ** (-(e - t) / half_life)`` at an end ``e``. All weights shrink
alike, so ``score * 2 ** (t / half_life)`` orders rows once and for all. That number is far too
large for a double, so rows are compared by a pair (exponent, mantissa): those of
``score * 2 ** ((t mod half_life) / half_life)``, with ``t div half_life`` added to the exponent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Floats, Ints, Mask
from skyband.data.time_axis import native_ticks
from skyband.panes import DecayPanes

_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_NOTHING = 5_000
"""After this many half-lives, any double is 0."""
_MANTISSA_BITS = 52
_MANTISSA = (1 << _MANTISSA_BITS) - 1
_GREATEST = 2_046
"""The exponent that the best row of a run gets: less than that of any infinite score."""
_WIDEST = 4_000
"""Exponents of a run that differ by no more than this fit in 12 bits, with room for 0."""


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

    def keys(self, score: Floats, native: Ints, offsets: Ints) -> Ints:
        """Integers in the order of decayed scores, greater is better, within each run.

        No score is below 0. Exponent and mantissa fit in 64 bits if the exponents of a run differ
        by at most 4,000. Half of that are those of scores, and each half-life adds one. If they
        differ by more, the integers are places in the order.
        """
        ticks, rest = self._times(native)
        whole, part = np.divmod(ticks, self.half_life)
        mantissa, exponent = np.frexp(score)
        mantissa, more = np.frexp(mantissa * np.exp2((part + rest) / self.half_life))
        whole += exponent
        whole += more
        plain = (mantissa > 0) & (mantissa < 1)  # neither 0 nor infinite
        if not plain.all():
            whole[~plain] = _LEAST
        lengths = np.diff(offsets)
        filled = lengths > 0
        most = np.maximum.reduceat(whole, offsets[:-1][filled]) if len(whole) else whole
        below = whole - (most if len(most) == 1 else np.repeat(most, lengths[filled]))
        if below.min(initial=0, where=plain) < -_WIDEST:
            return _places(whole, mantissa)
        below += _GREATEST
        below <<= _MANTISSA_BITS
        found: Ints = mantissa.view(np.int64) & _MANTISSA
        found |= below
        if not plain.all():
            found[mantissa == 0] = _LEAST
            found[np.isinf(mantissa)] = _MOST
        return found

    def alive(self, native: Ints, end: Any) -> Mask:
        """Which times are at most 1,000 half-lives before ``end``."""
        least = max(int(end) - self.panes.memory, _LEAST)
        return np.asarray(native_ticks(native, self.kind) >= least)


def _places(exponent: Ints, mantissa: Floats) -> Ints:
    """The place of each pair in their order; equal pairs have the same place."""
    exponent[np.isinf(mantissa)] = _MOST
    order = np.lexsort((mantissa, exponent))
    ranked = exponent[order], mantissa[order]
    later = (np.diff(ranked[0]) != 0) | (np.diff(ranked[1]) != 0)
    found = np.empty(len(order), np.int64)
    found[order] = np.cumsum(np.append(False, later))
    return found
