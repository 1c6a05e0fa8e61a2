"""A local Kafka broker (KRaft, one node) and Spark's connectors, fetched with the Maven client."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

KAFKA = "org.apache.kafka:kafka_2.13:3.9.1"
CLIENTS = "org.apache.kafka:kafka-clients:3.9.1"
POOL = "org.apache.commons:commons-pool2:2.12.1"
CONNECTORS = (
    "spark-sql-kafka-0-10_2.13",
    "spark-token-provider-kafka-0-10_2.13",
    "spark-avro_2.13",
)
TRIED = {"4.3": dict(zip(CONNECTORS, ("4.2.0", "4.0.0", "4.1.1"), strict=True))}
"""Connector versions known to work with a Spark version; docs/jobs.md lists them too."""
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>skyband</groupId><artifactId>jars</artifactId>
<version>1</version><dependencies>{}</dependencies></project>"""
NAME = "<groupId>{}</groupId><artifactId>{}</artifactId>"
DEPENDENCY = f"<dependency>{NAME}<version>{{}}</version>{{}}</dependency>"
KEPT = Path(__file__).parents[2] / "build" / f"kafka-{KAFKA.rsplit(':', maxsplit=1)[-1]}"
"""The broker's jars, so that Maven is asked once per checkout."""
JAVA = ("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A broker that starts in few seconds of processor time; it only passes bytes on."""
ALONE = f"<exclusions><exclusion>{NAME.format('*', '*')}</exclusion></exclusions>"


class MissingError(Exception):
    """Something needed is not available here; the message says what."""


def jars_of(folder: Path, *artifacts: str, alone: bool = False) -> list[Path]:
    """The jars of artifacts and, by default, of their run-time dependencies."""
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingError("no Maven client (mvn)")
    folder.mkdir(parents=True)
    more = ALONE if alone else ""
    wanted = "".join(DEPENDENCY.format(*artifact.split(":"), more) for artifact in artifacts)
    (folder / "pom.xml").write_text(POM.format(wanted))
    command = [
        maven,
        "-q",
        "-B",
        "dependency:copy-dependencies",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={folder / 'jars'}",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = sorted((folder / "jars").glob("*.jar"))
    if done.returncode or not found:
        raise MissingError(f"Maven could not get {', '.join(artifacts)}: {done.stdout[-300:]}")
    return found


def connectors(spark: str) -> list[str]:
    """The jars that a session needs to read and write Kafka and Avro, in addition to Spark's own.

    They are named one by one, because a connector asks for a token provider of its own version,
    which Maven does not always have. If no versions were tried with this Spark, Spark's version is
    used.
    """
    tried = TRIED.get(".".join(spark.split(".")[:2]), {})
    own = [f"org.apache.spark:{name}:{tried.get(name, spark)}" for name in CONNECTORS]
    return [*own, CLIENTS, POOL]


def _broker_jars() -> list[Path]:
    if not KEPT.is_dir():
        KEPT.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT.parent) as fresh:
            jars_of(Path(fresh) / "kafka", KAFKA)
            with contextlib.suppress(OSError):  # another process was faster
                (Path(fresh) / "kafka" / "jars").rename(KEPT)
    return sorted(KEPT.glob("*.jar"))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


class Broker:
    """A broker on loopback with its own class path; ``stop`` ends it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = ":".join(str(jar) for jar in _broker_jars())
        self.address = f"127.0.0.1:{free_port()}"
        self.process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Start it, unless it runs."""
        if self.process is None and (self.folder / "log").exists():
            self.resume()
        elif self.process is None:
            self.start()

    def start(self) -> str:
        own = free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{own}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{own}",
            "log.dirs": str(self.folder / "log"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "server.properties"
        config.write_text("\n".join(f"{name}={value}" for name, value in settings.items()))
        java = [*JAVA, "-cp", self.path]
        identity = "c2t5YmFuZC10ZXN0cy0xMg"
        subprocess.run(
            [*java, "kafka.tools.StorageTool", "format", "-t", identity, "-c", str(config)],
            check=True,
            capture_output=True,
        )
        return self.resume()

    def resume(self) -> str:
        """Start it, again if it was stopped."""
        java = [*JAVA, "-cp", self.path]
        with (self.folder / "broker.log").open("ab") as log:
            command = [*java, "kafka.Kafka", str(self.folder / "server.properties")]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        host, port = self.address.split(":")
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex((host, int(port))) == 0:
                    return self.address
            if self.process.poll() is not None:
                break
            time.sleep(0.2)
        raise AssertionError((self.folder / "broker.log").read_text()[-2000:])

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Let the broker send nothing for a while, although its connections stay open."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)  # until then it may still answer
        try:
            yield
        finally:
            os.kill(self.process.pid, signal.SIGCONT)
