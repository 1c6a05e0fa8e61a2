"""``skyband serve``: a job's answers in the browser, and the demo's."""

from __future__ import annotations

import os
import sys
import time
import webbrowser
from collections.abc import Iterator, Mapping
from itertools import chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skyband.cli.explain import Engine, say
from skyband.errors import QueryError, SkybandError
from skyband.query import HeavyHitters, Query, Skyline, TopK
from skyband.window import TimeWindow

if TYPE_CHECKING:
    import pyarrow as pa

_STEP = 0.5
"""Seconds between two batches of the demo."""


def serve(
    job: Annotated[
        Path | None, typer.Argument(help="A job file, JOB.toml; see docs/serve.md.")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Show a generated stream of network flows.")
    ] = False,
    engine: Annotated[
        Engine | None, typer.Option(help="Run on this engine instead of the one in the file.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.")] = 8470,
    name: Annotated[
        list[str] | None, typer.Option(help="Another host name at which the page is reached.")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the demo's stream.")] = 7,
) -> None:
    """Run a job and show its answers in a browser; rows can also be posted to it."""
    from skyband.jobs import load_job
    from skyband.kernels.notice import say_in_any_case
    from skyband.serve import serving as run

    if not 0 <= port <= 65_535:
        raise QueryError(f"--port must be from 0 to 65535, not {port}")
    if demo == (job is not None):
        raise QueryError("give a job file, or --demo")

    def started(address: str) -> None:
        _told(address)
        if open_ and (sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY")):
            webbrowser.open(address)

    run.require_packages()
    say_in_any_case()
    if job is not None:
        parsed = load_job(job, engine.value if engine else None, default="local")
        run.serve_job(parsed, host, port, tuple(name or ()), started)
        return
    say("Demo: flows of a network, generated as it runs. Press Ctrl-C to stop.")
    stream = demo_stream(seed)
    first = next(stream)
    batches = chain([first], stream)
    run.serve_stream("demo", demo_board(), first.schema, batches, host, port, started)


def _told(address: str) -> None:
    print(f"skyband serve: {address}", flush=True)


def serve_verb(title: str, query: Query, source: Any, given: Mapping[str, Any]) -> None:
    """Show the answers of a query over files or standard input, until it is interrupted."""
    from skyband.embedded.monitor import new_board
    from skyband.embedded.run import watch_board
    from skyband.serve import serving as run
    from skyband.serve.page import Page

    run.require_packages()
    board = new_board(query, given["on_bad"].value)
    read = [0]
    answers = islice(watch_board(board, source, read.append), given["limit"])
    first = next(answers, None)  # the columns are known now
    if first is None:
        raise QueryError("there is no answer to serve: the source has too few rows")

    def show(shown: Page) -> None:
        try:
            for answer in chain([first], answers):
                shown.show([answer])
                shown.stats = {title: board.stats()}
                shown.first_bad = {title: board.session_of(None).first_bad}
                shown.status.counted(next(iter(shown.status.rows)), read[-1])
                del read[:-1]
                time.sleep(given["pace"])
            shown.status.finished = True
        except SkybandError as problem:
            shown.status.stopped(f"the source stopped: {problem}")

    run.serve_answers(
        title, query, board.session_of(None).bound, show, port=given["serve_port"], started=_told
    )


def serve_spark(title: str, query: Query, source: Any, given: Mapping[str, Any]) -> None:
    """Show the answers of a query that Spark has computed over files, until it is interrupted."""
    from skyband.cli.with_spark import rank_on_spark
    from skyband.serve import serving as run
    from skyband.serve.on_spark import windows_of
    from skyband.serve.page import Page

    run.require_packages()
    schemas: dict[str, pa.Schema] = {}
    on_bad = given["on_bad"].value
    table = rank_on_spark(query, source, given["master"], on_bad, schemas=schemas)
    if not table.num_rows:
        raise QueryError("there is no answer to serve: the source has too few rows")

    def show(shown: Page) -> None:
        counts = dict(shown.stats[title])
        for answer in windows_of(title, query, table):
            shown.show([answer])
            counts["windows_out"] += 1
            shown.stats = {title: dict(counts)}
            time.sleep(given["pace"])
        shown.status.finished = True

    port = given["serve_port"]
    run.serve_answers(title, query, schemas, show, port=port, started=_told, engine="spark")


def demo_board() -> dict[str, Query]:
    """The queries of the demo: a ranking, groups, a skyline."""
    window = TimeWindow("10 s", slide="1 s")
    return {
        "hosts by bytes": HeavyHitters(k=10, item="host", weight="bytes", time="ts", window=window),
        "largest flows": TopK(k=8, score="bytes", id="flow", time="ts", window=window),
        "fast and large": Skyline(
            prefer={"ms": "min", "bytes": "max"}, id="flow", time="ts", window=window
        ),
        "hosts by service": HeavyHitters(
            k=6, item="host", weight="bytes", time="ts", by=("service",), window=window
        ),
    }


def demo_stream(seed: int = 7, per_step: int = 1_500, past: float = 20.0) -> Iterator[pa.Table]:
    """The demo's flows, with the times at which they are handed out and how long they took.

    It begins ``past`` seconds ago and catches up at once, so that there is something to see.
    """
    import numpy as np
    import pyarrow as pa

    from skyband.cli.flows import flow_batches

    due, pause = time.time() - past, _STEP
    for lap in count():
        for number, batch in enumerate(flow_batches(2_000, per_step, seed + lap)):
            rng = np.random.default_rng((seed, lap, number))
            rows = batch.num_rows
            end = int(due * 1e6)
            moments = end - int(pause * 1e6) + np.sort(rng.integers(0, int(pause * 1e6), rows))
            size = batch["bytes"].to_numpy()
            took = 0.4 * size**0.55 * rng.lognormal(0, 0.9, rows)
            columns = {
                "ts": pa.array(moments).view(pa.timestamp("us", tz="UTC")),
                "flow": batch["flow"],
                "host": batch["host"],
                "service": batch["service"],
                "bytes": batch["bytes"],
                "ms": np.round(took, 1),
            }
            time.sleep(max(0.0, due - time.time()))
            yield pa.table(columns)
            due += pause
