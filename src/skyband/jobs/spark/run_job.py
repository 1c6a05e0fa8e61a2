"""Runs a job on Spark: starts it, waits for it, starts it again where that helps, stops it."""

from __future__ import annotations

import importlib
import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs
from pyspark.errors import StreamingQueryException

from skyband.answers.changes import asked_changes
from skyband.data.letters import LETTERS, CarriedColumns
from skyband.embedded.snapshots import BoardDiff
from skyband.engine.intake import RowLimits
from skyband.errors import EngineError
from skyband.jobs.job import Job, check_columns
from skyband.jobs.report import Report, Tell, changed_lines
from skyband.jobs.sinks.base import row_limits
from skyband.jobs.sinks.files import letters_sink, sink_of
from skyband.jobs.spark.batches import BatchWriter, Follower, SinkColumns
from skyband.jobs.spark.checkpoint import (
    Claim,
    check_logs,
    damaged,
    next_watermark,
    plan_closing,
    read_closing,
    told_of_damage,
)
from skyband.jobs.spark.first_batch import sharded
from skyband.jobs.spark.reading import read_source
from skyband.jobs.stopping import Stop
from skyband.spark.file_source import WorkerFiles
from skyband.spark.locations import open_location
from skyband.spark.metrics import Progress, serve
from skyband.spark.plan import PROMISE, BoardPlan, QueryPlan, state_keys
from skyband.spark.ranking import packed_answers, plan_of
from skyband.spark.sessions import (
    ONE_DAEMON,
    PARTITIONS,
    advise_partitions,
    check_session,
    error_of,
    first_line,
    local_cores,
    partitions_for,
    quick_java,
    require_packages,
    start_session,
)

log = logging.getLogger("skyband.jobs")

# Files that Spark listed for a batch and that are gone before they were read ---------------------
#
# Spark's file source writes down the files of a batch before it runs, and silently leaves out those
# that have disappeared since, after a crash for instance. A job looks them up in its checkpoint:
#
#     offsets/7     {"logOffset": 3}            the batch takes the listings up to number 3
#     sources/0/3   {"path": "file:///…", …}    the files of listing 3 of source 0


_GONE = "it was there when the folder was listed, and is gone now"


class Listed:
    """The files that a job's batches should read; ``sources`` are those of files, by number."""

    def __init__(self, checkpoint: str, sources: Mapping[int, str]) -> None:
        self.folder = None if "://" in checkpoint else Path(checkpoint)
        self.sources = sources

    def gone(self, batch: int) -> pa.Table:
        """A dead letter for each file of a batch that is not there any more."""
        rows = [
            {"source": name, "reason": _GONE, "file": unquote(uri)}
            for number, name in self.sources.items()
            for uri in _missing(list(self._files(number, batch)))
        ]
        return pa.Table.from_pylist(rows, schema=LETTERS)

    def _files(self, source: int, batch: int) -> Iterator[str]:
        if self.folder is None:
            return
        for number in range(self._upto(source, batch - 1) + 1, self._upto(source, batch) + 1):
            log = self.folder / "sources" / str(source)
            for path in (log / str(number), log / f"{number}.compact"):
                if path.exists():
                    entries = [json.loads(line) for line in path.read_text().splitlines()[1:]]
                    yield from (e["path"] for e in entries if e["batchId"] == number)
                    break

    def _upto(self, source: int, batch: int) -> int:
        """The last listing that a batch has taken; -1 if there is none."""
        assert self.folder is not None
        path = self.folder / "offsets" / str(batch)
        lines = path.read_text().splitlines()[2:] if path.exists() else []
        line = lines[source] if len(lines) > source else "-"
        offset: Any = {} if line == "-" else json.loads(line)
        return int(offset.get("logOffset", -1)) if isinstance(offset, dict) else -1


