"""Skyband on Spark: the same queries over streaming and batch DataFrames.

    from skyband.spark import rank
    rank(df, sb.TopK(...))          # a DataFrame of answers, streaming or batch as df is

Importing this package needs no Spark; calling what is in it does.
"""

from __future__ import annotations

from typing import Any

from skyband.query.base import Query
from skyband.spark.requirements import require_packages

__all__ = ["rank", "session"]


def rank(
    df_or_mapping: Any,
    query: Query,
    shards: int | None = None,
    on_bad: str = "raise",
    changes: bool = False,
    bounds: bool = False,
) -> Any:
    """The DataFrame of a query's answers over a DataFrame, or a mapping from stream to DataFrame.

    Streaming in, streaming out (append mode, any sink): a window's rows come when the watermark
    has passed its end. Batch in, batch out: the rows that ``sb.rank`` gives. ``shards`` splits the
    state of a query, ``on_bad="skip"`` leaves bad rows out, ``changes=True`` gives what entered,
    left or moved instead of the tables. ``bounds=True`` adds what each answer promises, as columns
    ``exact`` (boolean) and ``bounds`` (a map from name to number).
    """
    require_packages()
    from skyband.spark.ranking import ranked

    return ranked(df_or_mapping, query, shards, on_bad, changes, bounds)


def session(master: str | None = None, name: str = "skyband", **settings: Any) -> Any:
    """A Spark session whose workers run this interpreter; what is missing is said before it starts.

    ``master`` defaults to all cores of this machine; ``settings`` are Spark's, dots as underscores
    twice (``spark__sql__shuffle__partitions=8``).
    """
    require_packages()
    from skyband.spark.requirements import start_session

    return start_session(master, name, settings)
