"""What a query may ask besides its kind: a filter, further columns, shared ranks, a computed score.

Also windows without a size, which fewer algorithms answer.
"""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

import oracle
from fuzz import values
from fuzz.values import Column
from skyband import registry

Shapes = dict[str, dict[str, Column]]

FILTERED: tuple[tuple[pa.DataType, tuple[Any, ...]], ...] = (
    (pa.string(), ("", "web", "dns", None)),
    (pa.dictionary(pa.int8(), pa.string()), ("", "web", "dns", None)),
    (pa.int64(), (-1, 0, 1, None)),
    (pa.bool_(), (True, False, None)),
)
"""Types of a column in ``where``, each with its values."""

NESTED: tuple[tuple[pa.DataType, tuple[Any, ...]], ...] = (
    (pa.list_(pa.int64()), ([], [1], [1, 2], None)),
    (pa.struct([("a", pa.int64())]), ({"a": 1}, {"a": 2}, None)),
)
"""Types that only ``keep`` takes."""

COMPUTED = ("{} * 2 - 1", "max({}, 0.5)", "abs({}) + {}", "{} / 4", "-{}", "sqrt(abs({}))")
WEIGHED = ("{} * 2", "min({}, 1)", "{} / 2 + 1")
UNSIZED = {
    "TopK": (oracle.DecayWindow, oracle.LandmarkWindow),
    "HeavyHitters": (oracle.DecayWindow, oracle.LandmarkWindow),
    "UncertainTopK": (oracle.LandmarkWindow,),
    "Skyline": (oracle.LandmarkWindow,),
}
"""Windows without a size, by kind."""


def unsized_window(rng: random.Random, kind: str, step: int, integer: bool) -> Any:
    """A decay or landmark window; its landmark is near the first rows where times are integers."""
    slide, late = rng.choice((1, 2, 5, 12)) * step, rng.choice((0, 0, 2, 6)) * step
    shift = rng.choice((0, 0, -3, 1)) * step
    if rng.choice(UNSIZED[kind]) is oracle.DecayWindow:
        # Counts are sums, which are the same in any order only if each weight is a power of two.
        half_life = step if kind == "HeavyHitters" else rng.choice((1, 2, 3, 8, 50)) * step
        return oracle.DecayWindow(half_life, slide, late, shift)
    since = rng.choice((None, 5, 1_000_005)) if integer else None
    return oracle.LandmarkWindow(slide, since, late, shift)


def fit(rng: random.Random, window: Any, settings: dict[str, Any], columns: dict[str, Any]) -> None:
    """Leave out what cannot be asked over a window without a size."""
    settings["algorithm"] = None
    for name in ("epsilon", "delta", "options", "capacity", "cells", "ratio", "filter_bits"):
        settings.pop(name, None)
    if "score" in settings and "probability" not in settings:
        settings["distinct"] = rng.choice((None, "best", "latest")) if "id" in settings else None
    if isinstance(window, oracle.DecayWindow):
        settings.pop("largest", None)
        if settings.get("ties") == "all":
            settings["ties"] = "share"
            settings.pop("most", None)
    if isinstance(window, oracle.DecayWindow) and "score" in settings:
        scores = (0.0, 0.5, 1.0, 2.0, 1e6, 1_000_000.1)
        bad = (None, -0.5, float("nan"))
        columns[settings["score"]] = Column(pa.float64(), lambda rng: rng.choice(scores), bad)


def add(
    rng: random.Random, kind: str, settings: dict[str, Any], shapes: Shapes, taken: set[str]
) -> None:
    """Ask for more; the columns that this needs are added to the shapes of the sources."""
    exact = settings["algorithm"] is None or bool(registry.load(kind, settings["algorithm"]).exact)
    columns = next(iter(shapes.values()))
    if rng.random() < 0.25:
        _where(rng, settings, columns, taken)
    if kind in ("TopK", "UncertainTopK") and rng.random() < 0.2:
        _compute(rng, "score", COMPUTED, settings, columns, taken)
    if kind == "HeavyHitters" and settings.get("weight") and rng.random() < 0.2:
        _compute(rng, "weight", WEIGHED, settings, columns, taken)
    if kind in ("TopK", "UncertainTopK", "HeavyHitters") and exact and rng.random() < 0.2:
        _keep(rng, settings, columns, taken)
    if kind in ("TopK", "HeavyHitters") and exact and rng.random() < 0.3:
        _tie(rng, settings)
    if kind == "UncertainTopK":
        settings["largest"] = rng.random() < 0.7
    if kind == "FusedTopK" and settings["algorithm"] is None and rng.random() < 0.6:
        settings["repeats"] = rng.choice(("max", "latest", "mean"))
        settings.pop("options", None)
    if kind == "FusedTopK" and exact and rng.random() < 0.3:
        settings["parts"] = not {*settings["streams"]} & {settings["id"], *settings["by"]}


def counts(row: oracle.Row, settings: dict[str, Any]) -> bool:
    """Does ``where`` let this row through?"""
    return oracle.counts(row, settings.get("where", {}))


def _tie(rng: random.Random, settings: dict[str, Any]) -> None:
    if settings["algorithm"] in (None, "exact") and "ties" not in settings:
        settings["ties"] = rng.choice(("share", "all"))
    if settings.setdefault("ties", "share") == "all":
        settings["most"] = rng.choice((None, max(settings["k"], 9), settings["k"] + 9))


def _where(
    rng: random.Random, settings: dict[str, Any], columns: dict[str, Column], taken: set[str]
) -> None:
    kind, found = rng.choice(FILTERED)
    name = values.name(rng, taken)
    columns[name] = Column(kind, lambda rng: rng.choice(found))
    known = [value for value in found if value is not None]
    wanted: Any = rng.choice(known) if rng.random() < 0.5 else rng.sample(known, 2)
    settings["where"] = {name: wanted}


def _keep(
    rng: random.Random, settings: dict[str, Any], columns: dict[str, Column], taken: set[str]
) -> None:
    names = [values.name(rng, taken) for _ in range(rng.choice((1, 1, 2)))]
    for name in names:
        if rng.random() < 0.3:
            kind, found = rng.choice(NESTED)
            columns[name] = Column(kind, lambda rng, found=found: rng.choice(found))  # type: ignore[misc]
        else:
            columns[name] = Column(*values.key_type(rng))
    settings["keep"] = tuple(names)


def _compute(
    rng: random.Random,
    role: str,
    texts: tuple[str, ...],
    settings: dict[str, Any],
    columns: dict[str, Column],
    taken: set[str],
) -> None:
    """Compute a column from another, whose sums and products are exact."""
    columns.pop(settings[role])
    name = f"c{rng.randrange(100, 200)}"
    taken.add(name)
    steps = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
    columns[name] = Column(pa.float64(), lambda rng: rng.choice(steps), (None, float("nan")))
    settings[role] = rng.choice(texts).replace("{}", name)
