"""The algorithm that CONTRIBUTING.md shows is right, at every step and on both engines."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from skyband import registry
from support import conformance, contributed, spark_simulator, streams

NAME = "all-panes"


@pytest.fixture(autouse=True)
def registered() -> None:
    registry.register("TopK", NAME, contributed.algorithm())


@given(data=st.data())
@settings(max_examples=60)
def test_every_step(data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(conformance.SETTINGS["TopK"])) | {"algorithm": NAME}
    window = data.draw(st.one_of(streams.time_windows(0), streams.count_windows()))
    stream = data.draw(conformance.small_streams("TopK", chosen, window))
    conformance.compare("TopK", window, chosen, stream, restarts=data.draw(st.booleans()))


def test_on_spark_s_parts() -> None:
    pytest.importorskip("pyspark")
    window = oracle.TimeWindow(30, 7, lateness=6)
    stream = streams.stream(5, 120, lateness=6, step=2, batches=4)
    for chosen in conformance.SETTINGS["TopK"]:
        mine = conformance.query_of("TopK", window, chosen | {"algorithm": NAME}, stream.table)
        plain = conformance.query_of("TopK", window, chosen, stream.table)
        got, want = (
            [job.push({"": batch}) for batch in stream.batches]
            for job in (
                spark_simulator.Job(spark_simulator.plan_of(query, {"": stream.table}, shards=2))
                for query in (mine, plain)
            )
        )
        assert got == want
        assert sum(len(table) for table in want)
