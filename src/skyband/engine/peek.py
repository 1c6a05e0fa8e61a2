"""What a query would answer right now, over the panes that are sealed, and where one id stands.

    cuts    0  1     3  4     6  7     9  10     size 8, slide 3; the watermark is at 11
    asked         ├───────────────────────┤      [2, 10) cannot be read: 2 is not a cut
    read             ├────────────────────┤      [3, 10) is what ``peek`` reads and reports

``end`` is the end of the last sealed pane, ``start`` the first cut at or after ``end - size``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband import registry
from skyband.answers.answer import Answers, Position
from skyband.answers.tables import answers_of
from skyband.contract.capabilities import IdRanking
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs
from skyband.data.columns import output_type
from skyband.data.keys import hash_columns
from skyband.engine.fold import Fold, Reader
from skyband.errors import EngineError, QueryError


def peek(fold: Fold | None, place: int, last: int | None) -> Answers:
    """The answer over the sealed panes of the last ``last`` ticks; by default the window's size.

    ``place`` says which of the fold's readers asks. The groups of a count window have their own
    windows, which their rows show. The answer as a whole then spans from the least start to the
    greatest end of all groups with a sealed pane, and its total is the sum over all groups.
    """
    fold = _started(fold)
    reader = fold.readers[place]
    _refuse_peek(reader, last)
    _refuse_unsealed(fold)
    windows = fold.clock.sealed_windows(reader.panes.size if last is None else last, fold.groups)
    finished = _finished(fold, reader, windows)
    starts = fold.panes.pane_start(windows.first)
    if not fold.panes.sized:
        starts = fold.panes.start_of(windows.end)
    edges = starts, fold.panes.pane_start(windows.end)
    answers = answers_of(reader.shape, finished, windows, edges, fold.totals.of(windows), {})
    return _as_one(answers, _last_answer(fold, reader))


def position(fold: Fold | None, place: int, id_: Any, group: Any) -> Position | None:
    """The position of an id in its group over the window that ``peek`` reads; None if not live."""
    fold = _started(fold)
    reader = fold.readers[place]
    ranking = fold.state
    if not isinstance(ranking, IdRanking):
        raise _no_positions(reader)
    _refuse_unsealed(fold)
    code = _group(fold, group)
    windows = fold.clock.sealed_windows(reader.panes.size, fold.groups)
    own = np.arange(len(windows))
    if windows.group is not None:
        own = np.flatnonzero(windows.group == code)
    if code < 0 or not len(own) or not fold.synopsis.ready:
        return None
    names = reader.query.key
    key = _columns("id", names, (id_,) if len(names) == 1 else id_, fold)
    if any(column.null_count for column in key):
        return None
    first, end = int(windows.first[own[0]]), int(windows.end[own[0]])
    found = ranking.position(first, end, code, key)
    return None if found is None else Position(*found)


# Refusals -----------------------------------------------------------------------------------------


def _started(fold: Fold | None) -> Fold:
    if fold is None:
        raise EngineError("there is no answer yet, because no batch has been pushed")
    return fold


def _refuse_peek(reader: Reader, last: int | None) -> None:
    """Raise EngineError if the algorithm keeps too little."""
    query, panes, synopsis = reader.query, reader.panes, reader.synopsis
    if last is not None and not panes.sized:
        raise EngineError(
            f"a {type(query.window).__name__} has no size, so there is no shorter window; "
            "leave out last="
        )
    shorter = last is not None and last < panes.size
    if synopsis.shortens if shorter else synopsis.peeks:
        return
    able_names = filter(query.answered_by, registry.algorithms(query.kind))
    classes = {name: registry.load(query.kind, name) for name in able_names}
    others = [n for n, c in classes.items() if c.exact and (c.shortens if shorter else c.peeks)]
    what = "for a window shorter than the query's" if shorter else "for peek"
    raise EngineError(
        f"{registry.choose(query)} keeps too little {what}; use "
        f"algorithm={' or '.join(map(repr, others))}"
    )


def _refuse_unsealed(fold: Fold) -> None:
    """Raise EngineError if no pane is sealed, because a source has sent no rows."""
    if not fold.clock.started:
        silent = [repr(name) for name, seen in fold.clock.seen.items() if seen is None and name]
        unseen = f"; there are no rows from {', '.join(silent)}" if silent else ""
        raise EngineError(f"there is no answer yet, because no pane has been sealed{unseen}")


def _no_positions(reader: Reader) -> EngineError:
    query: Any = reader.query
    kind, name = query.kind, registry.choose(query)
    if kind == "TopK" and query.distinct is not None:
        return EngineError(f"{name} keeps no positions; use a TimeWindow or a CountWindow")
    if kind == "TopK":
        return EngineError(
            f"{name} ranks rows, so an id has no position; use distinct='best' or distinct='latest'"
        )
    if kind == "HeavyHitters":
        return EngineError(f"{name} does not know the count of every item; use algorithm='exact'")
    return EngineError(
        f"{kind} does not know the position of every id; HeavyHitters(algorithm='exact') and "
        "TopK(distinct=...) do"
    )


# Reading ------------------------------------------------------------------------------------------


def _finished(fold: Fold, reader: Reader, windows: Windows) -> Runs | None:
    """The answer of each window, stamped with the window's position."""
    if fold.open.blank is None or not fold.synopsis.ready:
        return None
    groups = [None] * len(windows) if windows.group is None else windows.group.tolist()
    pieces = []
    edges = zip(windows.first.tolist(), windows.end.tolist(), groups, strict=True)
    for number, (first, end, group) in enumerate(edges):
        piece = fold.state.partial(first, end, group)
        if len(piece):
            pieces.append(piece.stamped(np.full(len(piece), number)))
    if not pieces:
        return None
    finished = reader.synopsis.finish([Runs.concat(pieces)]).ordered(windows.ranks)
    k = getattr(reader.query, "k", None)
    if k is None or k == getattr(fold.query, "k", None):
        return finished
    return finished.with_parts(rows=finished.parts["rows"].first_rows(k))


