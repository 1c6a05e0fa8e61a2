"""Starting a job: session, sources, query, sinks."""

from __future__ import annotations

from functools import reduce
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - as every Spark program has it

from skyband.errors import EngineError
from skyband.spark.checkpoint import check_checkpoint, mark_checkpoint
from skyband.spark.metrics import Progress, log, serve
from skyband.spark.pipeline.job import Job, Section
from skyband.spark.pipeline.postgres import Postgres
from skyband.spark.pipeline.reading import LETTER_DDL, invalid_rows, packages_of, read_source
from skyband.spark.plan import Plan
from skyband.spark.ranking import plan_of, ranked
from skyband.spark.requirements import start_session

__all__ = ["run", "start_job"]

_SLOW_START = "Python worker failed to connect back"
"""What Spark says when a worker has not started within its fixed ten seconds: a busy machine."""
_ATTEMPTS = 5


def run(job: Job, session: Any = None) -> None:
    """What ``skyband.spark.pipeline.run_job`` does, once Spark is known to be there."""
    own = session is None
    if session is None:
        session = session_of(job)
    attempts = _ATTEMPTS
    try:
        while True:
            attempts -= 1
            try:
                return _run_once(job, session)
            except StreamingQueryException as problem:
                if _SLOW_START not in str(problem) or not attempts:
                    raise EngineError(
                        f"the pipeline stopped: {cause_of(problem)}. Mend the cause and start it "
                        f"again: it goes on from {job.checkpoint!r}; if the checkpoint itself is "
                        "damaged, use a copy of it or an empty folder"
                    ) from problem
                log.warning("%s: a Python worker was too slow to start; again", job.name)
    finally:
        if own:
            session.stop()


def _run_once(job: Job, session: Any) -> None:
    queries, server = start_job(job, session)
    try:
        for query in queries:
            query.awaitTermination()
    except KeyboardInterrupt:
        pass
    finally:
        for query in queries:
            query.stop()
        if server is not None:
            server.shutdown()
            server.server_close()


def cause_of(problem: Exception) -> str:
    """The line of a failure that says what happened, rather than where in Spark."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    for line in lines:
        if line.startswith("skyband.errors."):
            return line.split(": ", 1)[-1]
    return lines[0] if lines else type(problem).__name__


def session_of(job: Job) -> Any:
    """A session with what the job's sources and sinks need."""
    sections = [*job.sources.values(), job.sink, *([job.dead_letters] if job.dead_letters else [])]
    formats = {section["format"] for section in sections if section["format"]}
    settings: dict[str, Any] = dict(job.spark)
    needed = packages_of({section.kind for section in sections}, formats)
    if needed and not ({"spark.jars", "spark.jars.packages"} & set(settings)):
        settings["spark.jars.packages"] = ",".join(needed)
    return start_session(job.master, job.name, settings)


def start_job(job: Job, session: Any) -> tuple[list[Any], Any | None]:
    """Start the streaming queries of a job; gives them and the metrics server, if any."""
    read = {name: read_source(session, name, source) for name, source in job.sources.items()}
    frames = {name: frame for name, (frame, _) in read.items()}
    plan = plan_of(frames, job.query, job.shards, job.on_bad, job.changes)
    local = "://" not in job.checkpoint
    if local:
        check_checkpoint(job.checkpoint, plan)
        mark_checkpoint(job.checkpoint, plan)
    given = frames if set(frames) != {""} else frames[""]
    answers = ranked(given, job.query, job.shards, job.on_bad, job.changes)
    server = None
    if job.metrics:
        listener = Progress()
        session.streams.addListener(listener)
        server = serve(listener, job.metrics["port"], job.metrics.get("host", "127.0.0.1"))
    queries = [_written(answers, job.sink, job, job.name, f"{job.checkpoint}/answers")]
    letters = _letters(read, plan, job)
    if letters is not None:
        assert job.dead_letters is not None
        name, folder = f"{job.name}-dead-letters", f"{job.checkpoint}/dead-letters"
        queries.append(_written(letters, job.dead_letters, job, name, folder))
    return queries, server


def _letters(read: dict[str, tuple[Any, Any | None]], plan: Plan, job: Job) -> Any | None:
    """Records that could not be read, and rows that the query refuses."""
    if job.dead_letters is None:
        return None
    found = []
    for name, (frame, unread) in read.items():
        if unread is not None:
            found.append(unread)
        names = [F.col(f"`{column}`") for column in plan.schemas[name].names]
        found.append(frame.select(*names).mapInArrow(invalid_rows(plan, name), LETTER_DDL))
    return reduce(lambda one, other: one.unionByName(other), found)


def _written(frame: Any, sink: Section, job: Job, name: str, checkpoint: str) -> Any:
    if sink.kind == "kafka":
        columns = [F.to_json(F.struct("*")).alias("value")]
        if sink["key"]:
            columns.append(F.col(sink["key"]).cast("string").alias("key"))
        frame = frame.select(*columns)
    writer = frame.writeStream.queryName(name).outputMode("append")
    writer = writer.option("checkpointLocation", checkpoint).options(**(sink["options"] or {}))
    if job.trigger.get("once"):
        writer = writer.trigger(availableNow=True)
    elif "every" in job.trigger:
        writer = writer.trigger(processingTime=job.trigger["every"])
    if sink.kind == "console":
        writer = writer.format("console").option("truncate", "false")
        writer = writer.option("numRows", sink["rows"] or 20)
    elif sink.kind == "files":
        writer = writer.format(sink["format"] or "parquet").option("path", sink["path"])
    elif sink.kind == "kafka":
        writer = writer.format("kafka").option("kafka.bootstrap.servers", sink["servers"])
        writer = writer.option("topic", sink["topic"])
    else:
        target = Postgres(sink["dsn"], sink["dsn_env"], sink["table"], job.name)
        target.check()
        writer = writer.foreachBatch(target)
    try:
        return writer.start()
    except Exception as problem:
        told = str(problem).splitlines()[0]
        raise EngineError(f"the query {name!r} could not be started: {told}") from problem