def _missing(uris: list[str]) -> list[str]:
    """Of local files, those that are not there; other systems are asked by the workers only."""
    local = [uri for uri in uris if uri.startswith("file:")]
    if not local:
        return []
    system = pa.fs.LocalFileSystem()
    found = system.get_file_info([open_location(uri, {})[1] for uri in local])
    pairs = zip(local, found, strict=True)
    return [uri for uri, info in pairs if info.type == pa.fs.FileType.NotFound]


_FINISH = 10.0
"""Seconds that the batch in progress has to finish when a job is stopped."""


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
class RunningJob:
    """A running job."""

    query: Any
    writer: BatchWriter
    metrics: Metrics | None
    plan: BoardPlan

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


def start(job: Job, session: Any, follower: Follower | None = None) -> RunningJob:
    """Start the job in a session; nothing is left behind if it cannot be started."""
    job = sharded(job, session)
    sinks = {name: sink_of(job, name) for name in job.sinks}
    plan, frames, carried = _bound(job, session, row_limits(job, sinks))
    check_session(session, streaming=True)
    advise_partitions(session, plan.keys)
    claim = Claim(job.checkpoint, plan, session, job.reads, job.columns)
    check_columns(job.checkpoint, claim.columns_before, job.columns)
    check_logs(job.checkpoint)
    for line in changed_lines(_changed(job, plan, claim.known)):
        log.warning("%s: %s", job.name, line)
    dead = letters_sink(job)
    for sink in (*([dead] if dead else []), *sinks.values()):
        sink.open(claim.run)
    targets = [
        SinkColumns(sinks[name], "payload", own.output, name, None if job.alone else name)
        for name, own in _by_name(job, plan).items()
    ]
    if dead is not None:
        targets.append(SinkColumns(dead, "letters", LETTERS))
    of_files = {i: n for i, n in enumerate(frames) if isinstance(frames[n], WorkerFiles)}
    listed = Listed(f"{job.checkpoint}/answers", of_files)
    writer = BatchWriter(targets, claim.confirm, listed.gone, job.on_bad, follower)
    metrics = Metrics(job, session) if job.metrics else None
    try:
        claim.prepare()
        if follower is not None:
            follower.started(plan.plans)
            plan = promising(plan)
            writer.promised = {n: own.output for n, own in _by_name(job, plan).items()}
        query = _started(job, packed_answers(frames, plan, carried), writer)
    except Exception as problem:
        if metrics is not None:
            metrics.close()
        claim.withdraw()
        reason = first_line(problem)
        raise EngineError(f"the job {job.name!r} could not be started: {reason}") from problem
    return RunningJob(query, writer, metrics, plan)


def _by_name(job: Job, plan: BoardPlan) -> dict[str, QueryPlan]:
    """The plans by the names that the job has for its queries.

    In a plan, a query alone has no name, so that a job may be renamed.
    """
    return dict(zip(job.queries, plan.plans.values(), strict=True))


def _changed(job: Job, plan: BoardPlan, known: list[str] | None) -> BoardDiff:
    """Which queries were added since the job last ran, and where they begin; and which are gone."""
    if known is None:
        return BoardDiff({}, [])
    added = [name for name in plan.plans if name not in known]
    seen = next_watermark(job.checkpoint) if added else None
    starts = {name: plan.plans[name].first_start(seen) for name in added}
    return BoardDiff(starts, [name for name in known if name not in plan.plans])


def promising(plan: BoardPlan) -> BoardPlan:
    """The same plan, whose rows carry their guarantees, unless they have columns named so."""
    plans = {
        name: replace(own, bounds=not set(PROMISE.names) & set(own.output.names))
        for name, own in plan.plans.items()
    }
    return replace(plan, plans=plans)


