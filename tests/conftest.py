"""What pytest needs in every folder of tests: settings, a Spark session, a PostgreSQL server."""

from __future__ import annotations

import faulthandler
import gc
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from support import postgres_server, shares, spark_session

# Two workers compile side by side already; the tests of the second process start it themselves.
os.environ.setdefault("SKYBAND_COMPILE_AHEAD", "0")

# No deadline: kernels may be compiled in the middle of an example.
settings.register_profile("skyband", deadline=None)
settings.load_profile("skyband")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of two workers, each starts with its own families of queries: see ``shares``."""
    if hasattr(config, "workerinput"):
        items[:] = shares.in_two(items, key=lambda item: item.nodeid)


def pytest_collection_finish() -> None:
    """Tests and modules stay until the end, so the garbage collector need not look at them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def patience(request: pytest.FixtureRequest) -> None:
    """Cancel the timer that would end the whole test run, for tests on Spark.

    These tests wait for other processes, so pytest-timeout can interrupt them one by one.
    """
    if request.node.get_closest_marker("spark"):
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One small local session for all tests: a JVM takes seconds to start."""
    reason = spark_session.missing()
    if reason:
        pytest.skip(reason)
    session = spark_session.local_session()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_server.Server]:
    """A PostgreSQL server; skips the test if there is none."""
    pytest.importorskip("psycopg", reason="the PostgreSQL sink needs psycopg")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = str(found[-1]) if found else shutil.which("initdb")
    if initdb is None:
        pytest.skip("no PostgreSQL server is installed (initdb)")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        server = postgres_server.Server(Path(folder), Path(initdb).resolve().parent)
        try:
            server.start()
        except (subprocess.CalledProcessError, PermissionError, LookupError) as problem:
            pytest.skip(f"PostgreSQL could not be started: {problem}")
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def dsn(postgres: postgres_server.Server) -> str:
    """The address of a PostgreSQL server; skips the test if there is none."""
    return postgres.address
