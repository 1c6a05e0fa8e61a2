"""What pytest needs in every folder of tests: settings, and servers that take long to start."""

from __future__ import annotations

import faulthandler
import gc
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from support import kafka_broker, postgres_server, shares, spark_session

# A shell that starts the tests in the background has Ctrl-C ignored, and the processes that tests
# start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

BROKER = pytest.StashKey[kafka_broker.Broker]()

# No deadline: kernels may be compiled in the middle of an example. The same examples in every run,
# so that a test fails because of a change; SKYBAND_EXPLORE=1 draws others, and so does make fuzz.
settings.register_profile("skyband", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("explore" if os.environ.get("SKYBAND_EXPLORE") else "skyband")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of ``lab/``, which ``make nightly`` runs; the tutorials are for users."""
    if item.path.parent.name == "lab" and item.path.name != "test_tutorials.py":
        item.add_marker("tools")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each worker starts with its own share of the tests: see ``shares``."""
    if hasattr(config, "workerinput"):
        workers = config.workerinput["workercount"]
        items[:] = shares.in_shares(items, workers, lambda item: item.nodeid, _is_long, _group)


def _is_long(item: pytest.Item) -> bool:
    """Whether a test has been given more time than others."""
    limit = item.get_closest_marker("timeout")
    return limit is not None and bool(limit.args) and limit.args[0] >= 900


def _group(item: pytest.Item) -> str | None:
    """The tests that one worker should run, by the mark that xdist has for them."""
    mark = item.get_closest_marker("xdist_group")
    return None if mark is None else str(mark.args[0])


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


@pytest.fixture(scope="session")
def kafka_server(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[kafka_broker.Broker]:
    """A Kafka broker that may have to be started; skips the test if there is none.

    Tests that use it are in the group ``kafka``, so that one of two workers runs them all.
    """
    try:
        found = kafka_broker.Broker(tmp_path_factory.mktemp("kafka"))
    except kafka_broker.MissingError as problem:
        pytest.skip(str(problem))
    pytestconfig.stash[BROKER] = found
    yield found
    found.stop()


@pytest.fixture
def broker(kafka_server: kafka_broker.Broker) -> kafka_broker.Broker:
    """A Kafka broker that runs; skips the test if there is none."""
    kafka_server.run()
    return kafka_server


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop the broker after its last test: while it waits, it takes 2 % of a core."""
    started = item.config.stash.get(BROKER, None)
    if started is not None and (nextitem is None or _group(nextitem) != "kafka"):
        started.stop()


@pytest.fixture
def servers(broker: kafka_broker.Broker) -> str:
    """The address of a Kafka broker that runs; skips the test if there is none."""
    return broker.address
