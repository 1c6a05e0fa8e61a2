"""Continuous ranking queries over sliding windows of data streams.

>>> import pyarrow as pa, skyband as sb
>>> flows = pa.table({"flow": ["a", "b", "c"], "bytes": [10, 30, 20]})
>>> sb.rank(flows, sb.TopK(k=2, score="bytes", id="flow", window=sb.CountWindow(3)))[
...     "flow"
... ].to_pylist()
['b', 'c']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skyband.errors import (
    DataError,
    EngineError,
    QueryError,
    SchemaError,
    SkybandError,
    SkybandWarning,
)
from skyband.query import (
    FusedTopK,
    HeavyHitters,
    Query,
    Skyline,
    SkylineJoin,
    TopK,
    UncertainTopK,
)
from skyband.window import CountWindow, DecayWindow, LandmarkWindow, TimeWindow

if TYPE_CHECKING:
    from skyband.answers.answer import Answer, Position
    from skyband.answers.show import show
    from skyband.embedded.live_view import live
    from skyband.embedded.monitor import Monitor
    from skyband.embedded.run import rank, watch
    from skyband.embedded.sources import Source
    from skyband.engine.explain import explain
    from skyband.sql import SqlModule

    sql: SqlModule

__all__ = [
    "Answer",
    "CountWindow",
    "DataError",
    "DecayWindow",
    "EngineError",
    "FusedTopK",
    "HeavyHitters",
    "LandmarkWindow",
    "Monitor",
    "Position",
    "Query",
    "QueryError",
    "SchemaError",
    "SkybandError",
    "SkybandWarning",
    "Skyline",
    "SkylineJoin",
    "Source",
    "TimeWindow",
    "TopK",
    "UncertainTopK",
    "explain",
    "live",
    "rank",
    "show",
    "sql",
    "watch",
]

# Engines import numba and Arrow, so they are imported on first use: a program that only defines
# queries starts without them.
_ENGINES = {
    "Answer": "skyband.answers.answer",
    "Monitor": "skyband.embedded.monitor",
    "Position": "skyband.answers.answer",
    "Source": "skyband.embedded.sources",
    "explain": "skyband.engine.explain",
    "live": "skyband.embedded.live_view",
    "rank": "skyband.embedded.run",
    "show": "skyband.answers.show",
    "watch": "skyband.embedded.run",
}


def __getattr__(name: str) -> Any:
    if name in _ENGINES:
        value = getattr(import_module(_ENGINES[name]), name)
        globals()[name] = value
        return value
    if name in ("plot", "sql"):  # modules of extras, found without an import of their own
        return import_module(f"skyband.{name}")
    raise AttributeError(f"module 'skyband' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
