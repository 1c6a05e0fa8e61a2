"""``skyband warm``: compile all kernels once, for images and clusters.

Kernels are compiled when a query first has enough rows, which takes seconds, and kept in a cache on
disk. This verb runs small streams through every algorithm, so that the cache is full afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skyband import query as queries
from skyband import registry
from skyband.cli.explain import say
from skyband.cli.fields import verb_of
from skyband.errors import QueryError
from skyband.query import Query
from skyband.window import CountWindow, TimeWindow

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 4_000
_STREAMS = ("a", "b")
_COMMON: dict[str, dict[str, Any]] = {
    "TopK": {"k": 5},
    "HeavyHitters": {"k": 5},
    "UncertainTopK": {"k": 5, "score": "score", "probability": "p", "id": "id"},
    "FusedTopK": {"k": 5, "id": "object", "stream": "stream", "value": "p", "streams": _STREAMS},
    "Skyline": {"prefer": {"score": "max", "p": "min"}, "id": "id"},
    "SkylineJoin": {"left": "left", "right": "right", "on": "item", "prefer": {}},
}
_VARIANTS: dict[str, list[dict[str, Any]]] = {
    "TopK": [{"score": "score", "id": "id"}, {"score": "whole", "id": "text"}],
    "HeavyHitters": [{"item": "item"}, {"item": "text"}, {"item": "text", "weight": "score"}],
}
_OWN: dict[str, dict[str, Any]] = {
    "pabf": {"epsilon": 1.0},
    "skyband-distinct": {"distinct": "best"},
    "skyband-ties": {"ties": "all"},
    "distinct-ties": {"ties": "all", "distinct": "best"},
    "latest": {"distinct": "latest"},
    "eaa-repeats": {"repeats": "max"},
}
_SKETCHES = ("ss", "fss", "fsp", "fsw", "fsw-r", "fsw-f")
_SIDES = {"score": "max", "p": "min"}


def warm(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[VERB]...", help="Queries to compile for, such as topk. Default: all."
        ),
    ] = None,
) -> None:
    """Compile everything in advance, so that no query has to wait for the compiler."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from skyband.kernels.jit import cache_folder
    from skyband.kernels.notice import say_nothing
    from skyband.kernels.patient import hurry

    chosen = list(cases(names or ()))
    hurry()
    say_nothing()
    began = time.perf_counter()
    table = _table()
    console = Console(stderr=True)
    text = TextColumn("compiling {task.description}")
    columns = (text, BarColumn(), TextColumn("{task.completed}/{task.total}"), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=len(chosen))
        for name, query in chosen:
            bar.update(task, description=name)
            _run(query, table)
            bar.advance(task)
    if not names:
        _read_some_records()
    folder = cache_folder()
    kept = f"kept in {folder}" if folder else "not kept, because no cache folder can be written to"
    say(f"{len(chosen)} queries compiled in {time.perf_counter() - began:.0f} s, {kept}")


def cases(names: tuple[str, ...] | list[str]) -> Iterator[tuple[str, Query]]:
    """Small queries that use every algorithm, over time and count windows, with and without by."""
    verbs = {verb_of(kind): kind for kind in queries.KINDS.values()}
    for name in names:
        if name not in verbs:
            raise QueryError(
                f"there is no query {name!r} to compile; choose from {', '.join(verbs)}"
            )
    for verb, kind in verbs.items():
        if names and verb not in names:
            continue
        for algorithm in registry.algorithms(kind.kind):
            for variant in _VARIANTS.get(kind.kind, [{}]):
                yield from _of(verb, kind, algorithm, variant)


def _of(
    verb: str, kind: type[Query], algorithm: str, variant: dict[str, Any]
) -> Iterator[tuple[str, Query]]:
    settings = _COMMON[kind.kind] | variant | _OWN.get(algorithm, {}) | {"algorithm": algorithm}
    if algorithm in _SKETCHES:
        settings["capacity"] = 64
    windows = [TimeWindow("10 minutes", slide="1 minute"), TimeWindow("10 minutes")]
    choices: list[dict[str, Any]]
    if kind.kind == "SkylineJoin":
        prefer = {f"{side}_{n}": how for side in ("left", "right") for n, how in _SIDES.items()}
        choices = [{"window": window, "prefer": prefer} for window in windows]
    else:
        every = (*windows, CountWindow(1_000, slide=100))
        choices = [{"window": window, "by": by} for window in every for by in ((), ("group",))]
    for choice in choices:
        with suppress(QueryError):  # not every algorithm takes every setting
            yield f"{verb} {algorithm}", kind(**settings | choice, time="ts")


def _read_some_records() -> None:
    """Read JSON records that are written alike, as jobs do."""
    import pyarrow as pa

    from skyband.data.json_records import read_records
    from skyband.data.record_layout import FEW

    read_records(pa.array([b'{"n": 1}'] * FEW, pa.binary()), pa.schema([("n", pa.int64())]))


def _run(query: Query, table: pa.Table) -> None:
    """Push a stream in two parts, so that panes are combined too, and peek where that works."""
    from skyband.embedded.monitor import Monitor
    from skyband.errors import EngineError

    monitor = Monitor(query, on_bad="skip", threads=1)
    half = table.num_rows // 2
    for part in (table.slice(0, half), table.slice(half)):
        monitor.push(dict.fromkeys(query.sources, part) if query.needs_mapping else part)
    with suppress(EngineError):  # mintopk keeps too little for it
        monitor.peek()
    monitor.flush()


def _table() -> pa.Table:
    """An hour of rows with the columns that the queries read."""
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(0)
    item = rng.zipf(1.3, _ROWS) % 500
    times = np.sort(rng.integers(0, 3_600_000_000, _ROWS))
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "id": np.arange(_ROWS),
            "object": item,
            "item": item,
            "text": pa.array([f"item {i}" for i in item]),
            "stream": pa.array([_STREAMS[i % 2] for i in range(_ROWS)]),
            "group": rng.integers(0, 8, _ROWS),
            "score": rng.random(_ROWS),
            "whole": rng.integers(0, 1_000, _ROWS),
            "p": rng.uniform(0.05, 0.95, _ROWS),
        }
    )
