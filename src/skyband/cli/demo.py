"""The demo: a live ranking of the largest flows in a generated network stream."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from skyband.cli.choices import Format
from skyband.cli.explain import explained
from skyband.query import HeavyHitters, Query, TopK
from skyband.window import TimeWindow

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.answers.answer import Answer

__all__ = ["add_demo"]

STEPS = 66
PER_STEP = 20_000
SECONDS = 13.0
SIDE_BY_SIDE = 154
"""The terminal width from which two tables are shown side by side."""

_WINDOW = TimeWindow("5 minutes", slide="30 seconds")
_SAVED = "flows.parquet"


def add_demo(app: typer.Typer) -> None:
    """Add the demo to an app."""
    app.command("demo")(explained(demo))


def demo(
    seconds: Annotated[float, typer.Option(help="How long the demo runs.", min=0)] = SECONDS,
    seed: Annotated[int, typer.Option(help="Seed of the generated stream.")] = 7,
    save: Annotated[
        Path | None, typer.Option(help="Write the stream to a Parquet file instead of showing it.")
    ] = None,
) -> None:
    """Watch a live ranking over a generated stream of network flows."""
    if save is not None:
        _save(save, seed)
        return
    from skyband.cli.view import answer_line

    console = Console(highlight=False)
    show = _Show(console)
    show.warm_up()
    terminal = console.is_terminal
    pause = seconds / STEPS if terminal else 0.0
    live = Live(console=console, auto_refresh=False) if terminal else nullcontext()
    with live as view:
        due = time.perf_counter()
        for number, answers in enumerate(show.steps(seed)):
            if view is not None:
                view.update(show.frame(answers, console.height), refresh=True)
            elif number % 6 == 5:  # changes are since the window before, which is not shown
                title, answer = next(iter(answers.items()))
                line = answer_line(answer, show.queries[title], changes=False)
                console.print(Text(line), soft_wrap=True)
            due += pause
            time.sleep(max(0.0, due - time.perf_counter()))
    _farewell(console, show)


class _Show:
    """Runs the demo's queries over its stream and measures the time they take."""

    def __init__(self, console: Console) -> None:
        self.queries: dict[str, Query] = {
            "Largest flows of the last five minutes": TopK(
                k=10, score="bytes", id="flow", time="ts", window=_WINDOW
            ),
            "Hosts that moved most bytes": HeavyHitters(
                k=10, item="host", weight="bytes", time="ts", window=_WINDOW
            ),
        }
        self.console = console
        self.rows = 0
        self.busy = 0.0

    def warm_up(self) -> None:
        """Compile the kernels before time is measured; later runs use the cache."""
        from skyband.cli.flows import flow_batches
        from skyband.embedded.monitor import Monitor
        from skyband.kernels.patient import hurry

        hurry()
        for query in self.queries.values():
            monitor = Monitor(query)
            for batch in flow_batches(12, 10):
                for answer in monitor.push(batch):
                    answer.changes  # noqa: B018  (computed when asked for)

    def steps(self, seed: int) -> Iterator[dict[str, Answer]]:
        """After every batch of the stream, yield the latest answer of each query."""
        from skyband.embedded.monitor import Monitor
        from skyband.kernels.notice import clock

        monitors = {title: Monitor(query) for title, query in self.queries.items()}
        latest: dict[str, Answer] = {}
        for batch in _stream(seed):
            began = clock()
            for title, monitor in monitors.items():
                answers = monitor.push(batch)
                if answers:
                    latest[title] = answers[-1]
            self.busy += clock() - began
            self.rows += batch.num_rows
            if latest:
                yield latest

    def frame(self, answers: dict[str, Answer], height: int) -> Group:
        """One frame of the live view."""
        from skyband.cli.view import answer_table, span

        wide = self.console.width >= SIDE_BY_SIDE
        first = next(iter(answers.values()))
        rows = min(10, max(3, height - 12))
        tables = [
            answer_table(answer, self.queries[title], title=title, rows=rows)
            for title, answer in answers.items()
        ]
        grid = Table.grid(padding=(0, 2))
        if wide:
            grid.add_row(*tables)
        else:
            # Narrow terminals show the tables below each other, as many as fit.
            for table in tables[: max(1, (height - 4) // (rows + 6))]:
                grid.add_row(table)
        head = Text.assemble(
            (" skyband ", "bold reverse"),
            "  ",
            (span(first.start, first.end), "bold"),
            ("   answered every 30 seconds of the stream", "dim"),
        )
        return Group(head, Text(), grid, Text(self.cost(), style="dim"))

    def cost(self) -> str:
        """How many rows were processed, and how long it took."""
        rate = self.rows / self.busy / 1e6 if self.busy else 0.0
        return (
            f"{self.rows:,} flows through {len(self.queries)} queries in {self.busy * 1e3:,.0f} ms "
            f"of engine time ({rate:,.1f} M rows/s, this process, one thread)"
        )


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


def _farewell(console: Console, show: _Show) -> None:
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
            "find the hosts that moved most bytes",
            f"{me} heavy-hitters {_SAVED} -k 5 --item host --weight bytes {query}",
        ),
        ("list all verbs", f"{me} --help"),
    ]
    if not console.is_terminal:
        console.print(Text(show.cost()), soft_wrap=True)
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
