"""``ties="all"``: the best k rows, and all that tie with the last of them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from skyband.arrays import Ints, Saved
from skyband.contract.rows import Windows
from skyband.contract.runs import MORE, Part, Runs, offsets_of, with_ties
from skyband.data.flat_state import Form, Forms, require
from skyband.kernels.borrow import frozen
from skyband.query.topk import TopK
from skyband.topk.base import TopKSynopsis
from skyband.topk.distinct import group_windows
from skyband.topk.kernels import tied as kernel
from skyband.topk.kernels.tied import TiedRows, fold_tied
from skyband.topk.payload import Payload

_NONE = np.zeros(0, np.int64)


class SkybandTies(TopKSynopsis):
    """Keeps the rows that fewer than k rows with better scores follow, those that tie included.

    Cost: one comparison per row that is not among the best of its pane, and one pass over a group's
    rows per answer. State: of each pane the best rows up to those that tie with its k-th, at most
    ``most`` of them and the number of the others; per group about k (1 + ln panes) rows if scores
    come in random order and seldom tie, at most ``most`` times the panes. Exact. It is the
    k-skyband of Mouratidis et al. 2006, where only a better score dominates.

    >>> import pyarrow as pa, skyband as sb
    >>> query = sb.TopK(k=1, score="x", window=sb.CountWindow(4), ties="all")
    >>> sb.rank(pa.table({"x": [3, 1, 3, 2]}), query).select(["rank", "x"]).to_pylist()
    [{'rank': 1, 'x': 3}, {'rank': 1, 'x': 3}]
    """

    many_groups = True
    shortens = True
    saved_arrays = ("rows", "starts")
    saved_forms: ClassVar[Forms] = {"starts": Form("starts", 0, ascends=True)}
    saved_parts = (("payload/", "payload"),)
    most: int

    def __init__(self, query: TopK) -> None:
        super().__init__(query)
        self.rows = np.zeros((0, kernel.WIDTH), np.int64)
        self.starts = np.zeros(1, np.int64)
        self.payload = Payload({})

    def start(self) -> None:
        self.payload = self._new_payload()

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        part = panes.parts["rows"]
        slots = self.payload.add(part) if len(part) else _NONE
        order = np.argsort(panes.group, kind="stable")
        columns = {name: part.columns.get(name, _NONE) for name in ("key", "tie", MORE)}
        runs = Part(part.offsets, {**columns, "slot": slots}).take(order)
        own = (frozen(runs[name]) for name in ("key", "tie", MORE, "slot"))
        stamp, group = frozen(panes.stamp[order]), frozen(panes.group[order])
        groups = max(len(self.starts) - 1, int(panes.group.max(initial=-1)) + 1)
        asked, numbers = group_windows(windows, groups)
        self.rows, self.starts, rows, told = fold_tied(
            frozen(self.rows), frozen(self.starts), groups, self.query.k, self.most,
            TiedRows(stamp, group, frozen(runs.offsets), *own), asked,
        )  # fmt: skip
        found = None
        if len(windows):
            found = self._answers(rows, told[:, 2], numbers[told[:, 0]], told[:, 1])
        if self.payload.crowded(len(self.rows)):
            self.payload.compact(self.rows[:, kernel.SLOT])
            self.rows[:, kernel.SLOT] = np.arange(len(self.rows))
        return found

    def _answers(self, rows: Ints, lengths: Ints, numbers: Ints, groups: Ints) -> Runs:
        """Partial answers from rows in which equal scores of an answer are in order."""
        run = np.repeat(np.arange(len(lengths)), lengths)
        rows = rows[np.lexsort((~rows[:, kernel.KEY], run))]
        columns: dict[str, Any] = {
            name: rows[:, place].copy()
            for name, place in (("key", kernel.KEY), ("tie", kernel.TIE), (MORE, kernel.MORE))
        }
        columns |= self.payload.gather(rows[:, kernel.SLOT].copy())
        return Runs(numbers, groups.astype(np.int32), {"rows": Part(offsets_of(lengths), columns)})

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        owner = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        live = self.rows[:, kernel.PANE] >= first
        at = np.flatnonzero(live if group is None else live & (owner == group))
        at = at[np.lexsort((-at, owner[at]))]  # the newest pane first
        groups, lengths = np.unique(owner[at], return_counts=True)
        found = self._answers(self.rows[at], lengths, np.zeros(len(groups), np.int64), groups)
        return found.with_parts(rows=with_ties(found.parts["rows"], "key", self.query.k, self.most))

    # State ------------------------------------------------------------------------------------

    def stats(self) -> dict[str, int | float]:
        return {"retained": len(self.rows), "state_bytes": self.nbytes}

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        owners = self.starts[0] == 0 and self.starts[-1] == len(self.rows)
        require(owners and self.payload.has(self.rows[:, kernel.SLOT]), "a row has no slot")
        self._check_sealed(self.rows[:, kernel.PANE])

    def _check(self) -> None:
        self.payload._check(self.rows[:, kernel.SLOT])
        for low, high in zip(self.starts[:-1], self.starts[1:], strict=True):
            rows = self.rows[low:high]
            assert (np.diff(rows[:, kernel.PANE]) >= 0).all()
            for i, row in enumerate(rows):
                assert (rows[i + 1 :, kernel.KEY] > row[kernel.KEY]).sum() < self.query.k
