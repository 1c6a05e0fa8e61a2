"""The ``keep`` columns of ``HeavyHitters``: those of each item's latest live row.

Each summary has a part ``kept`` with the latest row of every item of a pane. Over sealed panes only
the newest of these rows is needed, because it expires last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Codes, Hashes, Ints, Saved, State, grown
from skyband.contract.rows import Rows, Windows
from skyband.contract.runs import Part, Runs, pick
from skyband.data.flat_state import Form, admitted, require
from skyband.data.keys import KeyIndex, best_of_each, owned_keys
from skyband.data.packing import prefixed, under
from skyband.data.retained_rows import RetainedRows
from skyband.frequency.items import woven

_UNSEEN = np.iinfo(np.int64).min


def bare(runs: Runs) -> Runs:
    """Summaries without their kept rows."""
    parts = {name: part for name, part in runs.parts.items() if name != "kept"}
    return Runs(runs.stamp, runs.group, parts, runs.scalars)


def latest_of_rows(rows: Rows, hashes: Hashes, keep: tuple[str, ...]) -> Part:
    """The latest row of each item of each run; ``hashes`` are those of all rows' items."""
    tie = rows.tie
    chosen, offsets = best_of_each(hashes, (tie, tie), map(rows.arrow, keep), rows.offsets)
    columns: dict[str, Any] = {"hash": hashes[chosen], "tie": tie[chosen]}
    return Part(offsets, columns | {f"keep:{name}": rows.take(name, chosen) for name in keep})


def latest_of_runs(part: Part, keep: tuple[str, ...]) -> Part:
    """The latest row of each item of each run, in runs that were joined."""
    if not len(part):
        return part
    kept = (part[f"keep:{name}"] for name in keep)
    return part.rows(*best_of_each(part["hash"], (part["tie"],) * 2, kept, part.offsets))


