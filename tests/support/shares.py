"""In which order workers of pytest-xdist run the tests: two of them by family of queries.

With ``--dist worksteal`` each worker starts with one half of the tests. Most of a first run is
compiling, and a family has its own kernels; so each half starts with its own families, and kernels
are compiled once. Tests of no family come last in both halves. They need few kernels, so a worker
that is done early can take them from the other one. Tests on Spark find their kernels compiled, and
have more workers; there, only the long tests are spread.
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


def in_two(
    items: Sequence[Item],
    key: Callable[[Item], str],
    is_long: Callable[[Item], bool] = lambda _: False,
    group_of: Callable[[Item], str | None] = lambda _: None,
) -> list[Item]:
    """The tests in an order whose first half needs other kernels than the second.

    Each half starts with half of the long tests: one that came last would leave a worker idle.
    Long tests of one group stay together, because they share a server that takes long to start.
    """
    long = _dealt([item for item in items if is_long(item)], 2, group_of)
    of_family: dict[str | None, list[Item]] = {}
    for item in (item for item in items if not is_long(item)):
        of_family.setdefault(family_of(key(item)), []).append(item)
    first, second = (
        [item for family in half for item in of_family.get(family, [])] for half in (FIRST, SECOND)
    )
    others = of_family.get(None, [])
    first, second = [*long[0], *first], [*long[1], *second]
    room = min(max(0, len(items) // 2 - len(first)), len(others))
    return [*first, *others[:room], *second, *others[room:]]


def in_shares(
    items: Sequence[Item],
    workers: int,
    key: Callable[[Item], str],
    is_long: Callable[[Item], bool] = lambda _: False,
    group_of: Callable[[Item], str | None] = lambda _: None,
) -> list[Item]:
    """The tests in an order in which every worker starts with its share of the long ones.

    Groups stay together, as in ``in_two``.
    """
    if workers <= 2:
        return in_two(items, key, is_long, group_of)
    long = _dealt([item for item in items if is_long(item)], workers, group_of)
    short = in_two([item for item in items if not is_long(item)], key)
    found: list[Item] = []
    for worker in range(workers):
        size = (len(items) - len(found)) // (workers - worker)  # as xdist cuts them
        own = long[worker]
        room = max(0, size - len(own))
        found += [*own, *short[:room]]
        short = short[room:]
    return [*found, *short]


def _dealt(
    items: Sequence[Item], many: int, group_of: Callable[[Item], str | None]
) -> list[list[Item]]:
    """Tests in so many parts of about the same size, groups as a whole."""
    units: dict[object, list[Item]] = {}
    for number, item in enumerate(items):
        units.setdefault(group_of(item) or number, []).append(item)
    parts: list[list[Item]] = [[] for _ in range(many)]
    for unit in units.values():
        min(parts, key=len).extend(unit)
    return parts
