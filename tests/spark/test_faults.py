"""Kills in the middle of batches: every window once, none lost, in a transactional sink."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from support import faulty, kills, spark_session

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]


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


def launch(folder: Path, shapes: list[str]) -> Any:
    return kills.launch(folder / "log", faulty.__file__, str(folder), *shapes)


def check_output(spark: Any, folder: Path, name: str, batches: int) -> None:
    shape = faulty.SHAPES[name]
    made = faulty.batches_run(folder / "checkpoint" / name, faulty.pushes(shape, batches))
    want, stats = spark_session.embedded(shape.query, made, changes=shape.changes)
    assert stats["rows_late"] > 0
    assert want.num_rows > 5 * batches
    got = spark.read.parquet(str(folder / "out" / name)).toArrow()
    assert spark_session.rows(got) == spark_session.rows(want), name


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes through /proc")
class TestKills:
    @pytest.mark.parametrize(
        ("times", "batches"), [(2, 7), pytest.param(24, 120, marks=pytest.mark.slow)]
    )
    def test_kills_of_the_driver_and_of_workers(
        self, spark: Any, tmp_path: Path, times: int, batches: int
    ) -> None:
        """One shard and several, tables and changes, one source and a mapping: side by side.

        They take turns in starting first and in deciding when to kill. After the last kill of the
        driver, a worker is killed.
        """
        shapes = ["sharded-changes", "join"] if times == 2 else list(faulty.SHAPES)
        faulty.write_inputs(tmp_path, shapes, batches)
        checkpoints = {name: tmp_path / "checkpoint" / name for name in shapes}
        rng = random.Random(times)
        turns = [shapes[n % len(shapes)] for n in range(times)]
        hit = dict.fromkeys(shapes, 0)
        lost: list[int] = []

        def start(kill: int) -> Any:
            first = turns[kill % times]
            return launch(tmp_path, [first, *(name for name in shapes if name != first)])

        def note() -> None:
            for name, path in checkpoints.items():
                hit[name] += 0 < kills.commits(path) < batches

        def then_workers() -> kills.Ready:
            return lambda process: not goes_on(process, checkpoints[turns[0]], lost, 1)

        ready = [kills.after_commit(checkpoints[name], rng) for name in turns]
        ready.append(then_workers)
        kills.run_with_kills(tmp_path / "log", start, ready, note)
        assert len(lost) == 1
        assert min(hit.values()) >= times // len(shapes), hit
        for name in shapes:
            check_output(spark, tmp_path, name, batches)

    @pytest.mark.slow
    def test_many_killed_workers(self, spark: Any, tmp_path: Path) -> None:
        batches, name, lost = 40, "shards", list[int]()
        faulty.write_inputs(tmp_path, [name], batches)
        checkpoint = tmp_path / "checkpoint" / name

        def workers() -> kills.Ready:
            return lambda process: not goes_on(process, checkpoint, lost, 20)

        kills.run_with_kills(tmp_path / "log", lambda _: launch(tmp_path, [name]), [workers] * 20)
        assert len(lost) >= 10
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
