"""Exact top-k from the k-skyband: ours, and the default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.kernels import skyband as kernel
from skyband.kernels.borrow import frozen
from skyband.kernels.pane_answers import sorted_panes
from skyband.query.topk import TopK
from skyband.runs import Part, Runs
from skyband.synopsis import Rows, Windows
from skyband.topk.base import TopKSynopsis
from skyband.topk.lasting import Lasting
from skyband.topk.payload import Payload, Value, payload_for

__all__ = ["Skyband"]

Ints = npt.NDArray[np.int64]
_MOST_TO_INSERT = 64  # results up to which a pane is best sorted by insertion


class Skyband(TopKSynopsis):
    """The k-skyband of each group, swept when it has outgrown itself.

    A row costs one comparison when it is not among the best k of its pane (or, in a batch of many
    panes, of its neighbourhood: see lasting.py), else O(log k) amortised,
    whatever the order of scores; an answer O(k). State: the rows that fewer than k better ones
    follow, about k (1 + ln panes) of a group under random order, at most k times the panes. Exact.
    Follows the k-skyband of Mouratidis et al. 2006, taken a pane at a time.

    >>> import pyarrow as pa, skyband as sb
    >>> query = sb.TopK(k=1, score="x", window=sb.CountWindow(2, slide=1), algorithm="skyband")
    >>> sb.rank(pa.table({"x": [3, 1, 2]}), query)["x"].to_pylist()
    [3, 3, 2]
    """

    many_groups = True
    shortens = True

    def __init__(self, query: TopK) -> None:
        super().__init__(query)
        self.band = kernel.Skyband(query.k)
        self.payload: Payload | Value = Payload({})
        # Of one group, many panes at a time leave little to look at; many groups need all rows.
        self.most_rows = 1 << 19 if query.groups else 1 << 24
        self.lasting = Lasting(query)

    def check_types(self, source: str, schema: pa.Schema) -> None:
        super().check_types(source, schema)
        self.payload = payload_for({name: schema.field(name).type for name in self._payload})

    def _select(self, rows: Rows, score: npt.NDArray[Any], tie: Ints) -> tuple[Ints, Ints]:
        found = self.lasting.of(rows, score, tie)
        return super()._select(rows, score, tie) if found is None else found

    def push(self, panes: Runs) -> None:
        none = np.zeros(0, np.int64)
        windows = Windows(none, none, none, none)
        self._advance(panes, windows)

    def seal(self, first: int, end: int) -> None:
        """Nothing: a pane expires when a window that lacks it is read."""

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        found = []
        alone = self._alone(panes, windows)
        if alone:
            # Panes that were pushed before, without windows, are in the state.
            early = int(np.searchsorted(windows.first, panes.stamp[0]))
            if early:
                found.append(self._read(panes.slice(0, 0), windows.slice(0, early)))
            answers, panes, windows = self._answer_alone(panes, windows, alone)
            found.append(answers)
        if len(windows):
            found.append(self._read(panes, windows))
        else:
            self._advance(panes, windows)
        live = self.band.retained
        if self.payload.crowded(live):
            slots = self.band.slots()
            self.payload.compact(slots)
            self.band.renumber(np.arange(len(slots)))
        return Runs.concat(found) if found else None

    def _read(self, panes: Runs, windows: Windows) -> Runs:
        tops = self._advance(panes, windows)
        return self._partial(tops, windows.number[tops.window])

    def _alone(self, panes: Runs, windows: Windows) -> int:
        """How many of these panes are windows by themselves, which need no state.

        The last one goes through the state, for ``partial`` to find it there.
        """
        if len(windows) < 2 or windows.group is not None or self.query.k > _MOST_TO_INSERT:
            return 0
        alone = int(np.searchsorted(panes.stamp, windows.first[-1]))
        dense = 8 * alone > len(windows.ranks) * (len(windows) - 1)
        return alone if self.query.window.panes.per_window == 1 and dense else 0

    def _answer_alone(self, panes: Runs, windows: Windows, n: int) -> tuple[Runs, Runs, Windows]:
        """The answers of windows of one pane; the last pane and window."""
        most = len(windows) - 1
        now, last = panes.slice(0, n), panes.slice(n, len(panes))
        part = now.parts["rows"]
        rows = (frozen(part["key"]), frozen(part["tie"]), frozen(self.payload.add(part)))
        by_rank = np.argsort(windows.ranks).astype(np.int32)
        runs = (frozen(now.stamp), frozen(now.group), frozen(part.offsets))
        order, offsets, (slot, key, tie) = sorted_panes(*runs, rows, frozen(by_rank))
        columns: dict[str, Any] = {"key": key, "tie": tie, **self.payload.gather(slot)}
        number = windows.number[np.searchsorted(windows.first, now.stamp[order])]
        found = Runs(number, now.group[order], {"rows": Part(offsets, columns)})
        return found, last, windows.slice(most, most + 1)

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        known = len(self.band.groups)
        order = np.arange(known) if group is None else np.array([group])
        tops = self.band.read(first, end, order.astype(np.int32))
        return self._partial(tops, np.zeros(len(tops.group), np.int64))

    def _advance(self, panes: Runs, windows: Windows) -> kernel.Tops:
        part = panes.parts["rows"]
        slots = self.payload.add(part)
        runs = (panes.stamp, panes.group, part.offsets, part["key"], part["tie"], slots)
        if windows.group is None:
            order = np.argsort(windows.ranks).astype(np.int32)
            return self.band.fold(*runs, windows.first, windows.end, order)
        by_group = np.lexsort((windows.number, windows.group))
        tops = self.band.fold_each(
            *runs, windows.first[by_group], windows.end[by_group], windows.group[by_group]
        )
        return tops._replace(window=by_group[tops.window].astype(np.int32))

    def _partial(self, tops: kernel.Tops, numbers: npt.NDArray[np.int64]) -> Runs:
        columns: dict[str, Any] = {"key": tops.key, "tie": tops.tie}
        columns |= self.payload.gather(tops.slot)
        return Runs(numbers, tops.group, {"rows": Part(tops.offsets, columns)})

    def forget(self, groups: npt.NDArray[np.int32]) -> None:
        self.band.forget(groups)

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        payload = {f"payload/{name}": values for name, values in self.payload.state().items()}
        return {**self.band.arrays(), **payload}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        own = {n: a for n, a in arrays.items() if not n.startswith("payload/")}
        self.band = kernel.Skyband.from_arrays(self.query.k, **own)
        names = [n for n in arrays if n.startswith("payload/")]
        self.payload.restore({n.partition("/")[2]: arrays[n] for n in names})

    def stats(self) -> dict[str, int | float]:
        state = self.band.nbytes + self.payload.nbytes
        return {"retained": self.band.retained, "state_bytes": state}

    def _check(self) -> None:
        self.band._check()
        self.payload._check(self.band.slots())
