"""Colours, axes and labels that all pictures share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from skyband.errors import EngineError, how_to_install
from skyband.plot.frames import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#222222"
GREY = "#8a8a8a"
FAINT = "#d5d5d5"

# Okabe and Ito's colours without yellow, which is too light on white. Hues repeat with other lines.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_LINES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)))
_MARKS = ("o", "s", "^", "D", "v", "P", "X")

Look = dict[str, Any]


def look(number: int) -> Look:
    """Colour, line and mark of the n-th item; the first seven differ in colour and mark."""
    lap, place = divmod(number, len(_COLOURS))
    return {
        "color": _COLOURS[place],
        "linestyle": _LINES[lap % len(_LINES)],
        "marker": _MARKS[place],
    }


def require_matplotlib() -> None:
    """Raise EngineError if matplotlib is not installed."""
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError as missing:
        raise EngineError(
            f"plots need {missing.name}, which is not installed: {how_to_install('plots')}"
        ) from missing


def axes_of(ax: Axes | None, height: float = 4.5) -> Axes:
    """The axes to draw into; a new figure if none were given."""
    if ax is not None:
        return ax
    require_matplotlib()
    from matplotlib import pyplot as plt

    _, made = plt.subplots(figsize=(8, height), layout="constrained")
    return made


def outline(ax: Axes, title: str | None, grid: str = "y", window: str | None = None) -> None:
    """A quiet frame: no box, a light grid, the title on the left, which window on the right."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(GREY)
    ax.tick_params(colors=INK, labelsize="small", length=3, color=GREY)
    ax.grid(axis=grid, color=FAINT, linewidth=0.6)  # type: ignore[arg-type]
    ax.set_axisbelow(True)
    if title:
        ax.set_title(title, loc="left", fontsize="medium", color=INK)
    if window:
        ax.set_title(window, loc="right", fontsize="small", color=GREY)


def time_axis(ax: Axes, ends: Sequence[Any]) -> None:
    """The ends of windows along x: as moments in their own zone, or as whole numbers."""
    from matplotlib import dates, ticker

    moments: Any = dates  # without types
    ax.set_xlabel("end of the window", fontsize="small", color=GREY)
    if ends and isinstance(ends[0], datetime):
        zone = ends[0].tzinfo
        locator = moments.AutoDateLocator(tz=zone, minticks=4, maxticks=11)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(moments.ConciseDateFormatter(locator, tz=zone))
        return
    ax.xaxis.set_major_locator(ticker.MaxNLocator(8, integer=True))
    ax.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))


def value_axis(
    ax: Axes, which: str, name: str | None, unit: str | None = None, more: str = ""
) -> None:
    """Numbers with a prefix, 12 k, 3.4 M; bytes as 12 kB, other units beside the name."""
    from matplotlib import ticker

    axis = ax.xaxis if which == "x" else ax.yaxis
    size = unit if unit == "bytes" else None
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: short(value, size)))
    axis.set_minor_formatter(ticker.NullFormatter())
    said = name or ""
    if unit is not None and size is None and not said.endswith(unit):
        said += f" in {unit}"
    axis.set_label_text(f"{said} ({more})" if more else said, fontsize="small", color=GREY)


def fit_scale(ax: Axes, which: str, values: Sequence[float]) -> None:
    """A logarithmic axis where values span more than two decades."""
    most, least = max(values), min((v for v in values if v > 0), default=0.0)
    if min(values) < 0 or not least or most / least <= 100:
        return
    set_scale = ax.set_xscale if which == "x" else ax.set_yscale
    if min(values) > 0:
        set_scale("log")
    else:
        set_scale("symlog", linthresh=least)


def end_label(
    ax: Axes, x: Any, y: float, text: str, color: str, lift: float = 0.0, side: str = "left"
) -> None:
    """A text beside the end of a line or bar, ``lift`` points above it; ``side`` touches it."""
    away = 7 if side == "left" else -7
    ax.annotate(
        text, (x, y), xytext=(away, lift), textcoords="offset points", va="center", ha=side,
        fontsize="small", color=_darker(color), annotation_clip=False, path_effects=_edge(),
    )  # fmt: skip


def inside_label(ax: Axes, x: Any, y: float, text: str, color: str, side: str) -> None:
    """A text on a coloured area, with a white edge so that it can be read on any colour."""
    ax.annotate(
        text, (x, y), ha=side, va="center", fontsize="small", color=_darker(color),
        path_effects=_edge(),
    )  # fmt: skip


def spread(places: Sequence[float], gap: float) -> list[float]:
    """The same places, moved apart so that neighbours are at least ``gap`` from each other.

    >>> spread([1.0, 1.1, 5.0], 1.0)
    [0.55, 1.55, 5.0]
    """
    order = sorted(range(len(places)), key=lambda i: places[i])
    runs: list[list[int]] = []
    centres: list[float] = []
    for i in order:
        runs.append([i])
        centres.append(places[i])
        while len(runs) > 1:
            room = gap * (len(runs[-1]) + len(runs[-2])) / 2
            if centres[-1] - centres[-2] >= room:
                break
            late = runs.pop()
            centres.pop()
            runs[-1] += late
            centres[-1] = sum(places[j] for j in runs[-1]) / len(runs[-1])
    moved = list(places)
    for run, centre in zip(runs, centres, strict=True):
        for number, i in enumerate(run):
            moved[i] = round(centre + (number - (len(run) - 1) / 2) * gap, 12)
    return moved


def tell_nothing(ax: Axes) -> None:
    """What a picture without any row shows."""
    ax.text(
        0.5, 0.5, "no window has any rows", transform=ax.transAxes, ha="center", color=GREY
    )  # fmt: skip
    ax.set_xticks([])
    ax.set_yticks([])


def _edge() -> list[Any]:
    """A white edge around text, so that it can be read across lines and points."""
    from matplotlib import patheffects

    return [patheffects.withStroke(linewidth=2.5, foreground="white")]


def _darker(color: str) -> tuple[float, float, float]:
    """A colour that can be read as text on white."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(color)
    light = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    factor = min(1.0, 0.36 / light) if light else 1.0
    return red * factor, green * factor, blue * factor
