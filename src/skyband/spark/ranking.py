"""``rank``: from a DataFrame of rows to a DataFrame of answers."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from skyband.answers.changes import asked_changes
from skyband.engine.intake import Intake
from skyband.engine.per_group import make_synopsis
from skyband.engine.session import ONLY
from skyband.errors import EngineError, SchemaError
from skyband.query.base import Query, check_query
from skyband.query.checks import count
from skyband.spark import metrics
from skyband.spark.first_rows import auto_shards
from skyband.spark.letters import Carried
from skyband.spark.plan import SHIFT_MS, Plan, check_window
from skyband.spark.processor import ANSWERED_DDL, BucketProcessor, ChangesProcessor
from skyband.spark.promises import PROMISE
from skyband.spark.requirements import advise_partitions, check_session, outside_of_functions
from skyband.spark.schemas import arrow_schema
from skyband.spark.stages import (
    GIVEN_DDL,
    PIECE_DDL,
    batch_finisher,
    batch_folder,
    finisher,
    unpacker,
)
from skyband.spark.summarise import NOTHING, PACKED_DDL, summariser
from skyband.spark.worker_read import WorkerRead

__all__ = ["frames_of", "given", "plan_of", "ranked", "spark_schema", "union"]

NONE: Mapping[str, Carried] = {}


def ranked(df_or_mapping: Any, query: Query, **settings: Any) -> Any:
    """The implementation of ``skyband.spark.rank``; needs PySpark to be installed.

    ``settings`` are those of ``plan_of``.
    """
    with outside_of_functions():
        frames = frames_of(df_or_mapping, query)
        plan = plan_of(frames, query, **settings)
        if settings.get("shards") is None:
            plan = replace(plan, shards=auto_shards(frames, [plan]))
    session = next(iter(frames.values())).sparkSession
    check_session(session, plan.streaming)
    if not plan.streaming:
        return _batch(frames, plan)
    advise_partitions(session, plan.keys)
    return given(frames, plan).mapInArrow(unpacker(plan.output), spark_schema(plan.output))


def given(frames: Mapping[str, Any], plan: Plan, carried: Mapping[str, Carried] = NONE) -> Any:
    """The output of a streaming query, still packed: columns ``payload`` and ``letters``.

    ``carried`` names the columns of each source that travel with the query's columns.
    """
    label = f"{plan.query.kind}-{uuid.uuid4().hex[:8]}"
    delay = f"{plan.window.lateness_ticks // plan.tick_ms + SHIFT_MS} milliseconds"
    marked = []
    for name, frame in frames.items():
        packed = _packed(frame, plan, name, carried.get(name, NOTHING))
        marked.append(metrics.observe_rows(packed, label, name).withWatermark("seen", delay))
    return _stepped(union(marked), plan, label)


def plan_of(
    frames: Mapping[str, Any],
    query: Query,
    shards: int | None = None,
    on_bad: str = "raise",
    changes: bool | Sequence[str] = False,
    bounds: bool = False,
) -> Plan:
    """Bind the query to these DataFrames; raises if Spark cannot answer it."""
    check_query(query, on_bad)
    count("shards", shards, optional=True)
    streaming = {bool(frame.isStreaming) for frame in frames.values()}
    if len(streaming) > 1:
        raise EngineError(
            "some of the sources are streaming and some are not; make them all streaming, or none"
        )
    (is_streaming,) = streaming
    check_window(query, is_streaming)
    if is_streaming:
        for frame in frames.values():
            if not isinstance(frame, WorkerRead):
                _check_no_watermark(frame)
    intake = Intake(query, make_synopsis(query))
    for name, frame in frames.items():
        intake.bind(name, arrow_schema(frame.schema))
    schemas = {name: schema.remove_metadata() for name, schema in intake.bound.items()}
    asked = asked_changes("changes", changes)
    plan = Plan(query, schemas, shards or 1, on_bad, asked, is_streaming, bounds)
    _check_names(plan)
    return plan


def frames_of(given: Any, query: Query) -> dict[str, Any]:
    """The DataFrames that a query reads, by source."""
    check_query(query)
    several = isinstance(given, Mapping)
    query.check_sources(given if several else None)
    frames = {n: given[n] for n in query.sources if n in given} if several else {ONLY: given}
    for frame in frames.values():
        if not hasattr(frame, "mapInArrow") or not hasattr(frame, "isStreaming"):
            raise SchemaError(
                "skyband.spark.rank takes Spark DataFrames and skyband.spark.files(...), not "
                f"{type(frame).__name__}; for other tables use skyband.rank"
            )
    return frames


def _check_names(plan: Plan) -> None:
    """Raise SchemaError if a column of the answer has the name of one that bounds=True adds."""
    names = plan.output.names
    twice = [name for name in PROMISE.names if names.count(name) > 1]
    if twice:
        raise SchemaError(
            f"bounds=True adds columns named {' and '.join(PROMISE.names)}, but the answer already "
            f"has a column {twice[0]!r}; rename that column of the input"
        )


def _check_no_watermark(frame: Any) -> None:
    told = io.StringIO()
    with redirect_stdout(told):
        frame.explain(True)  # all that a session on another machine tells of a plan
    if "EventTimeWatermark" in told.getvalue():
        raise EngineError(
            "the DataFrame already has a watermark, and Spark allows only one; remove "
            "withWatermark: the window's lateness= says how late rows may be"
        )


def spark_schema(schema: pa.Schema) -> Any:
    """Arrow columns in Spark's types."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


# The plan in Spark's terms ------------------------------------------------------------------------


def _packed(frame: Any, plan: Plan, source: str, carried: Carried = NOTHING) -> Any:
    """Summarise a source: one packed row per bucket and shard that a partition has rows for."""
    carried = carried_of(frame) if carried is NOTHING else carried
    names = dict.fromkeys([*plan.schemas[source].names, *carried.names])
    chosen = frame.select(*(f"`{name}`" for name in names))
    return chosen.mapInArrow(summariser(plan, source, carried), PACKED_DDL)


def carried_of(frame: Any) -> Carried:
    """The columns that a source itself sends along, to say where its rows came from."""
    return frame.carried if isinstance(frame, WorkerRead) else NOTHING


def union(packed: Iterable[Any]) -> Any:
    """The rows of several DataFrames with the same columns."""
    return reduce(lambda one, other: one.unionByName(other), packed)


def _batch(frames: Mapping[str, Any], plan: Plan) -> Any:
    packed = union(_packed(frame, plan, name) for name, frame in frames.items())
    pieces = packed.groupBy("bucket", "shard").applyInArrow(batch_folder(plan), PIECE_DDL)
    return pieces.repartition(1).mapInArrow(batch_finisher(plan), spark_schema(plan.output))


def _stepped(packed: Any, plan: Plan, label: str) -> Any:
    """The stateful part of a stream: packed summaries in, packed answers out."""
    stepped = packed.groupBy("bucket", "shard").transformWithStateInPandas(
        BucketProcessor(plan), ANSWERED_DDL, "append", "eventTime"
    )
    stepped = metrics.observe_steps(stepped, label)
    if plan.shards == 1:
        return stepped.select("payload", "letters")
    by_bucket = stepped.where("windows_out > 0 OR letters IS NOT NULL").groupBy("bucket")
    if not plan.changes:
        return by_bucket.applyInArrow(finisher(plan), GIVEN_DDL)
    return by_bucket.transformWithStateInPandas(ChangesProcessor(plan), GIVEN_DDL, "append", "none")
