"""Spark's worker daemon for tests: it imports what Python workers need, then forks them.

Spark's own daemon leaves the imports to each worker, some two seconds of processor time each, and
the tests start dozens of workers. Chosen with ``spark.python.daemon.module``.
"""

from __future__ import annotations

import pyspark.worker  # noqa: F401
from pyspark import daemon

import skyband.spark.processor
import skyband.spark.stages
import skyband.spark.summarise  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
