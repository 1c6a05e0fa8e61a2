"""Processes that are killed in the middle of their work, and started again until it is done."""

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

Ready = Callable[[subprocess.Popen[bytes]], bool]
"""Waits for the moment of a kill; False where the process ended before it."""


def launch(log: Path, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    """Python with these arguments, in a process group of its own, with our modules on its path.

    What it says goes to the end of a file.
    """
    path = os.pathsep.join(p for p in sys.path if p)
    with log.open("ab") as told:
        return subprocess.Popen(
            [sys.executable, *arguments],
            env=os.environ | {"PYTHONPATH": path} | environment,
            stdout=told,
            stderr=told,
            start_new_session=True,
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to a process and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def commits(checkpoint: Path) -> int:
    """Batches that a query has committed; its folder may be the checkpoint itself or in it."""
    found = [*checkpoint.glob("commits/*"), *checkpoint.glob("*/commits/*")]
    return len([path for path in found if path.name.isdigit()])


def wait_until(process: subprocess.Popen[bytes], done: Callable[[], bool]) -> bool:
    """Whether it came true before the process ended."""
    while process.poll() is None:
        if done():
            return True
        time.sleep(0.05)
    return False


def after_commit(checkpoint: Path, rng: random.Random) -> Callable[[], Ready]:
    """Up to half a second after a query has committed a batch more than when this was prepared."""

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
    """Run a job to its end, killed once for each of ``prepare``; returns how often it was.

    ``start`` is told how many kills there were before.
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
            raise AssertionError(f"the job failed by itself with {process.returncode}: {told}")
        finally:
            kill(process)
