"""The embedded engine: push rows, get answers."""

from __future__ import annotations

import time as wall_clock
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np

from skyband.answers.answer import Answer, Answers
from skyband.contract.synopsis import Faults
from skyband.data.packing import pack, schema_from_array, schema_to_array, unpack
from skyband.engine.fold import Fold, make_synopsis
from skyband.engine.groups import GroupTable
from skyband.engine.intake import Intake, Taken, as_table, refuse
from skyband.engine.peek import peek
from skyband.errors import DataError, EngineError, QueryError, SchemaError
from skyband.query import Query, from_spec
from skyband.window import Duration, TimeWindow, parse_duration

__all__ = ["Monitor"]

SNAPSHOT_VERSION = 1
ONLY = ""
"""The name of the source where there is only one."""


class Monitor:
    """Answers one query over rows that are pushed to it.

    An error leaves it as it was before the push. ``snapshot`` can be taken at any moment and
    restored in another process, where it goes on as if nothing had happened.

    >>> import pyarrow as pa, skyband as sb
    >>> query = sb.TopK(k=1, score="score", id="id", window=sb.CountWindow(3, slide=2))
    >>> monitor = sb.Monitor(query)
    >>> batch = pa.table({"id": ["a", "b", "c", "d"], "score": [3.0, 9.0, 5.0, 7.0]})
    >>> [answer.table["id"].to_pylist() for answer in monitor.push(batch)]
    [['b'], ['b']]
    """

    def __init__(
        self, query: Query, on_bad: str = "raise", idle: Duration | float | None = None
    ) -> None:
        if not isinstance(query, Query):
            raise QueryError(f"a Monitor takes a query such as sb.TopK(...), not {query!r}")
        if on_bad not in ("raise", "skip"):
            raise QueryError(f"on_bad must be 'raise' or 'skip', not {on_bad!r}")
        self.query = query
        self.on_bad = on_bad
        self.idle = _seconds(idle)
        self._raise_late = False
        self._synopsis = make_synopsis(query)
        self._intake = Intake(query, self._synopsis)
        self._fold: Fold | None = None
        self._several: bool | None = True if query.needs_mapping else None
        self._heard: dict[str, float] = {}
        self._rows = dict.fromkeys(("rows_in", "rows_late", "rows_bad", "rows_unused"), 0)

    # Pushing -----------------------------------------------------------------------------------

    def push(self, batch: Any) -> list[Answer]:
        """Take a batch (a mapping from source to batch for several streams); answer what is due."""
        answers = self._push(batch)
        return [] if answers is None else answers.views()

    def flush(self) -> list[Answer]:
        """The stream has ended: answer every window up to the first end after its last row."""
        answers = self._flush()
        return [] if answers is None else answers.views()

    def peek(self, last: Duration | None = None) -> Answer:
        """The answer as of now, over sealed panes; ``last`` asks for a shorter window.

        It is over ``[start, end)``: ``end`` is the end of the last sealed pane, ``start`` the first
        cut between panes at or after ``end - size``, or ``end - last``. Groups of a count window
        have windows of their own, which the columns ``window_start`` and ``window_end`` show; the
        answer's ``start`` is the least and its ``end`` the greatest of them, ``total`` their sum.
        """
        window = self.query.window
        size = None if last is None else window.ticks(last, "last")
        if size is not None and not 0 < size <= window.panes.size:
            raise QueryError(f"last must be positive and at most the window's size, not {last!r}")
        if self._fold is None:
            raise EngineError("there is nothing to see yet: no batch has been pushed")
        return Answer(peek(self._fold, size), 0)

    def _push(self, data: Any) -> Answers | None:
        batches = {source: as_table(batch) for source, batch in self._by_source(data).items()}
        taken = [
            self._intake.take(source, table)
            for source, table in batches.items()
            if not self._intake.says_nothing(source, table)
        ]
        if not taken:
            return None
        bad = 0
        for each in taken:
            if each.faults is not None:
                if self.on_bad == "raise":
                    refuse(each.faults)
                bad += each.faults.count
        fold = self._started(taken)
        with self._wholly(fold):
            self._rows["rows_bad"] += bad
            self._rows["rows_in"] += sum(each.rows_in for each in taken)
            if fold.counting:
                return self._count(fold, taken[0])
            return self._clock(fold, taken)

    @contextmanager
    def _wholly(self, fold: Fold) -> Iterator[None]:
        """Either all of it is done, or nothing."""
        mark, rows = fold.mark(), dict(self._rows)
        try:
            yield
        except BaseException:
            fold.rewind(mark)
            self._rows = rows
            raise

    def _count(self, fold: Fold, taken: Taken) -> Answers | None:
        rows, groups, before, unused = self._intake.place_counted(taken, fold.groups, fold.count)
        self._rows["rows_unused"] += unused
        if rows is not None:
            fold.take(self._synopsis.summarise(rows))
        return fold.advance_counts(groups, before)

    def _clock(self, fold: Fold, taken: list[Taken]) -> Answers | None:
        sealed = fold.time.sealed
        now = wall_clock.monotonic() if self.idle is not None else 0.0
        for each in taken:
            placed = self._intake.place(each, fold.groups, sealed)
            if placed.late:
                self._late(fold, placed.late, placed.latest_needed, each)
            self._rows["rows_unused"] += placed.unused
            if placed.rows is not None:
                fold.take(self._synopsis.summarise(placed.rows))
            if each.greatest is not None:
                fold.time.observe(each.source, each.greatest)
                self._heard[each.source] = now
        if self.idle is not None:
            self._drop_idle(fold, now)
        watermark = fold.time.mark()
        if watermark is None:
            return None
        return fold.advance(watermark)

    def _late(self, fold: Fold, count: int, least: int, taken: Taken) -> None:
        self._rows["rows_late"] += count
        if not self._raise_late or self.on_bad == "skip":
            return
        mark = fold.time.watermark
        assert mark is not None
        window = self.query.window
        assert isinstance(window, TimeWindow)
        needed = mark + window.lateness_ticks - least
        said = f"{needed}" if window.integer else f"'{_duration(needed)}'"
        where = f" of source {taken.source!r}" if taken.source else ""
        raise DataError(
            f"{count:,} row{'s' if count != 1 else ''}{where} came too late: their panes were "
            f"sealed already. A window with lateness={said} would take them; on_bad='skip' counts "
            "them and goes on; a single table is sorted for you"
        )

    def _drop_idle(self, fold: Fold, now: float) -> None:
        assert self.idle is not None
        for source in fold.time.seen:
            silent = now - self._heard.setdefault(source, now) > self.idle
            (fold.time.ignored.add if silent else fold.time.ignored.discard)(source)

    def _end_source(self, source: str) -> Answers | None:
        """A source of several is exhausted: it holds the others back no more."""
        if self._fold is None:
            return None
        with self._wholly(self._fold):
            self._fold.time.ignored.add(source)
            watermark = self._fold.time.mark()
            return None if watermark is None else self._fold.advance(watermark)

    def _flush(self) -> Answers | None:
        if self._fold is None or self._fold.counting:
            return None
        watermark = self._fold.time.final()
        if watermark is None:
            return None
        with self._wholly(self._fold):
            return self._fold.advance(watermark)

    def _by_source(self, data: Any) -> dict[str, Any]:
        several = isinstance(data, Mapping)
        names = self.query.sources
        if several and not names:
            raise SchemaError(
                f"{self.query.kind} over this window reads one source; push a batch, not a mapping"
            )
        if self._several is not None and several != self._several:
            wanted = f"a mapping such as {{{names[0]!r}: batch}}" if self._several else "one batch"
            raise SchemaError(f"this {self.query.kind} takes {wanted}")
        self._several = several
        if not several:
            return {ONLY: data}
        unknown = [name for name in data if name not in names]
        if unknown:
            raise SchemaError(f"unknown source {unknown[0]!r}; the query has {', '.join(names)}")
        return dict(data)

    def _started(self, taken: list[Taken]) -> Fold:
        if self._fold is None:
            schema = self._intake.bound[taken[0].source]
            self._fold = self._new_fold(GroupTable(self.query.groups, schema))
        return self._fold

    def _new_fold(self, groups: GroupTable) -> Fold:
        fold = Fold(self.query, self._synopsis, groups, self._judge)
        sources = self.query.sources if self._several else (ONLY,)
        fold.time.seen = dict.fromkeys(sources)
        return fold

    def _judge(self, faults: Faults) -> None:
        if self.on_bad == "raise":
            refuse(faults)
        self._rows["rows_bad"] += faults.count

    # State -------------------------------------------------------------------------------------

    def stats(self) -> dict[str, int | float]:
        """Rows read and left out, windows answered, what is retained and what it cost."""
        own = self._synopsis.stats()
        fold = self._fold
        state = int(own.get("state_bytes", 0)) + (0 if fold is None else fold.nbytes)
        out = 0 if fold is None else fold.windows_out
        return {**self._rows, "windows_out": out, **own, "state_bytes": state}

    def snapshot(self) -> bytes:
        """Everything needed to go on elsewhere, as bytes; never pickle."""
        header: dict[str, Any] = {
            "snapshot": SNAPSHOT_VERSION,
            "query": self.query.spec(),
            "fingerprint": self.query.fingerprint,
            "on_bad": self.on_bad,
            "idle": self.idle,
            "several": self._several,
            "raise_late": self._raise_late,
            "rows": self._rows,
            "sources": list(self._intake.bound),
            "fold": None,
        }
        arrays = {
            f"schema{i}": schema_to_array(schema)
            for i, schema in enumerate(self._intake.bound.values())
        }
        if self._fold is not None:
            header["fold"], found = self._fold.snapshot()
            arrays |= {f"fold/{name}": value for name, value in found.items()}
        return pack(header, arrays)

    @classmethod
    def restore(cls, blob: bytes, **given: Any) -> Monitor:
        """Go on from a snapshot.

        ``given`` is what it cannot hold: ``combine=`` a function, the same that the snapshot was
        taken with. Snapshots of 0.1 remember only that there was one, so any is taken.
        """
        header: Any
        header, arrays = unpack(blob)
        if header.get("snapshot") != SNAPSHOT_VERSION:
            raise EngineError(
                f"this snapshot has version {header.get('snapshot')}, this Skyband reads version "
                f"{SNAPSHOT_VERSION}; restore it with the version that wrote it"
            )
        query = from_spec(header["query"], **given)
        monitor = cls(query, on_bad=header["on_bad"], idle=header["idle"])
        monitor._several = header["several"]
        monitor._raise_late = header["raise_late"]
        monitor._rows = dict(header["rows"])
        for i, source in enumerate(header["sources"]):
            monitor._intake.bind(source, schema_from_array(arrays[f"schema{i}"]))
        if header["fold"] is not None:
            schema = monitor._intake.bound[header["sources"][0]]
            fold = monitor._new_fold(GroupTable(query.groups, schema))
            own = {name[5:]: value for name, value in arrays.items() if name.startswith("fold/")}
            fold.restore(header["fold"], own)
            monitor._fold = fold
        return monitor

    def _check(self) -> None:
        """Assert every invariant; only tests call it."""
        self._synopsis._check()


def _seconds(idle: Duration | float | None) -> float | None:
    if idle is None:
        return None
    seconds = (
        parse_duration(idle, "idle") / 1e6 if isinstance(idle, (str, timedelta)) else float(idle)
    )
    if not np.isfinite(seconds) or seconds <= 0:
        raise QueryError(f"idle must be a positive duration, not {idle!r}")
    return seconds


def _duration(microseconds: int) -> str:
    for unit, size in (("seconds", 1_000_000), ("ms", 1_000)):
        if microseconds % size == 0:
            return f"{microseconds // size} {unit}"
    return f"{microseconds} us"
