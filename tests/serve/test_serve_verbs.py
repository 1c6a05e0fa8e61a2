"""Any query verb takes ``--serve``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("typer")

from skyband.cli import with_spark
from skyband.cli.fields import verb_of
from skyband.embedded.sources import paths_of
from skyband.query import KINDS, Query
from skyband.serve import serving as run
from skyband.serve.page import Page
from support import command_line, served, spark_session

ROWS = pa.table(
    {
        "n": pa.array(range(20), pa.int64()),
        "id": [f"id-{i}" for i in range(20)],
        "x": [float(i * 7 % 5) for i in range(20)],
        "p": [(i % 9 + 1) / 10 for i in range(20)],
        "s": [f"r{i % 2 + 1}" for i in range(20)],
    }
)
OTHER = pa.table({"n": ROWS["n"], "id": ROWS["id"], "y": ROWS["p"]})
WORDS: dict[str, tuple[object, ...]] = {
    "topk": ("-k", 2, "--score", "x", "--id", "id"),
    "heavy-hitters": ("-k", 2, "--item", "id"),
    "uncertain": ("-k", 2, "--score", "x", "--probability", "p", "--id", "id"),
    "fused": ("-k", 2, "--id", "id", "--stream", "s", "--value", "p", "--streams", "r1,r2"),
    "skyline": ("--prefer", "x=min,p=max", "--id", "id"),
    "skyline-join": (
        *("--left", "a", "--right", "b", "--on", "id", "--prefer"),
        "x=min,p=max,y=min",
    ),
}


def test_the_list_is_complete() -> None:
    mine = {verb_of(kind) for kind in KINDS.values() if kind.__module__.startswith("skyband.")}
    assert mine <= set(WORDS)


def computed(
    query: Query, source: Any, master: str | None, on_bad: str, schemas: dict[str, pa.Schema]
) -> pa.Table:
    """What Spark would give, rows in any order; a test of Spark compares both."""
    files = source if isinstance(source, Mapping) else {"": source}
    for name, each in files.items():
        (path,) = paths_of(each) if isinstance(each, str) else paths_of(each.words[0])
        schemas[name] = pq.read_schema(path)
    return sb.rank(source, query).sort_by([("window_end", "descending")])


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a verb serves over HTTP; it is read instead of waiting for a signal."""
    pq.write_table(ROWS, tmp_path / "a.parquet")
    pq.write_table(OTHER, tmp_path / "b.parquet")
    found: dict[str, Any] = {}

    def read(
        title: str, query: Query, schemas: Mapping[str, pa.Schema], work: Callable[[Page], None],
        port: int, started: object, engine: str = "local",
    ) -> None:  # fmt: skip
        found["engine"] = engine
        shown = Page({title: query}, schemas, tmp_path)
        work(shown)
        with served.serving(shown) as client:
            found["answers"] = client.answers(title)
            found["told"] = client.get("/api/board").json["queries"][0]
            found["metrics"] = client.get("/metrics").body.decode()

    monkeypatch.setattr(run, "serve_answers", read)
    return found


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize("verb", WORDS)
def test_a_verb_serves(
    verb: str,
    engine: str,
    found: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sides = [f"{side}={tmp_path / side}.parquet" for side in "ab"]
    sources = sides if verb == "skyline-join" else [tmp_path / "a.parquet"]
    words = [*sources, *WORDS[verb], "--time", "n", "--window", 4, "--slide", 2]
    monkeypatch.setattr(with_spark, "rank_on_spark", computed)
    command_line.good(verb, *words, "--serve", "--pace", 0, "--engine", engine)
    assert found["engine"] == engine
    assert [each["end"] for each in found["answers"]] == list(range(2, 22, 2))
    for each in found["answers"]:
        assert each["rows"]
        assert all(list(row) == found["told"]["columns"] for row in each["rows"])
    assert f'skyband_windows_out_total{{query="{verb}"}} 10' in found["metrics"]


@pytest.mark.spark
def test_a_verb_serves_what_spark_has_computed(
    spark: Any, found: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skyband.spark.session", lambda *_, **__: spark_session.Kept(spark))
    words = [tmp_path / "a.parquet", *WORDS["topk"], "--time", "n", "--window", 4, "--slide", 2]
    command_line.good("topk", *words, "--serve", "--pace", 0)
    here = found.pop("answers")
    command_line.good("topk", *words, "--serve", "--pace", 0, "--engine", "spark")
    assert found["engine"] == "spark"
    # Spark does not tell how many rows a window has, nor that a window was empty.
    assert found["answers"] == [each | {"total": None} for each in here if each["rows"]]
    assert 'skyband_windows_out_total{query="topk"} 10' in found["metrics"]
