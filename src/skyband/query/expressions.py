"""Arithmetic over columns, as in ``"price * volume"``, and conditions, as in ``"price > 2"``.

    expression = sum
    sum        = product { ("+" | "-") product }
    product    = sign { ("*" | "/") sign }
    sign       = ("-" | "+") sign | value
    value      = number | column | function "(" sum { "," sum } ")" | "(" sum ")"
    column     = a name, or any text between backticks

    condition  = both { "or" both }
    both       = negation { "and" negation }
    negation   = "not" negation | test
    test       = sum ("=" | "!=" | "<" | "<=" | ">" | ">=") sum | sum "is" ["not"] "null"
               | sum ["not"] "in" "(" constant { "," constant } ")" | column | "(" condition ")"

In a condition, a value may also be ``'text'`` (with ``''`` for a quote), ``true``, ``false`` or
``null``. Words are read in any case. The text is only parsed here; ``data.computed`` and
``data.row_filter`` evaluate it. Nothing is ever passed to Python.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from skyband.errors import QueryError

FUNCTIONS = {"abs": (1, 1), "log": (1, 1), "sqrt": (1, 1), "min": (1, 99), "max": (1, 99)}
"""The least and the greatest number of arguments of each function."""
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_OTHER_SIGNS = {"==": "=", "<>": "!="}
_CONSTANTS = {"true": True, "false": False, "null": None}
_WORDS = ("and", "or", "not", "in", "is", *_CONSTANTS)
_LOGIC = ("and", "or", "not")
_NOT, _TEST = 3, 4
_POWERS = (
    {"or": 1, "and": 2}
    | dict.fromkeys((*COMPARISONS, "is", "in", "not"), _TEST)
    | {"+": 5, "-": 5, "*": 6, "/": 6}
)
"""How tightly a sign or word binds what stands on both of its sides."""
_NUMBER = r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
_TOKENS = rf"{_NUMBER}|(?P<name>[^\W\d]\w*)|`(?P<quoted>[^`]+)`|(?P<sign>[-+*/(),]"
_TOKEN = re.compile(rf"\s*(?:{_TOKENS}))")
_CONDITION_TOKEN = re.compile(rf"\s*(?:{_TOKENS}|[=!<>]=|<>|[=<>])|(?P<text>'(?:[^']|'')*'))")
_DEEPEST = 50
_MOST = 100
"""Columns and numbers of an expression; evaluating it goes as deep as there are."""
_LONGEST = 100_000
"""Letters of an expression."""
_SHOWN = 60
"""Letters of it that a message shows."""
_DIGITS = 20
"""Longer integers do not fit 64 bits, signed or not, and are floats."""


@dataclass(frozen=True)
class Constant:
    """A number; in a condition also a text, a boolean or null."""

    value: Any


@dataclass(frozen=True)
class Column:
    """The value of a column."""

    name: str


@dataclass(frozen=True)
class Call:
    """A function, or an operator such as ``*``, ``and`` or ``is null``, of further nodes."""

    function: str
    arguments: tuple[Node, ...]

    @property
    def is_condition(self) -> bool:
        """Whether it is true or false, and no number."""
        return self.function in (*_LOGIC, *COMPARISONS, "in", "is null")


Node = Constant | Column | Call


def parse(text: str) -> Node:
    """The expression that a text describes; raises QueryError if it is none.

    >>> parse("2 * price")
    Call(function='*', arguments=(Constant(value=2), Column(name='price')))
    """
    return _Parser(text, _TOKEN).whole()


def parse_condition(text: str) -> Node:
    """The condition that a text describes; raises QueryError if it is none.

    >>> parse_condition("name = 'it''s'")
    Call(function='=', arguments=(Column(name='name'), Constant(value="it's")))
    """
    node = _Parser(text, _CONDITION_TOKEN).whole()
    _check_condition(node)
    return node


def conditions_of(where: Mapping[str, Any] | str) -> tuple[Node, ...]:
    """The conditions that all hold for a row that counts."""
    if isinstance(where, str):
        return tuple(_conjuncts(parse_condition(where)))
    return tuple(
        Call("in", (Column(name), *map(Constant, wanted))) for name, wanted in where.items()
    )


def _conjuncts(node: Node) -> Iterator[Node]:
    if isinstance(node, Call) and node.function == "and":
        for each in node.arguments:
            yield from _conjuncts(each)
    else:
        yield node


def _check_condition(node: Node) -> None:
    """Raise QueryError for a number where a condition has to stand, and the reverse."""
    if isinstance(node, Column):
        return
    if isinstance(node, Constant) or not node.is_condition:
        raise QueryError("a value stands in place of a condition; compare it with another value")
    for each in node.arguments:
        if node.function in _LOGIC:
            _check_condition(each)
        else:
            _check_value(each)
    if not columns_of(node):
        raise QueryError(f"{node.function!r} has only constants around it; it needs a column")


def _check_value(node: Node, number: bool = False) -> None:
    if number and isinstance(node, Constant) and not is_number(node.value):
        raise QueryError(f"{node.value!r} is not a number, so it cannot be computed with")
    if isinstance(node, Call):
        if node.is_condition:
            raise QueryError(f"a condition with {node.function!r} stands in place of a value")
        for each in node.arguments:
            _check_value(each, number=True)


def is_number(value: Any) -> bool:
    """Whether a constant can be computed with."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def has_constant(node: Node) -> bool:
    """Whether an expression uses a constant."""
    return isinstance(node, Constant) or (
        isinstance(node, Call) and any(map(has_constant, node.arguments))
    )


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
    def __init__(self, text: str, token: re.Pattern[str]) -> None:
        if len(text) > _LONGEST:
            raise QueryError(f"it is longer than {_LONGEST:,} characters")
        self.text = text
        self.words = _WORDS if token is _CONDITION_TOKEN else ()
        self.tokens = self._tokens(token)
        self.at = self.depth = self.values = 0

    def whole(self) -> Node:
        node = self._operation()
        if self._peek() is not None:
            raise self._problem("an operator is missing")
        return node

    def _tokens(self, pattern: re.Pattern[str]) -> list[tuple[str, str, int]]:
        found, at, text = [], 0, self.text.rstrip()
        while at < len(text):
            token = pattern.match(text, at)
            if token is None:
                raise QueryError(f"{text[at:].strip()[:1]!r} is not allowed there")
            kind = token.lastgroup or ""
            value = token[kind]
            if kind == "name" and value.lower() in self.words:
                kind, value = "sign", value.lower()
            found.append((kind, _OTHER_SIGNS.get(value, value), token.start(kind)))
            at = token.end()
        return found

    def _peek(self) -> str | None:
        """The next sign or word; another text for a value, None at the end."""
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

    def _skip(self, sign: str) -> bool:
        """Pass over a sign or word, if it comes next."""
        there = self._peek() == sign
        self.at += there
        return there

    def _expect(self, sign: str, missing: str) -> None:
        if not self._skip(sign):
            raise self._problem(f"{missing} is missing")

    def _problem(self, what: str) -> QueryError:
        if self.at >= len(self.tokens):
            return QueryError(f"{what} at its end")
        rest = self.text[self.tokens[self.at][2] :]
        shown = rest if len(rest) <= _SHOWN else f"{rest[:_SHOWN]}..."
        return QueryError(f"{what} before {shown!r}")

    def _operation(self, least: int = 0) -> Node:
        """A value, and the signs after it that bind at least so tightly."""
        node = self._prefixed()
        while True:
            sign = self._peek() or ""
            power = _POWERS.get(sign, -1)
            if power < least:
                return node
            if power == _TEST:
                node = self._test(node)
                if _POWERS.get(self._peek() or "") == _TEST:
                    raise self._problem("'and' is missing")
            else:
                self.at += 1
                node = Call(sign, (node, self._operation(power + 1)))

    def _prefixed(self) -> Node:
        """A value after its signs, or what comes after ``not``."""
        start, negative = self.at, False
        while self._peek() == "not":
            negative ^= self._skip("not")
        if self.at > start:
            node = self._operation(_NOT)
            return Call("not", (node,)) if negative else node
        while self._peek() in ("+", "-"):
            negative ^= self._next()[1] == "-"
        node = self._value()
        if negative and isinstance(node, Constant) and is_number(node.value):
            return Constant(-node.value)
        return Call("-", (Constant(0), node)) if negative else node

    def _test(self, node: Node) -> Node:
        """A comparison of a value, ``is null`` or ``in``."""
        negative = False
        if self._skip("is"):
            negative = self._skip("not")
            self._expect("null", "'null'")
            node = Call("is null", (node,))
        elif self._peek() in ("not", "in"):
            negative = self._skip("not")
            self._expect("in", "'in'")
            node = Call("in", (node, *self._constants()))
        else:
            sign = self._next()[1]
            node = Call(sign, (node, self._operation(_TEST + 1)))
        return Call("not", (node,)) if negative else node

    def _constants(self) -> Iterator[Constant]:
        """The list after ``in``."""
        self._expect("(", "an opening parenthesis")
        while True:
            values, self.values = self.values, 0  # such a list may be long
            node, self.values = self._prefixed(), values
            if not isinstance(node, Constant):
                raise QueryError("the values in parentheses after 'in' must be constants")
            yield node
            if not self._skip(","):
                break
        self._expect(")", "a closing parenthesis")

    def _value(self) -> Node:
        kind, text = self._next()
        self.values += 1
        if self.values > _MOST:
            raise QueryError(f"it has more than {_MOST} columns and numbers; split it")
        if kind == "number":
            return Constant(_number(text))
        if kind == "text":
            return Constant(text[1:-1].replace("''", "'"))
        if text in _CONSTANTS and kind == "sign":
            return Constant(_CONSTANTS[text])
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
            raise QueryError(f"there is no function {name!r}; choose from {', '.join(FUNCTIONS)}")
        self.at += 1
        return Call(name, self._inside(*FUNCTIONS[name]))

    def _inside(self, least: int, most: int) -> tuple[Node, ...]:
        """What stands between parentheses, after the first one."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise QueryError(f"its parentheses are nested more than {_DEEPEST} levels deep")
        found = [self._operation()]
        while self._skip(","):
            found.append(self._operation())
        self._expect(")", "a closing parenthesis")
        self.depth -= 1
        if not least <= len(found) <= most:
            raise QueryError(f"there are {len(found)} values in parentheses that take {most}")
        return tuple(found)


def _number(text: str) -> int | float:
    plain = text.lstrip("0") or "0"
    if plain.isdigit() and len(plain) <= _DIGITS:
        return int(plain)
    if math.isinf(float(text)):
        shown = text if len(text) <= _DIGITS else f"{plain[:10]}..."
        raise QueryError(f"the number {shown} is too large")
    return float(text)
