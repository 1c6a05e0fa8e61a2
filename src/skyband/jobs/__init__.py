"""``skyband pipeline JOB.toml``: a streaming job described in a file instead of a program.

    name = "busiest"                      [query]                       [sink]
    checkpoint = "state/busiest"          kind = "TopK"                 kind = "files"
                                          k = 10                        path = "answers"
    [source]                              score = "bytes"
    kind = "kafka"                        id = "flow"                   [trigger]
    servers = "localhost:9092"            time = "ts"                   every = "10 seconds"
    topic = "flows"
    schema = "ts timestamp, flow string,  [query.window]                [dead_letters]
              bytes bigint"               size = "10 minutes"           kind = "files"
                                          slide = "1 minute"            path = "bad"

For several sources write ``[sources.NAME]``. ``docs/jobs.md`` explains it.

Imports both engines; imported by ``cli`` and ``serve``. What needs PySpark is loaded when a job
needs it.
"""

from __future__ import annotations

from typing import Any

from skyband.jobs.checks import check_ready, waits_for
from skyband.jobs.job import CardView, Job, explain
from skyband.jobs.parsing import JobProblem, load_board, load_job, parse_job, problems_of
from skyband.jobs.report import Tell
from skyband.spark.sessions import require_packages

__all__ = [
    "CardView",
    "Job",
    "JobProblem",
    "check_ready",
    "explain",
    "load_board",
    "load_job",
    "parse_job",
    "problems_of",
    "run_job",
    "waits_for",
]


def run_job(
    job: Job,
    session: Any = None,
    tell: Tell | None = None,
    seconds: float | None = None,
    verbose: bool = True,
) -> None:
    """Run a job until it ends or is interrupted; answers already written stay valid.

    ``tell`` is called with a report after each batch. ``seconds`` stops the job after that time.
    ``verbose=False`` silences Spark's own messages.
    """
    check_ready(job)
    if job.engine == "local":
        from skyband.jobs.local.local_job import run_local

        observer = None if tell is None else lambda progress: tell(progress.report())
        run_local(job, observer, seconds)
        return
    require_packages(imported=False)
    from skyband.jobs.spark.run_job import run

    run(job, session, tell, seconds, verbose)
