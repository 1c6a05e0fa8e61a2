"""Settings, columns and batches that may make no sense: they work, or raise a SkybandError."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb
from fuzz import checks, streams, values

JUNK: tuple[Any, ...] = (
    None, "", "?", 0, -1, 1, 2, 1 << 70, 0.5, math.nan, math.inf, True, False, (), [],
    {}, ("a", "a"),
    {"a": 1}, {"a": "min"}, b"x", "10 minutes", "3 months", "1 s 2", "-5 s",
    "1e3 s", "9" * 30 + " d",
    dt.timedelta(0), dt.timedelta.max, np.int64(3), np.float32(1.5), "rank", "window_end", "score",
    "pt-k", "estimate", object, [None], ["", "x"], {"": 1}, "\x00", "🙂", dt.date(2020, 1, 1),
)  # fmt: skip
"""Values to try for any setting."""

ODD_TIMES = (
    (1 << 63) - 1, -(1 << 63), (1 << 63) - 2, 1 << 62, -(1 << 62), 0, 1,
    -1, 253_402_300_800_000_000,
)  # fmt: skip
"""Times at the limits of 64 bits, and the first that Python's own dates cannot represent."""


WINDOWS: dict[Any, tuple[tuple[str, ...], tuple[str, ...]]] = {
    sb.TimeWindow: (("size",), ("size", "slide", "lateness", "offset", "revise")),
    sb.CountWindow: (("size",), ("size", "slide")),
    sb.DecayWindow: (("half_life", "slide"), ("half_life", "slide", "lateness", "offset")),
    sb.LandmarkWindow: (("slide",), ("slide", "since", "lateness", "offset")),
}
"""What each window needs, and what it takes."""


def case(rng: random.Random) -> Iterator[str]:
    """Some changes to one query and its columns, which may not fit each other then."""
    drawn = streams.draw(rng, bad=rng.choice((0, 0, 0.2)))
    for _ in range(4):
        change = rng.choice((_settings, _settings, _window, _columns, _columns, _batches, _far))
        try:
            change(rng, drawn)
        except sb.SkybandError as error:
            said(error)
        yield "specs"


def said(error: sb.SkybandError) -> None:
    """Check that an error has a message."""
    assert str(error).strip()


def _settings(rng: random.Random, drawn: streams.Drawn) -> None:
    given = dict(drawn.settings)
    fields = dataclasses.fields(drawn.query)
    known = [field.name for field in fields if field.init and field.name != "window"]
    names = [*given, *known]
    for _ in range(rng.choice((1, 1, 2))):
        given[rng.choice(names)] = rng.choice(JUNK)
    window = drawn.query.window
    query = type(drawn.query)(window=window, **{n: v for n, v in given.items() if n in known})
    _through(rng, query, drawn)


def _window(rng: random.Random, drawn: streams.Drawn) -> None:
    build: Any = rng.choice((*WINDOWS, sb.TimeWindow, sb.CountWindow))
    needed, names = WINDOWS[build]
    usual = {name: rng.choice((3, "3 s")) for name in needed}
    chosen = {name: rng.choice((*JUNK, 3, 5, "2 s", "3 s")) for name in names if rng.random() < 0.6}
    window = build(**usual | chosen)
    settings = {n: v for n, v in drawn.settings.items() if n != "window"}
    query = type(drawn.query)(window=window, **settings)
    # A user may ask for windows of very many panes, which are slow; only run those with few.
    few = build is not sb.LandmarkWindow and window.panes.per_window < 1000
    if few and window.panes.slide >= 1 << 20:
        _through(rng, query, drawn)


def _columns(rng: random.Random, drawn: streams.Drawn) -> None:
    """A column of another type, with only nulls, missing, or present twice."""
    tables = {}
    for name, stream in drawn.sources.items():
        table = stream.table()
        at = rng.randrange(table.num_columns)
        if isinstance(drawn.query.window, sb.LandmarkWindow) and at == 0:
            continue  # other times may be days apart, and every slide between them is answered
        change = rng.choice(("type", "type", "type", "drop", "twice", "nulls", "rename"))
        column = table.schema.field(at).name
        if change == "drop":
            table = table.drop_columns([column])
        elif change == "twice":
            table = table.append_column(column, table.column(at))
        elif change == "nulls":
            kind = table.schema.field(at).type
            table = table.set_column(at, column, values.array([None] * table.num_rows, kind))
        elif change == "rename":
            other = rng.choice(("", "rank", "window_start", "count", "score", "topk_probability"))
            table = table.rename_columns(
                [*table.column_names[:at], other, *table.column_names[at + 1 :]]
            )
        else:
            table = table.set_column(at, column, _odd(rng, table.num_rows))
        tables[name] = table
    if len(tables) == len(drawn.sources):
        _run(rng, drawn.query, tables if drawn.several else tables[""])


