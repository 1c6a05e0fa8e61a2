"""The answers that are kept: by query for readers, by number for events, and on disk.

Every answer has a number, one more than the answer before it. Numbers are those of the events, so
they go on after a restart. The file is written before each snapshot. What is missing in it after a
crash is recomputed when the journal is replayed, with the same numbers. A window that is corrected
is kept in its last revision only.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from skyband.jobs.world import MACHINE, World
from skyband.serve.limits import ServiceLimits


def moment_of(end: str) -> int | datetime:
    """A window's end as a value to compare: a moment in UTC, or an integer."""
    if end.isascii() and end.lstrip("-").isdigit():
        return int(end)
    moment = datetime.fromisoformat(end)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


class Event(NamedTuple):
    """An answer that is kept."""

    number: int
    name: str
    end: str
    """The window's end, as JSON."""
    text: str
    """The answer as JSON."""
    revision: int | None = None
    """How often its window was corrected, if the query corrects windows."""
    replaced: tuple[int, ...] = ()
    """The numbers of the answers that it takes the place of."""

    @property
    def size(self) -> int:
        """The bytes that it takes in memory, as far as they can become many."""
        return sys.getsizeof(self.text)

    @property
    def order(self) -> Any:
        """The window's end as a value to sort by."""
        return moment_of(self.end.strip('"'))

    @property
    def line(self) -> bytes:
        """The answer as a server-sent event."""
        # The text is a JSON object, so its first character can be replaced.
        data = f'{{"name":{json.dumps(self.name)},{self.text[1:]}'
        return f"id: {self.number}\nevent: answer\ndata: {data}\n\n".encode()


