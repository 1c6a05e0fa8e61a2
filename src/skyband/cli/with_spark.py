"""Runs a query on Spark, over files that Spark reads itself."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.errors import EngineError, SkybandError, how_to_install
from skyband.query import Query
from skyband.spark.sessions import error_of

if TYPE_CHECKING:
    from skyband.embedded.sources import FileSet


def rank_on_spark(
    query: Query,
    source: Any,
    master: str | None,
    on_bad: str,
    changes: bool | tuple[str, ...] = False,
    schemas: dict[str, pa.Schema] | None = None,
    total: bool = False,
) -> pa.Table:
    """Every answer of a query, computed by Spark, in the order of the embedded engine.

    If ``schemas`` is given, the columns of each source are put there, and rows have their bounds.
    """
    if find_spec("pyspark") is None:
        raise EngineError(
            f"--engine spark needs PySpark and Java 17: {how_to_install('spark')}, "
            "or leave out --engine to run in this process"
        )
    from skyband import spark
    from skyband.spark.ranking import at_once
    from skyband.sql.statement import WHOLE

    settings = {
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
        "spark.sql.session.timeZone": "UTC",
        # Times without a zone in text files stay without one, as in the embedded engine.
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
    }
    session = spark.session(master, **settings)
    try:
        if isinstance(source, Mapping):
            read: Any = {name: _read(session, paths) for name, paths in source.items()}
        else:
            read = _read(session, source)
        if schemas is not None:
            each = read if isinstance(read, dict) else {"": read}
            schemas |= {name: frame.limit(0).toArrow().schema for name, frame in each.items()}
        promises = schemas is not None
        given: Any = {"on_bad": on_bad, "changes": changes, "bounds": promises, "total": total}
        if query.time == WHOLE:
            read = at_once(read)
        answers = spark.rank(read, query, **given)
        table = answers.toArrow()
    except SkybandError:
        raise
    except Exception as problem:
        raise error_of(problem) from problem
    finally:
        session.stop()
    names = ["window_end", *query.groups, *(["rank"] if "rank" in table.column_names else [])]
    return table.sort_by([(name, "ascending") for name in names])


def _read(session: Any, paths: str | FileSet) -> Any:
    """Files of one kind as a DataFrame."""
    from skyband.embedded.formats import format_of
    from skyband.embedded.sources import paths_of
    from skyband.embedded.text_files import ending_of

    words = [paths] if isinstance(paths, str) else paths.words
    files = [path.resolve() for word in words for path in paths_of(word)]
    kinds = {format_of(path) for path in files}
    if len(kinds) > 1 or not kinds <= {"parquet", "csv", "json"}:
        found = ", ".join(sorted({path.suffix for path in files}))
        raise EngineError(
            f"Spark reads Parquet, CSV or JSON lines, one kind of file per source; got {found}"
        )
    (kind,) = kinds
    reader = session.read
    if kind == "csv":
        given = None if isinstance(paths, str) else paths.delimiter
        sep = given or ("\t" if ending_of(Path(files[0])) == ".tsv" else ",")
        reader = reader.options(header=True, inferSchema=True, sep=sep)
    elif kind == "json":
        reader = reader.options(inferTimestamp=True)  # as the embedded engine does
    return reader.format(kind).load([str(path) for path in files])
