"""Windows of one pane: each is answered directly from the list of its pane."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.arrays import Array, Saved, State
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.data.columns import take
from skyband.data.flat_state import require
from skyband.frequency.items import ItemColumns, order_keys
from skyband.frequency.window_counts import WindowCounts
from skyband.kernels.core.borrow import frozen
from skyband.kernels.frequency.best_codes import best_of_runs

__all__ = ["Tumbling"]


class Tumbling(WindowCounts):
    """Keeps the last panes as they came, and finds the best items of a pane when it is read.

    Cost: O(1) per entry, and O(groups) per window. State: the entries of the last pane.
    """

    def __init__(self, item_type: ItemColumns, k: int, dtype: np.dtype[Any]) -> None:
        super().__init__(item_type, k)
        self.dtype = dtype
        self.kept: Runs | None = None
        """Panes that a future window, or a ``peek`` at the last one, may need."""

    def __len__(self) -> int:
        return 0 if self.kept is None else len(self.kept.parts["items"])

    @property
    def nbytes(self) -> int:
        return 0 if self.kept is None else self.kept.nbytes

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        self.inserts += len(panes.parts["items"])
        found = []
        if self.kept is not None and len(self.kept):
            found = self._read(self.kept, windows)
        if len(panes):
            found += self._read(panes, windows)
        self._keep(panes, int(windows.first[-1]) if len(windows) else None)
        if not len(windows):
            return None
        # Windows without a single pane still get an answer, an empty one.
        return Runs.concat(found) if found else self._nothing()

    def _nothing(self) -> Runs:
        none = np.zeros(0, np.int64)
        columns: dict[str, Any] = {"count": none.astype(self.dtype)}
        part = Part(np.zeros(1, np.int64), columns | self.item_type.new_store().gather(none))
        return Runs(none, none.astype(np.int32), {"items": part})

    def _read(self, panes: Runs, windows: Windows) -> list[Runs]:
        """Answer the windows whose pane is among these."""
        low = np.searchsorted(panes.stamp, windows.first)
        high = np.searchsorted(panes.stamp, windows.end)
        asked = np.flatnonzero(high > low)
        if not len(asked):
            return []
        low, high = low[asked], high[asked]
        ranks = windows.ranks
        if len(ranks) <= int(panes.group.max()):
            ranks = np.arange(int(panes.group.max()) + 1)
        runs, number = _by_rank(panes.group, low, high, ranks, windows.number[asked])
        return [self._answers(panes, number, runs)]

    def _answers(self, panes: Runs, number: Array, runs: Array) -> Runs:
        """The best items of some runs, in this order, under these window numbers."""
        part, decided = panes.parts["items"], self.item_type.decided
        counts, offsets = frozen(part["count"]), frozen(part.offsets)
        keys = frozen(order_keys([part[name] for name in self.item_type.columns]))
        position, lengths = best_of_runs(counts, keys, offsets, runs, self.k, decided)
        columns: dict[str, Any] = {"count": counts[position]}
        columns |= {name: take(part[name], position) for name in self.item_type.columns}
        best = self.item_type.ranked(Part(offsets_of(lengths), columns), self.k)
        return Runs(number, panes.group[runs], {"items": best})

    def _keep(self, panes: Runs, needed: int | None) -> None:
        """Keep the panes from ``needed`` on, as copies, so that what they came in can be freed."""
        pieces = [] if self.kept is None else [self.kept]
        pieces += [panes] if len(panes) else []
        kept = []
        for runs in pieces:
            first = 0 if needed is None else int(np.searchsorted(runs.stamp, needed))
            self.removals += int(runs.parts["items"].offsets[first])
            if first < len(runs) and runs is not self.kept:
                kept.append(runs.take(np.arange(first, len(runs))))
            elif first < len(runs):
                kept.append(runs.slice(first, len(runs)))
        self.kept = Runs.concat(kept) if kept else None

    def partial(self, first: int, end: int, group: int | None) -> Runs:
        """The best items of each group over the kept panes in [first, end): at most one pane."""
        if self.kept is None:
            return self._nothing()
        inside = (self.kept.stamp >= first) & (self.kept.stamp < end)
        if group is not None:
            inside &= self.kept.group == group
        runs = np.flatnonzero(inside)
        return self._answers(self.kept, np.zeros(len(runs), np.int64), runs)

    def totals(self, first: int, end: int, group: int) -> Part:
        if self.kept is None:
            return self._nothing().parts["items"]
        kept = self.kept
        inside = (kept.stamp >= first) & (kept.stamp < end) & (kept.group == group)
        return kept.parts["items"].take(np.flatnonzero(inside))  # a window has only one pane

    def state(self) -> State:
        counts = np.array([self.inserts, self.removals], np.int64)
        if self.kept is None:
            return {"tumbling/counts": counts}
        packed = np.frombuffer(self.kept.pack(), np.uint8)
        return {"tumbling/counts": counts, "tumbling/kept": packed}

    def restore(self, arrays: Saved) -> None:
        self.inserts, self.removals = arrays["tumbling/counts"].tolist()
        packed = arrays.get("tumbling/kept")
        self.kept = None if packed is None else Runs.unpack(packed.tobytes())[0]
        if self.kept is not None:
            require(self.kept.ordered() is self.kept, "panes that are not in order")

    def _check(self) -> None:
        if self.kept is not None:
            assert len(self.kept) > 0
            assert not self.kept.repeats.any()
            assert self.kept.ordered() is self.kept
        assert self.inserts - self.removals == len(self)


def _by_rank(
    group: Array, low: Array, high: Array, ranks: Array, number: Array
) -> tuple[Array, Array]:
    """The runs from each low to high, in the order of their groups' keys, and their numbers."""
    place = np.full(int(ranks.max(initial=0)) + 1, -1)
    runs = []
    for start, stop in zip(low.tolist(), high.tolist(), strict=True):
        own = ranks[group[start:stop]]
        place[own] = np.arange(start, stop)
        if 8 * (stop - start) < len(place):
            runs.append(place[np.sort(own)])
        else:
            runs.append(place[place >= 0])
        place[own] = -1
    return np.concatenate(runs), np.repeat(number, high - low)
