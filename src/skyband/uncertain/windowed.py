"""State over sealed panes: retained rows by slot, and what a kernel keeps about them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.query.uncertain import UncertainTopK
from skyband.runs import Runs, offsets_of
from skyband.synopsis import Windows
from skyband.uncertain.base import UncertainSynopsis
from skyband.uncertain.store import RowStore

__all__ = ["WindowedSynopsis"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_SPARE = 4096
"""Dead rows that are not worth a clean-up."""


class WindowedSynopsis(UncertainSynopsis):
    """A row store and an algorithm's kernels; a synopsis names the kernels."""

    shortens = True

    def __init__(self, query: UncertainTopK) -> None:
        super().__init__(query)
        self._store: RowStore | None = None

    @property
    def store(self) -> RowStore:
        if self._store is None:
            name = self.id_column
            self._store = RowStore(None if name is None else self.schema.field(name).type)
        return self._store

    # What an algorithm supplies ---------------------------------------------------------------

    @abstractmethod
    def _run(
        self, stamp: Ints, offsets: Ints, first: Ints, end: Ints, final: bool
    ) -> tuple[Ints, Floats, Ints]:
        """Take panes, read windows: slots, their chances (where final), where each window ends."""

    @abstractmethod
    def _expire(self, first: int) -> None:
        """Panes before ``first`` are gone."""

    @abstractmethod
    def _read(self, first: int) -> Ints:
        """Slots of a set that holds the compact set of the panes from ``first`` on, in row order."""

    @abstractmethod
    def _live(self) -> Ints:
        """Slots in use, ascending."""

    @abstractmethod
    def _renumber(self, live: Ints) -> None:
        """Slot ``live[i]`` becomes i."""

    # Panes ------------------------------------------------------------------------------------

    def push(self, panes: Runs) -> None:
        none = np.zeros(0, np.int64)
        self._run(np.array(panes.stamp), self.store.append(panes), none, none, False)
        self._clean()

    def seal(self, first: int, end: int) -> None:
        self._expire(first)

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        slots = self._read(first) if self.schemas else np.zeros(0, np.int64)
        none = np.zeros(0, np.int64)
        lengths = np.array([len(slots)]) if len(slots) else none
        stamp = np.zeros(len(lengths), np.int64)
        rows = self.store.gather(slots, offsets_of(lengths))
        return Runs(stamp, stamp.astype(np.int32), {"rows": rows})

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        slots, _, ends = self._folded(panes, windows, final=False)
        part = self.store.gather(slots, ends)
        self._clean()
        return _runs(part, windows) if len(windows) else None

    def answers(self, panes: Runs, windows: Windows) -> Runs | None:
        slots, chance, ends = self._folded(panes, windows, final=True)
        part = self._shown(self.store.gather(slots, ends), chance)
        self._clean()
        return _runs(part, windows) if len(windows) else None

    def _folded(
        self, panes: Runs, windows: Windows, final: bool
    ) -> tuple[Ints, Floats, Ints]:
        # Arrays that came from elsewhere may be read-only, another type to a kernel: copies.
        offsets = self.store.append(panes)
        first, end = np.array(windows.first, np.int64), np.array(windows.end, np.int64)
        return self._run(np.array(panes.stamp, np.int64), offsets, first, end, final)

    def _clean(self) -> None:
        """Drop dead rows once they are the greater part."""
        if len(self.store) > _SPARE:
            live = self._live()
            if len(self.store) > 2 * len(live) + _SPARE:
                self._compact(live)

    def _compact(self, live: Ints) -> None:
        self._renumber(live)
        self.store.keep(live)

    # State ------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        if not self.schemas:
            return {}
        self._compact(self._live())
        own = {f"own/{name}": array.copy() for name, array in self._state().items()}
        return own | {f"rows/{name}": array for name, array in self.store.state().items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        if not arrays:
            return
        self.store.restore({n[5:]: a for n, a in arrays.items() if n.startswith("rows/")})
        self._load({n[4:]: np.array(a) for n, a in arrays.items() if n.startswith("own/")})

    @abstractmethod
    def _state(self) -> Mapping[str, npt.NDArray[Any]]:
        """What the algorithm keeps beside the rows."""

    @abstractmethod
    def _load(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what ``_state`` gave."""

    def _check(self) -> None:
        self.store._check() if self.schemas else None


def _runs(part: Any, windows: Windows) -> Runs:
    return Runs(windows.number, np.zeros(len(windows), np.int32), {"rows": part})
