"""Kills in the middle of batches: every window once, none lost, in a transactional sink."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from support import faulty, kills, spark_session

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]
SHORT = ["sharded-changes", "join"]
LONG = ["shards", "changes", "join", "board"]
"""Jobs with one shard are killed in ``test_killed_jobs``."""


def workers_of(driver: int) -> list[int]:
    """Python workers below a driver: they descend from its JVM and its worker daemon."""
    parents, commands = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                status = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                parents[int(entry.name)] = int(status[1])
                commands[int(entry.name)] = (entry / "cmdline").read_bytes().decode()

    def below(pid: int) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == driver:
                return True
        return False

    daemons = {p for p, command in commands.items() if "daemon" in command and below(p)}
    return [pid for pid in daemons if parents[pid] in daemons]


def launch(folder: Path, shapes: list[str], **settings: str) -> Any:
    return kills.launch(folder / "log", faulty.__file__, str(folder), *shapes, **settings)


def check_output(spark: Any, folder: Path, name: str, batches: int) -> None:
    from skyband.spark import split

    shape = faulty.SHAPES[name]
    made = faulty.batches_run(folder / "checkpoint" / name, faulty.pushes(shape, batches))
    written = spark.read.parquet(str(folder / "out" / name))
    parts = split(written, shape.board) if shape.board else {"": written}
    for part, query in (shape.board or {"": shape.query}).items():
        want, stats = spark_session.embedded(query, made, changes=shape.changes)
        assert stats["rows_late"] > 0
        assert want.num_rows > 2 * batches
        got = parts[part].toArrow()
        assert spark_session.rows(got) == spark_session.rows(want), (name, part)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes through /proc")
class TestKills:
    @pytest.mark.parametrize("times", [1, pytest.param(21, marks=pytest.mark.slow)])
    def test_kills_of_the_driver_and_of_workers(
        self, spark: Any, tmp_path: Path, times: int
    ) -> None:
        """One shard and several, tables and changes, a mapping, a board: side by side.

        A kill comes in the middle of a batch of all of them: when each has committed a batch, they
        all get another file. After the last kill of the driver, a worker is killed.
        """
        shapes = SHORT if times == 1 else LONG
        batches = 2 * times + 4
        checkpoints = {name: tmp_path / "checkpoint" / name for name in shapes}
        rng = random.Random(times)
        lost: list[int] = []
        given = 0

        def give(more: int) -> None:
            nonlocal given
            faulty.add_inputs(tmp_path, shapes, batches, given, given + more)
            given += more

        def start(kill: int) -> Any:
            give(1 if kill < times else batches - given)
            first = kill % len(shapes)
            stays = {"SKYBAND_TEST_STAYS": "1"} if kill < times else {}
            return launch(tmp_path, [*shapes[first:], *shapes[:first]], **stays)

        def in_a_batch() -> kills.Ready:
            known = {path: kills.commits(path) for path in checkpoints.values()}

            def ready(process: Any) -> bool:
                for path, commits in known.items():
                    if not kills.wait_until(process, lambda: kills.commits(path) > commits):  # noqa: B023
                        return False
                give(1)
                time.sleep(rng.uniform(0, 1.5))
                return bool(process.poll() is None)

            return ready

        def then_workers() -> kills.Ready:
            return lambda process: not goes_on(process, checkpoints[shapes[0]], lost, 1)

        ready = [in_a_batch] * times
        assert kills.run_with_kills(tmp_path / "log", start, [*ready, then_workers]) >= times
        assert len(lost) == 1
        for name in shapes:
            check_output(spark, tmp_path, name, batches)

    @pytest.mark.slow
    def test_many_killed_workers(self, spark: Any, tmp_path: Path) -> None:
        batches, name, lost = 60, "shards", list[int]()
        faulty.write_inputs(tmp_path, [name], batches)
        checkpoint = tmp_path / "checkpoint" / name

        def workers() -> kills.Ready:
            return lambda process: not goes_on(process, checkpoint, lost, 20)

        kills.run_with_kills(tmp_path / "log", lambda _: launch(tmp_path, [name]), [workers] * 20)
        assert len(lost) == 20
        check_output(spark, tmp_path, name, batches)


def goes_on(process: Any, checkpoint: Path, lost: list[int], times: int) -> bool:
    """Kill a worker after each of the next batches; whether the job ends well all the same.

    Spark starts the task again on another worker, and gives up if that happens too often.
    """
    while len(lost) < times:
        known = kills.commits(checkpoint)
        if not kills.wait_until(process, lambda: kills.commits(checkpoint) > known):  # noqa: B023
            break
        for pid in workers_of(process.pid)[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                lost.append(pid)
    return bool(process.wait() == 0)


def test_stopped_and_started_again_then_changed_and_damaged(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = faulty.flows(4)
    for upto in (2, 4):
        spark_session.write_batches(tmp_path / "in-flows", batches[:upto])
        spark_session.run_out(lambda: faulty.start(spark, tmp_path, "one"))
    check_output(spark, tmp_path, "one", 4)
    # Another query over the same checkpoint is refused, and so is a damaged state.
    more = pa.concat_tables([batches[-1]] * 2)
    spark_session.write_batches(tmp_path / "in-flows", [*batches, more])
    changed = sb.TopK(k=2, score="score", id="id", time="ts", by=("g",), window=faulty.WINDOW)
    with monkeypatch.context() as patch:
        patch.setitem(faulty.SHAPES, "one", faulty.Shape(changed))
        with pytest.raises(Exception, match="belongs to another query"):
            spark_session.run_out(lambda: faulty.start(spark, tmp_path, "one"))
    for path in (tmp_path / "checkpoint" / "one" / "state").rglob("*"):
        if path.is_file() and path.suffix in (".zip", ".changelog", ".sst"):
            path.write_bytes(b"nothing")
    with pytest.raises(Exception, match=r"CANNOT_LOAD_STATE_STORE|CHECKPOINT|CHECKSUM"):
        spark_session.run_out(lambda: faulty.start(spark, tmp_path, "one"))
