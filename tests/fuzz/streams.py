"""A random query with a stream that it can read, as Arrow tables and as the oracle's rows."""

from __future__ import annotations

import dataclasses
import datetime as dt
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

import oracle
import skyband as sb
from fuzz import asks, queries, values
from fuzz.values import Column
from skyband import registry

DAY = 86_400_000_000
LAST_NULL = "\U0010ffff"
"""Stands for a null group in the oracle: null groups come after all others."""

TIMES: tuple[tuple[pa.DataType, int], ...] = (
    *((kind, 1) for kind in values.INTEGERS),
    *((pa.int64(), 1) for _ in range(10)),
    *((pa.timestamp("us"), 1) for _ in range(4)),
    (pa.timestamp("us", tz="UTC"), 1),
    (pa.timestamp("us", tz="America/New_York"), 1),
    (pa.timestamp("ns"), 1),
    (pa.timestamp("ms", tz="UTC"), 1_000),
    (pa.timestamp("s"), 1_000_000),
    (pa.date32(), DAY),
)
"""Types of a time column, each with the step between its values in ticks of the window."""

STARTS = (
    0,
    0,
    0,
    -10,
    1_000_000,
    1_700_000_000_000_000,
    -62_000_000_000_000_000,
    1 << 53,
    -(1 << 61),
)


@dataclass
class Stream:
    """Rows of one source in order of arrival; some are bad."""

    columns: dict[str, Column]
    rows: list[oracle.Row]
    good: list[bool] = field(default_factory=list)
    sliced: bool = True
    """Whether batches are slices of one table, or tables of their own."""

    def table(self, start: int = 0, end: int | None = None, only_good: bool = False) -> pa.Table:
        end = len(self.rows) if end is None else end
        every = range(start, end)
        chosen = [n for n in every if self.good[n]] if only_good else every
        if self.sliced and len(chosen) == len(every):
            return self.whole.slice(start, end - start)
        return self._made([self.rows[n] for n in chosen])

    @cached_property
    def whole(self) -> pa.Table:
        return self._made(self.rows)

    def leave_out(self, settings: dict[str, Any], time: str) -> None:
        """A row that ``where`` leaves out is not judged, unless its time cannot be read."""
        self.good = [
            good or (not asks.counts(row, settings) and row.get(time, 0) is not None)
            for row, good in zip(self.rows, self.good, strict=True)
        ]

    def sort(self, name: str) -> None:
        """Sort all rows, which must be good, by a column."""
        self.rows.sort(key=lambda row: row[name])
        self.__dict__.pop("whole", None)

    def _made(self, rows: list[oracle.Row]) -> pa.Table:
        return pa.table({
            name: values.array([row[name] for row in rows], column.kind)
            for name, column in self.columns.items()
        })  # fmt: skip


@dataclass
class Drawn:
    """A query, and what it reads."""

    kind: str
    window: Any
    """One of the oracle's windows."""
    settings: dict[str, Any]
    query: sb.Query
    sources: dict[str, Stream]
    """By name; if there is a single table, its name is ""."""

    @property
    def several(self) -> bool:
        return "" not in self.sources

    @cached_property
    def exact(self) -> bool:
        algorithm = registry.choose(self.query)
        if algorithm == "eaa" and self.settings["recurrences"] == "estimate":
            return False  # it keeps too little if the estimate is too low
        return bool(registry.load(self.kind, algorithm).exact)


def plain_rows(table: pa.Table) -> list[oracle.Row]:
    """A table as rows for the oracle: every time an integer, in microseconds."""
    columns = {}
    for column in table.schema:
        found = table[column.name]
        if pa.types.is_date32(column.type):
            found = found.cast(pa.timestamp("s"))
        if pa.types.is_timestamp(found.type):
            found = found.cast(pa.timestamp("us")).cast(pa.int64())
        columns[column.name] = found.to_pylist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


# Windows and times ------------------------------------------------------------------------------


