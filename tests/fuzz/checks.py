"""Answers of the engine compared with those of the oracle."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

import oracle
import skyband as sb
from fuzz import streams
from oracle.driver import ONLY_FOR_ALGORITHMS, prepared
from oracle.peeking import peek_counted, peek_timed
from support.results import same_total

NEAR = 1e-9
ALL = 10**6
"""A k that no window reaches."""
FORGETFUL = ("fsw", "fsw-r", "fsw-f")
"""Sketches that may have no item left: the filter kept the new ones out, and the others expired."""
NULLS = ("window_start", "from_rank", "to_rank")
"""Columns in which a null is an answer, not a group."""
EPOCH = dt.datetime(1970, 1, 1)
TICK = dt.timedelta(microseconds=1)

Rows = list[oracle.Row]


def rank(source: Any, query: sb.Query, on_bad: Any) -> pa.Table:
    """``sb.rank`` without its warning: rows are bad on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.SkybandWarning)
        return sb.rank(source, query, on_bad=on_bad)


class Truth:
    """What the oracle says about one query over some pushes.

    For an approximate algorithm the oracle is asked for all items or objects, not only k: its
    first k are the true answer, the others are needed to check bounds.
    """

    def __init__(
        self,
        drawn: streams.Drawn,
        pushes: list[Any],
        with_changes: bool,
        none_is_late: bool = False,
    ) -> None:
        self.drawn = drawn
        self.pushes = pushes
        self.with_changes = with_changes and drawn.exact
        self.window: Any = drawn.window
        if none_is_late and not isinstance(self.window, oracle.CountWindow):
            self.window = dataclasses.replace(self.window, lateness=1 << 70)
        self.settings = drawn.settings if drawn.exact else drawn.settings | {"k": ALL}
        self.run = oracle.answers(drawn.kind, self.window, pushes, **self.settings)
        self.due: dict[int | None, list[oracle.Answer]] = {}
        for answer in self.run.answers:
            self.due.setdefault(answer.push, []).append(answer)

    def check(self, got: Sequence[sb.Answer], push: int | None) -> None:
        """Compare the answers after a push; None stands for the end of the input."""
        self.compare(got, self.due.get(push, []))

    def check_all(self, got: Sequence[sb.Answer]) -> None:
        """Compare all answers of a run."""
        self.compare(got, self.run.answers)

    def check_table(self, table: pa.Table) -> None:
        """Compare the table of all answers, which does not say which of them are exact."""
        got = plain(table)
        if self.drawn.exact:
            _same(self.drawn.kind, got, self.run.table, "all windows")
            return
        found = _by(got, ("window_end",))
        truth = _by(self.run.table, ("window_end",))
        some = self.drawn.query.algorithm in FORGETFUL
        same = found.keys() <= truth.keys() if some else found.keys() == truth.keys()
        assert same, f"windows {list(found)}, not {list(truth)}"
        for end, rows in found.items():
            self._bounded(rows, truth[end], {})

    def check_counts(self, stats: Mapping[str, Any], bad: int) -> None:
        """Compare the counts of rows."""
        run = self.run
        wanted = {"rows_in": run.rows_in + bad, "rows_bad": bad, "rows_late": run.rows_late}
        wanted["rows_unused"] = run.rows_unused
        wanted["rows_filtered"] = run.rows_filtered
        counts = {name: stats[name] for name in wanted}
        assert counts == wanted, f"counts {counts}, not {wanted}"

    def peek(self, pushes: int, last: int | None) -> oracle.Answer | None:
        """What ``peek`` shows after so many pushes; the flush counts as one."""
        look: Any = peek_counted if isinstance(self.window, oracle.CountWindow) else peek_timed
        ended = pushes > len(self.pushes)
        settings = {
            name: value for name, value in self.settings.items() if name not in ONLY_FOR_ALGORITHMS
        }
        kind, seen = self.drawn.kind, prepared(self.pushes[:pushes], settings)
        found: oracle.Answer | None = look(kind, self.window, seen, ended, last, self.run, settings)
        return found

    def compare(self, got: Sequence[sb.Answer], want: Sequence[oracle.Answer]) -> None:
        """Compare answers; window edges are compared as instants, whatever their zone."""
        edges = [(_instant(answer.start), _instant(answer.end)) for answer in got]
        wanted = [(answer.start, answer.end) for answer in want]
        assert edges == wanted, f"windows {edges}, not {wanted}"
        drawn = self.drawn
        for mine, theirs, table in zip(got, want, tables(got), strict=True):
            where = f"the window ending {theirs.end}"
            assert same_total(mine.total, theirs.total), (
                f"total of {where}: {mine.total}, not {theirs.total}"
            )
            if drawn.exact:
                assert mine.exact or self._returned(), f"{where} is not exact"
                _same(drawn.kind, table, theirs.table, where)
            else:
                if mine.exact:
                    _same(drawn.kind, table, self._first(theirs.table), where)
                self._bounded(table, theirs.table, mine.bounds)
            if self.with_changes:
                _same(drawn.kind, plain(mine.changes), theirs.changes, f"changes of {where}")

    def _returned(self) -> bool:
        """Whether items may have been forgotten and come back, of any rank, with an error."""
        return self.drawn.kind == "HeavyHitters" and isinstance(self.window, oracle.DecayWindow)

    def _first(self, every: Rows) -> Rows:
        return [row for row in every if row["rank"] <= self.drawn.settings["k"]]

    def _bounded(self, got: Rows, every: Rows, bounds: Mapping[str, Any]) -> None:
        """Check the bounds of an approximate answer, group by group."""
        groups, k = self.drawn.query.groups, self.drawn.settings["k"]
        found, truth = _by(got, groups), _by(every, groups)
        if self.drawn.query.algorithm in FORGETFUL:
            assert found.keys() <= truth.keys(), f"groups {list(found)}, not {list(truth)}"
        else:
            assert found.keys() == truth.keys(), f"groups {list(found)}, not {list(truth)}"
        for group, rows in found.items():
            assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1)), rows
            assert len(rows) <= k, rows
            BOUNDS[self.drawn.kind](self.drawn, rows, truth[group], bounds)


