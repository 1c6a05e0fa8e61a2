"""Settings of a query as plain JSON values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import date, timedelta
from typing import Any

import numpy as np

from skyband.errors import QueryError
from skyband.window import (
    CountWindow,
    DecayWindow,
    LandmarkWindow,
    SideWindows,
    TimeWindow,
    Window,
    parse_duration,
)

WINDOWS: dict[str, Any] = {
    "time": TimeWindow,
    "count": CountWindow,
    "decay": DecayWindow,
    "landmark": LandmarkWindow,
}
"""Every kind of window, by its name in a serialised query."""
_NOT_GIVEN = (("zone", None), ("revise", None))
"""Not written, so that windows of states from before there were these are the same."""
_SIDES = "sides"
"""The name of a window per source in a serialised query."""
FUNCTION = "a function of your own"
"""The key of a function in a serialised query; its value is the function's name, for display."""
IDENTITY = "identity"
"""The key of a function's identity, next to its name."""


def plain(name: str, value: Any) -> Any:
    """A setting as plain values; raises QueryError if it has no such form."""
    if isinstance(value, CountWindow):
        return {"count": {"size": int(value.size), "slide": int(value.panes.slide)}}
    for kind, window in WINDOWS.items():
        if isinstance(value, window):
            given = {f.name: getattr(value, f.name) for f in fields(window) if f.init}
            return {kind: {n: plain(n, v) for n, v in given.items() if (n, v) not in _NOT_GIVEN}}
    if isinstance(value, SideWindows):
        return {_SIDES: {source: plain(name, window) for source, window in value.items()}}
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (timedelta, np.timedelta64)):
        return f"{parse_duration(value, name)} us"
    if isinstance(value, Mapping):
        return {str(key): plain(name, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(name, item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "item"):
        return value.item()
    raise QueryError(f"{name}={value!r} cannot be serialised; use plain numbers and strings")


def window_of(spec: Mapping[str, Any]) -> Window:
    """The window that ``plain`` wrote."""
    ((kind, settings),) = spec.items()
    if kind == _SIDES:
        sides: dict[str, Any] = {source: window_of(each) for source, each in settings.items()}
        return SideWindows(sides)
    window: Window = WINDOWS[kind](**settings)
    return window


def name_of(function: Any) -> str:
    """The name of a user's function, for display."""
    return str(getattr(function, "__qualname__", repr(type(function))))


def is_function(written: Any) -> bool:
    """Whether plain values stand for a user's function."""
    return isinstance(written, Mapping) and FUNCTION in written
