"""``ties="all"`` with ``distinct``: each id once, and all that tie with the k-th id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints, Saved, State
from skyband.contract.rows import Rows, Windows
from skyband.contract.runs import MORE, Part, Runs
from skyband.kernels.borrow import frozen
from skyband.kernels.select import select_runs
from skyband.query.topk import TopK
from skyband.topk.base import ALL
from skyband.topk.best import AllIds
from skyband.topk.distinct import DistinctTopK

_NONE = np.zeros(0, np.int64)


class TiedIds(DistinctTopK):
    """Keeps one row per id of each live pane, and ranks the ids of every window anew.

    Cost: O(1) per row, and one pass over the rows kept per answer. State: of "latest", one row per
    id and pane; of "best", those of each pane up to what ties with its k-th id. Exact.

    >>> import pyarrow as pa, skyband as sb
    >>> plays = pa.table({"player": ["a", "a", "b", "c"], "x": [3, 5, 5, 4]})
    >>> asked = {"id": "player", "distinct": "best", "ties": "all", "window": sb.CountWindow(4)}
    >>> sb.rank(plays, sb.TopK(k=1, score="x", **asked)).select(["rank", "player"]).to_pylist()
    [{'rank': 1, 'player': 'b'}, {'rank': 1, 'player': 'a'}]
    """

    shortens = True

    def __init__(self, query: TopK) -> None:
        super().__init__(query)
        self.live = AllIds()

    def prepare(self, stored: bool = False, late: bool = False, positions: bool = False) -> None:
        super().prepare(stored, late, positions)
        self.limit = ALL if positions else self.limit

    def _rule(self, key: Ints, tie: Ints) -> tuple[Ints, Ints]:
        return (tie, key) if self.query.distinct == "latest" else (key, tie)

    def summarise(self, rows: Rows) -> Runs:
        return self._competing(super().summarise(rows))

    def combine(self, runs: Runs) -> Runs:
        return self._competing(super().combine(runs))

    def _competing(self, runs: Runs) -> Runs:
        """Of "best", an id below the k-th of its pane can only be shown with a row of another."""
        part = runs.parts["rows"]
        if self.query.distinct == "latest" or self.limit == ALL or not len(part):
            return runs
        ties = frozen(np.zeros(len(part), np.int64))
        best = select_runs(frozen(part["key"]), ties, part.offsets, self.query.k, True)
        return runs.with_parts(rows=part.rows(*best))

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        self.live.take(panes)
        found = [self._blank(panes)]
        group = [None] * len(windows) if windows.group is None else windows.group.tolist()
        for number, first, end, own in zip(
            windows.number, windows.first, windows.end, group, strict=True
        ):
            answers = self.partial(int(first), int(end), own)
            found.append(answers.stamped(np.full(len(answers), number)))
        if not len(windows):
            return None
        self.live.expire(windows)
        return Runs.concat(found)

    def _blank(self, panes: Runs) -> Runs:
        part = panes.slice(0, 0).parts["rows"]
        return Runs(
            _NONE, panes.group[:0], {"rows": Part(part.offsets, {**part.columns, MORE: _NONE})}
        )

    def _ids_of(self, first: int, end: int, group: int | None) -> Runs:
        """The row that counts of each id in the panes ``[first, end)``: one run per group."""
        some = []
        for piece in self.live.pieces:
            own = piece.slice(*np.searchsorted(piece.stamp, [first, end]).tolist())
            some.append(own if group is None else own.take(own.group == group))
        if not any(map(len, some)):
            return Runs(_NONE, np.zeros(0, np.int32), {})
        found = Runs.concat([runs for runs in some if len(runs)])
        found = found.stamped(np.zeros(len(found), np.int64)).ordered().united()
        return Runs(found.stamp, found.group, {"rows": self.united(found.parts["rows"])})

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        found = self._ids_of(first, end, group)
        if not len(found):
            return found
        part = found.parts["rows"]
        columns: dict[str, Any] = {**part.columns, MORE: np.zeros(len(part), np.int64)}
        return found.with_parts(rows=self._first_in_order(Part(part.offsets, columns)))

    def position(
        self, first: int, end: int, group: int, key: Sequence[pa.Array]
    ) -> tuple[int, Any, int] | None:
        found = self._ids_of(first, end, group)
        return self.position_in(found.parts["rows"], key) if len(found) else None

    # State ------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        return self.live.nbytes

    def stats(self) -> dict[str, int | float]:
        held = sum(len(piece.parts["rows"]) for piece in self.live.pieces)
        return {"retained": held, "state_bytes": self.nbytes}

    def snapshot(self) -> State:
        return self.live.state()

    def restore(self, arrays: Saved) -> None:
        self.live.restore(arrays)
        whole = self._summary_types()
        self.live.pieces = [self.saved_runs(p).typed(whole, whole=True) for p in self.live.pieces]
