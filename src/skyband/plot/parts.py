"""The parts of pictures: lines, layers, labels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from skyband.errors import QueryError, SchemaError
from skyband.plot.frames import Frame, Spot, Window
from skyband.plot.style import FAINT, GREY, end_label, inside_label, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "RESTS",
    "deepest_rank",
    "faded",
    "full_name",
    "label_layers",
    "label_past_winners",
    "label_points",
    "layers_of",
    "lines_of_ranks",
    "stays_of",
    "steps_of",
    "two_columns",
    "until_text",
]

_NOT_SHOWN, _OTHERS = "not shown", "others shown"
RESTS = {_NOT_SHOWN: FAINT, _OTHERS: GREY}
"""The layers that stand for several items, and their colours."""


def full_name(group: str, label: str) -> str:
    """Group and label in one text."""
    return f"{group} · {label}" if group else label


def faded() -> dict[str, Any]:
    """The look of items that the last window does not show."""
    return {"color": FAINT, "linewidth": 1, "marker": "o", "markersize": 3, "zorder": 1.5}


def deepest_rank(frame: Frame) -> int:
    """The last rank that any window has."""
    return max((spot.rank or 1 for w in frame.windows for spot in w.spots), default=1)


def lines_of_ranks(frame: Frame, top: int) -> dict[tuple[str, str], list[float]]:
    """The rank of each item at every window, NaN where it is not among the best."""
    lines: dict[tuple[str, str], list[float]] = {}
    for number, window in enumerate(frame.windows):
        for spot in window.spots:
            if spot.rank is not None and spot.rank <= top:
                blank = [math.nan] * len(frame.windows)
                lines.setdefault((spot.group, spot.label), blank)[number] = float(spot.rank)
    return lines


def label_past_winners(
    ax: Axes, ends: list[Any], base: float, lines: dict[str, list[float]], most: int = 5
) -> None:
    """Name the items that were first for at least two windows and have left since."""
    first = {label: [i for i, y in enumerate(ys) if y == 1] for label, ys in lines.items()}
    often = sorted((n for n in first if len(first[n]) > 1), key=lambda n: -len(first[n]))
    taken: list[int] = []
    for label in often:
        middle = first[label][len(first[label]) // 2]
        if len(taken) < most and all(abs(middle - other) * 8 > len(ends) for other in taken):
            taken.append(middle)
            ax.annotate(
                label, (ends[middle], base + 1), xytext=(0, 5), textcoords="offset points",
                ha="center", va="bottom", fontsize="x-small", color=GREY, annotation_clip=False,
            )  # fmt: skip


def until_text(window: Window) -> str:
    """Which window a picture of one window shows."""
    end = window.end
    return (
        f"window until {end:,}" if isinstance(end, int) else f"window until {end:%Y-%m-%d %H:%M:%S}"
    )


def layers_of(frame: Frame, top: int) -> dict[str, list[float]]:
    """The values of the items with the most, then of all others, then what no answer shows."""
    sums: dict[str, float] = {}
    for spot in (spot for window in frame.windows for spot in window.spots):
        sums[spot.name] = sums.get(spot.name, 0.0) + (spot.value or 0.0)
    names = sorted(sums, key=lambda name: -sums[name])
    layers = {name: [0.0] * len(frame.windows) for name in names[:top]}
    others, rest = [0.0] * len(frame.windows), [0.0] * len(frame.windows)
    for number, window in enumerate(frame.windows):
        for spot in window.spots:
            into = layers.get(spot.name, others)
            into[number] += spot.value or 0.0
        if frame.value == "count" and window.total is not None:
            shown = sum(spot.value or 0.0 for spot in window.spots)
            rest[number] = max(0.0, float(window.total) - shown)
    if any(others):
        layers[_OTHERS] = others
    if any(rest):
        layers[_NOT_SHOWN] = rest
    return layers


def label_layers(
    ax: Axes, ends: list[Any], layers: dict[str, list[float]], colors: list[str], highest: float
) -> None:
    """Names at the right end; a layer that is almost gone there is named where it is thickest."""
    at_end: list[tuple[str, str, float]] = []
    inside: list[tuple[int, float]] = []
    below = [0.0] * len(ends)
    for (name, values), color in zip(layers.items(), colors, strict=True):
        ink = GREY if color == FAINT else color
        if values[-1] > 0.01 * highest:
            at_end.append((name, ink, below[-1] + values[-1] / 2))
        else:
            middles = [low + value / 2 for low, value in zip(below, values, strict=True)]
            best = _free_place(values, middles, inside, highest)
            if best is not None:
                inside.append((best, middles[best]))
                inside_label(ax, ends[best], middles[best], name, ink, "center" if best else "left")
        below = [low + value for low, value in zip(below, values, strict=True)]
    places = spread([y for _, _, y in at_end], highest * 0.065)
    for (name, ink, _), y in zip(at_end, places, strict=True):
        end_label(ax, ends[-1], y, name, ink)


def _free_place(
    values: list[float], middles: list[float], taken: list[tuple[int, float]], highest: float
) -> int | None:
    """Where a layer is thickest and no other label stands; None if it is too thin everywhere."""
    for i in sorted(range(len(values)), key=lambda i: -values[i]):
        if values[i] < 0.04 * highest:
            return None
        far = (abs(i - at) * 6 > len(values) or abs(middles[i] - y) > 0.07 * highest
               for at, y in taken)  # fmt: skip
        if all(far):
            return i
    return None


def two_columns(frame: Frame, x: str | None, y: str | None) -> tuple[str, str]:
    """The columns to draw a skyline over: those asked for, otherwise the first ones."""
    free = [n for n in (*frame.prefer, *frame.columns) if n not in (x, y)]
    if len(free) < (x is None) + (y is None):
        raise QueryError("a skyline is drawn over two columns of numbers; name them with x= and y=")
    x = x if x is not None else free.pop(0)
    y = y if y is not None else free.pop(0)
    for name in (x, y):
        if name not in (*frame.prefer, *frame.columns):
            raise SchemaError(
                f"column {name!r} is missing; the columns are: {', '.join(frame.columns)}"
            )
    return x, y


def steps_of(points: list[tuple[Any, Any]], x: str) -> tuple[list[Any], list[Any]]:
    """Corners of the line between what the skyline dominates and what it does not."""
    xs, ys = [points[0][0]], [points[0][1]]
    for px, py in points[1:]:
        # Between two points, the worse x goes with the worse y.
        corner = (px, ys[-1]) if x == "min" else (xs[-1], py)
        xs += [corner[0], px]
        ys += [corner[1], py]
    return xs, ys


def label_points(
    ax: Axes, spots: tuple[Spot, ...], x: str, y: str, color: str, most: int = 12
) -> None:
    """Names of the points, where there are few enough to be read."""
    if len(spots) > most or any(str(spot.row.get(x)) in spot.label for spot in spots):
        return
    ax.margins(0.08)
    ax.autoscale_view()
    pixels = ax.transData.transform([(float(spot.row[x]), float(spot.row[y])) for spot in spots])
    height = 1.5 * 10 * ax.figure.dpi / 72  # a line of text
    places = spread([float(py) for _, py in pixels], height)
    for spot, (_, py), place in zip(spots, pixels, places, strict=True):
        lift = (place - py) * 72 / ax.figure.dpi
        end_label(ax, spot.row[x], spot.row[y], spot.label, color, lift)


def stays_of(frame: Frame) -> dict[str, list[tuple[Any, Any, int | None]]]:
    """From when to when each item was in the answer, one piece per window, with its rank."""
    stays: dict[str, list[tuple[Any, Any, int | None]]] = {}
    ends = [window.end for window in frame.windows]
    for number, window in enumerate(frame.windows):
        until = ends[number + 1] if number + 1 < len(ends) else window.end + frame.step
        for spot in window.spots:
            stays.setdefault(spot.name, []).append((window.end, until, spot.rank))
    return stays
