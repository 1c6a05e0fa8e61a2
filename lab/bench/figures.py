"""Figures in prose: each is a cell of a measured table, named in ``docs/figures.toml``.

A page shows a figure between marks: ``<!--=topk-time-->198<!--/-->``. ``write_figures`` brings all
of them up to date; ``skyband bench`` and ``skyband reproduce`` call it after they have written a
page. A cell that no longer exists is shown as a dash.

    python -m lab.bench.figures          # brings the figures up to date
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = [
    "FIGURES",
    "figures_of",
    "loose_figures",
    "pages_with_figures",
    "tables_in",
    "write_figures",
]

_MARK = re.compile(r"<!--=([\w.-]+)-->(.*?)<!--/-->")
_GONE = "–"
FIGURES = Path("docs") / "figures.toml"
_MEASURED = re.compile(
    r"(?<![\w.,])\d[\d.,]*(?: to \d[\d.,]*)?\s?"
    r"(?:×|M (?:rows|records|answers)/s|(?:million )?rows per second|times as fast)"
)
"""What counts as a measured figure: a number with a unit of speed, or a ratio of speeds."""
_HISTORY = ("internals", "reproduction", "benchmarks")
"""Pages that a command writes, or that record what was true at their time."""

Row = dict[str, str]


def tables_in(text: str) -> Iterator[tuple[str, list[Row]]]:
    """The tables of a page: the headings above each, joined by `` / ``, and its rows."""
    heads: dict[int, str] = {}
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        found = re.match(r"(#{2,4}) (.+)", lines[at])
        if found:
            level = len(found[1])
            heads = {n: title for n, title in heads.items() if n < level} | {level: found[2]}
        if re.match(r"\|[-:| ]+\|$", lines[at]) and at:
            names = _cells(lines[at - 1])
            rows = []
            while at + 1 < len(lines) and lines[at + 1].startswith("|"):
                at += 1
                rows.append(dict(zip(names, _cells(lines[at]), strict=False)))
            yield " / ".join(heads[level] for level in sorted(heads)), rows
        at += 1


def figures_of(root: Path) -> dict[str, str]:
    """Every figure by its name, from the measured tables; a dash if its cell does not exist."""
    told = tomllib.loads((root / FIGURES).read_text(encoding="utf-8"))
    pages: dict[str, list[tuple[str, list[Row]]]] = {}
    found = {}
    for name, where in told.items():
        page = where.get("page", "benchmarks/tables.md")
        if page not in pages:
            path = root / "docs" / page
            text = path.read_text(encoding="utf-8") if path.is_file() else ""
            pages[page] = list(tables_in(text))
        found[name] = _cell(pages[page], where)
    return found


def pages_with_figures(root: Path) -> list[Path]:
    """README and the pages of docs/ that people write."""
    docs = root / "docs"
    pages = [p for p in docs.rglob("*.md") if p.relative_to(docs).parts[0] not in _HISTORY]
    return [root / "README.md", *sorted(pages)]


def write_figures(root: Path) -> list[Path]:
    """Bring the figures in all pages up to date; returns the pages that changed."""
    found = figures_of(root)
    changed = []
    for path in pages_with_figures(root):
        text = path.read_text(encoding="utf-8")
        new = _MARK.sub(lambda mark: f"<!--={mark[1]}-->{found.get(mark[1], _GONE)}<!--/-->", text)
        if new != text:
            path.write_text(new, encoding="utf-8")
            changed.append(path)
    return changed


def loose_figures(text: str) -> list[str]:
    """Measured figures of a page that have no mark.

    Code is left out, and so is a paragraph that calls itself an estimate.

    >>> loose_figures("At 12 M rows/s it is <!--=a-->3<!--/--> × as fast, `4 ×` is code.")
    ['12 M rows/s']
    """
    prose = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"`[^`\n]*`", "", _MARK.sub("", prose))
    parts = [part for part in re.split(r"\n\s*\n", prose) if "estimate" not in part.lower()]
    return [found[0] for part in parts for found in _MEASURED.finditer(part)]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _cell(tables: list[tuple[str, list[Row]]], where: Mapping[str, Any]) -> str:
    for heading, rows in tables:
        if heading != where["under"]:
            continue
        for row in rows:
            if all(row.get(name) == value for name, value in where["row"].items()):
                return row.get(where["column"]) or _GONE
    return _GONE


if __name__ == "__main__":
    for each in write_figures(Path(__file__).resolve().parents[2]):
        print(f"{each}: figures brought up to date")
