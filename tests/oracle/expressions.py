"""Columns that are computed from others: here, Python itself evaluates the text."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable
from typing import Any

from oracle.windows import Row

FUNCTIONS: dict[str, Any] = {
    "abs": abs,
    "log": math.log,
    "sqrt": math.sqrt,
    "min": lambda *values: min(values),
    "max": lambda *values: max(values),
}


def with_columns(row: Row, texts: Iterable[str]) -> Row:
    """The row with a column for each text that names none; a source may lack what a text needs."""
    for text in texts:
        if text not in row and is_expression(text, row):
            row = row | {text: value(text, row)}
    return row


def is_expression(text: str, row: Row) -> bool:
    """Is it more than a name or a number, and has the row all the columns that it names?"""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        return False
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - {*FUNCTIONS}
    return isinstance(tree.body, ast.BinOp | ast.UnaryOp | ast.Call) and names <= set(row)


def value(text: str, row: Row) -> Any:
    """What a text says about a row. Of one value, `min` and `max` are that value."""
    return eval(text, {"__builtins__": {}} | FUNCTIONS, dict(row))
