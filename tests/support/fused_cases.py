"""Helpers for the tests of FusedTopK: queries, tables and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb
from support import conformance

EXACT = ("sla", "eaa")
ALL = ("sla", "eaa", "eaa-approx")
COMBINES: list[Any] = [
    "sum",
    "mean",
    "min",
    "max",
    "product",
    {"a": 2.0, "b": 0.0, "c": 0.5},
    [1.0, 1.0, 3.0],
    lambda values: np.sort(np.asarray(values), axis=-1)[..., 1],
]


def fused(window: Any, **settings: Any) -> sb.FusedTopK:
    given: dict[str, Any] = conformance.FUSED | {"k": 2, "time": None}
    given |= {} if isinstance(window, sb.CountWindow) else {"time": "ts"}
    return sb.FusedTopK(window=window, **(given | settings))


def table(rows: Sequence[tuple[Any, ...]], id_type: pa.DataType | None = None) -> pa.Table:
    """Rows of (ts, object, stream, value)."""
    ts, names, stream, value = zip(*rows, strict=True)
    return pa.table({
        "ts": pa.array(ts, pa.int64()),
        "object": pa.array(names, id_type),
        "stream": pa.array(stream, pa.string()),
        "value": pa.array(value, pa.float64()),
    })  # fmt: skip


def scores(answer: sb.Answer) -> list[tuple[Any, float]]:
    return list(
        zip(answer.table["object"].to_pylist(), answer.table["score"].to_pylist(), strict=True)
    )
