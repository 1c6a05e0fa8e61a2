"""Queries and streams for windows without a size."""

from __future__ import annotations

from typing import Any

import pytest

from skyband import registry
from support import conformance, streams

MORE = {
    "HeavyHitters": [
        {"k": 2, "item": "item", "weight": "weight", "time": "ts", "capacity": 3},
        {"k": 1, "item": ("item", "kind"), "time": "ts", "by": ("g",)},
    ]
}


MODES = ("best", "latest")
"""Kinds of ``distinct``, of which settings take turns."""


def settings_of(kind: str, name: str = "") -> list[dict[str, Any]]:
    every = [*conformance.SETTINGS[kind], *MORE.get(kind, [])]
    found = [each for each in every if each.get("largest", True)]
    if not name.endswith("-distinct"):
        return found
    turns = enumerate(found)
    return [each | {"id": "price", "distinct": MODES[turn % 2]} for turn, each in turns]


def cases(sort: str) -> list[Any]:
    """Every algorithm for a sort of windows, with all settings of its kind."""
    return [
        pytest.param(kind, name, number, id=f"{kind}-{name}-{number}")
        for kind in registry.kinds()
        for name in registry.algorithms(kind, sort)
        for number in range(len(settings_of(kind)))
    ]


def positive(stream: streams.Stream) -> streams.Stream:
    """The same stream without scores below 0, which cannot decay."""
    rows = [row | {"score": abs(row["score"])} for row in stream.rows]
    kinds = {field.name: field.type for field in stream.table.schema}
    return streams.from_rows(rows, kinds, stream.cuts)
