"""From a statement to a query, and to the columns that SELECT asks for.

Each SELECT of a statement, from the innermost on, makes a relation: what its columns mean in terms
of the table below. At the end the relation has a ranking or a skyline, which becomes a query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from skyband.errors import QueryError, SchemaError
from skyband.query import HeavyHitters, Query, Skyline, TopK
from skyband.sql.expressions import Scalar, Translator
from skyband.sql.text import SqlText
from skyband.window import LandmarkWindow, TimeWindow

__all__ = ["WHOLE", "Statement", "read_statement"]

WHOLE = "whole table"
"""The time column of a table that is ranked as a whole; it has one value in all rows."""

_AGGREGATES = {"Sum": "sum", "Avg": "mean", "Max": "max", "Min": "min"}
_WINDOWS = {
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "LANDMARK": ("DATA", "TIMECOL", "SLIDE"),
}
"""The arguments of each window function, in their order."""
_CALLS = (
    "HOP(TABLE t, DESCRIPTOR(ts), slide, size), TUMBLE(TABLE t, DESCRIPTOR(ts), size) or "
    "LANDMARK(TABLE t, DESCRIPTOR(ts), slide)"
)
_RANKING = "QUALIFY ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ... DESC) <= 10"
_CLAUSES = {
    "limit": "say how many rows per window in the ranking: ... <= 10",
    "order": "answers come by window_end, groups and rank",
    "having": "rank all groups, and filter the answers",
    "distinct": "rank groups with GROUP BY instead",
    "with_": "write the inner SELECT into FROM (...)",
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
    groups: tuple[str, ...]
    value: Scalar | GroupValue
    largest: bool


Meaning: TypeAlias = str | Scalar | GroupValue | Numbering
"""What a column holds; a text is the start or the end of the window."""


@dataclass(frozen=True)
class Relation:
    """What a FROM clause or a SELECT gives."""

    table: str
    time: str
    window: TimeWindow | LandmarkWindow
    columns: Mapping[str, Meaning]
    open: bool = False
    """Whether there may be further columns, because those of the table are not known."""
    names: tuple[str, ...] = ()
    """What may stand before the dot of ``t.column``."""
    where: tuple[str, ...] = ()
    items: tuple[str, ...] | None = None
    """The columns of GROUP BY, after that clause."""
    rows: Relation | None = None
    """What GROUP BY groups, for the SELECT that it stands in."""

    @property
    def edges(self) -> tuple[str, ...]:
        """The columns that the window adds."""
        return () if self.time == WHOLE else ("window_start", "window_end")


@dataclass(frozen=True)
class Statement:
    """A statement as a query."""

    query: Query
    table: str
    columns: tuple[tuple[str, str], ...]
    """Each column of the answer that SELECT names, and what it calls it."""
    open: bool
    """Whether the columns of the table, which are not known, decide what SELECT * shows."""


def read_statement(text: str, columns: Sequence[str] | None = None) -> Statement:
    """The query of a statement; ``columns`` are those of its table, if they are known."""
    return _Reader(SqlText(text), columns).statement()


class _Reader:
    def __init__(self, text: SqlText, columns: Sequence[str] | None) -> None:
        self.text = text
        self.known = columns
        self.ranking: Numbering | None = None
        self.k: int | None = None

    def statement(self) -> Statement:
        node = self.text.statement
        if type(node).__name__ != "Select":
            raise self.text.problem(node, f"only SELECT is possible, with {_RANKING}")
        relation = self._select(node)
        if self.text.skyline:
            return self._skyline(relation)
        if self.ranking is None:
            raise self.text.problem(node, f"nothing is ranked; add {_RANKING}, or SKYLINE OF")
        if self.k is None:
            raise self.text.problem("OVER", "say how many to show: WHERE rownum <= 10")
        return self._ranked(relation, self.ranking)

    def _only(self, node: Any, *names: str) -> None:
        """Refuse every part of a node that is not one of these."""
        for name, value in node.args.items():
            if name in names or value in (None, False, []):
                continue
            word = name.rstrip("_").upper().removesuffix("S")
            part = value[0] if isinstance(value, list) else value
            where = word if self.text.has_word(word) else part if hasattr(part, "walk") else node
            hint = _CLAUSES.get(name, "leave it out")
            raise self.text.problem(where, f"{word} is not possible here; {hint}")

    def _select(self, node: Any) -> Relation:
        self._only(node, "expressions", "from_", "where", "group", "qualify")
        if node.args.get("from_") is None:
            raise self.text.problem(node, f"FROM is missing; give a table, or {_CALLS}")
        below = self._from(node.args["from_"].this)
        if node.args.get("where") is not None:
            below = self._where(node.args["where"].this, below)
        if node.args.get("group") is not None:
            below = self._group(node.args["group"], below)
        relation = self._outputs(node.expressions, below)
        if node.args.get("qualify") is not None:
            if self.k is not None:
                raise self.text.problem("QUALIFY", "the rows are ranked already; leave it out")
            # It sees the columns below, and the names that SELECT gives.
            first, then = (relation, below) if below.open else (below, relation)
            seen = replace(below, columns={**then.columns, **first.columns})
            self.k = self._rank_condition(node.args["qualify"].this, seen)
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
            raise self.text.problem(node, f"FROM takes a table, {_CALLS}, or (SELECT ...)")
        if alias is None:
            return relation
        self._only(alias, "this")
        return replace(relation, names=(alias.this.this,))

    def _base(self, table: str, time: str, window: Any) -> Relation:
        columns: dict[str, Meaning] = {name: Scalar(name, name) for name in self.known or ()}
        found = Relation(table, time, window, columns, open=self.known is None, names=(table,))
        return replace(found, columns=columns | {name: name for name in found.edges})

    def _where(self, node: Any, below: Relation) -> Relation:
        if self.ranking is not None and self.k is None:
            self.k = self._rank_condition(node, below)
            return below
        if self.ranking is not None or below.items is not None:
            when = "GROUP BY" if self.ranking is None else "the ranking"
            raise self.text.problem(
                node, f"a condition after {when} is not possible; put it into the WHERE before"
            )
        condition = self._translator(below).condition(node)
        return replace(below, where=(*below.where, condition))

    def _group(self, node: Any, below: Relation) -> Relation:
        self._only(node, "expressions")
        if below.items is not None or self.ranking is not None:
            raise self.text.problem(node, "only one GROUP BY is possible, before the ranking")
        items = self._keys(node, node.expressions, below, "GROUP BY")
        if not items:
            raise self.text.problem(node, "GROUP BY names no column of the table to be ranked")
        columns: dict[str, Meaning] = {name: name for name in below.edges}
        columns |= {each.name: self._column(each, below) for each in node.expressions}
        return replace(below, columns=columns, open=False, items=items, rows=below)

    def _keys(
        self, node: Any, listed: Sequence[Any], below: Relation, clause: str
    ) -> tuple[str, ...]:
        """The columns of the table that a clause lists, beside the edges of the window."""
        names = list[str]()
        for each in listed:
            found = self._column(each, below) if type(each).__name__ == "Column" else None
            name = found.column if isinstance(found, Scalar) else found
            if not isinstance(name, str) or name in names:
                raise self.text.problem(each, f"{clause} takes columns of the table, each once")
            names.append(name)
        if not set(names) >= set(below.edges):
            raise self.text.problem(node, f"{clause} must have {' and '.join(below.edges)}")
        return tuple(name for name in names if name not in below.edges)

    def _outputs(self, nodes: Sequence[Any], below: Relation) -> Relation:
        """The relation that SELECT makes of its list."""
        found: dict[str, Meaning] = {}
        is_open = False
        for each in nodes:
            node = each.this if type(each).__name__ == "Alias" else each
            if type(node).__name__ == "Star":
                self._only(node)
                if below.rows is not None:
                    raise self.text.problem(node, "with GROUP BY, name the columns")
                new, is_open = dict(below.columns), below.open
            else:
                plain = type(node).__name__ == "Column"
                name = each.alias if node is not each else node.name if plain else node.sql()
                new = {name: self._meaning(node, below)}
            for name, value in new.items():
                if name in found:
                    raise self.text.problem(each, f"there are two columns {name!r}; rename one")
                found[name] = value
        return replace(below, columns=found, open=is_open, rows=None)

    def _column(self, node: Any, below: Relation) -> Meaning:
        """What a name means."""
        self._only(node, "this", "table")
        name = node.name
        if node.table and node.table not in below.names:
            known = ", ".join(below.names) or "no name; leave it out"
            raise self.text.problem(node, f"there is no table {node.table!r} here; it has {known}")
        plain = name.lower() if name.lower() in below.edges else name
        if plain not in below.columns and not below.open:
            missing = self.known is not None and name not in self.known
            message = f"there is no column {name!r} here; the columns are: "
            message += ", ".join(below.columns) or "none"
            raise self.text.problem(node, message, SchemaError if missing else QueryError)
        return below.columns.get(plain) or Scalar(name, name)

    def _translator(self, below: Relation) -> Translator:
        def scope(node: Any) -> Scalar:
            found = self._column(node, below)
            if not isinstance(found, Scalar):
                raise self.text.problem(node, f"{node.name!r} is no value of a row of the table")
            return found

        return Translator(self.text, scope)

    def _meaning(self, node: Any, below: Relation) -> Meaning:
        """A column, an expression, an aggregate or a rank."""
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
            raise self.text.problem(node, f"an aggregate needs GROUP BY {edges}and a column")
        if kind == "Count" and type(node.this).__name__ not in ("Star", "Literal"):
            raise self.text.problem(node, "write COUNT(*), which counts rows")
        if kind == "Count":
            return GroupValue("count")
        return GroupValue(_AGGREGATES[kind], self._translator(below.rows).scalar(node.this))

    def _numbering(self, node: Any, below: Relation) -> Numbering:
        self._only(node, "this", "partition_by", "order", "over")
        function, order = type(node.this).__name__, node.args.get("order")
        if function not in ("RowNumber", "Rank") or node.this.args.get("expressions"):
            raise self.text.problem(node, "rank by ROW_NUMBER() or RANK()")
        if self.ranking is not None:
            raise self.text.problem(node, "only one ranking is possible")
        groups = self._keys(node, node.args.get("partition_by") or [], below, "PARTITION BY")
        if order is None:
            raise self.text.problem(node, "OVER (...) needs ORDER BY, which says what is best")
        if self.text.has_word("NULLS"):
            raise self.text.problem("NULLS", "a null has no rank; add WHERE column IS NOT NULL")
        keys = [(self._meaning(e.this, below), bool(e.args.get("desc"))) for e in order.expressions]
        value, largest = keys[0]
        if not isinstance(value, Scalar | GroupValue):
            raise self.text.problem(order, "ORDER BY takes a value of the rows that are ranked")
        # Further keys may only say how ties are ordered anyway.
        if below.items is None:
            ties: list[tuple[Meaning, bool]] = [(Scalar(*[below.time] * 2), True)]
        else:
            ties = [(Scalar(name, name), False) for name in below.items if name not in groups]
        if keys[1:] and (function == "Rank" or keys[1:] != ties):
            said = "later row" if below.items is None else "smaller item"
            message = f"ORDER BY takes one value; of equal ones, the {said} comes first"
            raise self.text.problem(order.expressions[1], message)
        self.ranking = Numbering("all" if function == "Rank" else "rank", groups, value, largest)
        return self.ranking

    def _rank_condition(self, node: Any, below: Relation) -> int:
        """The k of ``rank <= k``."""
        kind, sides = type(node).__name__, [node.args.get("this"), node.args.get("expression")]
        if type(sides[0]).__name__ == "Literal":
            kind, sides = {"GTE": "LTE", "GT": "LT", "EQ": "EQ"}.get(kind, ""), sides[::-1]
        number = type(sides[1]).__name__ == "Literal" and not sides[1].is_string
        if kind not in ("LTE", "LT", "EQ") or not number or not sides[1].name.isdigit():
            message = "a rank alone stands here, such as rownum <= 10; put others into WHERE before"
            raise self.text.problem(node, message)
        if not isinstance(self._meaning(sides[0], below), Numbering):
            raise self.text.problem(node, f"this is no rank; write {_RANKING}")
        k = int(sides[1].name) - (kind == "LT")
        if k < 1 or (kind == "EQ" and k != 1):
            raise self.text.problem(node, "the best rows have ranks <= 1 or more")
        return k

    def _window(self, node: Any) -> Relation:
        name = node.this.upper()
        if name not in _WINDOWS:
            raise self.text.problem(node, f"there is no window function {name}; use {_CALLS}")
        slots = _WINDOWS[name]
        given: dict[str, Any] = {}
        for i, each in enumerate(node.expressions):
            named = type(each).__name__ in ("Kwarg", "PropertyEQ")
            slot = each.this.name.upper() if named else slots[i] if i < len(slots) else ""
            if slot in given or slot not in (*slots, "LATENESS"):
                raise self.text.problem(each, f"{name} takes no such argument; use {_CALLS}")
            given[slot] = each.expression if named else each
        lacks = [slot for slot in slots if slot not in given and slot != "OFFSET"]
        if lacks:
            raise self.text.problem(node, f"{name} lacks {', '.join(lacks)}; use {_CALLS}")
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
            raise self.text.problem(node, str(problem)) from None
        return self._base(table, self._name(time), window)

    def _name(self, node: Any) -> str:
        if type(node).__name__ == "Column" and not node.table:
            return str(node.name)
        if type(node).__name__ == "Literal" and node.is_string:
            return str(node.this)
        raise self.text.problem(node, f"a name should stand here; use {_CALLS}")

    def _duration(self, node: Any) -> str | int:
        if type(node).__name__ == "Literal" and not node.is_string and node.name.isdigit():
            return int(node.name)
        if type(node).__name__ != "Interval":
            raise self.text.problem(node, "write a length of time as INTERVAL '10' MINUTES")
        unit = node.args.get("unit")
        return f"{node.this.name} {unit.name.lower() if unit is not None else ''}".strip()

    def _ranked(self, relation: Relation, ranking: Numbering) -> Statement:
        value = ranking.value
        of = value if isinstance(value, Scalar) else value.of
        measure = of and of.measure
        settings: dict[str, Any] = {"k": self.k, "by": ranking.groups, "ties": ranking.ties}
        if isinstance(value, Scalar):
            shown = {*ranking.groups, measure, relation.time}
            names = [each.column for each in relation.columns.values() if isinstance(each, Scalar)]
            keep = tuple(dict.fromkeys(name for name in names if name and name not in shown))
            settings |= {"score": measure, "keep": keep, "largest": ranking.largest}
            return self._made(relation, TopK, settings, value)
        items = tuple(name for name in relation.items or () if name not in ranking.groups)
        if not items:
            raise self.text.problem("PARTITION", "GROUP BY needs a column more than PARTITION BY")
        settings |= {"item": items[0] if len(items) == 1 else items, "weight": measure}
        landmark = isinstance(relation.window, LandmarkWindow)
        if value.function == "count" or (landmark and value.function == "sum"):
            if not ranking.largest:
                raise self.text.problem("ORDER", "the fewest cannot be ranked; write DESC")
        else:
            settings |= {"aggregate": value.function, "largest": ranking.largest}
        return self._made(relation, HeavyHitters, settings, value)

    def _skyline(self, relation: Relation) -> Statement:
        if relation.items is not None or self.ranking is not None:
            raise self.text.problem("SKYLINE", "a skyline is of rows that are not ranked")
        base = self._base(relation.table, relation.time, relation.window)
        scope = self._translator(replace(base, names=relation.names))
        wishes = [(scope.scalar(node), wish) for node, wish in self.text.skyline]
        prefer = {each.measure: wish for each, wish in wishes}
        return self._made(relation, Skyline, {"prefer": prefer}, None)

    def _made(
        self, relation: Relation, cls: type[Query], settings: dict[str, Any], value: Meaning | None
    ) -> Statement:
        where = relation.where
        one = " and ".join(f"({each})" if len(where) > 1 else each for each in where)
        try:
            query = cls(window=relation.window, time=relation.time, where=one or {}, **settings)
        except QueryError as problem:
            raise self.text.problem(self.text.statement, str(problem)) from None
        pairs = [(self._shown(n, each, query, value), n) for n, each in relation.columns.items()]
        return Statement(query, relation.table, tuple(pairs), relation.open)

    def _shown(self, name: str, each: Meaning, query: Query, value: Meaning | None) -> str:
        """The column of the answer that holds a column of SELECT."""
        if isinstance(each, str):
            return each
        if isinstance(each, Numbering):
            return "rank"
        if isinstance(each, Scalar):
            if each.column is None and each.text not in query.expressions:
                message = "only what rows are ranked by may be computed; select its columns"
                raise self.text.problem(name, message)
            return each.measure
        if each == value or each.of is None:
            return "value" if each.of and getattr(query, "aggregate", None) else "count"
        message = "rows are not ranked by this; beside what ranks them, COUNT(*) is possible"
        raise self.text.problem(name, message)
