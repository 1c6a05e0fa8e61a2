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
    """Answer a query over Spark DataFrames; return a DataFrame of answers.

    Args:
        df_or_mapping: A DataFrame or ``files(...)``, or a mapping from stream names to those.
        query: A query, or a board: a mapping from names to queries.
        shards: Into how many parts to split the state; by default decided from the first rows.
        on_bad: ``"raise"``, or ``"skip"`` to leave out and count bad rows.
        changes: Return what entered, left or moved instead of whole answers. A list, such as
            ``["enter", "leave"]``, gives only these, with the other columns of each row.
        bounds: Add what each answer guarantees: columns ``exact`` and ``bounds`` (a map).
        total: Add a last column ``total``: the rows, or the weight, of the window and group.

    A streaming input gives a streaming result (append mode, any sink): the rows of a window are
    emitted when the watermark reaches its end. A batch input gives a batch result with the same
    rows as ``sb.rank``.

    A board of queries is one Spark query: one read, one exchange, one state operator. Its rows have
    the columns ``query``, ``window_start``, ``window_end``, ``rank`` and ``answer`` (JSON text);
    ``split`` gives each query's rows their own columns.
    """
    require_packages()
    from skyband.spark.ranking import ranked

    settings = {"shards": shards, "on_bad": on_bad, "changes": changes, "bounds": bounds}
    return ranked(df_or_mapping, query, **settings, total=total)


def sql(spark: Any, text: str, /, **dataframes: Any) -> Any:
    """Answer an SQL statement; return a DataFrame with the columns of SELECT.

    Pass the table that the statement reads under its name: a DataFrame, streaming or not, or
    ``files(...)``. Otherwise the table or view of that name in Spark's catalog is read. docs/sql.md
    says what a statement may contain.
    """
    require_packages()
    from skyband.spark.ranking import ranked_sql

    return ranked_sql(spark, text, dataframes)


def split(batch: Any, board: Board) -> dict[str, Any]:
    """Split the rows of a board into one DataFrame per query, with its own columns and types.

    ``batch`` is what ``rank(df, board)`` returns: a batch DataFrame, or a batch in
    ``foreachBatch``. Persist it before you use several of the DataFrames, or Spark computes it
    anew for each.
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
    """Name files that the workers read themselves; ``rank`` takes them in place of a DataFrame.

    Args:
        spark: The Spark session.
        path: A file, a folder or a glob; ``s3:``, ``gs:``, ``hdfs:`` and ``abfss:`` work, too.
        files_per_batch: How many files a batch reads; by default all that there are. With it, files
            come by modification time, so rows of a file copied out of order may be late.
        streaming: Whether to wait for more files; ``False`` reads those that are there, as a batch.
        format: ``"parquet"``, ``"ipc"``, ``"csv"`` or ``"json"`` (JSON lines); by default, each
            file's extension decides.
        schema: Columns and types as Spark writes them; by default those of the newest file.
        options: Options of Spark's listing (``pathGlobFilter``, ...) and of CSV (``header``,
            ``sep``, ``quote``, ``escape``, ``nullValue``).
        storage: Settings of pyarrow's file system.

    Spark streams the names of the files and remembers which were read. The workers read the columns
    that are needed with pyarrow, several times faster than Spark's reader does.

    A file that cannot be read, is incomplete, lacks a column or changes while it is read counts as
    a bad row: an error that names it, or with ``on_bad="skip"`` counted and left out.
    """
    require_packages()
    from skyband.spark.file_source import make_files

    given = {"format": format, "schema": schema, "options": options, "storage": storage}
    return make_files(spark, path, files_per_batch, streaming, **given)


def session(master: str | None = None, name: str = "skyband", **settings: Any) -> Any:
    """Start a Spark session whose workers run this Python interpreter.

    If a package or Java is missing, an error says so before Spark starts. ``master`` defaults to
    all cores of this machine. ``settings`` are Spark settings with each dot written as two
    underscores (``spark__sql__shuffle__partitions=8``).
    """
    require_packages()
    from skyband.spark.sessions import start_session

    return start_session(master, name, settings)
