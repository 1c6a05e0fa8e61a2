"""Measurements that depend on a seed: their mean over several, and how far it may be off."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, TypeVar

__all__ = ["SEEDS", "Sample", "joined"]

SEEDS = 8
"""How many seeds each random stream is drawn with."""
_STUDENT = (0.0, 12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365)
"""The 97.5 % quantile of Student's t by degrees of freedom; more than seven are taken as seven."""


@dataclass(frozen=True)
class Sample:
    """One value per seed. Arithmetic is seed by seed, so that ratios are of the same stream.

    >>> a, b = Sample((1.0, 2.0, 3.0)), Sample((2.0, 2.0, 2.0))
    >>> (a / b).mean, str(a), str((Sample.of(1) - a) * 0.5), str(Sample((0.5,)))
    (1.0, '2.00 ± 2.48', '-0.50 ± 1.24', '0.50')
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
        if n < 2 or math.isnan(self.mean):
            return 0.0
        return _STUDENT[min(n - 1, len(_STUDENT) - 1)] * stdev(self.values) / math.sqrt(n)

    @property
    def apart(self) -> float:
        """How far the value of one seed is from the mean at most, as a share of the mean."""
        return max(abs(value / self.mean - 1) for value in self.values)

    def _pairs(self, other: float | Sample) -> Iterator[tuple[float, float]]:
        mine, theirs = self.values, Sample.of(other).values
        length = max(len(mine), len(theirs))
        both = (each * length if len(each) == 1 else each for each in (mine, theirs))
        return zip(*both, strict=True)

    def __truediv__(self, other: float | Sample) -> Sample:
        return Sample(tuple(a / b for a, b in self._pairs(other)))

    def __sub__(self, other: float | Sample) -> Sample:
        return Sample(tuple(a - b for a, b in self._pairs(other)))

    def __mul__(self, factor: float) -> Sample:
        return Sample(tuple(value * factor for value in self.values))

    def __format__(self, form: str) -> str:
        shown = format(self.mean, form)
        if math.isnan(self.mean):
            return "-"
        return f"{shown} ± {format(self.half, form)}" if len(self.values) > 1 else shown

    def __str__(self) -> str:
        return format(self, ".2f")


Record = TypeVar("Record", bound=tuple[Sample, ...])


def joined(each: Sequence[Record]) -> Record:
    """One record for several seeds, from a record with samples of one for each of them."""
    fields = (Sample(tuple(one.mean for one in values)) for values in zip(*each, strict=True))
    record: Any = type(each[0])
    made: Record = record(*fields)
    return made
