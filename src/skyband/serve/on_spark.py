"""A job on Spark as a page shows it: answers from its ``foreachBatch``, status from its reports.

    Spark ──► foreachBatch ──► sinks ──► ``wrote`` ──► history ──► page
         └──► listener ──► report ──► ``reported`` ──► status line

A batch that Spark repeats is shown once: the windows of a query end in order, so those up to the
newest one that is kept were shown before.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.answers.tables import last_revisions
from skyband.data.ipc import table_from, table_to_bytes
from skyband.errors import EngineError, QueryError, SkybandError
from skyband.jobs import Job
from skyband.jobs.report import Report
from skyband.jobs.stopping import Stop
from skyband.jobs.world import MACHINE
from skyband.query import Query
from skyband.query.base import REVISION
from skyband.serve.page import Page
from skyband.serve.payload import SparkWindow, text_of
from skyband.serve.status import ReportedStatus, Schemas
from skyband.spark.plan import PROMISE, QueryPlan
from skyband.spark.sessions import require_packages

log = logging.getLogger("skyband.serve")


class SparkPage(Page):
    """The answers and the status of a job on Spark."""

    status: ReportedStatus

    def __init__(self, job: Job, schemas: Schemas, folder: Path) -> None:
        super().__init__(job.queries, schemas, folder, job.on_bad, job.history, cards=job.cards)
        self.title = job.name
        self.folder = folder
        self.number = self.history.last
        self.status = ReportedStatus(self.queries, self.schemas)
        self.status.files = all(each.kind == "files" for each in job.sources.values())
        self.stats = {job.name: _counts(Report(-1, 0))}
        self._last = {name: self._load(name) for name in job.queries}
        """The last answer of each query, in which what moved since is looked up."""

    def wrote(self, query: str, table: pa.Table) -> None:
        """Show the windows of a batch that were not shown before."""
        windows = list(self._windows(query, table))
        if windows:
            self.show(windows)
            self.history.write()
            before, newest = self._last[query], max(windows, key=lambda window: window.end)
            if before is None or newest.end > before["window_end"][0].as_py():
                self._last[query] = newest.table
                MACHINE.write_whole(self._path(query), table_to_bytes(newest.table))

    def reported(self, report: Report) -> None:
        """Show what a job has told after a batch."""
        self.stats = {self.title: _counts(report)}
        self.status.reported(report)

    def _windows(self, name: str, table: pa.Table) -> Iterator[SparkWindow]:
        kept = self.history.newest(name, self.history.most)
        shown = {event.end: event.revision for event in kept if event.revision is not None}
        return windows_of(name, self.queries[name], table, self._last[name], shown)

    def _path(self, query: str) -> Path:
        return self.folder / f"last-{list(self.queries).index(query)}"

    def _load(self, query: str) -> pa.Table | None:
        path = self._path(query)
        table = table_from(path.read_bytes()) if path.exists() else None
        names = self.columns(query).names
        return table if table is not None and table.column_names == names else None


def windows_of(
    name: str,
    query: Query,
    table: pa.Table,
    before: pa.Table | None = None,
    shown: Mapping[str, int] | None = None,
) -> Iterator[SparkWindow]:
    """The answers in rows from Spark, in order, from the one after ``before`` on.

    Where windows may be corrected, ``shown`` has the revision of each end that was shown. What a
    correction has changed is not known here.
    """
    revises = query.window.revise_ticks is not None
    table = last_revisions(table) if revises and table.num_rows else table
    by = ["window_end", *query.groups, *(["rank"] if query.ranked else [])]
    order = pc.sort_indices(table, [(column, "ascending") for column in by])
    table = table.take(order)
    promised = set(PROMISE.names) <= set(table.column_names)
    for end in table["window_end"].unique():
        rows = table.filter(pc.equal(table["window_end"], end))
        revision = pc.max(rows[REVISION]).as_py() if revises else 0
        earlier = before is not None and end.as_py() <= before["window_end"][0].as_py()
        if earlier and not (revises and revision > (shown or {}).get(text_of(end.as_py()), -1)):
            continue
        exact, bounds = None, {}
        if promised:
            exact = pc.all(rows["exact"]).as_py()
            bounds = _greatest(rows["bounds"])
            rows = rows.drop_columns(PROMISE.names)
        yield SparkWindow(name, query, rows, rows if earlier else before, exact, bounds, revision)
        before = before if earlier else rows


def _greatest(bounds: pa.ChunkedArray) -> dict[str, float]:
    """The greatest of each bound over the groups of a window."""
    greatest: dict[str, float] = {}
    for each in bounds.to_pylist():
        for name, value in each:
            greatest[name] = max(value, greatest.get(name, -np.inf))
    return greatest


def _counts(report: Report) -> dict[str, int | float]:
    return {
        "rows_in": report.rows,
        "rows_late": report.late or 0,
        "rows_bad": report.bad or 0,
        "windows_out": report.windows,
        "state_bytes": report.state_bytes or 0,
    }


# Running ------------------------------------------------------------------------------------------


def check_shown(job: Job) -> None:
    """Raise QueryError for a job on Spark whose answers cannot be shown."""
    for name in job.queries:
        if job.changes_of(name):
            raise QueryError(
                f"{job.where_sink(name)} takes changes, so that Spark sends no whole answers to "
                "show; leave out changes, or use --engine local"
            )


class _Following:
    """Makes what is shown as soon as the columns of the sources are known."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job, self.folder = job, folder
        self.shown: SparkPage | None = None
        self.failure: BaseException | None = None
        self.known = threading.Event()
        """Set once there is something to show, or a failure."""

    def started(self, plans: Mapping[str, QueryPlan]) -> None:
        if self.shown is None:
            schemas: dict[str, dict[str, pa.Field]] = {}
            for plan in plans.values():
                for source, schema in plan.schemas.items():
                    schemas.setdefault(source, {}).update({each.name: each for each in schema})
            whole = {source: pa.schema(list(each.values())) for source, each in schemas.items()}
            self.folder.mkdir(parents=True, exist_ok=True)
            self.shown = SparkPage(self.job, whole, self.folder)
            self.known.set()

    def wrote(self, query: str, table: pa.Table) -> None:
        assert self.shown is not None
        self.shown.wrote(query, table)

    def reported(self, report: Report) -> None:
        assert self.shown is not None
        self.shown.reported(report)

    def run(self, session: Any, stop: Stop) -> None:
        """Run the job; what ends it is shown too."""
        from skyband.jobs.spark.run_job import run

        try:
            run(self.job, session, self.reported, None, False, self, stop)
        except Exception as problem:  # noqa: BLE001  (the page shows it)
            self.failure = problem
            if self.shown is not None:
                self.shown.failure = str(problem)
            log.error("the job on Spark stopped: %s", problem)
        else:
            if self.shown is not None:
                self.shown.status.finished = True
        finally:
            self.known.set()


@contextmanager
def on_spark(job: Job, folder: Path, session: Any = None) -> Iterator[SparkPage]:
    """Run a job on Spark in a thread, and give what is shown of it; stops the job at the end."""
    require_packages()
    check_shown(job)
    following, stop = _Following(job, folder), Stop()
    thread = threading.Thread(target=following.run, args=(session, stop), name="skyband-job")
    thread.start()
    try:
        following.known.wait()
        if following.shown is None:
            problem = following.failure
            if isinstance(problem, SkybandError):
                raise problem
            raise EngineError(f"the job {job.name!r} could not be started: {problem}")
        yield following.shown
    finally:
        stop.ask()
        thread.join()
