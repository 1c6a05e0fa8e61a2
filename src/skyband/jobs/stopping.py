"""Ctrl-C and SIGTERM: a job ends within seconds, and its checkpoint stays intact."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any


class Stop:
    """A context manager that handles the signals which ask a job to end.

    Until ``listen`` is called, a signal raises KeyboardInterrupt. After that it is only recorded,
    because an exception in the middle of a call to Spark would leave that call's reply unread.
    Check ``asked`` between short waits. A second signal raises in any case.
    """

    signals = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self._asked = False
        self._noting = False
        self._until: float | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        self._set()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def listen(self) -> None:
        """Only record signals from now on.

        This installs the handlers again, because starting a Spark session replaces them.
        """
        self._noting = True
        self._set()

    def after(self, seconds: float | None) -> None:
        """End the job after so many seconds, as if a signal came then."""
        self._until = None if seconds is None else time.monotonic() + seconds

    def ask(self) -> None:
        """Ask the job to end, from any thread."""
        self._asked = True

    def asked(self) -> bool:
        """Whether the job should end."""
        return self._asked or (self._until is not None and time.monotonic() >= self._until)

    def _set(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # only the main thread may set signal handlers
        for number in self.signals:
            before = signal.signal(number, self._heard)
            self._before.setdefault(number, before)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        again, self._asked = self._asked, True
        if again or not self._noting:
            raise KeyboardInterrupt
