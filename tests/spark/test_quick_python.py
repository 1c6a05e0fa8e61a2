"""The interpreter of local workers: this one, with this path, without Spark's zips."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import threading

import pytest

from skyband.spark import sessions
from skyband.spark.sessions import REUSED_MEMORY, is_quick, quick_python

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a shell script")


def test_it_runs_this_interpreter_with_this_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, '/it\'s a "folder" $HOME'])
    command = quick_python()
    asked = "import json, sys; print(json.dumps([sys.executable, sys.path, sys.argv]))"
    done = subprocess.run(
        [command, "-c", asked, "two words"],
        env=os.environ | {"PYTHONPATH": "/opt/spark/python/lib/pyspark.zip"},
        capture_output=True,
        text=True,
        check=True,
    )
    executable, path, arguments = json.loads(done.stdout)
    assert executable == sys.executable
    assert set(filter(os.path.isabs, sys.path)) <= set(path)
    assert not [each for each in path if each.endswith("pyspark.zip")]
    assert arguments == ["-c", "two words"]
    assert quick_python() == command == str(sessions._own_folder() / "python")
    assert is_quick(command)
    assert not is_quick(sys.executable)


PAGED_IN = """
import resource, sys
import numpy as np
import pyarrow as pa

def faults(make):
    for _ in range(12):
        make()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        make()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def arrow():
    np.frombuffer(pa.allocate_buffer(40 << 20), np.uint8)[:] = 1

print(faults(lambda: np.ones(5 << 20)), faults(arrow), pa.default_memory_pool().backend_name)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="settings of glibc")
def test_workers_use_again_the_memory_that_they_have_freed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PAGED_IN],
        env=os.environ | REUSED_MEMORY,
        capture_output=True,
        text=True,
        check=True,
    )
    of_numpy, of_arrow, pool = done.stdout.split()
    assert max(int(of_numpy), int(of_arrow)) < 100  # 10 arrays of 40 MB: hundreds or more otherwise
    assert pool == "system"


class Session:
    """Stands for a Spark session, and for the builder that makes it."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}
        self.jobs: list[str] = []
        self.sparkContext = self
        self.applicationId = str(id(self))
        self.defaultParallelism = 2
        self.started = threading.Event()

    def config(self, name: str, value: str) -> Session:
        self.told[name] = value
        return self

    def appName(self, _: str) -> Session:  # noqa: N802 - Spark's names
        return self

    def master(self, _: str) -> Session:
        return self

    def getOrCreate(self) -> Session:  # noqa: N802
        return self

    def range(self, *asked: int) -> Session:
        self.jobs.append(f"range{asked}")
        return self

    def mapInArrow(self, _: object, schema: str) -> Session:  # noqa: N802
        self.jobs.append(schema)
        return self

    def collect(self) -> list[object]:
        self.started.set()
        raise RuntimeError("workers that cannot start stop nothing here")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    sql = pytest.importorskip("pyspark.sql")
    made = Session()
    monkeypatch.setattr(sql.SparkSession, "builder", made)
    monkeypatch.setattr(sql.SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(sessions, "require_java", lambda: None)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    for name in REUSED_MEMORY:
        monkeypatch.delenv(name, raising=False)
    return made


def test_local_sessions_have_workers_that_use_memory_again(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MALLOC_TOP_PAD_", "1")  # the user's own settings stay
    sessions.start_session("local[2]", "test", {})
    assert session.told["spark.executorEnv.MALLOC_MMAP_MAX_"] == "0"
    assert session.told["spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL"] == "system"
    assert "spark.executorEnv.MALLOC_TOP_PAD_" not in session.told
    assert session.told["spark.python.daemon.module"] == "skyband.spark.daemon"


def test_local_workers_start_while_the_driver_goes_on(session: Session) -> None:
    found = sessions.start_session("local[2]", "test", {})
    assert session.started.wait(10)
    assert session.jobs == ["range(0, 2, 1, 2)", "id bigint"]
    sessions.check_session(found, streaming=False)  # they need no further check
    assert len(session.jobs) == 2


def test_workers_of_a_cluster_are_left_as_they_are(session: Session) -> None:
    sessions.start_session("spark://host:7077", "test", {})
    assert not [name for name in session.told if name.startswith("spark.executorEnv.")]
    assert not session.jobs
    assert session.applicationId not in sessions._checked
