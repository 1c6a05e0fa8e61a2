"""From a statement to a query: each SELECT makes a relation, and the last one becomes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from skyband.errors import QueryError, SchemaError
from skyband.query import HeavyHitters, Query, Skyline, TopK
from skyband.sql.expressions import Scalar, Translator
from skyband.sql.text import SqlText
from skyband.window import LandmarkWindow, TimeWindow

WHOLE = "whole table"  # the time column of a table without a window: all rows have the same
_AGGREGATES = {"Sum": "sum", "Avg": "mean", "Max": "max", "Min": "min"}
_WINDOWS = {  # the arguments of each, in their order
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "LANDMARK": ("DATA", "TIMECOL", "SLIDE"),
}
_CALLS = "HOP(TABLE t, DESCRIPTOR(ts), slide, size), TUMBLE(..., size) or LANDMARK(..., slide)"
_RANKING = "QUALIFY ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ... DESC) <= 10"
_CLAUSES = {
    "limit": "say in the ranking how many rows per window to show: ... <= 10",
    "order": "answers are ordered by window_end, groups and rank",
    "having": "rank all groups, and filter the answers afterwards",
    "joins": "a ranking reads one table; for a skyline of two, use sb.SkylineJoin",
}


@dataclass(frozen=True)
class GroupValue:
    """A value of a group of rows; ``of`` is None for COUNT."""

    function: str
    of: Scalar | None = None


@dataclass(frozen=True)
class Numbering:
    """The rank that ROW_NUMBER or RANK gives."""

    ties: str
    groups: Names
    value: Scalar | GroupValue
    largest: bool


Known: TypeAlias = Sequence[str] | None
Names: TypeAlias = tuple[str, ...]
Meaning: TypeAlias = str | Scalar | GroupValue | Numbering
"""What a column holds; a text is the start or the end of the window."""


@dataclass(frozen=True)
class Relation:
    """What a FROM clause or a SELECT gives."""

    table: str
    time: str
    window: TimeWindow | LandmarkWindow
    columns: Mapping[str, Meaning]
    open: bool = False  # there may be further columns: those of the table are not known
    names: Names = ()  # what may stand before the dot of t.column
    where: Names = ()
    items: Names | None = None  # the columns of GROUP BY, after that clause
    rows: Relation | None = None  # what GROUP BY groups, for the SELECT that it stands in

    @property
    def edges(self) -> Names:
        """The columns that the window adds."""
        return () if self.time == WHOLE else ("window_start", "window_end")


@dataclass(frozen=True)
class Statement:
    """What a statement asks for."""

    query: Query
    table: str
    columns: tuple[tuple[str, str], ...]  # of the answer, and what SELECT calls each
    open: bool  # the columns of the table, which are not known, decide what SELECT * shows


def read_statement(text: str, columns: Known = None, ends: bool = False) -> Statement:
    """A statement as a query; ``columns`` are those of its table, ``ends`` that it is finite."""
    return _Reader(SqlText(text), columns, ends).statement()


class _Reader:
    def __init__(self, text: SqlText, columns: Known, ends: bool) -> None:
        self.text, self.problem, self.known, self.ends = text, text.problem, columns, ends
        self.ranking: Numbering | None = None
        self.k: int | None = None

    def statement(self) -> Statement:
        node = self.text.statement
        if type(node).__name__ != "Select":
            raise self.problem(node, f"only SELECT is supported, with {_RANKING}")
        relation = self._select(node)
        if self.text.skyline:
            return self._skyline(relation)
        if self.ranking is None or self.k is None:
            raise self.problem(node, f"nothing is ranked; add {_RANKING}, or SKYLINE OF")
        return self._ranked(relation, self.ranking)

    def _only(self, node: Any, *names: str) -> None:
        for name, value in node.args.items():
            if name in names or value in (None, False, []):
                continue
            word = name.rstrip("_").upper().removesuffix("S")
            part = value[0] if isinstance(value, list) else value
            where = word if word in self.text.keywords else part if hasattr(part, "walk") else node
            hint = _CLAUSES.get(name, "leave it out")
            raise self.problem(where, f"{word} is not supported here; {hint}")

    def _select(self, node: Any) -> Relation:
        self._only(node, "expressions", "from_", "where", "group", "qualify")
        table, where, group, qualify = map(node.args.get, ("from_", "where", "group", "qualify"))
        if table is None or not node.expressions:
            raise self.problem(node, f"give columns and, after FROM, a table or {_CALLS}")
        below = self._from(table.this)
        if where is not None:
            below = self._where(where.this, below)
        if group is not None:
            below = self._group(group, below)
        relation = self._outputs(node.expressions, below)
        if qualify is not None:
            if self.k is not None:
                raise self.problem("QUALIFY", "the rows are ranked already; leave it out")
            # It sees the names that SELECT gives, too; those below go first, if they are known.
            first, then = (relation, below) if below.open else (below, relation)
            seen = replace(below, columns={**then.columns, **first.columns})
            self.k = self._rank_condition(qualify.this, seen)
        return relation

    def _from(self, node: Any) -> Relation:
        self._only(node, "this", "alias")
        inner, alias = type(node.this).__name__, node.args.get("alias")
        if inner == "Select":
            relation = replace(self._select(node.this), names=())
        elif inner == "Table":  # TABLE(...) around a window function
            relation = self._from(node.this)
        elif inner == "Identifier":
            relation = self._base(node.this.this, WHOLE, LandmarkWindow(slide=1))
        elif inner == "Anonymous":
            relation = self._window(node.this)
        else:
            raise self.problem(node, f"FROM takes a table, {_CALLS}, or (SELECT ...)")
        if alias is not None:
            self._only(alias, "this")
        return relation if alias is None else replace(relation, names=(alias.this.this,))

    def _base(self, table: str, time: str, window: Any) -> Relation:
        columns: dict[str, Meaning] = {name: Scalar(name, name) for name in self.known or ()}
        found = Relation(table, time, window, columns, open=self.known is None, names=(table,))
        if not columns.keys().isdisjoint(found.edges):
            raise self.problem("FROM", "the table already has columns window_start and window_end")
        return replace(found, columns=columns | {name: name for name in found.edges})

    def _where(self, node: Any, below: Relation) -> Relation:
        if self.ranking is not None and self.k is None:
            self.k = self._rank_condition(node, below)
            return below
        if self.ranking is not None or below.items is not None:
            raise self.problem(node, "put conditions into the WHERE before GROUP BY and ranking")
        condition = self._translator(below).condition(node)
        return replace(below, where=(*below.where, condition))

    def _group(self, node: Any, below: Relation) -> Relation:
        self._only(node, "expressions")
        if below.items is not None or self.ranking is not None:
            raise self.problem(node, "only one GROUP BY is supported, before the ranking")
        items = self._keys(node, node.expressions, below, "GROUP BY")
        columns: dict[str, Meaning] = {name: name for name in below.edges}
        columns |= {each.name: self._column(each, below) for each in node.expressions}
        return replace(below, columns=columns, open=False, items=items, rows=below)

    def _keys(self, node: Any, listed: list[Any], below: Relation, clause: str) -> Names:
        """The columns of the table that a clause lists, beside the edges of the window."""
        names = list[str]()
        for each in listed:
            found = self._column(each, below) if type(each).__name__ == "Column" else None
            name = found.column if isinstance(found, Scalar) else found
            if not isinstance(name, str) or name in names:
                raise self.problem(each, f"{clause} takes columns of the table, each once")
            names.append(name)
        if not set(names) >= set(below.edges):
            raise self.problem(node, f"{clause} must have {' and '.join(below.edges)}")
        return tuple(name for name in names if name not in below.edges)

    def _outputs(self, nodes: Sequence[Any], below: Relation) -> Relation:
        found, is_open = dict[str, Meaning](), False
        for each in nodes:
            node = each.this if type(each).__name__ == "Alias" else each
            if type(node).__name__ == "Star":
                self._only(node)
                if below.rows is not None or node is not each:
                    raise self.problem(node, "name the columns")
                new, is_open = dict(below.columns), below.open
            else:
                unnamed = node.name if type(node).__name__ == "Column" else node.sql()
                new = {each.alias or unnamed: self._meaning(node, below)}
            for name, value in new.items():
                if name in found:
                    raise self.problem(each, f"there are two columns {name!r}; rename one")
                found[name] = value
        return replace(below, columns=found, open=is_open, rows=None)

    def _column(self, node: Any, below: Relation) -> Meaning:
        self._only(node, "this", "table")
        name = node.name
        if node.table and node.table not in below.names:
            raise self.problem(node, f"there is no table {node.table!r} here; leave it out")
        plain = name.lower() if name.lower() in below.edges else name
        if plain not in below.columns and not below.open:
            missing = self.known is not None and name not in self.known
            message = f"there is no column {name!r} here; it has {', '.join(below.columns)}"
            raise self.problem(node, message, SchemaError if missing else QueryError)
        return below.columns.get(plain) or Scalar(name, name)

    def _translator(self, below: Relation) -> Translator:
        def scope(node: Any) -> Scalar:
            found = self._column(node, below)
            if not isinstance(found, Scalar):
                raise self.problem(node, f"{node.name!r} is not a column of the table")
            return found

        return Translator(self.text, scope)

    def _meaning(self, node: Any, below: Relation) -> Meaning:
        kind = type(node).__name__
        if kind == "Paren":
            return self._meaning(node.this, below)
        if kind == "Window":
            return self._numbering(node, below)
        if kind == "Column":
            return self._column(node, below)
        if kind not in ("Count", *_AGGREGATES):
            return self._translator(below).scalar(node)
        self._only(node, "this", "big_int")
        if below.rows is None:
            edges = "".join(f"{name}, " for name in below.edges)
            raise self.problem(node, f"an aggregate needs GROUP BY {edges}and a column")
        if kind != "Count":
            return GroupValue(_AGGREGATES[kind], self._translator(below.rows).scalar(node.this))
        if type(node.this).__name__ not in ("Star", "Literal"):
            raise self.problem(node, "write COUNT(*), which counts rows")
        return GroupValue("count")

    def _numbering(self, node: Any, below: Relation) -> Numbering:
        self._only(node, "this", "partition_by", "order", "over")
        function, order = type(node.this).__name__, node.args.get("order")
        if function not in ("RowNumber", "Rank") or any(node.this.args.values()):
            raise self.problem(node, "rank by ROW_NUMBER() or RANK()")
        if self.ranking is not None or order is None:
            raise self.problem(node, "only one ranking is supported, and it needs ORDER BY")
        groups = self._keys(node, node.args.get("partition_by") or [], below, "PARTITION BY")
        if "NULLS" in self.text.keywords:
            raise self.problem("NULLS", "a null has no rank; add WHERE column IS NOT NULL")
        keys = [(self._meaning(e.this, below), bool(e.args.get("desc"))) for e in order.expressions]
        value, largest = keys[0]
        if not isinstance(value, Scalar | GroupValue):
            raise self.problem(order, "ORDER BY takes a value of the rows that are ranked")
        # Further keys may only say how ties are ordered anyway.
        rows, names = below.items is None, below.items or (below.time,)
        ties = [(Scalar(name, name), rows) for name in names if rows or name not in groups]
        if keys[1:] and (function == "Rank" or keys[1:] != ties):
            message = "ORDER BY takes one value; the later row, or the smaller group, is first"
            raise self.problem(order.expressions[1], message)
        self.ranking = Numbering("all" if function == "Rank" else "rank", groups, value, largest)
        return self.ranking

    def _rank_condition(self, node: Any, below: Relation) -> int:
        kind, sides = type(node).__name__, [node.args.get("this"), node.args.get("expression")]
        if type(sides[0]).__name__ == "Literal":
            kind, sides = {"GTE": "LTE", "GT": "LT", "EQ": "EQ"}.get(kind, ""), sides[::-1]
        k = _number(sides[1]) - (kind == "LT")
        if kind not in ("LTE", "LT", "EQ") or k < 1 or (kind == "EQ" and k > 1):
            message = "compare the rank alone, as in rownum <= 10; put the rest into WHERE before"
            raise self.problem(node, message)
        if not isinstance(self._meaning(sides[0], below), Numbering):
            raise self.problem(node, f"this is not a rank; write {_RANKING}")
        return k

    def _window(self, node: Any) -> Relation:
        name = node.this.upper()
        if name not in _WINDOWS:
            raise self.problem(node, f"there is no window function {name}; use {_CALLS}")
        slots = _WINDOWS[name]
        given: dict[str, Any] = {}
        for i, each in enumerate(node.expressions):
            named = type(each).__name__ in ("Kwarg", "PropertyEQ")
            slot = each.this.name.upper() if named else slots[i] if i < len(slots) else ""
            if slot in given or slot not in (*slots, "LATENESS"):
                raise self.problem(each, f"{name} takes no such argument; use {_CALLS}")
            given[slot] = each.expression if named else each
        lacks = [slot for slot in slots if slot not in given and slot != "OFFSET"]
        if lacks:
            raise self.problem(node, f"{name} lacks {', '.join(lacks)}; use {_CALLS}")
        table, time = self._name(given.pop("DATA")), given.pop("TIMECOL")
        if type(time).__name__ == "Anonymous" and time.this.upper() == "DESCRIPTOR":
            (time,) = time.expressions if len(time.expressions) == 1 else (time,)
        parts = {slot.lower(): self._duration(each) for slot, each in given.items()}
        make: Callable[..., Any] = LandmarkWindow if name == "LANDMARK" else TimeWindow
        try:
            window = make(**parts)
            size, slide = (window.panes.size, window.panes.slide) if name == "HOP" else (0, 1)
            if slide > size > 0:
                raise QueryError("HOP takes the slide first and then the size, which is longer")
            if size % slide:  # in SQL the starts are multiples of the slide, in Skyband the ends
                shift = (window.panes.offset + size) % slide
                window = replace(window, offset=shift if window.integer else f"{shift} us")
        except QueryError as problem:
            raise self.problem(node, str(problem)) from None
        return self._base(table, self._name(time), window)

    def _name(self, node: Any) -> str:
        if (type(node).__name__ == "Column" and not node.table) or node.is_string:
            return str(node.name)
        raise self.problem(node, f"a name is expected here; use {_CALLS}")

    def _duration(self, node: Any) -> str | int:
        if _number(node) >= 0:
            return _number(node)
        if type(node).__name__ != "Interval":
            raise self.problem(node, "write a length of time as INTERVAL '10' MINUTES")
        unit = node.args.get("unit")
        return f"{node.this.name} {unit.name.lower() if unit is not None else ''}".strip()

    def _ranked(self, relation: Relation, ranking: Numbering) -> Statement:
        value, columns = ranking.value, relation.columns.values()
        of = value if isinstance(value, Scalar) else value.of
        settings: dict[str, Any] = {"k": self.k, "by": ranking.groups, "ties": ranking.ties}
        settings |= {"most": 2**31 - 1} if ranking.ties == "all" and self.ends else {}
        if isinstance(value, Scalar):
            shown = {*ranking.groups, value.text, relation.time, None}
            names = dict.fromkeys(each.column for each in columns if isinstance(each, Scalar))
            keep = tuple(name for name in names if name not in shown)
            settings |= {"score": value.text, "keep": keep, "largest": ranking.largest}
            return self._made(relation, TopK, settings, value)
        items = tuple(name for name in relation.items or () if name not in ranking.groups)
        if not items:
            raise self.problem("PARTITION", "GROUP BY needs one more column than PARTITION BY")
        settings |= {"item": items[0] if len(items) == 1 else items, "weight": of and of.text}
        if relation.time == WHOLE and value.of:  # one window of time has all rows, too
            relation = replace(relation, window=TimeWindow(1))
        landmark = isinstance(relation.window, LandmarkWindow)
        if value.function != "count" and not (landmark and value.function == "sum"):
            settings |= {"aggregate": value.function, "largest": ranking.largest}
        elif not ranking.largest:
            raise self.problem("ORDER", "the smallest counts cannot be ranked; write DESC")
        return self._made(relation, HeavyHitters, settings, value)

    def _skyline(self, relation: Relation) -> Statement:
        if relation.items is not None or self.ranking is not None:
            raise self.problem("SKYLINE", "a skyline takes no ranking and no GROUP BY")
        base = self._base(relation.table, relation.time, relation.window)
        scope = self._translator(replace(base, names=relation.names))
        prefer = {scope.scalar(node).text: wish for node, wish in self.text.skyline}
        return self._made(relation, Skyline, {"prefer": prefer}, None)

    def _made(self, relation: Relation, cls: Any, settings: Any, value: Any) -> Statement:
        where = relation.where
        one = " and ".join(f"({each})" if len(where) > 1 else each for each in where)
        try:
            query = cls(window=relation.window, time=relation.time, where=one or {}, **settings)
        except QueryError as problem:
            raise self.problem(self.text.statement, str(problem)) from None
        self.text.check_whole()
        pairs = [(self._shown(n, each, query, value), n) for n, each in relation.columns.items()]
        return Statement(query, relation.table, tuple(pairs), relation.open)

    def _shown(self, name: str, each: Meaning, query: Query, value: Any) -> str:
        """The column of the answer that holds a column of SELECT."""
        if isinstance(each, str | Numbering):
            return each if isinstance(each, str) else "rank"
        if isinstance(each, Scalar):
            if each.column is None and each.text not in query.expressions:
                raise self.problem(name, "rows are not ranked by this; select its columns")
            return each.text
        if each != value and each.of is not None:
            raise self.problem(name, "rows are not ranked by this; only COUNT(*) may be added")
        return "value" if each.of and getattr(query, "aggregate", None) else "count"


def _number(node: Any) -> int:
    """A whole number as it is written; -1 if it is none."""
    plain = type(node).__name__ == "Literal" and not node.is_string and node.name.isdigit()
    return int(node.name) if plain else -1
