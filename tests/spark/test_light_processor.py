"""The process that Spark starts to ask which states a query has: it should import little."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

import skyband as sb
from support import spark_session

pytestmark = pytest.mark.skipif(bool(spark_session.missing()), reason="needs PySpark")

ASKED = """
import pickle, sys

class Handle:
    def __init__(self):
        self.told = []
    def getValueState(self, name, schema):
        self.told.append(name)
    def getMapState(self, name, key, value):
        self.told.append(name)

for processor in pickle.loads(sys.stdin.buffer.read()):
    handle = Handle()
    processor.init(handle)
    print(type(processor).__name__, *handle.told)
print(sorted({"numba", "pandas", "skyband.engine"} & set(sys.modules)))
"""


def test_processors_tell_their_states_without_loading_the_engine() -> None:
    import pyarrow as pa

    from skyband.spark import processor
    from skyband.spark.plan import BoardPlan, QueryPlan

    query = sb.TopK(k=1, score="score", time="ts", window=sb.TimeWindow(10))
    schema = pa.schema({"ts": pa.int64(), "score": pa.float64()})
    query_plan = QueryPlan(query, {"": schema}, 1, "raise", changes=False, streaming=True)
    plan = BoardPlan({"": query_plan}, alone=True)
    blob = pickle.dumps([processor.BucketProcessor(plan)])
    done = subprocess.run(
        [sys.executable, "-c", ASKED], input=blob, capture_output=True, check=True
    )
    assert done.stdout.decode().splitlines() == [
        "BucketProcessor head slots",
        "[]",
    ]
