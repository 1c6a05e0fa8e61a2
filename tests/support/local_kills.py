"""Local jobs that are killed at random moments, and started again until they have read all.

Each start is a process of its own. It is forked from a server that has imported what a job needs
and loaded its kernels (``warm_queries``), so that a hundred starts take a minute and not ten.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from skyband.jobs import parse_job

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["skyband.jobs.local.local_job", "support.warm_queries"])
_PATIENCE = 300.0
_CLOSELY = 0.05
"""Most kills come so many seconds after a batch has begun, or earlier."""


def run(told: dict[str, Any]) -> None:
    """Run a job that saves its state very often."""
    from skyband.jobs.local import local_job as run

    run._SAVE_EVERY, run._SAVE_SHARE = 0.02, 0
    run.run_local(parse_job(told))


def run_with_kills(told: dict[str, Any], kills: int, chance: random.Random) -> int:
    """Run a job to its end, and kill it up to ``kills`` times; returns how often it was killed.

    One kill in four comes at any moment: while the job starts, reads batches again, or works. The
    others come close to the beginning of a batch.
    """
    begun = Path(told["checkpoint"])
    done = 0
    _start_server()
    while True:
        process = _PROCESSES.Process(target=run, args=(told,))
        process.start()
        if done < kills:
            if chance.random() < 0.25:
                time.sleep(chance.uniform(0, 1))
            else:
                _wait_for_a_batch(begun, process)
                time.sleep(chance.uniform(0, _CLOSELY))
            process.kill()
        process.join(_PATIENCE)
        code = process.exitcode
        if code is None:
            process.kill()
            raise AssertionError("the job did not end")
        process.close()
        if code == 0:
            return done
        assert code == -9, f"the job failed with {code}, although it was not killed"
        done += 1


def _start_server() -> None:
    """Start the server from which jobs are forked, if it does not run yet; it needs our path."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _wait_for_a_batch(begun: Path, process: Any) -> None:
    """Wait until a batch was entered, or the process has ended."""
    before = _size(begun)
    until = time.monotonic() + _PATIENCE
    while process.is_alive() and time.monotonic() < until:
        if _size(begun) > before:
            return
        before = min(before, _size(begun))  # a snapshot begins a new journal
        time.sleep(0.001)


def _size(path: Path) -> int:
    try:
        return max((each.stat().st_size for each in path.glob("journal-*")), default=0)
    except FileNotFoundError:
        return 0


def until_killed(times: int, seed: int, part: Callable[[int], dict[str, Any]]) -> None:
    """Run jobs one after the other until they were killed ``times`` in all.

    ``part`` prepares the job of a number; each is killed ten times at most, so that it also ends.
    """
    chance = random.Random(seed)
    done, number, idle = 0, 0, 0
    while done < times:
        killed = run_with_kills(part(number), min(10, times - done), chance)
        idle = 0 if killed else idle + 1
        assert idle < 5, "the jobs end before they can be killed"
        done, number = done + killed, number + 1
