"""A streaming table of the busiest flows: a Skyband query inside a declarative pipeline.

The table gets the answer of every window that has ended. Add files to ``flows`` and run the
pipeline again: it reads only what is new and goes on with its state. Spark defines ``spark`` in
these files.
"""
# ruff: noqa: F821, TID251

from pyspark import pipelines as dp
from pyspark.sql import DataFrame

import skyband as sb
from skyband.spark import rank

WINDOW = sb.TimeWindow("10 minutes", slide="5 minutes", lateness="30 seconds")
BUSIEST = sb.TopK(k=3, score="bytes", id="flow", time="ts", window=WINDOW)


# ``rank`` looks at the columns of its input, which Spark allows only outside of the functions.
FLOWS = spark.readStream.schema("ts timestamp, flow string, bytes bigint").json("flows")
ANSWERS = rank(FLOWS, BUSIEST, on_bad="skip")


@dp.table
def busiest() -> DataFrame:
    """The three busiest flows of ten minutes, every five minutes."""
    return ANSWERS
