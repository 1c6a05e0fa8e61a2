"""A Kafka broker of its own for benchmarks, started as the tests do it (Java, Maven)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["broker", "connectors", "send"]

_AT_ONCE = 50_000  # the producer's queue holds 100,000


def _support() -> Any:
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    try:
        return import_module("support.kafka_broker")
    finally:
        sys.path.pop(0)


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """The address of a broker that runs meanwhile; raises if none can be started."""
    import_module("confluent_kafka")
    running = _support().Broker(folder)
    try:
        yield running.start()
    finally:
        running.stop()


def connectors(folder: Path, spark: str) -> list[str]:
    """The jars with which a version of Spark reads Kafka."""
    support = _support()
    return [str(jar) for jar in support.jars_of(folder, *support.connectors(spark), alone=True)]


def send(servers: str, topic: str, texts: Iterable[bytes]) -> None:
    """Write records into a topic."""
    producer: Any = import_module("confluent_kafka").Producer(
        {"bootstrap.servers": servers, "linger.ms": 50}
    )
    for i, text in enumerate(texts):
        producer.produce(topic, text)
        if i % _AT_ONCE == 0:
            producer.flush(60)
    producer.flush(120)
