"""Which rows count: those that have one of the wanted values in each column of `where`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oracle.windows import Row


def counts(row: Row, where: Mapping[str, Any]) -> bool:
    """Does the row count? Null matches nothing; a source without the column is not filtered."""
    for column, wanted in where.items():
        values = wanted if isinstance(wanted, list | tuple) else [wanted]
        if column in row and (row[column] is None or row[column] not in values):
            return False
    return True
