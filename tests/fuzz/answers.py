"""A random query over a random stream, through Monitor, rank and watch."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

import oracle
import skyband as sb
from fuzz import checks, streams
from fuzz.checks import Rows
from skyband import registry
from support.sending import marked_rows

Edges = tuple[int, int]
Batches = Sequence[Mapping[str, Edges]]


def case(rng: random.Random) -> Iterator[str]:
    """One query over one stream; in every second stream some rows are bad."""
    way = rng.choice((pushed, pushed, pushed, pushed, ranked, watched))
    bad = 0.0 if way is watched else rng.choice((0.0, 0.0, 0.1, 0.4))
    yield from way(rng, streams.draw(rng, bad))


# Ways to run a query ----------------------------------------------------------------------------


def pushed(rng: random.Random, drawn: streams.Drawn) -> Iterator[str]:
    """Push batch by batch, including late and bad rows; peek and restore snapshots in between.

    Bad rows are skipped; or else their batch is refused as a whole and leaves no trace, and then
    its good rows are pushed.
    """
    batches = streams.pushes(rng, drawn)
    skip = rng.random() < 0.5
    monitor = sb.Monitor(drawn.query, on_bad="skip" if skip else "raise")
    rows = _given(drawn, batches, with_bad=skip)
    truth = checks.Truth(drawn, rows, with_changes=rng.random() < 0.3)
    for number, batch in enumerate(batches):
        if rng.random() < 0.1:
            monitor = _restored(monitor)
        if not skip and any(not all(drawn.sources[n].good[a:b]) for n, (a, b) in batch.items()):
            _refuse("bad row", monitor.push, _tables(drawn, batch))
            yield "batches"
        truth.check(monitor.push(_tables(drawn, batch, only_good=not skip)), number)
        if rng.random() < 0.3:
            monitor._check()
        if rng.random() < 0.2:
            _peek(rng, monitor, truth, number + 1)
        yield "batches"
    if rng.random() < 0.2:
        monitor = _restored(monitor)
    truth.check(monitor.flush(), None)
    if rng.random() < 0.2:
        _peek(rng, monitor, truth, len(batches) + 1)
    bad = sum(not good for stream in drawn.sources.values() for good in stream.good) if skip else 0
    truth.check_counts(monitor.stats(), bad)


def ranked(rng: random.Random, drawn: streams.Drawn) -> Iterator[str]:
    """Rank whole tables, which the engine sorts, and leave out bad rows."""
    source = {name: stream.table() for name, stream in drawn.sources.items()}
    given: Any = source if drawn.several else source[""]
    if not all(all(stream.good) for stream in drawn.sources.values()):
        _refuse("bad row", sb.rank, given, drawn.query)
        yield "tables"
    truth = checks.Truth(drawn, _whole(drawn), with_changes=False, none_is_late=True)
    truth.check_table(checks.rank(given, drawn.query, "skip"))
    yield "tables"


def watched(rng: random.Random, drawn: streams.Drawn) -> Iterator[str]:
    """Watch a source that gives batches in order of time."""
    if drawn.several or isinstance(drawn.window, oracle.CountWindow):
        yield from pushed(rng, drawn)
        return
    name = drawn.settings["time"]
    stream = drawn.sources[""]
    stream.sort(name)
    table = stream.table()
    pieces = [table.slice(a, b - a) for a, b in streams.cuts(rng, len(stream.rows))]
    shapes: list[Any] = [
        pieces,
        iter(pieces),
        pa.RecordBatchReader.from_batches(
            table.schema, (b for t in pieces for b in t.to_batches())
        ),
        [piece.to_batches() for piece in pieces],
    ]
    truth = checks.Truth(drawn, _whole(drawn), with_changes=True, none_is_late=True)
    truth.check_all(list(sb.watch(rng.choice(shapes), drawn.query)))
    yield "tables"


def _peek(rng: random.Random, monitor: sb.Monitor, truth: checks.Truth, pushes: int) -> None:
    """Compare what ``peek`` shows, sometimes of a shorter window."""
    query, window = truth.drawn.query, truth.drawn.window
    model = registry.load(query.kind, registry.choose(query))
    sized = isinstance(window, oracle.TimeWindow | oracle.CountWindow)
    last = rng.randint(1, window.size) if sized and rng.random() < 0.5 else None
    plain = isinstance(window, oracle.CountWindow) or query.window.integer
    asked = last if last is None or plain else streams.duration(rng, last)
    shorter = last is not None and last < window.size
    if not (model.shortens if shorter else model.peeks):
        _refuse("keeps too little", monitor.peek, asked)
        return
    wanted = truth.peek(pushes, last)
    if wanted is None:
        _refuse("there is no answer yet", monitor.peek, asked)
    else:
        truth.compare([monitor.peek(last=asked)], [wanted])


def _refuse(message: str, call: Callable[..., Any], *given: Any) -> None:
    """Assert that a call is refused with this message."""
    try:
        call(*given)
    except (sb.DataError, sb.EngineError) as error:
        assert re.search(message, str(error)), f"{message!r} is not in {str(error)!r}"  # noqa: PT017
    else:
        raise AssertionError(f"it was not refused with {message!r}")


def _restored(monitor: sb.Monitor) -> sb.Monitor:
    """A monitor from the snapshot of another; a user's function is not part of it."""
    return sb.Monitor.restore(monitor.snapshot(), **streams.not_in_snapshots(monitor.query))


# Rows -------------------------------------------------------------------------------------------


def _tables(
    drawn: streams.Drawn, batch: Mapping[str, Edges], only_good: bool = False
) -> pa.Table | dict[str, pa.Table]:
    found = {n: drawn.sources[n].table(a, b, only_good) for n, (a, b) in batch.items()}
    return found if drawn.several else found[""]


def _given(drawn: streams.Drawn, batches: Batches, with_bad: bool) -> list[Any]:
    """The rows of each push for the oracle."""
    rows = {name: _marked(drawn, name, with_bad) for name in drawn.sources}
    found = [
        {n: [row for row in rows[n][a:b] if row is not None] for n, (a, b) in batch.items()}
        for batch in batches
    ]
    return found if drawn.several else [batch[""] for batch in found]


def _whole(drawn: streams.Drawn) -> list[Any]:
    """All rows of all sources as one push for the oracle."""
    everything = {name: (0, len(stream.rows)) for name, stream in drawn.sources.items()}
    return _given(drawn, [everything], with_bad=True)


def _marked(drawn: streams.Drawn, name: str, with_bad: bool) -> list[oracle.Row | None]:
    """The rows of a source; None for those that the oracle does not see.

    Bad rows are only marked if they have a time, since they then move the watermark.
    """
    stream = drawn.sources[name]
    time = drawn.settings.get("time", "")
    column = time if isinstance(time, str) else time[name]
    moves = with_bad and not isinstance(drawn.window, oracle.CountWindow)
    found: list[oracle.Row | None] = []
    keep = drawn.settings.get("keep", ())
    rows: Rows = marked_rows(checks.oracle_rows(stream.table()), stream.table(), keep)
    for row, good in zip(rows, stream.good, strict=True):
        timed = moves and row[column] != streams.LAST_NULL
        found.append(row if good else row | {oracle.BAD: True} if timed else None)
    return found
