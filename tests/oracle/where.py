"""Which rows count: those that have one of the wanted values in each column of `where`.

Or those that make its text true; SQLite says whether they do.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from oracle.windows import Row

DATABASE = sqlite3.connect(":memory:", check_same_thread=False)


def counts(row: Row, where: Mapping[str, Any] | str) -> bool:
    """Does the row count? Null matches nothing; a source without the column is not filtered."""
    if isinstance(where, str):
        return is_true(where, row)
    for column, wanted in where.items():
        values = wanted if isinstance(wanted, list | tuple) else [wanted]
        if column in row and (row[column] is None or row[column] not in values):
            return False
    return True


def is_true(text: str, row: Row) -> bool:
    """Is a condition true for a row, and neither false nor unknown?"""
    columns = {n: value for n, value in row.items() if n in text}
    names = ", ".join(f"? AS `{name}`" for name in columns)
    sql = f"SELECT {text} FROM (SELECT {names})"
    (found,) = DATABASE.execute(sql, list(columns.values())).fetchone()
    return bool(found)