def _bound(
    job: Job, session: Any, limits: Mapping[str, RowLimits]
) -> tuple[BoardPlan, dict[str, Any], dict[str, CarriedColumns]]:
    """The plan of all queries, the sources as DataFrames, and the columns carried beside them."""
    letters = job.writes_letters
    frames, carried = {}, {}
    for name, section in job.sources.items():
        frames[name], carried[name] = read_source(session, name, section, letters)
    plain = {name: frame.drop(*carried[name].hidden) for name, frame in frames.items()}
    board, _ = plan_of(plain.get("", plain), job.asked, shards=job.shards, on_bad=job.on_bad)
    plans = {
        own_name: replace(
            own,
            changes=asked_changes("changes", job.changes_of(name)),
            letters=letters,
            limits=limits[name],
        )
        for (own_name, own), name in zip(board.plans.items(), job.queries, strict=True)
    }
    late = None
    if job.late == "letters":
        folder = f"{job.checkpoint}/answers"
        late = folder if "://" in folder else str(Path(folder).absolute())
    board = replace(board, plans=plans, closing=read_closing(job.checkpoint), late=late)
    return board, frames, carried


def _started(job: Job, frame: Any, writer: BatchWriter) -> Any:
    stream = frame.writeStream.queryName(job.name).outputMode("append").foreachBatch(writer)
    stream = stream.option("checkpointLocation", f"{job.checkpoint}/answers")
    if job.trigger.get("once"):
        stream = stream.trigger(availableNow=True)
    elif "every" in job.trigger:
        stream = stream.trigger(processingTime=job.trigger["every"])
    return stream.start()


# What a job on Spark tells while it runs, from the progress that Spark reports -------------------


class SparkReports:
    """Tells what a running job has done, batch by batch."""

    def __init__(self) -> None:
        self.running: RunningJob | None = None
        """The job as it was started last; it goes on where another start ended."""
        self.progress = Progress()
        self.batch = -1
        self.newest: dict[str, pa.Table] = {}

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

    artifacts = []
    if "kafka" in kinds:
        artifacts.append(f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}")
    if "avro" in formats:
        artifacts.append(f"org.apache.spark:spark-avro_2.13:{version('pyspark')}")
    if artifacts and any("dev" in each for each in artifacts):
        raise EngineError(
            "a development build of PySpark has no published connectors; give jars of a release "
            "as spark.jars in [spark]"
        )
    return artifacts


_SLOW_START = "Python worker failed to connect back"
"""Spark's message when a worker did not start within its fixed ten seconds: a busy machine."""
_ATTEMPTS = 5
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
    # Spark needs pandas: half a second to import, while its session starts.
    beside = threading.Thread(target=_import_pandas, name="skyband-imports", daemon=True)
    beside.start()
    session = session_of(job, verbose)
    beside.join()
    require_packages()
    job = sharded(job, session)
    if job.shards != 1 and PARTITIONS not in job.spark:
        session.conf.set(PARTITIONS, str(partitions_for(_keys(job), job.master)))
    return session, job


def _import_pandas() -> None:
    with suppress(Exception):  # it is imported again where it is used, which raises
        importlib.import_module("pandas")


def _keys(job: Job) -> int:
    return sum(state_keys(query, job.shards) for query in job.queries.values())


def _run(job: Job, session: Any, stop: Stop, tell: Tell | None, follower: Follower | None) -> None:
    attempts = _ATTEMPTS
    reports = SparkReports()
    while not stop.asked():
        attempts -= 1
        running = start(job, session, follower)
        running.writer.follow = tell is not None
        reports.running = running
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
                reason = str(running.writer.problem or error_of(problem))
                raise _stopped(job, reason, problem) from problem
            log.warning("%s: a Python worker was too slow to start; trying again", job.name)
        finally:
            if stop.asked():
                running.finish_batch()
                with suppress(Exception):  # Spark logs what its own interrupts cause
                    session.sparkContext.setLogLevel("OFF")
            running.close()


def _stopped(job: Job, reason: str, problem: Exception) -> EngineError:
    """What stopped a job, and what to do."""
    if line := told_of_damage(f"{reason}\n{problem}"):
        return damaged(job.checkpoint, line)
    return EngineError(
        f"the job stopped: {reason}. Fix the cause and start it again: it resumes from "
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
    return local and all(s.kind == "files" and s.by_workers for s in job.sources.values())
