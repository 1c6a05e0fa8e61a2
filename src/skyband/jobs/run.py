"""Starts a job (session, sources, query, sinks), waits for it, and stops it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException

from skyband.answers.changes import asked_changes
from skyband.errors import EngineError
from skyband.jobs.batches import Follower, Target, Writer
from skyband.jobs.first_batch import needs_session, sharded
from skyband.jobs.job import Job
from skyband.jobs.listed import Listed
from skyband.jobs.reading import packages_of, read_source
from skyband.jobs.report import Report, Tell
from skyband.jobs.sinks import make_sink
from skyband.jobs.stopping import Stop
from skyband.spark.board_plan import BoardPlan
from skyband.spark.boards import board_plan_of, given_board
from skyband.spark.checkpoint import Claim
from skyband.spark.closing import plan_closing, read_closing
from skyband.spark.file_source import Files
from skyband.spark.letters import LETTERS
from skyband.spark.metrics import Progress, log, read_progress, serve
from skyband.spark.plan import Plan, state_keys
from skyband.spark.promises import PROMISE
from skyband.spark.ranking import given, plan_of
from skyband.spark.requirements import (
    PARTITIONS,
    advise_partitions,
    check_session,
    error_of,
    first_line,
    partitions_for,
    start_session,
)

__all__ = ["run", "start_job"]

_SLOW_START = "Python worker failed to connect back"
"""Spark's message when a worker did not start within its fixed ten seconds: a busy machine."""
_DAMAGED = (
    *("CANNOT_LOAD_STATE_STORE", "CANNOT_READ_CHECKPOINT", "CHECKPOINT_FILE_CHECKSUM"),
    *("MALFORMED_LOG_FILE", "malformed", "Incomplete log file", "log file was malformed"),
    *("ChecksumException", "snapshot is damaged", "STATE_STORE_SCHEMA"),
)
"""What Spark, or a bucket, says about a checkpoint that cannot be read."""
_ATTEMPTS = 5
_LOOK = 0.25
"""Seconds between checks whether the job should end."""
_STOP = "spark.sql.streaming.stopTimeout"
_FINISH = 10.0
"""Seconds that the batch in progress has to finish when a job is stopped."""
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
    early = job if needs_session(job) else sharded(job)
    session = session_of(early, verbose)
    late = sharded(early, session)
    if late.shards != 1 and PARTITIONS not in job.spark:
        session.conf.set(PARTITIONS, str(partitions_for(_keys(late), job.master)))
    return session, late


def _keys(job: Job) -> int:
    return sum(state_keys(query, job.shards) for query in job.queries.values())


def _run(job: Job, session: Any, stop: Stop, tell: Tell | None, follower: Follower | None) -> None:
    attempts = _ATTEMPTS
    reports = Reports()
    while not stop.asked():
        attempts -= 1
        running = _start(job, session, follower)
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
                raise EngineError(_stopped(job, running.problem(problem), problem)) from problem
            log.warning("%s: a Python worker was too slow to start; trying again", job.name)
        finally:
            if stop.asked():
                running.finish_batch()
                with suppress(Exception):  # Spark logs what its own interrupts cause
                    session.sparkContext.setLogLevel("OFF")
            running.close()


