"""A report in Markdown with tables and plots: question, set-up, result, verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Progress", "Report"]

Progress = Callable[[str], None]
_NUMERIC = ("", "-", "−", "+", ">", "×")
"""How a cell with a number may begin, if not with a digit."""
_SHORT = 32


class Report:
    """Text, tables and plots in the order in which they were added; ``write`` saves them."""

    def __init__(self, title: str) -> None:
        self._lines = [f"# {title}", ""]
        self._plots: list[tuple[str, Any]] = []
        self._colours: dict[str, int] = {}
        """By label, so that a label has the same colour in every plot."""

    def heading(self, text: str) -> None:
        self._lines += [f"## {text}", ""]

    def text(self, text: str) -> None:
        self._lines += [" ".join(text.split()), ""]

    def bullets(self, items: Sequence[str]) -> None:
        self._lines += [*(f"- {' '.join(item.split())}" for item in items), ""]

    def table(self, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Add a table. The first column and those with words are aligned to the left."""
        shown = [[_shown(cell) for cell in row] for row in rows]
        words = [any(_is_text(row[i]) for row in shown) for i in range(len(header))]
        self._lines.append("| " + " | ".join(header) + " |")
        lines = ["---" if left or not i else "---:" for i, left in enumerate(words)]
        self._lines.append("|" + "|".join(lines) + "|")
        self._lines += ["| " + " | ".join(row) + " |" for row in shown]
        self._lines.append("")

    def plot(
        self,
        name: str,
        title: str,
        series: Mapping[str, Sequence[float]],
        x: str,
        y: str,
        ticks: Sequence[str] = (),
        log: bool = False,
        halves: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        """Draw each series as a line over the positions of its values.

        ``ticks`` are what the positions stand for, and mark the values with dots. ``log`` draws a
        logarithmic axis. ``halves`` are those of the intervals around the values.
        """
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt

        figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
        for number, (label, values) in enumerate(series.items()):
            colour = self._colours.setdefault(label, len(self._colours))
            axes.errorbar(
                range(len(values)), values, yerr=(halves or {}).get(label), label=label,
                linewidth=1, capsize=2, marker="o" if ticks else "", markersize=3,
                color=f"C{colour % 10}", linestyle="-" if number < 10 else "--",
            )  # fmt: skip
        axes.set(title=title, xlabel=x, ylabel=y)
        if ticks:
            axes.set_xticks(range(len(ticks)), ticks)
        if log:
            axes.set_yscale("log")
        axes.legend(fontsize="small", ncols=3)
        plt.close(figure)  # pyplot warns if a long report keeps too many figures open
        self._plots.append((name, figure))
        self._lines += [f"![{title}]({name}.png)", ""]

    def picture(self, name: str, caption: str) -> None:
        """Show a plot that another report has drawn."""
        self._lines += [f"![{caption}]({name}.png)", ""]

    def write(self, path: Path) -> None:
        """Write the report to ``path``, and its plots to the same folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        for name, figure in self._plots:
            figure.savefig(path.parent / f"{name}.png", dpi=110)
        path.write_text("\n".join(self._lines).rstrip() + "\n", encoding="utf-8")


def _shown(cell: Any) -> str:
    if isinstance(cell, float):
        return f"{cell:,.2f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _is_text(cell: str) -> bool:
    return len(cell) > _SHORT or not (cell[:1] in _NUMERIC or cell[:1].isdigit())
