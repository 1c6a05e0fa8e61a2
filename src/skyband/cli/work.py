"""The project's own measurements: ``bench`` and ``reproduce``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from skyband.cli.explain import explained, say
from skyband.cli.lab import checkout, load, modules
from skyband.errors import EngineError
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
    from lab.bench.report import busy, machine, markdown, plot, write_section

    hurry()
    names = list(modules("benchmarks", "run")) if name == _ALL else [name]
    path = out or root / "docs" / "benchmarks.md"
    for each in names:
        began, warning = time.perf_counter(), busy()
        with _telling(each) as progress:
            try:
                benchmark = load("benchmarks", "run", each)
                rows: list[dict[str, Any]] = benchmark.run(scale, progress)
            except ImportError as missing:
                raise EngineError(
                    f"the benchmark {each} compares with {missing.name}, which is not installed: "
                    "pip install 'skyband[bench]'"
                ) from missing
        _show(rows)
        text = [f"## {each}", f"`skyband bench {each} --scale {scale:g}` on {machine()}."]
        if warning:
            say(warning, style="yellow")
            text.append(f"*{warning}*")
        picture = path.with_name("benchmarks") / f"{each}.png"
        if find_spec("matplotlib") is None:
            say("no plot: pip install 'skyband[plots]'")
        elif plot(rows, picture, each):
            text.append(f"![ratios of {each}](benchmarks/{each}.png)")
        write_section(path, each, "\n\n".join([*text, markdown(rows)]))
        say(f"{each}: {time.perf_counter() - began:.0f} s, written to {path}")


def reproduce(
    name: Annotated[str, typer.Argument(help="An experiment, or all.")],
    scale: Scale = 1.0,
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("docs/reproduction"),
) -> None:
    """Reproduce the tables and figures of a paper, with a verdict on its claims."""
    checkout()
    hurry()
    for each in modules("experiments", "reproduce") if name == _ALL else (name,):
        with _telling(each) as progress:
            try:
                experiment = load("experiments", "reproduce", each)
                out.mkdir(parents=True, exist_ok=True)
                experiment.reproduce(scale, out, progress)
            except ImportError as missing:
                raise EngineError(
                    f"the experiment {each} needs {missing.name}: pip install 'skyband[plots]'"
                ) from missing
        say(f"{each}: written to {out}")


@contextmanager
def _telling(name: str) -> Iterator[Any]:
    """Show progress on the error stream: in place on a terminal, otherwise line by line."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda *said: say(f"{name}: {' '.join(map(str, said))}")
        return
    with console.status(name) as status:
        yield lambda *said: status.update(f"{name}: {' '.join(map(str, said))}")


def _show(rows: list[dict[str, Any]]) -> None:
    from lab.bench.report import columns_of, tables, text_of

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    for title, found in tables(rows):
        drawn = Table(title=title or None, title_justify="left", border_style="dim")
        names = columns_of(found)
        for name in names:
            words = any(isinstance(row.get(name), str) for row in found)
            style = "bold cyan" if name.startswith("×") else ""
            drawn.add_column(name, justify="left" if words else "right", style=style)
        for row in found:
            drawn.add_row(*(text_of(row.get(name)) for name in names))
        console.print(drawn)
