"""How a service is doing: rows per second, watermark, late and bad rows, size of the state."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from threading import Lock

import pyarrow as pa

from skyband.engine.session import ONLY
from skyband.jobs.report import Report
from skyband.query import Query

Schemas = Mapping[str, pa.Schema]
"""The columns of each source; the name of a single source is ``""``."""
log = logging.getLogger("skyband.serve")
ROWS = "rows"
"""The public name of the source of a job that has only one."""
_SPAN = 10.0
"""Seconds over which the rate is measured."""
_QUIET = 15.0
"""Seconds without a row after which this is mentioned."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Status:
    """Counts that the engine's thread keeps and other threads read."""

    def __init__(self, queries: Mapping[str, Query], schemas: Schemas) -> None:
        self.queries, self.schemas = queries, schemas
        self.rows = dict.fromkeys(schemas, 0)
        self.seen: dict[str, int] = {}
        """The greatest time of each source, in ticks."""
        self.heard: dict[str, float] = {}
        """When each source last sent rows (monotonic clock)."""
        self.troubles: list[str] = []
        """What ended or went wrong for good, in plain words."""
        self.failure: str | None = None
        """Why rows that should come will not, if that is so."""
        self.finished = False
        """Whether all there is was read, and nothing more is waited for."""
        self.files = False
        """Whether all rows are read from files: then it is no trouble that no more come."""
        self.integer = all(query.window.integer for query in queries.values())
        """Whether times are integers, whose unit nobody knows."""
        self._rates: deque[tuple[float, int]] = deque()
        self._lock = Lock()
        self._began = time.monotonic()

    # Kept by the engine --------------------------------------------------------------------------

    def counted(self, source: str, rows: int, seen: Mapping[str, int] | None = None) -> None:
        """Note how many rows a source has sent so far, and the greatest time of each source."""
        with self._lock:
            now = time.monotonic()
            self._rates.append((now, rows - self.rows[source]))
            self.rows[source], self.heard[source] = rows, now
            self.seen = self.seen if seen is None else dict(seen)

    def stopped(self, said: str) -> None:
        """Note that a source stopped for good; only a restart helps."""
        log.error("%s", said)
        self.troubles.append(said)
        self.failure = self.failure or said

    # Read by others ------------------------------------------------------------------------------

    def rate(self) -> float:
        """Rows per second over the last ten seconds."""
        now = time.monotonic()
        with self._lock:
            while self._rates and self._rates[0][0] < now - _SPAN:
                self._rates.popleft()
            total = sum(rows for _, rows in self._rates)
        return total / min(_SPAN, max(1.0, now - self._began))

    def watermark(self) -> int | None:
        """The time up to which every source has come, in ticks, before lateness."""
        if len(self.seen) < len(self.schemas):
            return None
        return min(self.seen.values())

    def moment(self, ticks: int | None) -> str | int | None:
        """Ticks as they are shown: ISO 8601, or the integer itself."""
        if ticks is None or self.integer:
            return ticks
        try:
            return (_EPOCH + timedelta(microseconds=ticks)).isoformat()
        except OverflowError:
            return ticks

    def seconds(self, ticks: int | None) -> float | None:
        """Ticks in seconds since 1970; None for integer times."""
        return None if ticks is None or self.integer else ticks / 1e6

    @property
    def behind(self) -> float | None:
        """Seconds between the watermark and the clock on the wall; None for integer times."""
        mark = self.watermark()
        if mark is None or self.integer:
            return None
        return round(time.time() - mark / 1e6, 3)

    def trouble(self) -> list[str]:
        """What is wrong, in plain words."""
        said = [*self.troubles, *self._silence()]
        if len(self.schemas) > 1 and self.seen:
            missing = [name for name in self.schemas if name not in self.seen]
            said += [f"source {n} has sent nothing yet and holds the others back" for n in missing]
            slowest = min(self.seen, key=lambda name: self.seen[name])
            gap = max(self.seen.values()) - self.seen[slowest]
            if not missing and not self.integer and gap > 10_000_000:
                said.append(f"source {slowest} holds the others back by {gap / 1e6:,.0f} s")
        return said

    def _silence(self) -> list[str]:
        now = time.monotonic()
        last = max(self.heard.values(), default=self._began)
        if self.finished or self.files or now - last <= _QUIET:
            return []
        return [f"no rows {f'for {now - last:.0f} s' if self.heard else 'since the start'}"]


class ReportedStatus(Status):
    """The status of a job that runs elsewhere and reports after each batch."""

    def __init__(self, queries: Mapping[str, Query], schemas: Schemas) -> None:
        super().__init__(queries, schemas)
        self.rows = {ONLY: 0}  # a report adds up the rows of all sources
        self._watermark: float | None = None

    def reported(self, report: Report) -> None:
        """Note a report."""
        if report.rows > self.rows[ONLY]:
            self.counted(ONLY, report.rows)
        self._watermark = report.watermark

    def watermark(self) -> int | None:
        """The time up to which windows are answered, in ticks."""
        if self._watermark is None or self._watermark <= 0:
            return None
        return round(self._watermark * (1_000 if self.integer else 1_000_000))

    def trouble(self) -> list[str]:
        """What is wrong, in plain words."""
        return [*self.troubles, *self._silence()]
