"""The fold over panes: summaries in, answers out. Both engines run this.

take(summaries)  ─►  open panes  ─►  advance(watermark)  ─►  combine, admit, synopsis.fold, finish
                                          │                                             │
                                          └─ clock: which windows are due               ▼
                                                                                     Answers
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband import registry
from skyband.answers.answer import Answers
from skyband.answers.tables import answer_schema, answers_of, runs_of
from skyband.contract.runs import Runs, run_starts
from skyband.contract.synopsis import Faults, Synopsis, Windows
from skyband.data.packing import under
from skyband.engine.clocks import CountClock, TimeClock
from skyband.engine.groups import GroupTable, PerGroup
from skyband.engine.window_totals import Totals
from skyband.query.base import Query
from skyband.window import CountWindow

__all__ = ["Due", "Fold", "make_synopsis"]

Ints = npt.NDArray[np.int64]
_MOST_OPEN = 64


def make_synopsis(query: Query) -> Synopsis[Any]:
    """The synopsis of a query, for as many groups as the query has."""
    cls = registry.load(query.kind, registry.choose(query))
    if query.groups and not cls.many_groups:
        return PerGroup(lambda: cls(query))
    synopsis: Synopsis[Any] = cls(query)
    return synopsis


@dataclass(frozen=True, eq=False)
class Due:
    """What a step of the watermark brought: windows to answer, and this fold's piece of each."""

    windows: Windows
    partial: Runs | None
    mended: Runs | None
    """Sealed panes that lost bad rows at the last moment; None where they are as they came."""


