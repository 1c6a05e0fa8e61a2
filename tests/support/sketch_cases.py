"""Streams that are hard for the sketches of HeavyHitters, and queries with small sketches."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

import skyband as sb
from skyband import registry
from support import conformance, streams


def small(algorithm: str, k: int, capacity: int, window: Any, table: pa.Table, **more: Any) -> Any:
    given = {"capacity": capacity, "cells": 2 * capacity}
    taken = registry.takes("HeavyHitters", algorithm)
    sizes = {name: size for name, size in given.items() if name in taken} | more
    if algorithm in ("fsw-r", "fsw-f"):
        sizes["ratio"] = 2
    if algorithm == "fsw-f":
        sizes["filter_bits"] = 16
    return sb.HeavyHitters(
        k=k, item="item", time="ts", window=conformance.window_of(window, table),
        algorithm=algorithm, **sizes,
    )  # fmt: skip


def made(items: list[str], ts: list[int], weights: list[int] | None = None) -> streams.Stream:
    """A stream of these items, pushed in batches of odd sizes."""
    rng = random.Random(len(items))
    rows = [
        {"ts": time, "item": item, "weight": 1 if weights is None else weights[i]}
        for i, (item, time) in enumerate(zip(items, ts, strict=True))
    ]
    schema = {"ts": pa.int64(), "item": pa.string(), "weight": pa.int64()}
    return streams.from_rows(rows, schema, streams.random_cuts(len(rows), rng, 7))


def adversarial() -> dict[str, streams.Stream]:
    rng = random.Random(3)
    n = 1500
    steady = [i // 10 for i in range(n)]
    zipf = [f"i{min(int(rng.paretovariate(0.7)), 400)}" for _ in range(n)]
    burst = ["hot" if 400 <= i < 1000 else f"i{i}" for i in range(n)]
    drift = [f"i{i // 40 + min(int(rng.expovariate(0.5)), 9)}" for i in range(n)]
    back = [f"i{rng.randrange(6)}" if i % 600 < 100 else f"x{i}" for i in range(n)]
    once = [f"x{i}" if i < 300 else f"i{i % 4}" for i in range(n)]
    silent = [i // 10 + (0 if i < 700 else 400) for i in range(n)]
    return {
        "all distinct": made([f"i{i}" for i in range(n)], steady),
        "one item": made(["same"] * n, steady),
        "zipf": made(zipf, steady),
        "drift": made(drift, steady),
        "burst longer than a window": made(burst, steady),
        "items that return": made(back, steady),
        "overflow in one pane only": made(once, steady),
        "silent panes": made(zipf, silent),
        "weights": made(zipf, steady, [rng.choice((0, 1, 1, 7, 1000)) for _ in range(n)]),
    }


STREAMS = adversarial()
