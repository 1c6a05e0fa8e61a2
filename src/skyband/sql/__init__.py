"""``sb.sql``: rankings written in SQL.

    sb.sql(text, flows=table)    # what sb.rank returns, with the columns of SELECT
    sb.sql.query(text)           # the query that a statement becomes

Imports ``embedded`` and the layers below it, and knows no algorithm; imported by ``spark``,
``jobs`` and ``cli``. ``sqlglot``, of the extra ``sql``, is loaded at the first call.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Any

from skyband.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.query import Query
    from skyband.sql.statement import Statement

__all__ = ["answered", "bound", "query", "sql"]


def sql(text: str, /, **sources: Any) -> pa.Table:
    '''Answer an SQL statement over a finite source; return a table with the columns of SELECT.

    Pass the table that the statement reads under its name: anything that ``sb.rank`` takes.
    docs/sql.md says what a statement may contain; anything else raises QueryError, which says where
    it stands and what is allowed.

    >>> import pyarrow as pa, skyband as sb
    >>> flows = pa.table({"ts": [1, 2, 12], "host": ["a", "b", "b"], "bytes": [5, 9, 2]})
    >>> sb.sql(
    ...     """SELECT window_end, host, bytes FROM TUMBLE(TABLE flows, DESCRIPTOR(ts), 10) QUALIFY
    ...     ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY bytes DESC) <= 1""",
    ...     flows=flows,
    ... ).to_pylist()
    [{'window_end': 10, 'host': 'b', 'bytes': 9}, {'window_end': 20, 'host': 'b', 'bytes': 2}]
    '''
    from skyband.embedded.run import rank

    statement, source = bound(text, sources)
    return answered(statement, rank(source, statement.query))


def query(text: str, /, **sources: Any) -> Query:
    """Return the query of a statement; if its table is passed, ``SELECT *`` keeps all columns."""
    from skyband.sql.statement import read_statement

    return bound(text, sources)[0].query if sources else read_statement(text).query


def bound(text: str, sources: Mapping[str, Any]) -> tuple[Statement, Any]:
    """A statement for the columns of its source, and the source to be read."""
    import pyarrow as pa

    from skyband.embedded.sources import batches_of, is_files, is_table
    from skyband.sql.statement import WHOLE, read_statement

    name = read_statement(text).table
    if list(sources) != [name]:
        raise SchemaError(f"the statement reads the table {name!r}; give {name}=..., and no other")
    source = sources[name]
    batches = batches_of(source)
    first = next(batches, None)
    if not (is_table(source) or is_files(source)):
        source = batches if first is None else chain([first], batches)
    statement = read_statement(text, None if first is None else first.column_names, True)
    if statement.query.time == WHOLE:  # all rows have the same time
        batches = batches_of(source)
        source = (each.append_column(WHOLE, pa.repeat(0, len(each))) for each in batches)
    return statement, source


def answered(statement: Statement, table: pa.Table) -> pa.Table:
    """The columns of SELECT, from those of answers."""
    table = table.select([name for name, _ in statement.columns])
    return table.rename_columns([name for _, name in statement.columns])


class SqlModule(ModuleType):
    """This module, which can be called."""

    __call__ = staticmethod(sql)
    if TYPE_CHECKING:
        query = staticmethod(query)


sys.modules[__name__].__class__ = SqlModule
