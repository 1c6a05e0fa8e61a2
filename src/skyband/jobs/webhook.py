"""A sink that posts each window as a JSON message to an address (``kind = "http"``).

A message is repeated until the receiver accepts it, so it may arrive more than once. It always
carries the same key, in the header ``Idempotency-Key`` and in its body:

    {"key": "network/busiest/2026-03-01T10:05:00+00:00", "job": "network", "query": "busiest",
     "window_end": "2026-03-01T10:05:00+00:00", "rows": [{"window_start": ..., "rank": 1, ...}]}
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from skyband.answers.json_text import json_text
from skyband.errors import EngineError
from skyband.jobs.job import Section
from skyband.jobs.rows import SinkRows
from skyband.jobs.secrets import hidden
from skyband.window import parse_duration

__all__ = ["Webhook"]

_RETRIES = 5
_TIMEOUT = "10 seconds"
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 30.0
_REFUSED = range(400, 500)
_PASSING = (408, 425, 429)
"""Refusals that may pass, so that the message is sent again."""


class Webhook:
    """Posts one message per window; at least once."""

    def __init__(self, where: str, section: Section, job: str, query: str) -> None:
        self.where = where
        self.url = section["url"]
        self.headers = {str(k): str(v) for k, v in (section["headers"] or {}).items()}
        self.retries = _RETRIES if section["retries"] is None else section["retries"]
        self.timeout = parse_duration(section["timeout"] or _TIMEOUT, f"{where} timeout") / 1e6
        self.undelivered = section["undelivered"]
        self.job, self.query = job, query

    def open(self, run: str) -> None:
        """Nothing to prepare: the first message shows whether the address can be reached."""

    def write(self, batch: int, rows: SinkRows) -> None:
        """Post the windows of a batch, one after the other."""
        for end, table in _by_window(rows):
            key = f"{self.job}/{self.query}/{end}"
            message = {"key": key, "job": self.job, "query": self.query, "window_end": end}
            text = json_text({**message, "rows": table.to_pylist()})
            problem = self._deliver(key, text.encode())
            if problem is None:
                continue
            if self.undelivered is None:
                raise EngineError(
                    f"{self.where} {hidden(self.url)} did not accept the message {key!r}: "
                    f"{problem}. Give undelivered, a file for such messages, if the job shall go on"
                )
            path = Path(self.undelivered)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(json_text({"problem": problem, "message": text}) + "\n")

    def _deliver(self, key: str, body: bytes) -> str | None:
        """Post a message, again and again if need be; the last problem, or None."""
        wait = _FIRST_WAIT
        for attempt in range(self.retries + 1):
            if attempt:
                time.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT)
            problem, final = self._post(key, body)
            if problem is None or final:
                break
        return problem

    def _post(self, key: str, body: bytes) -> tuple[str | None, bool]:
        """Post a message once: what went wrong, and whether trying again is of no use."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": key, **self.headers}
        request = urllib.request.Request(self.url, body, headers, method="POST")  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=self.timeout):  # noqa: S310
                return None, True
        except urllib.error.HTTPError as refusal:
            final = refusal.code in _REFUSED and refusal.code not in _PASSING
            return f"status {refusal.code} ({refusal.reason})", final
        except (urllib.error.URLError, OSError) as problem:
            return str(getattr(problem, "reason", problem)), False


def _by_window(rows: SinkRows) -> Iterator[tuple[Any, pa.Table]]:
    """The rows of each window, with the window's end as JSON has it."""
    if not rows:
        return
    table = pa.concat_tables(rows.tables())
    ends = table["window_end"]
    for end in ends.unique():
        value = end.as_py()
        shown = value.isoformat() if hasattr(value, "isoformat") else value
        yield shown, table.filter(pa.compute.equal(ends, end))
