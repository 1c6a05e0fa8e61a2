"""Spark sessions: what must be there before a job starts, and workers that start quickly.

Each error says how to fix what is missing.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import json
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from skyband import errors
from skyband.errors import EngineError, SkybandError, how_to_install

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
_ZONE = "spark.sql.session.timeZone"
PARTITIONS = "spark.sql.shuffle.partitions"
_UNTUNED = 200
"""Spark's default of it."""
_PACKAGES = {"pyspark": "pyspark", "pandas": "pandas", "google.protobuf": "protobuf"}
_OLDEST_JAVA = 17
log = logging.getLogger("skyband.spark")
_checked: set[str] = set()
"""Applications whose workers passed the check."""
_cores: dict[str, int] = {}
"""Tasks that each application runs at once."""


# What must be there, and the session itself -------------------------------------------------------


def require_packages(imported: bool = True) -> None:
    """Raise EngineError if a package of the spark extra is missing on this machine.

    With ``imported=False`` it is enough that they are found: importing them takes most of a second.
    """
    for module, package in _PACKAGES.items():
        try:
            if imported:
                importlib.import_module(module)
            elif importlib.util.find_spec(module) is None:
                raise ModuleNotFoundError(f"No module named {module!r}")
        except ImportError as problem:
            reason = f"Spark needs the package {package}, which cannot be imported here ({problem})"
            raise EngineError(f"{reason}; install it with: {how_to_install('spark')}") from problem


