"""Measurements that depend on a seed: their mean over several, and how far it may be off."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean, stdev

__all__ = ["SEEDS", "Sample"]

SEEDS = 8
"""How many seeds each random stream is drawn with."""
_STUDENT = (0.0, 12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365)
"""The 97.5 % quantile of Student's t by degrees of freedom; more than seven are taken as seven."""


@dataclass(frozen=True)
class Sample:
    """One value per seed. Arithmetic is seed by seed, so that ratios are of the same stream.

    >>> a, b = Sample((1.0, 2.0, 3.0)), Sample((2.0, 2.0, 2.0))
    >>> (a / b).mean, str(a), str(Sample((0.5,)))
    (1.0, '2.00 ± 2.48', '0.50')
    """

    values: tuple[float, ...]

    @staticmethod
    def of(value: float | Sample) -> Sample:
        """A value that does not depend on a seed is a sample of one."""
        return value if isinstance(value, Sample) else Sample((float(value),))

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def half(self) -> float:
        """Half of the 95 % interval of the mean; 0 for one value."""
        n = len(self.values)
        if n < 2:
            return 0.0
        return _STUDENT[min(n - 1, len(_STUDENT) - 1)] * stdev(self.values) / math.sqrt(n)

    def _pairs(self, other: float | Sample) -> Iterator[tuple[float, float]]:
        theirs = Sample.of(other).values
        if len(theirs) == 1:
            theirs = theirs * len(self.values)
        return zip(self.values, theirs, strict=True)

    def __truediv__(self, other: float | Sample) -> Sample:
        return Sample(tuple(a / b for a, b in self._pairs(other)))

    def __sub__(self, other: float | Sample) -> Sample:
        return Sample(tuple(a - b for a, b in self._pairs(other)))

    def __format__(self, form: str) -> str:
        shown = format(self.mean, form)
        return f"{shown} ± {format(self.half, form)}" if len(self.values) > 1 else shown

    def __str__(self) -> str:
        return format(self, ".2f")
