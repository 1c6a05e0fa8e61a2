"""A job on Spark in the browser: answers through ``foreachBatch``, status through reports."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.errors import QueryError
from skyband.jobs import load_job
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.report import Report
from skyband.serve.bodies import read_body
from skyband.serve.on_spark import SparkPage, check_shown, on_spark
from skyband.serve.payload import answer_text
from support import served

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
SCHEMA = arrow_schema("", served.SCHEMA)
FILES = 'kind = "files"\npath = "in"\nfiles_per_batch = 1'
ON_SPARK = re.sub("schema = .*\n", "", served.JOB.replace('kind = "http"', FILES)).replace(
    'engine = "local"', 'engine = "spark"'
)


def written(folder: Path, text: str = ON_SPARK, more: str = "") -> Path:
    (folder / "job.toml").write_text(text + more)
    return folder / "job.toml"


def table(first: int, count: int) -> Any:
    return read_body("json", served.ndjson(served.rows(first, count)), SCHEMA)


def wanted(name: str, rows: int) -> list[Any]:
    """The answers of the embedded engine; Spark does not tell the total of a window."""
    monitor = sb.Monitor(served.board())
    found = [answer for answer in monitor.push(table(0, rows)) if answer.name == name]
    return [json.loads(answer_text(answer)) | {"total": None} for answer in found]


@pytest.mark.spark
def test_a_job_on_spark_is_shown(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(table(0, 20), tmp_path / "in" / "0.parquet")
    job = load_job(written(tmp_path, more="[trigger]\nonce = true\n"), default="local")
    with (
        on_spark(job, tmp_path / "state" / "serve", spark) as shown,
        served.serving(shown, engine="spark") as client,
        client.events() as events,
    ):
        told = client.get("/api/board").json
        assert (told["engine"], len(told["queries"])) == ("spark", 2)
        kind, data = "", dict[str, Any]()
        while not (kind == "status" and data["state"] == "finished"):
            kind, _, data = next(events)
        assert (data["rows"], data["engine"]) == (20, "spark")
        assert data["watermark"] == "2026-01-05T08:00:19+00:00"
        for name in ("busiest", "talkers"):
            found = client.answers(name)
            assert len(found) == 9
            assert found == wanted(name, 20)
        assert client.post(served.rows(0, 1)).status == 404
        metrics = client.get("/metrics").body.decode()
        assert 'skyband_rows_in_total{query="network"} 20' in metrics
    sink = [pq.read_table(path) for path in (tmp_path / "talkers").glob("*.parquet")]
    assert "exact" not in sink[0].column_names
    assert sum(len(set(each["window_end"].to_pylist())) for each in sink) == 9


def test_a_repeated_batch_is_shown_once_and_numbers_go_on(tmp_path: Path) -> None:
    job = load_job(written(tmp_path), default="local")
    answers = sb.rank(table(0, 20), served.board()["talkers"])
    first = answers.filter(up_to(answers, "08:00:10"))
    shown = SparkPage(job, {"": SCHEMA}, tmp_path)
    shown.wrote("talkers", first)
    shown.wrote("talkers", first)
    assert shown.number == 5
    again = SparkPage(job, {"": SCHEMA}, tmp_path)  # as after a crash before Spark's commit
    again.wrote("talkers", first)
    assert again.number == 5
    again.wrote("talkers", answers)
    found = [json.loads(event.text) for event in again.history.newest("talkers", 99)]
    assert [each | {"exact": True} for each in found][:9] == wanted("talkers", 20)


def up_to(answers: Any, moment: str) -> Any:
    return [f"{end:%H:%M:%S}" <= moment for end in answers["window_end"].to_pylist()]


def test_reports_are_the_status(tmp_path: Path) -> None:
    shown = SparkPage(load_job(written(tmp_path), default="local"), {"": SCHEMA}, tmp_path)
    assert shown.status.watermark() is None
    shown.reported(Report(0, 50, late=2, bad=3, watermark=time.time() - 7, state_bytes=9))
    assert shown.status.behind == pytest.approx(7, abs=1)
    assert shown.stats["network"]["rows_late"] == 2
    assert sum(shown.status.rows.values()) == 50


def test_what_spark_cannot_show(tmp_path: Path) -> None:
    job = load_job(written(tmp_path, "changes = true\n" + ON_SPARK), default="local")
    with pytest.raises(QueryError, match="leave out changes"):
        check_shown(job)
