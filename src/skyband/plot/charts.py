"""The five pictures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.errors import QueryError
from skyband.plot.frames import Answers, frame_of
from skyband.plot.parts import (
    RESTS,
    deepest_rank,
    faded,
    full_name,
    label_layers,
    label_past_winners,
    label_points,
    layers_of,
    lines_of_ranks,
    stays_of,
    steps_of,
    two_columns,
    until_text,
)
from skyband.plot.style import (
    FAINT,
    GREY,
    INK,
    axes_of,
    end_label,
    look,
    outline,
    short,
    tell_nothing,
    time_axis,
    value_axis,
)
from skyband.query import Query

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["bars", "bump", "skyline", "timeline", "totals"]

_BETTER = {"min": "less is better", "max": "more is better"}


def bump(
    answers: Answers,
    *,
    ax: Axes | None = None,
    query: Query | None = None,
    top: int = 10,
    last: int | None = None,
    title: str | None = None,
) -> Axes:
    """Ranks over time: one line per id or item, labelled where it ends.

    Items of the last window have colours and labels, all others are grey; of those, the ones that
    were first for longest are named where they were. ``top`` is the number of
    ranks that are drawn, ``last`` the number of windows (None for all). Groups are drawn below one
    another. ``query`` names the columns of a table; without it they are guessed from their order.
    """
    frame = frame_of(answers, query, last)
    if frame.windows and frame.at(None).spots and frame.at(None).spots[0].rank is None:
        raise QueryError("a skyline has no ranks to draw; use skyline, timeline or totals")
    groups = frame.groups
    ax = axes_of(ax, max(3.0, 1.4 + 0.32 * min(top, deepest_rank(frame)) * max(1, len(groups))))
    outline(ax, title)
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
            own = look(coloured.index(label)) if label in coloured else faded()
            ax.plot(ends, [base + y for y in mine[label]], label=full_name(group, label), **own)
        for label in coloured:
            y = base + mine[label][-1]
            end_label(ax, ends[-1], y, label, look(coloured.index(label))["color"])
        label_past_winners(ax, ends, base, {n: y for n, y in mine.items() if n not in coloured})
        if group:
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
    """One window as bars, best on top, each labelled with its value.

    ``end`` chooses the window by its end; by default it is the last one that has rows. The pale end
    of a bar is the error that an approximate count may have.
    """
    frame = frame_of(answers, query, None)
    window = frame.at(end)
    spots = [spot for spot in window.spots if spot.rank is None or spot.rank <= top]
    if spots and frame.value is None:
        raise QueryError("a skyline has no value to draw as bars; use skyline, timeline or totals")
    ax = axes_of(ax, max(2.2, 1.2 + 0.3 * len(spots)))
    outline(ax, title or (until_text(window) if spots else None), grid="x")
    if not spots:
        tell_nothing(ax)
        return ax
    places = range(len(spots))
    values = [spot.value or 0.0 for spot in spots]
    errors = [spot.error for spot in spots]
    color = look(0)["color"]
    sure = [value - error for value, error in zip(values, errors, strict=True)]
    ax.barh(places, sure, color=color, height=0.72)
    if any(errors):
        ax.barh(places, errors, left=sure, color=color, alpha=0.35, height=0.72)
    for place, value in zip(places, values, strict=True):
        end_label(ax, max(value, 0.0), place, short(value), INK)
    ax.set_yticks(places, [spot.name for spot in spots])
    ax.invert_yaxis()
    value_axis(ax, "x", frame.unit)
    ax.margins(x=0.12)
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
    """How much each item has in each window, stacked, labelled at the right end.

    The ``top`` items with the most over all windows have a colour each, the rest of the answer is
    "others shown". The answers of ``watch`` also tell the total of the window, so that for counts a
    pale "not shown" can stand on top. For a skyline it is the number of its rows.
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
    value_axis(ax, "y", frame.unit)
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
    """The skyline of one window in two of its columns, with the skylines before it in grey.

    ``x`` and ``y`` are by default the first two columns of ``prefer``. If the skyline has only
    these two, steps show what it dominates. ``rows`` may be a table of the rows that were ranked;
    they are drawn as small dots. ``end`` chooses the window, as for ``bars``.
    """
    frame = frame_of(answers, query, None)
    window = frame.at(end)
    ax = axes_of(ax)
    outline(ax, title or (until_text(window) if window.spots else None), grid="both")
    if not window.spots:
        tell_nothing(ax)
        return ax
    x, y = two_columns(frame, x, y)
    if rows is not None:
        table = rows if isinstance(rows, pa.Table) else pa.table(rows)
        ax.scatter(table[x], table[y], s=6, color=FAINT, label="all rows", zorder=1)
    passed = {
        (spot.row[x], spot.row[y])
        for each in frame.windows
        if each.end < window.end
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
    label_points(ax, window.spots, x, y, own["color"])
    for axis, name in (("x", x), ("y", y)):
        better = _BETTER.get(frame.prefer.get(name, ""), "")
        value_axis(ax, axis, f"{name} ({better})" if better else name)
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
    """When each id or item was in the answer: one row per item, darker where its rank was better.

    The ``top`` items that were in most windows are drawn, in the order of their first appearance.
    A bar stands from the end of the window that showed the item until the next answer.
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
    ax.set_xlabel("answers from … until the next", fontsize="small", color=GREY)
    return ax
