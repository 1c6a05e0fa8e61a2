"""The times that an engine's clock can hold, and what a job takes of its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from skyband.arrays import Ints, Mask
from skyband.contract.checks import faults as faults_of
from skyband.contract.rows import Faults

__all__ = ["RowLimits", "TimeLimits", "ValueTest"]

_NEVER = 2**63 - 1
ValueTest = tuple[str, Callable[[Any], Mask | None]]
"""What is wrong with a value, and a function that finds such values in a column."""


@dataclass(frozen=True)
class TimeLimits:
    """The ticks that an engine's clock can hold, and what to say of those outside."""

    least: int
    most: int
    too_early: str = "the time is out of range"
    too_late: str = "the time is out of range"
    latest: int = _NEVER
    """The ticks up to which a time is not too far ahead of the clock on the wall."""
    ahead: str = ""
    """How far that is, as people write it."""

    def within(self, other: TimeLimits) -> TimeLimits:
        """The intersection of both limits, with the messages of this one."""
        return replace(self, least=max(self.least, other.least), most=min(self.most, other.most))

    @property
    def greatest(self) -> int:
        """The greatest tick of a good row."""
        return min(self.most, self.latest)

    def holds(self, least: int, most: int) -> bool:
        """Whether all ticks from ``least`` to ``most`` are within the limits."""
        return self.least <= least and most <= self.greatest

    def faults(self, name: str, batch: pa.RecordBatch, ticks: Ints, timed: Mask) -> Faults | None:
        """The rows whose time is outside; ``timed`` tells which rows have a time at all."""
        early, late = timed & (ticks < self.least), timed & (ticks > self.most)
        ahead = timed & (ticks > self.latest)
        told = f"the time is more than {self.ahead} ahead of this machine's clock"
        tests = [(name, self.too_early, early), (name, self.too_late, late), (name, told, ahead)]
        return faults_of(batch, tests)


@dataclass(frozen=True)
class RowLimits:
    """What a job takes of its rows; any other row is bad."""

    ahead: int | None = None
    """How many microseconds a time may be ahead of the clock; None for any."""
    told: str = ""
    """The same as people write it."""
    values: tuple[ValueTest, ...] = ()
    """Tests of the values that answers show, for sinks that cannot hold all of them."""
