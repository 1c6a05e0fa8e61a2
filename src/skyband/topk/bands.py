"""The state of ``ties="all"`` and of ``distinct="best"``; and ``ties="all"`` itself."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from skyband.arrays import Codes, Ints, Saved
from skyband.contract.rows import Windows
from skyband.contract.runs import MORE, Part, Runs, offsets_of
from skyband.data.flat_state import FlatState, Form, Forms, require
from skyband.kernels.borrow import frozen
from skyband.kernels.sorting import sort_runs
from skyband.topk.base import TopKSynopsis
from skyband.topk.kernels import bands as kernel
from skyband.topk.kernels.bands import BandRows, GroupWindows, fold_bands
from skyband.topk.payload import Payload

_NONE = np.zeros(0, np.int64)
_NOTHING = BandRows(
    frozen(_NONE), frozen(np.zeros(0, np.int32)), frozen(np.zeros(1, np.int64)),
    *[frozen(_NONE)] * 4,
)  # fmt: skip


def group_windows(windows: Windows, groups: int) -> tuple[GroupWindows, Ints]:
    """Windows as kernels take them, and their numbers."""
    first, end, number = windows.first, windows.end, windows.number
    if windows.group is None:
        return GroupWindows(frozen(first), frozen(end), frozen(_NONE), True), number
    order = np.lexsort((number, windows.group))
    cuts = np.searchsorted(windows.group[order], np.arange(groups + 1))
    due = GroupWindows(frozen(first[order]), frozen(end[order]), frozen(cuts), False)
    return due, number[order]


class Bands(FlatState):
    """The rows of each group that can still be in an answer, and what answers show of them.

    With ``most``, these are rows and what ties with the last of them, at most so many; otherwise
    each id has one row.
    """

    saved_arrays = ("rows", "starts")
    saved_forms: ClassVar[Forms] = {"starts": Form("starts", 0, ascends=True)}
    saved_parts = (("payload/", "payload"),)

    def __init__(self, k: int, most: int | None, payload: Payload) -> None:
        self.k, self.most, self.payload = k, most, payload
        self.last = "hash" if most is None else MORE
        """The column of summaries that the kernel needs beside score and time."""
        self.rows = np.zeros((0, kernel.WIDTH), np.int64)
        self.starts = np.zeros(1, np.int64)

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        """Take panes, and read windows."""
        part = panes.parts["rows"]
        slots = self.payload.add(part) if len(part) else _NONE
        names = ("key", "tie", self.last)
        columns = {name: part.columns.get(name, _NONE).view(np.int64) for name in names}
        rows = Part(part.offsets, {**columns, "slot": slots})
        if self.most is None:
            best = sort_runs(frozen(rows["key"]), frozen(rows["tie"]), frozen(rows.offsets))[0]
            rows = rows.rows(best, rows.offsets)
        order = np.argsort(panes.group, kind="stable")
        rows = rows.take(order)
        self.rows, self.starts, answers = self._run(
            BandRows(
                frozen(panes.stamp[order]), frozen(panes.group[order]), frozen(rows.offsets),
                *(frozen(rows[name]) for name in (*names, "slot")),
            ),
            windows,
        )  # fmt: skip
        if self.payload.crowded(len(self.rows)):
            self.payload.compact(self.rows[:, kernel.SLOT])
            self.rows[:, kernel.SLOT] = np.arange(len(self.rows))
        return answers if len(windows) else None

    def read(self, first: int, end: int, group: int | None) -> Runs:
        """The answers over the panes ``[first, end)``; nothing changes."""
        window = Windows(np.zeros(1, np.int64), np.array([first]), np.array([end]), _NONE)
        answers = self._run(_NOTHING, window)[2]
        return answers if group is None else answers.take(answers.group == group)

    def _run(self, pushed: BandRows, windows: Windows) -> tuple[Ints, Ints, Runs]:
        """The rows of groups after a fold, where those of each start, and the answers."""
        groups = max(len(self.starts) - 1, int(pushed.group.max(initial=-1)) + 1)
        due, numbers = group_windows(windows, groups)
        held, starts, rows, answered = fold_bands(
            frozen(self.rows), frozen(self.starts), groups, self.k, self.most or self.k,
            self.most is None, pushed, due,
        )  # fmt: skip
        offsets = offsets_of(answered[:, 2])
        if self.most is not None:  # equal scores are in order
            run = np.repeat(np.arange(len(answered)), answered[:, 2])
            rows = rows[np.lexsort((~rows[:, kernel.KEY], run))]
        columns: dict[str, Any] = {
            "key": rows[:, kernel.KEY].copy(), "tie": rows[:, kernel.TIE].copy()
        }  # fmt: skip
        if self.most is not None:
            columns[MORE] = rows[:, kernel.LAST].copy()
        columns |= self.payload.gather(rows[:, kernel.SLOT].copy())
        group: Codes = answered[:, 1].astype(np.int32)
        return held, starts, Runs(numbers[answered[:, 0]], group, {"rows": Part(offsets, columns)})

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        owners = self.starts[0] == 0 and self.starts[-1] == len(self.rows)
        require(owners and self.payload.has(self.rows[:, kernel.SLOT]), "a row has no slot")

    def _check(self) -> None:
        self.payload._check(self.rows[:, kernel.SLOT])
        for low, high in zip(self.starts[:-1], self.starts[1:], strict=True):
            rows = self.rows[low:high]
            assert (np.diff(rows[:, kernel.PANE]) >= 0).all()
            for i, row in enumerate(rows):
                newer = rows[i + 1 :]
                better = newer[:, kernel.KEY] > row[kernel.KEY]
                if self.most is None:
                    same = newer[:, kernel.KEY] == row[kernel.KEY]
                    better |= same & (newer[:, kernel.TIE] > row[kernel.TIE])
                    better = np.unique(newer[better, kernel.LAST])
                    assert row[kernel.LAST] not in better
                    assert len(better) < self.k
                else:
                    assert better.sum() < self.k


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
    saved_parts = (("", "bands"),)

    def start(self) -> None:
        self.bands = Bands(self.query.k, self.most, self._new_payload())

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        return self.bands.fold(panes, windows)

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        return self.bands.read(first, end, group)

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        self._check_sealed(self.bands.rows[:, kernel.PANE])

    def stats(self) -> dict[str, int | float]:
        return {"retained": len(self.bands.rows), "state_bytes": self.nbytes}

    def _check(self) -> None:
        self.bands._check()