def tables(answers: Sequence[sb.Answer]) -> list[Rows]:
    """The tables of some answers as rows; one conversion serves them all."""
    if not answers:
        return []
    found = [answer.table for answer in answers]
    rows = plain(found[0] if len(found) == 1 else pa.concat_tables(found))
    ends = [0]
    for table in found:
        ends.append(ends[-1] + table.num_rows)
    return [rows[a:b] for a, b in itertools.pairwise(ends)]


def plain(table: pa.Table) -> Rows:
    """An answer as rows for the oracle, whose null groups have a value that sorts last."""
    return _without_nulls(streams.plain_rows(table))


def _without_nulls(rows: Rows) -> Rows:
    return [
        {n: streams.LAST_NULL if v is None and n not in NULLS else v for n, v in row.items()}
        for row in rows
    ]


def oracle_rows(table: pa.Table) -> Rows:
    """The rows of a table; a null becomes a value that sorts after all others."""
    return [
        {n: streams.LAST_NULL if v is None else v for n, v in row.items()}
        for row in streams.plain_rows(table)
    ]


def _same(kind: str, got: Rows, want: Rows, where: str) -> None:
    # Parts of a fused score may be null in what is wanted, too.
    problem = oracle.difference(got, _without_nulls(want), oracle.SUMS[kind])
    assert problem is None, f"{where}: {problem}"


def _instant(value: Any) -> int | None:
    if value is None or isinstance(value, int):
        return value
    if type(value) is dt.datetime:
        naive = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        return (naive - EPOCH) // TICK
    return int(pa.scalar(value).cast(pa.timestamp("us")).cast(pa.int64()).as_py())


def _by(rows: Iterable[oracle.Row], names: Sequence[str]) -> dict[tuple[Any, ...], Rows]:
    found: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found


# Bounds of one group's answer -------------------------------------------------------------------


def _counts(drawn: streams.Drawn, got: Rows, every: Rows, bounds: Mapping[str, Any]) -> None:
    """Every true count lies within [count - error, count]."""
    items = drawn.query.key
    true = {tuple(row[name] for name in items): row["count"] for row in every}
    for row in got:
        count = true.get(tuple(row[name] for name in items), 0)
        slack = NEAR * max(1.0, abs(count))
        assert row["error"] >= 0, row
        within = row["count"] - row["error"] - slack <= count <= row["count"] + slack
        assert within, f"{row}: the true count is {count}"


def _scores(drawn: streams.Drawn, got: Rows, every: Rows, bounds: Mapping[str, Any]) -> None:
    """Each score is within epsilon of the true score of its rank."""
    score, epsilon = drawn.settings["score"], drawn.settings["epsilon"]
    true = every[: drawn.settings["k"]]
    assert len(got) == len(true), f"{len(got)} rows, not {len(true)}"
    for mine, theirs in zip(got, true, strict=True):
        equal = mine[score] == theirs[score]  # the difference of two infinities is NaN
        near = equal or abs(mine[score] - theirs[score]) <= epsilon * (1 + NEAR)
        assert near, f"{mine}, but the true one is {theirs}"


def _fused(drawn: streams.Drawn, got: Rows, every: Rows, bounds: Mapping[str, Any]) -> None:
    """No score is too high; what is left out or shown too low does not exceed ``missed``."""
    key = drawn.settings["id"]
    shown = {row[key]: row["score"] for row in got}
    true = {row[key]: row["score"] for row in every}
    for name, score in shown.items():
        assert name in true, f"{name!r} has no live report"
        assert score <= true[name] + NEAR * max(1.0, abs(true[name])), f"{name!r}: {score}"
    missed = bounds.get("missed", math.inf)
    last = min(shown.values()) if len(shown) == drawn.settings["k"] else -math.inf
    for name, score in true.items():
        most = max(missed, shown.get(name, last))
        assert score <= most + NEAR * max(1.0, abs(score)), f"{name!r}: {score} is above {most}"


BOUNDS: dict[str, Callable[[streams.Drawn, Rows, Rows, Mapping[str, Any]], None]] = {
    "HeavyHitters": _counts,
    "TopK": _scores,
    "FusedTopK": _fused,
}
