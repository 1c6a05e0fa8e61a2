"""The times that an engine's clock can hold."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from skyband.arrays import Ints, Mask
from skyband.contract.checks import faults as faults_of
from skyband.contract.rows import Faults

__all__ = ["TimeLimits"]


@dataclass(frozen=True)
class TimeLimits:
    """The ticks that an engine's clock can hold, and what to say of those outside."""

    least: int
    most: int
    too_early: str = "the time is out of range"
    too_late: str = "the time is out of range"

    def within(self, other: TimeLimits) -> TimeLimits:
        """The intersection of both limits, with the messages of this one."""
        return replace(self, least=max(self.least, other.least), most=min(self.most, other.most))

    def holds(self, least: int, most: int) -> bool:
        """Whether all ticks from ``least`` to ``most`` are within the limits."""
        return self.least <= least and most <= self.most

    def faults(self, name: str, batch: pa.RecordBatch, ticks: Ints, timed: Mask) -> Faults | None:
        """The rows whose time is outside; ``timed`` tells which rows have a time at all."""
        early, late = timed & (ticks < self.least), timed & (ticks > self.most)
        return faults_of(batch, [(name, self.too_early, early), (name, self.too_late, late)])
