"""Open panes: summaries of panes that still take rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, compress, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from skyband.arrays import Codes, Ints, Mask, Saved, State
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs
from skyband.data.flat_state import require
from skyband.panes import ArrivalPanes, DecayPanes, Panes, SidePanes

if TYPE_CHECKING:
    from skyband.engine.row_buffer import RowBuffer

# The number of rows, or the weight, that each window covers, as sums over panes ------------------


SURELY_FITS = 2.0**60
"""Whole weights up to this sum need no closer look, even with those of rows that still wait."""

Check = Callable[[int, Sequence[Runs]], None]
"""See ``WeightLimit.check_weight``."""
_NONE = np.zeros(0, np.int64)

_NEVER = np.iinfo(np.int64).min
_GROUP_SHIFT = 40
"""Count windows key their pane totals by group and pane; 2^40 panes per group are enough."""
_PANE = (1 << _GROUP_SHIFT) - 1
T = TypeVar("T")


def duplicate(original: T) -> T:
    """A copy that shares all attributes; in a fifth of the time of ``copy``."""
    twin = object.__new__(type(original))
    twin.__dict__.update(original.__dict__)
    return twin


class Totals:
    """The weight of every live pane."""

    def __init__(self, panes: Panes) -> None:
        self.panes = panes
        self.bound = 0.0
        """At least the sum of all whole weights, those of open panes too; see ``take``."""
        self.runs = Runs(_NONE, np.zeros(0, np.int32), {}, dict.fromkeys(self._names, _NONE))
        """Runs without rows in the order of ``_keys``: the weight of each pane as a scalar. Of
        weights that have signs, ``load`` is the sum without them."""

    @property
    def _names(self) -> tuple[str, ...]:
        """The scalars that all runs have."""
        return ("total",)

    def add(self, sealed: Runs) -> None:
        """Add sealed panes, sorted by pane."""
        runs = self._weights(sealed)
        self.runs = Runs.concat([self.runs, runs]) if len(self.runs) else runs

    def _weights(self, sealed: Runs) -> Runs:
        """The weight of each of these panes."""
        runs = _weighed(sealed, np.zeros(len(sealed), np.int32))
        return runs if len(runs) == 1 else runs.united()

    def take(self, runs: Runs, open_panes: OpenPanes, check: Check) -> None:
        """Note summaries that panes took; ``check`` the greatest window if it may weigh too much.

        A bound on the sum of all weights shows for nearly every stream that no window does.
        """
        weights = _load(runs)
        if weights is None or weights.dtype.kind != "i":
            return
        self.bound += float(weights.sum(dtype=np.float64))
        if self.bound > SURELY_FITS:
            pieces = open_panes.pieces
            check(self._greatest(pieces), [*pieces, runs])

    def restore(self, packed: bytes, open_panes: OpenPanes) -> None:
        """Restore a snapshot; the open panes must be restored already."""
        runs, _ = Runs.unpack(packed)
        names, kinds = set(runs.scalars), {each.dtype.kind for each in runs.scalars.values()}
        require(names - {"load"} == set(self._names) and kinds <= {"i", "f"}, "totals")
        require((np.diff(self._keys(runs)) >= 0).all(), "totals that are not in order")
        require("load" not in names or (runs.scalars["load"] >= 0).all(), "loads")
        self.runs = runs
        weights = [_load(each) for each in (runs, *open_panes.pieces)]
        self.bound = float(sum(each.sum(dtype=np.float64) for each in weights if each is not None))

    def _greatest(self, open_panes: Sequence[Runs]) -> int:
        """The greatest weight of a window over the panes so far, sealed or open; exactly."""
        weights: dict[Any, int] = {}
        for runs in (self.runs, *open_panes):
            own: Any = _load(runs)
            for key, weight in zip(self._keys(runs).tolist(), own.tolist(), strict=True):
                weights[key] = weights.get(key, 0) + weight
        self.bound = float(sum(weights.values()))
        keys = np.array(sorted(weights))
        sums = [0, *accumulate(weights[key] for key in keys.tolist())]
        begins = keys.searchsorted(self._first_with(keys)).tolist()
        most: int = max(total - sums[low] for total, low in zip(sums[1:], begins, strict=True))
        return most

    def _keys(self, runs: Runs) -> Ints:
        """The key of each run: its pane, as all groups have the same windows."""
        return runs.stamp

    def _first_with(self, keys: Ints) -> Any:
        """For each key, the first that a window which ends with it, or ``peek``, may cover, too."""
        return self.panes.first_since(keys + 1, self.panes.size)

    def of(self, windows: Windows) -> npt.NDArray[Any]:
        """The weight of each window."""
        return self._between(windows.first, windows.end)

    def _between(self, first: Ints, end: Ints) -> npt.NDArray[Any]:
        keys, weights = self._keys(self.runs), self.runs.scalars["total"]
        low, high = keys.searchsorted(first), keys.searchsorted(end)
        if len(low) == 1 and weights.dtype.kind != "f":  # sums of floats depend on the order
            return np.add.reduce(weights[low[0] : high[0]], keepdims=True)
        sums = np.append(np.zeros(1, weights.dtype), np.cumsum(weights))
        totals: npt.NDArray[Any] = sums[high] - sums[low]
        return totals

    def expire(self, last: Windows) -> None:
        """Drop the panes before the last window; its own panes may be read again."""
        first = int(self.runs.stamp.searchsorted(last.first[0]))
        self.runs = self.runs.slice(first, len(self.runs))


def _load(runs: Runs) -> Ints | None:
    """The weight of each run, without signs; None if rows have no weights."""
    loads: Ints | None = runs.scalars.get("load", runs.scalars.get("total"))
    return loads


def _weighed(runs: Runs, group: Codes) -> Runs:
    """The weights of runs, without their rows."""
    scalars = {"total": runs.scalars.get("total", runs.scalars["rows"])}
    if "load" in runs.scalars:
        scalars["load"] = runs.scalars["load"]
    return Runs(runs.stamp, group, {}, scalars)


class ArrivalTotals(Totals):
    """The weight of the live panes of every group, each of which has its own windows."""

    def _keys(self, runs: Runs) -> Ints:
        return _key(runs.group, runs.stamp)

    def _first_with(self, keys: Ints) -> Any:
        return keys - (keys & _PANE) + np.maximum(super()._first_with(keys & _PANE), 0)

    def add(self, sealed: Runs) -> None:
        # Without weights, the total is the number of arrivals, so nothing needs to be kept.
        if "total" in sealed.scalars:
            super().add(sealed)
            self.runs = self.runs.take(np.argsort(self._keys(self.runs), kind="stable"))

    def _weights(self, sealed: Runs) -> Runs:
        return _weighed(sealed, sealed.group)

    def of(self, windows: Windows) -> npt.NDArray[Any]:
        first, end = windows.first, windows.end
        if not len(self.runs):
            return self._rows(first, end)
        if windows.group is not None:
            first, end = _key(windows.group, first), _key(windows.group, end)
        return self._between(first, end)

    def _rows(self, first: Ints, end: Ints) -> Ints:
        """The arrivals in the panes of count windows, except those in gaps."""
        if self.panes.gaps:
            return np.asarray(self.panes.size * (end // 2 - first // 2))
        return np.asarray(self.panes.pane_start(end) - self.panes.pane_start(first))

    def expire(self, last: Windows) -> None:
        if last.group is None:
            super().expire(last)
        elif len(self.runs) > 4 * self.panes.per_window * max(len(last.ranks), 1):
            newest = np.zeros(int(self.runs.group.max()) + 1, np.int64)
            np.maximum.at(newest, self.runs.group, self.runs.stamp)
            live = self.runs.stamp > newest[self.runs.group] - 2 * self.panes.per_window
            self.runs = self.runs.take(live)


class RunningTotals(Totals):
    """The weight of all panes so far, for windows without a size; it may decay.

    The panes up to the last window read are one run, with their weight at the end of its pane.
    """

    def _first_with(self, keys: Ints) -> Any:
        return np.full(len(keys), _NEVER)

    def of(self, windows: Windows) -> npt.NDArray[Any]:
        keys, weights = self.runs.stamp.tolist(), self.runs.scalars["total"].tolist()
        totals = np.zeros(len(windows), self.runs.scalars["total"].dtype)
        if not keys:
            return totals
        pane, weight, at = keys[0], 0, 0  # panes and windows ascend
        for number, end in enumerate(windows.end.tolist()):
            while at < len(keys) and keys[at] < end:
                weight = weight * self._fading(keys[at] - pane) + weights[at]
                pane, at = keys[at], at + 1
            totals[number] = weight * self._fading(end - 1 - pane) if at else 0
        return totals

    def _fading(self, panes: int) -> int | float:
        """What a weight is multiplied by after this many panes."""
        if not isinstance(self.panes, DecayPanes):
            return 1
        age = panes * self.panes.slide
        return 0.0 if age > self.panes.memory else 2.0 ** (-age / self.panes.half_life)

    def expire(self, last: Windows) -> None:
        end = int(last.end[0])
        upto = int(self.runs.stamp.searchsorted(end))
        if upto > 1:
            group = np.zeros(1, np.int32)
            whole = Runs(np.array([end - 1]), group, {}, {"total": self.of(last)})
            self.runs = Runs.concat([whole, self.runs.slice(upto, len(self.runs))])


class GroupTotals(RunningTotals):
    """The weight of every live pane by group, where answers show it; any time windows."""

    def _weights(self, sealed: Runs) -> Runs:
        return _weighed(sealed, sealed.group)

    def shares(self, windows: Windows) -> Runs:
        """The weight of each group in each window; stamps are the numbers of the windows."""
        runs = self.runs
        pieces = [Runs(_NONE, runs.group[:0], {}, {"total": runs.scalars["total"][:0]})]
        starts = windows.first if self.panes.sized else np.full(len(windows), _NEVER)
        edges = runs.stamp.searchsorted(starts), runs.stamp.searchsorted(windows.end)
        for low, high, end, number in zip(*edges, windows.end, windows.number, strict=True):
            group, place = np.unique(runs.group[low:high], return_inverse=True)
            weights = runs.scalars["total"][low:high]
            if isinstance(self.panes, DecayPanes):
                ages, own = np.unique(end - 1 - runs.stamp[low:high], return_inverse=True)
                weights = weights * np.array(list(map(self._fading, ages.tolist())), float)[own]
            sums = np.zeros(len(group), weights.dtype)
            np.add.at(sums, place, weights)
            pieces.append(Runs(np.full(len(group), number), group, {}, {"total": sums}))
        return Runs.concat(pieces)

    def expire(self, last: Windows) -> None:
        if self.panes.sized:
            Totals.expire(self, last)
            return
        end = int(last.end[0])
        whole, upto = self.shares(last), int(self.runs.stamp.searchsorted(end))
        whole = whole.stamped(np.full(len(whole), end - 1))
        self.runs = Runs.concat([whole, self.runs.slice(upto, len(self.runs))])


class SideTotals(Totals):
    """The number of rows of every live pane by source, if each source has its own window."""

    panes: SidePanes

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(f"rows/{source}" for source, _ in self.panes.sides)

    def _weights(self, sealed: Runs) -> Runs:
        scalars = {name: sealed.scalars[name] for name in self._names}
        return Runs(sealed.stamp, sealed.group, {}, scalars)

    def of(self, windows: Windows) -> npt.NDArray[Any]:
        totals = np.zeros(len(windows), np.int64)
        high = self.runs.stamp.searchsorted(windows.end)
        for (source, _), name in zip(self.panes.sides, self._names, strict=True):
            first = np.maximum(windows.first, self.panes.first_of(source, windows.end))
            sums = np.append(0, np.cumsum(self.runs.scalars[name]))
            totals += sums[high] - sums[self.runs.stamp.searchsorted(first)]
        return totals


def last_windows(panes: SidePanes, runs: Runs) -> Ints:
    """For each pane, the last window that has rows of it, if each source has its own window."""
    lasts = [
        np.where(
            runs.scalars[f"rows/{source}"] > 0,
            panes.of(source).last_window_of(runs.stamp),
            _NEVER,
        )
        for source, _ in panes.sides
    ]
    return np.asarray(np.max(lasts, axis=0))


def totals_for(panes: Panes) -> Totals:
    """Totals for windows that are made of these panes."""
    if isinstance(panes, SidePanes):
        return SideTotals(panes)
    if isinstance(panes, ArrivalPanes):
        return ArrivalTotals(panes)
    return (Totals if panes.sized else RunningTotals)(panes)


def _key(group: npt.NDArray[Any], pane: Ints) -> Ints:
    return (group.astype(np.int64) << _GROUP_SHIFT) + pane


_MOST_PIECES = 64
_FEW_ROWS = 100_000
_MOST_STRETCHES = 64
_BEYOND = int(np.iinfo(np.int64).max)


SplitPanes = tuple[list[Runs], list[Runs]]
"""The pieces of sealed panes, and those that stay open; see ``OpenPanes.split``."""


class OpenPanes:
    """Pieces of summaries, combined into one now and then so that they stay few and small.

    Sealing takes two calls, so that nothing is lost if the caller fails between them: ``split``
    changes nothing, and ``keep`` sets what stays open.
    """

    def __init__(self, combine: Callable[[Runs], Runs]) -> None:
        self._combine = combine
        self.waiting: RowBuffer | None = None
        """Rows that are summarised as soon as the pieces are read."""
        self.pieces = []
        self.blank: Runs | None = None
        """A summary without panes, kept for its columns; None until the first summary."""
        self._settled = 0
        """The number of rows after the pieces were last combined."""

    @property
    def pieces(self) -> list[Runs]:
        if self.waiting is not None and self.waiting.rows:
            self.waiting.settle()
        return self._pieces

    @pieces.setter
    def pieces(self, pieces: list[Runs]) -> None:
        self._pieces = pieces
        self._least = min((int(runs.stamp.min()) for runs in pieces), default=_BEYOND)
        self._rows = sum(map(_rows, pieces))

    @property
    def least(self) -> int:
        """The first open pane with rows; beyond all panes if there is none."""
        if self.waiting is not None and self.waiting.rows:
            return min(self._least, self.waiting.least)
        return self._least

    @property
    def nbytes(self) -> int:
        return sum(piece.nbytes for piece in self.pieces)

    def take(self, runs: Runs) -> None:
        """Add summaries; what waits comes first."""
        if self.waiting is not None and self.waiting.rows:
            self.waiting.settle()
        if self.blank is None:
            self.blank = runs.slice(0, 0)
        if len(runs):
            self._pieces.append(runs)
            self._least = min(self._least, int(runs.stamp.min()))
            self._rows += _rows(runs)
            self._settle_if_many()

    def whole(self) -> Runs | None:
        """All pieces as one, with each pane once; None if nothing was ever taken."""
        if not self.pieces:
            return self.blank
        # Even one piece may hold several parts of one pane, if they were passed together.
        self._settle()
        return self.pieces[0]

    def of(self, panes: Ints) -> Runs:
        """The summaries of some panes, in order; something must have been taken."""
        held = self.whole()
        assert held is not None
        return held.take(np.isin(held.stamp, panes)).ordered()

    def empty(self) -> None:
        """Drop all pieces."""
        self.pieces = []

    def split(self, sealed: Callable[[Runs], Mask]) -> SplitPanes:
        """The pieces of sealed panes, which may be ``joined``, and those that stay open."""
        done: list[Runs] = []
        rest: list[Runs] = []
        for runs in self.pieces:
            mask = sealed(runs)
            if mask.all():
                done.append(runs)
            elif not mask.any():
                rest.append(runs)
            else:
                upto = int(mask.sum())
                in_order = bool(mask[:upto].all())
                done.append(runs.slice(0, upto) if in_order else runs.take(mask))
                rest.append(runs.slice(upto, len(runs)) if in_order else runs.take(~mask))
        return done, rest

    def mark(self) -> tuple[Any, ...]:
        """What ``rewind`` goes back to; pieces are never changed, only replaced."""
        waiting = None if self.waiting is None else self.waiting.mark()
        return list(self._pieces), waiting

    def rewind(self, mark: tuple[Any, ...]) -> None:
        """Go back to a mark."""
        self.pieces, waiting = mark
        if self.waiting is not None and waiting is not None:
            self.waiting.rewind(waiting)

    def keep(self, rest: list[Runs]) -> None:
        """Set what stays open after sealing; it is combined once it has doubled."""
        self.pieces = rest
        self._settle_if_many()

    def _settle_if_many(self) -> None:
        many = len(self._pieces) > _MOST_PIECES or self._rows > 2 * self._settled + _FEW_ROWS
        if len(self._pieces) > 1 and many:
            self._settle()

    def joined(self, many: Sequence[Runs]) -> Runs:
        """Merge pieces into one summary per (pane, group)."""
        runs = Runs.concat(many).ordered()
        repeats = np.flatnonzero(runs.repeats)
        if not len(repeats):
            return runs
        # Chunks of one batch, and the parts of a large one, usually share only a pane or two with
        # their neighbours: what stands between these is copied, not combined.
        shared = runs.repeats
        shared[:-1] |= shared[1:]
        cuts = [0, *(np.flatnonzero(shared[1:] != shared[:-1]) + 1).tolist(), len(runs)]
        if len(cuts) > _MOST_STRETCHES:
            cuts = [0, int(repeats[0]) - 1, int(repeats[-1]) + 1, len(runs)]
        stretches = [runs.slice(*ends) for ends in pairwise(cuts) if ends[0] < ends[1]]
        repeating = [bool(each.repeats.any()) for each in stretches]
        parts = list(compress(stretches, repeating))
        if 2 * sum(map(_rows, parts)) > _rows(runs):
            return self._combine(runs)
        combined, at = self._combine(Runs.concat(parts)), 0
        for i in np.flatnonzero(repeating):
            size = len(stretches[i]) - int(stretches[i].repeats.sum())
            stretches[i] = combined.slice(at, at + size)
            at += size
        return Runs.concat(stretches)

    def _settle(self) -> None:
        self.pieces = [self.joined(self.pieces)]
        self._settled = self._rows

    # State -------------------------------------------------------------------------------------

    def state(self) -> State:
        """The pieces as flat arrays; the blank one last."""
        pieces = [*self.pieces, *([] if self.blank is None else [self.blank])]
        return {f"{i}": np.frombuffer(runs.pack(), np.uint8) for i, runs in enumerate(pieces)}

    def restore(self, arrays: Saved) -> None:
        """Restore what ``state`` returned."""
        runs = [Runs.unpack(arrays[f"{i}"].tobytes())[0] for i in range(len(arrays))]
        self.pieces, self.blank = runs[:-1], (runs[-1] if runs else None)
        self._settled = self._rows


def _rows(runs: Runs) -> int:
    return sum(len(part) for part in runs.parts.values())
