"""What only some algorithms can do: an engine asks for these methods where it needs them.

An algorithm has a capability if it has the methods; there is nothing to declare. Each belongs to
one family or two, and the rest of the package does without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from skyband.arrays import Codes, Saved
from skyband.contract.checks import QuickTests
from skyband.contract.rows import Faults, Windows
from skyband.contract.runs import Runs

__all__ = [
    "AnswerFold", "GroupForgetting", "IdRanking", "LeanSummaries", "PaneShrinking",
    "Preparation", "QuickValidation", "ReaderFold", "RowAdmission", "WeightLimit",
]  # fmt: skip


@runtime_checkable
class QuickValidation(Protocol):
    """Good rows can be told by a few passes over columns, without masks."""

    def quick_tests(self, source: str) -> QuickTests | None:
        """For columns that may hold bad values: a test that all of a few values are good.

        ``validate`` finds no bad row among rows without nulls that pass. Tests get fixed-width
        values as a numpy array, others as an Arrow array. A class that overrides ``validate``
        overrides this, too. None if bad rows cannot be found this way.
        """


@runtime_checkable
class ReaderFold(Protocol):
    """One instance answers several queries that differ only in k and in the size of windows."""

    def serve(self, queries: Sequence[Any]) -> None:
        """Answer these queries; the synopsis's own has their greatest k and longest window.

        Called before all else, if there are several, and when some of them go.
        """

    def fold_readers(self, panes: Runs, windows: Sequence[Windows]) -> list[Runs | None]:
        """As ``Synopsis.fold``, with the windows of each query that ``serve`` named."""


@runtime_checkable
class AnswerFold(Protocol):
    """Where there is one shard, folding and finishing in one step is cheaper."""

    def answers(self, panes: Runs, windows: Windows) -> Runs | None:
        """What ``finish`` makes of the result of ``fold``, for a state that has all rows."""


@runtime_checkable
class GroupForgetting(Protocol):
    """A state of many groups drops those without live rows."""

    def forget(self, groups: Codes) -> None:
        """Drop groups without live rows; their codes may be reused for other groups."""


@runtime_checkable
class RowAdmission(Protocol):
    """Rows may turn out to be bad only alongside live rows, when their pane is sealed."""

    def admit(self, runs: Runs) -> tuple[Runs, Faults | None]:
        """A final check of sealed panes, before they are folded.

        It may read the state but must not change it. Faults refer to rows in the order of the runs.
        """

    def savepoint(self) -> Saved | None:
        """A copy of the state, if ``fold`` may raise halfway; None if it cannot."""


@runtime_checkable
class IdRanking(Protocol):
    """It knows where any live id stands, for ``Monitor.position``."""

    def position(
        self, first: int, end: int, group: int, key: Sequence[pa.Array]
    ) -> tuple[int, Any, int] | None:
        """The rank and value of an id over the live panes ``[first, end)``, and how many there are.

        ``key`` holds the id's columns, of one row. None if the id is not live.
        """


@runtime_checkable
class PaneShrinking(Protocol):
    """Rows of sealed panes turn out to be in no answer, so that less of them need be stored."""

    def needed_rows(self) -> dict[int, int] | None:
        """How many rows of each sealed pane may still be in an answer; None if all may."""

    def shrunk(self, runs: Runs) -> Runs:
        """A sealed pane's summary with nothing more of other rows than ``fold`` needs of them.

        Folding what is left, as it is or shrunk again, gives the same answers.
        """


@runtime_checkable
class WeightLimit(Protocol):
    """The weight of a window has to be counted in whole numbers."""

    def check_weight(self, weight: int, summaries: Sequence[Runs]) -> None:
        """Raise DataError if a window of this weight cannot be; summaries are for the message."""


@runtime_checkable
class Preparation(Protocol):
    """What summaries hold depends on what happens to them."""

    def prepare(self, stored: bool = False, late: bool = False, positions: bool = False) -> None:
        """Called before all else.

        ``stored`` summaries live as long as their panes, so they hold no rows as they came. If rows
        may turn out to be ``late`` after they are summarised, none is left out because of another
        pane. ``positions`` means that ``position`` may be called.
        """


@runtime_checkable
class LeanSummaries(Protocol):
    """A summary may hold what no answer can show."""

    def lean(self, runs: Runs) -> Runs:
        """Summaries without that, before they travel.

        Called only where the first bad row ends the query, once per partition of a batch.
        """
