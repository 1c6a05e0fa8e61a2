"""Columns that are computed from others: here, Python itself evaluates the text."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from oracle.windows import Row

FUNCTIONS = {"abs": abs, "log": math.log, "sqrt": math.sqrt}


def with_columns(row: Row, texts: Iterable[str]) -> Row:
    """The row with a column for each text that names none; a source may lack what a text needs."""
    for text in texts:
        if text not in row:
            try:
                row = row | {text: value(text, row)}
            except (NameError, SyntaxError):  # or it is the name of a column of the other source
                continue
    return row


def value(text: str, row: Row) -> Any:
    """What a text says about a row. Of one value, `min` and `max` are that value."""
    extremes = {"min": lambda *values: min(values), "max": lambda *values: max(values)}
    return eval(text, {"__builtins__": {}} | FUNCTIONS | extremes, dict(row))
