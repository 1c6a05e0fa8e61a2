"""The fold over panes: summaries in, answers out. Both engines use it.

take(summaries)  ─►  open panes  ─►  begin(target)  ─►  combine, admit  ─►  folded  ─►  answered
                                          │
                                          └─ clock: which windows are due

A fold has readers: queries that differ only in k and in the size of their windows (``readers.py``).
They have one clock, one set of open panes and one synopsis. A query alone is a fold of one reader.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband import registry
from skyband.answers.answer import Answers, LazyTable
from skyband.answers.tables import Shape, answer_schema, answers_of
from skyband.arrays import Ints, Saved, State
from skyband.contract.accumulated import Accumulated
from skyband.contract.capabilities import (
    AnswerFold,
    GroupForgetting,
    ReaderFold,
    RowAdmission,
    WeightLimit,
)
from skyband.contract.rows import Faults, Windows
from skyband.contract.runs import Runs
from skyband.contract.synopsis import Synopsis, check_sealed
from skyband.data.flat_state import require, whole
from skyband.data.group_table import GroupTable
from skyband.data.ipc import sound_table, table_to_array
from skyband.data.packing import prefixed, under
from skyband.engine.clock import TimeClock, clock_for
from skyband.engine.open_panes import GroupTotals, OpenPanes, duplicate, totals_for
from skyband.engine.per_group import make_synopsis, state_of
from skyband.engine.placement import NEVER
from skyband.engine.revisions import WindowHistory
from skyband.panes import Panes
from skyband.query.base import Query
from skyband.window import CountWindow

# Which queries of a board are readers of one fold ------------------------------------------------
#
# They differ only in k and in the size of their windows. So their panes are the same, and a row is
# late for all of them or for none; what the longest window and the greatest k need is enough for
# all:
#
#     panes           ├───┼───┼───┼───┼───┼───┤
#     reader a        ├───────────────────────┤  the best 100
#     reader b                        ├───────┤  the best 10


Name = TypeVar("Name")


def model_of(query: Query) -> Any:
    """The class of the algorithm that answers a query."""
    return registry.load(query.kind, registry.choose(query))


def fold_key(query: Query) -> str | None:
    """Queries with the same key are readers of one fold; None if a query reads alone.

    The algorithm must be a ``ReaderFold``. Windows with gaps leave out rows by their size.
    """
    window = query.window
    if window.sort != "sized" or query.sources:
        return None
    panes, model = window.panes, model_of(query)
    if panes.gaps or not issubclass(model, ReaderFold) or (query.groups and not model.many_groups):
        return None
    alike = {name: value for name, value in query.spec().items() if name not in ("k", "window")}
    alike["algorithm"] = registry.choose(query)
    alike["panes"] = [type(window).__name__, window.integer, panes.slide, panes.cuts, panes.offset]
    alike["zone"] = str(panes.days)
    alike["lateness"] = window.lateness_ticks, window.revise_ticks
    return json.dumps(alike, sort_keys=True)


def folds_of(queries: Mapping[Name, Query]) -> list[list[Name]]:
    """The names of the queries of each fold, in the order of the board."""
    folds: dict[object, list[Name]] = {}
    for name, query in queries.items():
        key = fold_key(query)
        folds.setdefault((name,) if key is None else key, []).append(name)
    return list(folds.values())


def widest(queries: Sequence[Query]) -> Query:
    """A query with the greatest k and the longest window of the readers of a fold."""
    first, *others = queries
    if not others:
        return first
    settings: dict[str, Any] = {"algorithm": registry.choose(first)}
    if hasattr(first, "k"):
        settings["k"] = max(query.k for query in queries)  # type: ignore[attr-defined]
    settings["window"] = max((q.window for q in queries), key=lambda window: window.panes.size)
    return replace(first, **settings)


_NONE = np.zeros(0, np.int64)
_CODES = ("group", "owner")
"""The names under which states save codes of groups."""
_PANES = ("pane", "held", "born", "seen", "started")
"""The names under which they save panes."""


@dataclass(frozen=True, eq=False)
class Step:
    """The effect of one move of the clock: the panes it seals and the windows it ends."""

    windows: Sequence[Windows]
    """Those of each reader."""
    sealed: Runs | None
    """Sealed panes; None if not even an empty summary is known."""
    mended: Runs | None = None
    """Sealed panes after ``admit`` removed bad rows; None if it removed none."""
    faults: Faults | None = None
    """The rows that ``admit`` removed."""


@dataclass(eq=False)
class Reader:
    """A query that reads its windows from a fold."""

    query: Query
    synopsis: Synopsis[Any]
    """What finishes its answers: that of the fold, or one of its own that holds no state."""
    shape: Shape
    windows_out: int = 0
    last: dict[int, pa.Table | LazyTable] = field(default_factory=dict)
    """The last table of each group (key 0 if all groups share windows)."""
    history: WindowHistory | None = None
    """The answers that late rows may correct; None if they never do."""

    @property
    def panes(self) -> Panes:
        return self.query.window.panes

    @property
    def last_tables(self) -> dict[int, pa.Table]:
        """The last table of each group, built."""
        self.last = {
            group: table.table if isinstance(table, LazyTable) else table
            for group, table in self.last.items()
        }
        return self.last

    def changed(self, windows: Ints, panes: Ints) -> Ints:
        """Those of the windows that cover one of the panes, or were answered.

        A window that is only compared with one that covers them may never have had rows.
        """
        assert self.history is not None
        first, end = self.panes.first_pane(windows), self.panes.end_pane(windows)
        answered = [number in self.history.known for number in windows.tolist()]
        covers = panes.searchsorted(end) > panes.searchsorted(first)
        changed: Ints = windows[covers | np.array(answered, np.bool_)]
        return changed


class Fold:
    """Open panes, a clock and a synopsis, and the queries that read from it."""

    def __init__(
        self,
        queries: Sequence[Query],
        synopsis: Synopsis[Any],
        groups: GroupTable,
        judge: Callable[[Faults], None],
        sources: Sequence[str],
        idle: float | None = None,
        joins: int | None = None,
        total: bool = False,
    ) -> None:
        """The synopsis serves all queries; see ``widest``. For the rest, see ``clock_for``.

        With ``total``, answers show the total of their window and group, which is in no snapshot.
        """
        self.query = synopsis.query
        self.judge = judge
        """Called with the rows that ``admit`` found bad; raises unless they are to be skipped."""
        self.synopsis = synopsis
        state = self.state = state_of(synopsis)
        """What takes the sealed panes; asked of the synopsis itself is what reads no state."""
        # What it can do, asked once: such a question takes longer than a small push.
        self.admission = state if isinstance(state, RowAdmission) else None
        self.weight_limit = state if isinstance(state, WeightLimit) else None
        self.reader_fold = state if isinstance(state, ReaderFold) else None
        self.answer_fold = state if isinstance(state, AnswerFold) else None
        self.groups = groups
        self.panes = self.query.window.panes
        self.clock = clock_for(self.query, queries, sources, idle, joins)
        self.open = OpenPanes(synopsis.combine)
        self.totals = totals_for(self.panes)
        self.total = total
        shared = not isinstance(self.query.window, CountWindow)
        by_group = total and groups.names and shared
        self.group_totals = GroupTotals(self.panes) if by_group else None
        revised = self.query.window.revise_ticks is not None
        self.archive = OpenPanes(synopsis.combine) if revised else None
        """Sealed panes that are still open to late rows; None if these never correct answers."""
        self._blank: State | None = None
        """The state of the synopsis before its first pane, if there is an archive."""
        self._corrected: State | None = None
        """Its state before a correction that may still fail."""
        self.readers = [self._reader(query) for query in queries]

    def _reader(self, query: Query) -> Reader:
        synopsis = self.synopsis
        if query is not self.query and self.reader_fold is not None:  # it has, or had, others
            synopsis = make_synopsis(query)
            for source, schema in self.synopsis.schemas.items():
                synopsis.bind(source, schema)
        history = None if self.archive is None else WindowHistory()
        shape = Shape(query, synopsis, self.groups, self.total)
        return Reader(query, synopsis, shape, history=history)

    # Taking ------------------------------------------------------------------------------------

    def take(self, runs: Runs) -> None:
        """Take summaries of panes that are still open."""
        self.groups.saw(runs.group, runs.stamp)
        self.open.take(runs)
        if self.weight_limit is not None:
            self.totals.take(runs, self.open, self.weight_limit.check_weight)

    def resume(
        self, clock: dict[str, Any] | None, panes: Sequence[Runs], parts: Sequence[Runs] = ()
    ) -> None:
        """Start from a clock and the summaries of all panes that a future window covers.

        The synopsis then answers as if it had taken all panes from the beginning. ``parts`` are
        those of a state that outlives its panes.
        """
        if clock is not None:
            self.clock.restore(clock)
        if parts:
            state = Runs.concat(parts)
            self.open.take(state.slice(0, 0))
            self.groups.saw(state.group, state.stamp)
            assert isinstance(self.synopsis, Accumulated)
            self.synopsis.resume(state)
        upto = self.clock.sealed
        sealed = [runs for runs in panes if len(runs) and runs.stamp[0] < upto]
        for runs in panes:
            if not len(runs) or runs.stamp[0] >= upto:
                self.take(self.synopsis.saved_runs(runs))
        if sealed:
            runs = self.synopsis.saved_runs(self.open.joined(sealed))
            self.open.take(runs.slice(0, 0))
            self.groups.saw(runs.group, runs.stamp)
            if self.archive is not None and isinstance(self.clock, TimeClock):
                self.archive.take(runs)
                kept = self.clock.first_kept(self.clock.answered)
                runs = runs.slice(_upto(runs, kept), len(runs))
            self._add_totals(runs)
            if self.weight_limit is not None:
                self.totals.take(runs, self.open, self.weight_limit.check_weight)
            self._fold(runs, [self.windows(_NONE)] * len(self.readers))

    # Sealing -----------------------------------------------------------------------------------

    def begin(self, target: Any = None, elsewhere: Ints = _NONE) -> Step | None:
        """Seal the panes that are complete once the clock gets there; ``folded`` does the rest.

        Without a target, the clock goes as far as the rows it has observed. ``elsewhere`` are panes
        that have rows in other folds, if that decides what is answered.
        """
        target = self.clock.target() if target is None else target
        if target is None:
            return None
        if not len(elsewhere) and not self.clock.passes(target, self.open.least):
            self.clock.settle(target)
            return None  # most small pushes end here
        done, rest = self.clock.split(self.open, target)
        runs = self.open.joined(done) if done else None
        before, corrected = NEVER, None
        if self.archive is not None:
            before = self.clock.sealed
            stamps = np.union1d(_NONE if runs is None else runs.stamp, elsewhere)
            late = stamps[stamps < before]
            if len(late):
                runs, corrected = self._reopened(late, runs)
        sealed, faults = self._admitted(runs)
        fresh = sealed
        if corrected is not None:
            elsewhere = elsewhere[elsewhere >= before]
            fresh = None if sealed is None else sealed.slice(_upto(sealed, before), len(sealed))
        windows = self.clock.advance(target, fresh, self.groups, elsewhere)
        self.open.keep(rest)
        if self.archive is not None and sealed is not None:
            assert isinstance(self.clock, TimeClock)
            self.archive.take(sealed)
            first = self.clock.first_kept()
            self.archive.keep(self.archive.split(lambda runs: runs.stamp < first)[1])
        if corrected is not None:
            numbers = [
                np.append(own, due.number) for own, due in zip(corrected, windows, strict=True)
            ]
            windows = [self.windows(own, i) for i, own in enumerate(numbers)]
        elif sealed is None and not any(map(len, windows)):
            return None
        if sealed is not None:
            self._add_totals(sealed)
        mended = None if faults is None else sealed
        # If there is no blank either, this fold was restored after its last pane had expired.
        return Step(windows, self.open.blank if sealed is None else sealed, mended, faults)

    def _reopened(self, late: Ints, runs: Runs | None) -> tuple[Runs | None, list[Ints]]:
        """The panes to fold because of rows of sealed panes, and the windows that they change.

        ``late`` are these panes, in other folds too; ``runs`` all that is to be sealed. The
        synopsis begins anew with the first pane of the first window that they change.
        """
        assert isinstance(self.clock, TimeClock)
        assert self.archive is not None
        mine = None if runs is None else runs.slice(0, _upto(runs, self.clock.sealed))
        changed = [
            reader.changed(numbers, late)
            for reader, numbers in zip(self.readers, self.clock.correct(late, mine), strict=True)
        ]
        starts = [int(numbers[0]) for numbers in changed if len(numbers)]
        first = min(starts, default=int(self.panes.first_window_of(late[0])))
        pane = self.clock.first_kept(first)
        pieces, rest = self.archive.split(lambda runs: runs.stamp >= pane)
        self.archive.keep(rest)
        pieces += [] if runs is None else [runs]
        if self._blank is not None:
            self._corrected = self.state.snapshot()
            self._begin_anew(self._blank)
        bound, self.totals = self.totals.bound, totals_for(self.panes)
        self.totals.bound = bound
        self.group_totals = self.group_totals and GroupTotals(self.panes)
        return self.open.joined(pieces) if pieces else None, changed

    def _begin_anew(self, state: Saved) -> None:
        """Give the synopsis another state, as a new process would."""
        self.state.start()
        self.state.restore(state)

    def folded(self, step: Step) -> list[Runs | None]:
        """Fold the sealed panes of a step; this fold's part of the answers of each reader."""
        if step.sealed is None:
            return [None] * len(self.readers)
        return self._fold(step.sealed, step.windows)

    def _fold(self, panes: Runs, windows: Sequence[Windows]) -> list[Runs | None]:
        self._note_blank()
        if self.reader_fold is not None:
            return self.reader_fold.fold_readers(panes, windows)
        return [self.state.fold(panes, own) for own in windows]  # it has one reader

    def _note_blank(self) -> None:
        if self.archive is not None and self._blank is None and self.synopsis.ready:
            self._blank = self.state.snapshot()

    def finished(self, step: Step) -> list[Runs | None]:
        """As ``folded``, with finished rows."""
        if self.answer_fold is not None and step.sealed is not None:
            self._note_blank()
            return [self.answer_fold.answers(step.sealed, step.windows[0])]
        return [
            None if part is None else reader.synopsis.finish([part])
            for reader, part in zip(self.readers, self.folded(step), strict=True)
        ]

    def answered(self, step: Step, finished: Sequence[Runs | None]) -> list[Answers | None]:
        """The answers of the windows that a step ends, from what ``finished`` returned."""
        answers: list[Answers | None] = []
        for reader, windows, runs in zip(self.readers, step.windows, finished, strict=True):
            answers.append(self._answers(reader, runs, windows) if len(windows) else None)
        self.forget(step.windows)
        return answers

    def windows(self, numbers: Ints, reader: int = 0) -> Windows:
        """The time windows with these numbers."""
        panes = self.readers[reader].panes
        return Windows(
            numbers, panes.first_pane(numbers), panes.end_pane(numbers), self.groups.ranks
        )

    def _admitted(self, sealed: Runs | None) -> tuple[Runs | None, Faults | None]:
        if sealed is None or self.admission is None:
            return sealed, None
        admitted, faults = self.admission.admit(sealed)
        if faults is not None:
            self.judge(faults)
        return admitted, faults

    def _add_totals(self, sealed: Runs) -> None:
        self.totals.add(sealed)
        if self.group_totals is not None:
            self.group_totals.add(sealed)

    # Answers -----------------------------------------------------------------------------------

    def answer(
        self,
        reader: int,
        partials: Sequence[Runs],
        windows: Windows,
        shares: Runs | None = None,
    ) -> Answers:
        """Answers of at least one window from the partials of all shards, with our group codes.

        ``shares`` are the ``shares`` of all shards, if there are several.
        """
        own = self.readers[reader]
        finished = own.synopsis.finish(partials) if partials else None
        return self._answers(own, finished, windows, shares)

    def shares(self, windows: Windows) -> Runs:
        """The totals that answers show: one run for each window and group."""
        if self.group_totals is not None:
            return self.group_totals.shares(windows)
        group = windows.group
        group = np.zeros(len(windows), np.int32) if group is None else group
        return Runs(windows.number, group, {}, {"total": self.totals.of(windows)})

    def _answers(
        self,
        reader: Reader,
        finished: Runs | None,
        windows: Windows,
        shares: Runs | None = None,
    ) -> Answers:
        runs, panes = None if finished is None else finished.ordered(windows.ranks), reader.panes
        edges = panes.start_of(windows.number), panes.end_of(windows.number)
        totals = self.totals.of(windows)
        later = self.open.waiting is not None  # small pushes, of whose answers few may be read
        if self.total and shares is None:
            shares = self.shares(windows)
        history = reader.history
        revisions = None if history is None else history.next_revisions(windows.number)
        extras = (reader.last, later, shares, revisions)
        answers = answers_of(reader.shape, runs, windows, edges, totals, *extras)
        if history is None:
            reader.last = reader.last | answers.last()
        else:
            assert isinstance(self.clock, TimeClock)
            expired = self.clock.first_correctable
            answers, reader.last = history.noted(answers, windows.number, reader.last, expired)
        reader.windows_out += len(answers)
        return answers

    def forget(self, windows: Sequence[Windows]) -> None:
        """Drop what only these windows of all readers needed.

        Groups without live rows are freed if the groups have doubled since the last time.
        """
        self._corrected = None  # all went well
        some = [own for own in windows if len(own)]
        if not some:
            return
        number = np.array([max(int(own.number[-1]) for own in some)])
        edges = self.panes.first_pane(number), self.panes.end_pane(number)
        group = None if some[0].group is None else some[0].group[-1:]
        last = Windows(number, *edges, some[0].ranks, group)
        self.totals.expire(last)
        if self.group_totals is not None:
            self.group_totals.expire(last)
        if self.groups.names:
            gone = self.groups.release_before(self.clock.oldest_pane(last))
            if len(gone) and isinstance(self.state, GroupForgetting):
                self.state.forget(gone)

    def schema(self, reader: int = 0) -> pa.Schema:
        """Columns of a reader's answers."""
        return answer_schema(self.readers[reader].shape)

    # State -------------------------------------------------------------------------------------

    def mark(self) -> tuple[Any, ...]:
        """The state that a failed push must restore; the synopsis's own comes last."""
        clock, totals = self.clock.copied(), duplicate(self.totals)
        state = None if self.admission is None else self.admission.savepoint()
        self._corrected = None
        archived = None if self.archive is None else self.archive.mark()
        return self.open.mark(), clock, self.groups.newest.copy(), totals, archived, state

    def rewind(self, mark: tuple[Any, ...]) -> None:
        """Go back to the state that ``mark`` returned."""
        pieces, self.clock, self.groups.newest, self.totals, archived, state = mark
        self.open.rewind(pieces)
        if self.archive is not None:
            self.archive.rewind(archived)
        if self._corrected is not None:
            self._begin_anew(self._corrected)
        elif state is not None:
            self.state.restore(state)

    def stats(self) -> dict[str, int | float]:
        """The synopsis's own counts, and the size of the whole state."""
        held = self.open.nbytes  # first: rows may wait there
        held += self.groups.nbytes + self.totals.runs.nbytes
        held += 0 if self.archive is None else self.archive.nbytes
        own = self.state.stats() if self.synopsis.ready else {"retained": 0, "state_bytes": 0}
        return {**own, "state_bytes": own["state_bytes"] + held}

    def snapshot(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Plain values and flat arrays."""
        arrays = prefixed("open/", self.open.state())
        arrays |= prefixed("synopsis/", self.state.snapshot())
        arrays |= prefixed("groups/", self.groups.state())
        arrays |= {"totals": np.frombuffer(self.totals.runs.pack(), np.uint8)}
        if self.archive is not None:
            arrays |= prefixed("archive/", self.archive.state())
        readers = []
        for i, reader in enumerate(self.readers):
            tables = reader.last_tables
            readers.append({"windows_out": reader.windows_out, "last": list(tables)})
            for j, table in enumerate(tables.values()):
                arrays[f"last{i}/{j}"] = table_to_array(table)
            if reader.history is not None:
                readers[-1]["history"], rows = reader.history.snapshot()
                arrays |= prefixed(f"history{i}/", rows)
        header: dict[str, Any] = {
            "clock": self.clock.state(),
            "readers": readers,
        }
        return header, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore a snapshot of the same queries, bound to the same columns."""
        if self.groups.names:
            self.groups.restore(under(arrays, "groups/"))
        self.clock.restore(header["clock"])
        self._note_blank()
        self._restore_synopsis(under(arrays, "synopsis/"))
        self.open.restore(under(arrays, "open/"))
        for runs in [*self.open.pieces, *([] if self.open.blank is None else [self.open.blank])]:
            self.synopsis.saved_runs(runs, sealed=False)
            taking = self.clock.sealed_of(runs.group)
            require((runs.stamp >= taking).all(), "an open pane that is sealed")
        if self.archive is not None:
            self.archive.restore(under(arrays, "archive/"))
            for runs in self.archive.pieces:
                in_order = runs.ordered() is runs and not runs.repeats.any()
                require(in_order, "panes that are in disorder")
                self.synopsis.saved_runs(runs)
        self.totals.restore(arrays["totals"].tobytes(), self.open)
        check_sealed(self.totals.runs.stamp, self.synopsis.bounds_of_saved)
        self.synopsis.bounds_of_saved = None
        for i, (reader, saved) in enumerate(zip(self.readers, header["readers"], strict=True)):
            reader.windows_out = whole(saved["windows_out"])
            of = saved["last"]
            require(set(of) <= set(range(self.groups.bound)), "a group that is not there")
            tables = [sound_table(arrays[f"last{i}/{j}"]) for j in range(len(of))]
            like = all(table.schema.equals(self.schema(i)) for table in tables)
            require(like, "an answer with other columns")
            reader.last = dict(zip(of, tables, strict=True))
            if reader.history is not None:
                rows = under(arrays, f"history{i}/")
                reader.history.restore(saved["history"], rows, self.schema(i))

    def _restore_synopsis(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore the state over sealed panes; all codes and panes in it must be known."""
        everyone = np.arange(self.groups.bound, dtype=np.int32)
        panes = int(np.max(self.clock.sealed_of(everyone), initial=NEVER))
        panes = max(panes, NEVER + 1)  # states without rows have panes called NEVER
        self.synopsis.bounds_of_saved = self.groups.bound, panes
        for name, array in arrays.items():
            kind = name.rpartition("/")[2]
            if kind in _CODES and array.dtype == np.int32:
                require(array.max(initial=-1) < self.groups.bound, "a group that is not there")
            elif kind in _PANES and array.dtype == np.int64:
                check_sealed(array.ravel(), self.synopsis.bounds_of_saved)
        self.state.restore(arrays)

    def without(self, gone: Sequence[int]) -> None:
        """Drop some readers; the others go on with the same synopsis."""
        kept = [i for i in range(len(self.readers)) if i not in gone]
        self.readers = [self.readers[i] for i in kept]
        self.clock.keep_readers(kept)
        if self.reader_fold is not None:
            self.reader_fold.serve([reader.query for reader in self.readers])


def _upto(runs: Runs, pane: int) -> int:
    """How many of the runs, which are in order, are of earlier panes."""
    return int(runs.stamp.searchsorted(pane))
