"""Open panes: summaries of panes that still take rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress, pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from skyband.arrays import Ints, Mask
from skyband.contract.runs import Runs
from skyband.data.packing import under

__all__ = ["OpenPanes"]

_MOST_PIECES = 64
_FEW_ROWS = 100_000
_MOST_STRETCHES = 64
_BEYOND = int(np.iinfo(np.int64).max)


class WaitingRows(Protocol):
    """Rows that belong to open panes and are not summarised yet."""

    rows: int
    least: int

    def settle(self) -> None: ...
    def mark(self) -> tuple[Any, ...]: ...
    def rewind(self, mark: tuple[Any, ...]) -> None: ...


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
        self.waiting: WaitingRows | None = None
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

    def another(self) -> OpenPanes:
        """An empty holder for summaries of the same query."""
        return OpenPanes(self._combine)

    def empty(self) -> None:
        """Drop all pieces."""
        self.pieces = []

    def split(
        self, sealed: Callable[[Runs], Mask], apart: bool = False
    ) -> tuple[Runs | None, Runs | None, list[Runs]]:
        """The sealed panes as one summary per (pane, group), and the pieces that stay open.

        With ``apart``, the sealed panes may come in two parts, the first of which precedes the
        second; otherwise the first is None.
        """
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
        if apart and len(done) > 1:
            return *self._parted(done), rest
        return None, self._combined(done) if done else None, rest

    def _parted(self, pieces: list[Runs]) -> tuple[Runs | None, Runs]:
        """The panes that several pieces share, combined, and the later panes of the last piece.

        A batch usually shares only its first pane with earlier batches, so the rest of it, which is
        long, is neither copied nor combined. The first result is None if splitting gains nothing.
        """
        *early, last = pieces
        last = last.ordered()
        common = max(int(runs.stamp.max()) for runs in early)
        cut = int(np.searchsorted(last.stamp, common, side="right"))
        if cut == len(last) or last.repeats.any():
            return None, self._combined(pieces)
        return self._combined([*early, last.slice(0, cut)]), last.slice(cut, len(last))

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

    def _combined(self, many: Sequence[Runs]) -> Runs:
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
        self.pieces = [self._combined(self.pieces)]
        self._settled = _rows(self.pieces[0])

    # State -------------------------------------------------------------------------------------

    def flat(self) -> tuple[list[Any], dict[str, npt.NDArray[Any]]]:
        """Headers and flat arrays of the pieces; the blank one last."""
        headers: list[Any] = []
        arrays: dict[str, npt.NDArray[Any]] = {}
        for i, runs in enumerate([*self.pieces, *([] if self.blank is None else [self.blank])]):
            header, columns = runs.flat()
            headers.append(header)
            arrays |= {f"open{i}/{name}": array for name, array in columns.items()}
        return headers, arrays

    def restore(self, headers: Sequence[Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore what ``flat`` returned."""
        runs = [Runs.from_flat(h, under(arrays, f"open{i}/")) for i, h in enumerate(headers)]
        self.pieces, self.blank = runs[:-1], (runs[-1] if runs else None)
        self._settled = sum(_rows(each) for each in self.pieces)


def _rows(runs: Runs) -> int:
    return sum(len(part) for part in runs.parts.values())
