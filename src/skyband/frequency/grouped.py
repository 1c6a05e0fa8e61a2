"""Integer counts of very many groups: the state of ``exact`` for windows of several panes."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Array, Ints, Saved, State, grown
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, offsets_of, run_starts
from skyband.frequency.items import ItemColumns
from skyband.frequency.tape import Tape
from skyband.frequency.window_counts import CodedCounts
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
from skyband.kernels.frequency.pane_sums import dead_codes, recount

__all__ = ["GroupedCounts"]

_NONE = np.zeros(0, np.int64)
_BLOCKS = ("begin", "rooms", "sizes", "codes", "refs", "sums")


class GroupedCounts(CodedCounts):
    """Keeps the window's sum of each (group, item), one block per group, and the live panes' lists.

    Cost: O(1) per list entry when its pane arrives and when it expires, and one pass over the
    groups' blocks per window. State: 16 bytes per entry of a block, 12 bytes per list entry on the
    tape, and each item once.
    """

    by_code = ("order_key", "item_refs")
    saved_by_code = ("order_key",)

    def __init__(self, item_type: ItemColumns, k: int) -> None:
        super().__init__(item_type, k)
        self.item_refs = np.zeros(0, np.int32)
        none, few = np.zeros(0, np.int64), np.zeros(0, np.int32)
        self.entries, self.runs = Tape({"code": few, "value": none}), Tape({"owner": few})
        self.offsets, self.cuts, self.pane = np.zeros(1, np.int64), np.zeros(1, np.int64), none
        self.begin, self.rooms, self.sizes = none, none, none
        self.codes, self.refs, self.sums = few, few, none
        self.place = np.zeros(PLACES, np.int64)

    def __len__(self) -> int:
        return int(self.place[LIVE])

    @property
    def nbytes(self) -> int:
        owned = [getattr(self, name) for name in (*_BLOCKS, "offsets", "cuts", "pane")]
        return super().nbytes + sum(int(a.nbytes) for a in (*owned, self.entries, self.runs))

    # Panes ------------------------------------------------------------------------------------

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        self._append(panes)
        code, total, group, end, per_window = self._run(windows)
        answers = None
        if len(windows):
            number = np.repeat(windows.number, per_window)
            answers = self._answers(number, group, self._best(end, code, total))
        self._expire()
        return answers

    def _run(self, windows: Windows) -> tuple[Array, Array, Array, Array, Array]:
        sequence = self._sequence(len(self.begin), windows.ranks)
        before = int(self.place[LIVE])
        code, value = self.entries["code"], self.entries["value"]
        found = fold_groups(
            Entries(self.pane, self.cuts, self.runs["owner"], self.offsets, code, value),
            self.item_refs,
            Blocks(self.begin, self.rooms, self.sizes, self.codes, self.refs, self.sums),
            self.place, windows.first, windows.end, sequence, self.order_key, self.k,
            self.item_type.decided,
        )  # fmt: skip
        self.codes, self.refs, self.sums = found[:3]
        self.inserts += max(0, int(self.place[LIVE]) - before)
        return found[3:]

    def _append(self, panes: Runs) -> None:
        part, stamp, group = panes.parts["items"], panes.stamp, panes.group
        codes, _, _ = self._encode(self.item_type.hashes(part), part)
        self.updates += len(codes)
        if not len(stamp):
            return
        bound = int(group.max()) + 1
        for name in ("begin", "rooms", "sizes"):
            setattr(self, name, grown(getattr(self, name), bound))
        changed = run_starts(stamp)
        starts = np.append(changed[1:], len(stamp)) + len(self.runs)
        self.cuts = np.concatenate([self.cuts, starts])
        self.pane = np.concatenate([self.pane, stamp[changed]])
        self.offsets = np.concatenate([self.offsets, self.offsets[-1] + part.offsets[1:]])
        self.runs.append(owner=group)
        self.entries.append(code=codes, value=part["count"])

    def _expire(self) -> None:
        gone = int(self.place[HEAD])
        if not gone:
            return
        runs = int(self.cuts[gone])
        entries = int(self.offsets[runs])
        dead = dead_codes(self.entries["code"][:entries], self.item_refs)
        if len(dead):
            self.index.release(dead)
        self.removals += entries
        self.entries.drop(entries)
        self.runs.drop(runs)
        self.pane, self.cuts = self.pane[gone:], self.cuts[gone:] - runs
        self.offsets = self.offsets[runs:] - entries
        self.place[HEAD] -= gone
        self.place[TAIL] -= gone

    # Answers ----------------------------------------------------------------------------------

    def _best(self, end: Ints, code: Array, total: Array) -> Part:
        offsets = offsets_of(np.diff(end, prepend=0))
        return Part(offsets, {"count": total, **self.store.gather(code)})

    def partial(self, first: int, end: int, group: int | None) -> Runs:
        low, high = (int(self.cuts[at]) for at in np.searchsorted(self.pane, [first, end]))
        run = np.arange(low, high)
        owner = self.runs["owner"][low:high]
        if group is not None:
            run, owner = run[owner == group], owner[owner == group]
        order = np.argsort(owner, kind="stable")
        run, owner = run[order], owner[order]
        part = Part(self.offsets, {name: self.entries[name] for name in ("code", "value")})
        part = part.take(run)
        cuts = run_starts(owner)
        starts, stops = part.offsets[cuts], part.offsets[np.append(cuts[1:], len(owner))]
        code, total, ends, _ = recount(
            part["code"], part["value"].reshape(-1, 1), starts, stops[: len(cuts)],
            self.index.bound, self.order_key, self.k, self.item_type.decided,
        )  # fmt: skip
        best = self._best(ends, code, total[:, 0])
        return self._answers(np.zeros(len(cuts), np.int64), owner[cuts], best)

    def totals(self, first: int, end: int, group: int) -> Part:
        low, high = (int(self.cuts[at]) for at in np.searchsorted(self.pane, [first, end]))
        run = low + np.flatnonzero(self.runs["owner"][low:high] == group)
        part = Part(self.offsets, {name: self.entries[name] for name in ("code", "value")})
        part = part.take(run)
        return self._summed(part["code"], part["value"])

    # State ------------------------------------------------------------------------------------

    def state(self) -> State:
        """Flat arrays for a snapshot: the live panes, from which blocks are rebuilt."""
        counts = [self.inserts, self.removals, self.updates]
        return super().state() | self.entries.state() | self.runs.state() | {
            "offsets": self.offsets, "cuts": self.cuts, "pane": self.pane,
            "counts": np.array(counts, np.int64),
        }  # fmt: skip

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        self.item_refs = np.zeros(len(self.order_key), np.int32)
        self.entries = Tape({name: arrays[name] for name in ("code", "value")})
        self.runs = Tape({"owner": arrays["owner"]})
        self.offsets, self.cuts = arrays["offsets"].copy(), arrays["cuts"].copy()
        self.pane = arrays["pane"].copy()
        groups = int(arrays["owner"].max(initial=-1)) + 1
        self.begin, self.rooms, self.sizes = (np.zeros(groups, np.int64) for _ in range(3))
        self._run(Windows(_NONE, _NONE, _NONE, _NONE))
        self.inserts, self.removals, self.updates = arrays["counts"].tolist()

    def _check(self) -> None:
        self.index._check()
        code, value = self.entries["code"], self.entries["value"]
        known = self.index.bound
        assert len(self.pane) == len(self.cuts) - 1
        assert len(self.runs) == len(self.offsets) - 1 == self.cuts[-1]
        assert self.offsets[-1] == len(code)
        assert (np.diff(self.pane) > 0).all()
        assert np.array_equal(np.bincount(code, minlength=known), self.item_refs[:known])
        assert np.array_equal(np.flatnonzero(self.item_refs[:known]), self.index.codes())
        owner = np.repeat(self.runs["owner"], np.diff(self.offsets))
        wanted: dict[tuple[int, int], list[int]] = {}
        for g, c, v in zip(owner.tolist(), code.tolist(), value.tolist(), strict=True):
            held = wanted.setdefault((g, c), [0, 0])
            held[0] += 1
            held[1] += v
        found = {}
        for g in range(len(self.begin)):
            low, high = int(self.begin[g]), int(self.begin[g] + self.rooms[g])
            used = low + np.flatnonzero(self.refs[low:high])
            assert len(used) == self.sizes[g]
            assert high <= self.place[TOP] or not self.rooms[g]
            for at in used.tolist():
                found[g, int(self.codes[at])] = [int(self.refs[at]), int(self.sums[at])]
        assert found == wanted
        assert len(found) == self.place[LIVE]