def _stopped(job: Job, told: str, problem: Exception) -> str:
    """What stopped a job, and what to do."""
    if any(sign in f"{told} {problem}" for sign in _DAMAGED):
        return (
            f"the checkpoint {job.checkpoint!r} is damaged: {told}. Restore it from a copy, or "
            "give the job an empty folder: it then reads its source from the start"
        )
    return (
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
    needed = packages_of({section.kind for section in sections}, formats)
    if needed and not ({"spark.jars", "spark.jars.packages"} & set(settings)):
        settings["spark.jars.packages"] = ",".join(needed)
    settings.setdefault(PARTITIONS, partitions_for(_keys(job), job.master))
    settings.setdefault(_STOP, "10s")
    settings.setdefault(_PATIENCE, "120s")
    if not verbose:
        settings.setdefault("spark.log.level", "ERROR")
    return start_session(job.master, job.name, settings, quiet=not verbose)


class Metrics:
    """The progress listener and the metrics page of a job."""

    def __init__(self, job: Job, session: Any) -> None:
        self.streams = session.streams
        self.listener = Progress()
        port, host = job.metrics["port"], job.metrics.get("host", "127.0.0.1")
        try:
            self.server = serve(self.listener, port, host)
        except OSError as problem:
            raise EngineError(
                f"[metrics] cannot listen on {host}:{port} ({problem.strerror}); give another port"
            ) from problem
        self.streams.addListener(self.listener)

    def close(self) -> None:
        """Stop the page and remove the listener."""
        self.server.shutdown()
        self.server.server_close()
        self.streams.removeListener(self.listener)


@dataclass
class Running:
    """A running job."""

    query: Any
    writer: Writer
    metrics: Metrics | None
    plan: Plan | BoardPlan

    def problem(self, found: Exception) -> str:
        """The error that stopped it."""
        return str(self.writer.problem or error_of(found))

    def finish_batch(self) -> None:
        """Wait some seconds for the current batch, so that its commit is not interrupted."""
        until = time.monotonic() + _FINISH
        while time.monotonic() < until:
            status = self.query.status
            if not (status["isTriggerActive"] and status["isDataAvailable"]):
                return
            time.sleep(0.05)

    def close(self) -> None:
        """Stop it; the current batch is either finished, or abandoned and redone on restart."""
        try:
            self.query.stop()
        finally:
            if self.metrics is not None:
                self.metrics.close()


class Reports:
    """Tells what a running job has done, batch by batch."""

    def __init__(self) -> None:
        self.running: Running | None = None
        self.progress = Progress()
        self.batch = -1
        self.newest: dict[str, pa.Table] = {}

    def follow(self, running: Running) -> None:
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
            if each.batchId > self.batch and read_progress(each) is not None:
                self.batch = each.batchId
                self.progress.onQueryProgress(SimpleNamespace(progress=each))
                figures = read_progress(each) or {}
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


def start_job(job: Job, session: Any) -> tuple[list[Any], Metrics | None]:
    """Start the streaming query of a job; returns it in a list, and its metrics, if any."""
    running = _start(job, session)
    return [running.query], running.metrics


def _start(job: Job, session: Any, follower: Follower | None = None) -> Running:
    job = sharded(job, session)
    read = _Read(job, session)
    plan = read.plan()
    check_session(session, streaming=True)
    advise_partitions(session, plan.keys)
    claim = Claim(job.checkpoint, plan, session)
    sinks = {
        name: make_sink(section, job.where_sink(name), job.name, name)
        for name, section in job.sinks.items()
    }
    dead = None
    if read.letters and job.dead_letters is not None:
        name = f"{job.name}-dead-letters"
        dead = make_sink(job.dead_letters, "[dead_letters]", job.name, name, "json")
        dead.open(claim.run)
    for sink in sinks.values():
        sink.open(claim.run)
    plans = plan.plans if isinstance(plan, BoardPlan) else dict.fromkeys(sinks, plan)
    targets = [Target(sinks[name], "payload", plans[name].output, name) for name in sinks]
    if dead is not None:
        targets.append(Target(dead, "letters", LETTERS))
    writer = Writer(targets, claim.confirm, read.listed().gone, job.on_bad, follower)
    metrics = Metrics(job, session) if job.metrics else None
    try:
        claim.prepare()
        if follower is not None:
            follower.started(plans)
            plan = promising(plan)
            shown = plan.plans if isinstance(plan, BoardPlan) else dict.fromkeys(sinks, plan)
            writer.promised = {name: each.output for name, each in shown.items()}
        query = _started(job, read.given(plan), writer)
    except Exception as problem:
        if metrics is not None:
            metrics.close()
        claim.withdraw()
        told = first_line(problem)
        raise EngineError(f"the job {job.name!r} could not be started: {told}") from problem
    return Running(query, writer, metrics, plan)


def promising(plan: Plan | BoardPlan) -> Plan | BoardPlan:
    """The same plan, whose rows carry their guarantees, unless they have columns named so."""
    if isinstance(plan, BoardPlan):
        return BoardPlan({n: replace(p, bounds=_free(p)) for n, p in plan.plans.items()})
    return replace(plan, bounds=_free(plan))


def _free(plan: Plan) -> bool:
    return not set(PROMISE.names) & set(plan.output.names)


class _Read:
    """The sources of a job as DataFrames, and its queries bound to them."""

    def __init__(self, job: Job, session: Any) -> None:
        self.job = job
        self.letters = job.dead_letters is not None and job.on_bad == "skip"
        read = {
            name: read_source(session, name, section, self.letters)
            for name, section in job.sources.items()
        }
        self.frames = {name: frame for name, (frame, _) in read.items()}
        self.carried = {name: beside for name, (_, beside) in read.items()}

    def plan(self) -> Plan | BoardPlan:
        """The plan of the only query, or of all of them."""
        job = self.job
        frames = {n: frame.drop(*self.carried[n].hidden) for n, frame in self.frames.items()}
        if len(job.queries) == 1:
            ((name, query),) = job.queries.items()
            plan = plan_of(frames, query, job.shards, job.on_bad, job.changes_of(name))
            return replace(plan, letters=self.letters)
        shown = frames.get("", frames)
        board, _ = board_plan_of(shown, job.queries, shards=job.shards, on_bad=job.on_bad)
        asked = {name: asked_changes("changes", job.changes_of(name)) for name in job.queries}
        plans = {
            n: replace(p, changes=asked[n], letters=self.letters) for n, p in board.plans.items()
        }
        return BoardPlan(plans, read_closing(job.checkpoint))

    def given(self, plan: Plan | BoardPlan) -> Any:
        """The packed answers of all queries."""
        if isinstance(plan, BoardPlan):
            return given_board(self.frames, plan, self.carried)
        return given(self.frames, plan, self.carried)

    def listed(self) -> Listed:
        """The files that each source of files has found."""
        found = {i: n for i, n in enumerate(self.frames) if isinstance(self.frames[n], Files)}
        return Listed(f"{self.job.checkpoint}/answers", found)


def _started(job: Job, frame: Any, writer: Writer) -> Any:
    stream = frame.writeStream.queryName(job.name).outputMode("append").foreachBatch(writer)
    stream = stream.option("checkpointLocation", f"{job.checkpoint}/answers")
    if job.trigger.get("once"):
        stream = stream.trigger(availableNow=True)
    elif "every" in job.trigger:
        stream = stream.trigger(processingTime=job.trigger["every"])
    return stream.start()
