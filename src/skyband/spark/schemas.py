"""Spark's types as Arrow's."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_type

__all__ = ["arrow_schema"]


def arrow_schema(columns: Any) -> pa.Schema:
    """Columns of Spark as Arrow types; a type that Arrow does not have becomes null."""
    # Spark 4.3 takes the zone of timestamps as a parameter; earlier versions always use UTC.
    zoned = "timezone" in signature(to_arrow_type).parameters
    zone: dict[str, Any] = {"timezone": "UTC"} if zoned else {}
    fields = []
    for field in columns.fields:
        try:
            kind = to_arrow_type(field.dataType, **zone)
        except PySparkException:
            kind = pa.null()
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)
