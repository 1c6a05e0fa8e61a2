"""Local jobs killed at random moments: their sinks hold every window once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from skyband.jobs.local.checkpoint import read_lines
from support.local_jobs import QUERIES, job, out, rows, wanted, written

RUN = """
import sys
from skyband.jobs import load_job
from skyband.jobs.local import run
run._SAVE_EVERY, run._SAVE_SHARE = 0.02, 0
run.run_local(load_job(sys.argv[1]))
"""


def killed(folder: Path, kills: int, seed: int) -> int:
    """Run a job, kill it at random moments, and let it end; how often it was really killed."""
    chance = random.Random(seed)
    file = folder / "job.toml"
    file.write_text(toml_of(job(folder)))
    command = [sys.executable, "-c", RUN, str(file)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    count = 0
    for _ in range(kills):
        begun = folder / "state" / "batches"
        mark = len(read_lines(begun)) if begun.exists() else 0
        process = subprocess.Popen(command, env=environment)
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            if begun.exists() and begun.read_bytes().count(b"\n") != mark:
                break
            time.sleep(0.001)
        time.sleep(chance.random() * 0.05)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            count += 1
        process.wait(60)
    assert subprocess.run(command, env=environment, timeout=120, check=False).returncode == 0
    return count


def toml_of(told: dict[str, Any], prefix: str = "") -> str:
    plain = [f"{k} = {json.dumps(v)}\n" for k, v in told.items() if not isinstance(v, dict)]
    for name, table in told.items():
        if isinstance(table, dict):
            plain.append(f"[{prefix}{name}]\n" + toml_of(table, f"{prefix}{name}."))
    return "".join(plain)


def check_killed(folder: Path, kills: int) -> None:
    written(folder, rows(15))
    assert killed(folder, kills, seed=3) >= kills // 2
    for name in QUERIES:
        assert out(folder, name) == wanted(folder, name)


def test_a_killed_job_writes_each_window_once(tmp_path: Path) -> None:
    check_killed(tmp_path, 3)


@pytest.mark.slow
def test_a_job_killed_a_hundred_times_writes_each_window_once(tmp_path: Path) -> None:
    for part in range(10):
        (tmp_path / str(part)).mkdir()
        check_killed(tmp_path / str(part), 10)
