"""Separate streams that report objects, with a tunable correlation between the streams.

This is the generator of the fused paper's section 6: every stream reports an object at most once.
With probability ``correlation``, a new report is about an object that another stream reported
recently, otherwise about a new object. Values are uniform in [0, 1].
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.datasets.real import real
from skyband.window import parse_duration

__all__ = ["cache_clients", "cache_datasets", "correlated_reports", "shared_objects"]


def correlated_reports(
    rows: int,
    *,
    streams: int = 2,
    correlation: float = 0.5,
    recent: int = 1000,
    seed: int = 0,
) -> pa.Table:
    """Reports of objects on several streams: ``seq``, ``object``, ``stream``, ``value``.

    ``recent`` is how many of a stream's latest reports the other streams pick from. Streams are
    named ``s0``, ``s1``, ...

    >>> correlated_reports(4, seed=3).column_names
    ['seq', 'object', 'stream', 'value']
    """
    rng = np.random.default_rng(seed)
    stream = rng.integers(0, streams, rows)
    values = rng.random(rows)
    picks = rng.random(rows) < correlation
    others = rng.integers(1, max(streams, 2), rows)
    places = rng.integers(0, recent, rows)
    last = [[-1] * recent for _ in range(streams)]
    counts = [0] * streams
    where: dict[int, int] = {}
    """For each object, one bit per stream that has reported it."""
    objects = np.empty(rows, np.int64)
    fresh = 0
    for row, (s, pick, other, place) in enumerate(
        zip(stream.tolist(), picks.tolist(), others.tolist(), places.tolist(), strict=True)
    ):
        item = -1
        if pick and streams > 1:
            item = last[(s + other) % streams][place]
            if item >= 0 and where[item] >> s & 1:
                item = -1
        if item < 0:
            item, fresh = fresh, fresh + 1
        objects[row] = item
        where[item] = where.get(item, 0) | 1 << s
        last[s][counts[s] % recent] = item
        counts[s] += 1
    # The order of ids must not follow the order of appearance.
    names = rng.permutation(fresh)
    return pa.table({
        "seq": np.arange(rows),
        "object": names[objects],
        "stream": pa.DictionaryArray.from_arrays(
            pa.array(stream.astype(np.int32)), [f"s{i}" for i in range(streams)]
        ),
        "value": values,
    })  # fmt: skip


def cache_clients(streams: int = 2, chunk: str = "5 s", rows: int | None = None) -> pa.Table:
    """Bytes that clients read from the busiest cache sites, summed per chunk of time (real data).

    As the paper does with WorldCup98: a site is a stream, a report is what one client read there
    in one chunk, and a client that reports again in a stream counts as a new object. The columns
    are those of ``correlated_reports``; ``value`` is relative to the 99th percentile of bytes, and
    at most 1.
    """
    log = real("osdf_access_log", ["ts", "client_id", "site", "bytes_read"])
    log = log.filter(pc.is_valid(log["client_id"]))
    site = log["site"].cast(pa.string())
    counts = sorted(pc.value_counts(site).to_pylist(), key=lambda each: -each["counts"])
    names = [each["values"] for each in counts[:streams]]
    number = pc.index_in(site, pa.array(names))
    log = log.append_column("stream", number).filter(pc.is_valid(number))
    moment = pc.divide(log["ts"].cast(pa.int64()), parse_duration(chunk, "chunk"))
    reports = (
        log.append_column("chunk", moment)
        .group_by(["chunk", "stream", "client_id"], use_threads=False)
        .aggregate([("bytes_read", "sum")])
        .sort_by([("chunk", "ascending"), ("client_id", "ascending"), ("stream", "ascending")])
    )
    reports = reports if rows is None else reports.slice(0, rows)
    stream = reports["stream"].to_numpy()
    client = reports["client_id"].to_numpy().astype(np.int64)
    pair = client * streams + stream
    order = np.argsort(pair, kind="stable")
    ranked = pair[order]
    first = np.append(True, ranked[1:] != ranked[:-1])
    starts = np.maximum.accumulate(np.where(first, np.arange(len(pair)), 0))
    turn = np.empty(len(pair), np.int64)
    turn[order] = np.arange(len(pair)) - starts
    size = reports["bytes_read_sum"].to_numpy().astype(np.float64)
    return pa.table({
        "seq": np.arange(len(pair)),
        "object": client + turn * 1_000_000,
        "stream": pa.DictionaryArray.from_arrays(
            pa.array(stream.astype(np.int32)), [f"s{i}" for i in range(streams)]
        ),
        "value": np.minimum(size / np.quantile(size, 0.99), 1.0),
    })  # fmt: skip


_SITES = (
    "NCAR_NRP_CACHE_OSDF",
    "NY-Kubernetes-PRP",
    "MGHPCC_NRP_OSDF_CACHE",
    "BOISE_INTERNET2_OSDF_CACHE",
)
"""Cache sites that serve the same data sets: nearly half of their objects are common to two."""


def cache_datasets(streams: int = 2, rows: int | None = None) -> pa.Table:
    """Bytes of a data set that cache sites served within an hour (real data).

    A site is a stream. An object is a data set and an hour: each site reports it once, when it has
    read the last of it in that hour. So streams share objects, as cars pass several cameras. The
    columns are those of ``correlated_reports``; ``value`` is on a logarithmic scale from 1 byte (0)
    to the 99th percentile (1), since single hours differ by many orders of magnitude.
    """
    log = real("osdf_access_log", ["ts", "site", "dataset", "bytes_read"])
    number = pc.index_in(log["site"].cast(pa.string()), pa.array(_SITES[:streams]))
    log = log.append_column("stream", number).filter(pc.is_valid(number))
    ticks = log["ts"].cast(pa.int64())
    log = log.set_column(0, "ts", ticks)
    log = log.append_column("hour", pc.divide(ticks, parse_duration("1 hour", "bucket")))
    log = log.set_column(2, "dataset", log["dataset"].cast(pa.string()))
    reports = (
        log.group_by(["stream", "dataset", "hour"], use_threads=False)
        .aggregate([("bytes_read", "sum"), ("ts", "max")])
        .sort_by([("ts_max", "ascending"), ("stream", "ascending"), ("dataset", "ascending")])
    )
    reports = reports if rows is None else reports.slice(0, rows)
    names = reports["dataset"].combine_chunks().dictionary_encode().indices.to_numpy()
    size = np.log(np.maximum(reports["bytes_read_sum"].to_numpy().astype(np.float64), 1.0))
    return pa.table({
        "seq": np.arange(len(names)),
        "object": names.astype(np.int64) * 1_000_000 + reports["hour"].to_numpy() % 1_000_000,
        "stream": pa.DictionaryArray.from_arrays(
            pa.array(reports["stream"].to_numpy().astype(np.int32)),
            [f"s{i}" for i in range(streams)],
        ),
        "value": np.minimum(size / np.quantile(size, 0.99), 1.0),
    })  # fmt: skip


def shared_objects(reports: pa.Table) -> float:
    """The share of objects that more than one stream reports, in %."""
    stream = reports["stream"].combine_chunks().indices.to_numpy()
    pairs = np.unique(np.stack([reports["object"].to_numpy(), stream]), axis=1)
    counts = np.unique(pairs[0], return_counts=True)[1]
    return 100 * float((counts > 1).mean())
