"""Queries on a cluster, against the embedded engine: on_cluster.py MASTER FOLDER [ARCHIVE].

All queries, with the package shipped in the archive; without one, two queries with the package that
is installed, and an executor is killed in the middle of a batch of the stream.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import oracle
from skyband import registry
from skyband.embedded import run as local
from support import conformance, spark_cases, spark_session, streams


def main(master: str, folder: Path, archive: str = "") -> None:
    from skyband.spark import rank

    settings = {
        "spark.executor.memory": "1g",
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
        "spark.executor.extraJavaOptions": spark_session.java_options(),
    }
    shipped = {"spark.submit.pyFiles": archive} if archive else {}
    session = spark_session.local_session(master, **settings, **shipped)
    home = session.range(0, 2, 1, 2).mapInArrow(where, "path string, host string").collect()
    assert all(archive.rsplit("/", 1)[-1] in row.path for row in home), home
    assert len({row.host for row in home}) == 2, "both workers must take part"
    window = oracle.TimeWindow(30, 10, lateness=5)
    for kind in registry.kinds() if archive else ("SkylineJoin",):
        chosen = dict(conformance.SETTINGS[kind][0])
        stream = conformance.long_stream(kind, chosen, window, "uniform")
        pushes = spark_cases.pushes_of(stream, chosen)
        query = spark_cases.query_of(kind, window, chosen, stream)
        tables: dict[str, list[pa.Table]] = {}
        for push in pushes:
            for source, table in push.items() if isinstance(push, dict) else [("", push)]:
                tables.setdefault(source, []).append(table)
        whole = {source: pa.concat_tables(many) for source, many in tables.items()}
        frames = {source: session.createDataFrame(table) for source, table in whole.items()}
        want = local.rank(whole if set(whole) != {""} else whole[""], query)
        assert want.num_rows > 10, kind
        for shards in (None, 2) if archive else (2,):
            given = frames if set(frames) != {""} else frames[""]
            got = rank(given, query, shards=shards).toArrow()
            problem = oracle.difference(
                streams.rows_of(got), streams.rows_of(want), oracle.SUMS[kind]
            )
            assert problem is None, f"{kind}: {problem}"
        print(f"{kind}: {want.num_rows} rows, equal", flush=True)
    stream = conformance.long_stream("TopK", {}, window, "uniform")
    pushes = spark_cases.pushes_of(stream, {})
    query = spark_cases.query_of("TopK", window, conformance.SETTINGS["TopK"][2], stream)
    some = pushes[:4] if archive else [pa.concat_tables(pushes[:2]), pa.concat_tables(pushes[2:4])]
    frame = spark_session.stream_of(session, folder / "in", some)
    hit = threading.Event()
    if not archive:
        threading.Thread(target=kill_an_executor, args=(folder, hit), daemon=True).start()
    got, _ = spark_session.collect(rank(frame, query, shards=2), folder)
    assert archive or hit.is_set(), "no executor was killed"
    want, _ = spark_session.embedded(query, some)
    assert spark_session.rows(got) == spark_session.rows(want)
    print("TopK, streaming: equal", flush=True)
    session.stop()


def kill_an_executor(folder: Path, done: threading.Event) -> None:
    """Kill an executor shortly after a batch was planned, and so while it runs."""
    offsets = folder / "checkpoint" / "offsets"
    while not (offsets / "0").exists():
        time.sleep(0.02)
    time.sleep(0.2)
    for pid in executors():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            done.set()
            return


def executors() -> list[int]:
    """The executors on this machine that belong to this process."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if b"CoarseGrainedExecutorBackend" in command and below(int(entry.name)):
                found.append(int(entry.name))
    return found


def below(pid: int) -> bool:
    """Whether a process descends from this one."""
    while pid > 1:
        pid = int((Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[1])
        if pid == os.getpid():
            return True
    return False


def where(batches: Iterator[Any]) -> Iterator[Any]:
    """Where a worker found the package, and which worker it was."""
    import skyband

    for _ in batches:
        time.sleep(2)  # long enough for the other executor to take the other row
    path, host = str(skyband.__file__), str(os.getppid())
    yield pa.record_batch([pa.array([path]), pa.array([host])], names=["path", "host"])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
