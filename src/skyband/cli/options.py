"""Options that the commands of all queries have, and their help."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from skyband import registry
from skyband.cli.choices import Engine, Format, OnBad
from skyband.cli.fields import algorithms_of, field_parameters, verb_of
from skyband.query import Query

__all__ = ["common_parameters", "example_of", "help_of", "source_parameter"]

_WINDOW = "Window"
_OUTPUT = "Output"
_RUN = "How to run"


def _option(name: str, kind: Any, default: Any, *flags: str, **info: Any) -> inspect.Parameter:
    annotation = Annotated[kind, typer.Option(*flags, **info)]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def source_parameter() -> inspect.Parameter:
    """The argument that names the sources."""
    info = typer.Argument(
        help="Files, folders or globs (Parquet, CSV, JSON lines, Arrow IPC); "
        "- for standard input; NAME=PATH for a query over several streams.",
        metavar="SOURCE",
        show_default=False,
    )
    return inspect.Parameter(
        "sources", inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[list[str], info]
    )


def common_parameters(kind: type[Query]) -> list[inspect.Parameter]:
    """Options that every query has."""
    text, number, sides = str | None, int | None, "left" in kind.__annotations__
    window = {"rich_help_panel": _WINDOW, "show_default": False}
    decay, landmark = (
        window | {"hidden": not registry.algorithms(kind.kind, sort)}
        for sort in ("decay", "landmark")
    )  # a hidden option says why it cannot be used
    run = {"rich_help_panel": _RUN}
    out = {"rich_help_panel": _OUTPUT}
    return [
        _option("window", text, None, "--window", "-w", **window,
                help="Length of time, such as '10 minutes'; an integer for an integer column."
                     + (" Or one per side: 'trades=1 hour,risks=1 day'." if sides else "")),
        _option("count", number, None, "--count", "-c", **window,
                help="Length in rows, instead of --window."),
        _option("half_life", text, None, "--half-life", **decay,
                help="Instead of --window: all rows, each weighing half after this time."),
        _option("since", text, None, "--since", **landmark,
                help="Instead of --window: all rows from this moment, or from the 'first' row."),
        _option("slide", text, None, "--slide", "-s", **window,
                help="How often the window is answered. Default: its length."),
        _option("lateness", text, None, "--lateness", **window,
                help="How far a row may be behind the latest one."),
        _option("offset", text, None, "--offset", **window,
                help="Shift of all windows, such as '15 minutes' past the hour."),
        _option("format", Format | None, None, "--format", "-f", **out, show_default=False,
                help="Default: from the file extension of --output, otherwise table."),
        _option("output", Path | None, None, "--output", "-o", **out, show_default=False,
                help="File to write to."),
        _option("watch", bool, False, "--watch", **out, show_default=False,
                help="Show answers as they come: as a live table, or as lines of json or csv."),
        _option("pace", float, 0.2, "--pace", **out, min=0,
                help="Least number of seconds between two answers of the live table."),
        _option("serve", bool, False, "--serve", **out, show_default=False,
                help="Show answers in a browser, at the address that is printed."),
        _option("serve_port", int, 8470, "--serve-port", **out, min=0, max=65_535,
                help="Port of --serve; 0 takes a free one."),
        _option("plot", Path | None, None, "--plot", **out, show_default=False, metavar="FILE",
                help="Draw the answers into this PNG, SVG or PDF file, too."),
        _option("plot_as", text, None, "--plot-as", **out, show_default=False, metavar="PICTURE",
                help="bump, bars, totals, skyline or timeline. Default: the one for the query."),
        _option("changes", bool, False, "--changes", **out, show_default=False,
                help="Show what entered, left or moved, instead of the answers."),
        _option("alerts", list[str] | None, None, *_alert_flags(kind), **out, metavar="WORDS",
                show_default=False,
                help="Show only these changes, with their rows: enter, leave or move."),
        _option("limit", number, None, "--limit", **out, min=1, show_default=False,
                help="Stop after this many windows."),
        _option("algorithm", text, None, "--algorithm", **run, show_default=False,
                help=f"One of: {algorithms_of(kind)}. Default: the best one for the query."),
        _option("option", list[str] | None, None, "--option", metavar="NAME=VALUE", **run,
                show_default=False, help="A setting of the algorithm; may be repeated."),
        _option("on_bad", OnBad, OnBad.raise_, "--on-bad", **run,
                help="Stop at bad or late rows, or skip and count them."),
        _option("engine", Engine, Engine.local, "--engine", **run,
                help="Run in this process, or on Spark."),
        _option("threads", number, None, "--threads", **run, show_default=False,
                help="Threads that read and summarise. Default: all cores of this process."),
        _option("master", text, None, "--master", **run, show_default=False,
                help="Spark's master, such as 'local[4]' or 'spark://host:7077'."),
    ]  # fmt: skip


def _alert_flags(kind: type[Query]) -> tuple[str, ...]:
    """``--on`` is short for ``--alert``, except for a query that has a field of that name."""
    return ("--alert",) if "on" in kind.__annotations__ else ("--alert", "--on")


def help_of(kind: type[Query]) -> str:
    """The text of a command, from the docstring of its query."""
    said = inspect.getdoc(kind) or ""
    return said.partition(">>>")[0].strip().replace("``", "`")


def example_of(kind: type[Query]) -> str:
    """An example command with all required options."""
    words = []
    for parameter in field_parameters(kind):
        if parameter.default is inspect.Parameter.empty:
            flag = f"--{parameter.name}"
            sample = {"k": "10", "prefer": "price=min,volume=max", "streams": "r1,r2"}
            words.append(f"{flag} {sample.get(parameter.name, parameter.name.upper())}")
    files = "LEFT=left.parquet RIGHT=right.parquet" if "left" in kind.__annotations__ else "FILES"
    return (
        f"Example: `skyband {verb_of(kind)} {files} {' '.join(words)} "
        "--time ts --window '10 minutes' --slide '1 minute'`"
    )
