"""Runs a job on Spark: starts it, waits for it, starts it again where that helps, and stops it."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException

from skyband.errors import EngineError
from skyband.jobs.checks import read_by_workers
from skyband.jobs.job import Job
from skyband.jobs.report import Report, Tell
from skyband.jobs.spark.starting import RunningJob
from skyband.jobs.stopping import Stop
from skyband.spark.metrics import Progress
from skyband.spark.plan import state_keys
from skyband.spark.sessions import (
    ONE_DAEMON,
    PARTITIONS,
    local_cores,
    log,
    partitions_for,
    quick_java,
    require_packages,
    start_session,
)

if TYPE_CHECKING:
    from skyband.jobs.spark.batches import Follower

__all__ = [
    "SparkReports",
    "packages_of",
    "run",
    "session_of",
]

# What a job on Spark tells while it runs, from the progress that Spark reports -------------------


class SparkReports:
    """Tells what a running job has done, batch by batch."""

    def __init__(self) -> None:
        self.running: RunningJob | None = None
        self.progress = Progress()
        self.batch = -1
        self.newest: dict[str, pa.Table] = {}

    def follow(self, running: RunningJob) -> None:
        """Tell of this one from now on; it goes on where another one ended."""
        self.running = running

    def tell(self, tell: Tell | None) -> None:
        """Report the batches that ended since the last call, the last of them in full."""
        assert self.running is not None
        last = None if tell is None else self.running.query.lastProgress
        if tell is None or last is None or last.batchId <= self.batch:
            return
        new = [last] if last.batchId == self.batch + 1 else self.running.query.recentProgress
        figures: dict[str, float] = {}
        for each in new:
            added = self.progress.add(each) if each.batchId > self.batch else None
            if added is not None:
                self.batch, figures = each.batchId, added
        self.newest |= self.running.writer.newest
        for totals in self.progress.snapshot().values():
            tell(self._report(figures, totals))

    def _report(self, figures: Mapping[str, float], totals: Mapping[str, float]) -> Report:
        seconds = figures.get("batch_seconds", 0.0)
        state = totals.get("state_bytes")
        return Report(
            batch=self.batch,
            rows=int(totals["rows_in"]),
            rate=figures.get("rows_in", 0.0) / seconds if seconds else None,
            late=int(totals["rows_late"]),
            bad=int(totals["rows_bad"]),
            windows=int(totals["windows_out"]),
            state_bytes=None if state is None else int(state),
            watermark=totals.get("watermark_seconds"),
            lag=totals.get("watermark_lag_seconds"),
            answers=dict(self.newest),
        )


# Packages that Spark has to fetch for the sources and sinks of a job -----------------------------


def packages_of(kinds: set[str], formats: set[str]) -> list[str]:
    """Maven artifacts that sources and sinks of these kinds need in addition to Spark."""
    from importlib.metadata import version

    found = []
    if "kafka" in kinds:
        found.append(f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}")
    if "avro" in formats:
        found.append(f"org.apache.spark:spark-avro_2.13:{version('pyspark')}")
    if found and any("dev" in each for each in found):
        raise EngineError(
            "a development build of PySpark has no published connectors; give jars of a release "
            "as spark.jars in [spark]"
        )
    return found


_SLOW_START = "Python worker failed to connect back"
"""Spark's message when a worker did not start within its fixed ten seconds: a busy machine."""
_ATTEMPTS = 5
_LATER = (
    "skyband.jobs.spark.starting",
    "skyband.jobs.spark.run_job",
    "skyband.jobs.spark.checkpoint",
)
"""What a job needs when its session is there: a second to import, while Spark starts."""
_LOOK = 0.25
"""Seconds between checks whether the job should end."""
_STOP = "spark.sql.streaming.stopTimeout"
_PATIENCE = "spark.python.authenticate.socketTimeout"
"""How long Spark and a worker wait for each other; the default is too short on a busy machine."""


