"""Streaming jobs in a separate process, meant to be killed: python faulty.py FOLDER SHAPE...

The jobs of several shapes run side by side, each with its own sink and checkpoint, so that one kill
hits all of them. They end when they have read everything; with ``SKYBAND_TEST_STAYS`` they wait for
more.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import skyband as sb
from support import spark_session, streams

WINDOW = sb.TimeWindow(30, slide=7, lateness=5)
QUERY = sb.TopK(k=3, score="score", id="id", time="ts", by=("g",), window=WINDOW)
OFTEN = sb.HeavyHitters(k=2, item="id", time="ts", window=WINDOW)
JOIN = sb.SkylineJoin(
    left="trades",
    right="risks",
    on="stock",
    prefer={"price": "min", "risk": "min"},
    time="ts",
    window=WINDOW,
)


@dataclass(frozen=True)
class Shape:
    """A query, or a board of several, and how it is run."""

    query: sb.Query = QUERY
    shards: int | None = None
    changes: bool = False
    board: Mapping[str, sb.Query] | None = None

    def folders(self, folder: Path) -> dict[str, Path]:
        return {name: folder / f"in-{name or 'flows'}" for name in self.query.sources or ("",)}


SHAPES = {
    "one": Shape(),
    "shards": Shape(shards=3),
    "changes": Shape(changes=True),
    "sharded-changes": Shape(shards=2, changes=True),
    "join": Shape(JOIN),
    "board": Shape(board={"best": QUERY, "often": OFTEN}),
}


def flows(batches: int) -> list[pa.Table]:
    made = streams.stream(
        5, 40 * batches, lateness=30, step=3, gap=40, batches=batches, groups=4, start=1_000
    )
    return made.batches


def sides(batches: int) -> list[dict[str, pa.Table]]:
    """The same number of pushes of trades and of risks, with some late rows."""
    made = streams.two_sides(5, 20 * batches, lateness=30)
    late = {name: side.table for name, side in made.items()}
    modern = {
        name: table.set_column(0, "ts", pc.add(table["ts"], 1_000)) for name, table in late.items()
    }
    return [
        {name: table.slice(20 * n, 20) for name, table in modern.items()} for n in range(batches)
    ]


def pushes(shape: Shape, batches: int) -> list[Any]:
    return sides(batches) if shape.query.sources else flows(batches)


def batches_run(checkpoint: Path, made: list[Any]) -> list[Any]:
    """The files of each batch as the query ran them: a kill can make Spark take two at once."""
    logs = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    upto = [[log_offset(line) + 1 for line in path.read_text().splitlines()[2:]] for path in logs]
    found = []
    for before, after in pairwise([[0] * len(upto[0]), *upto]):
        if not isinstance(made[0], dict):
            files = made[before[0] : after[0]]
            found += [pa.concat_tables(files)] if files else []
            continue
        parts = {
            name: [push[name] for push in made[a:b]]
            for name, a, b in zip(made[0], before, after, strict=True)
        }
        push = {name: pa.concat_tables(files) for name, files in parts.items() if files}
        found += [push] if push else []
    return found


def log_offset(line: str) -> int:
    """The last file that a source has given; a dash stands for none."""
    return -1 if line == "-" else int(json.loads(line)["logOffset"])


def write_inputs(folder: Path, shapes: list[str], batches: int) -> None:
    add_inputs(folder, shapes, batches, 0, batches)


def add_inputs(folder: Path, shapes: list[str], batches: int, start: int, stop: int) -> None:
    """Write the batches from ``start`` to ``stop`` of a stream of so many batches."""
    folders = {}
    for name in shapes:
        for source, path in SHAPES[name].folders(folder).items():
            made = pushes(SHAPES[name], batches)[start:stop]
            folders[path] = [push[source] if source else push for push in made]
    for path, tables in folders.items():
        spark_session.write_batches(path, tables, start)


def start(session: Any, folder: Path, name: str) -> Any:
    from skyband.spark import rank

    shape = SHAPES[name]
    frames = {
        source: spark_session.read_stream(session, path, session.read.parquet(str(path)).schema)
        for source, path in shape.folders(folder).items()
    }
    asked = shape.board or shape.query
    answers = rank(frames.get("", frames), asked, shards=shape.shards, changes=shape.changes)
    writer = answers.writeStream.format("parquet").outputMode("append")
    writer = writer.option("path", str(folder / "out" / name))
    return writer.option("checkpointLocation", str(folder / "checkpoint" / name)).start()


def main(folder: Path, shapes: list[str]) -> None:
    # A task that lost its worker is retried, as on a cluster.
    master = os.environ.get("SKYBAND_TEST_MASTER", "local[2,4]")
    cluster = {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": spark_session.java_options(),
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "spark.task.maxFailures": "20",
        **spark_session.WARM,
    }
    session = spark_session.local_session(master, **({} if master.startswith("local") else cluster))
    alone = Lock()

    def begun(name: str) -> Any:
        # One after another: Spark gives a worker ten seconds to start, however many start at once.
        with alone:
            query = start(session, folder, name)
            while query.isActive and query.lastProgress is None:
                if query.status["message"] == "Waiting for data to arrive":
                    break
                time.sleep(0.1)
            return query

    stays = "SKYBAND_TEST_STAYS" in os.environ

    def run(name: str) -> None:
        spark_session.run_out(lambda: begun(name), attempts=20, stays=stays)

    with ThreadPoolExecutor(len(shapes)) as pool:
        list(pool.map(run, shapes))
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
