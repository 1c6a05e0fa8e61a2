"""Jobs on Spark: ``pipeline`` runs a job file, ``state`` shows what its checkpoint holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skyband.cli.choices import Engine, Format
from skyband.cli.explain import explained, say

__all__ = ["add_pipelines"]

Master = Annotated[
    str | None, typer.Option(help="Spark's master, such as 'local[4]' or 'spark://host:7077'.")
]


def add_pipelines(app: typer.Typer) -> None:
    """Add the verbs for streaming jobs to an app."""
    app.command("pipeline")(explained(pipeline))
    app.command("state")(explained(state))


def pipeline(
    job: Annotated[Path, typer.Argument(help="A job file, JOB.toml; see docs/jobs.md.")],
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
    from dataclasses import replace

    from skyband import jobs
    from skyband.cli.job_view import telling
    from skyband.kernels.notice import say_in_any_case

    found = jobs.load_job(job, None if engine is None else engine.value)
    if master is not None:
        found = replace(found, master=master)
    jobs.check_ready(found)
    if explain:
        print(jobs.explain(found))
        return
    say(jobs.explain(found))
    say_in_any_case()
    with telling(found) as tell:
        jobs.run_job(found, tell=tell, seconds=seconds, verbose=verbose)


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
