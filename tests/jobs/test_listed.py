"""Files that were listed for a batch and are gone before it runs: never silently left out."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.data.letters import LETTERS
from skyband.jobs.spark.run_job import Listed


def entry(path: Path, listing: int) -> str:
    return json.dumps({"path": path.as_uri(), "timestamp": 1, "batchId": listing})


def checkpoint(folder: Path) -> Path:
    """Batches 0 to 2 of two sources of files, as Spark writes them; the log is compacted once."""
    (folder / "in").mkdir()
    names = ["a b", "b", "c", "d"]
    paths = [folder / "in" / f"{name}.parquet" for name in names]
    for path in paths:
        path.touch()
    state = folder / "answers"
    for log in ("offsets", "sources/0", "sources/1"):
        (state / log).mkdir(parents=True)
    offsets: list[list[int | None]] = [[None, 0], [0, 0], [2, 0]]
    for batch, told in enumerate(offsets):
        lines = ["-" if each is None else json.dumps({"logOffset": each}) for each in told]
        (state / "offsets" / str(batch)).write_text("\n".join(["v1", "{}", *lines]))
    (state / "sources/1/0").write_text("v1\n" + entry(paths[3], 0))
    (state / "sources/0/0").write_text("v1\n" + entry(paths[0], 0))
    (state / "sources/0/1").write_text("v1\n" + entry(paths[1], 1))
    lines = [entry(paths[0], 0), entry(paths[1], 1), entry(paths[2], 2)]
    (state / "sources/0/2.compact").write_text("\n".join(["v1", *lines]))
    return state


def gone(state: Path, batch: int) -> list[tuple[str, str]]:
    found = Listed(str(state), {0: "left", 1: "right"}).gone(batch)
    assert found.schema == LETTERS
    return [(row["source"], Path(row["file"]).name) for row in found.to_pylist()]


def test_files_of_each_batch(tmp_path: Path) -> None:
    state = checkpoint(tmp_path)
    assert [gone(state, batch) for batch in range(4)] == [[], [], [], []]
    for path in (tmp_path / "in").iterdir():
        path.unlink()
    assert gone(state, 0) == [("right", "d.parquet")]
    assert gone(state, 1) == [("left", "a b.parquet")]
    assert gone(state, 2) == [("left", "b.parquet"), ("left", "c.parquet")]
    assert gone(state, 3) == []


def test_other_file_systems_are_left_to_spark(tmp_path: Path) -> None:
    assert Listed("s3://box/state", {0: ""}).gone(0).num_rows == 0
    assert Listed(str(tmp_path), {0: ""}).gone(0).num_rows == 0


@pytest.mark.spark
def test_what_a_job_does(spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    from skyband.jobs.spark.batches import BatchWriter, SinkColumns
    from skyband.spark.finishing import GIVEN_DDL

    class Kept:
        where = "[sink]"
        refuses = ()

        def __init__(self) -> None:
            self.rows: list[dict[str, Any]] = []

        def open(self, run: str) -> None:
            """Nothing to prepare."""

        def write(self, batch: int, rows: Any) -> None:
            self.rows += [row for table in rows.tables() for row in table.to_pylist()]

    row = {"source": "", "reason": "is gone", "file": "file:/in/a.parquet"}
    letters = pa.Table.from_pylist([row], schema=LETTERS)
    frame = spark.createDataFrame([(None, None, None)], GIVEN_DDL)
    answers = pa.schema([("window_end", pa.int64())])

    def written(dead: Kept | None, **more: Any) -> BatchWriter:
        targets = [SinkColumns(Kept(), "payload", answers, "best")]
        if dead is not None:
            targets.append(SinkColumns(dead, "letters", LETTERS))
        made = BatchWriter(targets, lambda: None, lambda _: letters, **more)
        made(frame, 3)
        return made

    dead = Kept()
    with caplog.at_level(logging.WARNING, "skyband.spark"):
        written(dead)
        written(None)
    assert [letter["file"] for letter in dead.rows] == ["file:/in/a.parquet"]
    assert len(caplog.messages) == 2
    assert "'file:/in/a.parquet'" in caplog.messages[0]
    with pytest.raises(sb.DataError, match=r"a\.parquet'.*is gone"):
        written(None, on_bad="raise")
