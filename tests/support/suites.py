"""Which algorithms run in the shared suites, and with which settings: all that are registered.

Every suite takes its parameters from ``cases``; ``test_suites.py`` fails if a suite leaves out an
algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

from skyband import registry
from support import approximate, conformance

Option = TypeVar("Option")

_SKETCH = {"capacity": 3, "cells": 6, "options": {"raw_rows": 10}}

EXTRA: dict[str, dict[str, Any]] = {
    **approximate.EXTRA,
    **dict.fromkeys(("fss", "fsp", "fsw", "fsw-r", "fsw-f"), _SKETCH),
    **conformance.NEEDED,
    "ss": {name: value for name, value in _SKETCH.items() if name != "cells"},
}
"""Settings that an algorithm needs, or that make it drop something even on few rows."""

REFUSED = {"fsw-f": ("weight",)}
"""Settings that an algorithm refuses."""


def settings_of(kind: str, algorithm: str, number: int) -> dict[str, Any]:
    """The numbered settings of a kind of query, adapted to an algorithm."""
    own = {"algorithm": algorithm, "options": conformance.OPTIONS.get(algorithm, {})}
    chosen = conformance.SETTINGS[kind][number] | own | EXTRA.get(algorithm, {})
    return {n: value for n, value in chosen.items() if n not in REFUSED.get(algorithm, ())}


def cases() -> list[Any]:
    """(kind, algorithm, number of its settings) for every registered algorithm."""
    return [
        pytest.param(kind, algorithm, number, id=f"{kind}-{algorithm}-{number}")
        for kind in registry.kinds()
        for algorithm in registry.algorithms(kind)
        for number in range(len(conformance.SETTINGS[kind]))
    ]


def in_turn(kind: str, algorithm: str, number: int, options: Sequence[Option]) -> list[Option]:
    """The options that a case runs with: all with an algorithm's first settings, else one of them.

    So every algorithm runs with all of them, and so do all settings of a kind together.
    """
    if number == 0:
        return list(options)
    return [options[(number + registry.algorithms(kind).index(algorithm)) % len(options)]]


def examples(kind: str, total: int, most: int) -> int:
    """How many random streams one case reads.

    The total for an algorithm is spread over its settings, of which some kinds have many.
    """
    return min(most, -(-total // len(conformance.SETTINGS[kind])))


def registered() -> set[tuple[str, str]]:
    """Every algorithm, with its kind."""
    return {(kind, name) for kind in registry.kinds() for name in registry.algorithms(kind)}


def pairs_of(test: Any) -> set[tuple[str, str]]:
    """The (kind, algorithm) pairs that a test runs with."""
    found = set()
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize" and tuple(mark.args[0])[:1] == ("kind",):
            found |= {tuple(getattr(each, "values", each)[:2]) for each in mark.args[1]}
    return found


def is_exact(kind: str, algorithm: str) -> bool:
    return bool(registry.load(kind, algorithm).exact)
