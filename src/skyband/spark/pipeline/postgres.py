"""A sink for PostgreSQL that takes each window once, however often a batch is tried.

One transaction a batch. A ledger remembers which batch brought a window: the same batch again is
skipped, another one (a new checkpoint over old data) replaces the window's rows.
"""

from __future__ import annotations

import os
import re
from typing import Any

import pyarrow as pa

from skyband.errors import EngineError, QueryError

__all__ = ["Postgres", "column_type"]

_TYPES: list[tuple[Any, str]] = [
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "smallint"),
    (pa.types.is_int16, "smallint"),
    (pa.types.is_int32, "integer"),
    (pa.types.is_integer, "bigint"),
    (pa.types.is_float32, "real"),
    (pa.types.is_floating, "double precision"),
    (pa.types.is_decimal, "numeric"),
    (pa.types.is_date, "date"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
    (pa.types.is_binary, "bytea"),
    (pa.types.is_large_binary, "bytea"),
]


def column_type(kind: pa.DataType) -> str:
    """The PostgreSQL type of an answer's column."""
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    for test, name in _TYPES:
        if test(kind):
            return name
    raise EngineError(
        f"a column of type {kind} has no counterpart in PostgreSQL; leave it out with columns="
    )


class Postgres:
    """Writes the batches of one query; called by ``foreachBatch``."""

    def __init__(self, dsn: str | None, dsn_env: str | None, table: str, name: str) -> None:
        try:
            import psycopg
        except ImportError as problem:
            raise EngineError(
                "the PostgreSQL sink needs psycopg: pip install 'skyband[postgres]'"
            ) from problem
        self._connect = psycopg.connect
        if (dsn is None) == (dsn_env is None):
            raise QueryError("[sink] give either dsn, or dsn_env (the variable that holds it)")
        if dsn_env is not None and dsn_env not in os.environ:
            raise QueryError(f"[sink] the environment has no variable {dsn_env!r}")
        self.dsn = os.environ[dsn_env] if dsn_env is not None else dsn or ""
        if not re.fullmatch(r"[A-Za-z_][\w.]*", table):
            raise QueryError(f"[sink] table must be a plain name, not {table!r}")
        self.table = table
        self.name = name

    def check(self) -> None:
        """Connect once, so that a wrong address is told before the job starts."""
        import psycopg

        try:
            with self._connect(self.dsn):
                pass
        except psycopg.Error as problem:
            raise EngineError(f"[sink] PostgreSQL cannot be reached: {problem}") from problem

    def __call__(self, frame: Any, batch: int) -> None:
        """Write one batch, all of it or nothing."""
        self.write(frame.toArrow(), batch)

    def write(self, rows: pa.Table, batch: int) -> int:
        """Write rows of whole windows; returns how many were new."""
        from psycopg import sql

        if not rows.num_rows:
            return 0
        table = sql.Identifier(*self.table.split("."))
        with self._connect(self.dsn) as connection, connection.cursor() as cursor:
            self._prepare(cursor, sql, table, rows.schema)
            fresh = set()
            for end in rows["window_end"].unique().to_pylist():
                if self._is_fresh(cursor, sql, table, str(end), end, batch):
                    fresh.add(end)
            names = sql.SQL(", ").join(sql.Identifier(name) for name in rows.column_names)
            into = sql.SQL("COPY {} ({}) FROM STDIN").format(table, names)
            taken = 0
            with cursor.copy(into) as copy:
                ends = rows["window_end"].to_pylist()
                columns = [column.to_pylist() for column in rows.columns]
                for end, row in zip(ends, zip(*columns, strict=True), strict=True):
                    if end in fresh:
                        copy.write_row(row)
                        taken += 1
        return taken

    def _prepare(self, cursor: Any, sql: Any, table: Any, schema: pa.Schema) -> None:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [self.table])
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(f.name), sql.SQL(column_type(f.type)))
            for f in schema
        )
        cursor.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(table, columns))
        cursor.execute(
            "CREATE TABLE IF NOT EXISTS skyband_windows (query text, target text, "
            "window_end text, batch bigint, PRIMARY KEY (query, target, window_end))"
        )

    def _is_fresh(self, cursor: Any, sql: Any, table: Any, text: str, end: Any, batch: int) -> bool:
        key = [self.name, self.table, text]
        cursor.execute(
            "SELECT batch FROM skyband_windows "
            "WHERE query = %s AND target = %s AND window_end = %s",
            key,
        )
        found = cursor.fetchone()
        if found is not None and found[0] == batch:
            return False
        if found is not None:
            gone = sql.SQL("DELETE FROM {} WHERE window_end = %s").format(table)
            cursor.execute(gone, [end])
        cursor.execute(
            "INSERT INTO skyband_windows VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (query, target, window_end) DO UPDATE SET batch = excluded.batch",
            [*key, batch],
        )
        return True
