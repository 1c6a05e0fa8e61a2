"""What a synopsis can do together with those of other queries of a board; by default, nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from skyband.contract.rows import Windows
from skyband.contract.runs import PaneFeed, Runs

__all__ = ["Together"]


class Together:
    """Keeping one state with queries that differ only in k, window and slide."""

    state_name: str = "state"
    """What ``explain`` calls the state that queries of a board keep together."""
    unites_groups: ClassVar[bool] = False
    """Whether such a state holds many groups."""
    unites_counts: ClassVar[bool] = False
    """Whether it holds groups that each count their own arrivals."""

    @classmethod
    def unites(cls, query: Any) -> bool:
        """Whether those that share summaries, panes and lateness with this one keep one state."""
        return False

    def unite(self, others: Sequence[Any]) -> None:
        """Keep one state with others of this class, which see the same panes from now on.

        Each still answers, and saves, only what is its own. It may leave all as they are, if their
        columns or their states do not allow it.
        """

    @classmethod
    def recuts(cls, query: Any) -> bool:
        """Whether queries of the same lateness keep one state although their panes differ."""
        return False

    def recut(self, others: Sequence[Any], feed: PaneFeed, sealed: Sequence[Any]) -> bool:
        """Like ``unite``, where panes may differ; False if columns do not allow it.

        Panes come from the feed, cut wherever a window of any query begins or ends. ``sealed`` are
        the times up to which each query has sealed its panes; if groups count their own arrivals,
        an array with one for each group.
        """
        return False

    def kept_together(self) -> Runs | None:
        """The panes that queries keep together since ``recut``, stamped with their times."""
        return None

    def expect(self, round_: object, windows: Windows) -> None:
        """These windows will be asked for in this round of moves, which has other queries, too.

        All synopses of a board are told before any of them folds, so that those that keep one
        state can read all their windows in one pass.
        """

    def part(self) -> None:
        """Undo ``unite`` or ``recut`` for this one: it may see other panes than the others now."""
