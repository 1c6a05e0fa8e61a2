"""``skyband board``: all queries of a job file over its files, at once or as a live view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from skyband.cli.explain import explained, say
from skyband.errors import QueryError
from skyband.query import Query

if TYPE_CHECKING:
    from skyband.answers.answer import Answer

__all__ = ["add_board"]


def add_board(app: typer.Typer) -> None:
    """Add the verb to an app."""
    app.command("board")(explained(board))


def board(
    job: Annotated[Path, typer.Argument(help="A job file with [source] and [queries.NAME].")],
    watch: Annotated[bool, typer.Option("--watch", help="Show the answers as they come.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show how the queries are answered, and stop.")
    ] = False,
    limit: Annotated[int | None, typer.Option(help="Stop after so many answers.", min=1)] = None,
    pace: Annotated[float, typer.Option(help="Seconds between pictures of --watch.", min=0)] = 0.2,
) -> None:
    """Answer all queries of a job file over its files; nothing is written."""
    from skyband import jobs
    from skyband.embedded.left_out import left_out
    from skyband.embedded.monitor import new_board
    from skyband.embedded.run import watch_board
    from skyband.engine.explain import explain as told

    found = jobs.load_board(job)
    if explain:
        print(told(found.queries))
        return
    sources: dict[str, Any] = {}
    for name, section in found.sources.items():
        if section.kind != "files":
            raise QueryError(
                f"{job}: skyband board reads files, but this job has a source of kind "
                f"{section.kind!r}; run it with: skyband pipeline"
            )
        sources[name] = section["path"]
    session = new_board(found.queries, found.on_bad)
    source = sources.get("", sources)
    answers = islice(watch_board(session, source), limit)
    if watch:
        from skyband.cli.view import watch_live

        watch_live(answers, found.queries, pace)
    else:
        _show_last(answers, found.queries)
    missing = left_out(session)
    if missing:
        say(missing, style="yellow")


def _show_last(answers: Iterable[Answer], queries: Mapping[str, Query]) -> None:
    """The last answer of every query."""
    latest = {str(answer.name): answer for answer in answers if answer.table.num_rows}
    console = Console(highlight=False)
    if not latest:
        console.print("no window has any rows", style="dim")
        return
    from skyband.cli.view import picture

    console.print(picture(console, latest, queries, whole=True))
