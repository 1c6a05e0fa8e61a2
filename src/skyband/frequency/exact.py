"""``exact``: the count of every item in the window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Saved
from skyband.contract.rows import Rows, Windows
from skyband.contract.runs import Part, Runs, pick
from skyband.data.keys import hash_columns
from skyband.frequency.base import FrequencySynopsis
from skyband.frequency.grouped import GroupedCounts
from skyband.frequency.pane_sums import OwnWindows, PaneSums
from skyband.frequency.tumbling import Tumbling
from skyband.frequency.window_counts import WindowCounts
from skyband.kernels.core.borrow import frozen
from skyband.kernels.frequency.counting import count_runs

__all__ = ["Exact"]


class Exact(FrequencySynopsis):
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

    many_groups = True
    shortens = True
    positions = True
    saved_parts = (("", "counts"),)
    counts: WindowCounts

    def start(self) -> None:
        query, groups, best = self.query, bool(self.query.groups), self.reads
        if self.own_windows:
            self.counts = OwnWindows(self.item_type, best, self.dtype, groups)
        elif query.window.panes.per_window == 1:
            self.counts = Tumbling(self.item_type, best, self.dtype)
        elif groups and self.dtype.kind == "i":
            self.counts = GroupedCounts(self.item_type, best)
        else:
            self.counts = PaneSums(self.item_type, best, self.dtype, groups)

    def _summarise(self, rows: Rows) -> Runs:
        weights, total = self.weighed(rows)
        raw = self.item_type.raw
        keys = rows.numpy(self.items[0]).view(np.uint64) if raw else self.hashed(rows)
        first, counts, offsets = count_runs(frozen(keys), raw, weights, rows.offsets)
        columns: dict[str, Any] = {} if raw else {"hash": keys[first]}
        columns |= {f"item:{name}": rows.take(name, first) for name in self.items}
        columns["count"] = counts
        return rows.runs({"items": Part(offsets, columns)}, total)

    def _combine(self, runs: Runs) -> Runs:
        runs, raw = runs.united(), self.item_type.raw
        part = runs.parts["items"]
        keys = self.item_type.integers(part) if raw else frozen(part["hash"])
        first, counts, offsets = count_runs(keys, raw, frozen(part["count"]), part.offsets)
        columns = {n: pick(column, first) for n, column in part.columns.items() if n != "count"}
        return runs.with_parts(items=Part(offsets, columns | {"count": counts}))

    # State ------------------------------------------------------------------------------------

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        if isinstance(self.counts, Tumbling) and self.counts.kept is not None:
            self.saved_runs(self.counts.kept)

    def _fold(self, panes: Runs, windows: Windows) -> Runs | None:
        return self.counts.fold(panes, windows)

    def _partial(self, first: int, end: int, group: int | None) -> Runs:
        return self.counts.partial(first, end, group)

    def position(
        self, first: int, end: int, group: int, key: Sequence[pa.Array]
    ) -> tuple[int, Any, int] | None:
        part = self.counts.totals(first, end, group)
        if not len(part):
            return None
        hashes = hash_columns([part[name] for name in self.item_type.columns])
        at = np.flatnonzero(hashes == hash_columns(key)[0])
        if not len(at):
            return None
        counts, mine = part["count"], part["count"][at[0]]
        tied = np.flatnonzero(counts == mine)
        one_run = np.array([0, len(tied)])
        order = self.item_type.order(part.rows(tied, one_run), np.zeros(len(tied), np.int64))
        place = int(np.flatnonzero(tied[order] == at[0])[0])
        return int((counts > mine).sum()) + place + 1, mine.item(), len(part)

    def _stats(self) -> dict[str, int | float]:
        return self.counts.stats()

    def _check(self) -> None:
        self.counts._check()
