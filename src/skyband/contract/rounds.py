"""Windows that several queries ask for in one round of moves, and that are read together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from skyband.contract.rows import Windows
from skyband.contract.runs import Runs

__all__ = ["Rounds"]

R = TypeVar("R")


class Rounds(Generic[R]):
    """What readers will ask for in this round, and what was read for those that have not asked."""

    def __init__(self) -> None:
        self._round: object = None
        self._expected: dict[R, Windows] = {}
        self._ready: dict[R, Runs] = {}

    def expect(self, round_: object, reader: R, windows: Windows) -> None:
        """A reader will ask for these windows in this round."""
        if round_ is not self._round:
            self._round, self._expected, self._ready = round_, {}, {}
        if len(windows):
            self._expected[reader] = windows

    def read(
        self, reader: R, windows: Windows, answer: Callable[[dict[R, Windows]], dict[R, Runs]]
    ) -> Runs:
        """What a reader's windows hold; ``answer`` reads them with all others that are expected."""
        if reader not in self._ready:
            due, self._expected = self._expected | {reader: windows}, {}
            self._ready |= answer(due)
        return self._ready.pop(reader)
