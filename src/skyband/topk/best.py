"""``distinct="best"``: each id once, with the best of its live rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints, Mask, Saved, State
from skyband.contract.rows import Rows, Windows
from skyband.contract.runs import Part, Runs
from skyband.data.keys import best_of_each
from skyband.data.order import sortable
from skyband.kernels.borrow import frozen
from skyband.kernels.select import select_runs
from skyband.query.topk import TopK
from skyband.topk.bands import Bands
from skyband.topk.base import ALL
from skyband.topk.distinct import DistinctTopK
from skyband.topk.kernels.bands import PANE

# The best row of every id of each live pane: what the position of any id follows from ------------


class AllIds:
    """Summaries of the live panes, as they came. State: one row per id of each pane."""

    def __init__(self) -> None:
        self.pieces: list[Runs] = []

    @property
    def nbytes(self) -> int:
        return sum(piece.nbytes for piece in self.pieces)

    def take(self, panes: Runs) -> None:
        """Take sealed panes."""
        if len(panes):
            self.pieces.append(panes)

    def expire(self, windows: Windows) -> None:
        """Drop the panes that no window after these covers."""
        live = [(p, p.stamp >= windows.needed_from(p.group)) for p in self.pieces]
        self.pieces = [p if own.all() else p.take(own) for p, own in live if own.any()]

    def between(self, first: int, end: int, group: int | None) -> Runs:
        """The rows of the panes ``[first, end)``: one run per group."""
        some = []
        for piece in self.pieces:
            own = piece.slice(*np.searchsorted(piece.stamp, [first, end]).tolist())
            some.append(own if group is None else own.take(own.group == group))
        some = [runs for runs in some if len(runs)]
        if not some:
            return Runs(np.zeros(0, np.int64), np.zeros(0, np.int32), {})
        found = Runs.concat(some)
        return found.stamped(np.zeros(len(found), np.int64)).ordered().united()

    def state(self) -> State:
        """All panes as bytes."""
        if not self.pieces:
            return {}
        return {"everyone": np.frombuffer(Runs.concat(self.pieces).pack(), np.uint8)}

    def restore(self, arrays: Saved) -> None:
        """Replace everything by what ``state`` returned."""
        packed = arrays.get("everyone")
        self.pieces = [] if packed is None else [Runs.unpack(packed.tobytes())[0]]


class SkybandDistinct(DistinctTopK):
    """Keeps the k-skyband of ids: a row goes when k other ids, or its own, have later, better rows.

    Cost: one comparison per row that is not among the best few of its pane, a hash per other row,
    and one pass over a group's rows per answer. State: rows whose id has no later, better row, and
    that are followed by better rows of fewer than k ids; per group about k (1 + ln panes) if scores
    come in random order, at most k times the panes. Exact. It is the k-skyband of Mouratidis et al.
    2006, with ids in place of rows.

    >>> import pyarrow as pa, skyband as sb
    >>> plays = pa.table({"player": ["a", "a", "b"], "x": [3, 5, 4]})
    >>> query = sb.TopK(k=2, score="x", id="player", distinct="best", window=sb.CountWindow(3))
    >>> sb.rank(plays, query).select(["player", "x"]).to_pylist()
    [{'player': 'a', 'x': 5}, {'player': 'b', 'x': 4}]
    """

    shortens = True
    saved_parts = (("", "bands"),)

    def __init__(self, query: TopK) -> None:
        super().__init__(query)
        self.everyone: AllIds | None = None
        """The best row of every id of each live pane, if positions are asked for."""

    def prepare(self, stored: bool = False, late: bool = False, positions: bool = False) -> None:
        super().prepare(stored, late, positions)
        if positions:
            self.limit, self.everyone = ALL, AllIds()

    def start(self) -> None:
        self.bands = Bands(self.query.k, None, self._new_payload())

    def _rule(self, key: Ints, tie: Ints) -> tuple[Ints, Ints]:
        return key, tie

    # Rows -------------------------------------------------------------------------------------

    def summarise(self, rows: Rows) -> Runs:
        score = rows.numpy(self.query.score)
        keep = self.query.keep

        def search(runs: Ints, look: int) -> tuple[Part, Mask]:
            positions, cuts = rows.best(score, runs, look, self.query.largest)
            kept = (rows.take(name, positions) for name in keep)
            key = sortable(score[positions], self.query.largest)
            hashes, ties = self.ids(rows, positions), rows.ties(positions, cuts, runs)
            chosen, offsets = best_of_each(hashes, self._rule(key, ties), kept, cuts)
            columns: dict[str, Any] = {"key": key, "tie": ties, "hash": hashes}
            columns = {name: column[chosen] for name, column in columns.items()}
            shown = positions[chosen]
            columns |= {f"shown:{name}": rows.take(name, shown) for name in self._payload}
            part = Part(offsets, columns)
            whole = np.diff(cuts) == rows.lengths[runs]
            return part, whole | (part.lengths >= self.limit)

        runs = rows.widened(4 * self.limit + 16, search)
        return runs.with_parts(rows=self._best(runs.parts["rows"]))

    def combine(self, runs: Runs) -> Runs:
        runs = runs.united()
        return runs.with_parts(rows=self._best(self.united(runs.parts["rows"])))

    # Panes ------------------------------------------------------------------------------------

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        if self.everyone is not None:
            self.everyone.take(self._named(panes))
            panes = panes.with_parts(rows=self._few(panes.parts["rows"]))
        answers = self.bands.fold(panes, windows)
        if self.everyone is not None and len(windows):
            self.everyone.expire(windows)
        return answers

    def _few(self, part: Part) -> Part:
        """The best k rows of each run and those tied with the k-th: all that answers can need."""
        if not len(part):
            return part
        key, tie = frozen(part["key"]), frozen(part["tie"])
        return part.rows(*select_runs(key, tie, part.offsets, self.query.k, True))

    def _named(self, panes: Runs) -> Runs:
        """Panes with only what positions depend on."""
        part = panes.parts["rows"]
        names = ("key", "tie", "hash", f"shown:{self.query.id}")
        columns = {name: part[name] for name in names if name in part.columns}
        return Runs(panes.stamp, panes.group, {"rows": Part(part.offsets, columns)})

    def position(
        self, first: int, end: int, group: int, key: Sequence[pa.Array]
    ) -> tuple[int, Any, int] | None:
        assert self.everyone is not None
        found = self.everyone.between(first, end, group)
        return self.position_in(self.united(found.part("rows")), key)

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        return self.bands.read(first, end, group)

    # State ------------------------------------------------------------------------------------

    def stats(self) -> dict[str, int | float]:
        more = 0 if self.everyone is None else self.everyone.nbytes
        return {"retained": len(self.bands.rows), "state_bytes": self.nbytes + more}

    def snapshot(self) -> State:
        own = super().snapshot()
        return own if self.everyone is None else own | self.everyone.state()

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        self._check_sealed(self.bands.rows[:, PANE])
        if self.everyone is not None:
            self.everyone.restore(arrays)
            for piece in self.everyone.pieces:
                self.saved_runs(piece)

    def _check(self) -> None:
        self.bands._check()
