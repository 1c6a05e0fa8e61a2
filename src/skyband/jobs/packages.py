"""Packages that Spark has to fetch for the sources and sinks of a job."""

from __future__ import annotations

from skyband.errors import EngineError

__all__ = ["packages_of"]


def packages_of(kinds: set[str], formats: set[str]) -> list[str]:
    """Maven artifacts that sources and sinks of these kinds need in addition to Spark."""
    from importlib.metadata import version

    found = []
    if "kafka" in kinds:
        found.append(f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}")
    if "avro" in formats:
        found.append(f"org.apache.spark:spark-avro_2.13:{version('pyspark')}")
    if found and any("dev" in each for each in found):
        raise EngineError(
            "a development build of PySpark has no published connectors; give jars of a release "
            "as spark.jars in [spark]"
        )
    return found
