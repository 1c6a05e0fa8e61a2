"""How the JVM of a job on this machine starts: for work that is mostly done in Python.

In a job whose workers read files by themselves, no row passes through the JVM before it is
answered. A JVM compiles what runs often twice, the second time with much effort, and that is a
third of all processor time until the first answer. Here it pays off late or never, so the JVM only
compiles once, and collects its small heap with one thread.

Whoever gives options for the JVM, in any of the ways that Spark and Java know, gets these only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["java_options", "quick_java"]

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
