"""Random queries of each kind, and the columns that they read."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa

from fuzz import values
from fuzz.values import Column
from skyband import registry
from skyband.query.topk import ALL_TIES, DISTINCT

CHOICES: dict[str, tuple[str | None, ...]] = {
    kind: (None, *registry.algorithms(kind)) for kind in registry.kinds()
}
"""The algorithms that queries are drawn for; reduce it to test only some of them."""

FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"filter": "stationary"},
    {"filter": "time"},
    {"filter": "none-known"},
    {"filter": "off"},
    {"preselect": True},
)
SKETCHES = ("ss", "fss", "fsp", "fsw", "fsw-r", "fsw-f")


def _number(rng: random.Random) -> Column:
    kind, make = values.number_type(rng)
    bad: tuple[Any, ...] = (None, float("nan")) if pa.types.is_floating(kind) else (None,)
    return Column(kind, make, bad)


def _key(rng: random.Random, nulls: bool = False) -> Column:
    kind, make = values.key_type(rng)
    return Column(kind, make, () if nulls else (None,))


def _algorithm(rng: random.Random, kind: str) -> str | None:
    return rng.choice(CHOICES[kind])


def _by(rng: random.Random, columns: dict[str, Column], taken: set[str]) -> tuple[str, ...]:
    found = []
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        name = values.name(rng, taken)
        if rng.random() < 0.2:
            columns[name] = Column(pa.string(), lambda rng: rng.choice(("", "g", "h", None)))
        else:
            kind, make = values.key_type(rng)
            few = [make(rng) for _ in range(3)]
            columns[name] = Column(kind, lambda rng, few=few: rng.choice(few))  # type: ignore[misc]
        found.append(name)
    return tuple(found)


Shaped = tuple[dict[str, Any], dict[str, dict[str, Column]]]


def _topk(rng: random.Random, columns: dict[str, Column], taken: set[str], several: bool) -> Shaped:
    settings = _scored(rng, columns, taken)
    settings["k"] = rng.choice((1, 2, 3, 20, 1000))
    settings["largest"] = rng.random() < 0.7
    settings["algorithm"] = _algorithm(rng, "TopK")
    if settings["algorithm"] == "pabf":
        settings["epsilon"] = rng.choice((0.25, 1.0, 100.0))
        settings["delta"] = rng.choice((1.0, 0.99, 0.5, 1e-9))
        settings["options"] = rng.choice(FILTERS)
    modes: dict[Any, Any] = {algorithm: mode for mode, algorithm in DISTINCT.items()}
    if settings["algorithm"] in ALL_TIES:
        settings["ties"] = "all"
        modes[ALL_TIES[1]] = rng.choice(("best", "latest"))
    if settings["algorithm"] in modes:
        settings["distinct"] = modes[settings["algorithm"]]
        if "id" not in settings:
            settings["id"] = values.name(rng, taken)
            columns[settings["id"]] = _key(rng)
    return settings, {"": columns}


def _scored(rng: random.Random, columns: dict[str, Column], taken: set[str]) -> dict[str, Any]:
    """Settings that all queries over single rows share."""
    settings: dict[str, Any] = {"score": values.name(rng, taken)}
    columns[settings["score"]] = _number(rng)
    if rng.random() < 0.7:
        settings["id"] = values.name(rng, taken)
        columns[settings["id"]] = _key(rng)
    settings["by"] = _by(rng, columns, taken)
    return settings


def _heavy(
    rng: random.Random, columns: dict[str, Column], taken: set[str], several: bool
) -> Shaped:
    items = tuple(values.name(rng, taken) for _ in range(rng.choice((1, 1, 2))))
    columns |= {item: _key(rng) for item in items}
    k = rng.choice((1, 2, 3, 20))
    settings: dict[str, Any] = {"k": k, "item": items[0] if len(items) == 1 else items}
    settings["algorithm"] = algorithm = _algorithm(rng, "HeavyHitters")
    sketch = algorithm in SKETCHES
    if algorithm != "fsw-f" and rng.random() < 0.5:
        settings["weight"] = values.name(rng, taken)
        columns[settings["weight"]] = _weight(rng)
    settings["by"] = _by(rng, columns, taken)
    if sketch and rng.random() < 0.8:
        settings["capacity"] = k + rng.choice((0, 1, 3, 10))
        for name in set(registry.takes("HeavyHitters", str(algorithm))) - {"capacity"}:
            if rng.random() < 0.3:
                settings[name] = rng.choice((1, 2, 3, 5, 8))
    return settings, {"": columns}


def _weight(rng: random.Random) -> Column:
    """Weights whose sums are exact in any order, so that ties stay ties; some are 0."""
    low = rng.choice((0, 1))
    if rng.random() < 0.5:
        kind = rng.choice(values.INTEGERS)
        signed = pa.types.is_signed_integer(kind)
        return Column(kind, lambda rng: rng.randint(low, 4), (None, -1) if signed else (None,))
    bad = (None, -0.5, float("nan"), float("inf"))
    return Column(rng.choice(values.FLOATS), lambda rng: rng.randint(low, 4) / 2, bad)


def _uncertain(
    rng: random.Random, columns: dict[str, Column], taken: set[str], several: bool
) -> Shaped:
    settings = _scored(rng, columns, taken)
    settings["k"] = rng.choice((1, 2, 3, 6))
    settings["algorithm"] = _algorithm(rng, "UncertainTopK")
    settings["probability"] = values.name(rng, taken)
    chances = (0.25, 0.5, 0.75, 1.0)
    bad = (None, 0.0, -0.5, 1.5, float("nan"))
    columns[settings["probability"]] = Column(pa.float64(), lambda rng: rng.choice(chances), bad)
    settings["semantics"] = rng.choice(("pk-topk", "pt-k", "u-kranks", "u-topk"))
    if settings["semantics"] == "pt-k":
        settings["threshold"] = rng.choice((0.1, 0.3, 0.5, 0.9))
    return settings, {"": columns}


def _fused(
    rng: random.Random,
    columns: dict[str, Column],
    taken: set[str],
    several: bool,
) -> Shaped:
    streams = tuple(rng.sample(("a", "b", "ü", " ", "🙂"), rng.choice((1, 2, 3))))
    key, value = values.name(rng, taken), values.name(rng, taken)
    columns[key] = _key(rng)
    steps = (0.0, 0.25, 0.5, 1.0)
    bad = (None, -0.25, 1.25, float("nan"), float("inf"))
    columns[value] = Column(pa.float64(), lambda rng: rng.choice(steps), bad)
    combine = rng.choice(("sum", "mean", "min", "max", "product", "weights", "own"))
    settings: dict[str, Any] = {
        "k": rng.choice((1, 2, 5)),
        "id": key,
        "value": value,
        "streams": streams,
        "stream": None,
        "combine": [rng.choice((0.0, 0.5, 2.0)) for _ in streams]
        if combine == "weights"
        else own_score
        if combine == "own"
        else combine,
        "recurrences": rng.choice((1, 1, 2, 3)),
        "returns": True,
        "algorithm": _algorithm(rng, "FusedTopK"),
        "by": _by(rng, columns, taken),
    }
    if settings["algorithm"] == "eaa-repeats":
        settings["repeats"] = rng.choice(("max", "latest"))
        settings["options"] = {"slack": rng.choice((0, 1, 3))}
    elif rng.random() < 0.3 and settings["algorithm"] != "reports":
        settings["options"] = {"kmax": settings["k"] + rng.choice((0, 1, 4))}
        if settings["algorithm"] in ("eaa", "eaa-approx"):
            settings["options"]["slack"] = rng.choice((0, 1, 3))
            settings["returns"] = rng.random() < 0.5
    estimates = settings["algorithm"] in (None, "sla", "eaa") and settings["returns"]
    if estimates and rng.random() < 0.15:
        settings["recurrences"] = "estimate"
    if several:
        return settings, dict.fromkeys(streams, columns)
    settings["stream"] = values.name(rng, taken)
    columns[settings["stream"]] = Column(pa.string(), lambda rng: rng.choice(streams), (None, "?"))
    return settings, {"": columns}


def own_score(scores: Any) -> Any:
    """A user's monotone function: the oracle passes one object's values, the engine many."""
    each = np.asarray(scores)
    return np.maximum(each[..., 0], 0.5) + 2 * each[..., -1]


def _skyline(
    rng: random.Random, columns: dict[str, Column], taken: set[str], several: bool
) -> Shaped:
    prefer = {}
    for number in range(rng.choice((1, 2, 3))):
        name = values.name(rng, taken)
        if number and rng.random() < 0.2:
            columns[name], prefer[name] = _key(rng), "diff"
        else:
            columns[name], prefer[name] = _number(rng), rng.choice(("min", "max"))
    settings: dict[str, Any] = {"prefer": prefer}
    if rng.random() < 0.5:
        settings["id"] = values.name(rng, taken)
        columns[settings["id"]] = _key(rng)
    settings["by"] = _by(rng, columns, taken)
    settings["algorithm"] = _algorithm(rng, "Skyline")
    return settings, {"": columns}


def _join(rng: random.Random, columns: dict[str, Column], taken: set[str], several: bool) -> Shaped:
    key = values.name(rng, taken)
    columns[key] = _key(rng)
    left, right = rng.sample(("left", "right", "ü", "l"), 2)
    shapes = {}
    prefer: dict[str, str] = {}
    for side in (left, right):
        shapes[side] = dict(columns)
        for _ in range(rng.choice((1, 2))):
            name = values.name(rng, taken)
            shapes[side][name], prefer[name] = _number(rng), rng.choice(("min", "max"))
    settings: dict[str, Any] = {"left": left, "right": right, "on": key, "prefer": prefer}
    settings["algorithm"] = _algorithm(rng, "SkylineJoin")
    return settings, shapes


SHAPES = {
    "TopK": _topk,
    "HeavyHitters": _heavy,
    "UncertainTopK": _uncertain,
    "FusedTopK": _fused,
    "Skyline": _skyline,
    "SkylineJoin": _join,
}
"""How a query of each kind is drawn; a new kind has to be added here (a test says so)."""
