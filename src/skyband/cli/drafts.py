"""``init`` drafts a job file; ``check`` lists everything that is wrong with one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from skyband.cli.choices import Engine
from skyband.cli.explain import explained, say
from skyband.errors import QueryError

__all__ = ["add_drafts"]


def add_drafts(app: typer.Typer) -> None:
    """Add the verbs that help with job files to an app."""
    app.command("init")(explained(init))
    app.command("check")(explained(check))


def init(
    source: Annotated[str, typer.Argument(help="A file, a folder or a glob to look at.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The job file to write.")] = Path(
        "job.toml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> None:
    """Write a commented job file for a source: its columns, its time, an id and a score."""
    from skyband.jobs.draft import draft, look_at

    if output.exists() and not force:
        raise QueryError(f"{output} exists; give another --output, or --force to replace it")
    found = look_at(source)
    place, folder = Path(source).resolve(), output.parent.resolve()
    shown = place.relative_to(folder) if place.is_relative_to(folder) else place
    output.write_text(draft(replace(found, path=str(shown)), output.stem), encoding="utf-8")
    say(f"wrote {output}: read it, then run: skyband pipeline {output}")


def check(
    job: Annotated[Path, typer.Argument(help="A job file, JOB.toml.")],
    engine: Annotated[
        Engine | None, typer.Option(help="Check for this engine instead of the job's own.")
    ] = None,
) -> None:
    """Say everything that is wrong with a job file, with line numbers; nothing is started."""
    from skyband import jobs

    chosen = None if engine is None else engine.value
    found = jobs.problems_of(job, chosen)
    for problem in found:
        print(f"{job}:{problem.line}: {problem.text}")
    if found:
        raise typer.Exit(2)
    print(f"{job} is fine")
