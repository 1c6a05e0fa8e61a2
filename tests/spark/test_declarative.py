"""The example of a Spark Declarative Pipeline runs twice; the second run goes on with its state."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from support import spark_session

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "declarative_pipeline"


def test_the_spec_has_the_settings_that_cannot_be_changed_later() -> None:
    from skyband.spark import sessions

    told = (EXAMPLE / "spark-pipeline.yml").read_text()
    assert f"{sessions._PROVIDER}: {sessions.ROCKSDB}" in told
    assert f'{sessions._CHANGELOG}: "true"' in told


def test_where_settings_cannot_be_changed_the_message_names_them() -> None:
    from skyband.spark.sessions import check_session

    class Fixed(dict[str, str]):
        def set(self, name: str, value: str) -> None:
            raise ValueError("SESSION_MUTATION_IN_DECLARATIVE_PIPELINE")

    class Session:
        conf = Fixed()

    with pytest.raises(sb.EngineError, match=r"providerClass=org.*RocksDB.*changelog.*=true"):
        check_session(Session(), streaming=True)


def test_rank_inside_a_query_function_says_what_to_do() -> None:
    from skyband.spark.sessions import outside_of_functions

    with (
        pytest.raises(sb.EngineError, match="call rank above the function"),
        outside_of_functions(),
    ):
        raise ValueError("[ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION] not allowed")


def run(folder: Path) -> pa.Table:
    """Run the pipeline; all rows of its table."""
    environment = spark_session.environment(SPARK_LOCAL_IP="127.0.0.1")
    bin_folder = str(Path(sys.executable).parent)
    environment["PATH"] = os.pathsep.join([bin_folder, environment["PATH"]])
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Workers must start within ten seconds, on a busy machine too.
    (folder / "conf").mkdir(exist_ok=True)
    settings = spark_session.WARM | {"spark.python.authenticate.socketTimeout": "120s"}
    told = "\n".join(f"{name} {value}" for name, value in settings.items())
    (folder / "conf" / "spark-defaults.conf").write_text(told)
    environment["SPARK_CONF_DIR"] = str(folder / "conf")
    spec = (folder / "spark-pipeline.yml").read_text()
    told = next(line for line in spec.splitlines() if "spark-pipelines run" in line)
    command = told.lstrip("# ").split()
    command[0] = str(Path(bin_folder) / command[0])
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    files = sorted((folder / "spark-warehouse" / "busiest").glob("*.parquet"))
    return pa.concat_tables(pq.read_table(file) for file in files)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_the_example(tmp_path: Path) -> None:
    reason = spark_session.missing()
    pytest.importorskip("grpc", reason="the connect extra")
    pytest.importorskip("yaml", reason="declarative pipelines need pyyaml")
    pytest.importorskip("pyspark.pipelines", reason="declarative pipelines came with Spark 4.1")
    if reason:
        pytest.skip(reason)
    folder = tmp_path / "pipeline"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    spec = folder / "spark-pipeline.yml"
    spec.write_text(
        spec.read_text().replace(
            "file:///tmp/skyband-declarative-pipeline", (tmp_path / "storage").as_uri()
        )
    )
    (folder / "flows" / "2.json").rename(tmp_path / "2.json")
    first = run(folder)
    (tmp_path / "2.json").rename(folder / "flows" / "2.json")
    both = run(folder)
    window = sb.TimeWindow("10 minutes", slide="5 minutes", lateness="30 seconds")
    query = sb.TopK(k=3, score="bytes", id="flow", time="ts", window=window)
    pushes = []
    for number in (1, 2):
        lines = (EXAMPLE / "flows" / f"{number}.json").read_text().splitlines()
        rows = pa.Table.from_pylist([json.loads(line) for line in lines])
        times = pa.compute.strptime(rows["ts"], "%Y-%m-%dT%H:%M:%SZ", "us").cast(
            pa.timestamp("us", "UTC")
        )
        pushes.append(rows.set_column(0, "ts", times))
    for found, upto in ((first, 1), (both, 2)):
        want, _ = spark_session.embedded(query, pushes[:upto])
        assert spark_session.rows(found) == spark_session.rows(want)
