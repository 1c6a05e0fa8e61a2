"""A report in Markdown with tables and plots: question, set-up, result, verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Progress", "Report"]

Progress = Callable[[str], None]


class Report:
    """Text, tables and plots in the order in which they were added; ``write`` saves them."""

    def __init__(self, title: str) -> None:
        self._lines = [f"# {title}", ""]
        self._plots: list[tuple[str, Any]] = []

    def heading(self, text: str) -> None:
        self._lines += [f"## {text}", ""]

    def text(self, text: str) -> None:
        self._lines += [" ".join(text.split()), ""]

    def bullets(self, items: Sequence[str]) -> None:
        self._lines += [*(f"- {' '.join(item.split())}" for item in items), ""]

    def table(self, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self._lines.append("| " + " | ".join(header) + " |")
        self._lines.append("|" + "|".join(["---", *["---:"] * (len(header) - 1)]) + "|")
        self._lines += ["| " + " | ".join(_shown(cell) for cell in row) + " |" for row in rows]
        self._lines.append("")

    def plot(
        self, name: str, title: str, series: Mapping[str, Sequence[float]], x: str, y: str
    ) -> None:
        """Draw each series as a line over the positions of its values."""
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt

        figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
        for label, values in series.items():
            axes.plot(range(len(values)), values, label=label, linewidth=1)
        axes.set(title=title, xlabel=x, ylabel=y)
        axes.legend(fontsize="small", ncols=3)
        plt.close(figure)  # pyplot warns if a long report keeps too many figures open
        self._plots.append((name, figure))
        self._lines += [f"![{title}]({name}.png)", ""]

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
