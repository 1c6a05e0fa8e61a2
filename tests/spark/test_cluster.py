"""A standalone cluster on loopback: a master, two workers, the package shipped to them.

The short form, which always runs, uses Spark's ``local-cluster``: two executors, each in a separate
process, with the package that is installed.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyband import registry
from support import on_cluster, spark_session

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]
ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(1200):
        if process.poll() is not None:
            raise AssertionError(f"Spark ended with {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("Spark did not come up")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    reason = spark_session.missing()
    if reason:
        pytest.skip(reason)
    import pyspark

    home = Path(pyspark.__file__).parent
    folder = tmp_path_factory.mktemp("cluster")
    port = free_port()
    settings = {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder),
        "PYSPARK_PYTHON": sys.executable,
    }
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | settings
    started: list[subprocess.Popen[bytes]] = []

    def launch(role: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [
            str(home / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{role.lower()}.{role}",
            "--host",
            "127.0.0.1",
            *arguments,
        ]
        with (folder / f"{role}{len(started)}.log").open("wb") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        started.append(process)
        return process

    try:
        address = f"spark://127.0.0.1:{port}"
        web = ("--webui-port", "0")
        wait_for(port, launch("Master", "--port", str(port), *web))
        for _ in range(2):
            own = free_port()
            wait_for(own, launch("Worker", "-c", "1", "-m", "1g", "-p", str(own), *web, address))
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait()


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


def test_two_executors(tmp_path: Path) -> None:
    reason = spark_session.missing()
    if reason:
        pytest.skip(reason)
    told = run(spark_session.environment(), "local-cluster[2,1,1024]", str(tmp_path))
    assert len(told) == 2
    assert told[0].startswith("SkylineJoin: ")
    assert told[1] == "TopK, streaming: equal"
