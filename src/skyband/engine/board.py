"""A board: sessions that read the same batches and change together, and the queries they answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from skyband.answers.answer import Answers, Position
from skyband.data.columns import as_table, chunks_of
from skyband.data.memo import one_batch
from skyband.engine.intake import RowLimits
from skyband.engine.peek import peek, position
from skyband.engine.session import ONLY, LateRows, Name, Session, Transaction, commit
from skyband.errors import SchemaError
from skyband.query.base import Query

Plan = Iterable[Transaction | None]
OnLate = Callable[[pa.Table, Sequence[LateRows]], None]
"""Takes a table that was pushed, and which of its rows were late."""


class BoardSession:
    """Sessions, one for each fold. A query that stands alone is a board of one.

    An error in one session leaves all of them unchanged.
    """

    def __init__(self, sessions: Sequence[Session], names: Sequence[Name] = ()) -> None:
        """``names`` are all queries in the order of the board; by default, session by session."""
        self.sessions = list(sessions)
        self._owner = {name: session for session in self.sessions for name in session.queries}
        self._names: list[Name] = list(names or self._owner)
        self.rows_in = 0
        """Rows read; each once, however many queries read it."""
        self._on_late: OnLate | None = None

    def tell_late(self, on_late: OnLate | None) -> None:
        """Call this with the late rows of each push, before it changes anything.

        It gets the table of a source as it was pushed and, for each fold that left some of its
        rows out, which they are and why. If it raises, the push has not happened.
        """
        self._on_late = on_late
        for session in self.sessions:
            session.late_is_kept = on_late is not None

    def _told_late(self, parts: Sequence[Any]) -> None:
        late: dict[str, list[LateRows]] = {}
        tables: dict[str, Any] = {}
        for session, part in zip(self.sessions, parts, strict=True):
            for each in session.late if part is not None else ():
                late.setdefault(each.source, []).append(each)
                tables[each.source] = part[each.source] if isinstance(part, Mapping) else part
        for source, rows in late.items():
            assert self._on_late is not None
            self._on_late(as_table(tables[source]), rows)

    @property
    def alone(self) -> bool:
        """Whether this is one query without a name."""
        return None in self._owner

    @property
    def queries(self) -> dict[Name, Query]:
        """The queries by name."""
        return {name: self._owner[name].queries[name] for name in self._names}

    def session_of(self, name: Name) -> Session:
        """The session that answers a query."""
        return self._owner[name]

    def schema(self, name: Name) -> pa.Schema:
        """Columns of a query's answers."""
        return self._owner[name].schema(name)

    # Sources -----------------------------------------------------------------------------------

    def check_sources(self, names: Iterable[str] | None, whole: bool = True) -> None:
        """Raise SchemaError if the queries cannot read these sources; None is a single source."""
        given = None if names is None else list(names)
        for session in self.sessions:
            with session.named():
                session.query.check_sources(self._own(session, given), whole)
        if given is None or self.alone:
            return
        read = {source for session in self.sessions for source in session.query.sources}
        for name in given:
            if name not in read:
                known = ", ".join(sorted(read))
                raise SchemaError(f"no query of the board reads source {name!r}; they read {known}")

    def _own(self, session: Session, given: list[str] | None) -> list[str] | None:
        """Those of the given sources that a session reads."""
        if given is None or self.alone or not session.query.sources:
            return given
        return [name for name in given if name in session.query.sources]

    def _by_session(self, data: Any) -> list[Any]:
        """The part of a batch, or of a mapping from source to batch, that each session reads."""
        if not isinstance(data, Mapping):
            return [data] * len(self.sessions)
        self.check_sources(data, whole=False)
        parts: list[Any] = []
        for session in self.sessions:
            own = self._own(session, list(data))
            parts.append({source: data[source] for source in own or ()})
            if not own and not self.alone:
                parts[-1] = None
        return parts

    def in_turn(self, sources: Iterable[str]) -> list[str]:
        """The sources in the order to read them: those without a time yet, then the least time."""
        seen = self.seen
        return sorted(sources, key=lambda name: (name in seen, seen.get(name, 0)))

    @property
    def seen(self) -> dict[str, int]:
        """The greatest time of each source that has one, in ticks."""
        seen: dict[str, int] = {}
        for session in self.sessions:
            for source, time in ({} if session.fold is None else session.fold.clock.seen).items():
                if time is not None:
                    seen[source] = max(time, seen.get(source, time))
        return seen

    # Rows --------------------------------------------------------------------------------------

    def push(self, data: Any) -> list[Answers]:
        """Take a batch, or a mapping from source to batch; return the answers, query by query."""
        buffers = [session.buffer for session in self.sessions]
        if all(buffers) and not isinstance(data, Mapping):
            if not isinstance(data, (pa.Table, pa.RecordBatch)):
                data = as_table(data)
            if all(each is not None and each.fits(data) for each in buffers):
                for each in buffers:
                    if each is not None:
                        each.keep(data.num_rows)
                self.rows_in += data.num_rows
                return []
        return self._push(self._by_session(data))

    def push_each(self, batches: Mapping[Name, Any]) -> list[Answers]:
        """Like ``push``, with a batch for each query, which must all hold the same rows."""
        given = [next((batches[n] for n in s.queries if n in batches), None) for s in self.sessions]
        return self._push(given)

    def _push(self, parts: Sequence[Any]) -> list[Answers]:
        tables = _Tables(self.needed if len(self.sessions) > 1 else None)
        given = [None if part is None else tables.of(part) for part in parts]
        with one_batch() if len(self.sessions) > 1 else nullcontext():
            on_late = None if self._on_late is None else partial(self._told_late, parts)
            answers = self._carry_out(partial(self._pushing, given), on_late)
        self.rows_in += sum(tables.rows.values())
        return answers

    def needed(self, source: str, schema: pa.Schema) -> set[str]:
        """The columns that the queries need of a source; all if one of them finds some missing."""
        readers = [s for s in self.sessions if source in (s.query.sources or (ONLY,))]
        each = [session.needed(source, schema) for session in readers]
        return {name for names in each for name in (schema.names if names is None else names)}

    def _pushing(self, given: Sequence[Any]) -> Plan:
        pairs = zip(self.sessions, given, strict=True)
        return [session.pushing(data) for session, data in pairs if data is not None]

    def end(self, source: str) -> list[Answers]:
        """One of several sources is exhausted, so it no longer holds the watermark back."""
        held = self._held_by(source)
        return self._carry_out(lambda: (session.ending(source) for session in held))

    def awaits(self, source: str) -> bool:
        """Whether a source still holds back a watermark."""
        return bool(self._held_by(source))

    def _held_by(self, source: str) -> list[Session]:
        return [
            session
            for session in self.sessions
            if session.fold is not None
            and source in session.fold.clock.seen
            and source not in session.fold.clock.ignored
        ]

    def flush(self) -> list[Answers]:
        """End the stream: answer all windows up to the first that ends after the last row."""
        return self._carry_out(lambda: (session.flushing() for session in self.sessions))

    def limit(self, limits: Mapping[str, RowLimits], clock: float) -> None:
        """What a job takes of the rows that are pushed next; see ``Intake.limit``.

        The readers of a fold must have the same limits.
        """
        for name, each in limits.items():
            self._owner[None if self.alone else name].intake.limit(each, clock)

    def refuse_bad(self, table: pa.Table) -> None:
        """Raise DataError if a table has bad rows; row numbers are those of the table."""
        for session in self.sessions:
            if session.on_bad == "raise":
                with session.named():
                    if not session.bound:  # because the first batch was refused
                        session.bind(ONLY, table.schema)
                    session.intake.refuse_bad(ONLY, table)

    def find_reasons(self, table: pa.Table) -> None:
        """Say why the first row was left out by its row number in the whole table of all rows."""
        for session in self.sessions:
            faults = session.intake.take(ONLY, table).faults if session.rows["rows_bad"] else None
            session.reason = session.reason if faults is None else faults.reasons[0]

    def _carry_out(
        self, plan: Callable[[], Plan], begun: Callable[[], None] | None = None
    ) -> list[Answers]:
        """Make all changes of a plan, or none; the answers in the order of the board."""
        new = [(each, dict(each.bound)) for each in self.sessions if each.fold is None]
        try:
            transactions = [each for each in plan() if each is not None]
            committed = commit(transactions, begun)
        except BaseException:
            for session, known in new:
                session.reset(known)
            raise
        answers: dict[Name, Answers] = {}
        for transaction, of_readers in zip(transactions, committed, strict=True):
            for name, own in zip(transaction.session.queries, of_readers, strict=False):
                if own is not None and len(own):
                    answers[name] = own if name is None else replace(own, name=name)
        return [answers[name] for name in self._names if name in answers]

    # Between windows ---------------------------------------------------------------------------

    def peek(self, name: Name, last: int | None) -> Answers:
        """What a query answers as of now, over sealed panes; over the last ``last`` ticks only."""
        session = self._owner[name]
        with session.named():
            return replace(peek(session.fold, session.place_of(name), last), name=name)

    def position(self, name: Name, id_: Any, group: Any) -> Position | None:
        """Where an id stands as of now, over sealed panes; None if it is not live."""
        session = self._owner[name]
        return position(session.fold, session.place_of(name), id_, group)

    # Queries that come and go ------------------------------------------------------------------

    def join(self, session: Session) -> int | None:
        """Let a session that has read nothing join those that run already.

        It begins with the first window that starts at or after the greatest time that they have
        seen in the same column; the start of that window is returned. None if there is no such
        time: it then begins with the next rows.
        """
        session.joined = True
        query, panes = session.query, session.query.window.panes
        seen = [
            time
            for other in self.sessions
            if other.fold is not None
            for source, time in other.fold.clock.seen.items()
            if time is not None
            and source in (query.sources or (ONLY,))
            and other.query.time_of(source or None) == query.time_of(source or None)
            and (other.query.time_format, other.query.time_unit)
            == (query.time_format, query.time_unit)
        ]
        first = panes.first_window_from(max(seen)) if seen else None
        if first is None:
            return None
        session.joins = max(seen)
        return int(panes.start_of(first))

    def restart(self) -> None:
        """Forget all rows and columns, to read the sources again from their beginning."""
        for session in self.sessions:
            session.restart()
        self.rows_in = 0

    # State -------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """The counts of each query under its name, and what they have in common."""
        each = {name: self._owner[name].stats(name) for name in self._names}
        if self.alone:
            return dict(each[None])
        added = ("windows_out", "retained", "state_bytes")
        common = {name: sum(stats[name] for stats in each.values()) for name in added}
        return {"rows_in": self.rows_in, **common, **{str(n): stats for n, stats in each.items()}}

    def check(self) -> None:
        """Assert every invariant; only tests call it."""
        for session in self.sessions:
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
