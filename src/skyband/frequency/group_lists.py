"""The lists of the live panes of very many groups, and the items in them."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Array, Ints, Saved, State
from skyband.contract.runs import Part, Runs, offsets_of, run_starts
from skyband.data.flat_state import Form, admitted, require
from skyband.frequency.items import ItemColumns
from skyband.frequency.tape import Tape
from skyband.frequency.window_counts import CodedCounts
from skyband.kernels.frequency.pane_sums import dead_codes, recount

__all__ = ["GroupLists"]


class GroupLists(CodedCounts):
    """Lists of (item, count) by (pane, group), oldest first; an item has one code for all groups.

    State: 12 bytes per entry of a list, and each item once.
    """

    by_code = ("order_key", "item_refs")
    saved_by_code = ("order_key",)

    def __init__(self, item_type: ItemColumns, k: int) -> None:
        super().__init__(item_type, k)
        self.item_refs = np.zeros(0, np.int32)
        none, few = np.zeros(0, np.int64), np.zeros(0, np.int32)
        self.entries, self.runs = Tape({"code": few, "value": none}), Tape({"owner": few})
        self.offsets, self.cuts, self.pane = np.zeros(1, np.int64), np.zeros(1, np.int64), none
        self.groups = 0
        """All codes of groups are below this number."""

    @property
    def nbytes(self) -> int:
        owned = (self.offsets, self.cuts, self.pane, self.entries, self.runs)
        return super().nbytes + sum(int(each.nbytes) for each in owned)

    # Panes ------------------------------------------------------------------------------------

    def _append(self, panes: Runs) -> None:
        part, stamp = panes.parts["items"], panes.stamp
        codes, _, _ = self._encode(self.item_type.hashes(part), part)
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

    def _drop(self, gone: int) -> None:
        """Drop the first panes, whose entries are not counted in ``item_refs`` any more."""
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

    # Answers ----------------------------------------------------------------------------------

    def _best(self, end: Ints, code: Array, total: Array) -> Part:
        offsets = offsets_of(np.diff(end, prepend=0))
        return Part(offsets, {"count": total, **self.store.gather(code)})

    def between(self, first: int, end: int) -> tuple[int, int]:
        """The first run of the panes ``[first, end)``, and where they end."""
        low, high = self.cuts[np.searchsorted(self.pane, [first, end])].tolist()
        return low, high

    def partial(self, first: int, end: int, group: int | None, k: int | None = None) -> Runs:
        low, high = self.between(first, end)
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
        k = self.k if k is None else k
        code, total, ends, _ = recount(
            part["code"], part["value"].reshape(-1, 1), starts, stops[: len(cuts)],
            self.index.bound, self.order_key, k, self.item_type.decided,
        )  # fmt: skip
        best = self._best(ends, code, total[:, 0])
        return self._answers(np.zeros(len(cuts), np.int64), owner[cuts], best, k)

    def totals(self, first: int, end: int, group: int) -> Part:
        low, high = self.between(first, end)
        run = low + np.flatnonzero(self.runs["owner"][low:high] == group)
        part = Part(self.offsets, {name: self.entries[name] for name in ("code", "value")})
        part = part.take(run)
        return self._summed(part["code"], part["value"])

    # State ------------------------------------------------------------------------------------

    def state(self) -> State:
        counts = [self.inserts, self.removals, self.updates]
        return super().state() | self.entries.state() | self.runs.state() | {
            "offsets": self.offsets, "cuts": self.cuts, "pane": self.pane,
            "counts": np.array(counts, np.int64),
        }  # fmt: skip

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        self.item_refs = np.zeros(len(self.order_key), np.int32)
        like = {name: self.entries[name] for name in ("code", "value")}
        like |= {"owner": self.runs["owner"], "offsets": self.offsets, "cuts": self.cuts}
        like |= {"pane": self.pane, "counts": np.zeros(3, np.int64)}
        runs, panes = (len(arrays[name]) for name in ("owner", "pane"))
        saved = admitted(arrays, like, {
            "code": Form("entries"), "value": Form("entries"), "owner": Form("runs", 0),
            "offsets": Form(runs + 1, 0, ascends=True), "cuts": Form(panes + 1, 0, ascends=True),
            "pane": Form("panes", ascends=True), "counts": Form(3),
        })  # fmt: skip
        self.entries = Tape({name: saved[name] for name in ("code", "value")})
        self.runs = Tape({"owner": saved["owner"]})
        self.offsets, self.cuts, self.pane = (saved[name] for name in ("offsets", "cuts", "pane"))
        ends = self.offsets[0], self.offsets[-1], self.cuts[0], self.cuts[-1]
        require(ends == (0, len(self.entries), 0, runs), "entries of no pane")
        self._admit(self.entries["code"])
        self.groups = int(saved["owner"].max(initial=-1)) + 1
        self.inserts, self.removals, self.updates = saved["counts"].tolist()

    def _check(self) -> None:
        self.index._check()
        code, known = self.entries["code"], self.index.bound
        assert len(self.pane) == len(self.cuts) - 1
        assert len(self.runs) == len(self.offsets) - 1 == self.cuts[-1]
        assert self.offsets[-1] == len(code)
        assert (np.diff(self.pane) > 0).all()
        assert np.array_equal(np.bincount(code, minlength=known), self.item_refs[:known])
        assert np.array_equal(np.flatnonzero(self.item_refs[:known]), self.index.codes())
