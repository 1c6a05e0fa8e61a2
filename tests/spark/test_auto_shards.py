"""``rank`` without ``shards`` looks at its input; a job over a generated stream does so as well."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from support import spark_session

pytestmark = pytest.mark.spark
ROWS = 20_000
COUNTS = sb.HeavyHitters(k=3, item="flow", time="ts", window=sb.TimeWindow(600, slide=60))


def flows() -> pa.Table:
    rng = np.random.default_rng(5)
    columns = {"ts": np.arange(ROWS) // 100 + 1_000, "flow": rng.integers(0, 9_000, ROWS)}
    return pa.table(columns | {"unused": rng.random(ROWS)})


def test_rank_looks_at_batches_and_at_files(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from skyband.spark import files, rank, sharding

    caplog.set_level(logging.INFO, "skyband.spark")
    pq.write_table(flows(), tmp_path / "0.parquet")
    frame = spark.read.parquet(str(tmp_path))
    rank(frame, COUNTS)
    assert not caplog.messages  # small: one shard, nothing read
    monkeypatch.setattr(sharding, "KEY_BYTES", 15_000)
    want = spark_session.rows(sb.rank(flows(), COUNTS))
    for given in (frame, files(spark, tmp_path, streaming=False)):
        caplog.clear()
        got = rank(given, COUNTS).toArrow()
        (told,) = caplog.messages
        assert told.startswith("2 shards: about "), told
        assert spark_session.rows(got) == want
    caplog.clear()
    rank(frame.orderBy("flow"), COUNTS)
    assert not caplog.messages  # some rows of it would cost as much as all
    rank(files(spark, tmp_path), {"often": COUNTS})
    assert any(each.endswith("give shards=2") for each in caplog.messages), caplog.messages