def run(
    job: Job,
    session: Any = None,
    tell: Tell | None = None,
    seconds: float | None = None,
    verbose: bool = True,
    follower: Follower | None = None,
    stopping: Stop | None = None,
) -> None:
    """The implementation of ``skyband.jobs.run_job``; needs PySpark to be installed.

    ``follower`` is shown the answers; ``stopping`` lets another thread end the job.
    """
    own = session is None
    with stopping or Stop() as stop:
        try:
            if session is None:
                session, job = _prepared(job, verbose)
            stop.listen()
            stop.after(seconds)
            _run(job, session, stop, tell, follower)
        except (Exception, KeyboardInterrupt):
            # An error while a job is being stopped is a consequence of stopping it.
            if not stop.asked():
                raise
        finally:
            if own and session is not None:
                with suppress(Exception):
                    session.stop()


def _prepared(job: Job, verbose: bool) -> tuple[Any, Job]:
    """A session for a job, and the job with its number of shards."""
    beside = threading.Thread(target=_import_later, name="skyband-imports", daemon=True)
    beside.start()
    session = session_of(job, verbose)
    beside.join()
    require_packages()
    from skyband.jobs.spark.first_batch import sharded

    job = sharded(job, session)
    if job.shards != 1 and PARTITIONS not in job.spark:
        session.conf.set(PARTITIONS, str(partitions_for(_keys(job), job.master)))
    return session, job


def _import_later() -> None:
    with suppress(Exception):  # it is imported again where it is used, which raises
        for name in ("pandas", *_LATER):
            importlib.import_module(name)


def _keys(job: Job) -> int:
    return sum(state_keys(query, job.shards) for query in job.queries.values())


def _run(job: Job, session: Any, stop: Stop, tell: Tell | None, follower: Follower | None) -> None:
    from skyband.jobs.spark.checkpoint import plan_closing
    from skyband.jobs.spark.starting import start

    attempts = _ATTEMPTS
    reports = SparkReports()
    while not stop.asked():
        attempts -= 1
        running = start(job, session, follower)
        running.writer.follow = tell is not None
        reports.follow(running)
        try:
            while not stop.asked() and not running.query.awaitTermination(_LOOK):
                reports.tell(tell)
            reports.tell(tell)
            closes = job.trigger.get("close") and not stop.asked()
            if not closes or not plan_closing(session, job.checkpoint, running.plan):
                return
            attempts += 1  # the batch that closes the job is run by another start
        except StreamingQueryException as problem:
            if _SLOW_START not in str(problem) or not attempts:
                raise _stopped(job, running.problem(problem), problem) from problem
            log.warning("%s: a Python worker was too slow to start; trying again", job.name)
        finally:
            if stop.asked():
                running.finish_batch()
                with suppress(Exception):  # Spark logs what its own interrupts cause
                    session.sparkContext.setLogLevel("OFF")
            running.close()


def _stopped(job: Job, told: str, problem: Exception) -> EngineError:
    """What stopped a job, and what to do."""
    from skyband.jobs.spark.checkpoint import damaged, told_of_damage

    if found := told_of_damage(f"{told}\n{problem}"):
        return damaged(job.checkpoint, found)
    return EngineError(
        f"the pipeline stopped: {told}. Fix the cause and start it again: it resumes from "
        f"{job.checkpoint!r}"
    )


def session_of(job: Job, verbose: bool = True) -> Any:
    """Start a session with the packages that the job's sources and sinks need."""
    sections = [
        *job.sources.values(),
        *job.sinks.values(),
        *([job.dead_letters] if job.dead_letters else []),
    ]
    formats = {section["format"] for section in sections if section["format"]}
    settings: dict[str, Any] = dict(job.spark)
    kinds = {section.kind for section in job.sources.values()}
    kinds |= {section.kind for section in sections if section["writer"] == "spark"}
    needed = packages_of(kinds, formats)
    if needed and not ({"spark.jars", "spark.jars.packages"} & set(settings)):
        settings["spark.jars.packages"] = ",".join(needed)
    settings.setdefault(PARTITIONS, partitions_for(_keys(job), job.master))
    settings.setdefault(_STOP, "10s")
    settings.setdefault(_PATIENCE, "120s")
    settings = ONE_DAEMON | settings
    if not verbose:
        settings.setdefault("spark.log.level", "ERROR")
    with quick_java(settings) if _works_in_python(job) else nullcontext():
        return start_session(job.master, job.name, settings, quiet=not verbose)


def _works_in_python(job: Job) -> bool:
    """Whether the JVM of a job on this machine has little to do: no row passes through it."""
    local = local_cores(job.master) is not None
    return local and all(s.kind == "files" and read_by_workers(s) for s in job.sources.values())
