"""Pipelines between topics of a real broker; skipped, with the reason, if there is none."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import kafka_broker, spark_session, with_kafka

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    reason = spark_session.missing()
    if reason:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("kafka")
    spark = importlib.metadata.version("pyspark")
    try:
        artifacts = kafka_broker.connectors(spark)
        jars = kafka_broker.jars_of(folder / "spark", *artifacts, alone=True)
        broker = kafka_broker.Broker(folder)
    except kafka_broker.MissingError as problem:
        pytest.skip(str(problem))
    try:
        servers = broker.start()
        yield {"servers": servers, "jars": [str(jar) for jar in jars], "artifacts": artifacts}
    finally:
        broker.stop()


def test_json_and_avro_between_topics(kafka: dict[str, Any], tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps(kafka | {"folder": str(tmp_path)}))
    done = subprocess.run(
        [sys.executable, str(Path(with_kafka.__file__)), str(settings)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        check=False,
    )
    misfits = ("NoSuchMethodError", "AbstractMethodError", "NoClassDefFoundError")
    for sign in (*misfits, "IncompatibleClassChangeError"):
        if sign in done.stderr:
            pytest.skip(f"{kafka['artifacts']} do not fit this Spark: {sign}")
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert "json: " in done.stdout
    assert "avro: " in done.stdout