class History:
    """The last ``most`` answers of each query.

    All of them together have ``most_bytes``. Beyond that the oldest give way, but never the newest
    one of a query.
    """

    def __init__(
        self,
        names: Sequence[str],
        most: int,
        path: Path,
        most_bytes: int = ServiceLimits.history_bytes,
        world: World = MACHINE,
    ) -> None:
        self.most, self.most_bytes = most, most_bytes
        self.path, self._world = path, world
        self.last = 0
        """The number of the newest answer."""
        self.dropped = 0
        """The greatest number among the answers that are not kept any more."""
        self._kept: dict[str, deque[Event]] = {name: deque() for name in names}
        self._bytes = 0
        self._written = 0
        """The greatest number in the file. What is newer and still kept is written next."""
        self._lines = 0
        self._damaged = False
        """Whether the file has to be written anew."""
        self._lock = Lock()
        self._load()

    def _load(self) -> None:
        """Read the file. What stands after a line that cannot be read is written anew."""
        numbers: list[int] = []
        for line in self._world.read_safely(self.path).splitlines(keepends=True):
            try:
                record = json.loads(line)
                whole = line.endswith(b"\n") and isinstance(record, dict)
            except ValueError:
                whole = False
            if not whole:
                self._damaged = True  # cut off by a crash; the replay makes the rest again
                break
            if "dropped" in record:
                self.dropped = max(self.dropped, record["dropped"])
                self.last = max(self.last, self.dropped)
                continue
            self._lines += 1
            numbers.append(record["id"])
            if record["name"] in self._kept:
                replaced = tuple(record.get("replaced", ()))
                numbers[-1:-1] = replaced
                event = Event(record["id"], record["name"], record["end"], record["answer"])
                self._keep(event._replace(revision=record.get("revision"), replaced=replaced))
            else:
                self.dropped = max(self.dropped, record["id"])
            self.last = self._written = max(self.last, record["id"])
        numbers.sort()
        for before, number in zip([self.dropped, *numbers], numbers, strict=False):
            if number > before + 1:  # what is missing between them cannot be sent again
                self.dropped = max(self.dropped, number - 1)

    def _keep(self, event: Event) -> None:
        kept = self._kept[event.name]
        if event.revision:
            event = self._corrected(kept, event)
        kept.append(event)
        self._bytes += event.size
        if len(kept) > self.most:
            self._drop(kept)
        while self._bytes > self.most_bytes:
            longer = [each for each in self._kept.values() if len(each) > 1]
            if not longer:
                return
            self._drop(min(longer))

    def _corrected(self, kept: deque[Event], event: Event) -> Event:
        """Take an answer's earlier revision away."""
        for before in kept:
            if before.end == event.end:
                kept.remove(before)
                self._bytes -= before.size
                replaced = {*event.replaced, *before.replaced, before.number}
                return event._replace(replaced=tuple(sorted(replaced)))
        return event

    def _drop(self, kept: deque[Event]) -> None:
        """Forget the oldest answer of a query."""
        oldest = kept.popleft()
        self._bytes -= oldest.size
        self.dropped = max(self.dropped, oldest.number)

    def add(self, events: Iterable[Event], last: int) -> None:
        """Keep answers; ``last`` is the newest number, also if its answer is not among them."""
        with self._lock:
            before = self.last
            for event in events:
                if event.number > before:
                    self._keep(event)
            self.last = max(before, last)

    def skip(self, number: int) -> None:
        """Note that answers up to a number were never kept."""
        with self._lock:
            self.dropped = max(self.dropped, number)

    def expect(self, number: int) -> None:
        """Go on after an answer; those up to it that are not here were never kept, or are lost."""
        if self.last < number:
            self.skip(number)
            self.add([], number)

    # Reading -----------------------------------------------------------------------------------

    def newest(self, name: str, count: int) -> list[Event]:
        """The last answers of a query, oldest first."""
        with self._lock:
            kept = self._kept[name]
            if any(event.revision is not None for event in kept):
                kept = deque(sorted(kept, key=lambda event: event.order))
            return [kept[i] for i in range(max(0, len(kept) - count), len(kept))]

    def counts(self) -> dict[str, int]:
        """How many answers of each query are kept."""
        return {name: len(kept) for name, kept in self._kept.items()}

    def first(self) -> list[Event]:
        """The newest answer of each query, by number."""
        with self._lock:
            newest = (max(kept, key=_last) for kept in self._kept.values() if kept)
            return sorted(newest)

    def since(self, number: int) -> list[Event] | None:
        """The answers after a number; None if some of them are not kept, or it is unknown."""
        with self._lock:
            if number < self.dropped or number > self.last:
                return None
            events: list[Event] = []
            for kept in self._kept.values():
                if kept and kept[-1].number > number:
                    at = bisect_right(kept, number, key=lambda event: event.number)
                    events += [kept[i] for i in range(at, len(kept))]
            return sorted(events)

    # On disk -----------------------------------------------------------------------------------

    def write(self) -> None:
        """Make what is kept safe on disk."""
        with self._lock:
            kept = sorted(event for each in self._kept.values() for event in each)
            fresh = [event for event in kept if event.number > self._written]
            whole = self._lines + len(fresh) > 2 * len(kept) + 1_000
            whole = whole or self._damaged or not self._world.exists(self.path)
            head = json.dumps({"dropped": self.dropped}) + "\n"
        events = kept if whole else fresh
        text = head + "".join(_line(event) for event in events)
        if whole:
            self._world.write_whole(self.path, text.encode())
            self._lines, self._damaged = len(events), False
        else:
            self._world.append(self.path, text.encode())
            self._lines += len(events)
        self._written = max(self._written, *(event.number for event in fresh[-1:]), 0)


def _line(event: Event) -> str:
    event_fields = {"id": event.number, "name": event.name, "end": event.end, "answer": event.text}
    if event.revision is not None:
        event_fields |= {"revision": event.revision, "replaced": event.replaced}
    return json.dumps(event_fields) + "\n"


def _last(event: Event) -> Any:
    """What is greatest for the newest answer of a query."""
    return event.number if event.revision is None else event.order
