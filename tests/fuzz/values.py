"""Names, Arrow types and values: the usual ones, and unusual ones that are easily forgotten."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

NAMES = (
    "x",
    "Größe",
    "名前",
    "a b",
    "a.b",
    'q"uote',
    "it's",
    "0",
    "🙂",
    "é",
    "A",
    "a",
    "-k",
    "%s",
    "{x}",
)
"""Column names that a query may meet; names of answer columns are left out."""

TEXTS = (
    "",
    " ",
    "a",
    "b",
    "A",
    "ab",
    "é",
    "é",
    "日本",
    "🙂",
    "\n",
    "\x00",
    "a\x00",
    "ß",
    "zz" * 40,
    "NaN",
    "null",
    "-1",
)

INTEGERS = (
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
)
FLOATS = (pa.float32(), pa.float64())

Make = Callable[[random.Random], Any]


def _signed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(kind))


def limits(kind: pa.DataType) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    bits = int(kind.bit_width)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if _signed(kind) else (0, (1 << bits) - 1)


def integers(kind: pa.DataType) -> Make:
    low, high = limits(kind)
    small = [n for n in (-2, -1, 0, 1, 2, 3, 5, 7) if low <= n <= high]
    wide = [low, low + 1, high, high - 1]
    return lambda rng: rng.choice(small if rng.random() < 0.9 else wide)


def floats(kind: pa.DataType) -> Make:
    """Floats of a type, rounded here if it has 32 bits, so that both sides see the same value."""
    odd = [-0.0, 0.0, math.inf, -math.inf, 1e-38, -1e-38, 3e38, 0.1, 1 / 3]
    odd += [5e-324, 1.7e308, -1.7e308] if kind == pa.float64() else []
    tied = [-1.5, 0.0, 0.5, 1.0, 2.0]

    def make(rng: random.Random) -> float:
        value = rng.choice(tied if rng.random() < 0.7 else odd)
        return float(pa.scalar(value, kind).as_py())

    return make


def number_type(rng: random.Random) -> tuple[pa.DataType, Make]:
    """A type for scores, weights and preferred columns."""
    usual = (pa.int64(), pa.float64(), pa.float64(), pa.int32())
    kind = rng.choice(usual if rng.random() < 0.7 else (*INTEGERS, *FLOATS))
    return kind, (floats if pa.types.is_floating(kind) else integers)(kind)


def _dates(rng: random.Random) -> dt.date:
    return dt.date(1969, 12, 30) + dt.timedelta(days=rng.randrange(5))


def _moments(rng: random.Random) -> dt.datetime:
    return dt.datetime(1969, 12, 31, 23, 59, 59) + dt.timedelta(seconds=rng.randrange(4))


KEYS: tuple[tuple[pa.DataType, Make], ...] = (
    (pa.string(), lambda rng: rng.choice(TEXTS)),
    (pa.large_string(), lambda rng: rng.choice(TEXTS)),
    (pa.string_view(), lambda rng: rng.choice(TEXTS)),
    (pa.dictionary(pa.int8(), pa.string()), lambda rng: rng.choice(TEXTS)),
    (pa.dictionary(pa.int32(), pa.int64()), lambda rng: rng.randrange(-2, 5)),
    (pa.binary(), lambda rng: rng.choice(TEXTS).encode()),
    (pa.large_binary(), lambda rng: rng.choice(TEXTS).encode()),
    (pa.binary(2), lambda rng: rng.choice((b"aa", b"ab", b"\x00\x00", b"\xff\xff"))),
    (pa.bool_(), lambda rng: rng.random() < 0.5),
    (pa.date32(), _dates),
    (pa.timestamp("s"), _moments),
    (pa.timestamp("us", tz="Europe/Berlin"), _moments),
    (pa.decimal128(9, 2), lambda rng: decimal.Decimal(rng.randrange(-200, 300)) / 100),
    (pa.float64(), lambda rng: rng.choice((-1.5, -0.0, 0.0, 0.5, math.inf))),
    *((kind, integers(kind)) for kind in INTEGERS),
)
"""Types of ids, items and groups, each with a function that makes values, some of them equal."""

ODD_TYPES = (
    pa.null(),
    pa.list_(pa.int64()),
    pa.struct([("a", pa.int64())]),
    pa.map_(pa.string(), pa.int64()),
    pa.float16(),
    pa.decimal256(40, 3),
    pa.duration("us"),
    pa.time64("us"),
    pa.month_day_nano_interval(),
    pa.list_(pa.int64(), 2),
    pa.binary_view(),
    pa.dictionary(pa.int8(), pa.float64()),
    pa.run_end_encoded(pa.int32(), pa.string()),
    pa.date64(),
)
"""Types that are accepted in some columns and refused in others."""


@dataclass
class Column:
    kind: pa.DataType
    make: Make
    bad: tuple[Any, ...] = ()
    """Values that make a row bad."""


def key_type(rng: random.Random) -> tuple[pa.DataType, Make]:
    """A type for ids, items and groups: text half of the time."""
    return KEYS[0] if rng.random() < 0.4 else rng.choice(KEYS)


def name(rng: random.Random, taken: set[str]) -> str:
    """Draw a column name that is not in use yet, and mark it as used."""
    while True:
        found = rng.choice(NAMES) if rng.random() < 0.3 else f"c{rng.randrange(100)}"
        if found not in taken:
            taken.add(found)
            return found


def array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values as a column of a type; for timestamps, integers stand for microseconds."""
    if pa.types.is_timestamp(kind) and any(isinstance(v, int) for v in values):
        return pa.array(values, pa.timestamp("us", tz=kind.tz)).cast(kind)
    if pa.types.is_date32(kind) and any(isinstance(v, int) for v in values):
        days = [None if v is None else v // 86_400_000_000 for v in values]
        return pa.array(days, pa.int32()).cast(kind)
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_run_end_encoded(kind):
        return pa.compute.run_end_encode(pa.array(values, kind.value_type))
    if pa.types.is_float16(kind):
        import numpy as np

        return pa.array([None if v is None else np.float16(v) for v in values], kind)
    return pa.array(values, kind)
