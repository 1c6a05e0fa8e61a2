"""For algorithms whose queries keep one state: what they have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self, TypeVar

import numpy as np

from skyband.arrays import Saved
from skyband.contract.one_state import OneState, Reader
from skyband.contract.rows import Windows
from skyband.contract.runs import PaneFeed, Runs
from skyband.contract.synopsis import Synopsis
from skyband.query.base import Query

__all__ = ["NO_WINDOWS", "Uniting"]

Q = TypeVar("Q", bound=Query)

_NONE = np.zeros(0, np.int64)
NO_WINDOWS = Windows(_NONE, _NONE, _NONE, _NONE)


class Uniting(Synopsis[Q]):
    """A synopsis that has a state of its own, or keeps one with others (``one``)."""

    one: OneState | None = None
    place: int = 0
    """Which of its readers this is."""

    @classmethod
    def recuts(cls, query: Any) -> bool:
        return (cls.unites_groups or not query.groups) and not query.window.panes.gaps

    def recut(self, others: Sequence[Self], feed: PaneFeed, sealed: Sequence[Any]) -> bool:
        members = [self, *others]
        readers = [Reader(each.query.window.panes, getattr(each.query, "k", 0)) for each in members]
        one = self.one_state(readers, feed)
        for place, each in enumerate(members):
            each.start()  # its own state is empty from now on
            each.one, each.place = one, place
        one.begin(sealed)
        return True

    @abstractmethod
    def one_state(self, readers: Sequence[Reader], feed: PaneFeed) -> OneState:
        """An empty state for several queries."""

    def expect(self, round_: object, windows: Windows) -> None:
        if self.one is not None:
            self.one.expect(round_, self.place, windows)

    def kept_together(self) -> Runs | None:
        return None if self.one is None or self.one.recent is None else self.one.rows()

    def alone(self) -> Self:
        """A synopsis of the same query, with its own part of the common state."""
        own = type(self)(self.query)
        own.bind("", self.schema)
        panes = self.own_panes()
        if panes is not None:
            own.fold(panes, NO_WINDOWS)
        return own

    def own_panes(self) -> Runs | None:
        """This query's part of the common state, in its own panes; None if there are no rows."""
        assert self.one is not None
        runs = self.one.rows_of(self.place)
        if runs is None or not len(runs):
            return None
        return self.combine(runs) if runs.repeats.any() else self.narrowed(runs)

    def part(self) -> None:
        if self.one is not None:
            self.restore(self.snapshot())

    def restore(self, arrays: Saved) -> None:
        self.one = None
        super().restore(arrays)
