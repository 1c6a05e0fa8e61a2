"""``fsp``: Filtered Space-Saving with partitions."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from skyband.arrays import Array, Hashes, Mask
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs
from skyband.data.flat_state import Form, Forms
from skyband.data.keys import hash_columns
from skyband.frequency.base import FrequencySynopsis
from skyband.frequency.kernels.item_heap import table_size
from skyband.frequency.kernels.spacesaving import (
    COUNTS,
    HITS,
    INSERTS,
    REMOVALS,
    list_panes,
)
from skyband.frequency.pane_sums import OwnWindows, PaneSums
from skyband.frequency.sketch_summary import SketchSummaries
from skyband.query.frequency import HeavyHitters


class Fsp(FrequencySynopsis):
    """FSP: FSS lists ``capacity`` items of each pane, and a full list adds up these lists.

    Cost: O(1) per row; O(capacity) per pane when it arrives and when it expires; one pass over the
    full list per answer. State: one list per live pane, a full list of at most capacity × panes
    items, and ``cells`` counters while a pane is counted. Guarantee: the true count of an answered
    item lies within [count − error, count]. What the item may count in panes whose lists lack it is
    added to both (items are ranked by the estimate without that addition). An answer is ``exact``
    if no live pane's list lacks an item.

    Homem and Carvalho, section 3. The count of an item that a list lacks is bounded by the greatest
    cell, which is at most the paper's μ. The full list is updated when a pane ends, because it is
    read only then; the result is the same as with an update after each row.

    >>> import pyarrow as pa, skyband as sb
    >>> words = pa.table({"word": ["to", "be", "or", "not", "to", "be", "to"]})
    >>> query = sb.HeavyHitters(k=1, item="word", window=sb.CountWindow(7), algorithm="fsp")
    >>> sb.rank(words, query).select(["word", "count", "error"]).to_pylist()
    [{'word': 'to', 'count': 3, 'error': 0}]
    """

    exact = False
    many_groups = True
    shortens = True
    saved_arrays = ("total",)
    saved_forms: ClassVar[Forms] = {"total": Form(COUNTS)}
    saved_parts = (("", "lists"),)

    def __init__(self, query: HeavyHitters) -> None:
        super().__init__(query)
        self.summaries = SketchSummaries(self)
        self.capacity = self.summaries.capacity
        self.cells = query.cells or 12 * self.capacity

    def prepare(self, stored: bool = False, late: bool = False, positions: bool = False) -> None:
        if stored:
            self.summaries.keep_no_rows()

    def start(self) -> None:
        sums = OwnWindows if self.own_windows else PaneSums
        self.lists = sums(
            self.item_type, [self.reads], self.dtype, bool(self.query.groups),
            values=("count", "error", "absent"), scalars=("gap",), answer=self._lifted,
        )  # fmt: skip
        self.total = np.zeros(COUNTS, np.int64)

    # Panes ------------------------------------------------------------------------------------

    def _fold(self, panes: Runs, windows: Windows) -> Runs | None:
        panes = self.summaries.reduced(panes)
        pushed = self.summaries.unpacked(panes)
        words, shift = table_size(self.capacity)
        hashes, rows, values, absent, lacks, offsets = list_panes(
            pushed, self.capacity, self.cells, words, shift, self.total
        )
        columns: dict[str, Any] = {"hash": hashes, "count": values[:, 0], "error": values[:, 1]}
        columns["absent"] = np.repeat(absent, np.diff(offsets))
        columns |= self.summaries.item_columns(panes, rows)
        gap = np.where(lacks, absent, -1).astype(self.dtype, copy=False)
        lists = Runs(panes.stamp, panes.group, {"items": Part(offsets, columns)}, {"gap": gap})
        (answers,) = self.lists.fold(lists, [windows])
        return answers

    def _counted_keys(self) -> Hashes | None:
        assert self.latest is not None
        codes = self.lists.items.index.codes()
        hashes = hash_columns(list(self.lists.items.store.gather(codes).values()))
        owner = self.lists.group[codes] if self.query.groups else codes.astype(np.int32)
        return self.latest.keys(hashes, owner, np.arange(len(codes) + 1))

    def _gaps(self, windows: Windows) -> tuple[Array, Mask]:
        """What items may count in panes whose lists lack some, and whether there are such panes."""
        assert windows.group is not None
        lists, gap = self.lists, self.lists.runs["gap"]
        lacking = np.flatnonzero(gap >= 0)
        group, stamp = lists.runs["owner"][lacking], lists.run_panes[lacking]
        order = np.lexsort((stamp, group))
        # Panes are replaced by their ranks, so that a group and a pane fit into one integer.
        known, ranks = np.unique(stamp[order], return_inverse=True)
        many = len(known) + 1
        keys = group[order].astype(np.int64) * many + ranks
        first = windows.group.astype(np.int64) * many
        low, high = (
            np.searchsorted(keys, first + np.searchsorted(known, edge))
            for edge in (windows.first, windows.end)
        )
        lost, some = np.zeros(len(windows), self.dtype), high > low
        if some.any():
            pairs = np.stack([low[some], high[some]], axis=1).ravel()
            lost[some] = np.add.reduceat(np.append(gap[lacking[order]], 0), pairs)[::2]
        return lost, some

    # Answers ----------------------------------------------------------------------------------

    def _partial(self, first: int, end: int, group: int | None) -> Runs:
        return self.lists.partial(first, end, group)

    def _lifted(self, windows: Windows, part: Part, rest: Array) -> Runs:
        """Answers, with what an item may count in panes whose lists lack it added to both.

        The same is added to what is left out: ``rest`` is the greatest count minus ``absent``.
        """
        assert windows.group is not None
        lost, some = self._gaps(windows)
        lift = np.maximum(np.repeat(lost, part.lengths) - part["absent"], 0)
        columns = {name: part[name] for name in ("error", *self.item_type.columns)}
        columns |= {"estimate": part["count"], "count": part["count"] + lift}
        part = self.item_type.ranked(Part(part.offsets, columns), self.reads)
        lift = part["count"] - part["estimate"]
        part = Part(part.offsets, {**part.columns, "error": part["error"] + lift})
        scalars: dict[str, Array] = {"exact": ~some, "bound:mu": lost + rest}
        return Runs(windows.number, windows.group, {"items": part}, scalars)

    # State ------------------------------------------------------------------------------------

    def _stats(self) -> dict[str, int | float]:
        own = self.lists.stats()
        total = self.total
        expired = self.lists.updates + self.lists.inserts - len(self.lists.entries)
        lists = 3 * self.query.window.panes.per_window * self.capacity
        return own | {
            # As the paper counts: each operation on a pane's list is done on the full list too.
            "inserts": 2 * int(total[INSERTS]),
            "removals": 2 * int(total[REMOVALS]),
            "hits": 2 * int(total[HITS]),
            "updates": expired,
            "counters": lists + 3 * int(own["retained"]) + self.cells,
            "counters_most": 2 * lists + self.cells,
        }

    def _check(self) -> None:
        self.lists._check()
