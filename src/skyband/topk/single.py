"""The base of TopK synopses for one group, whose kernels fold many panes and windows at once."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from skyband.arrays import Ints
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs
from skyband.kernels import select as kernel
from skyband.kernels.borrow import frozen
from skyband.query.topk import TopK
from skyband.topk.base import TopKSynopsis
from skyband.topk.payload import Payload


def kernel_runs(panes: Runs, slots: Ints) -> kernel.PaneRows:
    """The rows of panes as kernels take them."""
    part = panes.parts["rows"]
    key, tie = frozen(part["key"]), frozen(part["tie"])
    return kernel.PaneRows(frozen(panes.stamp), frozen(part.offsets), key, tie, slots)


class SingleGroup(TopKSynopsis):
    """Manages slots, payload and answers for a kernel that handles one group."""

    saved_parts = (("payload/", "payload"),)

    def __init__(self, query: TopK) -> None:
        super().__init__(query)
        self.payload = Payload({})

    def start(self) -> None:
        self.payload = self._new_payload()

    @abstractmethod
    def _run(self, panes: Runs, slots: Ints, windows: Windows) -> tuple[Ints, Ints]:
        """Fold panes; returns rows (key, tie, slot), and where each window's rows start."""

    @abstractmethod
    def _slots(self) -> Ints:
        """The slots of all rows kept, each once."""

    @abstractmethod
    def _renumber(self, place: Ints) -> None:
        """Replace each slot ``s`` by ``place[s]``."""

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        slots = self.payload.add(panes.parts["rows"])
        rows, cuts = self._run(panes, slots, windows)
        found = self._partial(rows, cuts, windows.number) if len(windows) else None
        kept = self._slots()
        if self.payload.crowded(len(kept)):
            place = np.zeros(len(self.payload), np.int64)
            place[kept] = np.arange(len(kept))
            self.payload.compact(kept)
            self._renumber(place)
        return found

    def _partial(self, rows: Ints, cuts: Ints, numbers: Ints) -> Runs:
        columns: dict[str, Any] = {"key": rows[:, 0].copy(), "tie": rows[:, 1].copy()}
        columns |= self.payload.gather(rows[:, 2])
        group = np.zeros(len(numbers), np.int32)
        return Runs(numbers, group, {"rows": Part(cuts, columns)})

    def _read(self, rows: Ints) -> Runs:
        """A partial answer from kept rows (key, tie, slot) in order of arrival."""
        order = np.lexsort((np.arange(len(rows)), ~rows[:, 1], ~rows[:, 0]))[: self.query.k]
        number = np.zeros(min(1, len(order)), np.int64)
        cuts = np.array([0, len(order)] if len(order) else [0])
        return self._partial(rows[order], cuts, number)
