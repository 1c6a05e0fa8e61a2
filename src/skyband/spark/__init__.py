"""Skyband on Spark: the same queries over streaming and batch DataFrames."""

from __future__ import annotations

from skyband.spark.ranking import rank

__all__ = ["rank"]
