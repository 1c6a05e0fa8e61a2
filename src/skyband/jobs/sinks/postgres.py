"""A sink for PostgreSQL that holds each window once, with the newest run's rows.

Each batch is one transaction. A ledger (``skyband_runs``) lists the runs that write to a table, in
the order in which they first started, and the greatest window end that each has written:

    query            target   run     number  batch  upto
    network/busiest  busiest  4f0c…   1       371    10:20       the first run
    network/busiest  busiest  9be1…   2       12     10:05       a newer one, from a new checkpoint

A batch first deletes what older runs wrote up to its greatest window end, then adds the windows
that its run has not written yet. So corrections replace old rows, and a window that became empty
loses its rows. A batch that is retried finds its windows already written. Rows of a newer run are
never changed.

Where each group counts its own arrivals, the ends of one group say nothing of another. There a
batch replaces the windows that it has, group by group; if a newer run writes to the table, it adds
only windows that are not there.

A window that is corrected comes again with a greater ``revision``. The rows of its groups take the
place of those that this run wrote before; where a newer run has written, they are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from skyband.answers.tables import last_revisions
from skyband.errors import EngineError
from skyband.jobs.places import check_table, dsn_of
from skyband.jobs.sinks.base import NO_NUL, SIGNED, YEARS, SinkRows, SinkTarget, writable
from skyband.query.base import REVISION

_TYPES: dict[str, tuple[Any, ...]] = {
    "boolean": (pa.types.is_boolean,),
    "smallint": (pa.types.is_int8, pa.types.is_int16),
    "integer": (pa.types.is_int32,),
    "bigint": (pa.types.is_integer,),
    "real": (pa.types.is_float32,),
    "double precision": (pa.types.is_floating,),
    "numeric": (pa.types.is_decimal,),
    "date": (pa.types.is_date,),
    "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_null),
    "bytea": (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary),
}
"""PostgreSQL types and tests of Arrow types; the first test that holds decides."""


def column_type(kind: pa.DataType) -> str | None:
    """The PostgreSQL type of an answer's column."""
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    return next((name for name, tests in _TYPES.items() if any(t(kind) for t in tests)), None)