class Fold:
    """Open panes, the clock and the synopsis of one query."""

    def __init__(
        self,
        query: Query,
        synopsis: Synopsis[Any],
        groups: GroupTable,
        judge: Callable[[Faults], None],
    ) -> None:
        self.query = query
        self.judge = judge
        """Told of rows found bad at the last moment; raises where they are not to be skipped."""
        self.blank: Runs | None = None
        """A summary of no pane, once there has been one."""
        self.panes = query.window.panes
        self.synopsis = synopsis
        self.groups = groups
        self.counting = isinstance(query.window, CountWindow)
        self.time = TimeClock(self.panes, getattr(query.window, "lateness_ticks", 0), [])
        self.count = CountClock(self.panes)
        self.open: list[Runs] = []
        self.combined = 0
        """Open rows right after they were last combined."""
        self.newest: Ints = np.zeros(0, np.int64)
        """The newest pane of each group, by code."""
        self.known_groups = 1024
        self.totals = Totals(self.panes, self.counting)
        self.before: dict[int, pa.Table] = {}
        self.windows_out = 0
        self.short: Ints = np.zeros(0, np.int64)
        """By group: the pane before which a snapshot of version 0.1 may have dropped something."""

    # Taking and sealing ------------------------------------------------------------------------

    def take(self, runs: Runs) -> None:
        """Take summaries of panes that are still open."""
        if self.blank is None:
            self.blank = runs.slice(0, 0)
        if not len(runs):
            return
        self._reserve_groups()
        if self.groups.names:
            np.maximum.at(self.newest, runs.group, runs.stamp)
        self.open.append(runs)
        if len(self.open) > _MOST_OPEN:
            self.open = [self._combined(self.open)]

    def _keep(self, rest: list[Runs]) -> None:
        """What stays open after sealing, combined once it has doubled."""
        self.open = rest
        if len(rest) > 1:
            held = sum(_rows(each) for each in rest)
            if len(rest) > _MOST_OPEN or held > 2 * self.combined + 100_000:
                self.open = [self._combined(rest)]
                self.combined = _rows(self.open[0])

    def held(self) -> Runs | None:
        """The open panes, combined; None where nothing was ever taken."""
        if not self.open:
            return self.blank
        # Even one summary may hold parts of the same pane, if several were handed over as one.
        self.open = [self._combined(self.open)]
        self.combined = _rows(self.open[0])
        return self.open[0]

    def replay(self, sealed: Runs) -> None:
        """Take back panes that were sealed before, and that a coming window covers.

        The synopsis then answers as if it had been there all along; the clock is restored apart.
        """
        if self.blank is None:
            self.blank = sealed.slice(0, 0)
        if not len(sealed):
            return
        self._reserve_groups()
        if self.groups.names:
            np.maximum.at(self.newest, sealed.group, sealed.stamp)
        sealed = sealed.ordered()
        self.totals.add(sealed)
        self.synopsis.fold(sealed, self.windows(np.zeros(0, np.int64)))

    def advance(self, watermark: int) -> Answers | None:
        """Seal the panes that the watermark has reached and answer the windows it ended."""
        step = self._step(watermark, apart=True)
        if step is None:
            return None
        sealed, windows, _, head = step
        if head is not None:
            self.synopsis.fold(head, self.windows(np.zeros(0, np.int64)))
        return self._answered(sealed, windows)

    def seal(self, watermark: int) -> Due | None:
        """Seal the panes that the watermark has reached; read the windows it ended, unfinished."""
        step = self._step(watermark)
        if step is None:
            return None
        sealed, windows, mended, _ = step
        partial = None if sealed is None else self.synopsis.fold(sealed, windows)
        return Due(windows, partial, mended)

    def _step(
        self, watermark: int, apart: bool = False
    ) -> tuple[Runs | None, Windows, Runs | None, Runs | None] | None:
        """Panes that this watermark seals, windows it ends; panes that lost bad rows, or None.

        With ``apart``, the last are sealed panes that come before the others and before the end of
        any of the windows: see ``_parted``.
        """
        upto = int(self.panes.pane_of(watermark))
        pieces, rest = self._split(lambda runs: runs.stamp < upto)
        head, sealed = self._parted(pieces) if apart else (None, self._whole(pieces))
        taken = sealed
        sealed = self._admitted(sealed)
        both = [r.stamp[run_starts(r.stamp)] for r in (head, sealed) if r is not None]
        filled = np.concatenate([np.zeros(0, np.int64), *both])
        numbers = self.time.advance(watermark, filled)
        self._keep(rest)
        if sealed is None and not len(numbers):
            return None
        windows = self.windows(numbers)
        if head is not None and sealed is not None and (windows.end <= head.stamp[-1]).any():
            sealed = Runs.concat([head, sealed])
            head = None
        for runs in (head, sealed):
            self.totals.add(runs)
        mended = None if sealed is taken else sealed
        # Without even a blank this fold was restored after its last pane had expired.
        return self.blank if sealed is None else sealed, windows, mended, head

    def windows(self, numbers: Ints) -> Windows:
        """Time windows by their numbers."""
        first, end = self.panes.first_pane(numbers), self.panes.end_pane(numbers)
        return Windows(numbers, first, end, self.groups.ranks)

    def advance_counts(self, groups: Ints, before: Ints) -> Answers | None:
        """Seal the panes that these groups have filled since their counts were ``before``."""
        upto = self.panes.pane_of(self.count.counts)
        pieces, rest = self._split(lambda runs: runs.stamp < upto[runs.group])
        sealed = self._admitted(self._whole(pieces))
        self._keep(rest)
        numbers, owners = self.count.due(groups, before)
        if sealed is None and not len(numbers):
            return None
        self.totals.add(sealed)
        ranks = self.groups.ranks
        order = np.lexsort((ranks[owners], numbers))
        numbers, owners = numbers[order], owners[order]
        windows = Windows(
            numbers,
            np.maximum(self.panes.first_pane(numbers), 0),
            self.panes.end_pane(numbers),
            ranks,
            owners.astype(np.int32) if self.groups.names else None,
        )
        return self._answered(self.blank if sealed is None else sealed, windows)

    def _split(self, is_sealed: Any) -> tuple[list[Runs], list[Runs]]:
        """Open summaries that are sealed, and the others."""
        sealed, rest = [], []
        for runs in self.open:
            mask = is_sealed(runs)
            if mask.all():
                sealed.append(runs)
            elif not mask.any():
                rest.append(runs)
            else:
                upto = int(mask.sum())
                whole = bool(mask[:upto].all())
                sealed.append(runs.slice(0, upto) if whole else runs.take(mask))
                rest.append(runs.slice(upto, len(runs)) if whole else runs.take(~mask))
        return sealed, rest

    def _whole(self, pieces: list[Runs]) -> Runs | None:
        return self._combined(pieces) if pieces else None

    def _parted(self, pieces: list[Runs]) -> tuple[Runs | None, Runs | None]:
        """The panes that summaries have in common, combined, and all later ones as they came.

        A batch mostly has in common with those before it only the pane that it began in: so the
        rest of it, which is long, is neither copied nor combined. The first is None where there is
        nothing to gain, or where a synopsis wants to see all panes before it admits them.
        """
        model = getattr(self.synopsis, "model", self.synopsis)
        if len(pieces) < 2 or type(model).admit is not Synopsis.admit:
            return None, self._whole(pieces)
        *early, last = pieces
        last = last.ordered()
        common = max(int(runs.stamp.max()) for runs in early)
        cut = int(np.searchsorted(last.stamp, common, side="right"))
        if cut == len(last) or last.repeats.any():
            return None, self._whole(pieces)
        return self._combined([*early, last.slice(0, cut)]), last.slice(cut, len(last))

    def _combined(self, many: Sequence[Runs]) -> Runs:
        runs = Runs.concat(many).ordered()
        return self.synopsis.combine(runs) if runs.repeats.any() else runs

    def _admitted(self, sealed: Runs | None) -> Runs | None:
        if sealed is None:
            return None
        admitted, faults = self.synopsis.admit(sealed)
        if faults is not None:
            self.judge(faults)
        return admitted

    def _answered(self, sealed: Runs | None, windows: Windows) -> Answers | None:
        finished = None if sealed is None else self.synopsis.answers(sealed, windows)
        return self._finished(finished, windows) if len(windows) else None

    def answer(self, partials: Sequence[Runs], windows: Windows) -> Answers:
        """Answers of at least one window from the pieces of all shards, groups by our codes."""
        return self._finished(self.synopsis.finish(partials) if partials else None, windows)

    def _finished(self, finished: Runs | None, windows: Windows) -> Answers:
        edges = self._edges(windows.number)
        runs = None if finished is None else finished.ordered(windows.ranks)
        totals = self.totals.of(windows)
        self.totals.expire(windows, self.count.counts)
        found = runs_of(runs, windows)
        answers = self._answers(runs, found, edges, totals, windows.group)
        self.before = self.before | answers.last() if self.counting else answers.last()
        self.windows_out += len(answers)
        self.forget(windows)
        return answers

    # Answers -----------------------------------------------------------------------------------

    def _edges(self, windows: Ints) -> tuple[Ints, Ints]:
        ends = self.panes.end_of(windows)
        starts = ends - self.panes.size
        return (np.maximum(starts, 0) if self.counting else starts), ends

    def schema(self) -> pa.Schema:
        """Columns of an answer."""
        return answer_schema(self.query, self.groups, self.synopsis)

    def _answers(
        self,
        finished: Runs | None,
        stretches: tuple[Ints, Ints],
        edges: tuple[Ints, Ints],
        totals: npt.NDArray[Any],
        group: npt.NDArray[np.int32] | None,
    ) -> Answers:
        shape = (self.query, self.synopsis, self.groups)
        return answers_of(*shape, finished, stretches, edges, totals, group, self.before)

    def peeks_from(self, groups: npt.NDArray[np.int32]) -> Ints:
        """The first pane of each group that can be read again, after its window was answered."""
        found = np.zeros(len(groups), np.int64)
        known = groups < len(self.short)
        found[known] = self.short[groups[known]]
        return found

    # Groups ------------------------------------------------------------------------------------

    def _reserve_groups(self) -> None:
        bound = self.groups.bound
        if bound > len(self.newest):
            grown = np.full(max(bound, 2 * len(self.newest)), np.iinfo(np.int64).min)
            grown[: len(self.newest)] = self.newest
            self.newest = grown

    def forget(self, windows: Windows) -> None:
        """Free the groups without live rows, once the groups have doubled since the last time."""
        if self.counting or not self.groups.names or len(self.groups) < 2 * self.known_groups:
            return
        live = self.groups.live
        gone = live[self.newest[live] < windows.first[-1]]
        if len(gone):
            self.synopsis.forget(gone.astype(np.int32))
            self.groups.release(gone.astype(np.int32))
            self.newest[gone] = np.iinfo(np.int64).min
        self.known_groups = max(1024, len(self.groups))

    # State -------------------------------------------------------------------------------------

    def mark(self) -> tuple[Any, ...]:
        """What a failed push has to put back."""
        clock, state = self.time.copied(), None
        if self.synopsis.fallible:
            state = {name: array.copy() for name, array in self.synopsis.snapshot().items()}
        counts, newest = self.count.counts.copy(), self.newest.copy()
        return list(self.open), clock, counts, newest, copy(self.totals), state

    def rewind(self, mark: tuple[Any, ...]) -> None:
        """Put back what ``mark`` saw."""
        self.open, self.time, self.count.counts, self.newest, self.totals, state = mark
        if state is not None:
            self.synopsis.restore(state)

    @property
    def nbytes(self) -> int:
        kept = self.newest.nbytes + self.totals.nbytes
        return int(kept + self.groups.nbytes + sum(runs.nbytes for runs in self.open))

    def snapshot(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Plain values and flat arrays."""
        arrays = {f"synopsis/{n}": a for n, a in self.synopsis.snapshot().items()}
        arrays |= {f"groups/{n}": a for n, a in self.groups.state().items()}
        arrays |= {"counts": self.count.counts, "newest": self.newest}
        arrays |= {"total_keys": self.totals.keys, "totals": self.totals.weights}
        arrays |= {"short": self.short}
        header: dict[str, Any] = {
            "clock": self.time.state(),
            "windows_out": self.windows_out,
            "known_groups": self.known_groups,
            "open": [],
            "before": list(self.before),
        }
        for i, runs in enumerate([*self.open, *([] if self.blank is None else [self.blank])]):
            flat, found = runs.flat()
            header["open"].append(flat)
            arrays |= {f"open{i}/{n}": a for n, a in found.items()}
        for i, table in enumerate(self.before.values()):
            arrays[f"before{i}"] = _table_bytes(table)
        return header, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over a snapshot of the same query, bound to the same columns."""
        self.synopsis.restore(under(arrays, "synopsis/"))
        if self.groups.names:
            self.groups.restore(under(arrays, "groups/"))
        self.count.counts = arrays["counts"].copy()
        self.newest = arrays["newest"].copy()
        if self.counting and self.groups.names:
            self.short = arrays.get("short", self.panes.pane_of(self.count.counts))
        self.totals.keys, self.totals.weights = arrays["total_keys"], arrays["totals"]
        self.time.restore(header["clock"])
        self.windows_out = header["windows_out"]
        self.known_groups = header["known_groups"]
        runs = [
            Runs.from_flat(flat, under(arrays, f"open{i}/"))
            for i, flat in enumerate(header["open"])
        ]
        self.open, self.blank = runs[:-1], (runs[-1] if runs else None)
        self.combined = sum(_rows(each) for each in self.open)
        self.before = {g: _table_from(arrays[f"before{i}"]) for i, g in enumerate(header["before"])}


def _table_bytes(table: pa.Table) -> npt.NDArray[np.uint8]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _table_from(flat: npt.NDArray[np.uint8]) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(flat)) as reader:
        return reader.read_all()


def _rows(runs: Runs) -> int:
    return sum(len(part) for part in runs.parts.values())
