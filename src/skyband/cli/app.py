"""The command ``skyband``: its verbs, and those for job files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from skyband import query
from skyband.cli.demo import demo
from skyband.cli.explain import Engine, Format, VerbCommand, VerbGroup, explained, say
from skyband.cli.serving import serve
from skyband.cli.verbs import add_verb, explain, sql
from skyband.cli.warm import warm
from skyband.cli.work import bench, reproduce
from skyband.errors import QueryError
from skyband.query import Query

if TYPE_CHECKING:
    from skyband.answers.answer import Answer
    from skyband.jobs.report import Report

JobFile = Annotated[Path, typer.Argument(help="A job file, JOB.toml; see docs/jobs.md.")]
Master = Annotated[
    str | None, typer.Option(help="Spark's master, such as 'local[4]' or 'spark://host:7077'.")
]


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
    job: JobFile,
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
    for line in jobs.waits_for(jobs.load_job(job, chosen)):
        say(line, style="yellow")
    print(f"{job} is fine")


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
    from skyband.embedded.sources import FileSet
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
        sources[name] = FileSet((section["path"],), section["delimiter"])
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


def pipeline(
    job: JobFile,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the plan without starting the job.")
    ] = False,
    engine: Annotated[
        Engine | None, typer.Option(help="Where to run it; overrides the job's own setting.")
    ] = None,
    master: Master = None,
    seconds: Annotated[
        float | None, typer.Option(help="Stop after this many seconds.", min=0)
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Let Spark print what it has to say.")
    ] = False,
) -> None:
    """Run a streaming job: sources, queries, sinks, trigger and checkpoint from a file."""
    from skyband import jobs
    from skyband.cli.job_view import as_shown, telling
    from skyband.kernels.notice import say_in_any_case

    found = jobs.load_job(job, None if engine is None else engine.value)
    if master is not None:
        found = replace(found, master=master)
    jobs.check_ready(found)
    if explain:
        print(jobs.explain(found))
        return
    say(jobs.explain(found))
    for line in jobs.waits_for(found):
        say(line, style="yellow")
    say_in_any_case()
    rows = 0
    with telling(found) as tell:

        def counted(report: Report) -> None:
            nonlocal rows
            rows = report.rows
            if report.batch >= 0:
                tell(report)

        shown = as_shown(found)
        jobs.run_job(shown, tell=counted, seconds=seconds, verbose=verbose)
    if found.trigger.get("once") and not rows:
        say(f"{found.name}: nothing new to read; the checkpoint {found.checkpoint} has it all")


def state(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint of a Spark query.")],
    master: Master = None,
    format_: Annotated[Format, typer.Option("--format", help="How to show it.")] = Format.table,
) -> None:
    """Show the state that a checkpoint holds, by bucket and shard."""
    from skyband.cli.output import writer
    from skyband.spark import session
    from skyband.spark.checkpoint import read_state

    # A pipeline keeps the state of its answers in a subfolder, next to that of its dead letters.
    inner = Path(checkpoint) / "answers"
    spark = session(master, **{"spark.ui.enabled": "false"})
    spark.sparkContext.setLogLevel("ERROR")
    try:
        table = read_state(spark, str(inner) if inner.is_dir() else checkpoint)
    finally:
        spark.stop()
    with writer(format_, None) as out:
        out.write(table)


# The command --------------------------------------------------------------------------------------


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
