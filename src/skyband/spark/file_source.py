"""``files``: Spark streams the names of files, and the workers read them.

Spark's own file source remembers which files were read, exactly once. It is asked for names, sizes
and times only, so no content passes through it; pyarrow reads the needed columns in the worker
that summarises them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as every Spark program has it
from pyspark.sql.types import StructType

from skyband.data.letters import CarriedColumns
from skyband.data.text_types import check_types
from skyband.errors import QueryError, SchemaError, SkybandError
from skyband.query.checks import count
from skyband.spark.file_options import EVERYTHING, format_of, read_options
from skyband.spark.file_units import (
    FILE,
    UNIT_DDL,
    FileForm,
    read_units,
    schema_of_file,
    split_units,
)
from skyband.spark.locations import check_scheme, newest_here
from skyband.spark.sessions import cores_of, first_line
from skyband.spark.worker_read import Batches, WorkerRead, arrow_schema, spark_types

_LISTED = "path string, modificationTime timestamp, length bigint, content binary"
"""The columns of Spark's source of whole files; a stream has to be given them."""
_OF_A_BATCH = ("pathGlobFilter", "recursiveFileLookup")
"""Options that a listing of what is there takes too."""
_LOOKED_AT = 10
"""Files that are tried for their columns, newest first."""


@dataclass(frozen=True)
class WorkerFiles(WorkerRead):
    """Files that workers read by themselves; made by ``skyband.spark.files``."""

    path: str = ""
    form: FileForm = field(default_factory=FileForm)
    listing: Mapping[str, str] | None = None
    files_per_batch: int | None = None

    @property
    def carried(self) -> CarriedColumns:
        """Every row says which file it came from."""
        return CarriedColumns("not a record that fits the schema", {"file": FILE}, reasons=True)

    def mapInArrow(self, run: Callable[[Batches], Batches], schema: str) -> Any:  # noqa: N802
        """A DataFrame of what ``run`` makes of the rows of these files, in the workers."""
        form, wanted = self.form, self.wanted
        names = self._names()
        units = names.mapInArrow(split_units(form), UNIT_DDL).repartition(cores_of(self.session))
        read = read_units(form, wanted)
        return units.mapInArrow(lambda batches: run(read(batches)), schema)

    def _names(self) -> Any:
        reader = self.session.readStream if self.streaming else self.session.read
        listed = _listed(reader, self.path, self.listing or {}, self.files_per_batch)
        return listed.select(
            F.col("_metadata.file_path").alias("file"),
            "length",
            F.col("modificationTime").alias("time"),
        )


def make_files(
    session: Any,
    path: str | Path,
    files_per_batch: int | None = None,
    streaming: bool = True,
    format: str | None = None,  # noqa: A002 - Spark's word
    schema: Any = None,
    options: Mapping[str, Any] | None = None,
    storage: Mapping[str, Any] | None = None,
) -> WorkerFiles:
    """The implementation of ``skyband.spark.files``; needs PySpark to be installed."""
    where = str(path)
    check_scheme(where)
    count("files_per_batch", files_per_batch, optional=True)
    kind = None if format is None else format_of(format)
    listing, csv = read_options(options or {}, given=schema is not None)
    types = None if schema is None else _types(schema)
    positions = None if types is None else tuple(types.names)
    form = FileForm(kind, csv, positions, dict(storage or {}))
    if types is None:
        types = _found_types(session, where, listing, form)
    elif kind in ("csv", "json"):
        check_types(f"{where!r}", types)
    return WorkerFiles(session, types, streaming, None, where, form, listing, files_per_batch)


def _types(schema: Any) -> pa.Schema:
    """A schema given as Spark writes it, as Spark's own type, or as Arrow's."""
    if isinstance(schema, pa.Schema):
        return spark_types(schema)
    if isinstance(schema, str):
        try:
            schema = StructType.fromDDL(schema)
        except PySparkException as problem:
            raise QueryError(f"schema {schema!r}: {first_line(problem)}") from problem
    return arrow_schema(schema)


def _listed(reader: Any, path: str, listing: Mapping[str, str], most: int | None = None) -> Any:
    reader = reader.format("binaryFile").schema(_LISTED).options(**EVERYTHING).options(**listing)
    if most is not None:
        reader = reader.option("maxFilesPerTrigger", most)
    base, inside, name = path.partition("**/")
    if inside:
        # Spark has no **, but it looks into subfolders anyway.
        if "/" in name:
            raise QueryError(f"{path!r}: after **/ only a file name may follow, such as *.parquet")
        reader, path = reader.option("pathGlobFilter", name), base.rstrip("/") or "."
    return reader.load(path)


def _found_types(session: Any, path: str, listing: Mapping[str, str], form: FileForm) -> pa.Schema:
    """The columns of the newest file that can be read."""
    # A first job takes Spark seconds, so what is on this machine is looked up here.
    newest = None if listing else newest_here(path, _LOOKED_AT)
    newest = newest or _newest(session, path, listing)
    if not newest:
        raise SchemaError(
            f"no file matches {path!r}; give a path, a folder or a glob. If files come later, give "
            "schema=, for example 'ts timestamp, flow string, bytes bigint'"
        )
    first: Exception | None = None
    for uri in newest:
        try:
            return schema_of_file(form, uri)
        except (pa.ArrowException, OSError, ValueError, SkybandError) as problem:
            first = first or SchemaError(f"{uri!r} could not be read as {form.of(uri)}: {problem}")
    assert first is not None
    raise first


def _newest(session: Any, path: str, listing: Mapping[str, str]) -> list[str]:
    """The newest files of a path, listed by Spark."""
    shown = {name: value for name, value in listing.items() if name in _OF_A_BATCH}
    try:
        names = _listed(session.read, path, shown).select(
            F.col("_metadata.file_path").alias("file"), "modificationTime"
        )
        newest = names.orderBy(F.desc("modificationTime"), "file").limit(_LOOKED_AT).collect()
    except PySparkException as problem:
        if "PATH_NOT_FOUND" not in str(problem):
            raise SchemaError(f"{path!r} cannot be listed: {first_line(problem)}") from problem
        newest = []
    return [row["file"] for row in newest]
