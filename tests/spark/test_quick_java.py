"""Options of the JVM: ours where nobody else has given any, and only while it starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from skyband.jobs.parsing import parse_job
from skyband.spark.sessions import java_options, quick_java

WAYS = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
ELSEWHERE = ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_DRIVER_MEMORY", "SPARK_MEM", "SPARK_MASTER")


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*WAYS, *ELSEWHERE):
        monkeypatch.delenv(name, raising=False)


def test_it_compiles_once_and_only_while_it_starts() -> None:
    with quick_java({}):
        assert os.environ["SPARK_SUBMIT_OPTS"] == "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    assert "SPARK_SUBMIT_OPTS" not in os.environ


def test_a_large_heap_is_collected_as_java_chooses() -> None:
    assert java_options({"spark.driver.memory": "16g"}) == "-XX:TieredStopAtLevel=1"


@pytest.mark.parametrize("way", WAYS)
def test_options_of_the_users_stay_alone(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(way, "-XX:+UseZGC")
    before = dict(os.environ)
    with quick_java({}):
        assert dict(os.environ) == before
    assert dict(os.environ) == before


def test_options_in_settings_and_files_stay_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert java_options({"spark.driver.extraJavaOptions": "-Xlog:gc"}) is None
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert java_options({}) is not None
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").touch()
    assert java_options({}) is None


FILES = {"kind": "files", "path": "in"}
SPARKS = FILES | {"reader": "spark"}
RATE = {"kind": "rate", "columns": {"ts": "timestamp", "key": "value"}}


@pytest.mark.parametrize(
    ("source", "master", "quick"),
    [
        (FILES, "local[2]", True),
        (FILES, "spark://host:7077", False),
        (SPARKS, "local[2]", False),
        (RATE, "local[2]", False),
    ],
)
def test_jobs_whose_rows_stay_out_of_java(
    source: dict[str, Any],
    master: str,
    quick: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = pytest.importorskip("skyband.jobs.spark.run_job", exc_type=ImportError)
    window = {"size": "1 minute"}
    query = {"kind": "TopK", "k": 1, "score": "key", "time": "ts", "window": window}
    told = {"name": "job", "engine": "spark", "checkpoint": "state", "spark": {}, "source": source}
    told |= {"query": query, "sink": {"kind": "files", "path": "out"}, "master": master}
    seen: list[bool] = []
    monkeypatch.setattr(
        run, "start_session", lambda *_, **__: seen.append("SPARK_SUBMIT_OPTS" in os.environ)
    )
    run.session_of(parse_job(told, tmp_path))
    assert seen == [quick]
