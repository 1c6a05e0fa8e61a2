"""``exact``: the count of every item in the window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.contract.rows import Rows, Windows
from skyband.contract.runs import Part, Runs, pick
from skyband.data.columns import from_numpy
from skyband.frequency.base import read_only
from skyband.frequency.grouped import GroupedCounts
from skyband.frequency.lists import PaneLists
from skyband.frequency.tumbling import Tumbling
from skyband.kernels.frequency.counting import count_runs

__all__ = ["Exact"]


class Exact(PaneLists):
    """The true count of every item that occurs in the window.

    Cost: O(1) per row to count it in its pane, O(1) per distinct item of a pane when the pane
    arrives and when it expires, and one pass over the window's distinct items per answer. State:
    one entry per distinct item of each live pane. Guarantee: counts are the true counts; errors are
    0. Floating-point weights are only added, never subtracted, so a huge weight leaves no rounding
    error behind when it expires. Windows of one pane, and integer counts of groups, use other
    states: see docs/decisions/0011.

    >>> import pyarrow as pa, skyband as sb
    >>> words = pa.table({"word": ["to", "be", "or", "not", "to", "be", "to"]})
    >>> query = sb.HeavyHitters(k=2, item="word", window=sb.CountWindow(7), algorithm="exact")
    >>> sb.rank(words, query).select(["word", "count"]).to_pylist()
    [{'word': 'to', 'count': 3}, {'word': 'be', 'count': 2}]
    """

    shortens = True
    own: Tumbling | GroupedCounts | None = None
    """The state used instead if a window is one pane, or groups have integer counts."""

    def start(self) -> None:
        super().start()
        if self.own_windows:
            return
        if self.query.window.panes.per_window == 1:
            self.own = Tumbling(self.items, self.store.kinds, self.query.k)
        elif self.query.groups and self.dtype.kind == "i":
            self.own = GroupedCounts(self.store, self.query.k)

    def summarise(self, rows: Rows) -> Runs:
        weights, total = self.weighed(rows)
        if self.raw:
            (name,) = self.items
            values = rows.numpy(name)
            first, counts, offsets = count_runs(
                read_only(values).view(np.uint64), self.raw, weights, rows.offsets
            )
            kind = rows.batch.column(name).type
            columns: dict[str, Any] = {f"item:{name}": from_numpy(values[first], kind)}
        else:
            hashes = read_only(self.hashed(rows))
            first, counts, offsets = count_runs(hashes, self.raw, weights, rows.offsets)
            columns = {"hash": hashes[first]}
            columns |= {f"item:{name}": rows.take(name, first) for name in self.items}
        columns["count"] = counts
        return rows.runs({"items": Part(offsets, columns)}, total)

    def combine(self, runs: Runs) -> Runs:
        fresh = np.flatnonzero(~runs.repeats)
        part = runs.parts["items"]
        offsets = np.append(part.offsets[fresh], len(part))
        keys = self.integers(part) if self.raw else read_only(part["hash"])
        first, counts, offsets = count_runs(keys, self.raw, read_only(part["count"]), offsets)
        columns = {n: pick(column, first) for n, column in part.columns.items() if n != "count"}
        scalars = {n: np.add.reduceat(values, fresh) for n, values in runs.scalars.items()}
        merged = Part(offsets, columns | {"count": counts})
        return Runs(runs.stamp[fresh], runs.group[fresh], {"items": merged}, scalars)

    # Other states -----------------------------------------------------------------------------

    def fold(self, panes: Runs, windows: Windows, final: bool = False) -> Runs | None:
        if self.own is None:
            return super().fold(panes, windows)
        if isinstance(self.own, Tumbling):
            return self.own.fold(panes, windows)
        return self.own.fold(panes, self.hashes_of(panes.parts["items"]), windows)

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        found = None if self.own is None else self.own.partial(first, end, group)
        return super().partial(first, end, group) if found is None else found

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        return super().snapshot() if self.own is None else self.own.state()

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        if self.own is None:
            super().restore(arrays)
        else:
            self.own.restore(arrays)

    def stats(self) -> dict[str, int | float]:
        if self.own is None:
            return super().stats()
        return {
            "retained": len(self.own),
            "state_bytes": self.own.nbytes,
            "inserts": self.own.inserts,
            "removals": self.own.removals,
            "updates": self.own.updates,
        }

    def _check(self) -> None:
        if self.own is None:
            super()._check()
        else:
            self.own._check()
