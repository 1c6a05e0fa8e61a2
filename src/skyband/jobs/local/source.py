"""What a source of a local job can do. What was read once can be read again from the same place.

A place is a plain value that is kept in the checkpoint. ``take`` reads the next batch and tells
where it ends; ``again`` reads the rows between two places once more, after a crash.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from skyband.data.letters import LETTERS

__all__ = ["LocalSource", "Needed", "Place"]

Place: TypeAlias = Any
Needed: TypeAlias = Callable[[pa.Schema], Sequence[str] | None]
"""From the columns that there are to those that are needed; None for all of them."""


class LocalSource(ABC):
    """Reads one source of a job, batch by batch."""

    where: str
    """The name that messages use for this source."""
    first: Place
    """Where a new job begins to read."""

    def asked(self, needed: Needed, time: str | None) -> None:  # noqa: B027
        """Told once which columns the queries need, and the column of their times, if one.

        A source may read fewer columns then, and what it finds in the order of time.
        """

    @abstractmethod
    def take(self, place: Place, last: bool) -> tuple[pa.Table, Place] | None:
        """The next batch and where it ends; None if there is nothing new at the moment.

        ``last`` means that nothing will come later, so that nothing is left waiting.
        """

    @abstractmethod
    def again(self, begin: Place, end: Place) -> pa.Table:
        """The rows between two places, as they were read before."""

    def origin(self) -> dict[str, pa.Array]:
        """Where each row of the last batch came from, as columns of a dead letter."""
        return {}

    def unread(self) -> pa.Table:
        """Letters for the records of the last batch that could not be read."""
        return LETTERS.empty_table()

    def close(self) -> None:  # noqa: B027 - most sources have nothing to close
        """Let go of files and connections."""
