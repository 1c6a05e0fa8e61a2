"""Integer sums of very many groups: one block of (item, sum) for each group; see ``PaneSums``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.arrays import grown
from skyband.contract.rows import Windows
from skyband.frequency.kernels.block_sums import (
    HEAD,
    LIVE,
    PLACES,
    TAIL,
    TOP,
    Blocks,
    Entries,
    fold_groups,
)

if TYPE_CHECKING:
    from skyband.frequency.pane_sums import PaneSums

_NONE = np.zeros(0, np.int64)


class BlockSums:
    """The sums of each (group, item) over the window of one size, one block per group.

    State: 16 bytes per slot of a block.
    """

    def __init__(self, k: int, first: int = 0) -> None:
        """Sums over no panes yet; ``first`` is the place of the first one in the lists."""
        self.k = k
        few = np.zeros(0, np.int32)
        self.blocks = Blocks(_NONE, _NONE, _NONE, few, few, _NONE)
        self.place = np.zeros(PLACES, np.int64)
        self.place[[HEAD, TAIL]] = first

    @property
    def nbytes(self) -> int:
        return sum(int(each.nbytes) for each in self.blocks)

    @property
    def head(self) -> int:
        """The place of its first pane in the lists."""
        return int(self.place[HEAD])

    def live(self, lists: PaneSums) -> int:
        """How many items are counted, each once per group."""
        return int(self.place[LIVE])

    def show(self, k: int) -> None:
        """Answer with so many items from now on."""
        self.k = k

    def drop(self, panes: int) -> None:
        """These panes, which it has left, are no longer in the lists."""
        self.place[[HEAD, TAIL]] -= panes

    def run(self, lists: PaneSums, windows: Windows) -> tuple[Any, ...]:
        """Take all panes of the lists, and read windows; see ``fold_groups``."""
        owner, items, entries = lists.runs["owner"], lists.items, lists.entries
        groups = int(owner[lists.cuts[self.place[TAIL]] :].max(initial=-1)) + 1
        begin, rooms, sizes = (grown(each, groups) for each in self.blocks[:3])
        codes, refs, totals, code, value, group, end, per_window = fold_groups(
            Entries(
                lists.pane, lists.cuts, owner, lists.offsets, entries["code"],
                entries["value"].reshape(-1),
            ),
            Blocks(begin, rooms, sizes, *self.blocks[3:]),
            self.place, windows.first, windows.end, lists.sequence(len(begin), windows),
            items.order_key, self.k, items.item_type.decided,
        )  # fmt: skip
        self.blocks = Blocks(begin, rooms, sizes, codes, refs, totals)
        return code, [value], group, end, per_window, value[:0]

    def _check(self, lists: PaneSums) -> None:
        begin, rooms, sizes, codes, refs, sums = self.blocks
        assert 0 <= self.place[HEAD] <= self.place[TAIL] == len(lists.pane)
        first, stop = lists.offsets[lists.cuts[self.place[[HEAD, TAIL]]]]
        owner = np.repeat(lists.runs["owner"], np.diff(lists.offsets))[first:stop].tolist()
        code = lists.entries["code"][first:stop].tolist()
        value = lists.entries["value"][first:stop, 0].tolist()
        wanted: dict[tuple[int, int], list[int]] = {}
        for g, c, v in zip(owner, code, value, strict=True):
            held = wanted.setdefault((g, c), [0, 0])
            held[0] += 1
            held[1] += v
        there = {}
        for g in range(len(begin)):
            low, high = int(begin[g]), int(begin[g] + rooms[g])
            used = low + np.flatnonzero(refs[low:high])
            assert len(used) == sizes[g]
            assert high <= self.place[TOP] or not rooms[g]
            for at in used.tolist():
                there[g, int(codes[at])] = [int(refs[at]), int(sums[at])]
        assert there == wanted
        assert len(there) == self.live(lists)