def _last_answer(fold: Fold, reader: Reader) -> dict[int, pa.Table]:
    """The last answers of all groups that have windows of their own, sorted by group, as one."""
    ranks, last = fold.groups.ranks, reader.last_tables
    if len(last) < 2:
        return dict(zip((0,), last.values(), strict=False))
    tables = [last[group] for group in sorted(last, key=lambda g: int(ranks[g]))]
    return {0: pa.concat_tables(tables)}


def _as_one(answers: Answers, last: dict[int, pa.Table]) -> Answers:
    """Merge all answers into one."""
    many = len(answers) > 0
    start, end = answers.start.min() if many else 0, answers.end.max() if many else 0
    bounds: dict[str, Any] = {
        name: value.max(keepdims=True) if isinstance(value, np.ndarray) else value
        for name, value in answers.bounds.items()
    }
    return Answers(
        answers.query, answers.table, np.array([start]), np.array([end]),
        np.array([0, answers.table.num_rows]), np.array([answers.exact.all()]), bounds,
        answers.total.sum(keepdims=True), None, last,
    )  # fmt: skip


def _group(fold: Fold, group: Any) -> int:
    """The code of a group; -1 if it is unknown."""
    names = fold.query.groups
    if not names:
        if group is not None and group != ():
            raise QueryError("the query has no groups; leave the group out")
        return 0
    if group == ():
        raise QueryError(f"the query has groups; pass the group too, by {', '.join(names)}")
    columns = _columns("group", names, group if isinstance(group, tuple) else (group,), fold)
    return int(fold.groups.index.find(hash_columns(columns))[0])


def _columns(role: str, names: Sequence[str], given: Any, fold: Fold) -> list[pa.Array]:
    """One row of columns with these values, in the types of the source."""
    if not isinstance(given, tuple) or len(given) != len(names):
        raise QueryError(f"the {role} must have {len(names)} values, for {', '.join(names)}")
    schema = next(iter(fold.synopsis.schemas.values()))
    columns = []
    for name, value in zip(names, given, strict=True):
        kind = output_type(schema.field(name).type)
        try:
            columns.append(pa.array([value], kind))
        except (pa.ArrowException, TypeError, OverflowError) as problem:
            raise QueryError(
                f"{value!r} cannot be a value of column {name!r}, which has type {kind}: {problem}"
            ) from problem
    return columns
