"""``rank`` for a board of queries, and ``split``, which gives each query's rows their types."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as every Spark program has it

from skyband.errors import EngineError, SchemaError
from skyband.query.base import Query
from skyband.query.board import Board, board_of
from skyband.spark import metrics, ranking
from skyband.spark.board_plan import BoardPlan, schema_from_text, typed_rows
from skyband.spark.board_stages import (
    BOARD_GIVEN_DDL,
    BOARD_PACKED_DDL,
    BOARD_PIECE_DDL,
    board_batch_finisher,
    board_batch_folder,
    board_finisher,
    board_summariser,
    board_unpacker,
    named,
)
from skyband.spark.first_rows import auto_shards
from skyband.spark.letters import Carried
from skyband.spark.plan import Plan
from skyband.spark.processor import BOARD_ANSWERED_DDL, BoardProcessor
from skyband.spark.requirements import advise_partitions, check_session, outside_of_functions
from skyband.spark.summarise import NOTHING

__all__ = ["board_plan_of", "given_board", "ranked_board", "split_board"]

_KEY = ("query", "bucket", "shard")


def ranked_board(df_or_mapping: Any, queries: Board, **settings: Any) -> Any:
    """The implementation of ``skyband.spark.rank`` for a board."""
    with outside_of_functions():
        board, frames = board_plan_of(df_or_mapping, queries, **settings)
        if settings.get("shards") is None and not settings.get("changes"):
            shards = auto_shards(frames, list(board.plans.values()))
            plans = {n: replace(p, shards=shards) for n, p in board.plans.items()}
            board = replace(board, plans=plans)
    session = next(iter(frames.values())).sparkSession
    check_session(session, board.first.streaming)
    schema = ranking.spark_schema(board.output)
    schema["answer"].metadata = board.metadata
    if not board.first.streaming:
        return _batch(frames, board, schema)
    advise_partitions(session, board.keys)
    return given_board(frames, board).mapInArrow(board_unpacker(board), schema)


def board_plan_of(
    df_or_mapping: Any, queries: Board, **settings: Any
) -> tuple[BoardPlan, dict[str, Any]]:
    """Bind all queries to the same sources; raises if one Spark query cannot answer them."""
    known = {str(name): query for name, query in board_of(queries).items()}
    several = isinstance(df_or_mapping, Mapping)
    _check_alike(known, list(df_or_mapping) if several else [None])
    if settings.get("changes") and (settings.get("shards") or 1) > 1:
        raise EngineError(
            "a board gives changes only with one shard, for several need a second state operator; "
            "leave out shards=, or rank the queries one by one"
        )
    plans: dict[str, Plan] = {}
    frames: dict[str, Any] = {}
    for name, query in known.items():
        with named(name):
            own = ranking.frames_of(df_or_mapping, query)
            plans[name] = ranking.plan_of(own, query, **settings)
            frames |= own
            _check_types(plans[name])
    board = BoardPlan(plans)
    assert board.output  # raises if the edges of windows differ in type
    return board, frames


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
            if source is not None and not query.sources:
                continue
            time, wanted = query.time_of(source), queries[first].time_of(source)
            if time != wanted:
                raise EngineError(
                    f"query {name!r} has time={time!r} and query {first!r} has time={wanted!r}: on "
                    "Spark all queries of a board read one time column per source, because a "
                    "Spark query has one watermark; rank this query by itself"
                )


def _check_types(plan: Plan) -> None:
    """Raise EngineError for an answer with a column that Spark has no type for."""
    for field in plan.output:
        try:
            ranking.spark_schema(pa.schema([field]))
        except PySparkException as problem:
            raise EngineError(
                f"column {field.name!r} of the answer has type {field.type}, which Spark has no "
                "type for; cast it, or leave it out"
            ) from problem


def _packed(frame: Any, board: BoardPlan, source: str, carried: Carried = NOTHING) -> Any:
    carried = ranking.carried_of(frame) if carried is NOTHING else carried
    names = dict.fromkeys([*board.schemas[source].names, *carried.names])
    chosen = frame.select(*(f"`{name}`" for name in names))
    return chosen.mapInArrow(board_summariser(board, source, carried), BOARD_PACKED_DDL)


def _batch(frames: Mapping[str, Any], board: BoardPlan, schema: Any) -> Any:
    packed = ranking.union(_packed(frame, board, name) for name, frame in frames.items())
    pieces = packed.groupBy(*_KEY).applyInArrow(board_batch_folder(board), BOARD_PIECE_DDL)
    return pieces.repartition(1).mapInArrow(board_batch_finisher(board), schema)


def given_board(
    frames: Mapping[str, Any], board: BoardPlan, carried: Mapping[str, Carried] | None = None
) -> Any:
    """The packed output of a streaming board: columns ``query``, ``payload`` and ``letters``.

    The summaries of all sources go through one state operator. ``carried`` names the columns of
    each source that travel with those of the queries.
    """
    beside = carried or {}
    label = f"board-{uuid.uuid4().hex[:8]}"
    marked = []
    for name, frame in frames.items():
        packed = _packed(frame, board, name, beside.get(name, NOTHING))
        packed = metrics.observe_rows(packed, label, name)
        marked.append(packed.withWatermark("seen", board.delay))
    stepped = (
        ranking.union(marked)
        .groupBy(*_KEY)
        .transformWithStateInPandas(
            BoardProcessor(board), BOARD_ANSWERED_DDL, "append", "eventTime"
        )
    )
    stepped = metrics.observe_steps(stepped, label, list(board.plans))
    if board.first.shards == 1:
        return stepped.select("query", "payload", "letters")
    due = stepped.where("windows_out > 0 OR letters IS NOT NULL").groupBy("query", "bucket")
    return due.applyInArrow(board_finisher(board), BOARD_GIVEN_DDL)


def split_board(batch: Any, queries: Board) -> dict[str, Any]:
    """The implementation of ``skyband.spark.split``."""
    known = board_of(queries)
    told = batch.schema["answer"].metadata if "answer" in batch.columns else {}
    found = {}
    for name in known:
        if name not in told:
            raise SchemaError(
                f"the column answer does not tell the types of query {name!r}; give rows of "
                "skyband.spark.rank(df, board) with all their columns, and the same board"
            )
        schema = schema_from_text(told[name])
        mine = batch.where(F.col("query") == name)
        rows = mine.select("window_start", "window_end", "rank", "answer")
        found[str(name)] = rows.mapInArrow(typed_rows(schema), ranking.spark_schema(schema))
    return found
