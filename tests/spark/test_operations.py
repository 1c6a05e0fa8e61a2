"""The metrics of a running query, and the contents of its checkpoint."""

from __future__ import annotations

import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import skyband as sb
from support import spark_session, streams
from support.results import COUNTED

pytestmark = pytest.mark.spark


def _daemons() -> list[int]:
    """The daemons of Python workers that the session's JVM has started."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may have ended
            parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            command = (each / "cmdline").read_text()
            if parent == gateway.proc.pid and "skyband.spark.daemon" in command:
                found.append(int(each.name))
    return found


def test_progress_metrics_and_state(spark: Any, tmp_path: Path) -> None:
    from skyband.spark import rank
    from skyband.spark.checkpoint import read_state
    from skyband.spark.metrics import Progress, serve

    stream = streams.stream(3, 300, lateness=30, step=4, batches=4, groups=6, start=1_000)
    window = sb.TimeWindow(40, slide=10, lateness=10)
    query = sb.TopK(k=2, score="score", id="id", time="ts", by=("g",), window=window)
    _, stats = spark_session.embedded(query, stream.batches)
    assert stats["rows_late"] > 0
    frame = spark_session.stream_of(spark, tmp_path / "in", stream.batches)
    listener = Progress()
    spark.streams.addListener(listener)
    server = serve(listener, 0)
    try:
        spark_session.collect(rank(frame, query), tmp_path)
        # The listener is informed after a batch is done; the last reports may not have arrived yet.
        spark._jsparkSession.sparkContext().listenerBus().waitUntilEmpty()
        (told,) = listener.snapshot().values()
        url = f"http://127.0.0.1:{server.server_address[1]}/metrics"
        with urllib.request.urlopen(url) as page:
            text = page.read().decode()
    finally:
        server.shutdown()
        server.server_close()
        spark.streams.removeListener(listener)
    counts = [name for name in COUNTED if name != "retained"]  # which has open panes here, too
    assert {name: told[name] for name in counts} == {name: stats[name] for name in counts}
    assert told["retained"] > stats["retained"]
    greatest = max(row["ts"] for row in stream.rows)
    assert told["seen_seconds"] == greatest / 1000
    assert told["watermark_seconds"] == (greatest - 10) / 1000
    assert "skyband_rows_late_total{" in text
    assert f"}} {stats['rows_late']}\n" in text
    state = read_state(spark, str(tmp_path / "checkpoint")).to_pylist()
    assert sum(row["rows_late"] for row in state) == stats["rows_late"]
    assert {row["shard"] for row in state} == {0}
    assert len({row["bucket"] for row in state}) == len(state) > 1
    assert {row["query"] for row in state} == {query.fingerprint}
    assert sum(row["panes"] for row in state) > 0
    for name in ("retained", "state_bytes"):
        assert told[name] == sum(row[name] for row in state) > 0, name
    with pytest.raises(sb.EngineError, match="checkpointLocation"):
        read_state(spark, str(tmp_path / "in"))
    if Path("/proc").is_dir():
        assert len(_daemons()) == 1, "workers with and without state come from one daemon"
