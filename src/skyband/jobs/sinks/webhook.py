"""A sink that posts each window as a JSON message to an address (``kind = "http"``).

A message is repeated until the receiver accepts it, so it may arrive more than once. It always
carries the same key, in the header ``Idempotency-Key`` and in its body:

    {"key": "network/busiest/2026-03-01T10:05:00+00:00", "job": "network", "query": "busiest",
     "window_end": "2026-03-01T10:05:00+00:00", "rows": [{"window_start": ..., "rank": 1, ...}]}

Where each group counts its own arrivals, a window is of one group: ``"group": {"team": "a"}``, and
the key is ``network/busiest/["a"]/10``. A window that is corrected is posted again, with the same
key and its ``"revision"`` in the body; in the header the revision follows the key.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit, urlunsplit

from skyband.data.json_text import json_text
from skyband.errors import EngineError
from skyband.jobs.secrets import hidden
from skyband.jobs.sinks.base import YEARS, SinkRows, SinkTarget, messages_of
from skyband.query.base import REVISION
from skyband.window import parse_duration

_RETRIES = 5
_TIMEOUT = "10 seconds"
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 30.0
_REFUSED = range(400, 500)
_PASSING = (408, 425, 429)
"""Refusals that may pass, so that the message is sent again."""


class WebhookSink:
    """Posts one message per window; at least once."""

    refuses = (YEARS,)

    def __init__(self, target: SinkTarget) -> None:
        section, where = target.section, target.where
        self.target, self.where, self._world = target, where, target.world
        self.url = section["url"]
        self._address, self._password = _parted(self.url)
        self.headers = {str(k): str(v) for k, v in (section["headers"] or {}).items()}
        self.retries = _RETRIES if section["retries"] is None else section["retries"]
        self.timeout = parse_duration(section["timeout"] or _TIMEOUT, f"{where} timeout") / 1e6
        self.undelivered = section["undelivered"]

    def open(self, run: str) -> None:
        """Nothing to prepare: the first message shows whether the address can be reached."""

    def write(self, batch: int, rows: SinkRows) -> None:
        """Post the windows of a batch, one after the other."""
        for message in messages_of(rows, self.target):
            key, text = message["key"], json_text(message)
            if message.get(REVISION):  # or a receiver would take it for the first one, repeated
                key = f"{key}/{message[REVISION]}"
            problem = self._deliver(key, text.encode())
            if problem is None:
                continue
            if self.undelivered is None:
                raise EngineError(
                    f"{self.where} {hidden(self.url)} did not accept the message {key!r}: "
                    f"{problem}. To continue without it, give undelivered, a file for such messages"
                )
            path = Path(self.undelivered)
            self._world.make_folders(path.parent)
            line = json_text({"problem": problem, "message": text}) + "\n"
            self._world.append(path, line.encode())

    def _deliver(self, key: str, body: bytes) -> str | None:
        """Post a message, again and again if need be; the last problem, or None."""
        wait = _FIRST_WAIT
        for attempt in range(self.retries + 1):
            if attempt:
                self._world.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT)
            problem, final = self._post(key, body)
            if problem is None or final:
                break
        return problem

    def _post(self, key: str, body: bytes) -> tuple[str | None, bool]:
        """Post a message once: what went wrong, and whether trying again is of no use."""
        fixed = {"Content-Type": "application/json", "Idempotency-Key": key}
        headers = fixed | self._password | self.headers
        request = urllib.request.Request(self._address, body, headers, method="POST")  # noqa: S310
        try:
            self._world.post(request, self.timeout)
            return None, True
        except urllib.error.HTTPError as refusal:
            final = refusal.code in _REFUSED and refusal.code not in _PASSING
            return f"status {refusal.code} ({refusal.reason})", final
        except (urllib.error.URLError, OSError) as problem:
            return str(getattr(problem, "reason", problem)), False


def _parted(url: str) -> tuple[str, dict[str, str]]:
    """An address without its user and password, and the header that stands for them."""
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    if not at:
        return url, {}
    name, _, password = user.partition(":")
    plain = unquote_to_bytes(name) + b":" + unquote_to_bytes(password)
    header = {"Authorization": f"Basic {b64encode(plain).decode()}"}
    return urlunsplit(parts._replace(netloc=place)), header
