"""What a job on Spark tells while it runs, from the progress that Spark reports."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import pyarrow as pa

from skyband.jobs.report import Report, Tell
from skyband.jobs.starting import Running
from skyband.spark.metrics import Progress, read_progress

__all__ = ["Reports"]


class Reports:
    """Tells what a running job has done, batch by batch."""

    def __init__(self) -> None:
        self.running: Running | None = None
        self.progress = Progress()
        self.batch = -1
        self.newest: dict[str, pa.Table] = {}

    def follow(self, running: Running) -> None:
        """Tell of this one from now on; it goes on where another one ended."""
        self.running = running

    def tell(self, tell: Tell | None) -> None:
        """Report the batches that ended since the last call, the last of them in full."""
        assert self.running is not None
        last = None if tell is None else self.running.query.lastProgress
        if tell is None or last is None or last.batchId <= self.batch:
            return
        new = [last] if last.batchId == self.batch + 1 else self.running.query.recentProgress
        figures: dict[str, float] = {}
        for each in new:
            if each.batchId > self.batch and read_progress(each) is not None:
                self.batch = each.batchId
                self.progress.onQueryProgress(SimpleNamespace(progress=each))
                figures = read_progress(each) or {}
        self.newest |= self.running.writer.newest
        for totals in self.progress.snapshot().values():
            tell(self._report(figures, totals))

    def _report(self, figures: Mapping[str, float], totals: Mapping[str, float]) -> Report:
        seconds = figures.get("batch_seconds", 0.0)
        state = totals.get("state_bytes")
        return Report(
            batch=self.batch,
            rows=int(totals["rows_in"]),
            rate=figures.get("rows_in", 0.0) / seconds if seconds else None,
            late=int(totals["rows_late"]),
            bad=int(totals["rows_bad"]),
            windows=int(totals["windows_out"]),
            state_bytes=None if state is None else int(state),
            watermark=totals.get("watermark_seconds"),
            lag=totals.get("watermark_lag_seconds"),
            answers=dict(self.newest),
        )
