"""Queries of the Nexmark suite: beside DuckDB, and events per second and core beside Flink.

The first table has queries 5 (hot items) and 7 (highest bids) over bids in memory. DuckDB counts
panes of 2 seconds and adds up five of them per window (query 5); then it joins what has the
greatest count, or price, of each window, which is faster than to rank. It has two threads, as ours
has. The answers are compared before anything is timed.

The second table has queries 5, 7, 18 and 19, and query 5 with a window every 0.1 s, from an Arrow
table, a Parquet file and JSON in Kafka, in this process and on Spark. It shows events per second of
processor time, without and with the generator; a person or an auction, of which there are 4 beside
46 bids, counts as an event, as in the suite, but is neither generated nor read here. The broker's
time is not counted, Spark's start neither. The figures of Flink are those that the suite
published: Flink 1.13, 100 million events, all of them generated (0.155 M events per second and core
alone, in query 0), eight task managers with RocksDB, checkpoints every 3 minutes, and answers in a
sink that drops them. Queries 18 and 19 give each change there, and here one answer at the end.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import skyband as sb
from lab.bench import Progress, compared
from lab.bench.kafka import broker, connectors, send
from lab.datasets.nexmark import EVENTS_PER_BID, QUERIES, STATEMENTS, bids, records
from skyband.jobs import parse_job, run_job

ROWS = 10_000_000
SUITE_ROWS = 5_000_000
RECORDS = 2_000_000
THREADS = 2
GROUP = "Thousand events per second and core"
FLINK = {"q5": 22.14, "q7": 12.33, "q18": 53.7, "q19": 44.04}
"""As published by the suite."""
HOT = sb.HeavyHitters(
    k=1, item="auction", time="ts", window=sb.TimeWindow("10 s", slide="2 s"), ties="all"
)
HIGHEST = sb.TopK(
    k=1, score="price", time="ts", keep=("auction",), window=sb.TimeWindow("10 s"), ties="all"
)
HOT_SQL = """
    with panes as (
        select epoch_us(ts) // 2000000 as pane, auction, count(*) as n from rows_in group by all
    ), windows as (
        select pane + step as last, auction, sum(n) as n
        from panes, unnest(range(5)) as steps(step)
        where pane + step <= (select max(pane) from panes) group by all
    ), most as (select last, max(n) as n from windows group by all)
    select last, auction, n from windows join most using (last, n) order by last"""
HIGHEST_SQL = """
    with most as (
        select epoch_us(ts) // 10000000 as last, max(price) as n from rows_in group by all
    )
    select last, auction, n from rows_in join most
    on last = epoch_us(ts) // 10000000 and n = price order by last"""
SCHEMA = (
    "auction bigint, bidder bigint, price bigint, channel string, url string, date_time bigint, "
    "extra string"
)


def run(scale: float, progress: Progress) -> list[dict[str, Any]]:
    rows = max(20_000, int(ROWS * scale))
    table = bids(rows)
    connection = duckdb.connect(config={"threads": THREADS})
    connection.register("rows_in", table)
    found = []
    for case, query, text, shown in (
        ("query 5, hot items", HOT, HOT_SQL, "count"),
        ("query 7, highest bid", HIGHEST, HIGHEST_SQL, "price"),
    ):
        progress(case)
        _check(table, query, connection, text, shown)
        work = {
            "skyband": lambda query=query: sb.rank(table, query, threads=THREADS),
            "duckdb": lambda text=text: connection.sql(text).to_arrow_table(),
        }
        found.append(compared({"case": case}, dict.fromkeys(work, rows), work))
    return [*found, *_suite(scale, progress)]


def _check(
    table: pa.Table, query: sb.Query, connection: duckdb.DuckDBPyConnection, text: str, shown: str
) -> None:
    """Raise AssertionError unless both give the same rows of each window."""
    ours = sb.rank(table, query)
    theirs = connection.sql(text).to_arrow_table()
    mine = sorted(zip(ours["auction"].to_pylist(), ours[shown].to_pylist(), strict=True))
    names = zip(theirs["auction"].to_pylist(), theirs["n"].to_pylist(), strict=True)
    if mine != sorted((auction, int(n)) for auction, n in names):
        raise AssertionError(f"{query.kind} and DuckDB disagree")


# Events per second and core -----------------------------------------------------------------------


