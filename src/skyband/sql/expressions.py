"""From expressions of SQL to those of Skyband, as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skyband.errors import QueryError
from skyband.query.expressions import columns_of, parse, parse_condition
from skyband.sql.text import SqlText

_SIGNS = {
    "Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "EQ": "=", "NEQ": "!=",
    "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=", "And": "and", "Or": "or",
}  # fmt: skip
_FUNCTIONS = {"Abs": "abs", "Ln": "log", "Sqrt": "sqrt"}
_POSSIBLE = (
    "allowed are columns, numbers, strings (also for times), + - * /, ABS, SQRT, LN (the natural "
    "logarithm), and in a condition = <> < <= > >=, BETWEEN, IN, IS NULL, AND, OR and NOT"
)


@dataclass(frozen=True)
class Scalar:
    """A value of each row: an expression over columns, or one column."""

    text: str
    column: str | None = None

    @property
    def inside(self) -> str:
        """As a part of a larger expression."""
        if self.column is None:
            return f"({self.text})"
        plain = re.fullmatch(r"[^\W\d]\w*", self.column)
        word = self.column.lower() in ("and", "or", "not", "in", "is", "true", "false", "null")
        return self.column if plain and not word else f"`{self.column}`"


class Translator:
    """Writes expressions of a statement in Skyband's words; ``scope`` resolves columns."""

    def __init__(self, text: SqlText, scope: Callable[[Any], Scalar]) -> None:
        self.text = text
        self.scope = scope

    def scalar(self, node: Any) -> Scalar:
        """An arithmetic expression."""
        while type(node).__name__ == "Paren":
            node = node.this
        if type(node).__name__ == "Column":
            return self.scope(node)
        found = self._checked(node, parse)
        if not columns_of(parse(found)):
            raise self.text.problem(node, "a constant cannot rank rows; name a column")
        return Scalar(found)

    def condition(self, node: Any) -> str:
        """A condition, as ``where`` takes it."""
        return self._checked(node, parse_condition)

    def _checked(self, node: Any, parse: Callable[[str], Any]) -> str:
        written = self._written(node)
        try:
            parse(written)
        except QueryError as problem:
            raise self.text.problem(node, f"{problem}; {_POSSIBLE}") from None
        return written

    def _written(self, node: Any) -> str:
        kind = type(node).__name__
        if kind == "Column":
            return self.scope(node).inside
        if kind == "Literal" and node.is_string:
            return "'" + str(node.this).replace("'", "''") + "'"
        if kind in ("Literal", "Boolean"):
            return str(node.this).lower()
        if kind == "Paren":
            return f"({self._written(node.this)})"
        if kind in ("Neg", "Not"):
            return f"{'-' if kind == 'Neg' else 'not '}{self._written(node.this)}"
        if kind in _SIGNS:
            return f"{self._written(node.this)} {_SIGNS[kind]} {self._written(node.expression)}"
        if kind in _FUNCTIONS:
            return f"{_FUNCTIONS[kind]}({self._written(node.this)})"
        if kind == "Between" and not node.args.get("symmetric"):
            value, low, high = (self._written(node.args[n]) for n in ("this", "low", "high"))
            return f"({value} >= {low} and {value} <= {high})"
        if kind == "Is" and type(node.expression).__name__ == "Null":
            return f"{self._written(node.this)} is null"
        if kind == "In" and node.expressions:
            listed = ", ".join(map(self._written, node.expressions))
            return f"{self._written(node.this)} in ({listed})"
        name = node.this if kind == "Anonymous" else kind.upper()
        raise self.text.problem(node, f"{name} is not supported here; {_POSSIBLE}")