def require_java() -> None:
    """Raise EngineError if Java is missing or too old for Spark."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or (home and not Path(java).exists()):
        where = f"JAVA_HOME={home} has no bin/java" if home else "no java is on the path"
        raise EngineError(
            f"Spark needs Java, but {where}; install Java {_OLDEST_JAVA} (a JRE is enough) and "
            "set JAVA_HOME to it"
        )
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as problem:
        raise EngineError(
            f"{java} cannot be started ({problem}); set JAVA_HOME to a Java {_OLDEST_JAVA} or later"
        ) from problem
    found = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    if found is not None and int(found.group(1)) < _OLDEST_JAVA:
        raise EngineError(
            f"{java} is Java {found.group(1)}, but Spark 4 needs Java {_OLDEST_JAVA} or later; "
            "install it and set JAVA_HOME to it"
        )


def start_session(
    master: str | None, name: str, settings: Mapping[str, Any], quiet: bool = False
) -> Any:
    """Start a session whose Python workers run this interpreter, or return the existing session.

    A new session reads times without a zone as UTC, unless ``settings`` say otherwise. With
    ``quiet``, what Spark's own processes print is lost; errors still come as exceptions.
    """
    require_java()
    from pyspark.sql import SparkSession

    from skyband.spark.plan import BUCKETS

    python = os.environ.get("PYSPARK_PYTHON")
    own = python is None or python == sys.executable or is_quick(python)
    if own:
        local = local_cores(master) is not None
        os.environ["PYSPARK_PYTHON"] = quick_python() if local else sys.executable
    builder = SparkSession.builder.appName(name).config(_PROVIDER, ROCKSDB)
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    chosen = master_of(master)
    fresh = SparkSession.getActiveSession() is None
    if fresh:
        builder = builder.config(_ZONE, "UTC")
        builder = builder.config(PARTITIONS, str(partitions_for(BUCKETS, chosen)))
    builder = builder.master(chosen)
    on_one = chosen.startswith("local")
    for key, value in (local_settings(own) if on_one else {}).items():
        builder = builder.config(key, value)
    for key, value in settings.items():
        builder = builder.config(key.replace("__", "."), str(value))
    with _silent_children() if quiet else nullcontext():
        session = builder.getOrCreate()
    if fresh and own and on_one:
        _checked.add(_application(session))  # its workers run this interpreter, with this path
        start_workers(session)
    return session


@contextmanager
def _silent_children() -> Iterator[None]:
    """Processes that are started in here have no error stream, and this one has none meanwhile.

    The view of a job goes on, because it writes to a copy of it.
    """
    sys.stderr.flush()
    own, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(own, 2)
        os.close(own)
        os.close(nowhere)


def partitions_for(keys: int, master: str | None = None) -> int:
    """How many tasks should keep the state of a query that has so many state keys.

    More tasks than keys are of no use. On one machine, more than cores only take turns.
    """
    cores = local_cores(master)
    return max(1, keys if cores is None else min(keys, cores))


def advise_partitions(session: Any, keys: int) -> None:
    """Say which number of shuffle partitions a stream needs, if the session has far more.

    Spark starts a state store and a Python worker for each, which takes minutes on a laptop.
    """
    partitions = int(session.conf.get(PARTITIONS, str(_UNTUNED)))
    if partitions > max(keys, cores_of(session)):
        log.warning(
            "%s is %d, but the state of this query has %s: the first batch would start %d state "
            "stores. Before you start the query: spark.conf.set(%r, %d)",
            PARTITIONS,
            partitions,
            "one key" if keys == 1 else f"{keys} keys",
            partitions,
            PARTITIONS,
            keys,
        )


@contextmanager
def in_utc(session: Any) -> Iterator[None]:
    """Analyse expressions in UTC inside this context.

    Such an expression keeps reading times without a zone as UTC after the context ends.
    """
    before = session.conf.get(_ZONE)
    if before == "UTC":
        yield
        return
    session.conf.set(_ZONE, "UTC")
    try:
        yield
    finally:
        session.conf.set(_ZONE, before)


def check_session(session: Any, streaming: bool) -> None:
    """Raise EngineError if the workers cannot run a job; set the state store for streams.

    The workers are checked once per application, with a Spark job of one row per core.
    """
    if streaming:
        _check_watermark_policy(session)
    if streaming and "RocksDB" not in session.conf.get(_PROVIDER, ""):
        # The stateful operator requires RocksDB. Queries already running keep their own provider.
        _set(session, _PROVIDER, ROCKSDB)
    if streaming and not session.conf.get(_CHANGELOG, ""):
        # With a changelog a batch writes only its changes, not a copy of the whole store.
        _set(session, _CHANGELOG, "true")
    application = _application(session)
    if application in _checked:
        return
    wanted = {"skyband": version("skyband"), "pandas": None, "google.protobuf": None}
    cores = cores_of(session)
    frame = session.range(0, cores, 1, cores).mapInArrow(_probe(wanted), "found string")
    try:
        reports = {row.found for row in frame.collect()}
    except Exception as problem:
        raise EngineError(_workers_failed(str(problem))) from problem
    for found in reports:
        _judge(json.loads(found), wanted)
    _checked.add(application)


def _set(session: Any, name: str, value: str) -> None:
    """Change a setting; raises EngineError where a managed runtime or a pipeline forbids it."""
    try:
        session.conf.set(name, value)
    except Exception as problem:
        raise EngineError(
            f"this session does not let its settings be changed, so start it with {name}={value} "
            f"and {_CHANGELOG}=true (in a declarative pipeline: under configuration in its spec). "
            f"Spark says: {first_line(problem)}"
        ) from problem


@contextmanager
def outside_of_functions() -> Iterator[None]:
    """Say what to do if ``rank`` is called inside a query function of a declarative pipeline."""
    try:
        yield
    except Exception as problem:
        if "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION" not in str(problem):
            raise
        raise EngineError(
            "rank looks at the columns of its input, which a declarative pipeline does not allow "
            "inside a query function; call rank above the function and return what it gives"
        ) from problem


def cores_of(session: Any) -> int:
    """How many tasks the session runs at once."""
    application = _application(session)
    if application not in _cores:
        try:
            _cores[application] = int(session.sparkContext.defaultParallelism)
        except Exception:  # noqa: BLE001 - a remote session has no context; the error type varies
            from pyspark.sql import functions as F  # noqa: N812

            parts = session.range(0, 1 << 14).select(F.spark_partition_id()).distinct()
            _cores[application] = max(1, int(parts.count()))
    return _cores[application]


def _check_watermark_policy(session: Any) -> None:
    """Raise EngineError if Spark is set to take the watermark of the fastest source."""
    chosen = str(session.conf.get(_POLICY, "min"))
    if chosen.lower() != "min":
        raise EngineError(
            f"{_POLICY} is {chosen!r} in this session: Spark would end windows as soon as the "
            "fastest source has passed them, and drop later rows of slower sources. Set it to "
            "'min', which is Spark's default, or unset it"
        )


def _application(session: Any) -> str:
    try:
        return str(session.sparkContext.applicationId)
    except Exception:  # noqa: BLE001 - see above
        return str(id(session))


def _probe(wanted: Mapping[str, str | None]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    names = list(wanted)

    def probe(batches: Iterator[Any]) -> Iterator[Any]:
        # Shipped by value, because it must run even where skyband cannot be imported.
        import importlib
        import importlib.metadata
        import json
        import sys

        import pyarrow as pa

        for _ in batches:
            pass
        found: dict[str, Any] = {"python": sys.executable, "problems": {}, "versions": {}}
        for name in names:
            try:
                importlib.import_module(name)
                if "." not in name:
                    found["versions"][name] = importlib.metadata.version(name)
            except Exception as problem:  # noqa: BLE001 - the driver reports it, whatever it is
                found["problems"][name] = f"{type(problem).__name__}: {problem}"
        yield pa.record_batch([pa.array([json.dumps(found)])], names=["found"])

    return probe


def _judge(found: Mapping[str, Any], wanted: Mapping[str, str | None]) -> None:
    python = found["python"]
    for name, problem in found["problems"].items():
        package = _PACKAGES.get(name, name)
        raise EngineError(
            f"the workers' Python ({python}) cannot import {name} ({problem}); install {package} "
            "there, ship it (spark.submit.pyFiles, spark.archives), or point PYSPARK_PYTHON at an "
            "interpreter that has it"
        )
    version = found["versions"].get("skyband")
    if version != wanted["skyband"]:
        raise EngineError(
            f"the workers' Python ({python}) has skyband {version}, the driver "
            f"{wanted['skyband']}; install the same version on both sides"
        )


def error_of(problem: Exception) -> SkybandError:
    """The Skyband error that a worker raised, if there is one; otherwise Spark's first line."""
    ours = re.search(r"skyband\.errors\.(\w+): (.+)", str(problem))
    if ours is not None:
        found: SkybandError = getattr(errors, ours[1], EngineError)(ours[2])
        return found
    return EngineError(f"Spark failed: {first_line(problem)}")


