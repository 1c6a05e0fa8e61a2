"""Several queries over one stream: each of them answers as it does alone."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

import oracle
import skyband as sb
from fuzz import answers, streams

FIXED = ("algorithm", "options", "epsilon", "delta", "capacity", "cells", "ratio", "filter_bits")
"""Settings that belong to one algorithm; a variation of the query leaves the choice to Skyband."""


def case(rng: random.Random) -> Iterator[str]:
    """Push the same batches to a board and to a monitor for each of its queries."""
    drawn = streams.draw(rng, rng.choice((0.0, 0.0, 0.2)))
    if drawn.exact and rng.random() < 0.5:
        drawn.query = _default(drawn.query, {})  # most queries that share a fold have its algorithm
    board = {"first": drawn.query}
    for name in rng.sample(("a", "b", "ü", "🙂"), rng.choice((1, 1, 2, 3))):
        board[name] = _variation(rng, drawn)
    together = sb.Monitor(board, on_bad="skip")
    alone = {name: sb.Monitor(query, on_bad="skip") for name, query in board.items()}
    functions = streams.not_in_snapshots(drawn.query)
    changes = rng.random() < 0.3  # to compute them takes long
    for batch in streams.pushes(rng, drawn):
        tables = answers._tables(drawn, batch)
        wanted = {name: each.push(tables) for name, each in alone.items()}
        _compare(together.push(tables), wanted, changes)
        if not functions and rng.random() < 0.2:
            together = sb.Monitor.restore(together.snapshot())
        yield "boards"
    _compare(together.flush(), {name: each.flush() for name, each in alone.items()}, changes)
    stats = together.stats()
    for name, each in alone.items():
        mine, theirs = stats[name], each.stats()
        counts = [key for key in theirs if key.startswith("rows_")]
        assert {key: mine[key] for key in counts} == {key: theirs[key] for key in counts}, name


def _variation(rng: random.Random, drawn: streams.Drawn) -> sb.Query:
    """The query with another k and another window of the same kind.

    Often it differs in k and in the size of its window only: then one fold serves both.
    """
    query = drawn.query
    if rng.random() < 0.5:
        return _reader(rng, drawn)
    changed: dict[str, Any] = {}
    if hasattr(query, "k") and not query.options and rng.random() < 0.7:
        changed["k"] = rng.choice((1, 2, 4, 7))
    sized = isinstance(drawn.window, oracle.TimeWindow | oracle.CountWindow)
    several = drawn.several or drawn.kind == "FusedTopK"
    if sized and not several and rng.random() < 0.7:
        window = drawn.window
        count = isinstance(window, oracle.CountWindow)
        step = 1 if count else _step(window)
        other = streams.window_of(rng, step, count)
        integer = count or query.window.integer
        changed["window"] = streams.engine_window(rng, other, integer)
    if changed and rng.random() < 0.7 and drawn.exact:
        return _default(query, changed)
    capacity = getattr(query, "capacity", None)
    if capacity is not None:
        changed["k"] = min(changed.get("k", 1), capacity)
    return dataclasses.replace(query, **changed)


def _default(query: sb.Query, changed: dict[str, Any]) -> sb.Query:
    """The query by the algorithm that Skyband chooses, with some settings changed."""
    names = [field.name for field in dataclasses.fields(query) if field.name not in FIXED]
    return type(query)(**{name: getattr(query, name) for name in names} | changed)


def _reader(rng: random.Random, drawn: streams.Drawn) -> sb.Query:
    """The query with a window of another size, or with another k, or both."""
    query, window = drawn.query, drawn.window
    changed: dict[str, Any] = {}
    if isinstance(window, oracle.TimeWindow | oracle.CountWindow):
        slide = window.slide or window.size
        # Panes are cut alike if the sizes differ by slides. In a longer window, an object of
        # FusedTopK may report too often.
        more = (-2, -1, -1, 0) if drawn.kind == "FusedTopK" else (-2, -1, 0, 1, 1, 2, 5)
        sizes = [window.size + slides * slide for slides in more]
        size = rng.choice([size for size in sizes if size > 0])
        other = dataclasses.replace(window, size=size, slide=slide)
        count = isinstance(window, oracle.CountWindow)
        changed["window"] = streams.engine_window(rng, other, count or query.window.integer)
    if hasattr(query, "k") and not query.options and rng.random() < 0.7:
        most = getattr(query, "capacity", None) or 9
        changed["k"] = min(most, rng.choice((1, 2, 4, 9)))
    return dataclasses.replace(query, **changed)


def _step(window: oracle.TimeWindow) -> int:
    """The unit of a drawn window: what its size and its slide are multiples of."""
    for unit in (streams.DAY, 1_000_000, 1_000):
        if window.slide and window.slide % unit == 0:
            return unit
    return 1


def _compare(got: Any, want: dict[str, Any], changes: bool) -> None:
    """The answers of one push: query by query, each as it is alone."""
    names = [answer.name for answer in got]
    wanted = [name for name, each in want.items() for _ in each]
    assert names == wanted, f"answers of {names}, not of {wanted}"
    for mine, theirs in zip(got, (one for each in want.values() for one in each), strict=True):
        told = f"{mine.name!r}, the window ending {theirs.end}"
        edges = (mine.start, mine.end, mine.total, mine.exact)
        assert edges == (theirs.start, theirs.end, theirs.total, theirs.exact), told
        _equal(mine.table, theirs.table, told)
        if changes:
            _equal(mine.changes, theirs.changes, f"changes of {told}")


def _equal(mine: pa.Table, theirs: pa.Table, told: str) -> None:
    same = mine.equals(theirs) or str(mine.to_pylist()) == str(theirs.to_pylist())  # NaN
    assert same, f"{told}: {mine.to_pylist()}, not {theirs.to_pylist()}"
