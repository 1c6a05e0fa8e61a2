"""Idempotency keys: which requests were applied already, and what they were answered."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from threading import Lock
from typing import Any, NamedTuple

__all__ = ["Applied", "Keys"]

MOST = 100_000
SECONDS = 24 * 3600.0


class Applied(NamedTuple):
    """A request that was applied."""

    digest: str
    """Of its source and body."""
    at: float
    """When, in seconds since 1970."""
    reply: dict[str, Any]


class Keys:
    """The last 100,000 keys, or those of 24 hours, whichever are fewer."""

    def __init__(self, most: int = MOST, seconds: float = SECONDS) -> None:
        self.most, self.seconds = most, seconds
        self._known: OrderedDict[str, Applied] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, key: str) -> Applied | None:
        """The request that was applied with this key, if it is remembered."""
        with self._lock:
            self._forget(time.time())
            return self._known.get(key)

    def add(self, key: str, applied: Applied) -> None:
        """Remember a request."""
        with self._lock:
            self._known[key] = applied
            self._forget(time.time())

    def _forget(self, now: float) -> None:
        known = self._known
        while known:
            first = next(iter(known))
            if len(known) <= self.most and known[first].at > now - self.seconds:
                return
            del known[first]

    def save(self) -> str:
        """All keys as text, for a snapshot."""
        with self._lock:
            saved = [[key, *applied] for key, applied in self._known.items()]
        return json.dumps(saved)

    def load(self, text: str) -> None:
        """The inverse of ``save``."""
        with self._lock:
            self._known = OrderedDict((key, Applied(*rest)) for key, *rest in json.loads(text))
