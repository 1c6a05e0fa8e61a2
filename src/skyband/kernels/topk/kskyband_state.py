"""The rows of all groups in the k-skyband, without the folding; see ``kskyband.py``."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skyband.kernels.topk.kskyband_best import KEY, PANE, SLOT, TIE, Ints, Ints32, make_scratch
from skyband.kernels.topk.kskyband_group import (
    BACK,
    BASE,
    CAP,
    FRONT,
    LOWEST,
    REST,
    TOP,
    compact,
    sweep_all,
)

__all__ = ["State"]


def _grown(array: Any, shape: tuple[int, ...], used: int) -> Any:
    """The array with room for more, in place where it owns its memory: nothing is copied then."""
    if array.flags.owndata:
        array.resize(shape, refcheck=False)
        return array
    grown = np.empty(shape, array.dtype)
    grown[:used] = array[:used]
    return grown


class State:
    """Every group has a stretch of one array of rows, so that a snapshot is a copy."""

    __slots__ = ("_held", "_scratch", "_unit_of", "garbage", "groups", "k", "order", "rows", "used")

    def __init__(self, k: int) -> None:
        self.k = k
        self.rows: Ints = np.empty((0, 4), np.int64)
        self.order: Ints32 = np.empty(0, np.int32)
        self.groups: Ints = np.zeros((0, 8), np.int64)
        self.used = 0  # rows[:used] belong to groups, but for the garbage among them
        self.garbage = 0
        self._held = 0
        self._unit_of: Ints32 = np.empty(0, np.int32)  # -1 everywhere between calls
        self._scratch = make_scratch(64, k)

    def _reserve_groups(self, n: int) -> None:
        have = len(self.groups)
        if n > have:
            room = max(n, have + have // 2)
            groups = np.zeros((room, 8), np.int64)
            groups[:have] = self.groups
            self.groups = groups
            self._unit_of = np.full(room, -1, np.int32)

    def _reserve_rows(self, n: int) -> None:
        self.rows = _grown(self.rows, (n, 4), self.used)
        self.order = _grown(self.order, (n,), self.used)

    def _compact(self) -> None:
        self.rows, self.order, self.used = compact(self.rows, self.order, self.groups)
        self.garbage = 0

    def forget(self, groups: NDArray[np.integer]) -> None:
        """Drop all rows of some groups; their numbers may be used anew."""
        groups = groups[groups < len(self.groups)]  # others have never had a row
        self._held -= int(self.lengths[groups].sum())
        self.garbage += int(self.groups[groups, CAP].sum())
        self.groups[groups] = 0
        if 2 * self.garbage > self.used:
            self._compact()

    @property
    def lengths(self) -> Ints:
        """How many rows each group holds."""
        groups = self.groups
        held: Ints = groups[:, TOP] + groups[:, FRONT] - groups[:, REST] + groups[:, BACK]
        return held

    @property
    def retained(self) -> int:
        """How many rows are held; right after ``sweep``, those that can still be answered."""
        return self._held

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        arrays = (self.rows, self.order, self.groups, self._unit_of, *self._scratch)
        return sum(array.nbytes for array in arrays)

    def slots(self) -> Ints:
        """The slots of all rows that are held, in no particular order."""
        slots: Ints = self.rows[self._positions(), SLOT]
        return slots

    def renumber(self, slots: Ints) -> None:
        """Give the held rows new slots, in the order of ``slots()``."""
        self.rows[self._positions(), SLOT] = slots

    def sweep(self, first: int) -> None:
        """Drop everything that can no longer be answered in windows that start at ``first``."""
        largest = int((self.groups[:, FRONT] + self.groups[:, BACK]).max(initial=1))
        sweep_all(self.rows, self.groups, first, self.k, make_scratch(largest, self.k))
        self._held = int(self.lengths.sum())

    def copy(self) -> Self:
        """A state that goes on independently, without free room."""
        other = type(self)(self.k)
        other.groups = self.groups.copy()
        other._held = self._held  # noqa: SLF001 - of the same class
        other._unit_of = np.full(len(self.groups), -1, np.int32)  # noqa: SLF001 - same
        other.rows, other.order, other.used = compact(self.rows, self.order, other.groups)
        return other

    def arrays(self) -> dict[str, NDArray[np.int64] | NDArray[np.int32]]:
        """All there is to the state but k, compacted."""
        self._compact()
        used = self.used
        return {"rows": self.rows[:used], "order": self.order[:used], "groups": self.groups}

    @classmethod
    def from_arrays(cls, k: int, rows: Ints, order: Ints32, groups: Ints) -> Self:
        """The way back from ``arrays``; they are copied."""
        band = cls(k)
        band.rows, band.order, band.groups = rows.copy(), order.copy(), groups.copy()
        band.used = len(rows)
        band._held = int(band.lengths.sum())
        band._unit_of = np.full(len(groups), -1, np.int32)
        return band

    def _positions(self) -> Ints:
        """Where the held rows stand: of every group the top, and what is between gap and room."""
        base, top, rest = self.groups[:, BASE], self.groups[:, TOP], self.groups[:, REST]
        starts = np.stack((base, base + rest), axis=1).ravel()
        lengths = np.stack((top, self.lengths - top), axis=1).ravel()
        ends = np.cumsum(lengths)
        positions: Ints = np.arange(self._held) + np.repeat(starts - (ends - lengths), lengths)
        return positions

    def _check(self, first: int = LOWEST, swept: bool = False) -> None:
        """Assert every invariant; with ``swept``, also that nothing could be dropped."""
        assert (self._unit_of == -1).all()
        assert self._held == self.lengths.sum()
        assert sorted(set(self._positions().tolist())) == sorted(self._positions().tolist())
        assert int(self.groups[:, CAP].sum()) + self.garbage == self.used <= len(self.rows)
        for base, cap, top, rest, front, back, best, large in self.groups.tolist():
            assert 0 <= top <= rest <= front <= front + back <= cap
            assert top <= self.k
            assert best == (min(self.k, back) if large else back)
            held = [tuple(row) for row in self.rows[base : base + front + back].tolist()]
            ahead, behind = held[:top] + held[rest:front], held[front:]
            by_order = sorted(ahead, key=lambda row: (-row[KEY], -row[TIE]))
            assert [row[:2] for row in ahead] == [row[:2] for row in by_order]
            assert top == self.k or rest == front or swept is False
            panes = [row[PANE] for row in behind]
            assert panes == sorted(panes)
            assert large or (top == 0 and rest == front)
            order = self.order[base : base + best].tolist()
            named = [held[i] for i in order]
            wanted = sorted(range(back), key=lambda i: (-behind[i][KEY], -behind[i][TIE], i))
            assert order == [front + i for i in wanted[:best]], (named, behind)
            if ahead and behind:
                assert max(row[PANE] for row in ahead) < panes[0]
            if swept:
                assert back == 0
                for i, row in enumerate(ahead):
                    assert row[PANE] >= first
                    assert sum(other[PANE] >= row[PANE] for other in ahead[:i]) < self.k
