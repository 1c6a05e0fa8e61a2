"""Integer counts of very many groups: a state of ``exact``.

The lists of the live panes, by (pane, group), and the items in them are kept once, as long as the
longest window needs them; an item has one code for all groups. Each size of window has sums of its
own: one block of (item, sum) per group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyband.arrays import Array, Ints, Saved, State, grown
from skyband.contract.rows import NO_WINDOWS, Windows
from skyband.contract.runs import Part, Runs, offsets_of, run_starts
from skyband.data.flat_state import Form, admitted, require
from skyband.frequency.items import GroupOrder, ItemCodes, ItemColumns
from skyband.frequency.kernels.grouped import (
    HEAD,
    LIVE,
    PLACES,
    TAIL,
    TOP,
    Blocks,
    Entries,
    fold_groups,
)
from skyband.frequency.kernels.pane_sums import recount
from skyband.frequency.tape import Tape

__all__ = ["GroupedCounts"]

_NONE = np.zeros(0, np.int64)


class GroupSums:
    """The sums of each (group, item) over the window of one size, one block per group."""

    def __init__(self, k: int, first: int = 0) -> None:
        """Sums over no panes yet; ``first`` is the place of the first one in the lists."""
        self.k = k
        few = np.zeros(0, np.int32)
        self.blocks = Blocks(_NONE, _NONE, _NONE, few, few, _NONE)
        self.place = np.zeros(PLACES, np.int64)
        self.place[[HEAD, TAIL]] = first

    def __len__(self) -> int:
        return int(self.place[LIVE])

    @property
    def nbytes(self) -> int:
        return sum(int(each.nbytes) for each in self.blocks)

    def run(self, lists: GroupedCounts, windows: Windows) -> tuple[Array, ...]:
        """Take all panes of the lists, and read windows: see ``fold_groups``."""
        begin, rooms, sizes = (grown(each, lists.groups) for each in self.blocks[:3])
        items, entries = lists.items, lists.entries
        code, value, owner = entries["code"], entries["value"], lists.runs["owner"]
        answers = fold_groups(
            Entries(lists.pane, lists.cuts, owner, lists.offsets, code, value),
            Blocks(begin, rooms, sizes, *self.blocks[3:]),
            self.place, windows.first, windows.end, lists.order.of(len(begin), windows.ranks),
            items.order_key, self.k, items.item_type.decided,
        )  # fmt: skip
        self.blocks = Blocks(begin, rooms, sizes, *answers[:3])
        return answers[3:]

    def _check(self, lists: GroupedCounts) -> None:
        begin, rooms, sizes, codes, refs, sums = self.blocks
        assert 0 <= self.place[HEAD] <= self.place[TAIL] == len(lists.pane)
        first, stop = lists.offsets[lists.cuts[self.place[[HEAD, TAIL]]]]
        owner = np.repeat(lists.runs["owner"], np.diff(lists.offsets))[first:stop].tolist()
        code = lists.entries["code"][first:stop].tolist()
        value = lists.entries["value"][first:stop].tolist()
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
        assert len(there) == len(self)


class GroupedCounts:
    """Keeps the lists of the live panes, and the window's sum of each (group, item).

    Cost: O(1) per list entry when its pane arrives and, for each size of window, when it enters and
    leaves the window; and one pass over the groups' blocks per window. State: 12 bytes per entry of
    a list and each item once, and for each size of window 16 bytes per entry of a block.
    """

    def __init__(self, item_type: ItemColumns, ks: Sequence[int]) -> None:
        """``ks`` say how many items the windows of each size show; the first is the longest."""
        self.items, self.order = ItemCodes(item_type), GroupOrder()
        none, few = np.zeros(0, np.int64), np.zeros(0, np.int32)
        self.entries, self.runs = Tape({"code": few, "value": none}), Tape({"owner": few})
        self.offsets, self.cuts, self.pane = np.zeros(1, np.int64), np.zeros(1, np.int64), none
        self.groups = 0
        """All codes of groups are below this number."""
        self.sums = [GroupSums(k) for k in ks]
        self.inserts = self.removals = self.updates = 0

    def __len__(self) -> int:
        return len(self.sums[0])

    @property
    def most(self) -> int:
        """The most items that the windows of any size show."""
        return max(sums.k for sums in self.sums)

    @property
    def nbytes(self) -> int:
        arrays = sum(int(each.nbytes) for each in (self.offsets, self.cuts, self.pane))
        lists = self.items.nbytes + self.entries.nbytes + self.runs.nbytes
        return arrays + lists + sum(sums.nbytes for sums in self.sums)

    def stats(self) -> dict[str, int | float]:
        """The state's size and the operation counts."""
        counts = {"inserts": self.inserts, "removals": self.removals, "updates": self.updates}
        return {"retained": len(self), "state_bytes": self.nbytes, **counts}

    def keep(self, sizes: Sequence[int], ks: Sequence[int]) -> None:
        """Go on with the windows of some of the sizes only, which show so many items."""
        self.sums = [self.sums[i] for i in sizes]
        for sums, k in zip(self.sums, ks, strict=True):
            sums.k = k
        self._expire()

    # Panes ------------------------------------------------------------------------------------

    def fold(self, panes: Runs, windows: Sequence[Windows]) -> list[Runs | None]:
        """Take panes, and read the windows of each size."""
        before = len(self)
        self._append(panes)
        answers = [self._read(sums, own) for sums, own in zip(self.sums, windows, strict=True)]
        self.inserts += max(0, len(self) - before)
        self._expire()
        return answers

    def _append(self, panes: Runs) -> None:
        part, stamp = panes.parts["items"], panes.stamp
        codes, _, _ = self.items.take(self.items.item_type.hashes(part), part)
        self.updates += len(codes)
        if not len(stamp):
            return
        self.groups = max(self.groups, int(panes.group.max()) + 1)
        changed = run_starts(stamp)
        starts = np.append(changed[1:], len(stamp)) + len(self.runs)
        self.cuts = np.concatenate([self.cuts, starts])
        self.pane = np.concatenate([self.pane, stamp[changed]])
        self.offsets = np.concatenate([self.offsets, self.offsets[-1] + part.offsets[1:]])
        self.runs.append(owner=panes.group)
        self.entries.append(code=codes, value=part["count"])

    def _expire(self) -> None:
        """Drop the panes that have left the windows of all sizes."""
        gone = min(int(sums.place[HEAD]) for sums in self.sums)
        if not gone:
            return
        runs = int(self.cuts[gone])
        entries = int(self.offsets[runs])
        self.items.drop(self.entries["code"][:entries])
        self.removals += entries
        self.entries.drop(entries)
        self.runs.drop(runs)
        self.pane, self.cuts = self.pane[gone:], self.cuts[gone:] - runs
        self.offsets = self.offsets[runs:] - entries
        for sums in self.sums:
            sums.place[[HEAD, TAIL]] -= gone

    # Answers ----------------------------------------------------------------------------------

    def _read(self, sums: GroupSums, windows: Windows) -> Runs | None:
        code, total, group, end, per_window = sums.run(self, windows)
        if not len(windows):
            return None
        return self._answers(np.repeat(windows.number, per_window), group, end, code, total)

    def _answers(self, number: Ints, group: Array, end: Ints, code: Array, total: Array) -> Runs:
        offsets = offsets_of(np.diff(end, prepend=0))
        part = Part(offsets, {"count": total, **self.items.store.gather(code)})
        return Runs(number, group, {"items": self.items.item_type.ranked(part, self.most)})

    def _between(self, first: int, end: int, group: int | None = None) -> tuple[Array, Part]:
        """The runs of the panes ``[first, end)``: the group of each, and its entries."""
        low, high = self.cuts[np.searchsorted(self.pane, [first, end])].tolist()
        run, owner = np.arange(low, high), self.runs["owner"][low:high]
        if group is not None:
            run, owner = run[owner == group], owner[owner == group]
        order = np.argsort(owner, kind="stable")
        part = Part(self.offsets, {name: self.entries[name] for name in ("code", "value")})
        return owner[order], part.take(run[order])

    def partial(self, first: int, end: int, group: int | None) -> Runs:
        """The best items of each group over the live panes ``[first, end)``."""
        owner, part = self._between(first, end, group)
        cuts, items = run_starts(owner), self.items
        starts, stops = part.offsets[cuts], part.offsets[np.append(cuts[1:], len(owner))]
        code, total, ends, _ = recount(
            part["code"], part["value"].reshape(-1, 1), starts, stops[: len(cuts)],
            np.full(len(cuts), self.most), items.order_key, items.item_type.decided,
        )  # fmt: skip
        return self._answers(np.zeros(len(cuts), np.int64), owner[cuts], ends, code, total[:, 0])

    def totals(self, first: int, end: int, group: int) -> Part:
        """The counts of all items of a group over the live panes ``[first, end)``, in any order."""
        _, part = self._between(first, end, group)
        return self.items.summed(part["code"], part["value"])

    # State ------------------------------------------------------------------------------------

    def state(self) -> State:
        """Flat arrays for a snapshot: the live panes, from which blocks are made again."""
        return self.items.state() | self.entries.state() | self.runs.state() | {
            "offsets": self.offsets, "cuts": self.cuts, "pane": self.pane,
            "heads": np.array([sums.place[HEAD] for sums in self.sums]),
            "counts": np.array([self.inserts, self.removals, self.updates], np.int64),
        }  # fmt: skip

    def restore(self, arrays: Saved) -> None:
        """Restore from a snapshot."""
        like = {name: self.entries[name] for name in ("code", "value")}
        like |= {"owner": self.runs["owner"], "offsets": self.offsets, "cuts": self.cuts}
        like |= dict.fromkeys(("pane", "heads", "counts"), _NONE)
        runs, panes = (len(arrays[name]) for name in ("owner", "pane"))
        saved = admitted(arrays, like, {
            "code": Form("entries"), "value": Form("entries"), "owner": Form("runs", 0),
            "offsets": Form(runs + 1, 0, ascends=True), "cuts": Form(panes + 1, 0, ascends=True),
            "pane": Form("panes", ascends=True), "counts": Form(3),
            "heads": Form(len(self.sums), 0, panes + 1),
        })  # fmt: skip
        self.entries = Tape({name: saved[name] for name in ("code", "value")})
        self.runs = Tape({"owner": saved["owner"]})
        self.items.restore(arrays, self.entries["code"])
        self.offsets, self.cuts, self.pane = (saved[name] for name in ("offsets", "cuts", "pane"))
        ends = self.offsets[0], self.offsets[-1], self.cuts[0], self.cuts[-1]
        require(ends == (0, len(self.entries), 0, runs), "entries of no pane")
        self.groups = int(saved["owner"].max(initial=-1)) + 1
        self.inserts, self.removals, self.updates = saved["counts"].tolist()
        heads = zip(self.sums, saved["heads"].tolist(), strict=True)
        self.sums = [GroupSums(sums.k, head) for sums, head in heads]
        for sums in self.sums:
            sums.run(self, NO_WINDOWS)

    def _check(self) -> None:
        self.items._check(self.entries["code"])
        assert len(self.pane) == len(self.cuts) - 1
        assert len(self.runs) == len(self.offsets) - 1 == self.cuts[-1]
        assert self.offsets[-1] == len(self.entries)
        assert (np.diff(self.pane) > 0).all()
        for sums in self.sums:
            sums._check(self)
