"""The command ``skyband``: its verbs, and those for job files and the project's own work."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

import skyband
from skyband import query
from skyband.cli.demo import demo
from skyband.cli.explain import Engine, Format, VerbCommand, VerbGroup, explained, say
from skyband.cli.serving import serve
from skyband.cli.verbs import add_verb, explain, sql
from skyband.cli.warm import warm
from skyband.errors import EngineError, QueryError
from skyband.query import Query

if TYPE_CHECKING:
    from skyband.answers.answer import Answer
    from skyband.jobs.report import Report

JobFile = Annotated[Path, typer.Argument(help="A job file, JOB.toml; see docs/jobs.md.")]
Master = Annotated[
    str | None, typer.Option(help="Spark's master, such as 'local[4]' or 'spark://host:7077'.")
]


def init(
    source: Annotated[str, typer.Argument(help="The file, folder or glob to read.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The job file to write.")] = Path(
        "job.toml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> None:
    """Draft a job file, with comments, from the columns and the first rows of some files."""
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
        Engine | None, typer.Option(help="Check for this engine instead of the one in the file.")
    ] = None,
) -> None:
    """List everything that is wrong with a job file, with line numbers, without starting it."""
    from skyband import jobs

    chosen = None if engine is None else engine.value
    problems = jobs.problems_of(job, chosen)
    for problem in problems:
        print(f"{job}:{problem.line}: {problem.text}")
    if problems:
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
    limit: Annotated[int | None, typer.Option(help="Stop after this many answers.", min=1)] = None,
    pace: Annotated[
        float, typer.Option(help="Seconds between two updates of --watch.", min=0)
    ] = 0.2,
) -> None:
    """Answer all queries of a job file over its files, without writing anything."""
    from skyband import jobs
    from skyband.embedded.left_out import left_out
    from skyband.embedded.monitor import new_board
    from skyband.embedded.run import watch_board
    from skyband.embedded.sources import FileSet
    from skyband.engine.explain import explain as told

    plan = jobs.load_board(job)
    if explain:
        print(told(plan.queries))
        return
    sources: dict[str, Any] = {}
    for name, section in plan.sources.items():
        if section.kind != "files":
            raise QueryError(
                f"{job}: skyband board reads only files, but this job has a source of kind "
                f"{section.kind!r}; run it with: skyband pipeline"
            )
        sources[name] = FileSet((section["path"],), section["delimiter"])
    session = new_board(plan.queries, plan.on_bad)
    source = sources.get("", sources)
    answers = islice(watch_board(session, source), limit)
    if watch:
        from skyband.cli.view import watch_live

        watch_live(answers, plan.queries, pace)
    else:
        _show_last(answers, plan.queries)
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
        Engine | None, typer.Option(help="Run on this engine instead of the one in the file.")
    ] = None,
    master: Master = None,
    seconds: Annotated[
        float | None, typer.Option(help="Stop after this many seconds.", min=0)
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Spark's own messages.")] = False,
) -> None:
    """Run a streaming job, whose sources, queries and sinks are in a file."""
    from skyband import jobs
    from skyband.cli.job_view import as_shown, telling
    from skyband.kernels.notice import say_in_any_case

    parsed = jobs.load_job(job, None if engine is None else engine.value)
    if master is not None:
        parsed = replace(parsed, master=master)
    jobs.check_ready(parsed)
    if explain:
        print(jobs.explain(parsed))
        return
    say(jobs.explain(parsed))
    for line in jobs.waits_for(parsed):
        say(line, style="yellow")
    say_in_any_case()
    rows = 0
    with telling(parsed) as tell:

        def counted(report: Report) -> None:
            nonlocal rows
            rows = report.rows
            if report.batch >= 0:
                tell(report)

        shown = as_shown(parsed)
        jobs.run_job(shown, tell=counted, seconds=seconds, verbose=verbose)
    if parsed.trigger.get("once") and not rows:
        say(f"{parsed.name}: nothing new to read since the last run ({parsed.checkpoint})")


def state(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint folder of a Spark query.")],
    master: Master = None,
    format_: Annotated[
        Format, typer.Option("--format", help="How to show the state.")
    ] = Format.table,
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


# The project's own measurements, whose code is in ``lab/``, which wheels do not contain -----------


def checkout() -> Path:
    """The root of the repository that contains the current folder, otherwise of this package's.

    Also makes ``lab`` importable.
    """
    here = Path.cwd()
    roots = (here, *here.parents, Path(skyband.__file__).resolve().parents[2])
    own = (each for each in roots if (each / "lab").is_dir() and (each / "src/skyband").is_dir())
    root = next(own, None)
    if root is None:
        raise EngineError(
            "benchmarks and experiments are part of Skyband's repository, not of the installed "
            "package; clone the repository and run this inside it"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return root


Scale = Annotated[float, typer.Option(help="Fraction of the full size; 0.01 is quick.", min=0)]


def bench(
    name: Annotated[str, typer.Argument(help="A benchmark, or all.")] = "all",
    scale: Scale = 1.0,
    out: Annotated[
        Path | None,
        typer.Option(help="Markdown file to write to.", show_default="docs/benchmarks/tables.md"),
    ] = None,
) -> None:
    """Measure Skyband against other tools in one run; the results are ratios."""
    root = checkout()
    from lab.bench.command import measure
    from skyband.kernels.patient import hurry

    hurry()
    measure(name, scale, out or root / "docs" / "benchmarks" / "tables.md")


def reproduce(
    name: Annotated[str, typer.Argument(help="An experiment, or all.")] = "all",
    scale: Annotated[
        float | None,
        typer.Option(
            help="Fraction of the paper's sizes; 0.01 is quick.",
            min=0,
            show_default="a few minutes' work",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Sizes at which all five take under ten minutes.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="The paper's own sizes (scale 1).")] = False,
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("docs/reproduction"),
) -> None:
    """Reproduce the tables and figures of a paper, with a verdict on its claims."""
    if quick + full + (scale is not None) > 1:
        raise typer.BadParameter("give one of --scale, --quick and --full")
    checkout()
    from lab.bench import command
    from skyband.kernels.patient import hurry

    hurry()
    command.reproduce(name, 1.0 if full else scale, out, quick=quick)


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
def _main(
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