def window_of(rng: random.Random, step: int, count: bool) -> Any:
    """Sliding, tumbling and hopping windows; slide may or may not divide size."""
    size = rng.choice((1, 2, 3, 5, 8, 12, 30))
    slide = rng.choice((None, 2, 3, 4, 7, 12, size, 1 if size < 12 else 5))
    if count:
        return oracle.CountWindow(size, slide)
    odd = rng.choice((0, 0, 1)) if step > 1 else 0  # pane starts that no time in the column hits
    shift = rng.choice((0, 0, -3, 1, 10**6)) * step
    late = rng.choice((0, 0, 0, 2, 6)) * step
    revise = rng.choice((None, None, None, 1, 4, 60))
    revise = revise and revise * step
    return oracle.TimeWindow(size * step + odd, slide and slide * step, late, shift, revise)


def engine_window(rng: random.Random, window: Any, integer: bool) -> Any:
    """The engine's window, with durations written in a random one of the accepted forms."""
    if isinstance(window, oracle.CountWindow):
        return sb.CountWindow(window.size, window.slide)
    given = dataclasses.asdict(window)
    if not integer:
        given = {n: v if v is None else duration(rng, v) for n, v in given.items()}
    return getattr(sb, type(window).__name__)(**given)


def duration(rng: random.Random, ticks: int) -> Any:
    if rng.random() < 0.3:
        return dt.timedelta(microseconds=ticks)
    units = [("us", 1), ("ms", 1_000), ("seconds", 1_000_000), ("hour", 3_600_000_000), ("d", DAY)]
    name, size = rng.choice([unit for unit in units if ticks % unit[1] == 0])
    return f"{ticks // size} {name}"


