"""All live reports, scored again for every window: sound for every rule of repeated reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Floats, Ints, Mask, Saved, State
from skyband.contract.pane_by_pane import PaneByPane
from skyband.contract.runs import Part, Runs, pick
from skyband.data.flat_state import Form, admitted
from skyband.data.packing import prefixed, under
from skyband.fused.base import REPORTS, FusedSynopsis

__all__ = ["AllReports"]


class AllReports(PaneByPane, FusedSynopsis):
    """Keeps every live report and scores every live object for each window.

    Time O(r log r) per window of r live reports; state O(r). Exact, for every ``repeats``: under
    "mean" a new report can lower an object's score, so that the dominance of EAA, which relies on
    scores that only grow until something expires, would drop objects that can still win. It is
    chosen for ``repeats="mean"``.

    >>> import pyarrow as pa, skyband as sb
    >>> reports = pa.table({"car": ["a", "b", "a"], "cam": ["n", "n", "n"], "v": [0.9, 0.7, 0.4]})
    >>> names = {"id": "car", "stream": "cam", "value": "v", "streams": ("n",)}
    >>> query = sb.FusedTopK(k=2, **names, window=sb.CountWindow(3), repeats="mean")
    >>> sb.rank(reports, query).select(["car", "score"]).to_pylist()
    [{'car': 'b', 'score': 0.7}, {'car': 'a', 'score': 0.65}]
    """

    shortens = True

    def start(self) -> None:
        self.live: Runs | None = None
        self.counts = np.zeros(2, np.int64)
        """Reports taken and objects scored so far."""

    @classmethod
    def remark(cls, query: Any) -> str:
        if query.repeats != "mean":
            return "keeps every live report"
        return (
            "keeps every live report: under repeats='mean' a new report can lower a score, so "
            "nothing can be dropped before it expires"
        )

    # Panes ------------------------------------------------------------------------------------

    def push(self, panes: Runs) -> None:
        part = panes.parts[REPORTS]
        if len(part) and self.guard is not None:
            pane = np.repeat(panes.stamp, part.lengths)
            oldest = np.repeat(self._oldest(panes.stamp), part.lengths)
            self.guard.admit(part["hash"], part["stream"], pane, oldest)
        self.counts[0] += len(part)
        self.live = panes if self.live is None else Runs.concat([self.live, panes])

    def seal(self, first: int, end: int) -> None:
        if self.live is not None:
            self.live = self.live.take(self.live.stamp >= first)

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        columns = {self.query.id: pa.array([], self.id_type), "score": np.zeros(0)}
        runs = Runs(np.zeros(0, np.int64), np.zeros(0, np.int32), {"rows": _part(columns, 0)})
        if self.live is None:
            return runs
        part = self.live.take(_between(self.live.stamp, first, end)).parts[REPORTS]
        if not len(part):
            return runs
        _, named, owner = np.unique(part["hash"], return_index=True, return_inverse=True)
        scores = self.score(self._values(part, owner, len(named)))
        self.counts[1] += len(scores)
        best = np.argsort(-scores, kind="stable")
        if len(best) > self.query.k:  # ``finish`` sorts ties by id
            best = best[: np.count_nonzero(scores >= scores[best[self.query.k - 1]])]
        columns = {self.query.id: pick(part["id"], named[best]), "score": scores[best]}
        rows = _part(columns, len(best))
        return Runs(np.zeros(1, np.int64), np.zeros(1, np.int32), {"rows": rows})

    def _values(self, part: Part, owner: Ints, objects: int) -> Floats:
        """One value per object and stream, made of all its reports there."""
        stream = part["stream"].astype(np.int64)
        order = np.lexsort((part["value"], part["tie"], stream, owner))
        value, pair = part["value"][order], (owner * len(self.low) + stream)[order]
        starts = np.flatnonzero(np.append(True, pair[1:] != pair[:-1]))
        ends = np.append(starts[1:], len(pair))
        repeats = self.query.repeats
        if repeats == "latest":  # of reports at the same time, the greater one
            found = value[ends - 1]
        elif repeats == "max":
            found = np.maximum.reduceat(value, starts)
        else:
            found = np.add.reduceat(value, starts)
            found = found / (ends - starts) if repeats == "mean" else found
        values = np.tile(self.low, (objects, 1))
        values.ravel()[pair[starts]] = found
        return values

    # State ------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        state: State = {"counts": self.counts.copy()}
        if self.live is not None:
            state["live"] = np.frombuffer(self.live.pack(), np.uint8)
        return state if self.guard is None else state | prefixed("guard/", self.guard.state())

    def restore(self, arrays: Saved) -> None:
        self.counts = admitted(arrays, {"counts": self.counts}, {"counts": Form(2)})["counts"]
        self.live = None
        if "live" in arrays:
            self.live = self.saved_runs(Runs.unpack(arrays["live"].tobytes())[0])
        if self.guard is not None:
            self.guard.restore(under(arrays, "guard/"))

    def stats(self) -> dict[str, int | float]:
        held = 0 if self.live is None else len(self.live.parts[REPORTS])
        size = 0 if self.live is None else self.live.nbytes
        size += 0 if self.guard is None else self.guard.nbytes
        taken, scored = self.counts.tolist()
        work = {"reports_in": taken, "objects_scored": scored}
        return {"retained": held, "state_bytes": size, **work}

    def _check(self) -> None:
        if self.live is not None:
            assert (np.diff(self.live.stamp) >= 0).all()
        if self.guard is not None:
            self.guard._check()


def _between(stamp: Ints, first: int, end: int) -> Mask:
    return (stamp >= first) & (stamp < end)


def _part(columns: dict[str, object], rows: int) -> Part:
    return Part(np.array([0, rows] if rows else [0]), columns)