class LatestRows:
    """The kept columns of the latest live row of each item.

    Cost: O(1) per item of a pane. State: one row per live item, or per item that a sketch counts.
    """

    def __init__(self, types: Mapping[str, pa.DataType], grouped: bool) -> None:
        named = {f"keep:{name}": kind for name, kind in types.items()}
        self.grouped = grouped
        self.index = KeyIndex()
        self.store = RetainedRows(named)
        self.pane = np.zeros(0, np.int64)
        """The pane of each code's row; ``_UNSEEN`` if it has none yet."""
        self.group = np.zeros(0, np.int32)

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + self.store.nbytes + self.pane.nbytes + self.group.nbytes

    def keys(self, hashes: Hashes, groups: Codes, offsets: Ints) -> Hashes:
        """Keys of items by their hashes; ``offsets`` cuts them into stretches of one group each."""
        return owned_keys(hashes, groups, offsets) if self.grouped else hashes

    # Panes ------------------------------------------------------------------------------------

    def take(
        self,
        panes: Runs,
        windows: Sequence[Windows],
        answers: Sequence[Runs | None],
        hashes_of: Callable[[Runs], Hashes],
    ) -> list[Runs | None]:
        """Take panes, and add their kept columns to the answers of each reader's windows.

        ``hashes_of`` are those of the items in answers.
        """
        part = panes.part("kept")
        fresh = self._encode(panes, part) if len(part) else np.zeros(0, np.int32)
        shown = [
            None if runs is None else self._answered(runs, hashes_of(runs), own, panes, part, fresh)
            for runs, own in zip(answers, windows, strict=True)
        ]
        if len(part):
            self.pane[fresh] = np.repeat(panes.stamp, part.lengths)
            self.store.put(fresh, part.columns)
        due = [own for own in windows if len(own)]
        if due:
            self._expire(due)
        return shown

    def _encode(self, panes: Runs, part: Part) -> Codes:
        codes, rows, fresh = self.index.encode(self.keys(part["hash"], panes.group, part.offsets))
        self.pane = grown(self.pane, self.index.bound)
        self.group = grown(self.group, self.index.bound)
        self.pane[fresh] = _UNSEEN
        self.group[fresh] = panes.group[np.searchsorted(part.offsets, rows, side="right") - 1]
        return codes

    def _answered(
        self, found: Runs, hashes: Hashes, windows: Windows, panes: Runs, part: Part, fresh: Codes
    ) -> Runs:
        """The answers, each with the latest of its rows before the window's end."""
        if not len(fresh):
            return self.read(found, hashes)
        items = found.parts["items"]
        codes = self.index.find(self.keys(hashes, found.group, items.offsets))
        ends = windows.end[np.searchsorted(windows.number, found.stamp)]
        bound = np.searchsorted(
            np.repeat(panes.stamp, part.lengths), np.repeat(ends, items.lengths)
        )
        # Sorted by (code, position): the row asked for is the last of its code before the bound.
        asked = np.zeros(self.index.bound + 1, np.bool_)
        asked[codes] = True
        some = np.append(0, np.flatnonzero(asked[fresh]))
        width, order = np.int64(len(fresh) + 1), some[np.argsort(fresh[some], kind="stable")]
        at = np.searchsorted(fresh[order] * width + order, codes * width + bound)
        at = order[np.maximum(at - 1, 0)]
        here = (fresh[at] == codes) & (at < bound)
        pushed = {name: pick(part[name], at[here]) for name in self.store.stores}
        columns = woven(here, pushed, self.stored(codes[~here]))
        return found.with_parts(items=Part(items.offsets, {**items.columns, **columns}))

    def stored(self, codes: Array) -> dict[str, pa.Array]:
        """The kept columns of these codes; null for a code of -1 or without a row."""
        known = (codes >= 0) & (codes < len(self.pane))
        known[known] &= self.pane[codes[known]] != _UNSEEN
        found = self.store.gather(codes[known])
        if known.all():
            return found
        place = np.cumsum(known) - 1
        return {n: c.take(pa.array(place, mask=~known)) for n, c in found.items()}

    def read(self, found: Runs, hashes: Hashes) -> Runs:
        """Add the kept columns to answers over the panes as they are now."""
        items = found.parts["items"]
        slots = self.index.find(self.keys(hashes, found.group, items.offsets))
        return found.with_parts(items=Part(items.offsets, {**items.columns, **self.stored(slots)}))

    def _expire(self, due: Sequence[Windows]) -> None:
        """Forget what has left the windows of all readers."""
        live = self.index.codes()
        needed = np.minimum.reduce([own.needed_from(self.group[live]) for own in due])
        self.index.release(live[self.pane[live] < needed])

    def keep_only(self, keys: Hashes) -> None:
        """Forget all items except those with these keys."""
        live = self.index.codes()
        wanted = np.zeros(self.index.bound, np.bool_)
        found = self.index.find(keys)
        wanted[found[found >= 0]] = True
        self.index.release(live[~wanted[live]])

    # State ------------------------------------------------------------------------------------

    def state(self) -> State:
        known = self.index.bound
        arrays: State = {"pane": self.pane[:known].copy(), "group": self.group[:known].copy()}
        free = np.setdiff1d(np.arange(known), self.index.codes())
        arrays["pane"][free], arrays["group"][free] = _UNSEEN, 0
        return arrays | prefixed("index/", self.index.state()) | self.store.state()

    def restore(self, arrays: Saved) -> None:
        self.index.restore(under(arrays, "index/"))
        self.store.restore(arrays)
        known = self.index.bound
        require(len(self.store) >= known, "an item has no row")
        forms = {"pane": Form(known), "group": Form(known, 0)}
        saved = admitted(arrays, {"pane": self.pane, "group": self.group}, forms)
        self.pane, self.group = saved["pane"], saved["group"]

    def _check(self) -> None:
        self.index._check()
        live = self.index.codes()
        assert (self.pane[live] != _UNSEEN).all()
