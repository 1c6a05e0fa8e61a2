"""``decay``: counts whose weights shrink with age."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from skyband.arrays import Array, Ints
from skyband.contract.rows import Rows, Windows
from skyband.contract.runs import Part, Runs, Types, offsets_of
from skyband.data.decay import Decay
from skyband.data.time_axis import native_ticks
from skyband.frequency.running import RunningCounts, not_empty, only

_FORGET = 20
"""An item without a row for this many half-lives is forgotten."""
_REBASE = 64
"""Weights grow relative to their base for this many half-lives; then the base moves."""
_ODD = np.uint64(0x9E3779B97F4A7C15)
_CELL = np.uint64(48)
"""Bits of a hash that its cell leaves out: there are 2^16 cells per group."""


class DecayedCounts(RunningCounts):
    """The decayed weight of every item seen in the last 20 half-lives, or of ``capacity`` items.

    Weights are kept relative to a base pane, so that a pane changes only the items that occur in it
    (Cormode, Shkapenyuk, Srivastava and Xu 2009, forward decay); the base moves after 64
    half-lives. An item without a row for 20 half-lives is forgotten. What it weighed is remembered
    in one of 2^16 cells, chosen by its hash, in which the greatest weight counts. If the item comes
    back, it starts with the weight of its cell as its count and as its error. With ``capacity``,
    items are bounded as in ``landmark``, and an item that is not shown for its age stays until it
    is dropped.

    Cost: one pass over the items of a group per pane with rows. State: one entry per item of the
    last 20 half-lives, and at most 2^16 cells per group; or ``capacity`` entries. Counts are the
    true decayed weights, with error 0, for items that were never forgotten or dropped.

    >>> import pyarrow as pa, skyband as sb
    >>> words = pa.table({"t": [0, 5, 10], "word": ["to", "be", "to"]})
    >>> query = sb.HeavyHitters(k=1, item="word", time="t", window=sb.DecayWindow(5, slide=10))
    >>> sb.rank(words, query).select(["window_end", "word", "count"]).to_pylist()[1]
    {'window_end': 20, 'word': 'to', 'count': 0.3125}
    """

    timed = True

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    @cached_property
    def decay(self) -> Decay:
        """The window's decay, once the type of the time column is known."""
        window: Any = self.query.window
        return Decay(window.panes, self.axes[""].kind)

    @property
    def _slide(self) -> int:
        return self.decay.panes.slide

    # Summaries --------------------------------------------------------------------------------

    def weighed(self, rows: Rows) -> tuple[Array, Array | None]:
        ends = np.repeat(self.decay.panes.pane_end(rows.pane), rows.lengths)
        weights = self.decay.weights(rows.tie, ends)
        if self.query.weight is not None:
            weights *= rows.numpy(self.query.weight)
        return weights, np.add.reduceat(weights, rows.offsets[:-1])

    def more_of(self, rows: Rows, first: Ints) -> dict[str, Any]:
        seen = native_ticks(rows.tie[first], self.decay.kind)
        return super().more_of(rows, first) | {"seen": seen}

    def scaled(self, runs: Runs, starts: Ints) -> tuple[Ints, Array | None]:
        base = runs.scalars["base"]
        if not len(starts):
            return base, None
        low, high = np.minimum.reduceat(base, starts), np.maximum.reduceat(base, starts)
        if (low == high).all():
            return low, None
        near = (high - low) * self._slide <= _REBASE * self.decay.half_life
        target = np.where(near, low, high)
        owner = np.cumsum(~runs.repeats) - 1
        return target, self._factor(base, target[owner])

    def _factor(self, base: Ints, target: Any) -> Array:
        """What turns weights at the end of one pane into weights at the end of another."""
        return self.decay.faded(np.ones(len(base)), (target - base) * self._slide)

    def _merged(self, runs: Runs, latest_first: bool = False) -> Runs:
        starts = np.flatnonzero(~runs.repeats)
        found = super()._merged(runs, latest_first)
        if "cells" not in runs.parts:
            return found
        part = runs.parts["cells"]
        scale = self.scaled(runs, starts)[1]
        weight = (
            part["weight"] if scale is None else part["weight"] * np.repeat(scale, part.lengths)
        )
        owner = np.repeat(np.cumsum(~runs.repeats) - 1, part.lengths)
        return found.with_parts(cells=_cells(owner, part["cell"], weight, part["seen"], len(found)))

    # The fold ---------------------------------------------------------------------------------

    def _take_pane(self, pane: Runs) -> None:
        if self.query.capacity is None and "cells" not in pane.parts:
            none = np.zeros(0, np.int64)
            pane = pane.with_parts(cells=_cells(none, none, np.zeros(0), none, len(pane)))
        super()._take_pane(pane)

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        found = super().fold(panes, windows)
        if len(windows) and self.kept is not None:
            self.kept = self.before(self.kept, int(windows.end[-1]))
        return found

    def _summary_types(self) -> Types:
        types = super()._summary_types()
        if self.query.capacity is not None:
            return types
        none = np.zeros(0, np.int64)
        cells = _cells(none, none, np.zeros(0), none, 0)
        own = Runs(none, none.astype(np.int32), {"cells": cells}).types
        return {**types, "cells": own["cells"]}

    def before(self, kept: Runs, pane: int) -> Runs:
        """Forget the items that have had no row for 20 half-lives at the start of a pane."""
        part = kept.parts["items"]
        old = ~self._seen_since(part, pane, self._memory)
        if old.any():
            kept = self._forgotten(kept, old)
        if "cells" in kept.parts:
            cells = kept.parts["cells"]
            alive = self._seen_since(cells, pane, self.decay.panes.memory)
            if not alive.all():
                kept = kept.with_parts(cells=only(cells, alive))
        return not_empty(kept)

    @property
    def _memory(self) -> int:
        """How long an item without rows is kept; with ``capacity`` there is room for all."""
        return (_FORGET if self.query.capacity is None else 1_000) * self.decay.half_life

    def _seen_since(self, part: Part, pane: int, memory: int) -> Any:
        return part["seen"] >= max(self.decay.panes.pane_start(pane) - memory, -(1 << 63))

    def _forgotten(self, kept: Runs, old: Any) -> Runs:
        part = kept.parts["items"]
        items = only(part, ~old)
        if self.query.capacity is not None:
            return kept.with_parts(items=items)
        cells, owner = kept.parts["cells"], np.repeat(np.arange(len(kept)), part.lengths)[old]
        known = np.repeat(np.arange(len(kept)), cells.lengths)
        merged = _cells(
            np.append(known, owner),
            np.append(cells["cell"], _cell_of(part["hash"][old])),
            np.append(cells["weight"], part["count"][old]),
            np.append(cells["seen"], part["seen"][old]),
            len(kept),
        )
        return kept.with_parts(items=items, cells=merged)

    def returned(self, fresh: Runs, known: Runs) -> Runs:
        """Items that may have been forgotten get the weight of their cell as count and error."""
        if "cells" not in known.parts or not len(known.parts["cells"]):
            return fresh
        part, cells, items = fresh.parts["items"], known.parts["cells"], known.parts["items"]
        place = np.searchsorted(known.group, fresh.group)
        place[place == len(known)] = 0
        there = known.group[place] == fresh.group
        factor = self._factor(known.scalars["base"][place], fresh.scalars["base"])
        owner = np.repeat(np.arange(len(fresh)), part.lengths)
        wanted = (place[owner] << 16) + _cell_of(part["hash"])
        have = (np.repeat(np.arange(len(known)), cells.lengths) << 16) + cells["cell"]
        at = np.minimum(np.searchsorted(have, wanted), len(have) - 1)
        hit = np.flatnonzero((have[at] == wanted) & there[owner])
        if not len(hit):
            return fresh
        # Of those, only the items that are not in the state.
        live = _key(np.repeat(np.arange(len(known)), items.lengths), items["hash"])
        keys = _key(place[owner[hit]], part["hash"][hit])
        hit = hit[~np.isin(keys, live, kind="sort")]
        slack = np.zeros(len(part))
        slack[hit] = cells["weight"][at[hit]] * factor[owner[hit]]
        columns = {**part.columns, "count": part["count"] + slack, "error": part["error"] + slack}
        return fresh.with_parts(items=Part(part.offsets, columns))

    def home(self, name: str, part: Part) -> Ints:
        # A cell is in the part of the items that it stands for.
        return part["cell"] >> 10 if name == "cells" else super().home(name, part)

    def read(self, kept: Runs, end: int) -> Runs:
        kept = self.before(kept, end)
        part = kept.parts["items"]
        shown = self._seen_since(part, end, _FORGET * self.decay.half_life)
        factor = self._factor(kept.scalars["base"], np.full(len(kept), end - 1))
        by_item = np.repeat(factor, part.lengths)
        columns = {
            **part.columns,
            "count": part["count"] * by_item,
            "error": part["error"] * by_item,
        }
        part = only(Part(part.offsets, columns), shown)
        kept = kept.with_parts(items=part).with_scalars(floor=kept.scalars["floor"] * factor)
        return kept.take(part.lengths > 0)


def _key(run: Ints, hashes: Any) -> Any:
    """A key for an item of a run."""
    return hashes + run.astype(np.uint64) * _ODD


def _cell_of(hashes: Any) -> Ints:
    return np.asarray(hashes >> _CELL).astype(np.int64)


def _cells(owner: Ints, cell: Ints, weight: Array, seen: Ints, runs: int) -> Part:
    """The cells of each run in order, each once, with its greatest weight and latest time."""
    order = np.lexsort((cell, owner))
    owner, cell, weight, seen = owner[order], cell[order], weight[order], seen[order]
    if len(owner):
        new = np.append(True, (owner[1:] != owner[:-1]) | (cell[1:] != cell[:-1]))
        starts = np.flatnonzero(new)
        weight, seen = np.maximum.reduceat(weight, starts), np.maximum.reduceat(seen, starts)
        owner, cell = owner[starts], cell[starts]
    columns = {"cell": cell, "weight": weight, "seen": seen}
    return Part(offsets_of(np.bincount(owner, minlength=runs)), columns)
