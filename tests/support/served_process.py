"""A served job in a process that can be killed, and that starts fast.

Processes are forked from one that has imported everything, so that a hundred starts cost little.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from skyband.jobs import load_job
from skyband.serve import serving as run
from skyband.serve.limits import ServiceLimits
from support import served

__all__ = ["Process", "started"]

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload([__name__])


def _run(job: str, journal_bytes: int, told: Connection) -> None:
    os.environ.pop("SKYBAND_TOKEN", None)
    limits = ServiceLimits(journal_bytes=journal_bytes)
    run.Service = partial(run.Service, limits=limits)  # type: ignore[attr-defined, assignment]
    run.serve_job(load_job(job, default="local"), port=0, started=told.send)


class Process:
    """``skyband serve JOB.toml``, with a snapshot whenever its journal has grown so much."""

    def __init__(self, job: Path, journal_bytes: int) -> None:
        self._heard, told = _FORKING.Pipe(duplex=False)
        self._process = _FORKING.Process(target=_run, args=(str(job), journal_bytes, told))
        self._process.start()
        told.close()

    def port(self) -> int:
        """Wait until it listens."""
        address: str = self._heard.recv()
        return int(address.rstrip("/").rsplit(":", 1)[1])

    def kill(self) -> None:
        """Kill it with SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.join()
        self._heard.close()


@contextmanager
def started(job: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], served.Client]]:
    """``skyband serve`` as a command; killed at the end if it still runs."""
    command = [sys.executable, "-m", "skyband", "serve", str(job), "--port", "0", *more]
    clean = {name: value for name, value in os.environ.items() if name != "SKYBAND_TOKEN"}
    process = subprocess.Popen(command, env=clean, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r":(\d+)/", process.stdout.readline())
        assert found is not None
        yield process, served.Client(int(found[1]))
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
