"""``distinct="best"``: each id once, with the best of its live rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints, Mask, Saved, State
from skyband.contract.rows import Rows, Windows
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.data.flat_state import Form, Forms, require
from skyband.data.keys import best_of_each
from skyband.data.order import sortable
from skyband.kernels.borrow import frozen
from skyband.kernels.select import select_runs
from skyband.query.topk import TopK
from skyband.topk.base import ALL
from skyband.topk.distinct import DistinctTopK, group_windows
from skyband.topk.kernels import distinct as kernel
from skyband.topk.kernels.distinct import NewIds, fold_distinct
from skyband.topk.payload import Payload

# The best row of every id of each live pane: what the position of any id follows from ------------


_NEVER = np.iinfo(np.int64).min


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
        if windows.group is None:
            first = int(windows.first[-1])
            kept = [(piece, piece.stamp >= first) for piece in self.pieces]
        else:
            most = max([int(windows.group.max()), *(int(p.group.max()) for p in self.pieces)])
            needed = np.full(most + 1, _NEVER)
            np.maximum.at(needed, windows.group, windows.first)
            kept = [(piece, piece.stamp >= needed[piece.group]) for piece in self.pieces]
        self.pieces = [p if live.all() else p.take(live) for p, live in kept if live.any()]

    def rows(self, first: int, group: int) -> Part | None:
        """The rows of a group in pane ``first`` and later, as one run; None if there are none."""
        found = [p.take((p.stamp >= first) & (p.group == group)) for p in self.pieces]
        found = [piece for piece in found if len(piece)]
        if not found:
            return None
        part = Runs.concat(found).parts["rows"]
        return Part(np.array([0, len(part)]), part.columns)

    def state(self) -> State:
        """All panes as bytes."""
        if not self.pieces:
            return {}
        return {"everyone": np.frombuffer(Runs.concat(self.pieces).pack(), np.uint8)}

    def restore(self, arrays: Saved) -> None:
        """Replace everything by what ``state`` returned."""
        packed = arrays.get("everyone")
        self.pieces = [] if packed is None else [Runs.unpack(packed.tobytes())[0]]


_NONE = np.zeros(0, np.int64)


class SkybandDistinct(DistinctTopK):
    """Keeps the k-skyband of ids: a row goes when k other ids, or its own, have later, better rows.

    Cost: one comparison per row that is not among the best few of its pane, a hash per other row,
    and one pass over a group's skyband per row that enters it; O(k) per answer. State: rows whose
    id has no later, better row, and that are followed by better rows of fewer than k ids; per group
    about k (1 + ln panes) if scores come in random order, at most k times the panes. Exact. It is
    the k-skyband of Mouratidis et al. 2006, with ids in place of rows.

    >>> import pyarrow as pa, skyband as sb
    >>> plays = pa.table({"player": ["a", "a", "b"], "x": [3, 5, 4]})
    >>> query = sb.TopK(k=2, score="x", id="player", distinct="best", window=sb.CountWindow(3))
    >>> sb.rank(plays, query).select(["player", "x"]).to_pylist()
    [{'player': 'a', 'x': 5}, {'player': 'b', 'x': 4}]
    """

    shortens = True
    saved_arrays = ("rows", "starts")
    saved_forms: ClassVar[Forms] = {"starts": Form("starts", 0, ascends=True)}
    saved_parts = (("payload/", "payload"),)

    def __init__(self, query: TopK) -> None:
        super().__init__(query)
        self.rows = np.zeros((0, kernel.WIDTH), np.int64)
        self.starts = np.zeros(1, np.int64)
        self.payload = Payload({})
        self.everyone: AllIds | None = None
        """The best row of every id of each live pane, if positions are asked for."""

    def prepare(self, stored: bool = False, late: bool = False, positions: bool = False) -> None:
        super().prepare(stored, late, positions)
        if positions:
            self.limit, self.everyone = ALL, AllIds()

    def start(self) -> None:
        self.payload = self._new_payload()

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
        part = panes.parts["rows"]
        slots = self.payload.add(part) if len(part) else _NONE
        order = np.argsort(panes.group, kind="stable")
        runs = Part(part.offsets, {n: part.columns.get(n, _NONE) for n in ("key", "tie", "hash")})
        runs = Part(part.offsets, {**runs.columns, "slot": slots}).take(order)
        pushed = NewIds(
            frozen(panes.stamp[order]), frozen(panes.group[order]), frozen(runs.offsets),
            frozen(runs["key"]), frozen(runs["tie"]),
            frozen(np.asarray(runs["hash"]).view(np.int64)), frozen(runs["slot"]),
        )  # fmt: skip
        groups = max(len(self.starts) - 1, int(panes.group.max(initial=-1)) + 1)
        due, numbers = group_windows(windows, groups)
        self.rows, self.starts, rows, answered = fold_distinct(
            frozen(self.rows), frozen(self.starts), groups, self.query.k, pushed, due
        )
        found = None
        if len(windows):
            columns: dict[str, Any] = {"key": rows[:, 0].copy(), "tie": rows[:, 1].copy()}
            columns |= self.payload.gather(rows[:, 2].copy())
            found = Runs(
                numbers[answered[:, 0]],
                answered[:, 1].astype(np.int32),
                {"rows": Part(offsets_of(answered[:, 2]), columns)},
            )
        if self.everyone is not None and len(windows):
            self.everyone.expire(windows)
        if self.payload.crowded(len(self.rows)):
            self.payload.compact(self.rows[:, kernel.SLOT])
            self.rows[:, kernel.SLOT] = np.arange(len(self.rows))
        return found

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
        part = self.everyone.rows(first, group)
        return None if part is None else self.position_in(self._of_each(part), key)

    def _of_each(self, part: Part) -> Part:
        """The best row of each id; rows that differ only in kept columns are equal here."""
        keys = self._rule(part["key"], part["tie"])
        found = best_of_each(part["hash"], keys, (), part.offsets)
        return part.rows(*found)

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        owner = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        live = (self.rows[:, kernel.PANE] >= first) & (self.rows[:, kernel.SHADE] < first)
        if group is not None:
            live &= owner == group
        at = np.flatnonzero(live)
        groups, lengths = np.unique(owner[at], return_counts=True)
        columns: dict[str, Any] = {
            "key": self.rows[at, kernel.KEY], "tie": self.rows[at, kernel.TIE]
        }  # fmt: skip
        columns |= self.payload.gather(self.rows[at, kernel.SLOT])
        part = Part(offsets_of(lengths), columns).first_rows(self.query.k)
        return Runs(np.zeros(len(groups), np.int64), groups.astype(np.int32), {"rows": part})

    # State ------------------------------------------------------------------------------------

    def stats(self) -> dict[str, int | float]:
        more = 0 if self.everyone is None else self.everyone.nbytes
        return {"retained": len(self.rows), "state_bytes": self.nbytes + more}

    def snapshot(self) -> State:
        own = super().snapshot()
        return own if self.everyone is None else own | self.everyone.state()

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        owners = self.starts[0] == 0 and self.starts[-1] == len(self.rows)
        require(owners and self.payload.has(self.rows[:, kernel.SLOT]), "a row has no slot")
        self._check_sealed(self.rows[:, kernel.PANE])
        if self.everyone is not None:
            self.everyone.restore(arrays)
            for piece in self.everyone.pieces:
                self.saved_runs(piece)

    def _check(self) -> None:
        k, columns = self.query.k, kernel
        self.payload._check(self.rows[:, columns.SLOT])
        for low, high in zip(self.starts[:-1], self.starts[1:], strict=True):
            rows = self.rows[low:high]
            order = np.lexsort((~rows[:, columns.TIE], ~rows[:, columns.KEY]))
            assert (rows[:, :2] == rows[order][:, :2]).all()
            for i, row in enumerate(rows):
                later = rows[:i][rows[:i, columns.PANE] >= row[columns.PANE]]
                assert (later[:, columns.HASH] != row[columns.HASH]).all()
                assert len(set(later[:, columns.HASH].tolist())) <= row[columns.COUNT] < k
                own = rows[:i][rows[:i, columns.HASH] == row[columns.HASH]]
                assert not len(own) or own[:, columns.PANE].max() <= row[columns.SHADE]
