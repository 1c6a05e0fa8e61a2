"""A board session: one session per query, which read the same batches and change together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from skyband.answers.answer import Answers
from skyband.contract.runs import Runs
from skyband.data.memo import one_batch
from skyband.engine.chunks import as_table, chunks_of
from skyband.engine.clocks import TimeClock
from skyband.engine.moves import Move, make_moves
from skyband.engine.session import ONLY, Session
from skyband.engine.sharing import Family, families
from skyband.engine.small_pushes import SmallPushes
from skyband.engine.time_limits import RowLimits
from skyband.engine.unions import Union
from skyband.errors import SchemaError
from skyband.query.base import Query
from skyband.window import CountWindow

__all__ = ["BoardSession"]

Name = str | None
Moves = Iterable[tuple[Name, Move | None]]


class BoardSession:
    """Sessions by name. A query that stands alone is a board of one, under the name None.

    An error in one session leaves all of them unchanged.
    """

    def __init__(self, sessions: Mapping[Name, Session], apart: Collection[Name] = ()) -> None:
        """``apart`` are queries that share with no other, as they joined a running board."""
        self.sessions = dict(sessions)
        for name, session in self.sessions.items():
            session.name = name
        together = {name: query for name, query in self.queries.items() if name not in apart}
        self._families = {
            names[0]: Family([self.sessions[name] for name in names])
            for names in families(together)
        }
        """Queries that share their summaries, under the name of the first."""
        self._leader = {
            session.name: first
            for first, each in self._families.items()
            for session in each.sessions
        }
        self.rows_in = 0
        """Rows read; each once, however many queries read it."""

    @property
    def alone(self) -> bool:
        """Whether this is one query without a name."""
        return None in self.sessions

    @property
    def queries(self) -> dict[Name, Query]:
        """The queries by name."""
        return {name: session.query for name, session in self.sessions.items()}

    # Sources -----------------------------------------------------------------------------------

    def check_sources(self, names: Iterable[str] | None, whole: bool = True) -> None:
        """Raise SchemaError if the queries cannot read these sources; None is a single source."""
        given = None if names is None else list(names)
        for session in self.sessions.values():
            with session.named():
                session.query.check_sources(self._own(session, given), whole)
        if given is None or self.alone:
            return
        read = {source for session in self.sessions.values() for source in session.query.sources}
        for name in given:
            if name not in read:
                known = ", ".join(sorted(read))
                raise SchemaError(f"no query of the board reads source {name!r}; they read {known}")

    def _own(self, session: Session, given: list[str] | None) -> list[str] | None:
        """Those of the given sources that a session reads."""
        if given is None or self.alone or not session.query.sources:
            return given
        return [name for name in given if name in session.query.sources]

    def by_query(self, data: Any) -> dict[Name, Any]:
        """The part of a batch, or of a mapping from source to batch, that each query reads."""
        if not isinstance(data, Mapping):
            return dict.fromkeys(self.sessions, data)
        self.check_sources(data, whole=False)
        found: dict[Name, Any] = {}
        for name, session in self.sessions.items():
            own = self._own(session, list(data))
            if own or self.alone:
                found[name] = {source: data[source] for source in own or ()}
        return found

    def in_turn(self, sources: Iterable[str]) -> list[str]:
        """The sources in the order to read them: those without a time yet, then the least time."""
        seen: dict[str, int] = {}
        for session in self.sessions.values():
            for source, time in ({} if session.fold is None else session.fold.time.seen).items():
                if time is not None:
                    seen[source] = max(time, seen.get(source, time))
        return sorted(sources, key=lambda name: (name in seen, seen.get(name, 0)))

    # Rows --------------------------------------------------------------------------------------

    def push(self, data: Any) -> list[Answers]:
        """Take a batch, or a mapping from source to batch; return the answers, query by query."""
        ready = all(family.ready for family in self._families.values())
        short = [session.small for session in self.sessions.values()] if ready else []
        if short and all(short) and not isinstance(data, Mapping):
            if not isinstance(data, (pa.Table, pa.RecordBatch)):
                data = as_table(data)
            found = self._push_small(data, [each for each in short if each is not None])
            if found is not None:
                return found
        return self.push_each(self.by_query(data))

    def _push_small(
        self, data: pa.Table | pa.RecordBatch, short: list[SmallPushes]
    ) -> list[Answers] | None:
        """Push a few rows the short way; None if a query cannot take it."""
        rows = 0
        for each in short:
            rows = each.fits(data)
            if not rows:
                return None
        ending = [each for each in short if each.ends()]
        answers = None
        if not ending:
            for each in short:
                each.keep(rows)
        elif self.alone:
            answers = ending[0].end(rows)
        else:
            return None
        self.rows_in += rows
        return [answers] if answers is not None and len(answers) else []

    def push_each(self, batches: Mapping[Name, Any]) -> list[Answers]:
        """Like ``push``, with a batch for each query, which must all hold the same rows."""
        tables = _Tables(self.needed if len(self.sessions) > 1 else None)
        given = {name: tables.of(data) for name, data in batches.items()}
        with one_batch() if len(self.sessions) > 1 else nullcontext():
            found = self._moved(partial(self._pushing, given))
        self.rows_in += sum(tables.rows.values())
        return found

    def needed(self, source: str, schema: pa.Schema) -> set[str]:
        """The columns that the queries need of a source; all if one of them finds some missing."""
        readers = [s for s in self.sessions.values() if source in (s.query.sources or (ONLY,))]
        each = [session.needed(source, schema) for session in readers]
        return {name for names in each for name in (schema.names if names is None else names)}

    def _pushing(self, given: Mapping[Name, Any]) -> Moves:
        """Read the batch of each query; those of a family that have the same one read it once."""
        for name, data in given.items():
            first = self._leader.get(name)
            if first is None or isinstance(data, Mapping) or not self._same(first, given):
                if first is not None:
                    self._families[first].part()
                with self.sessions[name].named():
                    yield name, self.sessions[name].pushing(data)
            elif name == first:
                family = self._families[first]
                for session, move in zip(family.sessions, family.pushing(data), strict=True):
                    yield session.name, move

    def _same(self, first: Name, given: Mapping[Name, Any]) -> bool:
        """Whether all queries of a family were given the same batch."""
        names = [session.name for session in self._families[first].sessions]
        return all(given.get(name) is given.get(first) for name in names)

    def end(self, source: str) -> list[Answers]:
        """One of several sources is exhausted, so it no longer holds the watermark back."""
        waiting = self._waiting(source)
        return self._moved(lambda: ((name, s.ending(source)) for name, s in waiting.items()))

    def awaits(self, source: str) -> bool:
        """Whether a source still holds back a watermark."""
        return bool(self._waiting(source))

    def _waiting(self, source: str) -> dict[Name, Session]:
        return {
            name: session
            for name, session in self.sessions.items()
            if session.fold is not None
            and source in session.fold.time.seen
            and source not in session.fold.time.ignored
        }

    def flush(self) -> list[Answers]:
        """End the stream: answer all windows up to the first window end after the last row."""
        for family in self._families.values():
            family.settle()
        return self._moved(lambda: ((name, s.flushing()) for name, s in self.sessions.items()))

    def limit(self, limits: Mapping[str, RowLimits], clock: float) -> None:
        """What a job takes of the rows that are pushed next; see ``Intake.limit``.

        Queries that share their summaries must have the same limits.
        """
        for name, each in limits.items():
            self.sessions[None if self.alone else name].intake.limit(each, clock)

    def refuse_bad(self, table: pa.Table) -> None:
        """Raise DataError if a table has bad rows; row numbers are those of the table."""
        for session in self.sessions.values():
            if session.on_bad == "raise":
                with session.named():
                    if not session.bound:  # because the first batch was refused
                        session.bind(ONLY, table.schema)
                    session.refuse_bad(table)

    def find_reasons(self, table: pa.Table) -> None:
        """Say why the first row was left out by its row number in the whole table of all rows."""
        for session in self.sessions.values():
            faults = session.intake.faults(ONLY, table) if session.rows["rows_bad"] else None
            session.reason = session.reason if faults is None else faults.reasons[0]

    def _moved(self, plan: Callable[[], Moves]) -> list[Answers]:
        """Make the moves of a plan, all or none; return the answers in the order of the board."""
        new = [(each, dict(each.bound)) for each in self.sessions.values() if each.fold is None]
        try:
            planned = dict(plan())
            moves = {n: planned[n] for n in self.sessions if planned.get(n) is not None}
            found = make_moves([move for move in moves.values() if move is not None])
        except BaseException:
            for session, known in new:
                session.reset(known)
            raise
        pairs = zip(moves, found, strict=True)
        return [
            answers if name is None else replace(answers, name=name)
            for name, answers in pairs
            if answers is not None and len(answers)
        ]

    def join(self, name: Name) -> int | None:
        """Let a query that has read nothing join those that run already.

        It begins with the first window that starts at or after the greatest time that they have
        seen in the same column; the start of that window is returned. None if there is no such
        time: it then begins with the next rows.
        """
        session = self.sessions[name]
        session.joined = True
        query = session.query
        if isinstance(query.window, CountWindow):
            return None
        seen = [
            time
            for other in self.sessions.values()
            if other.fold is not None and not other.fold.counting
            for source, time in other.fold.time.seen.items()
            if time is not None
            and source in (query.sources or (ONLY,))
            and other.query.time_of(source or None) == query.time_of(source or None)
        ]
        if not seen:
            return None
        session.joins = max(seen)
        clock = TimeClock(query.window.panes, 0, ())
        return int(query.window.panes.start_of(clock.join(session.joins)))

    def restart(self) -> None:
        """Forget all rows and columns, to read the sources again from their beginning."""
        for session in self.sessions.values():
            session.restart()
        for first, family in self._families.items():  # its queries may have parted
            self._families[first] = Family(family.sessions)
        self.rows_in = 0

    # State -------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """The counts of each query under its name, and what they have in common."""
        each = {name: session.stats() for name, session in self.sessions.items()}
        if self.alone:
            return dict(each[None])
        for union in self._unions:
            each[union.names[0]]["state_bytes"] += union.nbytes
        added = ("windows_out", "retained", "state_bytes")
        common = {name: sum(stats[name] for stats in each.values()) for name in added}
        return {"rows_in": self.rows_in, **common, **{str(n): stats for n, stats in each.items()}}

    @property
    def _unions(self) -> list[Union]:
        return [union for each in self._families.values() for union in each.unions]

    def partings(self) -> tuple[int, int]:
        """How often queries that keep one state parted, and how often they came together again."""
        found = self._unions
        return sum(union.parted for union in found), sum(union.joined for union in found)

    def kept_together(self) -> list[tuple[list[str], Runs]]:
        """What queries keep together whose state takes a feed, and their names, for a snapshot."""
        return [
            ([str(name) for name in union.names], found[union.places[0]])
            for each in self._families.values()
            if (found := each.kept_together())
            for union in each.fed
            if union.places[0] in found
        ]

    def keep_together(self, names: Collection[str], runs: Runs) -> None:
        """Let queries go on with what they kept together, if those that are left still do."""
        for each in self._families.values():
            for union in each.fed:
                if set(union.names) <= set(names):
                    each.saved[union.places[0]] = runs

    def check(self) -> None:
        """Assert every invariant; only tests call it."""
        for session in self.sessions.values():
            session.check()


class _Tables:
    """Batches as tables, each converted once, and the rows read from each source.

    ``needed`` tells which columns to keep; None keeps all.
    """

    def __init__(self, needed: Callable[[str, pa.Schema], set[str]] | None) -> None:
        self.needed = needed
        self.rows: dict[str, int] = {}
        self._made: dict[int, pa.Table] = {}

    def of(self, data: Any) -> Any:
        """A table, or a mapping from source to table."""
        if isinstance(data, Mapping):
            return {source: self._table(source, batch) for source, batch in data.items()}
        return self._table(ONLY, data)

    def _table(self, source: str, batch: Any) -> pa.Table:
        table = self._made.get(id(batch))
        if table is None:
            table = as_table(batch)
            if self.needed is not None and any(c.num_chunks > 1 for c in table.columns):
                # Each query would join small pieces of its columns again.
                wanted = self.needed(source, table.schema)
                kept = [i for i, name in enumerate(table.column_names) if name in wanted]
                table = pa.Table.from_batches(chunks_of(table.select(kept)))
            self._made[id(batch)] = table
        self.rows[source] = max(table.num_rows, self.rows.get(source, 0))
        return table