def first_line(problem: Exception) -> str:
    """The first line of an error that says something."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return lines[0] if lines else type(problem).__name__


def _workers_failed(problem: str) -> str:
    if "PYTHON_VERSION_MISMATCH" in problem:
        return (
            "the workers run a different Python from the driver's "
            f"({sys.version_info.major}.{sys.version_info.minor}); set PYSPARK_PYTHON to the same "
            f"minor version on every worker. Spark says: {_line(problem)}"
        )
    return (
        "no Python worker could be started; set PYSPARK_PYTHON to an interpreter that exists on "
        f"every worker and has pyarrow, pandas, protobuf and skyband. Spark says: {_line(problem)}"
    )


def _line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "MISMATCH" in line or "Cannot" in line]
    return (errors or lines or [""])[0][:300]


# Where a session runs -----------------------------------------------------------------------------


def master_of(given: str | None) -> str:
    """The master of a session, all cores of this machine by default."""
    return given or os.environ.get("SPARK_MASTER") or "local[*]"


def local_cores(master: str | None = None) -> int | None:
    """The cores that a master uses on this machine; None for a cluster.

    >>> local_cores("local[4]"), local_cores("spark://host:7077")
    (4, None)
    """
    local = re.fullmatch(r"local(?:\[(\*|\d+).*\])?", master_of(master))
    if local is None:
        return None
    cores = local[1] or "1"
    return (os.cpu_count() or 1) if cores == "*" else int(cores)


# How local workers start: faster than Spark would have them ---------------------------------------
#
# Spark puts a zip of PySpark first on the path of its Python workers, and Python compiles what it
# imports from a zip anew in every process: 1.2 instead of 0.3 seconds of processor time before a
# worker answers. Workers on this machine use the path of the driver, whose packages are compiled.
#
# A worker makes and frees arrays of many megabytes in every batch. By default they are returned to
# the system and paged in anew each time, which can take longer than the work itself. With the
# settings below a worker keeps what it has freed, up to 512 MB beyond what it uses.

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


@cache
def _own_folder() -> Path:
    folder = tempfile.mkdtemp(prefix="skyband-python-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def quick_python() -> str:
    """A command that runs this interpreter with this process's path; itself on Windows."""
    if os.name != "posix":
        return sys.executable
    path = os.pathsep.join(str(Path(each).absolute()) for each in dict.fromkeys(sys.path))
    command = _own_folder() / "python"
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
    settings = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if own:
        settings |= DAEMON
    free = REUSED_MEMORY.keys() - os.environ.keys()
    return settings | {f"spark.executorEnv.{name}": REUSED_MEMORY[name] for name in sorted(free)}


def start_workers(session: Any) -> threading.Thread:
    """Start the session's Python workers, which takes seconds, while the caller goes on."""

    def run() -> None:
        with suppress(Exception):  # if workers cannot start, the first batch says so
            cores = session.sparkContext.defaultParallelism
            session.range(0, cores, 1, cores).mapInArrow(lambda rows: rows, "id bigint").collect()

    thread = threading.Thread(target=run, name="skyband-start-workers", daemon=True)
    thread.start()
    return thread


# How the JVM of a job on this machine starts: for work that is mostly done in Python -------------
#
# In a job whose workers read files by themselves, no row passes through the JVM before it is
# answered. A JVM compiles what runs often twice, the second time with much effort, and that is a
# third of all processor time until the first answer. Here it pays off late or never, so the JVM
# compiles only once, and collects its small heap with one thread. Whoever gives options for the
# JVM, in any of the ways that Spark and Java know, gets these only.

_VARIABLE = "SPARK_SUBMIT_OPTS"
_OTHERS = (_VARIABLE, "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")


def java_options(settings: Mapping[str, Any]) -> str | None:
    """Options of a JVM that starts quickly; None if the user has given some."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (str(Path(home) / "conf") if home else None)
    # Files of Spark's may hold options in an installation of the user's, not in one of pip's.
    files = [Path(folder or "") / name for name in ("spark-defaults.conf", "spark-env.sh")]
    given = "spark.driver.extraJavaOptions" in settings
    given |= folder is not None and any(file.exists() for file in files)
    if given or any(name in os.environ for name in _OTHERS):
        return None
    sized = "spark.driver.memory" in settings
    sized |= "SPARK_DRIVER_MEMORY" in os.environ or "SPARK_MEM" in os.environ
    # One thread would take long to collect a large heap.
    return "-XX:TieredStopAtLevel=1" + ("" if sized else " -XX:+UseSerialGC")


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
