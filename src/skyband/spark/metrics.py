"""Metrics of a running query: counters in the plan, a listener that reads them, an HTTP page.

Spark reports progress after each batch, including the figures that ``observe`` adds to the plan:

    skyband|TopK-1f0c|in|<source>     summarise.COUNTS, bytes_packed, seen
    skyband|TopK-1f0c|out             rows_late, rows_bad, windows_out, retained, state_bytes

A batch reports only the state keys that it touched, so ``retained`` and ``state_bytes`` are running
totals: each batch adds the change of every key it touched. A total starts with the query's first
batch or, after a restart, with the first batch that answers a window, because that batch reports
every key that has rows.

``seen`` and Spark's own ``max`` of the event time are shifted a century ahead (see
``plan.SHIFT_MS``); this module reports true event time.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as every Spark program has it
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.utils import is_remote

from skyband.data.prometheus import prometheus_text
from skyband.spark.plan import SHIFT_MS
from skyband.spark.summarise import COUNTS

PREFIX = "skyband"
COUNTERS = (
    *("rows_in", "rows_late", "rows_bad", "rows_unused", "rows_filtered"),
    *("windows_out", "bytes_packed"),
)
GAUGES = {
    "retained": "Items that the synopses keep",
    "state_bytes": "Bytes of the panes in the state",
    "watermark_seconds": "The watermark, in seconds since 1970",
    "seen_seconds": "The greatest event time seen, in seconds since 1970",
    "watermark_lag_seconds": "How far the watermark is behind the greatest event time seen",
    "batch_seconds": "Time that the last batch took",
    "batch_id": "Number of the last batch",
}
KEPT = ("retained", "state_bytes")
"""Figures that carry over from batch to batch; a name with ``_more`` is one batch's change."""
log = logging.getLogger("skyband.spark")


def observe_rows(frame: Any, label: str, source: str) -> Any:
    """Count the rows of a source."""
    sums = [F.sum(name).alias(name) for name in COUNTS]
    size = F.sum(F.length("payload")).alias("bytes_packed")
    seen = (F.unix_millis(F.max("seen")) - F.lit(SHIFT_MS)).alias("seen")
    return frame.observe(f"{PREFIX}|{label}|in|{source}", *sums, size, seen)


def observe_steps(frame: Any, label: str, queries: Sequence[str]) -> Any:
    """Count the output of the state operator; a window answered by many keys counts once.

    The windows of all queries are added up.
    """
    names = ("rows_late", "rows_bad", *(f"{name}{more}" for name in KEPT for more in ("", "_more")))
    sums = [F.sum(name).alias(name) for name in names]
    own = [F.when(F.col("query") == name, F.col("marks")) for name in queries]
    counted = [F.coalesce(F.bitmap_count(F.bitmap_or_agg(marks)), F.lit(0)) for marks in own]
    windows = sum(counted[1:], counted[0]) + F.max("unmarked")
    return frame.observe(f"{PREFIX}|{label}|out", *sums, windows.alias("windows_out"))


