"""``exact``: the count of every item in the window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Hashes, Ints, Saved
from skyband.contract.rows import Rows, Windows
from skyband.contract.runs import Part, Runs, offsets_of, pick
from skyband.contract.tumbling import Tumbling
from skyband.data.columns import take
from skyband.data.keys import hash_columns
from skyband.frequency.base import FrequencySynopsis
from skyband.frequency.kernels.best_codes import best_of_runs
from skyband.frequency.kernels.counting import count_runs, sum_runs
from skyband.frequency.latest_rows import bare
from skyband.frequency.pane_sums import OwnWindows, PaneSums
from skyband.frequency.weights import ONE_EACH, too_heavy
from skyband.kernels.borrow import frozen
from skyband.query.frequency import HeavyHitters


class Exact(FrequencySynopsis):
    """The true count of every item that occurs in the window.

    Cost: O(1) per row to count it in its pane, O(1) per distinct item of a pane when the pane
    arrives and when it expires, and one pass over the window's distinct items per answer. State:
    one entry per distinct item of each live pane. Guarantee: counts are the true counts; errors are
    0. Floating-point weights are only added, never subtracted, so a huge weight leaves no rounding
    error behind when it expires. Several queries share the entries and the items; for each size of
    window there are sums of its own. A window of one pane needs no state: see decision 0011.

    >>> import pyarrow as pa, skyband as sb
    >>> words = pa.table({"word": ["to", "be", "or", "not", "to", "be", "to"]})
    >>> query = sb.HeavyHitters(k=2, item="word", window=sb.CountWindow(7), algorithm="exact")
    >>> sb.rank(words, query).select(["word", "count"]).to_pylist()
    [{'word': 'to', 'count': 3}, {'word': 'be', 'count': 2}]
    """

    many_groups = True
    shortens = True
    saved_parts = (("", "counts"),)
    counts: PaneSums | Tumbling

    def __init__(self, query: HeavyHitters) -> None:
        super().__init__(query)
        self.served: Sequence[HeavyHitters] = [query]

    def serve(self, queries: Sequence[HeavyHitters]) -> None:
        before, self.served = self.sizes, queries
        if self.ready and not isinstance(self.counts, Tumbling):
            self.counts.keep([before.index(size) for size in self.sizes], self.ks)

    @property
    def sizes(self) -> list[int]:
        """The sizes of the windows of all queries, the longest first."""
        return sorted({query.window.panes.size for query in self.served}, reverse=True)

    @property
    def ks(self) -> list[int]:
        """How many items partial answers of each size hold: enough for each query."""
        more = self.reads - self.query.k
        return [
            more + max(query.k for query in self.served if query.window.panes.size == size)
            for size in self.sizes
        ]

    def start(self) -> None:
        groups, settings = bool(self.query.groups), (self.item_type, self.ks, self.dtype)
        if self.measure is not None:
            self.counts = PaneSums(
                *settings, groups, values=self.measure.sums, measure=self.measure,
                since=self.query.window.panes.first_read,
            )  # fmt: skip
        elif self.own_windows:
            self.counts = OwnWindows(*settings, groups)
        elif self.query.window.panes.per_window == 1:
            self.counts = Tumbling(self._read_panes)
        else:
            self.counts = PaneSums(*settings, groups, blocks=groups and self.dtype.kind == "i")

    def _summarise(self, rows: Rows) -> Runs:
        weights, total = self.weighed(rows)
        sums = self.measure.weights(weights, ONE_EACH) if self.measure else {"count": weights}
        raw = self.item_type.raw
        keys = rows.numpy(self.items[0]).view(np.uint64) if raw else self.hashed(rows)
        first, counts, offsets = _summed(frozen(keys), raw, sums, rows.offsets)
        columns: dict[str, Any] = {} if raw else {"hash": keys[first]}
        columns |= {f"item:{name}": rows.take(name, first) for name in self.items}
        columns |= counts
        runs = rows.runs({"items": Part(offsets, columns)}, total)
        signed = self.query.aggregate == "sum" and self.dtype.kind == "i"
        return self._loaded(runs, rows, weights) if signed else runs

    def _loaded(self, runs: Runs, rows: Rows, weights: Array) -> Runs:
        """The runs with the sums of their weights without signs, which are checked if large."""
        sizes = frozen(np.abs(weights))
        loads = sum_runs(sizes, rows.offsets)
        if loads.min(initial=0) < 0:
            raise too_heavy(self.query, [([rows.arrow(name) for name in self.items], sizes)])
        return runs.with_scalars(load=loads)

    def _combine(self, runs: Runs) -> Runs:
        runs, raw = runs.united(), self.item_type.raw
        part = runs.parts["items"]
        keys = self.item_type.integers(part) if raw else frozen(part["hash"])
        names = self.measure.sums if self.measure else ("count",)
        first, counts, offsets = _summed(keys, raw, {n: part[n] for n in names}, part.offsets)
        columns = {n: pick(column, first) for n, column in part.columns.items() if n not in counts}
        return runs.with_parts(items=Part(offsets, columns | counts))

    # State ------------------------------------------------------------------------------------

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        if isinstance(self.counts, Tumbling) and self.counts.last is not None:
            self.saved_runs(self.counts.last)

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        (answers,) = self.fold_readers(panes, [windows])
        return answers

    def fold_readers(self, panes: Runs, windows: Sequence[Windows]) -> list[Runs | None]:
        sizes = self.sizes
        of_size = {q.window.panes.size: w for q, w in zip(self.served, windows, strict=True)}
        windows = [of_size[size] for size in sizes]
        answers = self.with_kept(panes, windows, self.counts.fold(bare(panes), windows))
        return [answers[sizes.index(query.window.panes.size)] for query in self.served]

    def _read_panes(self, panes: Runs, runs: Ints) -> Runs:
        """The best items of some runs of panes."""
        part, item_type, (k,) = panes.parts["items"], self.item_type, self.ks
        counts, offsets = frozen(part["count"]), frozen(part.offsets)
        keys = frozen(item_type.order_keys([part[name] for name in item_type.columns]))
        place, lengths = best_of_runs(counts, keys, offsets, runs, k, item_type.decided)
        columns: dict[str, Any] = {"count": counts[place]}
        columns |= {name: take(part[name], place) for name in item_type.columns}
        best = item_type.ranked(Part(offsets_of(lengths), columns), k)
        return Runs(panes.stamp[runs], panes.group[runs], {"items": best})

    def _partial(self, first: int, end: int, group: int | None) -> Runs:
        return self.counts.partial(first, end, group)

    def position(
        self, first: int, end: int, group: int, key: Sequence[pa.Array]
    ) -> tuple[int, Any, int] | None:
        part = self._totals(first, end, group)
        if not len(part):
            return None
        hashes = hash_columns([part[name] for name in self.item_type.columns])
        at = np.flatnonzero(hashes == hash_columns(key)[0])
        if not len(at):
            return None
        counts = part["count" if self.measure is None else "estimate"]
        mine = counts[at[0]]
        tied = np.flatnonzero(counts == mine)
        one_run = np.array([0, len(tied)])
        order = self.item_type.order(part.rows(tied, one_run), np.zeros(len(tied), np.int64))
        shared = self.query.tied_by is not None
        place = 0 if shared else int(np.flatnonzero(tied[order] == at[0])[0])
        value = mine if self.measure is None else self.measure.shown(mine)
        return int((counts > mine).sum()) + place + 1, value.item(), len(part)

    def _totals(self, first: int, end: int, group: int) -> Part:
        """The counts of all items of a group, in any order."""
        counts = self.counts
        if not isinstance(counts, Tumbling):
            return counts.totals(first, end, group)
        runs = counts.live(first, end, group)
        none = Part(np.zeros(1, np.int64), {})
        return counts.last.parts["items"].take(runs) if counts.last is not None else none

    def _stats(self) -> dict[str, int | float]:
        return self.counts.stats()

    def _check(self) -> None:
        self.counts._check()


def _summed(
    keys: Hashes, raw: bool, values: Mapping[str, Array], offsets: Ints
) -> tuple[Ints, dict[str, Array], Ints]:
    """As ``count_runs``, for several values of each row; of ``peak``, the greatest one counts."""
    sums = {}
    for name, own in values.items():
        more = (True,) if name == "peak" else ()  # another type of call, so nothing else slows down
        first, sums[name], ends = count_runs(keys, raw, frozen(own), offsets, *more)
    return first, sums, ends
