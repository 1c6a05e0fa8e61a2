"""Measured rows as Markdown between markers, and as a plot of ratios."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path
from typing import Any

__all__ = [
    "busy",
    "columns_of",
    "machine",
    "markdown",
    "plot",
    "tables",
    "text_of",
    "write_section",
]

Row = Mapping[str, Any]
_HEAD = (
    "# All measured tables\n\nWritten by `skyband bench`; each section by the run that it names.\n"
)
_HIDDEN = ("group",)


def tables(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """Rows by their ``group``, in order of appearance."""
    listed = list(rows)
    names = list(dict.fromkeys(str(row.get("group", "")) for row in listed))
    ordered = sorted(listed, key=lambda row: names.index(str(row.get("group", ""))))
    return [
        (name, list(found))
        for name, found in groupby(ordered, key=lambda row: str(row.get("group", "")))
    ]


def columns_of(rows: Sequence[Row]) -> list[str]:
    """Columns of a table, the cases first and the ratios last."""
    names = dict.fromkeys(name for row in rows for name in row if name not in _HIDDEN)
    return sorted(names, key=lambda name: (name != "case", name.startswith("×")))


def text_of(value: Any) -> str:
    """A measured value, to three digits.

    >>> text_of(1234567), text_of(0.012345), text_of(417.25), text_of(None)
    ('1,234,567', '0.0123', '417', '')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return str(value)


def markdown(rows: Sequence[Row]) -> str:
    """The tables of a benchmark."""
    parts = []
    for name, found in tables(rows):
        columns = columns_of(found)
        lines = [
            "| " + " | ".join(columns) + " |",
            "|" + "|".join("---" if _is_text(found, c) else "---:" for c in columns) + "|",
            *("| " + " | ".join(text_of(row.get(c)) for c in columns) + " |" for row in found),
        ]
        parts.append((f"### {name}\n\n" if name else "") + "\n".join(lines))
    return "\n\n".join(parts)


def machine() -> str:
    """The machine and package versions of a run, in one line."""
    parts = [f"Python {platform.python_version()}"]
    for package in ("numpy", "numba", "pyarrow", "duckdb", "polars", "pyspark"):
        try:
            parts.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return f"{os.cpu_count()} cores, {platform.machine()}; {', '.join(parts)}"


def busy(seconds: float = 0.5) -> str | None:
    """A warning if other work shares the machine; call it before a run, which is work itself."""
    before = _ticks()
    time.sleep(seconds)
    idle, passed = (now - then for now, then in zip(_ticks(), before, strict=True))
    if not passed or idle > 0.75 * passed:
        return None
    return (
        f"Other work shared the machine ({1 - idle / passed:.0%} of {os.cpu_count()} cores): rates "
        "are too low, and ratios should be read with care."
    )


def _ticks() -> tuple[int, int]:
    """Idle ticks and all ticks of all cores so far; zeros if the system does not report them."""
    try:
        counts = [int(n) for n in Path("/proc/stat").read_text("ascii").split("\n")[0].split()[1:]]
    except OSError:
        return 0, 0
    return counts[3] + counts[4], sum(counts)


def write_section(path: Path, name: str, text: str) -> None:
    """Put a section into a Markdown file; it replaces a section of the same name."""
    begin, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    old = path.read_text(encoding="utf-8") if path.exists() else _HEAD
    section = f"{begin}\n{text.strip()}\n{end}"
    before, found, rest = old.partition(begin)
    if found:
        _, closed, after = rest.partition(end)
        new = before + section + (after if closed else "\n" + rest)
    else:
        new = f"{old.rstrip()}\n\n{section}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(new, encoding="utf-8")


def plot(rows: Sequence[Row], path: Path, title: str) -> bool:
    """Draw every ratio as a bar on a logarithmic scale; returns False if there is none."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    bars = [
        (_label(row), name[1:].strip(), float(value))
        for row in rows
        for name, value in row.items()
        if name.startswith("×") and value is not None
    ]
    if not bars:
        return False
    labels = list(dict.fromkeys(label for label, _, _ in bars))
    peers = list(dict.fromkeys(peer for _, peer, _ in bars))
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.3 * len(labels)), layout="constrained")
    height = 0.8 / len(peers)
    for number, peer in enumerate(peers):
        found = [(labels.index(label), value) for label, p, value in bars if p == peer]
        places = [place + (number - (len(peers) - 1) / 2) * height for place, _ in found]
        axes.barh(places, [value for _, value in found], height, label=f"compared with {peer}")
    axes.set_yticks(range(len(labels)), labels, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xlabel("times as many rows per second")
    axes.set_title(title)
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


def _label(row: Row) -> str:
    """The label of a row: its case or, if it has none, its settings."""
    if "case" in row:
        return str(row["case"])
    own = {n: v for n, v in row.items() if n not in ("group", "rows")}
    settings = [
        f"{name} {text_of(value)}"
        for name, value in own.items()
        if "/s" not in name and not name.startswith(("×", "target"))
    ]
    return ", ".join(settings)


def _is_text(rows: Sequence[Row], column: str) -> bool:
    return any(isinstance(row.get(column), str) for row in rows)