class Progress(StreamingQueryListener):
    """Follows the Skyband queries of a session: one log line per batch, totals for a dashboard.

    Add it with ``session.streams.addListener(Progress())``. Totals start at 0 when a query starts.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: dict[str, dict[str, float]] = {}
        if is_remote():
            session = SparkSession.getActiveSession()
            threading.Thread(target=self._let_exit, args=(session,), daemon=True).start()

    def _let_exit(self, session: Any) -> None:
        """Remove the listener when the main thread ends.

        Spark Connect reads events in a thread that would keep the process from exiting otherwise.
        """
        threading.main_thread().join()
        session = session or SparkSession.getActiveSession()
        if session is not None:
            # Spark warns that its thread ends, which is what is wanted here.
            warnings.filterwarnings("ignore", message="StreamingQueryListenerBus")
            with suppress(Exception):  # the session may have been stopped
                session.streams.removeListener(self)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        """Set the query's totals to 0."""
        with self._lock:
            self._queries[_name(event)] = dict.fromkeys(COUNTERS, 0)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Add a finished batch to the totals."""
        self.add(event.progress)

    def add(self, progress: Any) -> dict[str, float] | None:
        """Add a batch to the totals; its figures, or None if it is not of a Skyband query."""
        figures = read_progress(progress)
        if figures is None:
            return None
        found = dict(figures)
        with self._lock:
            totals = self._queries.setdefault(_name(progress), dict.fromkeys(COUNTERS, 0))
            found |= _kept(found, totals) | _lag(found, totals)
            for name, value in found.items():
                if name in COUNTERS:
                    totals[name] += value
                else:
                    totals[name] = value
        log.info("%s %s", _name(progress), " ".join(f"{n}={v:g}" for n, v in found.items()))
        return figures

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Log a failure; the totals stay readable."""
        if event.exception:
            log.error("%s failed: %s", event.id, str(event.exception).splitlines()[0])

    def snapshot(self) -> dict[str, dict[str, float]]:
        """Totals by query."""
        with self._lock:
            return {name: dict(values) for name, values in self._queries.items()}

    def prometheus(self) -> str:
        """The totals in Prometheus' text format."""
        figures = self.snapshot()
        kinds = [(n, "counter", f"{n} since the query was started") for n in COUNTERS]
        kinds += [(name, "gauge", text) for name, text in GAUGES.items()]
        return prometheus_text(
            (n, kind, text, [({"query": q}, each[n]) for q, each in figures.items() if n in each])
            for n, kind, text in kinds
        )


def read_progress(progress: Any) -> dict[str, float] | None:
    """The figures of one batch, in true event time; None if it is not a Skyband query."""
    observed: Mapping[str, Any] = progress.observedMetrics or {}
    found: dict[str, float] = {}
    for name, row in observed.items():
        if not name.startswith(f"{PREFIX}|"):
            continue
        values = row.asDict()
        seen = values.pop("seen", None)
        if seen is not None:
            found["seen_seconds"] = max(found.get("seen_seconds", 0.0), seen / 1000)
        for key, value in values.items():
            found[key] = found.get(key, 0) + (value or 0)
    if not found:
        return None
    watermark = (progress.eventTime or {}).get("watermark")
    with suppress(ValueError):  # Python has no years after 9999, which integer times may reach
        moment = 0.0 if watermark is None else datetime.fromisoformat(watermark).timestamp()
        if moment > 0:  # a query that has seen nothing yet tells 1970
            found["watermark_seconds"] = moment
    found["batch_id"] = progress.batchId
    found["batch_seconds"] = progress.batchDuration / 1000
    return found


def _lag(found: Mapping[str, float], totals: Mapping[str, float]) -> dict[str, float]:
    """The greatest time seen in any batch, and how far the watermark is behind it.

    A batch without rows, or with older ones, moves the watermark too.
    """
    times = [each["seen_seconds"] for each in (found, totals) if "seen_seconds" in each]
    lag = {"seen_seconds": max(times)} if times else {}
    if times and "watermark_seconds" in found:
        lag["watermark_lag_seconds"] = max(max(times) - found["watermark_seconds"], 0.0)
    return lag


def _kept(found: dict[str, float], totals: Mapping[str, float]) -> dict[str, float]:
    """The totals of ``KEPT`` after a batch, where known; removes the batch's figures from found."""
    known: dict[str, float] = {}
    for name in KEPT:
        now, more = found.pop(name, 0), found.pop(f"{name}_more", 0)
        if name in totals:
            known[name] = totals[name] + more
        elif not found["batch_id"] or found.get("windows_out"):
            known[name] = now
    return known


def serve(progress: Progress, port: int, host: str = "127.0.0.1") -> ThreadingHTTPServer:
    """Serve the totals at http://host:port/metrics until ``shutdown`` is called on the result."""

    class MetricsPage(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path in ("/metrics", "/")
            body = progress.prometheus().encode() if known else b"see /metrics\n"
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Do not log requests."""

    server = ThreadingHTTPServer((host, port), MetricsPage)
    threading.Thread(target=server.serve_forever, name="skyband-metrics", daemon=True).start()
    return server


def _name(listener: Any) -> str:
    return str(listener.name or listener.id)
