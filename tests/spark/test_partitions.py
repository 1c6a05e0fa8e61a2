"""Shuffle partitions: what we set in our own sessions, and what we say about a user's."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.spark.plan import BUCKETS, state_keys
from skyband.spark.sessions import PARTITIONS, advise_partitions, partitions_for
from support import spark_session, streams

WINDOW = sb.TimeWindow(30, slide=10)


def query(**more: Any) -> sb.TopK:
    return sb.TopK(k=2, score="score", id="id", time="ts", window=WINDOW, **more)


def test_state_keys() -> None:
    assert state_keys(query()) == 1
    assert state_keys(query(), 3) == 3
    assert state_keys(query(by=("g",)), 3) == 3 * BUCKETS


@pytest.mark.parametrize(
    ("keys", "master", "wanted"),
    [
        (1, "local[8]", 1),
        (16, "local[2]", 2),
        (16, "local[2, 3]", 2),
        (16, "local", 1),
        (16, "spark://host:7077", 16),
        (48, "yarn", 48),
        (10_000, "local[*]", os.cpu_count()),
    ],
)
def test_set_by_us(keys: int, master: str, wanted: int) -> None:
    assert partitions_for(keys, master) == wanted


def test_the_master_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_MASTER", "spark://host:7077")
    assert partitions_for(16) == 16
    monkeypatch.setenv("SPARK_MASTER", "local[3]")
    assert partitions_for(16) == 3


class Session:
    """As much of a session as is asked for its partitions."""

    def __init__(self, partitions: int, cores: int) -> None:
        self.conf = {PARTITIONS: str(partitions)}
        self.sparkContext = SimpleNamespace(
            defaultParallelism=cores, applicationId=f"test-{partitions}-{cores}"
        )


@pytest.mark.parametrize(
    ("partitions", "cores", "keys", "said"),
    [(200, 2, 1, 1), (200, 2, 48, 48), (200, 400, 16, None), (2, 2, 1, None), (16, 2, 16, None)],
)
def test_said_to_the_user(
    caplog: pytest.LogCaptureFixture, partitions: int, cores: int, keys: int, said: int | None
) -> None:
    with caplog.at_level(logging.WARNING, "skyband.spark"):
        advise_partitions(Session(partitions, cores), keys)
    if said is None:
        assert not caplog.messages
    else:
        (line,) = caplog.messages
        assert f"spark.conf.set('spark.sql.shuffle.partitions', {said})" in line
        assert "\n" not in line


@pytest.mark.spark
def test_rank_says_it_before_the_query_starts(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from skyband.spark import rank

    frame = spark_session.stream_of(spark, tmp_path / "in", [streams.stream(1, 20).table])
    before = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, "200")
    try:
        with caplog.at_level(logging.WARNING, "skyband.spark"):
            rank(frame, query(by=("g",)), shards=2)
    finally:
        spark.conf.set(PARTITIONS, before)
    assert [re.findall(r"\d+\)$", line) for line in caplog.messages] == [["32)"]]


JOB = """
name = "best"
checkpoint = "state"
source = { kind = "files", path = "in" }
[query]
kind = "TopK"
k = 2
score = "score"
id = "id"
time = "ts"
by = ["g"]
window = { size = 30 }
[sink]
kind = "files"
path = "out"
format = "json"
"""


@pytest.mark.slow
@pytest.mark.spark
def test_first_answer_of_an_untuned_job(tmp_path: Path) -> None:
    """Three small files, nothing tuned, on two cores: within 25 seconds, Spark's start included."""
    if spark_session.missing():
        pytest.skip(str(spark_session.missing()))
    (tmp_path / "in").mkdir()
    for number, table in enumerate(streams.stream(9, 300, batches=3, start=1_000).batches):
        pq.write_table(table, tmp_path / "in" / f"{number}.parquet")
    (tmp_path / "job.toml").write_text(JOB)
    command = [sys.executable, "-m", "skyband", "pipeline", "job.toml", "--master", "local[2]"]
    path = os.pathsep.join(p for p in sys.path if p)
    started = time.monotonic()
    job = subprocess.Popen(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path})
    try:
        while not list(tmp_path.glob("out/*.json")):
            assert job.poll() is None, "the job ended without an answer"
            assert time.monotonic() - started < 25, "no answer within 25 seconds"
            time.sleep(0.1)
    finally:
        job.terminate()
        job.wait(60)
    print(f"first answer after {time.monotonic() - started:.1f} s")