def _odd(rng: random.Random, n: int) -> pa.Array:
    kind = rng.choice((*values.ODD_TYPES, *(k for k, _ in values.KEYS)))
    made: dict[str, Any] = {
        "list": [1, 2], "fixed_size_list": [1, 2], "struct": {"a": 1}, "map": [("a", 1)],
    }  # fmt: skip
    for prefix, value in made.items():
        if str(kind).startswith(prefix):
            return pa.array([value] * n, kind)
    known = dict(values.KEYS)
    if kind in known:
        return values.array([known[kind](rng) for _ in range(n)], kind)
    if pa.types.is_binary_view(kind) or pa.types.is_run_end_encoded(kind):
        return values.array(["a"] * n, kind) if n else pa.nulls(0, pa.string())
    if pa.types.is_dictionary(kind) or pa.types.is_floating(kind):
        return values.array([0.5] * n, kind)
    return pa.nulls(n, kind)


def _batches(rng: random.Random, drawn: streams.Drawn) -> None:
    """Batches that do not fit together, and objects that are not batches."""
    monitor = sb.Monitor(drawn.query, on_bad=rng.choice(("raise", "skip")))
    table = next(iter(drawn.sources.values())).table()
    other = next(iter(streams.draw(rng).sources.values())).table()
    odd: tuple[Any, ...] = (
        None, 3, "x", [1], {}, {"?": table}, {"": table}, table, other,
        table.slice(0, 0), other.to_batches(),
        pa.table({}), table.to_pandas() if rng.random() < 0.1 else table, pa.array([1, 2]),
        dict.fromkeys(drawn.sources, table), {"left": table}, table.select([]),
    )  # fmt: skip
    for _ in range(rng.choice((1, 2, 4))):
        try:
            monitor.push(rng.choice(odd))
        except sb.SkybandError as error:
            said(error)
        if monitor.session.fold is not None:
            monitor._check()
    monitor.flush()
    sb.Monitor.restore(monitor.snapshot(), **streams.not_in_snapshots(drawn.query)).flush()


def _far(rng: random.Random, drawn: streams.Drawn) -> None:
    """Times at the limits of 64 bits: answered or refused, in either case quickly."""
    size = rng.choice((1, 3, 1 << 40, 1 << 62, (1 << 63) - 1))
    slide = rng.choice((None, max(size // 3, 1), size))
    n = rng.choice((1, 2, 5))
    moment = rng.random() < 0.4
    kind = (
        rng.choice((pa.timestamp("us"), pa.timestamp("s"), pa.timestamp("ns")))
        if moment
        else pa.int64()
    )
    at = [rng.choice(ODD_TIMES) for _ in range(n)]
    time = pa.array(at, pa.int64()).cast(kind)
    window = (
        sb.TimeWindow(f"{size} us", slide and f"{slide} us")
        if moment
        else sb.TimeWindow(size, slide)
    )
    table = pa.table({"t": time, "x": [rng.choice((1.0, 2.0)) for _ in at]})
    queries = (
        sb.TopK(
            k=1, score="x", time="t", window=window, algorithm=rng.choice((None, "mintopk", "sma"))
        ),
        sb.HeavyHitters(k=1, item="x", time="t", window=window),
        sb.Skyline(prefer={"x": "min"}, time="t", window=window),
    )
    query = rng.choice(queries)
    answers = list(sb.watch(table, query))
    low, high = -(1 << 63), (1 << 63) - 1
    for answer in answers:
        if isinstance(answer.end, int) and answer.table.num_rows:
            assert low <= answer.start < answer.end <= high
            inside = [t for t in at if answer.start <= t < answer.end]
            assert answer.total == len(inside), f"[{answer.start}, {answer.end}) over {at}"
    if not moment:
        assert answers, "rows that no window shows"


def _through(rng: random.Random, query: sb.Query, drawn: streams.Drawn) -> None:
    tables = {name: stream.table() for name, stream in drawn.sources.items()}
    _run(rng, query, tables if drawn.several else tables[""])


def _run(rng: random.Random, query: sb.Query, source: Any) -> None:
    table = checks.rank(source, query, rng.choice(("raise", "skip")))
    assert isinstance(table, pa.Table)
    table.validate(full=True)