def _suite(scale: float, progress: Progress) -> Iterator[dict[str, Any]]:
    rows, sent = (max(20_000, int(each * scale)) for each in (SUITE_ROWS, RECORDS))
    began = time.process_time()
    table = records(rows)
    made = (time.process_time() - began) / rows
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="skyband-")))
        bid_file = folder / "bids.parquet"
        pq.write_table(table, bid_file, row_group_size=1_000_000)
        servers, why, written = "", "", 0.0
        try:
            progress("a broker, and bids as JSON")
            servers = stack.enter_context(broker(folder / "kafka"))
            began = time.process_time()
            send(servers, "bids", (json.dumps(row).encode() for row in _rows_of(table, sent)))
            written = (time.process_time() - began) / sent
        except Exception as problem:  # noqa: BLE001  (no broker, so nothing is read from it)
            why = str(problem)
        session = _session(folder, servers, stack) if find_spec("pyspark") else None
        for name in QUERIES:
            job = partial(_run_job, folder, name, servers, session)
            runs = {
                ("Arrow", "embedded"): partial(sb.sql, STATEMENTS[name], bid=table),
                ("Parquet", "embedded"): partial(sb.sql, STATEMENTS[name], bid=bid_file),
                ("Parquet", "Spark"): partial(_on_spark, session, name, str(bid_file)),
                ("JSON in Kafka", "embedded"): partial(job, "local"),
                ("JSON in Kafka", "Spark"): partial(job, "spark"),
            }
            for (source, engine), once in runs.items():
                if (engine == "Spark" and session is None) or ("Kafka" in source and not servers):
                    continue
                progress(f"{name}, {source}, {engine}")
                count = sent if "Kafka" in source else rows
                before = (made + (written if "Kafka" in source else 0.0)) * count
                taken = _processor_time(once, _spent if engine == "Spark" else time.process_time)
                events = count * EVENTS_PER_BID / 1e3
                yield {
                    "group": GROUP,
                    "case": name,
                    "from": source,
                    "engine": engine,
                    "bids": count,
                    "without generator": events / taken,
                    "with generator": events / (taken + before),
                    "Flink 1.13, as published": FLINK.get(name.partition(",")[0]),
                }
        if not servers:
            yield {"group": GROUP, "case": f"no Kafka: {why}"}


def _rows_of(table: pa.Table, count: int) -> Iterator[dict[str, Any]]:
    for batch in table.slice(0, count).to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


def _processor_time(once: Callable[[], Any], spent: Callable[[], float]) -> float:
    """The seconds of processor time of a second run."""
    once()  # compiles what is not cached yet
    began = spent()
    once()
    return spent() - began


def _spent() -> float:
    """The processor time so far of this process and all that it started."""
    parents: dict[int, list[int]] = {}
    own: dict[int, float] = {}
    for each in Path("/proc").iterdir():
        if not each.name.isdigit():
            continue
        try:
            fields = (each / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        parents.setdefault(int(fields[1]), []).append(int(each.name))
        own[int(each.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    found, left = 0.0, [os.getpid()]
    while left:
        process = left.pop()
        found += own.get(process, 0.0)
        left += parents.get(process, [])
    return found


def _run_job(folder: Path, name: str, servers: str, session: Any, engine: str) -> None:
    """Answer a query over all records of the topic, by a job with a state of its own."""
    query = QUERIES[name]
    settings = {n: v for n, v in query.spec().items() if v not in (None, [], {}) and n != "window"}
    plain: Any = query.window
    window = {"slide": plain.slide or plain.size}
    window |= {"since": "first"} if isinstance(plain, sb.LandmarkWindow) else {"size": plain.size}
    source = {"kind": "kafka", "servers": servers, "topic": "bids", "starting": "earliest"}
    own = Path(tempfile.mkdtemp(dir=folder))
    told = {
        "name": "nexmark",
        "engine": engine,
        "checkpoint": str(own / "state"),
        "source": source | {"schema": SCHEMA},
        "query": settings | {"window": window},
        "sink": {"kind": "files", "path": str(own / "out")},
        "trigger": {"once": True, "close": True},
    }
    run_job(parse_job(told), session if engine == "spark" else None)


def _session(folder: Path, servers: str, stack: ExitStack) -> Any:
    import pyspark

    from skyband.spark import session

    jars = connectors(folder / "jars", pyspark.__version__) if servers else []
    settings = {"spark.log.level": "ERROR", "spark.ui.enabled": "false"}
    settings["spark.driver.memory"] = "3g"
    settings |= {"spark.jars": ",".join(jars)} if jars else {}
    made = session(
        f"local[{THREADS}]", "nexmark", **settings, **{"spark.sql.shuffle.partitions": 2}
    )
    stack.callback(made.stop)
    return made


def _on_spark(session: Any, name: str, path: str) -> None:
    from skyband.spark import files, sql

    whole = "(TABLE" not in STATEMENTS[name]
    frame = session.read.parquet(path) if whole else files(session, path, streaming=False)
    sql(session, STATEMENTS[name], bid=frame).write.format("noop").mode("overwrite").save()
