"""Sources that have been silent for so long that the watermark no longer waits for them."""

from __future__ import annotations

import time

from skyband.engine.clocks import TimeClock

__all__ = ["Silence"]


class Silence:
    """When each source was last heard of, by the clock on the wall."""

    def __init__(self, idle: float | None) -> None:
        self.idle = idle
        """Seconds after which a silent source stops counting; None for never."""
        self._heard: dict[str, float] = {}

    def heard(self, source: str) -> None:
        """A source has sent rows."""
        if self.idle is not None:
            self._heard[source] = time.monotonic()

    def ignore_idle(self, clock: TimeClock) -> None:
        """Let the watermark wait for those sources only that are not silent."""
        if self.idle is None:
            return
        now = time.monotonic()
        for source in clock.seen:
            silent = now - self._heard.setdefault(source, now) > self.idle
            (clock.ignored.add if silent else clock.ignored.discard)(source)
