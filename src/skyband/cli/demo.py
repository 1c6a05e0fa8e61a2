"""The demo: a live ranking of the largest flows in a generated network stream."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from skyband.cli.explain import Format
from skyband.query import HeavyHitters, Query, TopK
from skyband.window import TimeWindow

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.answers.answer import Answer

STEPS = 66
PER_STEP = 20_000
SECONDS = 13.0

_WINDOW = TimeWindow("5 minutes", slide="30 seconds")
_SAVED = "flows.parquet"
QUERIES: dict[str, Query] = {
    "Largest flows of the last five minutes": TopK(
        k=10, score="bytes", id="flow", time="ts", window=_WINDOW
    ),
    "Hosts that moved the most bytes": HeavyHitters(
        k=10, item="host", weight="bytes", time="ts", window=_WINDOW
    ),
}


def demo(
    seconds: Annotated[
        float, typer.Option(help="How many seconds the demo runs.", min=0)
    ] = SECONDS,
    seed: Annotated[int, typer.Option(help="Seed of the generated stream.")] = 7,
    save: Annotated[
        Path | None, typer.Option(help="Write the stream to a Parquet file instead of showing it.")
    ] = None,
) -> None:
    """Watch a live ranking over a generated stream of network flows."""
    if save is not None:
        _save(save, seed)
        return
    from skyband.cli.view import watch_live

    _warm_up()
    console, busy = Console(highlight=False), [0.0]
    answers = _answers(seed, busy)
    if not console.is_terminal:
        answers = islice(answers, 0, None, 6 * len(QUERIES) - 1)  # of both queries in turn
    watch_live(answers, QUERIES, seconds / STEPS / len(QUERIES))
    rows = (STEPS + 1) * PER_STEP
    console.print(
        f"{rows:,} flows through {len(QUERIES)} queries in {busy[0] * 1e3:,.0f} ms of engine time "
        f"({rows / busy[0] / 1e6:,.1f} M rows/s, this process, one thread)",
        style="dim",
        soft_wrap=True,
    )
    _farewell(console)


def _warm_up() -> None:
    """Compile the kernels before time is measured; later runs use the cache."""
    from skyband.cli.flows import flow_batches
    from skyband.embedded.monitor import Monitor
    from skyband.kernels.patient import hurry

    hurry()
    monitor = Monitor(QUERIES)
    for batch in flow_batches(12, 10):
        for answer in monitor.push(batch):
            answer.changes  # noqa: B018  (computed when asked for)


def _answers(seed: int, busy: list[float]) -> Iterator[Answer]:
    """The answers of the queries over the stream; adds up the seconds that they take."""
    from skyband.embedded.monitor import Monitor
    from skyband.kernels.notice import clock

    monitor = Monitor(QUERIES)
    for batch in _stream(seed):
        began = clock()
        answers = monitor.push(batch)
        busy[0] += clock() - began
        yield from answers


def _stream(seed: int) -> Iterator[pa.Table]:
    """The demo's stream: the first batch ends no window, every later one does."""
    from skyband.cli.flows import flow_batches

    return flow_batches(STEPS + 1, PER_STEP, seed)


def _save(path: Path, seed: int) -> None:
    from skyband.cli.explain import say
    from skyband.cli.output import writer

    with writer(Format.parquet, path) as out:
        for batch in _stream(seed):
            out.write(batch)
    say(f"{out.rows:,} flows written to {path}")


def _farewell(console: Console) -> None:
    """Print what to try next, as commands ready to be copied."""
    me = _command()
    query = "--time ts --window 5m --slide 30s"
    top = f"{me} topk {_SAVED} -k 5 --score bytes --id flow {query}"
    tries = [
        ("keep this stream as a file", f"{me} demo --save {_SAVED}"),
        ("rank it", top),
        ("rank each service separately, into a file", f"{top} --by service -o top.csv"),
        ("watch it live", f"{top} --watch"),
        (
            "find the hosts that moved the most bytes",
            f"{me} heavy-hitters {_SAVED} -k 5 --item host --weight bytes {query}",
        ),
        ("list all verbs", f"{me} --help"),
    ]
    console.print()
    console.print(Text("Try next:", style="bold"))
    for what, command in tries:
        console.print(Text(f"  # {what}", style="dim"))
        console.print(Text(f"  {command}", style="cyan"), soft_wrap=True)


def _command() -> str:
    """The command that starts this program from the current folder."""
    if shutil.which("skyband"):
        return "skyband"
    here, python = Path.cwd(), Path(sys.executable)
    shown = python.relative_to(here) if python.is_relative_to(here) else python
    return f"{shown} -m skyband"
