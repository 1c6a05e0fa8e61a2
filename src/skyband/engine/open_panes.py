"""Open panes: summaries of panes that still take rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import compress, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from skyband.arrays import Codes, Ints, Mask, Saved, State
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs, run_starts
from skyband.data.flat_state import Form, admitted, require
from skyband.panes import DecayPanes, Panes, SidePanes

if TYPE_CHECKING:
    from skyband.engine.row_buffer import RowBuffer

# The number of rows, or the weight, that each window covers, as sums over panes ------------------


SURELY_FITS = 2.0**60
"""Whole weights up to this sum need no closer look, even with those of rows that still wait."""

Check = Callable[[int, Sequence[Runs]], None]
"""See ``Synopsis.check_weight``."""
_NONE = np.zeros(0, np.int64)

_NEVER = np.iinfo(np.int64).min
_GROUP_SHIFT = 40
"""Count windows key their pane totals by group and pane; 2^40 panes per group are enough."""
_PANE = (1 << _GROUP_SHIFT) - 1


class Totals:
    """The weight of every live pane."""

    def __init__(self, panes: Panes) -> None:
        self.panes = panes
        self.bound = 0.0
        """At least the sum of all whole weights, those of open panes too; see ``take``."""
        self.keys: Ints = np.zeros(0, np.int64)
        self.weights: npt.NDArray[Any] = np.zeros(0, np.int64)
        self.loads: Ints | None = None
        """The sum of the weights without their signs; None if they have none."""

    @property
    def nbytes(self) -> int:
        loads = 0 if self.loads is None else self.loads.nbytes
        return self.keys.nbytes + self.weights.nbytes + loads

    def add(self, sealed: Runs | None) -> None:
        """Add sealed panes, sorted by pane."""
        if sealed is None:
            return
        keys, weights = sealed.stamp, sealed.scalars.get("total")
        if weights is None:
            weights = sealed.scalars["rows"]
        loads = sealed.scalars.get("load")
        if len(keys) != 1:
            starts = run_starts(keys)
            keys = keys[starts]
            weights = np.add.reduceat(weights, starts) if len(starts) else weights[:0]
            if loads is not None:
                loads = np.add.reduceat(loads, starts) if len(starts) else loads[:0]
        self.keys = np.concatenate([self.keys, keys])
        self.weights = np.concatenate([self.weights, weights])
        if loads is not None:
            self.loads = loads if self.loads is None else np.concatenate([self.loads, loads])

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

    def restore(
        self,
        keys: Ints,
        weights: npt.NDArray[Any],
        open_panes: OpenPanes,
        loads: Ints | None = None,
    ) -> None:
        """Restore a snapshot; the open panes must be restored already."""
        require(weights.dtype.kind in "if" and weights.shape[1:] in ((), (2,)), "totals")
        like = {"keys": np.zeros(0, np.int64), "weights": weights[:0]}
        forms = {"keys": Form("panes", ascends=True), "weights": Form("panes")}
        saved = admitted({"keys": keys, "weights": weights}, like, forms)
        self.keys, self.weights = saved["keys"], saved["weights"]
        if loads is not None:
            form = {"loads": Form(len(keys), 0)}
            self.loads = admitted({"loads": loads}, {"loads": _NONE}, form)["loads"]
        held = weights.ravel() if self.loads is None else self.loads
        open_weights = [_load(runs) for runs in open_panes.pieces]
        each = [held, *(each for each in open_weights if each is not None)]
        self.bound = float(np.concatenate(each, dtype=np.float64).sum())

    def _greatest(self, open_panes: Sequence[Runs]) -> int:
        """The greatest weight of a window over the panes so far, sealed or open; exactly."""
        weights: dict[int, int] = {}
        pieces: list[Any] = [(self._keys(runs), _load(runs)) for runs in open_panes]
        sealed = self.weights if self.loads is None else self.loads
        for keys, own in [(self.keys, sealed), *pieces]:
            for key, weight in zip(keys.tolist(), own.tolist(), strict=True):
                weights[key] = weights.get(key, 0) + weight
        self.bound = float(sum(weights.values()))
        most = total = 0
        inside: deque[int] = deque()
        for at in sorted(weights):
            while inside and not self._share_a_window(inside[0], at):
                total -= weights[inside.popleft()]
            inside.append(at)
            total += weights[at]
            most = max(most, total)
        return most

    def _keys(self, runs: Runs) -> Ints:
        """The key of each run: its pane, as all groups have the same windows."""
        return runs.stamp

    @property
    def stamps(self) -> Ints:
        """The panes of the keys."""
        return self.keys

    def _share_a_window(self, first: int, last: int) -> bool:
        """Whether a window, or what ``peek`` reads, may cover the panes of both keys."""
        return bool(first >= self.panes.first_since(last + 1, self.panes.size))

    def of(self, windows: Windows) -> npt.NDArray[Any]:
        """The weight of each window."""
        return self._between(windows.first, windows.end)

    def _between(self, first: Ints, end: Ints) -> npt.NDArray[Any]:
        low, high = self.keys.searchsorted(first), self.keys.searchsorted(end)
        if len(low) == 1 and self.weights.dtype.kind != "f":  # sums of floats depend on the order
            return np.add.reduce(self.weights[low[0] : high[0]], keepdims=True)
        sums = np.append(np.zeros(1, self.weights.dtype), np.cumsum(self.weights))
        totals: npt.NDArray[Any] = sums[high] - sums[low]
        return totals

    def expire(self, windows: Windows) -> None:
        """Drop the panes before the last of these windows; its own panes may be read again."""
        self._keep(slice(int(np.searchsorted(self.keys, windows.first[-1])), None))

    def copied(self) -> Totals:
        """An independent copy; arrays are never changed, only replaced."""
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy

    def emptied(self) -> Totals:
        """Totals of no sealed pane yet, with the bound of all weights so far."""
        fresh = type(self)(self.panes)
        fresh.bound = self.bound
        return fresh

    def _keep(self, rows: Any) -> None:
        self.keys, self.weights = self.keys[rows], self.weights[rows]
        self.loads = None if self.loads is None else self.loads[rows]


def _load(runs: Runs) -> Ints | None:
    """The weight of each run, without signs; None if rows have no weights."""
    loads: Ints | None = runs.scalars.get("load", runs.scalars.get("total"))
    return loads


class ArrivalTotals(Totals):
    """The weight of the live panes of every group, each of which has its own windows."""

    def _keys(self, runs: Runs) -> Ints:
        return _key(runs.group, runs.stamp)

    @property
    def stamps(self) -> Ints:
        return self.keys & _PANE

    def _share_a_window(self, first: int, last: int) -> bool:
        same = first >> _GROUP_SHIFT == last >> _GROUP_SHIFT
        return same and super()._share_a_window(first & _PANE, last & _PANE)

    def add(self, sealed: Runs | None) -> None:
        weights = None if sealed is None else sealed.scalars.get("total")
        if sealed is None or weights is None:
            return  # the total is the number of arrivals, so nothing needs to be kept
        keys = np.concatenate([self.keys, self._keys(sealed)])
        order = np.argsort(keys, kind="stable")
        self.keys, self.weights = keys[order], np.concatenate([self.weights, weights])[order]

    def of(self, windows: Windows) -> npt.NDArray[Any]:
        first, end = windows.first, windows.end
        if not len(self.keys):
            return self._rows(first, end)
        if windows.group is not None:
            first, end = _key(windows.group, first), _key(windows.group, end)
        return self._between(first, end)

    def _rows(self, first: Ints, end: Ints) -> Ints:
        """The arrivals in the panes of count windows, except those in gaps."""
        if self.panes.gaps:
            return np.asarray(self.panes.size * (end // 2 - first // 2))
        return np.asarray(self.panes.pane_start(end) - self.panes.pane_start(first))

    def expire(self, windows: Windows) -> None:
        if windows.group is None:
            super().expire(windows)
        elif len(self.keys) > 4 * self.panes.per_window * max(len(windows.ranks), 1):
            newest = np.zeros(len(windows.ranks), np.int64)
            owner, pane = self.keys >> _GROUP_SHIFT, self.stamps
            np.maximum.at(newest, owner, pane)
            self._keep(pane > newest[owner] - 2 * self.panes.per_window)


class RunningTotals(Totals):
    """The weight of all panes so far, for windows without a size; it may decay.

    The panes up to the last window read are one entry, with their weight at the end of its pane.
    """

    def _share_a_window(self, first: int, last: int) -> bool:
        return True

    def of(self, windows: Windows) -> npt.NDArray[Any]:
        totals = np.zeros(len(windows), self.weights.dtype)
        keys, weights = self.keys.tolist(), self.weights.tolist()
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

    def expire(self, windows: Windows) -> None:
        end = int(windows.end[-1])
        upto = int(np.searchsorted(self.keys, end))
        if upto > 1:
            last = windows.slice(len(windows) - 1, len(windows))
            self.weights = np.append(self.of(last), self.weights[upto:])
            self.keys = np.append(end - 1, self.keys[upto:])


class GroupTotals(RunningTotals):
    """The weight of every live pane by group, where answers show it; any time windows."""

    def __init__(self, panes: Panes) -> None:
        super().__init__(panes)
        self.group: Codes = np.zeros(0, np.int32)

    def add(self, sealed: Runs | None) -> None:
        if sealed is not None:
            weights = sealed.scalars.get("total", sealed.scalars["rows"])
            self.keys = np.concatenate([self.keys, sealed.stamp])
            self.group = np.concatenate([self.group, sealed.group])
            self.weights = np.concatenate([self.weights, weights])

    def shares(self, windows: Windows) -> Runs:
        """The weight of each group in each window; stamps are the numbers of the windows."""
        pieces = [Runs(_NONE, self.group[:0], {}, {"total": self.weights[:0]})]
        starts = windows.first if self.panes.sized else np.full(len(windows), _NEVER)
        edges = zip(
            self.keys.searchsorted(starts), self.keys.searchsorted(windows.end), strict=True
        )
        for (low, high), end, number in zip(edges, windows.end, windows.number, strict=True):
            group, place = np.unique(self.group[low:high], return_inverse=True)
            weights = self.weights[low:high]
            if isinstance(self.panes, DecayPanes):
                ages, own = np.unique(end - 1 - self.keys[low:high], return_inverse=True)
                weights = weights * np.array(list(map(self._fading, ages.tolist())), float)[own]
            sums = np.zeros(len(group), weights.dtype)
            np.add.at(sums, place, weights)
            pieces.append(Runs(np.full(len(group), number), group, {}, {"total": sums}))
        return Runs.concat(pieces)

    def expire(self, windows: Windows) -> None:
        if self.panes.sized:
            self._keep(self.keys >= windows.first[-1])
            return
        last = windows.slice(len(windows) - 1, len(windows))
        whole, end = self.shares(last), int(windows.end[-1])
        self._keep(self.keys >= end)
        self.keys = np.append(np.full(len(whole), end - 1), self.keys)
        self.group = np.append(whole.group, self.group)
        self.weights = np.append(whole.scalars["total"], self.weights)

    def _keep(self, rows: Any) -> None:
        super()._keep(rows)
        self.group = self.group[rows]


class SideTotals(Totals):
    """The number of rows of every live pane by source, if each source has its own window."""

    panes: SidePanes

    def __init__(self, panes: SidePanes) -> None:
        super().__init__(panes)
        self.weights = np.zeros((0, len(panes.sides)), np.int64)

    def add(self, sealed: Runs | None) -> None:
        if sealed is not None:
            self.keys = np.concatenate([self.keys, sealed.stamp])
            self.weights = np.concatenate([self.weights, _rows_by_side(self.panes, sealed)])

    def of(self, windows: Windows) -> npt.NDArray[Any]:
        sums = np.zeros((len(self.keys) + 1, len(self.panes.sides)), np.int64)
        np.cumsum(self.weights, axis=0, out=sums[1:])
        high = np.searchsorted(self.keys, windows.end)
        totals = np.zeros(len(windows), np.int64)
        for at, (source, _) in enumerate(self.panes.sides):
            first = np.maximum(windows.first, self.panes.first_of(source, windows.end))
            totals += sums[high, at] - sums[np.searchsorted(self.keys, first), at]
        return totals


def _rows_by_side(panes: SidePanes, runs: Runs) -> Ints:
    return np.stack([runs.scalars[f"rows/{source}"] for source, _ in panes.sides], axis=1)


def last_windows(panes: SidePanes, runs: Runs) -> Ints:
    """For each pane, the last window that has rows of it, if each source has its own window."""
    rows = _rows_by_side(panes, runs)
    lasts = [panes.of(source).last_window_of(runs.stamp) for source, _ in panes.sides]
    return np.asarray(np.where(rows > 0, np.stack(lasts, axis=1), _NEVER).max(axis=1))


def totals_for(panes: Panes) -> Totals:
    """Totals for time windows that are made of these panes."""
    if isinstance(panes, SidePanes):
        return SideTotals(panes)
    return (Totals if panes.sized else RunningTotals)(panes)


def _key(group: npt.NDArray[Any], pane: Ints) -> Ints:
    return (group.astype(np.int64) << _GROUP_SHIFT) + pane


_MOST_PIECES = 64
_FEW_ROWS = 100_000
_MOST_STRETCHES = 64
_BEYOND = int(np.iinfo(np.int64).max)


SplitPanes = tuple[Runs | None, list[Runs]]
"""Sealed panes, and the pieces that stay open; see ``OpenPanes.split``."""


class OpenPanes:
    """Pieces of summaries, combined into one now and then so that they stay few and small.

    Sealing takes two calls, so that nothing is lost if the caller fails between them: ``split``
    changes nothing, and ``keep`` sets what stays open.
    """

    def __init__(self, combine: Callable[[Runs], Runs]) -> None:
        self._combine = combine
        self._pieces: list[Runs] = []
        self._least: int | None = None
        self._added: int | None = None
        self.blank: Runs | None = None
        """A summary without panes, kept for its columns; None until the first summary."""
        self.waiting: RowBuffer | None = None
        """Rows that are summarised as soon as the pieces are read."""
        self._settled = 0
        """The number of rows after the pieces were last combined."""

    @property
    def pieces(self) -> list[Runs]:
        if self.waiting is not None and self.waiting.rows:
            self.waiting.settle()
        return self._pieces

    @pieces.setter
    def pieces(self, pieces: list[Runs]) -> None:
        self._pieces, self._least, self._added = pieces, None, None

    @property
    def least(self) -> int:
        """The first open pane with rows; beyond all panes if there is none."""
        if self._least is None:
            self._least = min((int(runs.stamp.min()) for runs in self._pieces), default=_BEYOND)
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
            least, added = min(self.least, int(runs.stamp.min())), self._rows_added()
            self._pieces.append(runs)
            self._least, self._added = least, added + _rows(runs)
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
        """The sealed panes as one summary per (pane, group), and the pieces that stay open."""
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
        return self.joined(done) if done else None, rest

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

    def _rows_added(self) -> int:
        """How many more rows there are than after the pieces were last combined."""
        if self._added is None:
            self._added = sum(_rows(piece) for piece in self._pieces) - self._settled
        return self._added

    def _settle_if_many(self) -> None:
        many = len(self._pieces) > _MOST_PIECES or self._rows_added() > self._settled + _FEW_ROWS
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
        self._settled = _rows(self.pieces[0])

    # State -------------------------------------------------------------------------------------

    def state(self) -> State:
        """The pieces as flat arrays; the blank one last."""
        pieces = [*self.pieces, *([] if self.blank is None else [self.blank])]
        return {f"{i}": np.frombuffer(runs.pack(), np.uint8) for i, runs in enumerate(pieces)}

    def restore(self, arrays: Saved) -> None:
        """Restore what ``state`` returned."""
        runs = [Runs.unpack(arrays[f"{i}"].tobytes())[0] for i in range(len(arrays))]
        self.pieces, self.blank = runs[:-1], (runs[-1] if runs else None)
        self._settled = sum(_rows(each) for each in self.pieces)


def _rows(runs: Runs) -> int:
    return sum(len(part) for part in runs.parts.values())
