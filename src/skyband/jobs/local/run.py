"""Runs a job in this process: read a batch, enter it, answer, write, and save the state.

take a batch ─► enter it in the checkpoint ─► push ─► each sink ─► dead letters ─► snapshot, if due
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from skyband.answers.answer import Answer
from skyband.answers.changes import Kinds
from skyband.data.letters import refuse
from skyband.embedded.monitor import Monitor
from skyband.errors import EngineError
from skyband.jobs.job import Job
from skyband.jobs.limits import row_limits
from skyband.jobs.local.checkpoint import Batch, Checkpoint
from skyband.jobs.local.letters import Letters
from skyband.jobs.local.source import Place
from skyband.jobs.local.sources import make_source
from skyband.jobs.report import Report, changed_lines
from skyband.jobs.rows import Sink, TableRows, written
from skyband.jobs.sinks import sink_of
from skyband.jobs.stopping import Stop
from skyband.window import CountWindow, parse_duration

__all__ = ["LocalJob", "Progress", "rows_for", "run_local"]

log = logging.getLogger("skyband.jobs")

_SAVE_EVERY = 10.0
"""Seconds between snapshots."""
_SAVE_SHARE = 20
"""A snapshot waits for so many times what the last one took: at most a twentieth of the time."""
_LOOK = 0.1
"""Seconds between looks at the sources when they have nothing new."""


@dataclass
class Progress:
    """What a job has done since it was started."""

    batches: int = 0
    rows: int = 0
    windows: int = 0
    saves: int = 0
    saving: float = 0.0
    """Seconds spent on snapshots."""
    unread: int = 0
    """Records that could not be read."""
    late: int = 0
    """Late rows, and below bad ones: of several queries, those of the query that has most."""
    bad: int = 0
    state_bytes: int = 0
    replayed: int = 0
    """Batches that were read once more after a crash."""
    began: float = field(default_factory=time.monotonic)
    newest: dict[str, Answer] = field(default_factory=dict)
    """The last answer of each query that has rows."""

    def report(self) -> Report:
        """The same for those who look at the job."""
        rate = self.rows / max(time.monotonic() - self.began, 1e-9)
        answers = {name: answer.table for name, answer in self.newest.items()}
        return Report(
            self.batches - 1,
            self.rows + self.unread,
            rate,
            late=self.late,
            bad=self.bad + self.unread,
            windows=self.windows,
            state_bytes=self.state_bytes,
            answers=answers,
        )


def run_local(
    job: Job, told: Callable[[Progress], None] | None = None, seconds: float | None = None
) -> Progress:
    """Run a job until it ends, is interrupted, or has run for some seconds.

    Answers already written stay valid.
    """
    with Stop() as stop:
        running = LocalJob(job)
        stop.listen()
        stop.after(seconds)
        try:
            for progress in running.steps(stop.asked):
                if told is not None:
                    told(progress)
        finally:
            running.close()
    return running.progress


class LocalJob:
    """A job in this process."""

    def __init__(self, job: Job) -> None:
        self.job = job
        fingerprints = {name: query.fingerprint for name, query in job.queries.items()}
        self.checkpoint = Checkpoint(job.checkpoint, job.name, fingerprints, job.reads, job.columns)
        self.sources = {
            name: make_source(name, section, self.checkpoint.folder)
            for name, section in job.sources.items()
        }
        self.sinks: dict[str, Sink[TableRows]] = {name: sink_of(job, name) for name in job.sinks}
        self.limits = row_limits(job, self.sinks)
        self.letters = Letters(job, self.limits)
        self.progress = Progress()
        self.places: dict[str, Place] = {name: each.first for name, each in self.sources.items()}
        self.batch = -1
        self.monitor = Monitor(job.asked, on_bad=job.on_bad)
        self._saved, self._cost = time.monotonic(), 0.0
        for name, source in self.sources.items():
            source.asked(partial(self._needed, name), self._time(name))
        self._resume()
        counts = self._stats().values()
        self.late, self.bad = (
            max(int(each[what]) for each in counts) for what in ("rows_late", "rows_bad")
        )
        """Late and bad rows of earlier starts."""

    # Running -----------------------------------------------------------------------------------

    def steps(self, stopped: Callable[[], bool]) -> Generator[Progress, None, None]:
        """Work batch by batch until all is read, or until ``stopped``."""
        for sink in self.sinks.values():
            sink.open(self.checkpoint.run)
        self.letters.open(self.checkpoint.run)
        for batch in self.checkpoint.batches(self.batch):
            self.progress.replayed += 1
            self._do(batch, {name: self._again(name, batch) for name in batch.end})
            yield self.progress
        once = bool(self.job.trigger.get("once"))
        while not stopped():
            began = time.monotonic()
            if self._next(once):
                yield self.progress
            elif once:
                self._close()
                yield self.progress
                break
            else:
                self._wait(began, stopped)
        self._save()

    def close(self) -> None:
        """Let go of files and connections."""
        for source in self.sources.values():
            with suppress(Exception):
                source.close()

    def _next(self, last: bool) -> bool:
        """Read the next batch from the source that is furthest behind and has rows."""
        for name in self.monitor.board.in_turn(self.sources):
            found = self.sources[name].take(self.places[name], last)
            if found is not None:
                table, end = found
                batch = Batch(
                    self.batch + 1, {name: self.places[name]}, {name: end}, clock=time.time()
                )
                self.checkpoint.enter(batch)
                self._do(batch, {name: table})
                if self._due():
                    self._save()
                return True
        return False

    def _do(self, batch: Batch, tables: Mapping[str, pa.Table]) -> None:
        """Push the rows of a batch and write what is due."""
        if batch.closing:
            answers = self.monitor.flush()
        else:
            self._judge(tables)
            self.monitor.board.limit(self.limits, batch.clock)
            only = tables.get("")
            answers = self.monitor.push(dict(tables) if only is None else only)
        self.checkpoint.claim()
        for name, sink in self.sinks.items():
            mine = [answer for answer in answers if answer.name in (None, name)]
            written(sink, batch.number, rows_for(self.job, name, mine))
            for answer in reversed(mine):
                if answer.table.num_rows:
                    self.progress.newest[name] = answer
                    break
        stats = self._stats()
        bad = {name: int(each["rows_bad"]) for name, each in stats.items()}
        self.letters.write(batch.number, tables, self.sources, bad, batch.clock)
        self.batch = batch.number
        self.places |= batch.end
        self.progress.batches += 1
        self.progress.rows += sum(table.num_rows for table in tables.values())
        self.progress.windows += len(answers)
        self.progress.late = max(int(each["rows_late"]) for each in stats.values()) - self.late
        self.progress.bad = max(bad.values()) - self.bad
        self.progress.state_bytes = sum(int(each["state_bytes"]) for each in stats.values())

    def _judge(self, tables: Mapping[str, pa.Table]) -> None:
        """Count the records that could not be read; raise if bad records stop the job."""
        for name in tables:
            found = self.sources[name].unread()
            if found.num_rows and self.job.on_bad == "raise":
                refuse(found, found.num_rows)
            self.progress.unread += found.num_rows

    def _close(self) -> None:
        """Answer the last windows of a finite job, if it asks for that."""
        if self.job.trigger.get("close"):
            batch = Batch(self.batch + 1, closing=True)
            self.checkpoint.enter(batch)
            self._do(batch, {})

    def _wait(self, began: float, stopped: Callable[[], bool]) -> None:
        every = self.job.trigger.get("every")
        seconds = _LOOK if every is None else parse_duration(every, "[trigger] every") / 1e6
        while not stopped() and time.monotonic() < began + seconds:
            time.sleep(min(_LOOK, seconds))

    # Rows --------------------------------------------------------------------------------------

    def _needed(self, source: str, schema: pa.Schema) -> list[str] | None:
        """The columns that the queries need of a source; dead letters need all of them."""
        if self.job.dead_letters is not None:
            return None
        wanted = self.monitor.board.needed(source, schema)
        return [name for name in schema.names if name in wanted]

    def _time(self, source: str) -> str | None:
        """The column of time, if all queries of a source have the same."""
        found = {
            None if isinstance(query.window, CountWindow) else query.time_of(source or None)
            for query in self.job.queries.values()
            if not source or source in query.sources
        }
        return next(iter(found)) if len(found) == 1 else None

    def _stats(self) -> dict[str, dict[str, Any]]:
        """The monitor's counts, by query."""
        stats = self.monitor.stats()
        return {name: stats if self.job.alone else stats[name] for name in self.job.queries}

    # State -------------------------------------------------------------------------------------

    def _again(self, name: str, batch: Batch) -> pa.Table:
        return self.sources[name].again(batch.begin[name], batch.end[name])

    def _resume(self) -> None:
        saved = self.checkpoint.load()
        if saved is None:
            return
        self.batch, places, blob = saved
        for name in self.sources:
            if name not in places:
                raise EngineError(
                    f"source {name!r} is new, but the checkpoint {self.job.checkpoint!r} is kept; "
                    "give the job a new checkpoint to read another source"
                )
        self.places |= places
        self.monitor, changed = Monitor.resume(blob, self.job.asked, self.job.on_bad)
        for line in changed_lines(changed):
            log.warning("%s: %s", self.job.name, line)

    def _due(self) -> bool:
        waited = time.monotonic() - self._saved
        return waited >= max(_SAVE_EVERY, _SAVE_SHARE * self._cost)

    def _save(self) -> None:
        """Save the state, so that a restart need not read again what came before."""
        if self.batch < 0:
            return
        began = time.monotonic()
        self.checkpoint.save(self.batch, self.places, self.monitor.snapshot())
        self._saved = time.monotonic()
        self._cost = self._saved - began
        self.progress.saves += 1
        self.progress.saving += self._cost


def rows_for(job: Job, query: str, answers: list[Answer]) -> TableRows:
    """What a query's sink is given: the tables of its answers, or the changes."""
    asked = job.changes_of(query)
    if not asked:
        tables = [answer.table for answer in answers]
    else:
        kinds = None if isinstance(asked, bool) else asked
        found = (_changes(answer, kinds) for answer in answers)
        tables = [table for table in found if table.num_rows]
    schema = tables[0].schema if tables else pa.schema([])
    return TableRows(tables, schema)


def _changes(answer: Answer, kinds: Kinds | None) -> pa.Table:
    """The changes of an answer, with the edges of its window; of some kinds, with their rows."""
    found = answer.changes if kinds is None else answer.alerts(kinds)
    edges = {
        name: pa.array([value] * found.num_rows, answer.table.schema.field(name).type)
        for name, value in (("window_start", answer.start), ("window_end", answer.end))
    }
    fields = [answer.table.schema.field(name) for name in edges]
    return pa.table([*edges.values(), *found.columns], schema=pa.schema([*fields, *found.schema]))
