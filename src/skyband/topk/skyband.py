"""Exact top-k from the k-skyband: our own algorithm and the default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.arrays import Codes, Ints, Saved, State, copied
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, expand, offsets_of
from skyband.contract.tumbling import Tumbling
from skyband.data.flat_state import Form, admitted, require
from skyband.kernels.borrow import frozen
from skyband.kernels.sorting import sort_runs
from skyband.query.topk import TopK
from skyband.topk.base import TopKSynopsis
from skyband.topk.kernels import skyband as kernel
from skyband.topk.kernels.skyband import BASE, CAP, PANE
from skyband.topk.payload import Payload
from skyband.topk.pruner import BatchPruner

_NONE = np.zeros(0, np.int64)
_ONE = np.zeros(1, np.int32)


class SkybandTopK(TopKSynopsis):
    """Keeps the k-skyband of each group; rows that have dropped out of it are removed in bulk.

    Cost: one comparison per row that is not among the best k of its pane (or, in a batch of many
    panes, of the panes around it: see pruner.py), O(log k) amortised per other row, whatever the
    order of scores, and O(k) per answer. State: the rows that are followed by fewer than k better
    ones; per group about k (1 + ln panes) if scores come in random order, at most k times the
    number of panes. Exact. Follows the k-skyband of Mouratidis et al. 2006, one pane at a time.

    >>> import pyarrow as pa, skyband as sb
    >>> query = sb.TopK(k=1, score="x", window=sb.CountWindow(2, slide=1), algorithm="skyband")
    >>> sb.rank(pa.table({"x": [3, 1, 2]}), query)["x"].to_pylist()
    [3, 3, 2]
    """

    many_groups = True
    shortens = True
    saved_parts = (("payload/", "payload"),)

    def __init__(self, query: TopK) -> None:
        super().__init__(query)
        self.band = kernel.Skyband(query.k)
        self.payload = Payload({})
        self.served: Sequence[TopK] = (query,)
        self.pruner = BatchPruner(query)
        self.long_chunks = not query.groups
        self.alone: Tumbling | None = None
        """The state, if a window is one pane: then there is no band."""

    def start(self) -> None:
        self.payload = self._new_payload()
        one = self.query.window.panes.per_window == 1 and not self.counting
        self.alone = Tumbling(self._sorted) if one else None

    def serve(self, queries: Sequence[TopK]) -> None:
        self.served = tuple(queries)
        self.pruner = BatchPruner(self.query, queries)

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        return self.fold_readers(panes, [windows])[0]

    def fold_readers(self, panes: Runs, windows: Sequence[Windows]) -> list[Runs | None]:
        if self.alone is not None:
            answers = self.alone.fold(panes, windows)
            return [_first(runs, q.k) for runs, q in zip(answers, self.served, strict=True)]
        part = panes.parts["rows"]
        slots = self.payload.add(part)
        runs = (panes.stamp, panes.group, part.offsets, part["key"], part["tie"], slots)
        merged, of = Windows.merged(windows)
        ranks = merged.ranks
        order = np.argsort(ranks).astype(np.int32) if len(ranks) > 1 else _ONE
        groups, own = (order, False) if merged.group is None else (merged.group, True)
        oldest = most = None
        if len(windows) > 1 or self.served[0].k < self.query.k:
            oldest = merged.end - self.query.window.panes.per_window
            most = np.array([query.k for query in self.served])[of]
        tops = self.band.fold(*runs, merged.first, merged.end, groups, own, oldest, most)
        answers = [
            self._partial(tops.of(of[tops.window] == i), merged.number) if len(each) else None
            for i, each in enumerate(windows)
        ]
        if self.payload.crowded(self.band.retained):
            slots = self.band.slots()
            self.payload.compact(slots)
            self.band.renumber(np.arange(len(slots)))
        return answers

    # Reads and state --------------------------------------------------------------------------

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        if self.alone is not None:
            return self.alone.partial(first, end, group)
        known = len(self.band.groups)
        order = np.arange(known) if group is None else np.array([group])
        tops = self.band.read(first, end, order.astype(np.int32))
        return self._partial(tops, np.zeros(1, np.int64))

    def _partial(self, tops: kernel.Tops, numbers: Ints) -> Runs:
        """Answers, with the number of each window."""
        # The answer may show ties as they are: a view would keep all that the kernel wrote alive.
        columns: dict[str, Any] = {"key": tops.key, "tie": copied(tops.tie)}
        columns |= self.payload.gather(tops.slot)
        return Runs(numbers[tops.window], tops.group, {"rows": Part(tops.offsets, columns)})

    def _sorted(self, panes: Runs, runs: Ints) -> Runs:
        """The rows of some runs of panes, the best first."""
        part = panes.parts["rows"]
        order, _ = sort_runs(frozen(part["key"]), frozen(part["tie"]), frozen(part.offsets))
        lengths = part.lengths[runs]
        best = part.rows(order[expand(part.offsets[runs], lengths)], offsets_of(lengths))
        return Runs(panes.stamp[runs], panes.group[runs], {"rows": best})

    def forget(self, groups: Codes) -> None:
        self.band.forget(groups)

    def snapshot(self) -> State:
        if self.alone is not None:
            return self.alone.state()
        return self.band.arrays() | super().snapshot()

    def restore(self, arrays: Saved) -> None:
        if self.alone is not None:
            self.alone.restore(arrays)
            if self.alone.last is not None:
                self.saved_runs(self.alone.last)
            return
        own = {n: a for n, a in arrays.items() if not n.startswith("payload/")}
        blank = kernel.Skyband(self.query.k)
        like = {"rows": blank.rows, "order": blank.order, "groups": blank.groups}
        own = admitted(own, like, {"order": Form("rows", 0), "rows": Form("rows")})
        require(_apart(own, self.query.k), "the rows of groups overlap")
        self.band = kernel.Skyband.from_arrays(self.query.k, **own)
        super().restore(arrays)
        require(self.payload.has(self.band.slots()), "a row has no slot")
        self._check_sealed(own["rows"][:, PANE])

    def stats(self) -> dict[str, int | float]:
        if self.alone is not None:
            return self.alone.stats()
        state = self.band.nbytes + self.payload.nbytes
        return {"retained": self.band.retained, "state_bytes": state}

    def _check(self) -> None:
        if self.alone is not None:
            self.alone._check()
        self.band._check()
        self.payload._check(self.band.slots())


def _first(runs: Runs | None, k: int) -> Runs | None:
    """The best k rows of each run."""
    return None if runs is None else runs.with_parts(rows=runs.parts["rows"].first_rows(k))


def _apart(saved: State, k: int) -> bool:
    """Whether each group has a stretch of rows of its own, and all its indices lie in there."""
    rows, order, groups = (saved[name] for name in ("rows", "order", "groups"))
    used = len(order)
    groups = groups[np.lexsort((groups[:, CAP], groups[:, BASE]))]
    base, cap, top, rest, front, back, best = groups.T
    if (groups < 0).any() or (groups > used).any():
        return False
    steps = np.stack([top, rest, front, front + back, cap, np.full(len(groups), used)])
    ends = base + cap
    listed = best == np.minimum(k, back)
    in_steps = (steps[1:] >= steps[:-1]).all() and (top <= k).all() and ends.max(initial=0) <= used
    if not (in_steps and (base[1:] >= ends[:-1]).all() and listed.all()):
        return False
    behind = expand(base + front, back)
    in_order = np.diff(rows[behind, PANE]) >= 0
    if not in_order[np.repeat(base, back)[1:] == np.repeat(base, back)[:-1]].all():
        return False
    named = order[expand(base, best)]
    low, high = np.repeat(front, best), np.repeat(front + back, best)
    return bool(((named >= low) & (named < high)).all())
