"""Arithmetic over columns, read from text such as ``"price * volume"``.

    sum      = product { ("+" | "-") product }
    product  = sign { ("*" | "/") sign }
    sign     = ("-" | "+") sign | value
    value    = number | column | function "(" sum { "," sum } ")" | "(" sum ")"
    column   = a name, or any text between backticks

The text is only parsed here; ``data.computed`` evaluates it. Nothing is ever passed to Python.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from skyband.errors import QueryError

__all__ = ["FUNCTIONS", "Call", "Column", "Node", "Number", "columns_of", "parse"]

FUNCTIONS = {"abs": (1, 1), "log": (1, 1), "sqrt": (1, 1), "min": (1, 99), "max": (1, 99)}
"""The least and the greatest number of arguments of each function."""
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[^\W\d]\w*)|`(?P<quoted>[^`]+)`|(?P<sign>[-+*/(),]))"
)
_DEEPEST = 50
_MOST = 100
"""Columns and numbers of an expression; evaluating it goes as deep as there are."""
_DIGITS = 19
"""Longer integers do not fit 64 bits and are floats."""


@dataclass(frozen=True)
class Number:
    """A constant."""

    value: int | float


@dataclass(frozen=True)
class Column:
    """The value of a column."""

    name: str


@dataclass(frozen=True)
class Call:
    """A function, or one of ``+ - * /``, of further nodes."""

    function: str
    arguments: tuple[Node, ...]


Node = Number | Column | Call


def parse(text: str) -> Node:
    """The expression that a text describes; raises QueryError if it is none.

    >>> parse("2 * price")
    Call(function='*', arguments=(Number(value=2), Column(name='price')))
    """
    return _Parser(text).whole()


def columns_of(node: Node) -> tuple[str, ...]:
    """The columns that an expression uses, each once."""
    return tuple(dict.fromkeys(_columns(node)))


def _columns(node: Node) -> Iterator[str]:
    if isinstance(node, Column):
        yield node.name
    elif isinstance(node, Call):
        for each in node.arguments:
            yield from _columns(each)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._tokens()
        self.at = 0
        self.depth = 0
        values = sum(kind != "sign" for kind, _, _ in self.tokens)
        if values > _MOST:
            raise QueryError(f"it has more than {_MOST} columns and numbers; compute a part before")

    def whole(self) -> Node:
        node = self._sum()
        if self._peek() is not None:
            raise self._problem("an operator is missing")
        return node

    def _tokens(self) -> list[tuple[str, str, int]]:
        found, at, text = [], 0, self.text.rstrip()
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                raise QueryError(f"{text[at:].strip()[:1]!r} has no meaning there")
            kind = token.lastgroup or ""
            found.append((kind, token[kind], token.start(kind)))
            at = token.end()
        return found

    def _peek(self) -> str | None:
        """The next sign; another text for a value, None at the end."""
        if self.at == len(self.tokens):
            return None
        kind, text, _ = self.tokens[self.at]
        return text if kind == "sign" else kind

    def _next(self) -> tuple[str, str]:
        if self.at == len(self.tokens):
            raise self._problem("a value is missing")
        kind, text, _ = self.tokens[self.at]
        self.at += 1
        return kind, text

    def _problem(self, what: str) -> QueryError:
        if self.at >= len(self.tokens):
            return QueryError(f"{what} at its end")
        return QueryError(f"{what} before {self.text[self.tokens[self.at][2] :]!r}")

    def _sum(self) -> Node:
        node = self._product()
        while self._peek() in ("+", "-"):
            node = Call(self._next()[1], (node, self._product()))
        return node

    def _product(self) -> Node:
        node = self._sign()
        while self._peek() in ("*", "/"):
            node = Call(self._next()[1], (node, self._sign()))
        return node

    def _sign(self) -> Node:
        negative = False
        while self._peek() in ("+", "-"):
            negative ^= self._next()[1] == "-"
        node = self._value()
        return Call("-", (Number(0), node)) if negative else node

    def _value(self) -> Node:
        kind, text = self._next()
        if kind == "number":
            return Number(_number(text))
        if kind == "quoted":
            return Column(text)
        if kind == "name":
            return self._call(text) if self._peek() == "(" else Column(text)
        if text != "(":
            self.at -= 1
            raise self._problem("a value is missing")
        (node,) = self._inside(1, 1)
        return node

    def _call(self, name: str) -> Node:
        if name not in FUNCTIONS:
            raise QueryError(f"there is no function {name!r}; there are {', '.join(FUNCTIONS)}")
        self.at += 1
        return Call(name, self._inside(*FUNCTIONS[name]))

    def _inside(self, least: int, most: int) -> tuple[Node, ...]:
        """What stands between parentheses, after the first one."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise QueryError(f"its parentheses are nested more than {_DEEPEST} deep")
        found = [self._sum()]
        while self._peek() == ",":
            self.at += 1
            found.append(self._sum())
        if self._peek() != ")":
            raise self._problem("a closing parenthesis is missing")
        self.at += 1
        self.depth -= 1
        if not least <= len(found) <= most:
            raise QueryError(f"{len(found)} values are in parentheses that take {most}")
        return tuple(found)


def _number(text: str) -> int | float:
    plain = text.lstrip("0") or "0"
    if plain.isdigit() and len(plain) <= _DIGITS:
        return int(plain)
    if math.isinf(float(text)):
        shown = text if len(text) <= _DIGITS else f"{plain[:10]}..."
        raise QueryError(f"the number {shown} is too large")
    return float(text)
