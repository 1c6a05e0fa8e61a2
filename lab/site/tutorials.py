"""Runs tutorials, which are Python files in cells, and renders them with output and pictures.

``python -m lab.site.tutorials`` writes ``docs/tutorials`` and the notebooks in
``examples/tutorials``; with names, only these. A cell begins with ``# %%``; one that begins with
``# %% [markdown]`` is text, written as comments. The cell ``# %% as a script`` runs only there.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = [
    "NOTEBOOKS",
    "ORDER",
    "Cell",
    "Ran",
    "cells_of",
    "index_page",
    "notebook_of",
    "page_of",
    "run",
]

ORDER = (
    "flows",
    "earthquakes",
    "bikes",
    "sensors",
    "trades",
    "routers",
    "spark",
    "leaderboard",
)
"""The tutorials in the order in which they are best read."""

NOTEBOOKS = ("flows", "earthquakes")
"""Those that are notebooks, too."""

_AS_A_SCRIPT = "as a script"
_ROOT = Path(__file__).resolve().parents[2]
FOLDER = _ROOT / "examples" / "tutorials"
PAGES = _ROOT / "docs" / "tutorials"


@dataclass(frozen=True)
class Cell:
    """One cell: text in Markdown, or code."""

    markdown: bool
    text: str
    title: str = ""
    """What follows ``# %%`` in the line that begins a cell of code."""


@dataclass
class Ran:
    """A cell of code after it ran: what it printed and showed, and its pictures."""

    cell: Cell
    printed: str = ""
    shown: str = ""
    """The value of its last expression, as text and, if it has such a form, as HTML."""
    html: str = ""
    figures: list[Any] = field(default_factory=list)

    @property
    def output(self) -> str:
        """All of its text."""
        return "\n".join(part for part in (self.printed, self.shown) if part)


def cells_of(path: Path) -> list[Cell]:
    """The cells of a file."""
    cells = []
    parts = re.split(r"^# %%(.*)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        if title.strip() == "[markdown]":
            lines = [re.sub(r"^# ?", "", line) for line in body.strip().splitlines()]
            cells.append(Cell(True, "\n".join(lines)))
        else:
            cells.append(Cell(False, body.strip(), title.strip()))
    return cells


def run(
    path: Path, given: Mapping[str, Any] | None = None, skip: Collection[str] = ()
) -> list[Ran | Cell]:
    """Run the cells of a file one after another; text is returned as it is.

    ``given`` are names that exist before, and cells whose title is in ``skip`` do not run.
    """
    from matplotlib import pyplot as plt

    space: dict[str, Any] = {"__name__": "__main__", **(given or {})}
    done: list[Ran | Cell] = []
    with contextlib.ExitStack() as closing:
        before = plt.get_backend()
        plt.switch_backend("Agg")
        closing.callback(plt.switch_backend, before)
        closing.callback(plt.close, "all")
        plt.close("all")  # figures that somebody else left open are no pictures of the tutorial
        for cell in cells_of(path):
            if cell.markdown:
                done.append(cell)
            elif cell.title == _AS_A_SCRIPT:
                continue
            elif cell.title and cell.title in skip:
                done.append(Ran(cell))
            else:
                done.append(_ran(cell, space, path, plt))
    return done


def _ran(cell: Cell, space: dict[str, Any], path: Path, plt: Any) -> Ran:
    tree = ast.parse(cell.text, str(path))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    shown = html = ""
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, str(path), "exec"), space)  # noqa: S102 - our own files
        if isinstance(last, ast.Expr):
            expression = compile(ast.Expression(last.value), str(path), "eval")
            value = eval(expression, space)  # noqa: S307 - our own files
            if value is not None and not hasattr(value, "get_figure"):
                shown = repr(value).rstrip()
                html = getattr(value, "_repr_html_", str)()
    figures = [plt.figure(number) for number in plt.get_fignums()]
    for figure in figures:
        plt.close(figure)
    return Ran(cell, printed.getvalue().rstrip(), shown, html, figures)


