"""What ``skyband bench`` and ``skyband reproduce`` do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from lab.bench.figures import FIGURES, write_figures
from lab.bench.modules import chosen, load
from lab.bench.report import (
    busy,
    columns_of,
    machine,
    markdown,
    plot,
    tables,
    text_of,
    write_section,
)
from lab.experiments.verdicts import FOLDER, overview
from skyband.cli.app import checkout
from skyband.cli.explain import say
from skyband.errors import EngineError

__all__ = ["measure", "reproduce"]


def measure(name: str, scale: float, path: Path) -> None:
    """Run benchmarks, show their tables, and write them into a Markdown file with their plots."""
    for each in chosen("benchmarks", "run", name):
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
        picture = path.with_name(f"{each}.png")
        if find_spec("matplotlib") is None:
            say("no plot: pip install 'skyband[plots]'")
        elif plot(rows, picture, each):
            text.append(f"![ratios of {each}]({each}.png)")
        write_section(path, each, "\n\n".join([*text, markdown(rows)]))
        say(f"{each}: {time.perf_counter() - began:.0f} s, written to {path}")
    _show_again(path)


def reproduce(name: str, scale: float | None, out: Path, *, quick: bool = False) -> None:
    """Run experiments; each writes its report into ``out``, then all verdicts are listed there.

    A scale of 1 means the paper's own sizes. Without a scale, an experiment runs at the one that it
    sets as ``SCALE``, or as ``QUICK``, otherwise at 1. Its ``estimate`` says how long it will take;
    that of all is said before anything runs.
    """
    experiments, scales, seconds = {}, {}, {}
    for each in chosen("experiments", "reproduce", name):
        with _with_plots(each):
            made = experiments[each] = load("experiments", "reproduce", each)
        own = getattr(made, "QUICK" if quick else "SCALE", 1.0) if scale is None else scale
        scales[each], seconds[each] = own, made.estimate(own)
    if len(seconds) > 1:
        say(f"all: about {said_minutes(sum(seconds.values()))} of processor time")
    out.mkdir(parents=True, exist_ok=True)
    for each, experiment in experiments.items():
        about = said_minutes(seconds[each])
        say(f"{each}: about {about} of processor time at scale {scales[each]:g}")
        began = time.process_time()
        with _telling(each) as progress, _with_plots(each):
            experiment.reproduce(scales[each], out, progress)
        if (out / FOLDER).is_dir():
            overview(out)
        say(f"{each}: {said_minutes(time.process_time() - began)}, written to {out}")
    _show_again(out)


@contextmanager
def _with_plots(name: str) -> Iterator[None]:
    try:
        yield
    except ImportError as missing:
        raise EngineError(
            f"the experiment {name} needs {missing.name}: pip install 'skyband[plots]'"
        ) from missing


def said_minutes(seconds: float) -> str:
    """A time to plan with.

    >>> said_minutes(20), said_minutes(400), said_minutes(9000)
    ('1 minute', '7 minutes', '2.5 hours')
    """
    minutes = max(1, round(seconds / 60))
    if minutes >= 100:
        return f"{seconds / 3600:.1f} hours"
    return "1 minute" if minutes == 1 else f"{minutes} minutes"


def _show_again(written: Path) -> None:
    """Figures in prose are cells of these tables, so they are written again, too."""
    root = checkout()
    if (root / FIGURES).is_file() and written.resolve().is_relative_to(root / "docs"):
        for page in write_figures(root):
            say(f"{page}: figures brought up to date")


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
