"""The command ``skyband``: one verb per query, the demo, and the project's own measurements."""

from __future__ import annotations

from typing import Annotated

import typer

from skyband import query
from skyband.cli.demo import demo
from skyband.cli.explain import VerbCommand, VerbGroup, explained
from skyband.cli.job_verbs import board, check, init, pipeline, state
from skyband.cli.serving import serve
from skyband.cli.statements import explain, sql
from skyband.cli.verbs import add_verb
from skyband.cli.warm import warm
from skyband.cli.work import bench, reproduce

app = typer.Typer(
    name="skyband",
    cls=VerbGroup,
    help="Continuous ranking queries over sliding windows of data streams.",
    epilog="Start with `skyband demo`; `skyband VERB --help` shows the options of a verb.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        from importlib.metadata import version

        print(f"skyband {version('skyband')}")
        raise typer.Exit


@app.callback()
def skyband(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Continuous ranking queries over sliding windows of data streams."""


app.command(cls=VerbCommand)(explained(demo))
# The six queries in the order of the documentation; any further query is added automatically.
_FIRST = ("TopK", "HeavyHitters", "UncertainTopK", "FusedTopK", "Skyline", "SkylineJoin")
for _kind in dict.fromkeys((*_FIRST, *query.KINDS)):
    add_verb(app, query.KINDS[_kind])
for _verb in (sql, explain, board, pipeline, state, init, check, serve, bench, reproduce, warm):
    app.command(cls=VerbCommand)(explained(_verb))
