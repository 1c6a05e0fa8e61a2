"""The choices of some options; this module imports little, so that help appears quickly."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Engine", "Format", "OnBad"]


class Engine(StrEnum):
    """Where a query runs."""

    local = "local"
    spark = "spark"


class Format(StrEnum):
    """How answers are written."""

    table = "table"
    json = "json"
    csv = "csv"
    parquet = "parquet"


class OnBad(StrEnum):
    """What happens to bad and late rows."""

    raise_ = "raise"
    skip = "skip"
