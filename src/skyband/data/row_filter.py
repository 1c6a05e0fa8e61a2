"""``where``: which rows of a source count, found for a whole batch at once.

Conditions have three values, as in SQL: true, false, and neither where a null is compared. So a
test answers two questions, which rows make a condition true and which make it false, and ``not``
swaps them. NaN counts as null.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import time
from decimal import Decimal
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.arrays import Mask
from skyband.data.columns import (
    is_bare,
    is_number_type,
    mask_of,
    output_type,
    plain,
    to_numpy,
)
from skyband.data.computed import ComputedColumn, as_number, constant_of
from skyband.errors import SchemaError
from skyband.query.expressions import Call, Column, Constant, Node, columns_of

_FEW = 8
"""Up to this many numbers are compared one by one, which is faster than looking rows up."""
_ARROW = {
    "=": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_SWAPPED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}

Read = Callable[[str], Any]
"""From the name of a column to its values."""
Test = Callable[[Read, bool], Mask]
"""The rows that make a condition true or, asked for False, those that make it false."""


class RowFilter:
    """The rows that make all ``conditions`` true.

    A dictionary column is compared with constants once per entry of its dictionary, not per row.
    """

    def __init__(self, conditions: Sequence[Node], schema: pa.Schema, text: str = "") -> None:
        """Raises SchemaError for what cannot be compared; ``text`` is ``where``, for messages."""
        self.columns = tuple(dict.fromkeys(n for each in conditions for n in columns_of(each)))
        compiler = ConditionCompiler(schema, text)
        self._tests = [compiler.test(each) for each in conditions]

    def mask(self, batch: pa.RecordBatch) -> Mask:
        """Which rows of a batch count."""
        return self.inside([batch.column(name) for name in self.columns], batch.num_rows)

    def inside(self, columns: Sequence[pa.Array], rows: int) -> Mask:
        """Like ``mask``, from the values of ``columns`` in their order."""
        read = dict(zip(self.columns, columns, strict=True)).__getitem__
        found = np.ones(rows, np.bool_)
        for test in self._tests:
            found &= test(read, True)
        return found


class _Operand(NamedTuple):
    """What is compared: a column, or an expression over columns."""

    name: str
    kind: pa.DataType
    of: Callable[[Read], Any]


class ConditionCompiler:
    """Turns conditions on the columns of a source into tests."""

    def __init__(self, schema: pa.Schema, text: str) -> None:
        self.schema = schema
        self.text = text

    def test(self, node: Node) -> Test:
        """The test of a condition."""
        if not isinstance(node, Call):
            return self._membership(self._operand(node), [True])
        function, first = node.function, node.arguments[0]
        if function == "not":
            inner = self.test(first)
            return lambda read, wanted: inner(read, not wanted)
        if function in ("and", "or"):
            one, other = map(self.test, node.arguments)

            def joined(read: Read, wanted: bool) -> Mask:
                both = (function == "and") == wanted
                left, right = one(read, wanted), other(read, wanted)
                return left & right if both else left | right

            return joined
        if function == "is null":
            operand = self._operand(first)
            return lambda read, wanted: _is_null(operand.of(read)) == wanted
        if function == "in":
            values = [each.value for each in node.arguments[1:] if isinstance(each, Constant)]
            return self._membership(self._operand(first), values)
        return self._comparison(function, *node.arguments)

    def _operand(self, node: Node) -> _Operand:
        if isinstance(node, Column):
            kind, name = output_type(self.schema.field(node.name).type), node.name
            if isinstance(kind, pa.BaseExtensionType):
                kind = kind.storage_type
            return _Operand(f"column {name!r}", kind, lambda read: read(name))
        computed = ComputedColumn(self.text, node, self.schema)
        return _Operand("an expression", computed.type, computed.of)

    def _comparison(self, function: str, left: Node, right: Node) -> Test:
        if not columns_of(left):
            function, left, right = _SWAPPED[function], right, left
        one = self._operand(left)
        if columns_of(right):
            return _pair_test(function, one, self._operand(right))
        value = constant_of(right)
        if function in ("=", "!="):
            equal = self._membership(one, [value])
            return lambda read, wanted: equal(read, wanted == (function == "="))
        if value is None or pa.types.is_null(one.kind):
            return lambda read, wanted: np.zeros(len(one.of(read)), np.bool_)
        return _threshold(function, one, value)

    def _membership(self, operand: _Operand, constants: Sequence[Any]) -> Test:
        """Whether a value is one of several."""
        values = _values(operand, constants)

        def test(read: Read, wanted: bool) -> Mask:
            column = operand.of(read)
            if wanted:
                return _per_value(column, lambda each: _inside(each, values))
            if None in constants:  # it may be that one
                return np.zeros(len(column), np.bool_)
            return _per_value(column, lambda each: ~(_inside(each, values) | _is_null(each)))

        return test


def _per_value(column: pa.Array, test: Callable[[pa.Array], Mask]) -> Mask:
    """A test of plain values that is false for null; of a dictionary each entry is tested once."""
    if pa.types.is_dictionary(column.type):
        inside = np.append(_per_value(column.dictionary, test), [False])  # the last is for nulls
        indices = column.indices
        if indices.null_count:
            indices = pc.fill_null(indices.cast(pa.int64()), len(inside) - 1)
        return inside[to_numpy(indices)]
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.bool_)
    return test(_plain(column))


def _plain(column: pa.Array) -> pa.Array:
    column = plain(column)
    return column.cast(pa.float32()) if pa.types.is_float16(column.type) else column  # comparable


def _inside(column: pa.Array, values: pa.Array) -> Mask:
    """Which rows of a column have one of these values."""
    if not len(values):
        return np.zeros(len(column), np.bool_)
    if len(values) > (_FEW if is_bare(values.type) else 1):
        return _true(pc.is_in(column, value_set=values))
    # several times as fast
    return _true(reduce(pc.or_, [pc.equal(column, value) for value in values]))


def _is_null(column: pa.Array) -> Mask:
    column = _plain(column)
    if pa.types.is_floating(column.type):
        return ~_true(pc.equal(column, column))  # NaN, too
    return mask_of(pc.is_null(column))


def _true(found: pa.Array) -> Mask:
    return mask_of(pc.fill_null(found, False))


# Columns compared with one another ----------------------------------------------------------------


def _pair_test(function: str, left: _Operand, right: _Operand) -> Test:
    convert = _converter(left.kind, right.kind)
    if convert is None:
        raise SchemaError(
            f"where: {left.name} of type {left.kind} cannot be compared with {right.name} of type "
            f"{right.kind}; cast one of them"
        )

    def test(read: Read, wanted: bool) -> Mask:
        one, other = (convert(_plain(each.of(read))) for each in (left, right))
        name = _ARROW[function if wanted else _OPPOSITE[function]]
        found = _true(pc.call_function(name, [one, other]))
        if name == "not_equal":  # NaN differs from everything
            return found & ~(_is_null(one) | _is_null(other))
        return found

    return test


_FAMILIES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
    (is_number_type, as_number),
    (
        lambda kind: bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind)),
        lambda column: column.cast(pa.timestamp("us"), safe=False),
    ),
    (
        lambda kind: bool(pa.types.is_string(kind) or pa.types.is_large_string(kind)),
        lambda column: column.cast(pa.large_string()),
    ),
)
"""Types that are compared with one another, and in what form."""


def _converter(*kinds: pa.DataType) -> Callable[[pa.Array], pa.Array] | None:
    """What makes the values of two types comparable; None if nothing does."""
    if kinds[0] == kinds[1] and not pa.types.is_nested(kinds[0]):
        return lambda column: column
    for includes, convert in _FAMILIES:
        if all(includes(kind) or pa.types.is_null(kind) for kind in kinds):
            return convert
    return None


# Constants in the type of what they are compared with --------------------------------------------


def _values(operand: _Operand, wanted: Sequence[Any]) -> pa.Array:
    """The wanted values in the type of a column, without those that no row can equal."""
    bare = operand.kind
    found = []
    for value in wanted:
        try:
            found.append(None if value is None else _as(bare, value))
        except (TypeError, ValueError, ArithmeticError):
            raise SchemaError(_unlike(operand, value)) from None
    known = [value for value in found if value is not None]
    if pa.types.is_null(bare):
        return pa.nulls(0)
    if pa.types.is_floating(bare):
        known += [-value for value in known if value == 0]  # zeros of both signs are equal
        if pa.types.is_float16(bare):
            return pa.array(np.array(known, np.float16).astype(np.float32))
        return pa.array(known, pa.float64()).cast(bare, safe=False)
    return pa.array(known, bare)


def _as(kind: pa.DataType, value: Any) -> Any:
    """A value in the type of a column; None if no value of that type equals it.

    Raises TypeError or ValueError if the two cannot be compared.
    """
    types = pa.types
    number = isinstance(value, int | float) and not isinstance(value, bool)
    text = isinstance(value, str)
    if types.is_null(kind) or (types.is_boolean(kind) and isinstance(value, bool)):
        return value
    if number and types.is_integer(kind):
        return _whole(kind, value)
    if number and types.is_floating(kind):
        return None if math.isnan(value) else float(value)
    if number and types.is_decimal(kind):
        return _decimal(kind, value)
    if text and (kind in (pa.string(), pa.large_string())):
        return value
    if text and (kind in (pa.binary(), pa.large_binary())):
        return value.encode()
    if text and types.is_timestamp(kind):
        return _moment(kind, value)
    if text and types.is_date(kind):
        return pa.scalar(value).cast(kind).as_py()
    if text and types.is_time(kind):
        return time.fromisoformat(value)
    raise TypeError(kind)


def _threshold(function: str, operand: _Operand, value: Any) -> Test:
    """Whether values are above or below a constant."""
    try:
        function, bound = _bound(operand.kind, function, value)
    except (TypeError, ValueError, ArithmeticError):
        raise SchemaError(_unlike(operand, value)) from None

    def compared(name: str, values: pa.Array) -> Mask:
        values = as_number(values) if pa.types.is_decimal(values.type) else values
        return _true(pc.call_function(name, [values, bound]))

    def test(read: Read, wanted: bool) -> Mask:
        name = _ARROW[function if wanted else _OPPOSITE[function]]
        return _per_value(operand.of(read), partial(compared, name))

    return test


def _bound(kind: pa.DataType, function: str, value: Any) -> tuple[str, pa.Scalar]:
    """A comparison that says the same of all values of a type, with a constant of that type.

    Whole numbers are above 1.5 just where they are above 1; an int8 is never above 300.
    Raises TypeError or ValueError if the two cannot be compared.
    """
    found = _as(kind, value)
    if pa.types.is_integer(kind):
        low, high = _whole_range(kind)
        if not low <= value <= high:
            less, more = ("<=", ">") if value > high else ("<", ">=")
            function = less if function in ("<", "<=") else more
            return function, pa.scalar(high if value > high else low, kind)
        up = function in ("<", ">=")
        return function, pa.scalar(math.ceil(value) if up else math.floor(value), kind)
    if pa.types.is_float32(kind) or pa.types.is_float16(kind):
        return function, pa.scalar(value, pa.float64()).cast(pa.float32(), safe=False)
    if pa.types.is_decimal(kind):
        return function, pa.scalar(float(value))
    return function, pa.array([found], kind)[0]


def _whole_range(kind: pa.DataType) -> tuple[int, int]:
    bits = kind.bit_width
    signed = pa.types.is_signed_integer(kind)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def _whole(kind: pa.DataType, value: float) -> int | None:
    least, most = _whole_range(kind)
    whole = math.isfinite(value) and value == int(value)
    return int(value) if whole and least <= value <= most else None


def _decimal(kind: pa.DataType, value: float) -> Decimal | None:
    if not math.isfinite(value):
        return None
    found = Decimal(str(value))
    try:
        pa.scalar(found, kind)
    except pa.ArrowInvalid:
        return None  # more digits than the column can hold
    return found


def _moment(kind: pa.DataType, text: str) -> pa.Scalar:
    """A timestamp from ISO 8601 text; without a zone it counts as UTC."""
    for zone in (None, "UTC"):
        try:
            ticks = pa.scalar(text).cast(pa.timestamp(kind.unit, zone)).value
        except pa.ArrowInvalid:
            continue
        return pa.scalar(ticks, pa.int64()).cast(kind)
    raise ValueError(text)


def _unlike(operand: _Operand, value: Any) -> str:
    hint = "give values of the column's type"
    if pa.types.is_string(operand.kind) and not isinstance(value, str):
        hint = f'give text, such as "{value}" (on the command line, also in double quotes)'
    where = f"where: {operand.name} of type {operand.kind}"
    return f"{where} cannot be compared with {value!r}; {hint}"
