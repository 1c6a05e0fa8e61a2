"""A standalone Spark cluster on the loopback interface: a master and workers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

__all__ = ["Cluster", "below", "processor_seconds", "slowed", "standalone"]

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Cluster:
    """A running cluster; its workers can be killed, replaced and slowed down."""

    home: Path
    environment: dict[str, str]
    logs: Path
    master: str = ""
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def launch(self, role: str, port: int, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a process of the cluster and wait until it listens."""
        command = [
            str(self.home / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{role.lower()}.{role}",
            *("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"),
            *arguments,
        ]
        with (self.logs / f"{role}{len(self.started)}.log").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - Spark's own program
                command, env=self.environment, stdout=log, stderr=log
            )
        self.started.append(process)
        wait_for(port, process)
        return process

    def start_worker(self) -> subprocess.Popen[bytes]:
        """A worker with one core."""
        return self.launch("Worker", free_port(), "-c", "1", "-m", "1g", self.master)

    def replace_worker(self, number: int) -> None:
        """Kill a worker, whose executors then end too, and start another one."""
        self.workers[number].kill()
        self.workers[number].wait()
        self.workers[number] = self.start_worker()


@contextmanager
def standalone(logs: Path, settings: Mapping[str, str], workers: int = 2) -> Iterator[Cluster]:
    """A cluster with some workers of one core each; ``settings`` are environment variables."""
    import pyspark

    home = Path(pyspark.__file__).parent
    own = {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(logs),
        "PYSPARK_PYTHON": sys.executable,
    }
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | own | dict(settings)
    cluster = Cluster(home, environment, logs)
    try:
        port = free_port()
        cluster.launch("Master", port)
        cluster.master = f"spark://127.0.0.1:{port}"
        cluster.workers = [cluster.start_worker() for _ in range(workers)]
        yield cluster
    finally:
        for process in reversed(cluster.started):
            process.terminate()
        for process in cluster.started:
            process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(1200):
        if process.poll() is not None:
            raise AssertionError(f"Spark ended with {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("Spark did not come up")


# Processes ------------------------------------------------------------------------------------


def below(pid: int) -> set[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                children.setdefault(int(_stat(entry)[1]), []).append(int(entry.name))
    tree, to_visit = set(), [pid]
    while to_visit:
        tree.add(each := to_visit.pop())
        to_visit += children.get(each, ())
    return tree


def processor_seconds(pids: set[int]) -> float:
    """What these processes and the children that they have waited for have used so far."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            total += sum(map(int, _stat(Path("/proc") / str(pid))[11:15]))
    return total / TICKS


def _stat(entry: Path) -> list[str]:
    """The numbers of a process, from its state on."""
    return (entry / "stat").read_text().rsplit(")", 1)[1].split()


@contextmanager
def slowed(pid: int, share: float, period: float = 0.1) -> Iterator[None]:
    """Meanwhile all that this process has started stands still for a share of the time."""
    done = Event()

    def send(number: int) -> None:
        for each in below(pid) - {pid}:
            with suppress(ProcessLookupError):
                os.kill(each, number)

    def brake() -> None:
        while not done.is_set():
            send(signal.SIGSTOP)
            time.sleep(period * share)
            send(signal.SIGCONT)
            time.sleep(period * (1 - share))

    thread = Thread(target=brake, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
