"""``rank`` and ``split``: from DataFrames of rows to a DataFrame of answers."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as every Spark program has it
from pyspark.sql.pandas.types import from_arrow_schema

from skyband.answers.changes import asked_changes
from skyband.data.letters import CarriedColumns
from skyband.engine.intake import Intake
from skyband.engine.per_group import make_synopsis
from skyband.engine.session import ONLY
from skyband.errors import EngineError, QueryError, SchemaError
from skyband.query.base import Query, check_query
from skyband.query.board import Board, board_of, named
from skyband.query.checks import count
from skyband.spark import metrics
from skyband.spark.finishing import (
    GIVEN_DDL,
    PIECE_DDL,
    batch_finisher,
    batch_folder,
    finisher,
    rows_unpacker,
    schema_from_text,
    schema_texts,
    typed_rows,
)
from skyband.spark.plan import PROMISE, BoardPlan, QueryPlan, check_window
from skyband.spark.processor import ANSWERED_DDL, BucketProcessor
from skyband.spark.sessions import advise_partitions, check_session, outside_of_functions
from skyband.spark.sharding import auto_shards
from skyband.spark.summarise import NOTHING, PACKED_DDL, summariser
from skyband.spark.worker_read import WorkerRead, arrow_schema
from skyband.sql.statement import WHOLE, read_statement

_KEY = ("label", "bucket", "shard")
_NONE: Mapping[str, CarriedColumns] = {}


def ranked(df_or_mapping: Any, query: Query | Board, **settings: Any) -> Any:
    """The implementation of ``skyband.spark.rank``; ``settings`` are those of ``plan_of``."""
    with outside_of_functions():
        plan, frames = plan_of(df_or_mapping, query, **settings)
        if settings.get("shards") is None:
            shards = auto_shards(frames, plan)
            plans = {n: replace(each, shards=shards) for n, each in plan.plans.items()}
            plan = replace(plan, plans=plans)
    session = next(iter(frames.values())).sparkSession
    streaming = plan.first.streaming
    check_session(session, streaming)
    schema = spark_schema(plan.output)
    if not plan.alone:
        schema["answer"].metadata = schema_texts(plan)
    if not streaming:
        return _batch(frames, plan, schema)
    advise_partitions(session, plan.keys)
    return packed_answers(frames, plan).mapInArrow(rows_unpacker(plan), schema)


def ranked_sql(session: Any, text: str, frames: Mapping[str, Any]) -> Any:
    """The implementation of ``skyband.spark.sql``."""
    name = read_statement(text).table
    if list(frames) not in ([], [name]) or not (frames or session.catalog.tableExists(name)):
        given = ", ".join(frames) or "nothing"
        raise SchemaError(
            f"the statement reads table {name!r}, which is no table of the catalog; give "
            f"{name}=..., not {given}"
        )
    frame = frames[name] if frames else session.table(name)
    statement = read_statement(text, frame.schema.names, not frame.isStreaming)
    whole = statement.query.time == WHOLE
    answers = ranked(at_once(frame) if whole else frame, statement.query)
    quoted = [(name.replace("`", "``"), shown) for name, shown in statement.columns]
    chosen = [F.col(f"`{name}`").alias(shown) for name, shown in quoted]
    return answers.select(*chosen)


def at_once(frame: Any) -> Any:
    """A DataFrame with a time column that has one value."""
    if frame.isStreaming:
        raise QueryError(
            "a stream has no end, so it needs a window; say how often it is answered: "
            "FROM LANDMARK(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
        )
    if isinstance(frame, WorkerRead):
        raise QueryError("a statement without a window takes DataFrames; use spark.read")
    return frame.withColumn(WHOLE, F.lit(0).cast("bigint"))


def packed_answers(
    frames: Mapping[str, Any], plan: BoardPlan, carried: Mapping[str, CarriedColumns] = _NONE
) -> Any:
    """The output of a streaming query, still packed: columns ``query``, ``payload``, ``letters``.

    The summaries of all sources go through one state operator. ``carried`` names the columns of
    each source that travel with those of the queries.
    """
    label = f"{plan.first.query.kind if plan.alone else 'board'}-{uuid.uuid4().hex[:8]}"
    marked = []
    for name, frame in frames.items():
        packed = _packed(frame, plan, name, carried.get(name) or carried_of(frame))
        packed = metrics.observe_rows(packed, label, name)
        marked.append(packed.withWatermark("seen", plan.delay))
    stepped = (
        _union(marked)
        .groupBy(*_KEY)
        .transformWithStateInPandas(BucketProcessor(plan), ANSWERED_DDL, "append", "eventTime")
    )
    stepped = metrics.observe_steps(stepped, label, list(plan.plans))
    if plan.first.shards == 1:
        return stepped.select("query", "payload", "letters")
    due = stepped.where("windows_out > 0 OR letters IS NOT NULL")
    return due.groupBy("query", "bucket").applyInArrow(finisher(plan), GIVEN_DDL)


def plan_of(
    df_or_mapping: Any, query: Query | Board, **settings: Any
) -> tuple[BoardPlan, dict[str, Any]]:
    """Bind queries to the same sources; raises if one Spark query cannot answer them."""
    alone = not isinstance(query, Mapping)
    queries = {name or ONLY: each for name, each in board_of(query).items()}
    several = isinstance(df_or_mapping, Mapping)
    _check_alike(queries, list(df_or_mapping) if several else [None])
    plans: dict[str, QueryPlan] = {}
    frames: dict[str, Any] = {}
    for name, each in queries.items():
        with named(name):
            own = _frames_of(df_or_mapping, each)
            plans[name] = _query_plan(own, each, **settings)
            frames |= own
            if not alone:
                _check_types(plans[name])
    board = BoardPlan(plans, alone)
    assert board.output  # raises if the edges of windows differ in type
    return board, frames


def _query_plan(
    frames: Mapping[str, Any],
    query: Query,
    shards: int | None = None,
    on_bad: str = "raise",
    changes: bool | Sequence[str] = False,
    bounds: bool = False,
    total: bool = False,
) -> QueryPlan:
    """Bind a query to these DataFrames; raises if Spark cannot answer it."""
    check_query(query, on_bad)
    count("shards", shards, optional=True)
    streaming = {bool(frame.isStreaming) for frame in frames.values()}
    if len(streaming) > 1:
        raise EngineError(
            "some of the sources are streaming and some are not; make them all streaming, or none"
        )
    (is_streaming,) = streaming
    check_window(query, is_streaming)
    if is_streaming and query.window.revise_ticks is not None and (shards or 1) > 1:
        raise EngineError(
            "a stream on Spark corrects answers in one shard only, because a late row comes to one "
            "shard and changes the answers of all: leave out shards=, or revise="
        )
    kinds = asked_changes("changes", changes)
    if total:
        _check_total(query, bool(kinds), is_streaming)
    if is_streaming:
        for frame in frames.values():
            if not isinstance(frame, WorkerRead):
                _check_no_watermark(frame)
    intake = Intake(query, make_synopsis(query))
    for name, frame in frames.items():
        intake.bind(name, arrow_schema(frame.schema))
    schemas = {name: schema.remove_metadata() for name, schema in intake.bound.items()}
    plan = QueryPlan(query, schemas, shards or 1, on_bad, kinds, is_streaming, bounds, total)
    _check_names(plan)
    return plan


def _frames_of(given: Any, query: Query) -> dict[str, Any]:
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


# Checks -------------------------------------------------------------------------------------------


def _check_alike(queries: Mapping[str, Query], sources: list[Any]) -> None:
    """Raise EngineError unless every query reads all sources, by the same time columns."""
    first = next(iter(queries))
    for name, query in queries.items():
        for source in sources:
            if source is not None and query.sources and source not in query.sources:
                if any(source in each.sources for each in queries.values()):
                    raise EngineError(
                        f"query {name!r} does not read source {source!r}: on Spark every query of "
                        "a board reads all its sources, because a Spark query has one watermark; "
                        "rank this query by itself"
                    )
                continue  # no query reads it, which is an error when the query is bound
            if len(queries) == 1 or (source is not None and not query.sources):
                continue
            time, wanted = (
                (each.time_of(source), each.time_format, each.time_unit)
                for each in (query, queries[first])
            )
            if time != wanted:
                times = f"time={time[0]!r} and query {first!r} has time={wanted[0]!r}"
                if time[0] == wanted[0]:
                    times = f"a different time_format or time_unit from query {first!r}"
                raise EngineError(
                    f"query {name!r} has {times}: on Spark all queries of a board read one time "
                    "column per source, because a Spark query has one watermark; rank this query "
                    "by itself"
                )


def _check_types(plan: QueryPlan) -> None:
    """Raise EngineError for an answer with a column that Spark has no type for."""
    for field in plan.output:
        try:
            spark_schema(pa.schema([field]))
        except PySparkException as problem:
            raise EngineError(
                f"column {field.name!r} of the answer has type {field.type}, which Spark has no "
                "type for; cast it, or leave it out"
            ) from problem


def _check_names(plan: QueryPlan) -> None:
    """Raise SchemaError if a column of the answer has the name of one that bounds=True adds."""
    names = plan.output.names
    twice = [name for name in PROMISE.names if names.count(name) > 1]
    if twice:
        raise SchemaError(
            f"bounds=True adds columns named {' and '.join(PROMISE.names)}, but the answer already "
            f"has a column {twice[0]!r}; rename that column of the input"
        )


def _check_total(query: Query, changes: bool, streaming: bool) -> None:
    """Raise if answers have no totals to show."""
    if changes:
        raise QueryError("changes have no total; leave out changes= or total=True")
    if streaming and not query.window.panes.sized:
        raise EngineError(
            f"over a {type(query.window).__name__}, streams on Spark keep no totals; leave out "
            "total=True, or use a batch DataFrame or the embedded engine"
        )


def _check_no_watermark(frame: Any) -> None:
    text = io.StringIO()
    with redirect_stdout(text):
        frame.explain(True)  # all that a session on another machine tells of a plan
    if "EventTimeWatermark" in text.getvalue():
        raise EngineError(
            "the DataFrame already has a watermark, and Spark allows only one; remove "
            "withWatermark: the window's lateness= says how late rows may be"
        )


# In Spark's terms ---------------------------------------------------------------------------------


def spark_schema(schema: pa.Schema) -> Any:
    """Arrow columns in Spark's types."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _packed(frame: Any, plan: BoardPlan, source: str, carried: CarriedColumns) -> Any:
    """Summarise a source: one packed row per key that a partition has rows for."""
    names = dict.fromkeys([*plan.schemas[source].names, *carried.names])
    chosen = frame.select(*(f"`{name}`" for name in names))
    return chosen.mapInArrow(summariser(plan, source, carried), PACKED_DDL)


