"""Runs many cases in separate processes, so that a crash or a hang does not end the run."""

from __future__ import annotations

import argparse
import collections
import faulthandler
import mmap
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import fuzz
from support import unwritten

BUSY = 120
"""Seconds of CPU time after which a case counts as a hang; it may have to compile kernels."""
QUIET = 1200
"""Seconds of wall time after which it counts as a hang even without using the CPU."""
ARROW_ENDS = "terminate called after throwing an instance of 'parquet::ParquetException'"
"""Arrow ends the process when it meets certain damages in the footer of a Parquet file.

The reason is a C++ exception that pyarrow does not catch; nothing in Python can prevent it. Such
cases are counted and shown, but they are no failures of Skyband.
"""
SHOWN = 3
"""How many failures of one kind are shown; the others are only counted."""


def main(words: list[str] | None = None) -> int:
    """Run cases until the count or the time is reached; the exit code says whether any failed."""
    parser = argparse.ArgumentParser(prog="make fuzz FUZZ_ARGS=...", description=fuzz.__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--count", type=int, default=1_000_000, help="inputs to run")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="time limit")
    parser.add_argument("--seed", default="0", help="another seed gives other inputs")
    parser.add_argument("--start", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", choices=list(fuzz.CASES), help="only this kind of case")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--memory", type=int, default=1000, help="megabytes of one process")
    parser.add_argument("--case", metavar="KIND:SEED", help="run one case and show its traceback")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if not given.case and not given.worker:
        return Run(given).all()
    with unwritten.filled(0xFF) if unwritten.VISIBLE else nullcontext():
        if given.worker:
            _work(given)
            return 0
        kind, _, seed = given.case.partition(":")
        made = collections.Counter(fuzz.run(kind, seed))
        print(f"{given.case}: fine ({made.total()} inputs)")
        return 0


class Run:
    """All workers of a run, and what they found."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.failures: dict[str, list[str]] = collections.defaultdict(list)
        self.ended_by_arrow: list[str] = []
        self.began = time.monotonic()
        self.folder = Path(tempfile.mkdtemp(prefix="skyband-fuzz-"))
        self.workers = [Worker(self, job) for job in range(given.jobs)]

    def all(self) -> int:
        said = time.monotonic()
        while sum(worker.running() for worker in self.workers):  # any() would not ask them all
            time.sleep(0.2)
            if time.monotonic() - said > 60:
                said = time.monotonic()
                for worker in self.workers:
                    worker.collect()
                self._say()
        self._say()
        self._table()
        for signature, seeds in self.failures.items():
            print(f"\n{len(seeds)} × {signature}")
            for seed in seeds[:SHOWN]:
                print(f'    make fuzz FUZZ_ARGS="--case {seed}"')
        if self.ended_by_arrow:
            print(f"\n{len(self.ended_by_arrow)} × ended by Arrow, at a damaged Parquet file:")
            print("   ", *self.ended_by_arrow[:SHOWN])
        shutil.rmtree(self.folder)
        return 1 if self.failures else 0

    def _say(self) -> None:
        took, failed = time.monotonic() - self.began, self._failed()
        done = sum(worker.state.inputs for worker in self.workers)
        print(
            f"{done:,} inputs in {took:,.0f} s ({self._used():,.0f} s of CPU time), "
            f"{failed:,} failures, at most {self._memory():,} MB",
            flush=True,
        )

    def _table(self) -> None:
        """Print a line of the table in docs/internals/fuzzing.md, with its head."""
        done: collections.Counter[str] = collections.Counter()
        for worker in self.workers:
            done.update(worker.state.counts())
        inputs = sum(worker.state.inputs for worker in self.workers)
        used, given = self._used(), self.given
        cells = {"run": f"`--seed {given.seed}{f' --jobs {given.jobs}' * (given.jobs > 1)}`"}
        cells |= {"inputs": f"{inputs:,}"} | {name: f"{done[name]:,}" for name in fuzz.INPUTS}
        cells |= {"wall time": f"{time.monotonic() - self.began:,.0f} s"}
        cells |= {"CPU time": f"{used:,.0f} s"}
        cells |= {"inputs per second of CPU time": f"{inputs / max(used, 0.001):,.0f}"}
        cells |= {"failures": f"{self._failed():,}", "memory": f"{self._memory():,} MB"}
        for line in (cells, ["---", *["---:"] * (len(cells) - 1)], cells.values()):
            print("|", " | ".join(line), "|")

    def _failed(self) -> int:
        return sum(map(len, self.failures.values()))

    def _memory(self) -> int:
        return max(worker.state.memory for worker in self.workers)

    def _used(self) -> float:
        """CPU time of all processes, those that have ended included."""
        ended = os.times().children_user + os.times().children_system
        return ended + sum(worker.used() for worker in self.workers)


class Worker:
    """One process at a time; after a crash, a new process continues with the next case.

    With n workers, each runs every n-th case.
    """

    def __init__(self, run: Run, job: int) -> None:
        self.run = run
        given = run.given
        self.state = State(run.folder / f"job{job}", new=True)
        self.log = run.folder / f"job{job}.log"
        self.next = given.start + job
        self.count = -(-given.count // given.jobs)
        self.process: Any = None
        self._still()

    def running(self) -> bool:
        """Start, watch or end the process; False when its share of the inputs is done."""
        over = time.monotonic() - self.run.began > self.run.given.seconds
        if self.process is None:
            if over or self.state.inputs >= self.count:
                return False
            self._start()
        if self.state.inputs != self.at:
            self._still()
        code = self.process.poll()
        silent = self.used() - self.used_then > BUSY or time.monotonic() - self.moved > QUIET
        if code is None and not silent and not over:
            return True
        if code is None:
            self.process.kill()
            self.process.wait()
        self.process = None
        if code == 0 and not over and self.state.inputs < self.count:  # it had become too large
            self.next, _ = self.state.case()
            return True
        if code == 0 or (over and not silent):
            self.count = 0
            self.collect()
            return False
        what = "a hang" if silent else f"a crash (exit code {code})"
        number, case = self.state.case()
        words = self._last_words()
        if ARROW_ENDS in self.log.read_text(errors="replace") and case.startswith("files:"):
            self.run.ended_by_arrow.append(case)
        else:
            self.run.failures[f"{what}: {words}"].append(case)
        self.next = number + self.run.given.jobs if case else self.next + self.run.given.jobs
        self.state.count(None)
        return True

    def _still(self) -> None:
        """Remember when the last input was done."""
        self.at, self.moved, self.used_then = self.state.inputs, time.monotonic(), self.used()

    def _start(self) -> None:
        given = self.run.given
        left = given.seconds - (time.monotonic() - self.run.began)
        words = ["--worker", str(self.state.path), "--seed", given.seed, "--start", str(self.next)]
        words += ["--count", str(self.count), "--jobs", str(given.jobs), "--seconds", str(left)]
        words += ["--memory", str(given.memory)]
        if given.only:
            words += ["--only", given.only]
        self.state.begin(self.next, "")
        with self.log.open("wb") as log:
            command = [sys.executable, "-m", "fuzz", *words]
            env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=env
            )
        self._still()

    def used(self) -> float:
        """CPU time that the running process has used so far, where the system tells."""
        if self.process is None:
            return 0.0
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # with its children

    def _last_words(self) -> str:
        """Where the process was, as far as it said so."""
        self.collect()
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return next((line.strip() for line in lines if "skyband/" in line), "no traceback")

    def collect(self) -> None:
        """Take the failures that the process has found so far."""
        found = self.state.path.with_suffix(".failures")
        lines = found.read_text().splitlines() if found.exists() else []
        for line in lines[self.taken :]:
            seed, _, signature = line.partition("\t")
            self.run.failures[signature].append(seed)
        self.taken = len(lines)

    taken = 0
    """How many failures were taken already."""


class State:
    """How far a worker has come, in mapped memory that survives a crash.

    The number of its case; the memory it has used; inputs that ended a process; inputs of each
    kind; and the name of its case.
    """

    def __init__(self, path: Path, new: bool = False) -> None:
        self.path = path
        self.numbers = 3 + len(fuzz.INPUTS)
        size = 8 * self.numbers + 100
        if new:
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            self.map = mmap.mmap(file.fileno(), size)

    def begin(self, number: int, case: str) -> None:
        """A case begins."""
        self._write(0, number)
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        self._write(1, max(self.memory, most))
        self.map[8 * self.numbers :] = case.encode()[:100].ljust(100, b"\0")

    def case(self) -> tuple[int, str]:
        """The number and the name of the case."""
        return self._read(0), self.map[8 * self.numbers :].rstrip(b"\0").decode()

    def count(self, kind: str | None) -> None:
        """An input is done; None for one that ended the process."""
        at = 2 if kind is None else 3 + fuzz.INPUTS.index(kind)
        self._write(at, self._read(at) + 1)

    def counts(self) -> dict[str, int]:
        return {kind: self._read(3 + at) for at, kind in enumerate(fuzz.INPUTS)}

    @property
    def inputs(self) -> int:
        return sum(self._read(at) for at in range(2, self.numbers))

    @property
    def memory(self) -> int:
        """The most memory that the process has used, in megabytes."""
        return self._read(1)

    def _read(self, at: int) -> int:
        return int.from_bytes(self.map[8 * at : 8 * at + 8], "little")

    def _write(self, at: int, value: int) -> None:
        self.map[8 * at : 8 * at + 8] = value.to_bytes(8, "little")


def _work(given: argparse.Namespace) -> None:
    """Run one case after another; failures go to a file, so that they survive a crash."""
    faulthandler.enable()
    state = State(Path(given.worker))
    began, number, parent = time.monotonic(), given.start, os.getppid()
    with Path(given.worker).with_suffix(".failures").open("a") as failures:
        while state.inputs < given.count and time.monotonic() - began < given.seconds:
            if os.getppid() != parent:
                return  # nobody is interested any more
            if number > given.start and memory() > given.memory:  # a new one goes on
                state.begin(number, "")
                return
            seed = f"{given.seed}-{number}"
            kind = given.only or fuzz.pick(seed)
            state.begin(number, f"{kind}:{seed}")
            try:
                for made in fuzz.run(kind, seed):
                    state.count(made)
            except Exception as problem:  # noqa: BLE001  any exception is a finding
                failures.write(f"{kind}:{seed}\t{signature(problem)}\n")
                failures.flush()
            number += given.jobs


def memory() -> int:
    """Megabytes that this process uses now, or has used at most where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return pages * resource.getpagesize() >> 20


def signature(problem: BaseException) -> str:
    """What identifies a failure: the error, where it was raised, and the start of its message."""
    frames = traceback.extract_tb(problem.__traceback__)
    inner = [frame for frame in frames if f"{os.sep}skyband{os.sep}" in frame.filename] or frames
    place = f"{Path(inner[-1].filename).name}:{inner[-1].lineno}"
    words = " ".join(str(problem).split())[:150]
    return f"{type(problem).__name__} at {place}: {words}"
