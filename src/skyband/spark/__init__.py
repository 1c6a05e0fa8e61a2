"""Skyband on Spark: the same queries over streaming and batch DataFrames.

    from skyband.spark import files, rank
    rank(df, sb.TopK(...))          # a DataFrame of answers, streaming or batch as df is
    rank(files(spark, "flows/*.parquet"), sb.TopK(...))    # files that the workers read themselves
    sql(spark, "SELECT ...", flows=df)                     # a query in SQL

Importing this package needs no Spark; calling what is in it does.

Imports ``engine``, ``embedded`` and the layers below them, and knows no algorithm; imported by
``jobs``, ``serve`` and ``cli``. PySpark is loaded at the first call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skyband.query.base import Query
from skyband.query.board import Board
from skyband.query.checks import OnBad
from skyband.spark.sessions import require_packages

__all__ = ["files", "rank", "session", "split", "sql"]


def rank(
    df_or_mapping: Any,
    query: Query | Board,
    shards: int | None = None,
    on_bad: OnBad = "raise",
    changes: bool | Sequence[str] = False,
    bounds: bool = False,
    total: bool = False,
) -> Any:
    """Answer a query over a DataFrame, or over a mapping from stream name to DataFrame.

    Returns a DataFrame of answers. A streaming input gives a streaming result (append mode, any
    sink): a window's rows are emitted when the watermark reaches its end. A batch input gives a
    batch result with the same rows as ``sb.rank``.

    ``shards`` splits the query's state, ``on_bad="skip"`` leaves out bad rows, and
    ``changes=True`` returns what entered, left or moved instead of whole tables;
    ``changes=["enter", "leave"]`` only these, with the other columns of each row. ``bounds=True``
    adds each answer's guarantees as columns ``exact`` (boolean) and ``bounds`` (a map from name to
    number). ``total=True`` adds a last column ``total``: the rows, or the weight, of the window and
    group.

    A board of queries is one Spark query: one read, one exchange, one state operator. Its rows have
    the columns ``query``, ``window_start``, ``window_end``, ``rank`` and ``answer`` (JSON text);
    ``split`` gives each query's rows their own columns.
    """
    require_packages()
    from skyband.spark.ranking import ranked

    settings = {"shards": shards, "on_bad": on_bad, "changes": changes, "bounds": bounds}
    return ranked(df_or_mapping, query, **settings, total=total)


def sql(spark: Any, text: str, /, **dataframes: Any) -> Any:
    """The answers of a statement as a DataFrame with the columns of SELECT, in their order.

    ``dataframes`` gives the table of the statement by its name: a DataFrame, streaming or not, or
    ``files(...)``. Without it, the table or view of that name in the catalog is read. What a
    statement may be is in docs/sql.md.
    """
    require_packages()
    from skyband.spark.ranking import ranked_sql

    return ranked_sql(spark, text, dataframes)


def split(batch: Any, board: Board) -> dict[str, Any]:
    """The rows of a board, as one DataFrame per query with the query's own columns and types.

    ``batch`` is what ``rank(df, board)`` gives: a batch DataFrame, or a batch in ``foreachBatch``.
    Persist a batch before you use several of the DataFrames, or Spark computes it for each.
    """
    require_packages()
    from skyband.spark.ranking import split_board

    return split_board(batch, board)


def files(
    spark: Any,
    path: str | Path,
    files_per_batch: int | None = None,
    streaming: bool = True,
    format: str | None = None,  # noqa: A002 - Spark's word
    schema: Any = None,
    options: Mapping[str, Any] | None = None,
    storage: Mapping[str, Any] | None = None,
) -> Any:
    """Files that the workers read by themselves; stands where a DataFrame may in ``rank``.

    Spark streams the names of the files and remembers which were read. The workers read the needed
    columns with pyarrow, several times faster than through Spark's reader. ``path`` is a file, a
    folder or a glob; ``s3:``, ``gs:``, ``hdfs:`` and ``abfss:`` work too.

    Without ``files_per_batch`` the first batch takes all files that are there. With it, files come
    by modification time, so that rows of a file that was copied out of order may be late.
    ``streaming=False`` reads what is there once, as a batch. ``format`` is ``"parquet"``,
    ``"ipc"``, ``"csv"`` or ``"json"`` (JSON lines); by default each file's ending tells it.
    ``schema`` is a list of columns as Spark writes it; by default it is taken from the newest file.
    ``options`` are those of Spark's listing (``pathGlobFilter``, ...) and of CSV (``header``,
    ``sep``, ``quote``, ``escape``, ``nullValue``). ``storage`` are settings of pyarrow's file
    system.

    A file that cannot be read, is not complete, lacks a column or changes while it is being read is
    a bad row: an error with its name, or with ``on_bad="skip"`` counted and left out.
    """
    require_packages()
    from skyband.spark.file_source import make_files

    given = {"format": format, "schema": schema, "options": options, "storage": storage}
    return make_files(spark, path, files_per_batch, streaming, **given)


def session(master: str | None = None, name: str = "skyband", **settings: Any) -> Any:
    """Start a Spark session whose workers run this Python interpreter.

    Missing packages or a missing Java are reported before Spark starts. ``master`` defaults to all
    cores of this machine. ``settings`` are Spark settings with each dot written as two underscores
    (``spark__sql__shuffle__partitions=8``).
    """
    require_packages()
    from skyband.spark.sessions import start_session

    return start_session(master, name, settings)
