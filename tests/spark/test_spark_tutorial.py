"""The tutorial on Spark: its cells in the tests' session, and with Connect in ``make slow``."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("matplotlib")

from lab.site.tutorials import FOLDER, Ran, page_of, run
from skyband.cli.flows import flow_batches
from support import spark_session

pytestmark = pytest.mark.spark
TUTORIAL = FOLDER / "spark.py"


def test_its_cells_give_what_the_page_shows(spark: Any) -> None:
    done = run(TUTORIAL, {"spark": spark}, skip=["session"])
    _, pictures = page_of("spark", done)
    assert len(pictures) == 1
    page = (FOLDER.parents[1] / "docs" / "tutorials" / "spark.md").read_text(encoding="utf-8")
    for each in done:
        if isinstance(each, Ran) and each.output:
            assert each.output in page


@pytest.mark.slow
def test_it_runs_with_connect(tmp_path: Path) -> None:
    reason = spark_session.missing()
    if reason is None and importlib.util.find_spec("grpc") is None:
        reason = "grpcio is not installed (the connect extra)"
    if reason:
        pytest.skip(reason)
    done = subprocess.run(
        [sys.executable, str(TUTORIAL)],
        env=spark_session.environment() | {"MPLBACKEND": "Agg"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert "the same on both engines: True" in done.stdout


def test_the_example_in_readme_runs(spark: Any, tmp_path: Path) -> None:
    """As it stands, except that its folders are elsewhere."""
    text = (FOLDER.parents[1] / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```py\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for name in ("flows", "answers", "state"):
        code = code.replace(f'"{name}"', f'"{tmp_path / name}"')
    for number, batch in enumerate(flow_batches(30, 40)):
        (tmp_path / "flows").mkdir(exist_ok=True)
        rows = batch.select(["ts", "flow", "bytes"])
        pq.write_table(rows, tmp_path / "flows" / f"{number:02}.parquet")
    space: dict[str, Any] = {}
    exec(code, space)
    (stream,) = spark.streams.active
    stream.processAllAvailable()
    stream.stop()
    answers = spark.read.parquet(str(tmp_path / "answers")).toArrow()
    assert answers.num_rows
    assert answers.column_names[:4] == ["window_start", "window_end", "rank", "flow"]
