"""Kills in the middle of batches: every window once, none lost, in a transactional sink."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import faulty
import pyarrow as pa
import pytest

import clusters
import skyband as sb
import streams

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]


def flows(batches: int) -> streams.Stream:
    return streams.stream(
        5, 40 * batches, lateness=9, step=3, gap=40, batches=batches, groups=4, start=1_000
    )


def commits(folder: Path) -> int:
    found = folder / "checkpoint" / "commits"
    return len([p for p in found.glob("*") if p.name.isdigit()]) if found.is_dir() else 0


def launch(folder: Path) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(p for p in sys.path if p)
    return subprocess.Popen(
        [sys.executable, faulty.__file__, str(folder)],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def workers_of(driver: int) -> list[int]:
    """Python workers below a driver: they descend from its JVM and its worker daemon."""
    parents, commands = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                status = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                parents[int(entry.name)] = int(status[1])
                commands[int(entry.name)] = (entry / "cmdline").read_bytes().decode()

    def below(pid: int) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == driver:
                return True
        return False

    daemons = {p for p, command in commands.items() if "pyspark.daemon" in command and below(p)}
    return [pid for pid in daemons if parents[pid] in daemons]


def wait_for_commit(folder: Path, process: subprocess.Popen[bytes], known: int) -> bool:
    """Whether another batch was committed before the process ended."""
    while process.poll() is None:
        if commits(folder) > known:
            return True
        time.sleep(0.05)
    return False


def run_with_kills(folder: Path, kills: int, seed: int) -> int:
    """Run the job to its end, killing the whole process now and then; returns kills done."""
    rng = random.Random(seed)
    done = 0
    while True:
        process = launch(folder)
        try:
            if done < kills and wait_for_commit(folder, process, commits(folder)):
                time.sleep(rng.uniform(0, 1.0))
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    done += 1
                    continue
            if process.wait() == 0:
                return done
            raise AssertionError(f"the job failed by itself with {process.returncode}")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def check_output(spark: Any, folder: Path, stream: streams.Stream) -> None:
    want, _ = clusters.embedded(faulty.QUERY, stream.batches)
    got = spark.read.parquet(str(folder / "out")).toArrow()
    assert clusters.rows(got) == clusters.rows(want)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes through /proc")
class TestKills:
    def test_three_kills_of_the_driver(self, spark: Any, tmp_path: Path) -> None:
        stream = flows(12)
        clusters.write_batches(tmp_path / "in", stream.batches)
        assert run_with_kills(tmp_path, 3, seed=1) == 3
        check_output(spark, tmp_path, stream)

    @pytest.mark.slow
    def test_twenty_kills_of_the_driver(self, spark: Any, tmp_path: Path) -> None:
        stream = flows(60)
        clusters.write_batches(tmp_path / "in", stream.batches)
        assert run_with_kills(tmp_path, 20, seed=2) == 20
        check_output(spark, tmp_path, stream)

    def test_killed_workers(self, spark: Any, tmp_path: Path) -> None:
        stream = flows(8)
        clusters.write_batches(tmp_path / "in", stream.batches)
        process = launch(tmp_path)
        killed = 0
        try:
            while killed < 3 and wait_for_commit(tmp_path, process, commits(tmp_path)):
                for pid in workers_of(process.pid)[:1]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        killed += 1
            process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert killed > 0
        if process.returncode:
            run_with_kills(tmp_path, 0, seed=0)
        check_output(spark, tmp_path, stream)


def start(spark: Any, folder: Path, query: sb.Query, **settings: Any) -> Any:
    from skyband.spark import rank

    schema = spark.read.parquet(str(folder / "in")).schema
    frame = clusters.read_stream(spark, folder / "in", schema)
    writer = rank(frame, query, **settings).writeStream.format("parquet")
    writer = writer.option("path", str(folder / "out")).outputMode("append")
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def test_stopped_and_started_again_then_changed_and_damaged(spark: Any, tmp_path: Path) -> None:
    stream = flows(6)
    for upto in (2, 4, 6):
        clusters.write_batches(tmp_path / "in", stream.batches[:upto])
        clusters.run_out(lambda: start(spark, tmp_path, faulty.QUERY))
    check_output(spark, tmp_path, stream)
    # Another query over the same checkpoint says so, and so does a damaged state.
    more = pa.concat_tables([stream.batches[-1]] * 2)
    clusters.write_batches(tmp_path / "in", [*stream.batches, more])
    changed = sb.TopK(k=2, score="score", id="id", time="ts", by=("g",), window=faulty.WINDOW)
    with pytest.raises(Exception, match="belongs to another query"):
        clusters.run_out(lambda: start(spark, tmp_path, changed))
    for path in (tmp_path / "checkpoint" / "state").rglob("*"):
        if path.is_file() and path.suffix in (".zip", ".changelog", ".sst"):
            path.write_bytes(b"nothing")
    with pytest.raises(Exception, match=r"CANNOT_LOAD_STATE_STORE|CHECKPOINT|CHECKSUM"):
        clusters.run_out(lambda: start(spark, tmp_path, faulty.QUERY))
