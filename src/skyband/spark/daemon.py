"""Spark's worker daemon with everything imported: it forks workers that can begin at once.

Spark's own daemon leaves the imports to each worker, some two seconds of processor time each, and a
stateful query starts several workers. Sessions that we make on one machine use this daemon
(``spark.python.daemon.module``).
"""

from __future__ import annotations

import pyspark.worker  # noqa: F401
from pyspark import daemon

import skyband.spark.bucket
import skyband.spark.finishing
import skyband.spark.summarise  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
