from __future__ import annotations

import faulthandler
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import postgres_server
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # helpers that all tests share

import clusters


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests more time, as a JVM is slow on a busy machine; a test that hangs still ends."""
    for item in items:
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(autouse=True)
def patience() -> None:
    """Cancel the timer that would end the whole test run.

    These tests wait for other processes, so pytest-timeout can interrupt them one by one.
    """
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One small local session for all tests: a JVM takes seconds to start."""
    reason = clusters.missing()
    if reason:
        pytest.skip(reason)
    session = clusters.local_session()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def dsn() -> Iterator[str]:
    """The address of a PostgreSQL server; skips the test if there is none."""
    pytest.importorskip("psycopg", reason="the PostgreSQL sink needs psycopg")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = str(found[-1]) if found else shutil.which("initdb")
    if initdb is None:
        pytest.skip("no PostgreSQL server is installed (initdb)")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        server = postgres_server.Server(Path(folder), Path(initdb).resolve().parent)
        try:
            address = server.start()
        except (subprocess.CalledProcessError, PermissionError, LookupError) as problem:
            pytest.skip(f"PostgreSQL could not be started: {problem}")
        try:
            yield address
        finally:
            server.stop()