def carried_of(frame: Any) -> CarriedColumns:
    """The columns that a source itself sends along, to say where its rows came from."""
    return frame.carried if isinstance(frame, WorkerRead) else NOTHING


def _union(packed: Iterable[Any]) -> Any:
    """The rows of several DataFrames with the same columns."""
    return reduce(lambda one, other: one.unionByName(other), packed)


def _batch(frames: Mapping[str, Any], plan: BoardPlan, schema: Any) -> Any:
    packed = _union(_packed(f, plan, name, carried_of(f)) for name, f in frames.items())
    pieces = packed.groupBy(*_KEY).applyInArrow(batch_folder(plan), PIECE_DDL)
    return pieces.repartition(1).mapInArrow(batch_finisher(plan), schema)


def split_board(batch: Any, queries: Board) -> dict[str, Any]:
    """The implementation of ``skyband.spark.split``."""
    texts = batch.schema["answer"].metadata if "answer" in batch.columns else {}
    frames = {}
    for name in board_of(queries):
        if name not in texts:
            raise SchemaError(
                f"the column answer does not have the types of query {name!r}; give rows of "
                "skyband.spark.rank(df, board) with all their columns, and the same board"
            )
        schema = schema_from_text(texts[name])
        mine = batch.where(F.col("query") == name)
        rows = mine.select("window_start", "window_end", "rank", "answer")
        frames[str(name)] = rows.mapInArrow(typed_rows(schema), spark_schema(schema))
    return frames
