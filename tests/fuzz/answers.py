"""A random query over a random stream: every answer is the oracle's, or within its own bounds."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

import oracle
import skyband as sb
from fuzz import streams

NEAR = 1e-9
AFTER_PUSH: list[Callable[[sb.Monitor, streams.Drawn], None]] = []
"""Checks that are called with the monitor after every push, for example one of ``peek``."""

Edges = tuple[int, int]
Rows = list[oracle.Row]


def case(rng: random.Random) -> None:
    """One query over one stream."""
    way = rng.choice((pushed, pushed, pushed, refused, ranked, watched))
    way(rng, streams.draw(rng, bad=0.0 if way in (pushed, watched) else rng.choice((0, 0.05, 0.3))))


# Ways to run a query ----------------------------------------------------------------------------


def pushed(rng: random.Random, drawn: streams.Drawn) -> None:
    """Push batch by batch, including late rows, and sometimes restore a snapshot."""
    batches = streams.pushes(rng, drawn)
    monitor = sb.Monitor(drawn.query)
    got = []
    for batch in batches:
        if rng.random() < 0.3:
            monitor = sb.Monitor.restore(monitor.snapshot())
        got += monitor.push(_tables(drawn, batch))
        monitor._check()
        for look in AFTER_PUSH:
            look(monitor, drawn)
    if rng.random() < 0.3:
        monitor = sb.Monitor.restore(monitor.snapshot())
    got += monitor.flush()
    want = _wanted(drawn, batches)
    _compare(drawn, got, want)
    stats = monitor.stats()
    assert stats["windows_out"] == len(got)
    for name in ("rows_in", "rows_late", "rows_unused"):
        assert stats[name] == getattr(want, name), f"{name}: {stats[name]}, not {want}"


def refused(rng: random.Random, drawn: streams.Drawn) -> None:
    """A batch with bad rows is refused as a whole and leaves no trace; its good rows are pushed."""
    batches = streams.pushes(rng, drawn)
    monitor = sb.Monitor(drawn.query)
    got = []
    for batch in batches:
        if not all(all(drawn.sources[name].good[a:b]) for name, (a, b) in batch.items()):
            with pytest.raises(sb.DataError, match="bad row"):
                monitor.push(_tables(drawn, batch))
        got += monitor.push(_tables(drawn, batch, only_good=True))
    got += monitor.flush()
    _compare(drawn, got, _wanted(drawn, batches))


def ranked(rng: random.Random, drawn: streams.Drawn) -> None:
    """Rank whole tables, which the engine sorts, and leave out bad rows."""
    source = {name: stream.table() for name, stream in drawn.sources.items()}
    bad = sum(not good for stream in drawn.sources.values() for good in stream.good)
    given = source if drawn.several else source[""]
    if bad:
        with pytest.raises(sb.DataError, match="bad row"):
            sb.rank(given, drawn.query)
    table = sb.rank(given, drawn.query, on_bad="skip")
    if drawn.exact:
        want = _sorted_run(drawn).table
        _same(drawn, streams.plain_rows(table), want, "all windows")


def watched(rng: random.Random, drawn: streams.Drawn) -> None:
    """Watch a source that gives batches in order of time."""
    if drawn.several or isinstance(drawn.window, oracle.CountWindow):
        return pushed(rng, drawn)
    name = drawn.settings["time"]
    stream = drawn.sources[""]
    stream.rows.sort(key=lambda row: row[name])
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
    _compare(drawn, list(sb.watch(rng.choice(shapes), drawn.query)), _sorted_run(drawn))
    return None


def _tables(
    drawn: streams.Drawn, batch: Mapping[str, Edges], only_good: bool = False
) -> pa.Table | dict[str, pa.Table]:
    found = {n: drawn.sources[n].table(a, b, only_good) for n, (a, b) in batch.items()}
    return found if drawn.several else found[""]


# What the oracle says ---------------------------------------------------------------------------


def _wanted(drawn: streams.Drawn, batches: Sequence[Mapping[str, Edges]]) -> oracle.Run:
    rows = [
        {n: _oracle_rows(drawn.sources[n].table(a, b, True)) for n, (a, b) in batch.items()}
        for batch in batches
    ]
    given: Any = rows if drawn.several else [batch[""] for batch in rows]
    return oracle.answers(drawn.kind, drawn.window, given, **drawn.settings)


def _sorted_run(drawn: streams.Drawn) -> oracle.Run:
    """The answers over all good rows, none of which is late; bad rows say how far time has come."""
    rows = {name: _with_bad(drawn, name) for name in drawn.sources}
    window: Any = drawn.window
    if isinstance(window, oracle.TimeWindow):
        window = oracle.TimeWindow(window.size, window.slide, 1 << 70, window.offset)
    given: Any = [rows] if drawn.several else [rows[""]]
    return oracle.answers(drawn.kind, window, given, **drawn.settings)


def _with_bad(drawn: streams.Drawn, name: str) -> Rows:
    """The rows of a source; the bad ones are marked, and left out if they have no time."""
    stream = drawn.sources[name]
    if isinstance(drawn.window, oracle.CountWindow):
        return _oracle_rows(stream.table(only_good=True))
    time = drawn.settings["time"]
    column = time if isinstance(time, str) else time[name]
    rows = zip(_oracle_rows(stream.table()), stream.good, strict=True)
    return [
        row if good else row | {oracle.BAD: True}
        for row, good in rows
        if good or row[column] != streams.LAST_NULL
    ]


def _oracle_rows(table: pa.Table) -> Rows:
    """The rows of a table; a null group becomes a value that sorts after all others."""
    return [
        {n: streams.LAST_NULL if v is None else v for n, v in row.items()}
        for row in streams.plain_rows(table)
    ]


# Comparing --------------------------------------------------------------------------------------


def _compare(drawn: streams.Drawn, got: list[sb.Answer], want: oracle.Run) -> None:
    """Compare answers; window edges are compared as instants, whatever their zone."""
    edges = [(_instant(answer.start), _instant(answer.end)) for answer in got]
    wanted = [(answer.start, answer.end) for answer in want.answers]
    assert edges == wanted, f"windows {edges}, not {wanted}"
    for mine, theirs in zip(got, want.answers, strict=True):
        table = streams.plain_rows(mine.table)
        where = f"the window ending {theirs.end}"
        assert mine.total == theirs.total, f"total of {where}: {mine.total}, not {theirs.total}"
        if drawn.exact or mine.exact:
            _same(drawn, table, theirs.table, where)
        else:
            _BOUNDS[drawn.kind](drawn, table, theirs)
        if drawn.exact:
            assert mine.exact
            changes = streams.plain_rows(mine.changes)
            _same(drawn, changes, theirs.changes, f"changes of {where}")


def _same(drawn: streams.Drawn, got: Rows, want: Rows, where: str) -> None:
    named = [{n: streams.LAST_NULL if _null(n, v) else v for n, v in row.items()} for row in got]
    problem = oracle.difference(named, want, oracle.SUMS[drawn.kind])
    assert problem is None, f"{where}: {problem}"


def _null(name: str, value: Any) -> bool:
    return value is None and name not in ("from_rank", "to_rank")


def _instant(value: Any) -> int:
    if isinstance(value, int):
        return value
    return int(pa.scalar(value).cast(pa.timestamp("us")).cast(pa.int64()).as_py())


def _group(drawn: streams.Drawn, row: oracle.Row) -> tuple[Any, ...]:
    found = (row[name] for name in drawn.query.groups)
    return tuple(streams.LAST_NULL if value is None else value for value in found)


def _everything(drawn: streams.Drawn, answer: oracle.Answer, **more: Any) -> oracle.Run:
    """The exact answers with changed settings, over the same good rows."""
    changed = drawn.settings | more
    return _sorted_run(streams.Drawn(drawn.kind, drawn.window, changed, drawn.query, drawn.sources))


def _counts(drawn: streams.Drawn, got: Rows, answer: oracle.Answer) -> None:
    """Every true count lies within [count - error, count]."""
    items = drawn.query.key
    k = drawn.settings["k"]
    for row in got:
        assert row["rank"] <= k
        assert row["count"] >= row["error"] >= 0, row
    known = {
        (_group(drawn, row), *(row[name] for name in items)): row["count"] for row in answer.table
    }
    for row in got:
        key = (_group(drawn, row), *(row[name] for name in items))
        if key in known:  # true counts are known only for the true first k
            low, high = row["count"] - row["error"], row["count"]
            true = known[key]
            slack = NEAR * max(1.0, abs(true))
            assert low - slack <= true <= high + slack, f"{row}: the true count is {true}"


def _scores(drawn: streams.Drawn, got: Rows, answer: oracle.Answer) -> None:
    """Each score is within epsilon of the true score of its rank."""
    score, epsilon = drawn.settings["score"], drawn.settings["epsilon"]
    assert len(got) == len(answer.table)
    for mine, theirs in zip(got, answer.table, strict=True):
        assert (_group(drawn, mine), mine["rank"]) == (_group(drawn, theirs), theirs["rank"])
        equal = mine[score] == theirs[score]  # the difference of two infinities is NaN
        near = equal or abs(mine[score] - theirs[score]) <= epsilon * (1 + NEAR)
        assert near, f"{mine}, but the true one is {theirs}"


def _fused(drawn: streams.Drawn, got: Rows, answer: oracle.Answer) -> None:
    """No score is above the best true score of its group: dropped reports only lower scores."""
    best: dict[Any, float] = {}
    for row in answer.table:
        best.setdefault(_group(drawn, row), row["score"])
    for row in got:
        assert row["score"] <= best[_group(drawn, row)] + NEAR, row


_BOUNDS: dict[str, Callable[[streams.Drawn, Rows, oracle.Answer], None]] = {
    "HeavyHitters": _counts,
    "TopK": _scores,
    "FusedTopK": _fused,
}
