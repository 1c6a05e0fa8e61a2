"""Pictures as files, for the command line and for programs without a screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from skyband.errors import QueryError
from skyband.plot.charts import bars, bump, skyline, timeline, totals
from skyband.plot.frames import Answers
from skyband.plot.style import require_matplotlib
from skyband.query import Query

KINDS: dict[str, Callable[..., Any]] = {
    "bump": bump,
    "bars": bars,
    "totals": totals,
    "skyline": skyline,
    "timeline": timeline,
}
"""The pictures by name."""

ENDINGS = (".png", ".svg", ".pdf")
_HEIGHTS = {"bump": 5.0, "skyline": 5.0}


def kind_of(query: Query) -> str:
    """Return the picture that suits a query: ranks over time, or the skyline itself."""
    return "bump" if query.ranked else "skyline"


def check_path(path: Path) -> None:
    """Raise if no picture can be written there, before any work is done."""
    if path.suffix.lower() not in ENDINGS:
        raise QueryError(f"{path.name} is not a picture; its name must end in {', '.join(ENDINGS)}")
    if not path.parent.is_dir():
        raise QueryError(f"{path}: there is no folder {path.parent}; create it first")
    require_matplotlib()


def save(
    path: str | Path,
    answers: Answers,
    *,
    kind: str | None = None,
    query: Query | None = None,
    title: str | None = None,
    **settings: Any,
) -> None:
    """Draw answers into a file (PNG, SVG or PDF) without opening a window.

    ``kind`` is the name of the picture: by default ``bump``, or ``skyline`` if there are no ranks.
    """
    path = Path(path)
    check_path(path)
    from matplotlib.figure import Figure

    if not hasattr(answers, "__arrow_c_stream__") and isinstance(answers, Iterable):
        answers = list(answers)  # those of watch come once
    if kind is None:
        kind = ("bump" if _ranked(answers) else "skyline") if query is None else kind_of(query)
    if kind not in KINDS:
        raise QueryError(f"there is no picture {kind!r}; choose one of {', '.join(KINDS)}")
    figure = Figure(figsize=(9, _HEIGHTS.get(kind, 4.5)), layout="constrained")
    ax = figure.add_subplot()
    KINDS[kind](answers, ax=ax, query=query, title=title, **settings)
    if kind in ("bars", "bump", "timeline"):  # a line of text for each row
        figure.set_figheight(max(figure.get_figheight(), 1.4 + 0.3 * len(ax.get_yticks())))
    figure.savefig(path, dpi=120)


def _ranked(answers: Answers) -> bool:
    """Whether answers have ranks, if they show it."""
    one = next(iter(answers), None) if isinstance(answers, list) else answers
    table = getattr(one, "table", one)
    return "rank" in getattr(table, "column_names", ("rank",))
