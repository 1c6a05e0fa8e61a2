"""A running job in the terminal: in place on a terminal, otherwise one line per batch."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from skyband.answers.plain_text import plain
from skyband.cli.view import add_columns, span
from skyband.jobs import Job
from skyband.jobs.job import JobSection
from skyband.jobs.report import Report, Tell, figures, report_line
from skyband.query import Query

_EDGES = ("window_start", "window_end")


def as_shown(job: Job) -> Job:
    """The job as it is run here: on a terminal, its live view takes the place of console sinks."""
    if not (sys.stdout.isatty() and Console(stderr=True).is_terminal):
        return job
    silent = JobSection("console", {"rows": 0})
    sinks = {n: silent if sink.kind == "console" else sink for n, sink in job.sinks.items()}
    return replace(job, sinks=sinks)


@contextmanager
def telling(job: Job) -> Iterator[Tell]:
    """A function to call with every report of a job."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda report: console.print(Text(report_line(report)), soft_wrap=True)
        return
    # While Spark starts, this process has no error stream; the view moves on in a copy of it.
    with os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8") as copy:
        console = Console(file=copy, highlight=False)
        with Live(_waiting(job), console=console, refresh_per_second=4) as live:
            size = console.size
            yield lambda report: live.update(job_frame(job, report, *size[::-1]), refresh=True)


def _waiting(job: Job) -> Progress:
    """What is shown until the first batch has ended: that something happens, and for how long."""
    first = "the first batch" if job.engine == "local" else "Spark and its first batch, about 20 s"
    shown = Progress(SpinnerColumn(), TextColumn("[dim]{task.description}"), TimeElapsedColumn())
    shown.add_task(f"{escape(job.name)}: waiting for {first}", total=None)
    return shown


def job_frame(job: Job, report: Report, height: int, width: int = 1_000) -> Group:
    """One frame of the live view: the figures, and the last answer of each query."""
    engine = "this process" if job.engine == "local" else "Spark"
    head = Text.assemble(
        (f" {job.name} ", "bold reverse"), (f"  on {engine}, batch {report.batch}", "dim")
    )
    each = max(3, (height - 6) // max(1, len(report.answers)) - 6)
    answers = report.answers.items()
    tables = [_answer(name, table, job.queries[name], each, width) for name, table in answers]
    none = [] if tables else [Text("no window has ended yet", style="dim")]
    return Group(head, Text(), _figures(report), Text(), *none, *tables)


def _figures(report: Report) -> Table:
    """The figures in two lines, which fit a terminal of 80 columns."""
    values = figures(report)
    grid = Table.grid(padding=(0, 1))
    for _ in range(0, len(values), 2):
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(justify="right", no_wrap=True)
        grid.add_column()
    for line in (list(values)[::2], list(values)[1::2]):
        grid.add_row(*(Text(cell) for name in line for cell in (name, values[name], "")))
    return grid


def _answer(name: str, answer: pa.Table, query: Query, rows: int, width: int) -> Group:
    """The title stands by itself: that of a table would be broken at the table's width."""
    first = answer.slice(0, 1).to_pylist()[0]
    title = f"{name}  {span(first['window_start'], first['window_end'])}"
    drawn = Table(
        header_style="dim",
        border_style="dim",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        caption_justify="left",
    )
    names = [name for name in answer.column_names if name not in _EDGES]
    cells = {n: [plain(value) for value in answer[n].slice(0, rows).to_pylist()] for n in names}
    fit, _ = add_columns(drawn, cells, answer.schema, query, width)
    for row in zip(*(cells[column] for column in fit), strict=True):
        drawn.add_row(*map(Text, row))
    hidden = answer.num_rows - rows
    left_out = [name for name in names if name not in fit]
    remarks = [f"{hidden} more not shown"] * (hidden > 0)
    remarks += [f"no room for {', '.join(left_out)}"] * bool(left_out)
    drawn.caption = Text(" · ".join(remarks), style="dim") if remarks else None
    return Group(Text(title, style="bold", no_wrap=True), drawn)