def page_of(name: str, done: list[Ran | Cell]) -> tuple[str, dict[str, Any]]:
    """A tutorial as Markdown, and its pictures by file name."""
    lines = [f"<!-- Made from examples/tutorials/{name}.py by python -m lab.site.tutorials. -->"]
    how = f"*The file is `examples/tutorials/{name}.py`; [how to run it](index.md).*"
    pictures: dict[str, Any] = {}
    for each in done:
        if isinstance(each, Cell):
            lines += ["", each.text]
            if how:
                lines += ["", how]
                how = ""
            continue
        lines += ["", "```py", each.cell.text, "```"]
        if each.output:
            lines += ["", "```text", each.output, "```"]
        for figure in each.figures:
            file = f"{name}-{len(pictures) + 1}.png"
            title = figure.axes[0].get_title("left") if figure.axes else name
            lines += ["", f"![{title}]({file})"]
            pictures[file] = figure
    return "\n".join(lines) + "\n", pictures


def notebook_of(name: str, done: list[Ran | Cell]) -> dict[str, Any]:
    """A tutorial as a notebook (nbformat 4.5) with what its cells printed, showed and drew."""
    cells: list[dict[str, Any]] = []
    for each in done:
        cell: dict[str, Any] = {"id": f"{name}-{len(cells)}", "metadata": {}}
        if isinstance(each, Cell):
            cells.append({**cell, "cell_type": "markdown", "source": each.text})
            continue
        count = sum(other["cell_type"] == "code" for other in cells) + 1
        outputs: list[dict[str, Any]] = []
        if each.printed:
            outputs.append({"output_type": "stream", "name": "stdout", "text": each.printed + "\n"})
        if each.shown:
            data = {"text/plain": each.shown} | ({"text/html": each.html} if each.html else {})
            result = {"output_type": "execute_result", "execution_count": count}
            outputs.append({**result, "metadata": {}, "data": data})
        for figure in each.figures:
            drawn = io.BytesIO()
            figure.savefig(drawn, format="png", dpi=100)
            picture = {"image/png": base64.b64encode(drawn.getvalue()).decode()}
            outputs.append({"output_type": "display_data", "metadata": {}, "data": picture})
        code = {"cell_type": "code", "execution_count": count, "source": each.cell.text}
        cells.append({**cell, **code, "outputs": outputs})
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}


def index_page() -> str:
    """The list of all tutorials, each with its first lines and a picture."""
    lines = [
        "<!-- Made by python -m lab.site.tutorials. -->",
        "",
        "# Tutorials",
        "",
        "Each tutorial is a Python file in cells. It runs in a few seconds and needs no download."
        " The files are in `examples/tutorials`, and the tests run them. To try one in a checkout:",
        "",
        "```",
        "$ make demo                                  # creates the environment .venv",
        "$ .venv/bin/pip install -e '.[cli,plots]'    # what the tutorials need",
        "$ .venv/bin/python examples/tutorials/flows.py",
        "```",
        "",
        "Run this way, a tutorial prints its output, saves its pictures in the current folder and"
        " names them. Editors that support cells (VS Code, PyCharm, Spyder) run them one by one and"
        " show the pictures below each cell; choose `.venv/bin/python` as the interpreter. "
        + " and ".join(f"`{name}.ipynb`" for name in NOTEBOOKS)
        + " are notebooks with the same cells.",
    ]
    for name in ORDER:
        title, text = cells_of(FOLDER / f"{name}.py")[0].text.split("\n", 1)
        first = " ".join(text.strip().split("\n\n")[0].split())
        lines += ["", f"## [{title.removeprefix('# ')}]({name}.md)", "", first, ""]
        lines += [f"[![{title.removeprefix('# ')}]({name}-1.png)]({name}.md)"]
    return "\n".join(lines) + "\n"


def write(name: str, done: list[Ran | Cell]) -> None:
    """Write the page of a tutorial and its pictures."""
    text, pictures = page_of(name, done)
    (PAGES / f"{name}.md").write_text(text, encoding="utf-8")
    for file, figure in pictures.items():
        figure.savefig(PAGES / file, dpi=100)
    if name in NOTEBOOKS:
        notebook = json.dumps(notebook_of(name, done), indent=1, ensure_ascii=False)
        (FOLDER / f"{name}.ipynb").write_text(notebook + "\n", encoding="utf-8")
    print(f"{name}: {len(pictures)} pictures")


def main(names: list[str]) -> None:
    """Render the tutorials with these names; all of them without any."""
    PAGES.mkdir(parents=True, exist_ok=True)
    for name in names or ORDER:
        write(name, run(FOLDER / f"{name}.py"))
    (PAGES / "index.md").write_text(index_page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