class PostgresSink:
    """Writes the batches of one query into one table."""

    refuses = (NO_NUL, SIGNED, YEARS, writable("PostgreSQL", lambda kind: bool(column_type(kind))))

    def __init__(self, target: SinkTarget) -> None:
        section, self.where = target.section, target.where
        self._psycopg = target.world.psycopg()
        self.dsn = dsn_of(target.where, section["dsn"], section["dsn_env"])
        check_table(target.where, section["table"])
        self.table = section["table"]
        own = target.query == target.job
        self.query = target.query if own else f"{target.job}/{target.query}"
        self.groups, self.by, self.revises = target.groups, target.by, target.revises
        self.run = ""

    def open(self, run: str) -> None:
        """Enter the run into the ledger, so that a wrong address shows before the job starts."""
        self.run = run
        try:
            with self._psycopg.connect(self.dsn) as connection, connection.cursor() as cursor:
                self._lock(cursor)
                self._register(cursor)
        except self._psycopg.Error as problem:
            raise EngineError(
                f"{self.where} PostgreSQL cannot be reached; check dsn or dsn_env: {problem}"
            ) from problem

    def write(self, batch: int, rows: SinkRows) -> None:
        """Write the rows of whole windows, all or nothing."""
        if rows:
            self.write_tables(batch, list(rows.tables()))

    def write_tables(self, batch: int, tables: list[pa.Table]) -> int:
        """Write rows of whole windows; returns how many were new."""
        from psycopg import sql

        windows = pa.concat_tables(tables)
        windows = last_revisions(windows) if self.revises and windows.num_rows else windows
        if not windows.num_rows:
            return 0
        table = sql.Identifier(*self.table.split("."))
        ends = _ticks(windows["window_end"])
        with self._psycopg.connect(self.dsn) as connection, connection.cursor() as cursor:
            self._lock(cursor)
            own, newer = self._register(cursor)
            self._create(cursor, table, windows.schema)
            upto = pa.compute.max(ends).as_py()
            if self.groups:
                fresh = windows
                self._replace(cursor, table, windows, self.groups, newer is None)
            else:
                first = max((end for end in (own, newer) if end is not None), default=None)
                fresh = (
                    windows if first is None else windows.filter(pa.compute.greater(ends, first))
                )
                if self.revises and own is not None:
                    mine = pa.compute.less_equal(ends, own)
                    if newer is not None:
                        mine = pa.compute.and_(mine, pa.compute.greater(ends, newer))
                    self._replace(cursor, table, windows.filter(mine), self.by)
                if not fresh.num_rows:
                    return 0
                self._remove(cursor, table, first, upto, windows.schema.field("window_end").type)
                _copy(cursor, table, fresh)
            cursor.execute(
                "UPDATE skyband_runs SET batch = %s, upto = %s "
                "WHERE query = %s AND target = %s AND run = %s",
                [batch, upto, self.query, self.table, self.run],
            )
        return int(fresh.num_rows)

    def _lock(self, cursor: Any) -> None:
        # Naive times count as UTC everywhere. The locks allow one writer per table at a time.
        cursor.execute("SET LOCAL TIME ZONE 'UTC'")
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('skyband_runs'))")
        cursor.execute(
            "CREATE TABLE IF NOT EXISTS skyband_runs (query text, target text, run text, "
            "number bigint, batch bigint, upto bigint, PRIMARY KEY (query, target, run))"
        )
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [self.table])

    def _register(self, cursor: Any) -> tuple[int | None, int | None]:
        """The greatest window end that this run has written, and the greatest of newer runs."""
        cursor.execute(
            "SELECT query, run, number, upto FROM skyband_runs WHERE target = %s", [self.table]
        )
        known = cursor.fetchall()
        others = sorted({query for query, *_ in known if query != self.query})
        if others:
            raise EngineError(
                f"{self.where} the table {self.table!r} is written by the job {others[0]!r}; give "
                f"this job ({self.query!r}) another table, or delete the rows of {others[0]!r} "
                "from skyband_runs"
            )
        mine = [(number, upto) for _, run, number, upto in known if run == self.run]
        if not mine:
            number = max((number for _, _, number, _ in known), default=0) + 1
            cursor.execute(
                "INSERT INTO skyband_runs VALUES (%s, %s, %s, %s, NULL, NULL)",
                [self.query, self.table, self.run, number],
            )
            return None, None
        ((number, own),) = mine
        newer = [upto for _, _, other, upto in known if other > number and upto is not None]
        return own, max(newer, default=None)

    def _create(self, cursor: Any, table: Any, schema: pa.Schema) -> None:
        from psycopg import sql

        columns = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(f.name), sql.SQL(column_type(f.type) or "text"))
            for f in schema
        )
        cursor.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(table, columns))

    def _remove(self, cursor: Any, table: Any, after: int | None, upto: int, kind: Any) -> None:
        """Delete what older runs wrote between two ends; this run has no rows there yet."""
        from psycopg import sql

        text, ends = "DELETE FROM {} WHERE window_end <= %s", [_moment(upto, kind)]
        if after is not None:
            text, ends = f"{text} AND window_end > %s", [*ends, _moment(after, kind)]
        cursor.execute(sql.SQL(text).format(table), ends)

    def _replace(
        self, cursor: Any, table: Any, rows: pa.Table, groups: Sequence[str], newest: bool = True
    ) -> None:
        """Write windows of groups: in place of what is there, or only where nothing is.

        What is there in a greater revision stays.
        """
        from psycopg import sql

        if not rows.num_rows:
            return

        fresh = sql.Identifier("skyband_fresh")
        cursor.execute(
            sql.SQL("CREATE TEMP TABLE {} (LIKE {}) ON COMMIT DROP").format(fresh, table)
        )
        _copy(cursor, fresh, rows)
        # Ends are cheap to compare. Groups as text can be hashed, and their nulls are equal.
        there, here = (
            sql.SQL("ROW({})::text").format(
                sql.SQL(", ").join(sql.Identifier(of, name) for name in groups)
            )
            for of in ("there", "here")
        )
        same = sql.SQL("there.window_end = here.window_end AND {} = {}").format(there, here)
        if newest:
            text = "DELETE FROM {} there USING {} here WHERE {}"
            if self.revises:
                text += f" AND there.{REVISION} <= here.{REVISION}"
            cursor.execute(sql.SQL(text).format(table, fresh, same))
        text = (
            "INSERT INTO {table} ({columns}) SELECT {columns} FROM {fresh} here "
            "WHERE NOT EXISTS (SELECT FROM {table} there WHERE {same})"
        )
        columns = sql.SQL(", ").join(map(sql.Identifier, rows.column_names))
        cursor.execute(sql.SQL(text).format(table=table, fresh=fresh, columns=columns, same=same))


def _copy(cursor: Any, table: Any, rows: pa.Table) -> None:
    """Add rows to a table."""
    from psycopg import sql

    names = sql.SQL(", ").join(map(sql.Identifier, rows.column_names))
    with cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(table, names)) as copy:
        columns = [column.to_pylist() for column in rows.columns]
        for row in zip(*columns, strict=True):
            copy.write_row(row)


def _ticks(ends: pa.ChunkedArray) -> pa.ChunkedArray:
    """Window ends as integers, times in microseconds."""
    if pa.types.is_timestamp(ends.type):
        ends = ends.cast(pa.timestamp("us", tz=ends.type.tz))
    return ends.cast(pa.int64())


def _moment(ticks: int, kind: pa.DataType) -> Any:
    if not pa.types.is_timestamp(kind):
        return ticks
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ticks)
    return moment if kind.tz else moment.replace(tzinfo=None)
