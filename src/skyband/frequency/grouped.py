"""Integer counts of very many groups: the state of ``exact`` for windows of several panes."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Array, Codes, Saved, State, grown
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs
from skyband.frequency.group_lists import GroupLists
from skyband.frequency.items import ItemColumns
from skyband.kernels.frequency.grouped import (
    HEAD,
    LIVE,
    PLACES,
    TAIL,
    TOP,
    Blocks,
    Entries,
    fold_groups,
)

__all__ = ["GroupSums", "GroupedCounts"]

_NONE = np.zeros(0, np.int64)


class GroupSums:
    """The sums of each (group, item) over some panes of lists, one block per group."""

    def __init__(self, first: int = 0) -> None:
        """Sums over no panes yet; ``first`` is the place of the first one that is needed."""
        few = np.zeros(0, np.int32)
        self.blocks = Blocks(_NONE, _NONE, _NONE, few, few, _NONE)
        self.place = np.zeros(PLACES, np.int64)
        self.place[[HEAD, TAIL]] = first

    def __len__(self) -> int:
        return int(self.place[LIVE])

    @property
    def nbytes(self) -> int:
        return sum(int(each.nbytes) for each in self.blocks)

    def run(
        self, lists: GroupLists, item_refs: Codes, windows: Windows, k: int
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Take the panes of the lists, and read windows: see ``fold_groups``."""
        begin, rooms, sizes = (grown(each, lists.groups) for each in self.blocks[:3])
        code, value = lists.entries["code"], lists.entries["value"]
        found = fold_groups(
            Entries(lists.pane, lists.cuts, lists.runs["owner"], lists.offsets, code, value),
            item_refs,
            Blocks(begin, rooms, sizes, *self.blocks[3:]),
            self.place, windows.first, windows.end, lists.sequence(len(begin), windows.ranks),
            lists.order_key, k, lists.item_type.decided,
        )  # fmt: skip
        self.blocks = Blocks(begin, rooms, sizes, *found[:3])
        return found[3:]

    def dropped(self, panes: int) -> None:
        """The first panes of the lists, which it does not hold any more, are gone."""
        self.place[HEAD] -= panes
        self.place[TAIL] -= panes

    def _check(self, lists: GroupLists) -> None:
        begin, rooms, sizes, codes, refs, sums = self.blocks
        low, high = lists.cuts[self.place[HEAD]], lists.cuts[self.place[TAIL]]
        first, stop = lists.offsets[low], lists.offsets[high]
        owner = np.repeat(lists.runs["owner"], np.diff(lists.offsets))[first:stop].tolist()
        code = lists.entries["code"][first:stop].tolist()
        value = lists.entries["value"][first:stop].tolist()
        wanted: dict[tuple[int, int], list[int]] = {}
        for g, c, v in zip(owner, code, value, strict=True):
            held = wanted.setdefault((g, c), [0, 0])
            held[0] += 1
            held[1] += v
        found = {}
        for g in range(len(begin)):
            low, high = int(begin[g]), int(begin[g] + rooms[g])
            used = low + np.flatnonzero(refs[low:high])
            assert len(used) == sizes[g]
            assert high <= self.place[TOP] or not rooms[g]
            for at in used.tolist():
                found[g, int(codes[at])] = [int(refs[at]), int(sums[at])]
        assert found == wanted
        assert len(found) == self.place[LIVE]


class GroupedCounts(GroupLists):
    """Keeps the window's sum of each (group, item), one block per group, and the live panes' lists.

    Cost: O(1) per list entry when its pane arrives and when it expires, and one pass over the
    groups' blocks per window. State: 16 bytes per entry of a block, 12 bytes per list entry on the
    tape, and each item once.
    """

    def __init__(self, item_type: ItemColumns, k: int) -> None:
        super().__init__(item_type, k)
        self.sums = GroupSums()

    def __len__(self) -> int:
        return len(self.sums)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.sums.nbytes

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        self._append(panes)
        code, total, group, end, per_window = self._run(windows)
        answers = None
        if len(windows):
            number = np.repeat(windows.number, per_window)
            answers = self._answers(number, group, self._best(end, code, total))
        gone = int(self.sums.place[HEAD])
        if gone:
            self._drop(gone)
            self.sums.dropped(gone)
        return answers

    def _run(self, windows: Windows) -> tuple[Array, Array, Array, Array, Array]:
        before = len(self)
        found = self.sums.run(self, self.item_refs, windows, self.k)
        self.inserts += max(0, len(self) - before)
        return found

    # State ------------------------------------------------------------------------------------

    def state(self) -> State:
        """Flat arrays for a snapshot: the live panes, from which blocks are rebuilt."""
        return super().state()

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        counts = self.inserts, self.removals, self.updates
        self.sums = GroupSums()
        self._run(Windows(_NONE, _NONE, _NONE, _NONE))
        self.inserts, self.removals, self.updates = counts

    def _check(self) -> None:
        super()._check()
        self.sums._check(self)
