"""A streaming job in a process of its own, made to be killed: python faulty.py FOLDER [ROUND]."""

from __future__ import annotations

import sys
from pathlib import Path

import clusters
import skyband as sb

WINDOW = sb.TimeWindow(30, slide=7, lateness=5)
QUERY = sb.TopK(k=3, score="score", id="id", time="ts", by=("g",), window=WINDOW)


def main(folder: Path) -> None:
    from skyband.spark import rank

    # A task that lost its worker is tried again, as on a cluster.
    session = clusters.local_session(master="local[2,4]")
    schema = session.read.parquet(str(folder / "in")).schema
    frame = clusters.read_stream(session, folder / "in", schema)
    writer = rank(frame, QUERY).writeStream.format("parquet").outputMode("append")
    writer = writer.option("path", str(folder / "out"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    clusters.run_out(writer.start)
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
