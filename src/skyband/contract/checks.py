"""Checks that several families share: column types, and masks of bad rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.arrays import Array, Mask
from skyband.contract.rows import Faults, shown
from skyband.data.columns import mask_of, output_type, plain, to_numpy
from skyband.data.keys import is_key_type
from skyband.data.memo import once
from skyband.errors import QueryError, SchemaError, did_you_mean

QuickTests = dict[str, Callable[[Any], bool]]
"""Tests by column, for ``QuickValidation``."""
Test = tuple[str, str, Any]
"""A column, what is wrong with its bad rows, and the mask of those; None means no bad rows."""


def named(*names: str | None) -> tuple[str, ...]:
    """The columns that a query names, without repeats; None means no column."""
    return tuple(dict.fromkeys(name for name in names if name is not None))


def check_names(source: str, schema: pa.Schema, names: Sequence[str]) -> None:
    """Raise SchemaError unless the schema has each of these columns exactly once."""
    for name in names:
        if schema.get_field_index(name) < 0:
            there = ", ".join(schema.names) or "none"
            twice = len(schema.get_all_field_indices(name)) > 1
            problem = "occurs twice" if twice else "is missing"
            where = f" of source {source!r}" if source else ""
            meant = "" if twice else did_you_mean(name, schema.names) or _other_delimiter(schema)
            raise SchemaError(f"column {name!r}{where} {problem}; the columns are: {there}{meant}")


def _other_delimiter(schema: pa.Schema) -> str:
    """What to say if the only column looks like the header of a CSV file."""
    signs = [sign for sign in (";", "\t", "|") if len(schema) == 1 and sign in schema.names[0]]
    return f". If {signs[0]!r} separates the fields, give it as the delimiter" if signs else ""


def integer_option(options: Mapping[str, Any], name: str, default: int, least: int) -> int:
    """The integer option ``name``; raises QueryError if it is no integer of at least ``least``."""
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise QueryError(f"option {name!r} must be an integer of at least {least}, not {value!r}")
    return value


def numeric(role: str, schema: pa.Schema, name: str) -> None:
    """Raise SchemaError unless the column can be a score, a weight or a value."""
    kind = schema.field(name).type
    known = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if not known or pa.types.is_float16(kind):
        raise SchemaError(
            f"{role} column {name!r} has type {kind}; it must be an integer or a float "
            "(cast decimals and text to float64)"
        )


def plain_key(role: str, schema: pa.Schema, name: str | None) -> None:
    """Raise SchemaError unless the column's values can be hashed; None means no column."""
    if name is not None and not is_key_type(kind := schema.field(name).type):
        raise SchemaError(
            f"{role} column {name!r} has type {kind}, which cannot be a key; use plain columns"
        )


def null_tests(batch: pa.RecordBatch, **roles: str | None) -> list[Test]:
    """The tests that columns have no nulls; None means that there is no column of this role."""
    return [
        (name, f"the {role} is null", _nulls(batch.column(name)))
        for role, name in roles.items()
        if name is not None
    ]


def _nulls(column: pa.Array) -> Mask | None:
    return once("null", column, lambda: null_mask(column))


def number_tests(batch: pa.RecordBatch, role: str, name: str) -> list[Test]:
    """The tests that a column has neither nulls nor NaN."""
    column = plain(batch.column(name))
    return [
        (name, f"the {role} is null", _nulls(column)),
        (name, f"the {role} is not a number", once("nan", column, lambda: nan_mask(column))),
    ]


def faults(batch: pa.RecordBatch, tests: Sequence[Test]) -> Faults | None:
    """The bad rows that the tests found."""
    found: Faults | None = None
    for name, problem, mask in tests:
        if mask is None:
            continue
        if found is None:
            found = Faults(np.zeros(batch.num_rows, np.bool_))
        fresh = mask & ~found.mask
        if fresh.any():
            row = int(np.flatnonzero(fresh)[0])
            value = shown(batch.column(name), row)
            more = int(fresh.sum()) - 1
            others = f" (and {more:,} more like it)" if more else ""
            found.reasons.append(f"column {name!r}, row {row}: {problem} ({value}){others}")
            found.tests.append((name, problem, fresh))
        found.mask |= mask
    return found if found is not None and found.mask.any() else None


def no_nan(schema: pa.Schema, *names: str) -> QuickTests:
    """The quick tests that columns of floats hold no NaN; other columns need none."""
    kinds = {name: output_type(schema.field(name).type) for name in names}
    return {name: _no_nan for name, kind in kinds.items() if pa.types.is_floating(kind)}


def _no_nan(values: Array) -> bool:
    return not math.isnan(values.max())


def within(low: float, high: float) -> Callable[[Array], bool]:
    """The quick test that numbers are from ``low`` to ``high``; NaN is not."""
    return lambda values: bool(values.min().item() >= low and values.max().item() <= high)


def null_mask(column: pa.Array) -> Mask | None:
    """Which rows of a column are null; None if there are none."""
    if column.null_count == 0:
        return None
    return mask_of(pc.is_null(column))


def nan_mask(column: pa.Array) -> Mask | None:
    """Which rows of a float column are NaN; None if there are none."""
    if not pa.types.is_floating(column.type) or len(column) == 0:
        return None
    values = to_numpy(column)
    # The maximum is NaN if any value is; finding it takes one fast pass.
    if column.null_count == 0 and not np.isnan(values.max()):
        return None
    mask = np.isnan(values)
    return mask if mask.any() else None
