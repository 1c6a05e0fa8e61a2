"""Starts the streaming query of a job: its sources, its plan, its sinks and its metrics page."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs

from skyband.answers.changes import asked_changes
from skyband.data.letters import LETTERS
from skyband.embedded.snapshots import BoardDiff
from skyband.engine.intake import RowLimits
from skyband.errors import EngineError
from skyband.jobs.job import Job, check_columns
from skyband.jobs.limits import row_limits
from skyband.jobs.report import changed_lines
from skyband.jobs.sinks.files import make_sink, sink_of
from skyband.jobs.spark.batches import BatchWriter, Follower, SinkColumns
from skyband.jobs.spark.checkpoint import Claim, check_logs, next_watermark, read_closing
from skyband.jobs.spark.first_batch import sharded
from skyband.jobs.spark.reading import read_source
from skyband.spark.file_source import WorkerFiles
from skyband.spark.locations import open_location
from skyband.spark.metrics import Progress, serve
from skyband.spark.plan import PROMISE, BoardPlan, QueryPlan
from skyband.spark.ranking import packed_answers, plan_of
from skyband.spark.sessions import advise_partitions, check_session, error_of, first_line

__all__ = [
    "Listed",
    "Metrics",
    "RunningJob",
    "promising",
    "start",
]

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
        told: Any = {} if line == "-" else json.loads(line)
        return int(told.get("logOffset", -1)) if isinstance(told, dict) else -1


def _missing(uris: list[str]) -> list[str]:
    """Of local files, those that are not there; other systems are asked by the workers only."""
    local = [uri for uri in uris if uri.startswith("file:")]
    if not local:
        return []
    system = pa.fs.LocalFileSystem()
    found = system.get_file_info([open_location(uri, {})[1] for uri in local])
    pairs = zip(local, found, strict=True)
    return [uri for uri, info in pairs if info.type == pa.fs.FileType.NotFound]


log = logging.getLogger("skyband.jobs")
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


def start(job: Job, session: Any, follower: Follower | None = None) -> RunningJob:
    """Start the job in a session; nothing is left behind if it cannot be started."""
    job = sharded(job, session)
    sinks = {name: sink_of(job, name) for name in job.sinks}
    read = _BoundSources(job, session, row_limits(job, sinks))
    plan = read.plan()
    check_session(session, streaming=True)
    advise_partitions(session, plan.keys)
    claim = Claim(job.checkpoint, plan, session, job.reads, job.columns)
    check_columns(job.checkpoint, claim.columns_before, job.columns)
    check_logs(job.checkpoint)
    for line in changed_lines(_changed(job, plan, claim.known)):
        log.warning("%s: %s", job.name, line)
    dead = None
    if read.letters and job.dead_letters is not None:
        name = f"{job.name}-dead-letters"
        dead = make_sink(job.dead_letters, "[dead_letters]", job.name, name, "json")
        dead.open(claim.run)
    for sink in sinks.values():
        sink.open(claim.run)
    targets = [
        SinkColumns(sinks[name], "payload", own.output, name, None if job.alone else name)
        for name, own in _by_name(job, plan).items()
    ]
    if dead is not None:
        targets.append(SinkColumns(dead, "letters", LETTERS))
    writer = BatchWriter(targets, claim.confirm, read.listed().gone, job.on_bad, follower)
    metrics = Metrics(job, session) if job.metrics else None
    try:
        claim.prepare()
        if follower is not None:
            follower.started(plan.plans)
            plan = promising(plan)
            writer.promised = {n: own.output for n, own in _by_name(job, plan).items()}
        query = _started(job, packed_answers(read.frames, plan, read.carried), writer)
    except Exception as problem:
        if metrics is not None:
            metrics.close()
        claim.withdraw()
        told = first_line(problem)
        raise EngineError(f"the job {job.name!r} could not be started: {told}") from problem
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
    plans = {n: replace(each, bounds=_free(each)) for n, each in plan.plans.items()}
    return replace(plan, plans=plans)


def _free(plan: QueryPlan) -> bool:
    return not set(PROMISE.names) & set(plan.output.names)


class _BoundSources:
    """The sources of a job as DataFrames, and its queries bound to them."""

    def __init__(self, job: Job, session: Any, limits: Mapping[str, RowLimits]) -> None:
        self.job, self.session, self.limits = job, session, limits
        self.letters = job.dead_letters is not None and job.on_bad == "skip"
        read = {
            name: read_source(session, name, section, self.letters)
            for name, section in job.sources.items()
        }
        self.frames = {name: frame for name, (frame, _) in read.items()}
        self.carried = {name: beside for name, (_, beside) in read.items()}

    def plan(self) -> BoardPlan:
        """The plan of all queries."""
        job = self.job
        frames = {n: frame.drop(*self.carried[n].hidden) for n, frame in self.frames.items()}
        shown = frames.get("", frames)
        settings = {"shards": job.shards, "on_bad": job.on_bad}
        board, _ = plan_of(shown, job.asked, **settings)
        changes = [asked_changes("changes", job.changes_of(name)) for name in job.queries]
        plans = {
            name: replace(own, changes=kinds, letters=self.letters, limits=limits)
            for (name, own), kinds, limits in zip(
                board.plans.items(),
                changes,
                [self.limits[name] for name in job.queries],
                strict=True,
            )
        }
        return replace(board, plans=plans, closing=read_closing(job.checkpoint))

    def listed(self) -> Listed:
        """The files that each source of files has found."""
        found = {i: n for i, n in enumerate(self.frames) if isinstance(self.frames[n], WorkerFiles)}
        return Listed(f"{self.job.checkpoint}/answers", found)


def _started(job: Job, frame: Any, writer: BatchWriter) -> Any:
    stream = frame.writeStream.queryName(job.name).outputMode("append").foreachBatch(writer)
    stream = stream.option("checkpointLocation", f"{job.checkpoint}/answers")
    if job.trigger.get("once"):
        stream = stream.trigger(availableNow=True)
    elif "every" in job.trigger:
        stream = stream.trigger(processingTime=job.trigger["every"])
    return stream.start()
