"""Sessions that a process built from stored panes, kept for the next batch of the same key."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

__all__ = ["SESSIONS", "Sessions"]

_MOST_KEPT = 64
_MOST_BYTES = 512 << 20


class Sessions:
    """A cache of the sessions that this process built, by the token of the head they belong to."""

    def __init__(self) -> None:
        self.kept: OrderedDict[str, tuple[Any, int]] = OrderedDict()

    def take(self, token: str | None) -> Any:
        """Remove the sessions of a head from the cache and return them; None if there are none."""
        found = self.kept.pop(token, None) if token is not None else None
        return None if found is None else found[0]

    def keep(self, token: str, session: Any, nbytes: int) -> None:
        """Cache a session, or several, under the token of the head just written."""
        self.kept[token] = session, nbytes
        # The oldest make room.
        while len(self.kept) > _MOST_KEPT or sum(n for _, n in self.kept.values()) > _MOST_BYTES:
            self.kept.popitem(last=False)


SESSIONS = Sessions()
