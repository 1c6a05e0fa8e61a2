"""What a query would answer right now, over the panes that are sealed.

    cuts    0  1     3  4     6  7     9  10     size 8, slide 3; the watermark is at 11
    asked         ├───────────────────────┤      [2, 10) cannot be read: 2 is not a cut
    read             ├────────────────────┤      [3, 10) is what ``peek`` reads and reports

``end`` is the end of the last sealed pane, ``start`` the first cut at or after ``end - size``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband import registry
from skyband.answers.answer import Answers
from skyband.answers.tables import answers_of
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs
from skyband.engine.fold import Fold
from skyband.errors import EngineError

__all__ = ["nothing_sealed", "peek", "sealed_windows"]


def peek(fold: Fold, last: int | None) -> Answers:
    """The answer over the sealed panes of the last ``last`` ticks; by default the window's size.

    The groups of a count window have their own windows, which their rows show. The answer as a
    whole then spans from the least start to the greatest end of all groups with a sealed pane, and
    its total is the sum over all groups.
    """
    _refuse(fold, last)
    windows = sealed_windows(fold, fold.panes.size if last is None else last)
    finished = _finished(fold, windows)
    starts = fold.panes.pane_start(windows.first)
    if not fold.panes.sized:
        starts = fold.panes.start_of(windows.end)
    edges = starts, fold.panes.pane_start(windows.end)
    found = answers_of(fold.shape, finished, windows, edges, fold.totals.of(windows), {})
    return _together(found, _before(fold))


def _refuse(fold: Fold, last: int | None) -> None:
    """Raise EngineError if the algorithm keeps too little, or if no pane is sealed."""
    if last is not None and not fold.panes.sized:
        raise EngineError(
            f"a {type(fold.query.window).__name__} has no size, so there is no shorter window: "
            "leave out last="
        )
    shorter = last is not None and last < fold.panes.size
    able = fold.synopsis.shortens if shorter else fold.synopsis.peeks
    if not able:
        kind, name = fold.query.kind, registry.choose(fold.query)
        able_names = filter(fold.query.answered_by, registry.algorithms(kind))
        classes = {other: registry.load(kind, other) for other in able_names}
        others = [n for n, c in classes.items() if c.exact and (c.shortens if shorter else c.peeks)]
        what = "for a window shorter than the query's" if shorter else "for peek"
        raise EngineError(
            f"{name} keeps too little {what}; use algorithm={' or '.join(map(repr, others))}"
        )
    nothing_sealed(fold)


def nothing_sealed(fold: Fold) -> None:
    """Raise EngineError if no pane is sealed, because a source has sent no rows."""
    if not fold.counting and fold.time.watermark is None:
        silent = [repr(name) for name, seen in fold.time.seen.items() if seen is None and name]
        unseen = f"; there are no rows from {', '.join(silent)}" if silent else ""
        raise EngineError(f"there is nothing to see yet: no pane has been sealed{unseen}")


def sealed_windows(fold: Fold, size: int) -> Windows:
    """The windows to read: one, or for a count window one per group, sorted by group."""
    panes, ranks, group = fold.panes, fold.groups.ranks, None
    if fold.counting:
        fold.count.reserve(fold.groups.bound)  # groups of a push that failed are known, too
        codes = fold.groups.live
        codes = codes[np.argsort(ranks[codes], kind="stable")]
        end = panes.pane_of(fold.count.counts[codes])
        codes, end = codes[end > 0], end[end > 0]
        start = np.maximum(panes.pane_start(end) - size, 0)
        group = codes.astype(np.int32) if fold.groups.names else None
    else:
        end = np.full(1, fold.time.sealed)
        if not panes.sized:
            return Windows(np.zeros(1, np.int64), panes.first_pane(end), end, ranks)
        start = panes.pane_start(end) - size
    first = np.asarray(panes.pane_of(start - 1) + 1)
    if group is not None and (first < fold.peeks_from(group)).any():
        raise EngineError(
            "this monitor was restored from a snapshot of version 0.1, which holds less than peek "
            "needs: try again when every group has filled a window since then, or start a new "
            "monitor"
        )
    return Windows(np.arange(len(first)), first, end, ranks, group)


def _finished(fold: Fold, windows: Windows) -> Runs | None:
    """The answer of each window, stamped with the window's position."""
    if fold.open.blank is None or not fold.synopsis.ready:
        return None
    groups = [None] * len(windows) if windows.group is None else windows.group.tolist()
    found = []
    edges = zip(windows.first.tolist(), windows.end.tolist(), groups, strict=True)
    for number, (first, end, group) in enumerate(edges):
        piece = fold.synopsis.partial(first, end, group)
        if len(piece):
            found.append(piece.stamped(np.full(len(piece), number)))
    return fold.synopsis.finish([Runs.concat(found)]).ordered(windows.ranks) if found else None


def _before(fold: Fold) -> dict[int, pa.Table]:
    """The last answer; for a count window, the last answers of all groups, sorted by group."""
    if not fold.groups.names or not fold.counting:
        return fold.before
    ranks = fold.groups.ranks
    tables = [fold.before[group] for group in sorted(fold.before, key=lambda g: int(ranks[g]))]
    return {0: pa.concat_tables(tables)} if tables else {}


def _together(found: Answers, before: dict[int, pa.Table]) -> Answers:
    """Merge all answers into one."""
    many = len(found) > 0
    start, end = found.start.min() if many else 0, found.end.max() if many else 0
    bounds: dict[str, Any] = {
        name: value.max(keepdims=True) if isinstance(value, np.ndarray) else value
        for name, value in found.bounds.items()
    }
    return Answers(
        found.query, found.table, np.array([start]), np.array([end]),
        np.array([0, found.table.num_rows]), np.array([found.exact.all()]), bounds,
        found.total.sum(keepdims=True), None, before,
    )  # fmt: skip
