"""Generates network flows of an office and its servers, with heavy tails, floods and drift.

A row is a finished flow: its end time, name, host, service and number of bytes. Sizes have Pareto
tails, so that a few flows carry most of the traffic. The activity of each host follows its own slow
wave, and now and then one host floods the network for some minutes.

    ts                   flow                       host       service  bytes
    2026-01-05 08:00:00  laptop-7 → video #12       laptop-7   video    48,211,008
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.arrays import Ints

START = datetime(2026, 1, 5, 8, tzinfo=UTC)
STEP = 30
"""Seconds of events in one batch."""

_ROLES = {"laptop": 60, "phone": 40, "camera": 12, "web": 10, "db": 6, "backup": 3, "printer": 4}
_HOSTS = [f"{role}-{number}" for role, count in _ROLES.items() for number in range(1, count + 1)]
_SERVICES = {  # share of the flows, least bytes, exponent of the tail (smaller means heavier)
    "dns": (0.34, 80, 3.0),
    "https": (0.42, 1_500, 1.3),
    "mail": (0.08, 4_000, 1.4),
    "video": (0.06, 60_000, 1.4),
    "ssh": (0.05, 900, 1.5),
    "sync": (0.04, 20_000, 1.25),
    "backup": (0.01, 400_000, 1.5),
}
_LARGEST = 40e9
_FLOODS = [("laptop", "video"), ("laptop", "sync"), ("camera", "video"), ("phone", "https")]
_FLOODS += [("web", "https"), ("db", "sync"), ("backup", "backup")]
_FLOOD_STEPS = (3, 12)
_FLOOD_EVERY = 4
_FLOOD_SHARE = 0.01
_FLOOD_SIZE = 6.0


def flows(rows: int = 1_000_000, minutes: int = 60, seed: int = 7) -> pa.Table:
    """About ``rows`` flows, spread over ``minutes``, in order of time.

    >>> flows(rows=1_000, minutes=10).column_names
    ['ts', 'flow', 'host', 'service', 'bytes']
    """
    steps = max(1, minutes * 60 // STEP)
    return pa.concat_tables(flow_batches(steps, max(1, rows // steps), seed)).combine_chunks()


def flow_batches(steps: int, per_step: int, seed: int = 7) -> Iterator[pa.Table]:
    """The same stream in batches: ``steps`` batches of 30 seconds with ``per_step`` flows each.

    >>> first, second = flow_batches(2, 500)
    >>> first.num_rows, first["ts"][-1].as_py() < second["ts"][0].as_py()
    (500, True)
    """
    rng = np.random.default_rng(seed)
    weight = 1.0 / np.arange(1, len(_HOSTS) + 1) ** 0.7
    rng.shuffle(weight)
    phase = rng.uniform(0, 2 * np.pi, len(_HOSTS))
    period = rng.uniform(20, 90, len(_HOSTS))
    floods = _floods(steps, rng)
    for step in range(steps):
        wave = np.exp(1.2 * np.sin(2 * np.pi * step / period + phase))
        yield _batch(step, per_step, weight * wave, floods, np.random.default_rng((seed, step)))


def _floods(steps: int, rng: np.random.Generator) -> list[tuple[int, int, int, int]]:
    """First step, end, host and service of each flood."""
    floods = []
    for _ in range(max(1, steps // _FLOOD_EVERY)):
        role, service = _FLOODS[int(rng.integers(len(_FLOODS)))]
        host = f"{role}-{rng.integers(1, _ROLES[role] + 1)}"
        start = int(rng.integers(0, steps))
        end = start + int(rng.integers(*_FLOOD_STEPS))
        floods.append((start, end, _HOSTS.index(host), list(_SERVICES).index(service)))
    return floods


def _batch(
    step: int,
    rows: int,
    weight: npt.NDArray[np.floating],
    floods: list[tuple[int, int, int, int]],
    rng: np.random.Generator,
) -> pa.Table:
    share, least, tail = (np.array(column) for column in zip(*_SERVICES.values(), strict=True))
    host = rng.choice(len(_HOSTS), rows, p=weight / weight.sum())
    service = rng.choice(len(_SERVICES), rows, p=share / share.sum())
    factor = np.ones(rows)
    for start, end, who, what in floods:
        if start <= step < end:
            taken = rng.random(rows) < _FLOOD_SHARE
            host[taken], service[taken], factor[taken] = who, what, _FLOOD_SIZE
    size = least[service] * factor * (1 - rng.random(rows)) ** (-1 / tail[service])
    begin = int(START.timestamp()) * 1_000_000
    moment = begin + np.sort(
        rng.integers(step * STEP * 1_000_000, (step + 1) * STEP * 1_000_000, rows)
    )
    hosts = _named(host, _HOSTS)
    services = _named(service, list(_SERVICES))
    number = pa.array(step * rows + np.arange(rows)).cast(pa.string())
    label = pc.binary_join_element_wise(hosts, services, " → ")
    return pa.table(
        {
            "ts": pa.array(moment).view(pa.timestamp("us", tz="UTC")),
            "flow": pc.binary_join_element_wise(label, number, " #"),
            "host": hosts,
            "service": services,
            "bytes": np.minimum(size, _LARGEST).astype(np.int64),
        }
    )


def _named(numbers: Ints, names: list[str]) -> pa.Array:
    return pa.array(names).take(pa.array(numbers))
