"""Runs many cases in separate processes, so that a crash or a hang does not end the run."""

from __future__ import annotations

import argparse
import collections
import faulthandler
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import fuzz

BUSY = 120
"""Seconds of CPU time after which a case counts as a hang; it may have to compile kernels."""
QUIET = 1200
"""Seconds of wall time after which it counts as a hang even without using the CPU."""
SHOWN = 3
"""How many failures of one kind are shown; the others are only counted."""


def main(words: list[str] | None = None) -> int:
    """Run cases until the count or the time is reached; the exit code says whether any failed."""
    parser = argparse.ArgumentParser(prog="make fuzz FUZZ_ARGS=...", description=fuzz.__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--count", type=int, default=1_000_000, help="inputs to run")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="time limit")
    parser.add_argument("--seed", default="0", help="another seed gives other inputs")
    parser.add_argument("--start", type=int, default=0, help="number of the first input")
    parser.add_argument("--only", choices=list(fuzz.CASES), help="only this kind of input")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--case", metavar="KIND:SEED", help="run one input and show its traceback")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if given.case:
        kind, _, seed = given.case.partition(":")
        fuzz.run(kind, seed)
        print(f"{given.case}: fine")
        return 0
    if given.worker:
        _work(given)
        return 0
    return Run(given).all()


class Run:
    """All workers of a run, and what they found."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.failures: dict[str, list[str]] = collections.defaultdict(list)
        self.done: collections.Counter[str] = collections.Counter()
        self.began = time.monotonic()
        self.folder = Path(tempfile.mkdtemp(prefix="skyband-fuzz-"))

    def all(self) -> int:
        given = self.given
        workers = [Worker(self, job) for job in range(given.jobs)]
        said = time.monotonic()
        while any(worker.running() for worker in workers):
            time.sleep(0.2)
            if time.monotonic() - said > 60:
                said = time.monotonic()
                self._say(sum(worker.at for worker in workers))
        for worker in workers:
            self.done.update(worker.counts())
        self._say(sum(self.done.values()))
        for name, share in sorted(self.done.items()):
            print(f"  {name:<10} {share:>9,}")
        for signature, seeds in self.failures.items():
            print(f"\n{len(seeds)} × {signature}")
            for seed in seeds[:SHOWN]:
                print(f'    make fuzz FUZZ_ARGS="--case {seed}"')
        shutil.rmtree(self.folder)
        return 1 if self.failures else 0

    def _say(self, done: int) -> None:
        took = time.monotonic() - self.began
        failed = sum(map(len, self.failures.values()))
        print(f"{done:,} inputs in {took:,.0f} s, {failed:,} failures", flush=True)


class Worker:
    """One process at a time; after a crash, a new process continues with the next case."""

    def __init__(self, run: Run, job: int) -> None:
        self.run = run
        self.at = 0
        self.state = State(run.folder / f"job{job}", new=True)
        self.log = run.folder / f"job{job}.log"
        given = run.given
        share = -(-given.count // given.jobs)
        self.next = given.start + job * share
        self.end = min(self.next + share, given.start + given.count)
        self.moved, self.used = time.monotonic(), 0.0
        self.process: Any = None

    def running(self) -> bool:
        """Start, watch or end the process; False when its share of the cases is done."""
        over = time.monotonic() - self.run.began > self.run.given.seconds
        if self.process is None:
            if over or self.next >= self.end:
                return False
            self._start()
        number, case = self.state.read()
        if number != self.at:
            self.at, self.moved, self.used = number, time.monotonic(), self._worked()
        code = self.process.poll()
        silent = self._worked() - self.used > BUSY or time.monotonic() - self.moved > QUIET
        if code is None and not silent and not over:
            return True
        if code is None:
            self.process.kill()
            self.process.wait()
        if code != 0 and not (over and not silent):
            what = "a hang" if silent else f"a crash (exit code {code})"
            self.run.failures[f"{what}: {self._last_words()}"].append(case)
            self.next += number + 1 - self._before
            self.process = None
            return True
        self._collect()
        self.next = self.end
        self.process = None
        return False

    def _start(self) -> None:
        self._before = self.state.read()[0]
        given = self.run.given
        words = ["--worker", str(self.state.path), "--seed", given.seed, "--start", str(self.next)]
        words += ["--count", str(self.end - self.next)]
        if given.only:
            words += ["--only", given.only]
        left = given.seconds - (time.monotonic() - self.run.began)
        words += ["--seconds", str(left)]
        self.moved, self.used = time.monotonic(), 0.0
        with self.log.open("wb") as log:
            command = [sys.executable, "-m", "fuzz", *words]
            env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=env
            )

    def _worked(self) -> float:
        """The CPU time that the process has used; 0 if the system does not tell."""
        try:
            words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def _last_words(self) -> str:
        self._collect()
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return next((line.strip() for line in lines if "skyband/" in line), "no traceback")

    def _collect(self) -> None:
        found = self.state.path.with_suffix(".failures")
        if found.exists():
            for line in found.read_text().splitlines():
                seed, _, signature = line.partition("\t")
                self.run.failures[signature].append(seed)
            found.unlink()

    def counts(self) -> dict[str, int]:
        """Inputs of each kind that were run."""
        given = self.run.given
        done: collections.Counter[str] = collections.Counter()
        first = self.end - (-(-given.count // given.jobs))
        for number in range(max(first, given.start), max(first, given.start) + self.at):
            done[given.only or fuzz.pick(f"{given.seed}-{number}")] += 1
        return done


class State:
    """The number and name of a worker's current case, in mapped memory that survives a crash."""

    def __init__(self, path: Path, new: bool = False) -> None:
        self.path = path
        if new:
            path.write_bytes(bytes(128))
        with path.open("r+b") as file:
            self.map = mmap.mmap(file.fileno(), 128)

    def write(self, number: int, case: str) -> None:
        text = case.encode()[:100]
        self.map[:] = number.to_bytes(8, "little") + text + bytes(120 - len(text))

    def read(self) -> tuple[int, str]:
        data = bytes(self.map)
        return int.from_bytes(data[:8], "little"), data[8:].rstrip(b"\0").decode()


def _work(given: argparse.Namespace) -> None:
    """Run one case after another; failures go to a file, so that they survive a crash."""
    faulthandler.enable()
    state = State(Path(given.worker))
    before = state.read()[0]
    began = time.monotonic()
    with Path(given.worker).with_suffix(".failures").open("a") as failures:
        for done in range(given.count):
            if time.monotonic() - began > given.seconds:
                break
            seed = f"{given.seed}-{given.start + done}"
            kind = given.only or fuzz.pick(seed)
            state.write(before + done, f"{kind}:{seed}")
            try:
                fuzz.run(kind, seed)
            except Exception as problem:  # noqa: BLE001  any exception is a finding
                failures.write(f"{kind}:{seed}\t{signature(problem)}\n")
                failures.flush()
            state.write(before + done + 1, "")


def signature(problem: BaseException) -> str:
    """What identifies a failure: the error, where it was raised, and the start of its message."""
    frames = traceback.extract_tb(problem.__traceback__)
    inner = [frame for frame in frames if f"{os.sep}skyband{os.sep}" in frame.filename] or frames
    place = f"{Path(inner[-1].filename).name}:{inner[-1].lineno}"
    words = " ".join(str(problem).split())[:150]
    return f"{type(problem).__name__} at {place}: {words}"
