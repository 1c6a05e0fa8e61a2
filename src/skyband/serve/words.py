"""What a query asks, in words for the head of its card."""

from __future__ import annotations

import re
from typing import Any

from skyband.query import Query
from skyband.window import CountWindow, DecayWindow, SideWindows, TimeWindow, Window


def asks(query: Query) -> str:
    """A query in a line.

    >>> import skyband as sb
    >>> asks(sb.HeavyHitters(k=3, item="host", weight="bytes", by="site", window=sb.CountWindow(9)))
    'Top 3 host by bytes, for each site · last 9 rows, every 9 rows'
    """
    spec = query.spec()
    per = f", for each {', '.join(query.groups)}" if query.groups else ""
    return f"{_wanted(query, spec)}{per} · {_over(query.window)}"


def _wanted(query: Query, spec: dict[str, Any]) -> str:
    largest, k = spec.get("largest", True), spec.get("k")
    top = f"{'Top' if largest else 'Lowest'} {k}"
    match spec["kind"]:
        case "HeavyHitters":
            what = spec["weight"] or "number of rows"
            what = f"{spec['aggregate']} of {what}" if spec["aggregate"] else what
            grown = f"growth of {what}" if spec["against"] else what
            return f"{top} {', '.join(query.key)} by {grown}"
        case "UncertainTopK":
            best = "highest" if largest else "lowest"
            return f"The {k} likeliest to be {best} by {spec['score']}"
        case "FusedTopK":
            return f"{top} over {', '.join(spec['streams'])}"
        case "TopK":
            return f"{top} by {spec['score']}"
    words = {"min": "low", "max": "high", "diff": "each"}
    wishes = ", ".join(f"{words[wish]} {name}" for name, wish in spec["prefer"].items())
    sides = f"{spec['left']} and {spec['right']}: " if "left" in spec else ""
    return f"Skyline of {sides}{wishes}"


def _over(window: Window) -> str:
    if isinstance(window, CountWindow):
        return f"last {window.size:,} rows, every {window.slide or window.size:,} rows"
    each = next(iter(window.values())) if isinstance(window, SideWindows) else window
    every = f", every {_plain(each.slide)}" if each.slide is not None else ""
    if isinstance(each, DecayWindow):
        return f"half-life of {each.half_life}{every}"
    if not isinstance(each, TimeWindow):
        return f"everything so far{every}"
    return f"{'last' if every else 'each'} {_plain(each.size)}{every}"


def _plain(size: Any) -> str:
    return f"{size:,}" if isinstance(size, int) else re.sub(r"^1 (?=[a-z]{3})", "", str(size))
