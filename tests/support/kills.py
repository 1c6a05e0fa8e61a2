"""Processes that are killed in the middle of their work, and restarted until it is done."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from support import spark_session

Ready = Callable[[subprocess.Popen[bytes]], bool]
"""Waits for the moment to kill; False if the process ended before it."""


def launch(log: Path, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    """Start Python with these arguments, in a new process group, with our modules on its path.

    Its output is appended to a file.
    """
    with log.open("ab") as told:
        return subprocess.Popen(
            [sys.executable, *arguments],
            env=spark_session.environment(**environment),
            stdout=told,
            stderr=told,
            start_new_session=True,
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    """Send SIGKILL to a process and all processes in its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def commits(checkpoint: Path) -> int:
    """Number of batches that a query has committed; it may use a subfolder of the checkpoint."""
    found = [*checkpoint.glob("commits/*"), *checkpoint.glob("*/commits/*")]
    return len([path for path in found if path.name.isdigit()])


def wait_until(process: subprocess.Popen[bytes], done: Callable[[], bool]) -> bool:
    """Wait for a condition; False if the process ended before."""
    while process.poll() is None:
        if done():
            return True
        time.sleep(0.05)
    return False


def after_commit(checkpoint: Path, rng: random.Random) -> Callable[[], Ready]:
    """Kill up to half a second after the query has committed another batch."""

    def prepare() -> Ready:
        known = commits(checkpoint)

        def ready(process: subprocess.Popen[bytes]) -> bool:
            if not wait_until(process, lambda: commits(checkpoint) > known):
                return False
            time.sleep(rng.uniform(0, 0.5))
            return process.poll() is None

        return ready

    return prepare


def run_with_kills(
    log: Path,
    start: Callable[[int], subprocess.Popen[bytes]],
    prepare: Sequence[Callable[[], Ready]],
    killed: Callable[[], None] = lambda: None,
) -> int:
    """Run a job to its end, killing it once for each of ``prepare``; returns the number of kills.

    ``start`` is called with the number of kills so far.
    """
    done = 0
    while True:
        ready = prepare[done]() if done < len(prepare) else None
        process = start(done)
        try:
            if ready is not None and ready(process):
                kill(process)
                done += 1
                killed()
                continue
            if process.wait() == 0:
                return done
            told = log.read_text(errors="replace")[-3000:]
            raise AssertionError(f"the job failed with {process.returncode}, not killed: {told}")
        finally:
            kill(process)
