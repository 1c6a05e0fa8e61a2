"""Skyband on Spark: the same queries over streaming and batch DataFrames.

    from skyband.spark import rank
    rank(df, sb.TopK(...))          # a DataFrame of answers, streaming or batch as df is

Importing this package needs no Spark; calling what is in it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skyband.query.base import Query
from skyband.query.board import Board
from skyband.spark.requirements import require_packages

__all__ = ["rank", "session", "split"]


def rank(
    df_or_mapping: Any,
    query: Query | Board,
    shards: int | None = None,
    on_bad: str = "raise",
    changes: bool = False,
    bounds: bool = False,
) -> Any:
    """Answer a query over a DataFrame, or over a mapping from stream name to DataFrame.

    Returns a DataFrame of answers. A streaming input gives a streaming result (append mode, any
    sink): a window's rows are emitted when the watermark reaches its end. A batch input gives a
    batch result with the same rows as ``sb.rank``.

    ``shards`` splits the query's state, ``on_bad="skip"`` leaves out bad rows, and
    ``changes=True`` returns what entered, left or moved instead of whole tables. ``bounds=True``
    adds each answer's guarantees as columns ``exact`` (boolean) and ``bounds`` (a map from name to
    number).

    A board of queries is one Spark query: one read, one exchange, one state operator. Its rows have
    the columns ``query``, ``window_start``, ``window_end``, ``rank`` and ``answer`` (JSON text);
    ``split`` gives each query's rows their own columns.
    """
    require_packages()
    settings = {"shards": shards, "on_bad": on_bad, "changes": changes, "bounds": bounds}
    if isinstance(query, Mapping):
        from skyband.spark.boards import ranked_board

        return ranked_board(df_or_mapping, query, **settings)
    from skyband.spark.ranking import ranked

    return ranked(df_or_mapping, query, **settings)


def split(batch: Any, board: Board) -> dict[str, Any]:
    """The rows of a board, as one DataFrame per query with the query's own columns and types.

    ``batch`` is what ``rank(df, board)`` gives: a batch DataFrame, or a batch in ``foreachBatch``.
    Persist a batch before you use several of the DataFrames, or Spark computes it for each.
    """
    require_packages()
    from skyband.spark.boards import split_board

    return split_board(batch, board)


def session(master: str | None = None, name: str = "skyband", **settings: Any) -> Any:
    """Start a Spark session whose workers run this Python interpreter.

    Missing packages or a missing Java are reported before Spark starts. ``master`` defaults to all
    cores of this machine. ``settings`` are Spark settings with each dot written as two underscores
    (``spark__sql__shuffle__partitions=8``).
    """
    require_packages()
    from skyband.spark.requirements import start_session

    return start_session(master, name, settings)
