"""Jobs between topics, JSON and Avro, in a session with connectors: with_kafka.py SETTINGS."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from skyband.jobs import parse_job, run_job
from support import spark_session

AVRO = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "ts", "type": "long"},
        {"name": "id", "type": "string"},
        {"name": "score", "type": "double"},
    ],
}
SCHEMA = "ts bigint, id string, score double"


def job(settings: dict[str, Any], topic: str, folder: Path, **source: Any) -> dict[str, Any]:
    servers = settings["servers"]
    return {
        "name": topic,
        "checkpoint": str(folder / f"state-{topic}"),
        "source": {"kind": "kafka", "servers": servers, "topic": topic, **source},
        "query": {
            "kind": "TopK",
            "k": 2,
            "score": "score",
            "id": "id",
            "time": "ts",
            "window": {"size": 20, "slide": 10},
        },
        "sink": {"kind": "kafka", "servers": servers, "topic": f"{topic}-out", "key": "id"},
        "dead_letters": {
            "kind": "kafka",
            "servers": servers,
            "topic": f"{topic}-bad",
            "writer": "spark",
        },
        "trigger": {"once": True},
    }


def read(session: Any, servers: str, topic: str) -> list[Any]:
    reader = session.read.format("kafka").option("kafka.bootstrap.servers", servers)
    rows = reader.option("subscribe", topic).load().selectExpr("CAST(value AS STRING) AS value")
    return [json.loads(row.value) for row in rows.collect()]


def main(settings: dict[str, Any]) -> None:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.avro.functions import to_avro

    folder, servers = Path(settings["folder"]), settings["servers"]
    session = spark_session.local_session(**{"spark.jars": ",".join(settings["jars"])})
    table = pa.table(
        {
            "ts": list(range(1_000, 1_100)),
            "id": [f"i{n}" for n in range(100)],
            "score": [float(n * 7 % 31) for n in range(100)],
        }
    )
    rows = session.createDataFrame(table)
    schema = folder / "row.avsc"
    schema.write_text(json.dumps(AVRO))
    whole = F.struct("ts", "id", "score")
    bad = session.createDataFrame([(b"{oops",)], "value binary")
    sent = {
        "json": rows.select(F.to_json(whole).cast("binary").alias("value")).union(bad),
        "avro": rows.select(to_avro(whole, schema.read_text()).alias("value")).union(bad),
    }
    how: dict[str, dict[str, Any]] = {
        "json": {"schema": SCHEMA},
        "avro": {"format": "avro", "avro_schema": str(schema)},
    }
    parsed = {name: parse_job(job(settings, name, folder, **how[name])) for name in sent}
    for name, frame in sent.items():
        writer = frame.write.format("kafka").option("kafka.bootstrap.servers", servers)
        writer.option("topic", name).save()
        run_job(parsed[name], session)
        run_job(parsed[name], session)  # there is nothing new, so no window is written twice
        want, _ = spark_session.embedded(parsed[name].queries[parsed[name].name], [table])
        got = read(session, servers, f"{name}-out")
        key = lambda row: (row["window_end"], row["rank"])  # noqa: E731
        assert got, name
        assert sorted(got, key=key) == sorted(want.to_pylist(), key=key), name
        letters = read(session, servers, f"{name}-bad")
        (letter,) = letters
        assert (letter["topic"], letter["partition"]) == (name, 0), letter
        assert 0 <= letter["offset"] <= 100, letter
        assert letter["record"] == "{oops", letter
        print(f"{name}: {len(got)} rows and a dead letter", flush=True)
    session.stop()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
