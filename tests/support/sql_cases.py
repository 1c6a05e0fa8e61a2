"""Statements drawn from the grammar of ``docs/sql.md``, and what other engines make of them.

Other engines have no windows like ours, so they run the same statement over a table that has each
row once for every window that it is in.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

__all__ = ["Case", "difference", "drawn", "flows", "windowed"]

_COLUMNS = ("ts", "host", "service", "bytes", "x", "port", "ok")


@dataclass(frozen=True)
class Case:
    """One statement."""

    text: str
    """With ``{source}`` where the window function, or the table, stands."""
    source: str
    slide: int = 0
    """0 without a window."""
    size: int = 0
    value: str = ""
    """The column of the answer that decides ranks."""
    groups: tuple[str, ...] = field(default=())
    """The columns of the answer that say which ranking a row belongs to."""
    whole_ties: bool = False
    """Whether all rows with the last rank's value are shown."""

    @property
    def statement(self) -> str:
        return self.text.format(source=self.source)

    @property
    def elsewhere(self) -> str:
        """The statement for engines that read ``windowed``."""
        return self.text.format(source="windowed")


def flows(rng: random.Random, rows: int) -> pa.Table:
    """A small table with ties, and a column with nulls that only conditions use."""
    pick = rng.choice
    return pa.table(
        {
            "ts": pa.array(sorted(rng.randrange(40) for _ in range(rows)), pa.int64()),
            "host": pa.array([pick("abcd") for _ in range(rows)], pa.string()),
            "service": pa.array([pick(["web", "it's"]) for _ in range(rows)], pa.string()),
            "bytes": pa.array([rng.randrange(-3, 7) for _ in range(rows)], pa.int64()),
            "x": pa.array([rng.randrange(-8, 9) / 4 for _ in range(rows)], pa.float64()),
            "port": pa.array([pick([None, 1, 2, 3]) for _ in range(rows)], pa.int64()),
            "ok": pa.array([pick([True, False]) for _ in range(rows)], pa.bool_()),
        }
    )


