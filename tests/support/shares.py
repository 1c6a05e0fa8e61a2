"""In which order two workers of pytest-xdist run the tests: by family of queries.

With ``--dist worksteal`` each worker starts with one half of the tests. Most of a first run is
compiling, and a family has its own kernels; so each half starts with its own families, and kernels
are compiled once. Tests of no family come last in both halves. They need few kernels, so a worker
that is done early can take them from the other one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")

# Families by the name of their queries, in a test's parameters, or of their folder.
_FAMILIES = {
    "uncertain": "UncertainTopK",
    "fused": "FusedTopK",
    "topk": "TopK",
    "frequency": "HeavyHitters",
    "skyline": "SkylineJoin|Skyline",
}
_NAMES = re.compile("|".join(f"(?P<{family}>{kinds})" for family, kinds in _FAMILIES.items()))

# Those of each half, so that both take about the same time.
FIRST = ("topk", "uncertain")
SECOND = ("fused", "frequency", "skyline")


def family_of(nodeid: str) -> str | None:
    """The family whose kernels a test needs most; None if it is of no family."""
    path, _, rest = nodeid.partition("::")
    _, _, parameters = rest.partition("[")
    if named := _NAMES.search(parameters):
        return named.lastgroup
    return next((family for family in _FAMILIES if family in re.split(r"[/_.]", path)), None)


def in_two(items: Sequence[Item], key: Callable[[Item], str]) -> list[Item]:
    """The tests in an order whose first half needs other kernels than the second."""
    of_family: dict[str | None, list[Item]] = {}
    for item in items:
        of_family.setdefault(family_of(key(item)), []).append(item)
    first, second = (
        [item for family in half for item in of_family.get(family, [])] for half in (FIRST, SECOND)
    )
    others = of_family.get(None, [])
    room = min(max(0, len(items) // 2 - len(first)), len(others))
    return [*first, *others[:room], *second, *others[room:]]
