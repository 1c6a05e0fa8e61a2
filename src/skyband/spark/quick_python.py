"""How local workers start and use memory: faster than Spark would have them.

Spark puts a zip of PySpark first on the path of its Python workers, and Python compiles what it
imports from a zip anew in every process: 1.2 instead of 0.3 seconds of processor time before a
worker answers, out of the ten seconds that Spark gives it to start. Workers on this machine can use
the driver's own path, whose packages are compiled already.

A worker makes and frees arrays of many megabytes in every batch. By default they are returned to
the system and paged in anew each time, which can take longer than the work itself. With the
settings of ``REUSED_MEMORY`` a worker keeps what it has freed, up to 512 MB beyond what it uses.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = [
    "ONE_DAEMON",
    "REUSED_MEMORY",
    "is_quick",
    "java_options",
    "local_settings",
    "quick_java",
    "quick_python",
    "start_workers",
]

REUSED_MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TOP_PAD_": str(64 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(512 << 20),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""Variables of glibc and of Arrow, which uses glibc's memory then; others ignore them."""

DAEMON = {"spark.python.daemon.module": "skyband.spark.daemon"}
"""Workers are forked from a daemon that has imported everything."""
ONE_DAEMON = {"spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false"}
"""Workers with and without state come from one daemon.

Spark starts a daemon for each environment that workers have, and tells only those without state to
shorten their tracebacks, by a variable. So a stateful query would have two daemons, and the first
batch waits for both. Where answers are unpacked in the query itself (``rank``), two are better in
the long run: the fewer workers a state key may meet, the more often one still has its session.
"""

_made: list[str] = []


def quick_python() -> str:
    """A command that runs this interpreter with this process's path; itself on Windows."""
    if os.name != "posix":
        return sys.executable
    if not _made:
        folder = tempfile.mkdtemp(prefix="skyband-python-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _made.append(str(Path(folder) / "python"))
    path = os.pathsep.join(str(Path(each).absolute()) for each in dict.fromkeys(sys.path))
    command = Path(_made[0])
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(path)} exec {shlex.quote(sys.executable)} "$@"\n',
        encoding="utf-8",
    )
    command.chmod(0o700)
    return str(command)


def is_quick(command: str) -> bool:
    """Whether ``quick_python`` made this command, in this process or in the one that started it."""
    return Path(command).parent.name.startswith("skyband-python-")


def local_settings(own: bool) -> dict[str, str]:
    """Settings of a session on this machine; ``own`` if its workers run this interpreter."""
    # A laptop's host name often does not resolve; a local session needs only loopback.
    told = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if own:
        told |= DAEMON
    free = REUSED_MEMORY.keys() - os.environ.keys()
    return told | {f"spark.executorEnv.{name}": REUSED_MEMORY[name] for name in sorted(free)}


def start_workers(session: Any) -> threading.Thread:
    """Start the session's Python workers, which takes seconds, while the caller goes on."""

    def run() -> None:
        with suppress(Exception):  # if workers cannot start, the first batch says so
            cores = session.sparkContext.defaultParallelism
            session.range(0, cores, 1, cores).mapInArrow(_as_they_are, "id bigint").collect()

    thread = threading.Thread(target=run, name="skyband-start-workers", daemon=True)
    thread.start()
    return thread


def _as_they_are(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


# How the JVM of a job on this machine starts: for work that is mostly done in Python -------------
#
# In a job whose workers read files by themselves, no row passes through the JVM before it is
# answered. A JVM compiles what runs often twice, the second time with much effort, and that is a
# third of all processor time until the first answer. Here it pays off late or never, so the JVM
# only
# compiles once, and collects its small heap with one thread.
#
# Whoever gives options for the JVM, in any of the ways that Spark and Java know, gets these only.


_VARIABLE = "SPARK_SUBMIT_OPTS"
_OPTIONS = "spark.driver.extraJavaOptions"
_MEMORY = "spark.driver.memory"
_OTHERS = (_VARIABLE, "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_ONCE = "-XX:TieredStopAtLevel=1"
_ALONE = "-XX:+UseSerialGC"


def java_options(settings: Mapping[str, Any]) -> str | None:
    """Options of a JVM that starts quickly; None if the user has given some."""
    if _OPTIONS in settings or any(name in os.environ for name in _OTHERS) or _has_defaults():
        return None
    # One thread would take long to collect a large heap.
    return _ONCE if _MEMORY in settings or _has_memory() else f"{_ONCE} {_ALONE}"


@contextmanager
def quick_java(settings: Mapping[str, Any]) -> Iterator[None]:
    """A JVM that Spark starts in here gets ``java_options``."""
    options = java_options(settings)
    if options is None:
        yield
        return
    os.environ[_VARIABLE] = options
    try:
        yield
    finally:
        del os.environ[_VARIABLE]


def _has_memory() -> bool:
    return "SPARK_DRIVER_MEMORY" in os.environ or "SPARK_MEM" in os.environ


def _has_defaults() -> bool:
    """Whether a file of Spark's may hold options: an installation of the user's, not of pip."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (str(Path(home) / "conf") if home else None)
    if folder is None:
        return False
    return any((Path(folder) / name).exists() for name in ("spark-defaults.conf", "spark-env.sh"))
