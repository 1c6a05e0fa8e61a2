"""What the sinks and checkpoints of jobs store, without running a job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs.spark.checkpoint import Claim
from support import spark_session, spark_simulator

if spark_session.missing():
    pytest.skip("the spark extra is not installed", allow_module_level=True)

from skyband.jobs import load_job, parse_job, run_job
from skyband.jobs.job import JobSection
from skyband.jobs.sinks.base import SinkTarget
from skyband.jobs.sinks.files import FilesSink

TABLE = pa.table({"window_end": [10, 10, 20], "score": [1.0, float("nan"), float("inf")]})


class Given:
    """Rows of a batch, made by hand."""

    def __init__(self, *tables: pa.Table, broken: bool = False) -> None:
        self.given = tables
        self.schema = TABLE.schema
        self.broken = broken

    def __bool__(self) -> bool:
        return bool(self.given)

    def tables(self) -> Iterator[pa.Table]:
        yield from self.given
        if self.broken:
            raise OSError("the disk is full")


def files(folder: Path, form: str = "parquet", run: str = "r1") -> FilesSink:
    sink = FilesSink(SinkTarget(JobSection("files", {"path": str(folder)}), query="a/b", form=form))
    sink.open(run)
    return sink


class TestFiles:
    def names(self, folder: Path) -> list[str]:
        return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))

    def test_a_file_per_run_and_batch_written_once(self, tmp_path: Path) -> None:
        sink = files(tmp_path)
        given: Any = Given(TABLE, TABLE)
        sink.write(3, given)
        sink.write(3, given)
        sink.write(4, Given())
        files(tmp_path, run="r2").write(3, given)
        assert self.names(tmp_path) == ["a%2Fb-r1-00000003.parquet", "a%2Fb-r2-00000003.parquet"]
        assert pq.read_table(tmp_path / "a%2Fb-r1-00000003.parquet").num_rows == 6

    def test_half_a_batch_is_not_seen(self, tmp_path: Path) -> None:
        sink = files(tmp_path)
        broken: Any = Given(TABLE, broken=True)
        with pytest.raises(sb.EngineError, match="full"):
            sink.write(0, broken)
        assert self.names(tmp_path) == []

    def test_a_checkpoint_restored_from_a_copy(self, tmp_path: Path) -> None:
        given: Any = Given(TABLE)
        for batch in (7, 8, 9):
            files(tmp_path).write(batch, given)
        files(tmp_path, run="r2").write(11, given)
        files(tmp_path).write(8, given)
        assert [name[-19:-8] for name in self.names(tmp_path)] == [
            "r1-00000007",
            "r1-00000008",
            "r2-00000011",
        ]

    @pytest.mark.parametrize("form", ["json", "csv"])
    def test_formats(self, tmp_path: Path, form: str) -> None:
        given: Any = Given(TABLE)
        files(tmp_path, form).write(0, given)
        text = (tmp_path / f"a%2Fb-r1-00000000.{form}").read_text().splitlines()
        if form == "json":
            rows = [json.loads(line) for line in text]
            assert [row["score"] for row in rows] == [1.0, "NaN", "Infinity"]
        else:
            assert text[0] == '"window_end","score"'
            assert len(text) == 4

    def test_a_folder_of_spark_s_own_sink_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "_spark_metadata").mkdir()
        with pytest.raises(sb.EngineError, match="_spark_metadata"):
            files(tmp_path)


class TestClaim:
    query = sb.TopK(k=2, score="score", id="id", time="ts", window=sb.TimeWindow(10))
    rows = pa.table({"ts": [1], "id": ["a"], "score": [1.0]})

    def claim(self, folder: Path, shards: int = 1) -> Claim:
        plan = spark_simulator.plan_of(self.query, {"": self.rows}, shards=shards)
        return Claim(str(folder), plan, None)

    def test_a_run_is_kept(self, tmp_path: Path) -> None:
        folder = tmp_path / "state"
        first = self.claim(folder)
        assert not folder.exists()
        first.prepare()
        first.confirm()
        again = self.claim(folder)
        assert again.run == first.run
        assert again.claimed
        with pytest.raises(sb.EngineError, match=r"another query \(different: shards\)"):
            self.claim(folder, shards=2)
        (folder / "skyband.json").write_text("{")
        with pytest.raises(sb.EngineError, match="is damaged"):
            self.claim(folder)

    def test_it_remembers_what_columns_meant(self, tmp_path: Path) -> None:
        """The job compares them before its next batch."""
        plan = spark_simulator.plan_of(self.query, {"": self.rows}, shards=1)
        first = Claim(str(tmp_path), plan, None, columns={"": {"score": "a"}})
        first.prepare()
        first.confirm()
        again = Claim(str(tmp_path), plan, None, columns={"": {"score": "a", "more": "b"}})
        assert again.columns_before == {"": {"score": "a"}}
        again.confirm()
        assert self.claim(tmp_path).columns_before == {"": {"score": "a", "more": "b"}}

    def test_until_a_batch_was_computed_another_query_may_have_it(self, tmp_path: Path) -> None:
        first = self.claim(tmp_path)
        first.prepare()
        (tmp_path / "answers").mkdir()
        assert self.claim(tmp_path).run == first.run  # the same query resumes
        other = self.claim(tmp_path, shards=2)
        assert other.run != first.run
        assert not (tmp_path / "answers").exists()

    def test_until_a_batch_was_computed_other_sources_may_have_it(self, tmp_path: Path) -> None:
        """What Spark noted of the sources it was to read is not read in place of the new ones."""
        plan = spark_simulator.plan_of(self.query, {"": self.rows}, shards=1)
        Claim(str(tmp_path), plan, None, sources="one").prepare()
        (tmp_path / "answers").mkdir()
        Claim(str(tmp_path), plan, None, sources="one")
        assert (tmp_path / "answers").exists()
        Claim(str(tmp_path), plan, None, sources="other")
        assert not (tmp_path / "answers").exists()

    def test_the_checkpoint_of_a_local_job_is_not_touched(self, tmp_path: Path) -> None:
        told = {"run": "x", "engine": "local", "version": 1, "job": "j", "queries": {"q": "1"}}
        (tmp_path / "skyband.json").write_text(json.dumps(told))  # as 0.2 wrote it
        (tmp_path / "snapshot").write_text("state")
        with pytest.raises(sb.EngineError, match="written by a local job"):
            self.claim(tmp_path)
        (tmp_path / "skyband.json").write_text(json.dumps(told | {"claimed": True}))
        with pytest.raises(sb.EngineError, match="written by a local job"):
            self.claim(tmp_path)
        assert (tmp_path / "snapshot").exists()
        (tmp_path / "skyband.json").write_text(json.dumps(told | {"claimed": False}))
        assert self.claim(tmp_path).new
        assert not (tmp_path / "snapshot").exists()

    def test_a_start_that_fails_leaves_nothing(self, tmp_path: Path) -> None:
        first = self.claim(tmp_path / "state")
        first.prepare()
        first.withdraw()
        assert not (tmp_path / "state").exists()
        kept = self.claim(tmp_path / "kept")
        kept.prepare()
        kept.confirm()
        self.claim(tmp_path / "kept").withdraw()
        assert (tmp_path / "kept" / "skyband.json").exists()

    def test_checkpoints_that_are_not_ours(self, tmp_path: Path) -> None:
        (tmp_path / "skyband.json").write_text('{"version": 1, "query": "x"}')
        with pytest.raises(sb.EngineError, match="another version of Skyband"):
            self.claim(tmp_path)
        (tmp_path / "skyband.json").rename(tmp_path / "other")
        with pytest.raises(sb.EngineError, match="not the checkpoint of a Skyband job"):
            self.claim(tmp_path)


JOB = """
name = "best"
checkpoint = "state"
[source]
kind = "files"
path = "in"
[query]
kind = "TopK"
k = 2
score = "score"
time = "ts"
window = { size = 10 }
[sink]
kind = "files"
path = "out"
"""


MISTAKES = [
    ('name = "best"', 'name = "best"\nshards = 0', "shards must be a whole number"),
    (
        'kind = "files"\npath = "out"',
        'kind = "postgres"\ntable = "t"\ndsn_env = "NO_SUCH_VARIABLE"',
        "no variable 'NO_SUCH_VARIABLE'",
    ),
    ('path = "out"', 'path = "old"', "_spark_metadata"),
    ("k = 2", 'k = 2\nalgorithm = "sma"\noptions = { x = 1 }', "has no option"),
]


@pytest.mark.parametrize(("old", "new", "told"), MISTAKES)
def test_what_this_machine_cannot_run(tmp_path: Path, old: str, new: str, told: str) -> None:
    (tmp_path / "old" / "_spark_metadata").mkdir(parents=True)
    (tmp_path / "job.toml").write_text(JOB.replace(old, new))
    with pytest.raises(sb.SkybandError, match=told):
        run_job(load_job(tmp_path / "job.toml"))
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("option", [["--explain"], []])
def test_one_line_and_exit_code_2(tmp_path: Path, option: list[str]) -> None:
    old, new, told = MISTAKES[1]
    (tmp_path / "job.toml").write_text(JOB.replace(old, new))
    command = [sys.executable, "-m", "skyband", "pipeline", str(tmp_path / "job.toml"), *option]
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert told in line


@pytest.mark.parametrize("letters", [False, True])
def test_only_spark_has_a_writer_of_its_own(letters: bool, tmp_path: Path) -> None:
    topic = {"kind": "kafka", "servers": "127.0.0.1:1", "topic": "t", "writer": "spark"}
    sinks: dict[str, Any] = {"sink": topic}
    if letters:
        sinks = {"sink": {"kind": "console"}, "dead_letters": topic}
    told: dict[str, Any] = {
        "name": "job",
        "engine": "local",
        "checkpoint": str(tmp_path / "state"),
        "source": {"kind": "files", "path": str(tmp_path)},
        "query": {"kind": "TopK", "k": 1, "score": "x", "window": {"count": 5}},
        **sinks,
    }
    with pytest.raises(sb.QueryError, match="writer 'spark' needs engine = 'spark'"):
        parse_job(told)
    topic["writer"] = "storm"
    with pytest.raises(sb.QueryError, match="writer must be one of"):
        parse_job(told)
