"""One set of pane counts for queries whose panes differ: a state of ``exact``.

Lists are those of ``shared_counts``, but cut wherever a window of any query begins or ends, and
numbered by the time at which they begin:

    windows of a      ├───────┼───────┼───────┤
    windows of b      ├─────┼─────┼─────┼─────┤
    shared lists      ├─────┼─┼───┼───┼─┼─────┤

They come from a feed, when the first query has sealed a pane that holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.arrays import Array, Ints
from skyband.contract.rows import Windows
from skyband.contract.runs import PaneFeed, Part, Runs
from skyband.data.keys import hash_columns
from skyband.frequency.pane_sums import PaneSums
from skyband.frequency.shared_counts import NEVER, OwnView, SharedLists
from skyband.panes import Panes

__all__ = ["RecutView", "share_recut"]


def share_recut(
    counts: Sequence[PaneSums], panes: Sequence[Panes], feed: PaneFeed, sealed: Sequence[int]
) -> list[RecutView]:
    """Views of one set of lists, one for each of these states, which come from the feed again."""
    first = counts[0]
    lists = RecutLists(PaneSums(first.item_type, first.k, first.dtype, grouped=False), feed)
    lists.inserts, lists.removals, lists.updates = first.inserts, first.removals, first.updates
    each = zip(counts, panes, sealed, strict=True)
    views = [RecutView(lists, state, own, upto) for state, own, upto in each]
    lists.pull(max(sealed))
    return views


class RecutLists(SharedLists):
    """Lists that come from a feed."""

    def __init__(self, counts: PaneSums, feed: PaneFeed) -> None:
        super().__init__(counts)
        self.feed = feed

    def pull(self, time: int) -> None:
        """Take the panes that begin before ``time``."""
        if time > self.newest and (panes := self.feed.upto(time)) is not None:
            self.take(panes)

    def panes(self) -> Runs:
        """All lists, as they came from the feed."""
        columns: dict[str, Any] = dict(self.store.gather(self.tape["code"]))
        if not self.item_type.raw:
            hashes = hash_columns(list(columns.values()))
            columns = {"hash": hashes} | columns
        columns["count"] = self.tape["value"][:, 0].copy()
        part = Part(self.starts.copy(), columns)
        return Runs(self.pane.copy(), np.zeros(len(self.pane), np.int32), {"items": part})


class RecutView(OwnView):
    """What one query reads from such lists."""

    lists: RecutLists

    def __init__(self, lists: RecutLists, counts: PaneSums, panes: Panes, upto: int) -> None:
        self.panes = panes
        self.upto = upto
        """The end of the last pane that this query has taken."""
        super().__init__(lists, counts)
        self.needed = upto - panes.size if upto != NEVER else NEVER

    def on_tape(self, pane: Any) -> Any:
        return self.panes.pane_start(pane)

    def _take(self, panes: Runs, windows: Windows) -> None:
        ends = [int(panes.stamp[-1]) + 1] if len(panes) else []
        ends += [int(windows.end[-1])] if len(windows) else []
        if ends:
            self.upto = max(self.upto, int(self.on_tape(max(ends))))
            self.lists.pull(self.upto)

    def __len__(self) -> int:
        if self.upto == NEVER:
            return 0
        low, high = self.lists.between(self.needed, self.upto)
        return len(np.unique(self.lists.tape["code"][low:high]))

    def _own_lists(self) -> tuple[Array, Array, Ints, Ints]:
        lists = self.lists
        first, end = np.searchsorted(lists.pane, [self.needed, self.upto])
        low, high = lists.starts[first], lists.starts[end]
        code, value = lists.tape["code"][low:high], lists.tape["value"][low:high]
        panes, own = np.unique(self.panes.pane_of(lists.pane[first:end]), return_inverse=True)
        known = max(lists.index.bound, 1)
        key = np.repeat(own, np.diff(lists.starts[first : end + 1])) * known + code
        keys, entry = np.unique(key, return_inverse=True)
        sums = np.zeros((len(keys), 1), lists.dtype)
        np.add.at(sums, entry, value)
        starts = np.searchsorted(keys, np.arange(len(panes) + 1) * known)
        return (keys % known).astype(np.int32), sums, panes, starts