def windowed(table: pa.Table, case: Case) -> pa.Table:
    """The rows of every window, as another engine would get them from a window function.

    The last window is the first one that ends after the last row, as for ``sb.rank``.
    """
    if not case.slide:
        return table
    rows, starts = [], []
    times = table["ts"].to_pylist()
    latest = ((max(times, default=0) - case.size) // case.slide + 1) * case.slide
    for i, time in enumerate(times):
        first = (time - case.size) // case.slide + 1
        for start in range(first * case.slide, time + 1, case.slide):
            if start <= latest:
                rows.append(i)
                starts.append(start)
    found = table.take(pa.array(rows, pa.int64()))
    found = found.append_column("window_start", pa.array(starts, pa.int64()))
    ends = [start + case.size for start in starts]
    return found.append_column("window_end", pa.array(ends, pa.int64()))


# Drawing ------------------------------------------------------------------------------------------


def drawn(rng: random.Random) -> Case:
    """A statement."""
    slide = rng.choice([0, 5, 7, 10])
    size = slide * rng.choice([1, 2, 3]) if rng.random() < 0.7 else slide + rng.randrange(1, 9)
    table, time = rng.choice([("TABLE flows", "DESCRIPTOR(ts)"), ("flows", "ts")])
    if not slide:
        source = "flows"
    elif size == slide:
        source = f"TUMBLE({table}, {time}, {size})"
    else:
        source = f"HOP({table}, {time}, {slide}, {size})"
    edges = ("window_start", "window_end") if slide else ()
    filtered = f" WHERE {_condition(rng, 2)}" if rng.random() < 0.6 else ""
    make = _grouped if rng.random() < 0.5 else _best
    text, value, groups, whole = make(rng, edges, filtered, rng.choice(["ROW_NUMBER", "RANK"]))
    return Case(text, source, slide, size, value, (*edges, *groups), whole)


def _best(
    rng: random.Random, edges: tuple[str, ...], filtered: str, function: str
) -> tuple[str, str, tuple[str, ...], bool]:
    value = rng.choice(["bytes", "x", "bytes * x", "ABS(bytes) - x / 2", "-bytes"])
    by = rng.choice([(), ("service",), ("service", "host"), ("ok",)])
    if any(sign in value for sign in "*-/"):  # such a value is shown under a name
        listed = f"{value} AS v, " + ", ".join((*_COLUMNS, *edges))
        value_name = "v"
    else:
        listed, value_name = rng.choice(["*", ", ".join((*edges, *_COLUMNS[::-1]))]), value
    return _ranked(rng, edges, by, function, value, value_name, listed, filtered, "ts DESC")


def _grouped(
    rng: random.Random, edges: tuple[str, ...], filtered: str, function: str
) -> tuple[str, str, tuple[str, ...], bool]:
    values = ["COUNT(*)", "SUM(bytes)", "AVG(x)", "MAX(bytes + x)", "MIN(bytes)"]
    value = rng.choice(values)
    by = rng.choice([(), ("service",), ("service", "ok")])
    items = rng.choice([("host",), ("host", "bytes")])
    keys = ", ".join((*edges, *by, *items))
    more = ", COUNT(*) AS n" if value != "COUNT(*)" and rng.random() < 0.5 else ""
    listed = f"{keys}, {value} AS v{more}"
    other = ", ".join(items)
    return _ranked(
        rng, edges, by, function, value, "v", listed, f"{filtered} GROUP BY {keys}", other
    )


def _ranked(
    rng: random.Random,
    edges: tuple[str, ...],
    by: tuple[str, ...],
    function: str,
    value: str,
    name: str,
    listed: str,
    rest: str,
    other: str,
) -> tuple[str, str, tuple[str, ...], bool]:
    down = "COUNT" in value or rng.random() < 0.6
    keys = f"PARTITION BY {', '.join((*edges, *by))} " if edges or by else ""
    second = f", {other}" if function == "ROW_NUMBER" and edges and rng.random() < 0.4 else ""
    order = f"{'DESC' if down else rng.choice(['ASC', ''])}{second}"
    k = rng.randrange(1, 4)
    form = rng.randrange(3)
    grouped = "GROUP BY" in rest
    if form == 0:
        ranked = f"{function}() OVER ({keys}ORDER BY {value} {order}) <= {k}"
        text = f"SELECT {listed} FROM {{source}}{rest} QUALIFY {ranked}"
    elif form == 1:
        ranked = f"{function}() OVER ({keys}ORDER BY {value} {order}) AS rn"
        inner = f"SELECT {listed}, {ranked} FROM {{source}}{rest}"
        text = f"SELECT * FROM ({inner}) AS ranked WHERE {k + 1} > rn"
    else:
        inner = f"SELECT {listed} FROM {{source}}{rest}"
        ranked = f"{function}() OVER ({keys}ORDER BY {name if grouped else value} {order}) AS rn"
        inner = f"SELECT *, {ranked} FROM ({inner}) AS listed"
        text = f"SELECT * FROM ({inner}) AS ranked WHERE rn <= {k}"
    return text, name, by, function == "RANK"


def _condition(rng: random.Random, depth: int) -> str:
    if depth and rng.random() < 0.5:
        one, other = (_condition(rng, depth - 1) for _ in range(2))
        return rng.choice(
            [f"({one} OR {other})", f"{one} AND {other}", f"NOT ({one})", f"{one} OR {other}"]
        )
    sign = rng.choice(["=", "<>", "<", "<=", ">", ">="])
    return rng.choice(
        [
            f"bytes {sign} {rng.randrange(-2, 6)}",
            f"{rng.randrange(-2, 3)} {sign} x * 2",
            f"port {sign} 2",
            f"port + bytes {sign} x",
            "port IS NULL",
            "port IS NOT NULL",
            "bytes BETWEEN 0 AND 4",
            "bytes NOT BETWEEN -1 AND 2",
            "host IN ('a', 'b')",
            "host NOT IN ('c')",
            "service = 'it''s'",
            "host > 'b'",
            "ok",
            "NOT ok",
            "ok = TRUE",
            "ABS(bytes - 3) < 2.5",
        ]
    )


# Comparing ----------------------------------------------------------------------------------------


def difference(case: Case, ours: pa.Table, theirs: pa.Table) -> str | None:
    """How two answers differ; None if they do only where ties are arbitrary."""
    names = ours.column_names
    if names != theirs.column_names:
        return f"columns {names} and {theirs.column_names}"
    mine, other = _rankings(case, ours), _rankings(case, theirs)
    for key in mine.keys() | other.keys():
        rows, others = mine.get(key, []), other.get(key, [])
        for name in {case.value, "rn"} & set(names):
            one, two = ([row[name] for row in each] for each in (rows, others))
            if Counter(one) != Counter(two) or (name == "rn" and one != sorted(one)):
                return f"{name} of {key}: {one} and {two}"
        # Of the rows that tie with the last one, any may be shown.
        last = None if case.whole_ties else rows[-1][case.value]
        certain, same = (
            Counter(
                tuple(value for name, value in row.items() if name != "rn")
                for row in each
                if row[case.value] != last
            )
            for each in (rows, others)
        )
        if certain != same:
            return f"rows of {key}: {certain - same} and {same - certain}"
    return None


def _rankings(case: Case, table: pa.Table) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """The rows of each window and group, with values that may differ in their last digits."""
    found = defaultdict(list)
    for row in table.to_pylist():
        plain = {n: round(v, 9) if isinstance(v, float) else v for n, v in row.items()}
        found[tuple(plain[name] for name in case.groups if name in plain)].append(plain)
    return found
