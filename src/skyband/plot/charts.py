"""The five pictures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.errors import QueryError, SchemaError
from skyband.plot.frames import Answers, Frame, PictureRow, PictureWindow, frame_of, short
from skyband.plot.style import (
    FAINT,
    GREY,
    INK,
    axes_of,
    end_label,
    fit_scale,
    inside_label,
    look,
    outline,
    spread,
    tell_nothing,
    time_axis,
    value_axis,
)
from skyband.query import Query

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The parts of pictures: lines, layers, labels ----------------------------------------------------


_NOT_SHOWN, _OTHERS = "not shown", "others shown"
RESTS = {_NOT_SHOWN: FAINT, _OTHERS: GREY}
"""The layers that stand for several items, and their colours."""


_FADED = {"color": FAINT, "linewidth": 1, "marker": "o", "markersize": 3, "zorder": 1.5}
"""The look of items that the last window does not show."""


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


def window_text(window: PictureWindow) -> str:
    """Which window a picture of one window shows."""
    edges = [each for each in (window.start, window.end) if each is not None]
    if any(isinstance(each, int) for each in edges):
        texts = [f"{each:,}" for each in edges]
    else:
        fine = "%Y-%m-%d %H:%M:%S" if any(each.second for each in edges) else "%Y-%m-%d %H:%M"
        texts = [f"{each:{fine}}" for each in edges]
    return f"window {' to '.join(texts)}" if len(texts) > 1 else f"window until {''.join(texts)}"


_GROUPS = 8
"""Groups that a picture draws; more could not be read."""


def drawn_groups(ax: Axes, frame: Frame, windows: tuple[PictureWindow, ...]) -> list[str]:
    """The groups to draw: those with most, if there are many; a note says how many are left out."""
    groups = frame.groups
    if len(groups) <= _GROUPS:
        return groups
    sums = dict.fromkeys(groups, 0.0)
    for spot in (spot for window in windows for spot in window.spots):
        sums[spot.group] += abs(spot.value or 0.0)
    ax.annotate(
        f"and {len(groups) - _GROUPS} smaller groups", (1, 0), xytext=(0, -34),
        xycoords="axes fraction", textcoords="offset points", ha="right", va="top",
        fontsize="small", color=GREY, annotation_clip=False,
    )  # fmt: skip
    return sorted(groups, key=lambda group: -sums[group])[:_GROUPS]


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


def label_points(ax: Axes, spots: tuple[PictureRow, ...], x: str, y: str, color: str) -> None:
    """Names of the points, those at the ends first; one that has no free place is left out."""
    ax.margins(0.08)
    ax.autoscale_view()
    order = sorted(spots, key=lambda spot: spot.row[x])
    order = [*order[:1], *order[:0:-1]]  # the least, then from the greatest on
    pixels = ax.transData.transform([(float(s.row[x]), float(s.row[y])) for s in order])
    point = ax.figure.dpi / 72
    taken = [(px - 4 * point, py - 4 * point, px + 4 * point, py + 4 * point) for px, py in pixels]
    for spot, (px, py) in zip(order, pixels, strict=True):
        wide, high = 5.6 * len(spot.label) * point, 12 * point
        for side, lift in (("left", 0), ("right", 0), ("left", 9), ("left", -9), ("right", 9)):
            low = px + 6 * point if side == "left" else px - 6 * point - wide
            box = (low, py + lift * point - high / 2, low + wide, py + lift * point + high / 2)
            if low > ax.bbox.x0 and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                end_label(ax, spot.row[x], spot.row[y], spot.label, color, lift, side)
                break


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    across = one[0] < other[2] and other[0] < one[2]
    return across and one[1] < other[3] and other[1] < one[3]


def stays_of(frame: Frame) -> dict[str, list[tuple[Any, Any, int | None]]]:
    """From when to when each item was in the answer, one piece per window, with its rank."""
    stays: dict[str, list[tuple[Any, Any, int | None]]] = {}
    ends = [window.end for window in frame.windows]
    for number, window in enumerate(frame.windows):
        until = ends[number + 1] if number + 1 < len(ends) else window.end + frame.step
        for spot in window.spots:
            stays.setdefault(spot.name, []).append((window.end, until, spot.rank))
    return stays


_BEFORE = 12
"""Windows before the one that is drawn, whose skylines are drawn in grey."""
_BETTER = {"min": "lower is better", "max": "higher is better"}


def bump(
    answers: Answers,
    *,
    ax: Axes | None = None,
    query: Query | None = None,
    top: int = 10,
    last: int | None = None,
    title: str | None = None,
) -> Axes:
    """Draw ranks over time: one line per id or item, labelled where it ends.

    Items in the last window have colours and labels; all others are grey, and those that were first
    for longest are labelled where they were. ``top`` is the number of ranks to draw and ``last``
    the number of windows (None for all). Groups are drawn below one another. ``query`` tells the
    columns of a table apart; without it, they are guessed from their order.
    """
    frame = frame_of(answers, query, last)
    if frame.windows and frame.at(None).spots and frame.at(None).spots[0].rank is None:
        raise QueryError("a skyline has no ranks to draw; use skyline, timeline or totals")
    many = max(1, min(_GROUPS, len(frame.groups)))
    deepest = max((spot.rank or 1 for w in frame.windows for spot in w.spots), default=1)
    ax = axes_of(ax, max(3.0, 1.4 + 0.32 * min(top, deepest) * many))
    outline(ax, title)
    groups = drawn_groups(ax, frame, frame.windows)
    if not groups:
        tell_nothing(ax)
        return ax
    final = frame.windows[-1]
    lines = lines_of_ranks(frame, top)
    ends = [window.end for window in frame.windows]
    shown = [(s.group, s.label) for s in final.spots if (s.rank or 0) <= top]
    ticks: list[tuple[float, str]] = []
    base = 0.0
    for group in groups:
        mine = {label: ys for (of, label), ys in lines.items() if of == group}
        depth = max(y for ys in mine.values() for y in ys if not math.isnan(y))
        coloured = [label for of, label in shown if of == group]
        order = sorted(mine, key=lambda label: label in coloured)  # colours above grey
        for label in order:
            own = look(coloured.index(label)) if label in coloured else _FADED
            name = f"{group} · {label}" if group else label
            ax.plot(ends, [base + y for y in mine[label]], label=name, **own)
        places = spread([base + mine[label][-1] for label in coloured], 0.45)
        for i, (label, y) in enumerate(zip(coloured, places, strict=True)):
            end_label(ax, ends[-1], y, label, look(i)["color"])
        if not group:
            past = {n: y for n, y in mine.items() if n not in coloured}
            label_past_winners(ax, ends, base, past)
        else:
            ax.annotate(
                group, (0, base + 0.45), xycoords=("axes fraction", "data"), fontsize="small",
                weight="bold", color=INK, va="center",
            )  # fmt: skip
        ticks += [(base + rank, str(rank)) for rank in range(1, int(depth) + 1)]
        base += depth + (1.2 if group else 0)
    ax.set_yticks([place for place, _ in ticks], [text for _, text in ticks])
    low = -0.1 if groups[0] else 0.4
    ax.set_ylim(base + (0.0 if groups[0] else 0.6), low)
    ax.set_ylabel("rank", fontsize="small", color=GREY)
    time_axis(ax, ends)
    return ax


def bars(
    answers: Answers,
    *,
    ax: Axes | None = None,
    query: Query | None = None,
    top: int = 20,
    end: Any = None,
    title: str | None = None,
) -> Axes:
    """Draw one window as bars, best on top, each labelled with its value.

    ``end`` chooses the window by its end; by default it is the last one with rows. The pale end of
    a bar is the error that an approximate count may have.
    """
    frame = frame_of(answers, query, None)
    window = frame.at(end)
    spots = [spot for spot in window.spots if spot.rank is None or spot.rank <= top]
    if spots and frame.value is None:
        raise QueryError("a skyline has no value to draw as bars; use skyline, timeline or totals")
    ax = axes_of(ax, max(2.2, 1.2 + 0.3 * len(spots)))
    outline(ax, title, grid="x", window=window_text(window) if spots else None)
    groups = drawn_groups(ax, frame, (window,))
    spots = sorted((s for s in spots if s.group in groups), key=lambda s: groups.index(s.group))
    if not spots:
        tell_nothing(ax)
        return ax
    places = range(len(spots))
    unit = frame.units.get(frame.value or "")
    values = [spot.value or 0.0 for spot in spots]
    errors = [spot.error for spot in spots]
    color = look(0)["color"]
    sure = [value - error for value, error in zip(values, errors, strict=True)]
    ax.barh(places, sure, color=color, height=0.72)
    if any(errors):
        ax.barh(places, errors, left=sure, color=color, alpha=0.35, height=0.72)
    for place, value in zip(places, values, strict=True):
        end_label(ax, max(value, 0.0), place, short(value, unit), INK)
    ax.set_yticks(places, [spot.name for spot in spots])
    ax.invert_yaxis()
    value_axis(ax, "x", frame.unit, unit)
    ax.margins(x=0.12)
    if not any(values):
        ax.set_xlim(0, 1)
    return ax


def totals(
    answers: Answers,
    *,
    ax: Axes | None = None,
    query: Query | None = None,
    top: int = 7,
    last: int | None = None,
    title: str | None = None,
) -> Axes:
    """Draw how much each item has in each window, stacked, labelled at the right end.

    The ``top`` items with the most over all windows have a colour each; the rest of the answer is
    "others shown". The answers of ``watch`` also have the total of the window, so for counts a
    pale "not shown" is stacked on top. A skyline is drawn as its number of rows.
    """
    frame = frame_of(answers, query, last)
    ax = axes_of(ax)
    outline(ax, title)
    if not any(window.spots for window in frame.windows):
        tell_nothing(ax)
        return ax
    ends = [window.end for window in frame.windows]
    time_axis(ax, ends)
    if frame.value is None:
        counts = [len(window.spots) for window in frame.windows]
        own = look(0)
        ax.plot(ends, counts, label="rows in the skyline", **own)
        end_label(ax, ends[-1], counts[-1], f"{counts[-1]:,} rows", own["color"])
        ax.set_ylim(0, max(counts) * 1.1)
        value_axis(ax, "y", "rows in the skyline")
        return ax
    layers = layers_of(frame, top)
    names = list(layers)
    colors: list[str] = [RESTS.get(name) or look(i)["color"] for i, name in enumerate(names)]
    styles = ax.stackplot(
        ends, list(layers.values()), labels=names, colors=colors, edgecolor="white", linewidth=0.6
    )
    for layer in styles:
        layer.set_alpha(0.9)
    highest = max(sum(values[i] for values in layers.values()) for i in range(len(ends)))
    ax.set_ylim(0, highest * 1.06)
    if len(ends) > 1:
        ax.set_xlim(ends[0], ends[-1])
    label_layers(ax, ends, layers, colors, highest)
    value_axis(ax, "y", frame.unit, frame.units.get(frame.value))
    return ax


def skyline(
    answers: Answers,
    *,
    ax: Axes | None = None,
    query: Query | None = None,
    x: str | None = None,
    y: str | None = None,
    end: Any = None,
    rows: Any = None,
    title: str | None = None,
) -> Axes:
    """Draw the skyline of one window in two of its columns, with earlier skylines in grey.

    ``x`` and ``y`` are by default the first two columns of ``prefer``. If the skyline has only
    these two, steps show what it dominates. ``rows`` may be a table of the query's input rows,
    which are drawn as small dots. ``end`` chooses the window, as for ``bars``.
    """
    frame = frame_of(answers, query, None)
    window = frame.at(end)
    ax = axes_of(ax)
    outline(ax, title, grid="both", window=window_text(window) if window.spots else None)
    if not window.spots:
        tell_nothing(ax)
        return ax
    x, y = two_columns(frame, x, y)
    if rows is not None:
        table = rows if isinstance(rows, pa.Table) else pa.table(rows)
        ax.scatter(table[x], table[y], s=6, color=FAINT, label="all rows", zorder=1)
    passed = {
        (spot.row[x], spot.row[y])
        for each in [each for each in frame.windows if each.end < window.end][-_BEFORE:]
        for spot in each.spots
    }
    if passed:
        olds = sorted(passed)
        ax.scatter(
            [px for px, _ in olds],
            [py for _, py in olds],
            s=18,
            facecolors="none",
            edgecolors=GREY,
            label="windows before",
            zorder=2,
        )
    own = look(0)
    points = sorted({(spot.row[x], spot.row[y]) for spot in window.spots})
    if set(frame.prefer) == {x, y}:
        xs, ys = steps_of(points, frame.prefer[x])
        ax.plot(xs, ys, color=own["color"], linewidth=1.2, zorder=3, label="skyline")
    ax.scatter(
        [px for px, _ in points], [py for _, py in points], s=34, color=own["color"], zorder=4,
        label="in the skyline",
    )  # fmt: skip
    for at, (axis, name) in enumerate((("x", x), ("y", y))):
        fit_scale(ax, axis, [float(each[at]) for each in (*points, *passed)])
        better = _BETTER.get(frame.prefer.get(name, ""), "")
        value_axis(ax, axis, name, frame.units.get(name), better)
    if frame.named:
        label_points(ax, window.spots, x, y, own["color"])
    return ax


def timeline(
    answers: Answers,
    *,
    ax: Axes | None = None,
    query: Query | None = None,
    top: int = 20,
    last: int | None = None,
    title: str | None = None,
) -> Axes:
    """Draw when each id or item was in the answer: a row each, darker where its rank was better.

    The ``top`` items that were in the most windows are drawn, in the order of their first
    appearance. A bar runs from the end of the window that showed the item until the next answer.
    """
    frame = frame_of(answers, query, last)
    stays = stays_of(frame)
    often = sorted(stays, key=lambda name: (-len(stays[name]), name))[:top]
    names = [name for name in stays if name in often]
    ax = axes_of(ax, max(2.2, 1.2 + 0.28 * len(names)))
    outline(ax, title, grid="x")
    if not names:
        tell_nothing(ax)
        return ax
    from matplotlib import colormaps

    ranks = [rank for name in names for _, _, rank in stays[name] if rank is not None]
    deepest = max(ranks, default=1)
    shades = colormaps["cividis"]
    for place, name in enumerate(names):
        spans = [(start, end - start) for start, end, _ in stays[name]]
        colors: list[Any] = [
            look(0)["color"] if rank is None else shades(0.9 * (rank - 1) / max(1, deepest - 1))
            for _, _, rank in stays[name]
        ]
        ax.broken_barh(spans, (place - 0.36, 0.72), facecolors=colors, label=name)
        _, end, rank = stays[name][-1]
        if rank is not None:
            end_label(ax, end, place, f"rank {rank}", GREY)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    time_axis(ax, [window.end for window in frame.windows])
    shade = "; darker means a better rank" if ranks else ""
    ax.set_xlabel(f"end of the window, until the next{shade}", fontsize="small", color=GREY)
    return ax
