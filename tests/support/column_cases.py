"""Columns of every type: the type and some of its values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 1)
TEXTS = ["", "a", "twelve bytes", "more than twelve bytes", "x" * 31, "y" * 32, "z" * 50, "été"]
OCTETS = [text.encode() for text in TEXTS]

CASES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [0, 1, -128]),
    (pa.int16(), [0, 1, -(2**15)]),
    (pa.int32(), [0, 1, 2**31 - 1]),
    (pa.int64(), [0, 1, -(2**63)]),
    (pa.uint8(), [0, 1, 255]),
    (pa.uint16(), [0, 1, 2**16 - 1]),
    (pa.uint32(), [0, 1, 2**32 - 1]),
    (pa.uint64(), [0, 1, 2**64 - 1]),
    (pa.float16(), [np.float16(0), np.float16(1.5)]),
    (pa.float32(), [0.0, 1.5, float("inf")]),
    (pa.float64(), [0.0, 1.5, -1e300]),
    (pa.bool_(), [True, False, False, True]),
    (pa.date32(), [dt.date(2024, 2, 29), dt.date(1969, 12, 31)]),
    (pa.date64(), [dt.date(2024, 2, 29), dt.date(1969, 12, 31)]),
    (pa.time32("s"), [dt.time(1), dt.time(2)]),
    (pa.time64("us"), [dt.time(1), dt.time(2, 3, 4, 5)]),
    (pa.timestamp("us"), [NOON, NOON + dt.timedelta(1)]),
    (pa.timestamp("us", "Europe/Paris"), [NOON, NOON + dt.timedelta(1)]),
    (pa.duration("us"), [dt.timedelta(1), dt.timedelta(microseconds=-1)]),
    (pa.decimal128(20, 2), [Decimal("1.00"), Decimal("-123456789012345678.90")]),
    (pa.decimal256(60, 0), [Decimal(1), -(Decimal(10) ** 50)]),
    (pa.binary(3), [b"abc", b"\0\0\0"]),
    (pa.string(), TEXTS),
    (pa.large_string(), TEXTS),
    (pa.string_view(), TEXTS),
    (pa.binary(), OCTETS),
    (pa.large_binary(), OCTETS),
    (pa.binary_view(), OCTETS),
    (pa.dictionary(pa.int8(), pa.string()), TEXTS),
    (pa.dictionary(pa.int32(), pa.int64()), [5, 6, 7]),
]
IDS = [str(kind) for kind, _ in CASES]
