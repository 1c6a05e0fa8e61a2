"""``distinct="latest"``: each id once, with the latest of its live rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Codes, Hashes, Ints, Saved, State, grown
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, offsets_of, run_starts
from skyband.data.flat_state import Form, admitted, require
from skyband.data.keys import KeyIndex, hash_array, owned_keys
from skyband.data.packing import prefixed, under
from skyband.data.retained_rows import RetainedRows
from skyband.kernels.borrow import frozen
from skyband.kernels.select import select_runs
from skyband.query.topk import TopK
from skyband.topk.bands import group_windows
from skyband.topk.distinct import DistinctTopK
from skyband.topk.kernels.latest import fold_latest

_GONE = np.iinfo(np.int64).min
_BY_CODE = ("key", "tie", "pane", "group")
_MANY = 16  # windows to read in one call of a kernel, if panes are small
_SMALL = 64  # rows of such a pane, on average


class LatestTopK(DistinctTopK):
    """Keeps the latest row of each live id: a leaderboard of current scores.

    Of an id's rows with equal times, the one that comes first in row order counts: the best score.
    Cost: O(1) per row, and one pass over the live ids per answer; if many windows of few rows are
    read at once, one pass for all of them and O(k) per row that is among the best. State: one row
    per live id and group. Exact. What a row replaces need not be kept, because it expires no later.

    >>> import pyarrow as pa, skyband as sb
    >>> plays = pa.table({"player": ["a", "b", "a"], "x": [9, 5, 3]})
    >>> query = sb.TopK(k=2, score="x", id="player", distinct="latest", window=sb.CountWindow(3))
    >>> sb.rank(plays, query).select(["player", "x"]).to_pylist()
    [{'player': 'b', 'x': 5}, {'player': 'a', 'x': 3}]
    """

    shortens = True

    def __init__(self, query: TopK) -> None:
        super().__init__(query)
        self.index = KeyIndex()
        self.key, self.tie = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.pane = np.zeros(0, np.int64)
        """The pane of each code's row; ``_GONE`` if the code is not in use."""
        self.group = np.zeros(0, np.int32)
        self.store = RetainedRows({})

    def start(self) -> None:
        types = {f"shown:{name}": self.schema.field(name).type for name in self._payload}
        self.store = RetainedRows(types)

    def _rule(self, key: Ints, tie: Ints) -> tuple[Ints, Ints]:
        return tie, key

    # Panes ------------------------------------------------------------------------------------

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        many = len(windows) >= _MANY and len(panes.part("rows")) <= _SMALL * len(windows)
        if many or (len(windows) and windows.group is not None and self.query.groups):
            return self._fold_at_once(panes, windows)
        found = []
        at = 0
        for number, first, end in zip(windows.number, windows.first, windows.end, strict=True):
            upto = int(np.searchsorted(panes.stamp, end))
            self._push(panes.slice(at, upto))
            at = upto
            part = self._read(int(first), None)
            found.append(part.stamped(np.full(len(part), number)))
        self._push(panes.slice(at, len(panes)))
        if not found:
            return None
        self._expire(windows)
        return Runs.concat(found)

    def _fold_at_once(self, panes: Runs, windows: Windows) -> Runs:
        """As ``fold``, without Python code per window."""
        panes = panes.take(np.argsort(panes.group, kind="stable"))
        part, live = panes.part("rows"), self.index.codes()
        held = self._gather(live, np.array([0, len(live)]))
        pane, group = self.pane[live], self.group[live]
        code = np.append(live, self._push(panes))
        if len(part):
            pane = np.append(pane, np.repeat(panes.stamp, part.lengths))
            group = np.append(group, np.repeat(panes.group, part.lengths))
            pushed = Part(np.array([0, len(part)]), {name: part[name] for name in held.columns})
            held = Part.concat([held, pushed])
        order = np.lexsort((pane, group))
        by_id = np.argsort(code[order], kind="stable")
        same = np.flatnonzero(np.diff(code[order[by_id]]) == 0)
        earlier = np.full(len(order), -1)
        earlier[by_id[same + 1]] = by_id[same]
        groups = int(group.max(initial=-1)) + 1
        starts = np.searchsorted(group[order], np.arange(groups + 1))
        due, numbers = group_windows(windows, groups)
        rows, answered, _ = fold_latest(
            frozen(held["key"][order]), frozen(held["tie"][order]), frozen(pane[order]),
            frozen(earlier), frozen(starts), self.query.k, due,
        )  # fmt: skip
        self._expire(windows)
        found = self._settled(held.rows(order[rows], offsets_of(answered[:, 2])))
        return Runs(numbers[answered[:, 0]], answered[:, 1].astype(np.int32), {"rows": found})

    def _push(self, panes: Runs) -> Codes:
        """Take panes; returns the codes of their rows."""
        part = panes.parts["rows"]
        if not len(part):
            return np.zeros(0, np.int32)
        keys = self._keys(part["hash"], panes.group, part.offsets)
        codes, _, _ = self.index.encode(keys)
        for name in _BY_CODE:
            setattr(self, name, grown(getattr(self, name), self.index.bound))
        # Panes come in order of time, so of several rows of one id the last one counts.
        self.key[codes], self.tie[codes] = part["key"], part["tie"]
        self.pane[codes] = np.repeat(panes.stamp, part.lengths)
        self.group[codes] = np.repeat(panes.group, part.lengths)
        self.store.put(codes, part.columns)
        return codes

    def _keys(self, hashes: Hashes, groups: Codes, offsets: Ints) -> Hashes:
        return owned_keys(hashes, groups, offsets) if self.query.groups else hashes

    def _live(self, first: int, group: int | None) -> Ints:
        """Codes whose row is in pane ``first`` or later, by group."""
        live = self.pane[: self.index.bound] >= max(first, _GONE + 1)
        if group is not None:
            live &= self.group[: self.index.bound] == group
        codes = np.flatnonzero(live)
        return codes[np.argsort(self.group[codes], kind="stable")] if self.query.groups else codes

    def _read(self, first: int, group: int | None) -> Runs:
        """The best k live ids of each group."""
        codes = self._live(first, group)
        owner = self.group[codes]
        cuts = run_starts(owner)
        offsets = np.append(cuts, len(codes))
        key, tie = self.key[codes], self.tie[codes]
        best, ends = select_runs(frozen(key), frozen(tie), offsets, self.query.k, True)
        part = self._gather(codes[best], ends)
        part = part.resorted(np.arange(len(cuts)), self._order).first_rows(self.query.k)
        return Runs(np.zeros(len(cuts), np.int64), owner[cuts], {"rows": part})

    def _gather(self, codes: Array, offsets: Ints) -> Part:
        columns: dict[str, Any] = {"key": self.key[codes], "tie": self.tie[codes]}
        return Part(offsets, columns | self.store.gather(codes))

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        return self._read(first, group)

    def position(
        self, first: int, end: int, group: int, key: Sequence[pa.Array]
    ) -> tuple[int, Any, int] | None:
        codes = self._live(first, group)
        part = self._gather(codes, np.array([0, len(codes)]))
        keys = self.index.hashes(codes)
        ids = hash_array(key[0])
        # The index holds hashes of (id, group), so the id asked for is hashed in the same way.
        wanted = self._keys(ids, np.array([group], np.int32), np.array([0, 1]))
        part = Part(part.offsets, {**part.columns, "hash": np.where(keys == wanted, ids, ~ids)})
        return self.position_in(part, key)

    def _expire(self, windows: Windows) -> None:
        known = self.index.bound
        pane = self.pane[:known]
        old = pane < windows.needed_from(self.group[:known])
        gone = np.flatnonzero(old & (pane != _GONE))
        self.index.release(gone)
        self.pane[gone] = _GONE

    # State ------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        held = sum(int(getattr(self, name).nbytes) for name in _BY_CODE)
        return held + self.index.nbytes + self.store.nbytes

    def snapshot(self) -> State:
        """The rows of live ids, which become the codes 0, 1, 2 and so on."""
        live = self.index.codes()
        arrays: State = {name: getattr(self, name)[live] for name in _BY_CODE}
        arrays["hashes"] = self.index.hashes(live)
        self.store.compact(live)
        saved = arrays | prefixed("store/", self.store.state())
        self.restore(saved)
        return saved

    def restore(self, arrays: Saved) -> None:
        self.index = KeyIndex()
        like = {name: getattr(self, name) for name in _BY_CODE} | {"hashes": np.zeros(0, np.uint64)}
        forms = dict.fromkeys(like, Form("ids")) | {"group": Form("ids", 0)}
        saved = admitted(arrays, like, forms)
        self.index.encode(saved.pop("hashes"))
        for name, array in saved.items():
            setattr(self, name, array)
        self.store.restore(under(arrays, "store/"))
        require(self.index.bound == len(self.key), "an id is there twice")
        require(len(self.store) == len(self.key) or not self.store.stores, "an id has no row")

    def stats(self) -> dict[str, int | float]:
        return {"retained": len(self.index), "state_bytes": self.nbytes}

    def _check(self) -> None:
        self.index._check()
        live = np.flatnonzero(self.pane[: self.index.bound] != _GONE)
        assert np.array_equal(live, self.index.codes())
