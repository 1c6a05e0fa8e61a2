"""The project's own measurements: ``bench`` and ``reproduce``. Their code is in ``lab/``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skyband.cli.explain import explained
from skyband.cli.lab import checkout, modules
from skyband.kernels.core.patient import hurry

__all__ = ["add_work"]

_ALL = "all"
Scale = Annotated[float, typer.Option(help="Fraction of the full size; 0.01 is quick.", min=0)]


def add_work(app: typer.Typer) -> None:
    """Add the verbs that measure to an app."""
    app.command("bench")(explained(bench))
    app.command("reproduce")(explained(reproduce))


def bench(
    name: Annotated[str, typer.Argument(help="A benchmark, or all.")] = _ALL,
    scale: Scale = 1.0,
    out: Annotated[
        Path | None,
        typer.Option(help="Markdown file to write to.", show_default="docs/benchmarks.md"),
    ] = None,
) -> None:
    """Compare the speed of Skyband and other tools in one run; results are ratios."""
    root = checkout()
    from lab.bench.command import measure

    hurry()
    names = list(modules("benchmarks", "run")) if name == _ALL else [name]
    measure(names, scale, out or root / "docs" / "benchmarks.md")


def reproduce(
    name: Annotated[str, typer.Argument(help="An experiment, or all.")],
    scale: Annotated[
        float | None,
        typer.Option(
            help="Fraction of the paper's sizes; 0.01 is quick.",
            min=0,
            show_default="what takes a few minutes",
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="The paper's own sizes (scale 1).")] = False,
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("docs/reproduction"),
) -> None:
    """Reproduce the tables and figures of a paper, with a verdict on its claims."""
    checkout()
    from lab.bench import command

    hurry()
    names = list(modules("experiments", "reproduce")) if name == _ALL else [name]
    command.reproduce(names, 1.0 if full else scale, out)
