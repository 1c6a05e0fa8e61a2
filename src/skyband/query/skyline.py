"""Skylines: the rows that no other row dominates, of one stream or of two joined streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from skyband.errors import QueryError
from skyband.query.base import Query
from skyband.query.checks import ColumnNames, column, columns, counts, preferences
from skyband.window import CountWindow, SideWindows


@dataclass(frozen=True, kw_only=True)
class Skyline(Query):
    """The rows of the window that no other row dominates.

    Args:
        prefer: For each column or expression, ``"min"``, ``"max"`` or ``"diff"``.
        window: A window, such as ``TimeWindow("10 minutes", slide="1 minute")``.
        id: Column that identifies a row.
        by: Columns that split the stream into groups, each with a skyline of its own.

    A row dominates another if it is at least as good in every ``"min"`` or ``"max"`` column, better
    in at least one of them, and equal in every ``"diff"`` column.
    """

    kind: ClassVar[str] = "Skyline"
    ranked: ClassVar[bool] = False

    prefer: Mapping[str, str]
    id: str | None = None
    time: str | None = None
    by: ColumnNames = ()

    def shown(self, seen: Sequence[str]) -> tuple[str | None, ...]:
        return (*seen, *self.prefer, self.id, self.time)

    @property
    def expressions(self) -> tuple[str, ...]:
        return tuple(self.prefer)

    def _validate(self) -> None:
        object.__setattr__(self, "prefer", preferences(self.prefer))
        column("id", self.id, optional=True)
        column("time", self.time, optional=True)


@dataclass(frozen=True, kw_only=True)
class SkylineJoin(Query):
    """The skyline of the join of two streams' live windows.

    Args:
        left: Name of the left source.
        right: Name of the right source.
        on: Column or columns to join on.
        prefer: For each column or expression, ``"min"``, ``"max"`` or ``"diff"``.
        window: A TimeWindow, or one for each side by name; the two may differ only in size.
        layers: In how many layers lsj reuses work; by default wherever that pays off.

    Two rows join if they are equal in every ``on`` column. A column that both sides have is called
    ``side_column``, such as ``trades_ts``. If the windows differ in size, an answer starts where
    the longer one does.
    """

    kind: ClassVar[str] = "SkylineJoin"
    settings: ClassVar[tuple[str, ...]] = ("layers",)
    ranked: ClassVar[bool] = False

    left: str
    right: str
    on: ColumnNames
    prefer: Mapping[str, str]
    window: Any
    time: str | Mapping[str, str] | None = None
    layers: int | None = None

    def shown(self, seen: Sequence[str]) -> tuple[str | None, ...]:
        return (*columns("on", self.on), *self.prefer)

    @property
    def expressions(self) -> tuple[str, ...]:
        return tuple(self.prefer)

    def _check_window(self) -> None:
        column("left", self.left)
        column("right", self.right)
        window = self.window
        if isinstance(window, Mapping):
            if set(window) != {self.left, self.right}:
                raise QueryError(
                    f"window must be one TimeWindow, or name both sides: {{{self.left!r}: ..., "
                    f"{self.right!r}: ...}}; got {', '.join(map(repr, window)) or 'nothing'}"
                )
            ordered = SideWindows({side: window[side] for side in self.sources})
            object.__setattr__(self, "window", ordered)
        super()._check_window()

    def _validate(self) -> None:
        if self.left == self.right:
            raise QueryError(
                "left and right must differ; for a self-join, give the same table under two names"
            )
        names = columns("on", self.on)
        object.__setattr__(self, "on", self.on if isinstance(self.on, str) else names)
        object.__setattr__(self, "prefer", preferences(self.prefer))
        counts(self, "layers", optional=True)
        if isinstance(self.window, CountWindow):
            raise QueryError(
                "SkylineJoin takes a TimeWindow: two sources have no common count of arrivals; "
                "number the rows and use that integer column as time"
            )

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.left, self.right)

    @property
    def needs_mapping(self) -> bool:
        return True
