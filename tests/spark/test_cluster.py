"""A standalone cluster on loopback: a master, two workers, the package shipped to them.

The short form, which always runs, uses Spark's ``local-cluster``: two executors, each in a separate
process, with the package that is installed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lab.bench.standalone import Cluster, standalone
from skyband import registry
from support import faulty, kills, on_cluster, spark_session

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def master(cluster: Cluster) -> str:
    return cluster.master


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    reason = spark_session.missing()
    if reason:
        pytest.skip(reason)
    settings = {
        "SPARK_DAEMON_JAVA_OPTS": spark_session.java_options(),
        "SPARK_LAUNCHER_OPTS": spark_session.QUICK,
    }
    with standalone(tmp_path_factory.mktemp("cluster"), settings) as made:
        yield made


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, under a name that Spark adds to the Python path."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "-q",
        "-w",
        str(folder),
        str(ROOT),
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(f"the wheel cannot be built here: {built.stderr.strip()[-200:]}")
    (wheel,) = folder.glob("*.whl")
    return Path(shutil.copy(wheel, folder / "shipped_skyband.zip"))


def run(environment: dict[str, str], *words: str) -> list[str]:
    """What ``on_cluster`` prints."""
    done = subprocess.run(
        [sys.executable, on_cluster.__file__, *words],
        env=environment | {"SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout.splitlines()


@pytest.mark.cluster
def test_all_queries_with_the_package_shipped(master: str, archive: Path, tmp_path: Path) -> None:
    path = os.pathsep.join(p for p in sys.path if p)
    told = run(os.environ | {"PYTHONPATH": path}, master, str(tmp_path), str(archive))
    assert len(told) == len(registry.kinds()) + 1
    assert told[-1] == "TopK, streaming: equal"


@pytest.mark.slow
def test_killed_workers_of_a_standalone_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """A worker with its executor is killed in the middle of a batch, twenty times."""
    times, batches, name = 20, 60, "shards"
    faulty.write_inputs(tmp_path, [name], batches)
    checkpoint = tmp_path / "checkpoint" / name
    settings = {"SKYBAND_TEST_MASTER": cluster.master, "SPARK_LOCAL_IP": "127.0.0.1"}
    rng = random.Random(times)

    def start() -> subprocess.Popen[bytes]:
        return kills.launch(tmp_path / "log", faulty.__file__, str(tmp_path), name, **settings)

    process, killed = start(), 0
    try:
        while killed < times:
            known = kills.commits(checkpoint)
            if not kills.wait_until(process, lambda: kills.commits(checkpoint) > known):  # noqa: B023
                assert kills.commits(checkpoint) < batches, "it was done before all kills"
                process = start()  # Spark gave up; the next start goes on
                continue
            time.sleep(rng.uniform(0, 1))
            cluster.replace_worker(killed % 2)
            killed += 1
        while process.wait() and kills.commits(checkpoint) < 2 * batches:
            process = start()
    finally:
        kills.kill(process)
    made = faulty.batches_run(checkpoint, faulty.pushes(faulty.SHAPES[name], batches))
    want, _ = spark_session.embedded(faulty.SHAPES[name].query, made)
    files = sorted((tmp_path / "out" / name).glob("*.parquet"))
    got = pa.concat_tables(
        pq.read_table(file) for file in committed(tmp_path / "out" / name, files)
    )
    assert spark_session.rows(got) == spark_session.rows(want)


def committed(folder: Path, files: list[Path]) -> list[Path]:
    """The files that Spark's file sink lists; tasks that were lost leave others behind."""
    logs = [path for path in (folder / "_spark_metadata").iterdir() if path.name[0].isdigit()]
    listed = {
        json.loads(line)["path"].rsplit("/", 1)[-1]
        for path in logs
        for line in path.read_text().splitlines()[1:]
    }
    return [file for file in files if file.name in listed]


def test_two_executors(tmp_path: Path) -> None:
    reason = spark_session.missing()
    if reason:
        pytest.skip(reason)
    told = run(spark_session.environment(), "local-cluster[2,1,1024]", str(tmp_path))
    assert len(told) == 2
    assert told[0].startswith("SkylineJoin: ")
    assert told[1] == "TopK, streaming: equal"
