"""Makes queries and windows from settings, and says everything that is wrong with them.

A query refuses its settings with the first mistake it finds. To find the next one, the setting at
fault is replaced by a harmless sample, or left out, and the query is made once more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

from skyband.errors import QueryError
from skyband.query import Query
from skyband.query.base import KINDS
from skyband.query.checks import one_of
from skyband.window import CountWindow, DecayWindow, LandmarkWindow, TimeWindow, Window

__all__ = ["Problems", "read_query"]

T = TypeVar("T")
Problems = list[tuple[str, str]]
"""The table of each problem, such as ``source`` or ``queries.busiest``, and its text."""
_SAMPLES: Mapping[str, Any] = {
    **{name: name for name in ("score", "item", "id", "time", "probability", "value", "stream")},
    **{name: name for name in ("left", "right", "on")},
    "k": 1,
    "streams": ("one", "other"),
    "prefer": {"cost": "min", "gain": "max"},
}
_KINDS: dict[str, Any] = {"half_life": DecayWindow, "since": LandmarkWindow, "size": TimeWindow}


def read_query(table: str, told: Mapping[str, Any], problems: Problems) -> Query | None:
    """The query of a table; None, with all its problems noted, if it is wrong."""
    found: Problems = []
    kind = told.get("kind", "")
    try:
        one_of(f"[{table}] kind", kind, tuple(KINDS))
    except QueryError as problem:
        problems.append((table, str(problem)))
        _windows(f"{table}.window", told.get("window"), problems)
        return None
    cls = KINDS[kind]
    known = {each.name: each for each in fields(cls) if each.init}
    listed = ", ".join(sorted(known))
    given = {name: value for name, value in told.items() if name != "kind"}
    for name in [name for name in given if name not in known]:
        found.append((table, f"[{table}] has no key {name!r}; {kind} has {listed}"))
        del given[name]
    for name, each in known.items():
        if name not in given and name != "window" and _required(each):
            found.append((table, f"[{table}] needs {name!r}; {kind} has {listed}"))
            given[name] = _SAMPLES.get(name)
    window = _windows(f"{table}.window", given.get("window"), found)
    given["window"] = window or TimeWindow("1 hour")
    samples = {**_SAMPLES, "window": given["window"]}
    query, more = _tried(lambda settings: cls(**settings), given, samples)
    found += [(table, _about(table, text)) for text in more]
    problems += found
    return None if found else query


def _required(each: Field[Any]) -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def _about(table: str, text: str) -> str:
    """A problem that also says which of several queries it is about."""
    plain = text.startswith("[") or not table.startswith("queries.")
    return text if plain else f"[{table}] {text}"


def _tried(
    make: Callable[[dict[str, Any]], T], given: Mapping[str, Any], samples: Mapping[str, Any]
) -> tuple[T | None, list[str]]:
    """What can be made, with samples for settings at fault, and what was wrong with them."""
    left, found = dict(given), list[str]()
    while True:
        text = _problem(make, left)
        if text is None:
            return make(left), found
        if text in found:
            return None, found
        found.append(text)
        words = f" {text.replace(chr(39), ' ')} "
        for name in sorted(left, key=lambda each: f" {each} " not in words):
            mended = _without(left, name, samples)
            if mended != left and _problem(make, mended) != text:
                left = mended
                break
        else:
            return None, found


def _problem(make: Callable[[dict[str, Any]], Any], given: dict[str, Any]) -> str | None:
    try:
        make(given)
    except QueryError as problem:
        return str(problem)
    except TypeError as problem:  # a setting of a kind that nobody checks
        return str(problem).rsplit(") ", 1)[-1]
    return None


def _without(given: Mapping[str, Any], name: str, samples: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with a sample in place of one of them; without it, if there is none."""
    if name in samples:
        return {**given, name: samples[name]}
    return {each: value for each, value in given.items() if each != name}


# Windows ------------------------------------------------------------------------------------------


def _windows(
    table: str, told: Any, problems: Problems
) -> Window | Mapping[str, Window | None] | None:
    """A window, or a window per source: a table of tables."""
    if isinstance(told, Mapping) and told and all(isinstance(v, Mapping) for v in told.values()):
        found = {n: _window(f"{table}.{n}", each, problems) for n, each in told.items()}
        return None if None in found.values() else found
    return _window(table, told, problems)


def _window(table: str, told: Any, problems: Problems) -> Window | None:
    """A window with a size in time or rows, with a half-life, or since some moment."""
    where = f"[{table}]"
    if told is None:
        problems.append((table, f"{where} is missing; give at least its size"))
        return None
    if not isinstance(told, Mapping):
        plain = isinstance(told, str | int) and not isinstance(told, bool)
        size = json.dumps(told if plain else "10 minutes")
        text = f"{where} must be a table, such as window = {{ size = {size} }}, not {told!r}"
        problems.append((table, text))
        return None
    first = "count" if "count" in told else next((name for name in _KINDS if name in told), "size")
    names = (first, "slide") if first == "count" else (first, "slide", "lateness", "offset")
    other = " (or count, half_life or since in place of size)" if first == "size" else ""
    listed = f"its keys are {', '.join(names)}{other}"
    found = [f"{where} has no key {name!r}; {listed}" for name in told if name not in names]
    needed = names[: 1 if first in ("size", "count") else 2]
    missing = [name for name in needed if name not in told]
    found += [f"{where} needs a {name}; {listed}" for name in missing]
    given = {n: None if n == "since" and v == "first" else v for n, v in told.items() if n in names}
    if first == "count":
        given["size"] = given.pop("count")
    make: Any = CountWindow if first == "count" else _KINDS[first]
    window = None
    if not missing:
        whole = any(isinstance(value, int) for value in given.values())
        long = 1 << 40 if whole else "10000 days"
        samples = {"size": long, "half_life": long, "since": None}
        window, more = _tried(lambda settings: make(**settings), given, samples)
        found += [_about(table, text) for text in more]
    problems += [(table, text) for text in found]
    return None if found else window