def moments(
    rng: random.Random, n: int, kind: pa.DataType, step: int, late: int, gaps: bool = True
) -> list[int]:
    """Times in order of arrival, mostly ascending; some are behind by up to about twice `late`."""
    now = rng.choice(STARTS) // step * step
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        least = 1 << 52 if kind == pa.timestamp("ns") else 1 << 60  # what the type can hold
        now = now if abs(now) < least else 0
    far = 10**6 * step if gaps and rng.random() < 0.2 else 40 * step
    found = []
    for _ in range(n):
        now += rng.choice(
            (0, 0, step, 2 * step, 3 * step, 7 * step, far if rng.random() < 0.1 else 0)
        )
        behind = rng.choice((0, 0, rng.randint(0, 2 * (late // step + 1)))) * step
        found.append(now - behind)
    if pa.types.is_integer(kind):
        low, high = values.limits(kind)
        if found and not (low <= min(found) and max(found) <= min(high, (1 << 63) - 1)):
            least = min(found)
            found = [min(t - least + max(low, 0), high) for t in found]
    return found


# Queries ----------------------------------------------------------------------------------------


def draw(rng: random.Random, bad: float = 0.0) -> Drawn:
    """A query with a stream; each row is bad with probability ``bad``."""
    kind = rng.choice(list(queries.CHOICES))
    several = kind == "SkylineJoin" or (kind == "FusedTopK" and rng.random() < 0.3)
    count = not several and rng.random() < 0.3
    time_kind, step = rng.choice(TIMES)
    window = window_of(rng, step, count)
    taken: set[str] = set()
    names = {"time": values.name(rng, taken)}
    columns = {names["time"]: Column(time_kind, lambda rng: 0, (None,))}
    settings, shapes = queries.SHAPES[kind](rng, columns, taken, several)
    integer = pa.types.is_integer(time_kind)
    free = None in queries.CHOICES[kind]  # else it is about the named algorithms alone
    if free and kind in asks.UNSIZED and not count and rng.random() < 0.15:
        window = asks.unsized_window(rng, kind, step, integer)
        asks.fit(rng, window, settings, columns)
    if free and not isinstance(window, oracle.DecayWindow):
        asks.add(rng, kind, settings, shapes, taken)
    if not count:
        settings["time"] = names["time"]
    elif rng.random() < 0.5:
        columns.pop(names["time"])
    else:
        columns[names["time"]].bad = ()
        if kind in ("TopK", "UncertainTopK") and rng.random() < 0.5:
            settings["time"] = names["time"]
            columns[names["time"]].bad = (None,)
    sources = {
        name: _rows(rng, shape, names["time"], time_kind, step, window, bad)
        for name, shape in shapes.items()
    }
    for stream in sources.values():
        stream.leave_out(settings, names["time"])
    limited = settings.get("repeats", "sum") == "sum" or settings["recurrences"] != 1
    if kind == "FusedTopK" and limited and settings["recurrences"] != "estimate":
        _thin(sources, settings, window, names["time"])
    build = getattr(sb, kind)
    query = build(window=engine_window(rng, window, integer), **settings)
    return Drawn(kind, window, settings, query, sources)


def _rows(
    rng: random.Random,
    columns: dict[str, Column],
    time: str,
    kind: pa.DataType,
    step: int,
    window: Any,
    bad: float,
) -> Stream:
    n = rng.choice((0, 1, 2, 5, 9, 9, 14, 25))
    gaps = not isinstance(window, oracle.LandmarkWindow)  # which answers every slide in between
    at = moments(rng, n, kind, step, getattr(window, "lateness", 0), gaps)
    rows, good = [], []
    spoilable = [name for name, column in columns.items() if column.bad]
    for moment in at:
        row = {
            name: moment if name == time else column.make(rng) for name, column in columns.items()
        }
        fine = not spoilable or rng.random() >= bad
        if not fine:
            name = rng.choice(spoilable)
            row[name] = rng.choice(columns[name].bad)
        rows.append(row)
        good.append(fine)
    return Stream(columns, rows, good, sliced=rng.random() < 0.8)


def not_in_snapshots(query: sb.Query) -> dict[str, Any]:
    """What ``restore`` has to be given: a user's own function."""
    combine = getattr(query, "combine", None)
    return {"combine": combine} if callable(combine) else {}


def _thin(sources: dict[str, Stream], settings: dict[str, Any], window: Any, time: str) -> None:
    """Leave out good reports so that no window has more than ``recurrences`` of an object.

    With ``returns=False`` an object has only so many in all.
    """
    counted = isinstance(window, oracle.CountWindow)
    once = not settings["returns"]
    for name, stream in sources.items():
        told: dict[Any, list[int]] = {}
        arrivals: dict[Any, int] = {}
        kept = []
        for number, (row, good) in enumerate(zip(stream.rows, stream.good, strict=True)):
            group = tuple(row[column] for column in settings["by"])
            place = arrivals.get(group, 0) if counted else row[time]
            if good and asks.counts(row, settings):
                report = (group, row[settings["id"]], name or row[settings["stream"]])
                earlier = told.setdefault(report, [])
                near = sum(abs(at - place) < window.size or once for at in earlier)
                if near >= settings["recurrences"]:
                    continue
                earlier.append(place)
                arrivals[group] = arrivals.get(group, 0) + 1
            kept.append(number)
        stream.rows = [stream.rows[n] for n in kept]
        stream.good = [stream.good[n] for n in kept]


def cuts(rng: random.Random, n: int) -> list[tuple[int, int]]:
    """Cut n rows into random batches, some of them empty."""
    inner = sorted(rng.randint(0, n) for _ in range(rng.choice((0, 2, 4, 8, n))))
    return list(zip((0, *inner), (*inner, n), strict=True))


def pushes(rng: random.Random, drawn: Drawn) -> list[Mapping[str, tuple[int, int]]]:
    """The batches of all sources in random order, each a range of a source's rows."""
    found: list[Mapping[str, tuple[int, int]]] = []
    left = {name: cuts(rng, len(stream.rows)) for name, stream in drawn.sources.items()}
    while any(left.values()):
        ready = [name for name, batches in left.items() if batches]
        some = rng.sample(ready, rng.randint(1, len(ready)))
        found.append({name: left[name].pop(0) for name in some})
    return found
