"""Columns that are computed from others: ``score="price * volume"``.

Integers stay integers under ``+ - * abs min max``; everything else is computed as float64. A
result that is no number makes the row bad: dividing by zero, the logarithm of a number that is not
positive, and the root of a negative one give NaN; an integer beyond 64 bits gives null.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.columns import output_type, plain
from skyband.errors import SchemaError, did_you_mean
from skyband.query.expressions import Call, Column, Constant, Node, columns_of

Value = Any
"""An array or a scalar, of int64 or float64."""

_NAN = float("nan")  # as an Arrow scalar it would import pandas
_WHOLE = {"+": "add", "-": "subtract", "*": "multiply"}
_LIMIT = float(1 << 63)


class ComputedColumn:
    """One computed column, bound to the columns of a source."""

    def __init__(self, text: str, node: Node, schema: pa.Schema) -> None:
        """Raises SchemaError for a column that is missing or is no number."""
        self.text = text
        self.node = node
        self.columns = columns_of(node)
        for name in self.columns:
            if schema.get_field_index(name) < 0:
                there = ", ".join(schema.names) or "none"
                raise SchemaError(
                    f"column {name!r} of the expression {text!r} is missing; the columns are: "
                    f"{there}{did_you_mean(name, schema.names)}"
                )
            kind = output_type(schema.field(name).type)
            # The column of an empty CSV file, for instance, has type null.
            known = pa.types.is_integer(kind) or pa.types.is_floating(kind)
            if not known and not pa.types.is_null(kind):
                raise SchemaError(
                    f"column {name!r} of the expression {text!r} has type {kind}; it must be an "
                    "integer or a float (cast decimals and text to float64)"
                )
        # The type of the result depends on types alone, so no rows are needed to find it.
        empty = {name: pa.array([], output_type(schema.field(name).type)) for name in self.columns}
        self.type: pa.DataType = self.of(empty.__getitem__).type

    def of(self, read: Callable[[str], pa.Array | pa.ChunkedArray]) -> pa.Array:
        """The values of the column for rows whose columns ``read`` returns."""
        return _evaluate(self.node, lambda name: as_number(plain(read(name))))


def constant_of(node: Node) -> Any:
    """The value of an expression without columns; None if it has none, like 1 / 0."""
    value = node.value if isinstance(node, Constant) else _evaluate(node, _no_column).as_py()
    return None if isinstance(value, float) and math.isnan(value) else value


def _no_column(name: str) -> pa.Array:
    raise KeyError(name)


def as_number(column: pa.Array) -> pa.Array:
    """A column of numbers to compute with: of int64, or of float64."""
    whole = pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type)
    return column.cast(pa.int64() if whole else pa.float64(), safe=False)


def _evaluate(node: Node, read: Callable[[str], pa.Array]) -> Value:
    if isinstance(node, Constant):
        whole = isinstance(node.value, int) and node.value < 1 << 63
        return pa.scalar(node.value if whole else float(node.value))
    if isinstance(node, Column):
        return read(node.name)
    values = [_evaluate(each, read) for each in node.arguments]
    return _applied(node, values)


def _applied(node: Call, values: Sequence[Value]) -> Value:
    name = node.function
    whole = all(pa.types.is_integer(value.type) for value in values)
    if whole and name in _WHOLE:
        return _whole(_WHOLE[name], values)
    if whole and name == "abs":
        return _whole("abs", values)
    if not whole or name in ("/", "log", "sqrt"):
        values = [value.cast(pa.float64(), safe=False) for value in values]
    if name in ("min", "max"):
        return _extreme(name, values, whole)
    if name in _WHOLE:
        return pc.call_function(_WHOLE[name], values)
    if name == "/":
        over, under = values
        return pc.if_else(pc.equal(under, 0.0), _NAN, pc.divide(over, under))
    if name == "log":
        return pc.if_else(pc.less_equal(values[0], 0.0), _NAN, pc.ln(values[0]))
    return pc.abs(values[0]) if name == "abs" else pc.sqrt(values[0])


def _whole(function: str, values: Sequence[Value]) -> Value:
    """Integer arithmetic; null where the result does not fit 64 bits."""
    try:
        return pc.call_function(f"{function}_checked", values)
    except pa.ArrowInvalid:
        rough = pc.call_function(function, [v.cast(pa.float64(), safe=False) for v in values])
        found = pc.call_function(function, values)  # wraps around where it does not fit
        # At the limit itself, where floats are too coarse, a wrapped result has another sign.
        near = pc.and_(pc.less_equal(pc.abs(rough), _LIMIT), _same_sign(rough, found))
        fits = pc.or_(pc.less(pc.abs(rough), _LIMIT), near)
        return pc.if_else(fits, found, pa.scalar(None, pa.int64()))


def _same_sign(one: Value, other: Value) -> Value:
    return pc.equal(pc.less(one, 0), pc.less(other, 0))


def _extreme(name: str, values: Sequence[Value], whole: bool) -> Value:
    """The least or greatest value; NaN if one of them is NaN, null if one is null."""
    function = pc.min_element_wise if name == "min" else pc.max_element_wise
    found = function(*values, skip_nulls=False)
    if whole:
        return found
    for value in values:
        found = pc.if_else(pc.is_nan(value), _NAN, found)
    return found
