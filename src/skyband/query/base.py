"""What all queries share: checks, a serialisable spec, a fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar

from skyband import registry
from skyband.errors import QueryError, SchemaError
from skyband.query.checks import column, columns, conditions, counts, one_of
from skyband.query.functions import function_identity
from skyband.query.plain_values import FUNCTION, IDENTITY, WINDOWS, is_function, name_of, plain
from skyband.window import (
    CountWindow,
    SideWindows,
    Window,
)

__all__ = ["ADDED", "KINDS", "Query", "applies", "check_query"]

ADDED: Mapping[str, Any] = {"added": True}
"""Metadata of a field that was added later. While it has its default it is no part of the
fingerprint, so that states from before still belong to the query."""
Wanted = Any
"""A value that ``where`` asks for: text, a number, a boolean, a time."""
RESERVED = ("window_start", "window_end", "rank")
KINDS: dict[str, type[Query]] = {}
"""Every kind of query, by name."""


@dataclass(frozen=True, kw_only=True)
class Query:
    """A continuous query: what to rank and over which window.

    ``algorithm`` names the algorithm that answers it; None picks the one that performed best in
    measurements. ``options`` holds settings that the algorithm itself defines and validates.
    ``where`` maps columns to a value or to several: only rows that have one of the values in each
    column count. Null matches nothing.
    """

    kind: ClassVar[str]
    ranked: ClassVar[bool] = True
    extra_columns: ClassVar[tuple[str, ...]] = ()
    """Answer columns of this query, in addition to those that every query has."""
    settings: ClassVar[tuple[str, ...]] = ()
    """Parameters that are rejected if the algorithm does not use them; see ``registry``."""
    kept_anyway: ClassVar[tuple[str, ...]] = ()
    """Settings that every algorithm satisfies, even without using them. They are rejected only if
    the query names an algorithm that does not use them."""

    _identities: ClassVar[Mapping[str, str]]
    """Of each function given, what it computed when the query was made."""

    window: Window
    algorithm: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    where: Mapping[str, Wanted | Sequence[Wanted]] = field(default_factory=dict, metadata=ADDED)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        KINDS[cls.kind] = cls

    def __post_init__(self) -> None:
        self._check_window()
        if not isinstance(self.options, Mapping):
            raise QueryError(f"options must be a mapping of settings, not {self.options!r}")
        object.__setattr__(self, "options", dict(self.options))
        object.__setattr__(self, "where", conditions(self.where))
        if hasattr(self, "k"):
            counts(self, "k")
        if hasattr(self, "by"):
            object.__setattr__(self, "by", columns("by", self.by, empty=True))
        if hasattr(self, "keep"):
            object.__setattr__(self, "keep", columns("keep", self.keep, empty=True))
        for each in self.time.values() if isinstance(self.time, Mapping) else (self.time,):
            column("time", each, optional=True)
        if not isinstance(self.window, CountWindow) and self.time is None:
            name = type(self.window).__name__
            raise QueryError(f"a {name} needs time=, the name of the column with the event time")
        known = registry.algorithms(self.kind, self.window.sort)
        if self.algorithm is not None and self.algorithm not in known:
            raise QueryError(
                f"{self.kind} has no algorithm {self.algorithm!r}{self._over}; "
                f"choose one of {', '.join(known)} or None"
            )
        self._validate()
        if self.algorithm is not None and not self.answered_by(self.algorithm):
            able = [name for name in known if self.answered_by(name)]
            raise QueryError(
                f"{self.algorithm} does not answer {self.kind} {self.variant}; use algorithm=None, "
                f"or one of {', '.join(able)}"
            )
        self._check_settings()
        functions = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        identities = {n: function_identity(n, v) for n, v in functions.items() if callable(v)}
        object.__setattr__(self, "_identities", identities)

    def _check_window(self) -> None:
        if not isinstance(self.window, (*WINDOWS.values(), SideWindows)):
            raise QueryError(
                "window must be a TimeWindow or a CountWindow, for example "
                f"sb.TimeWindow('10 minutes', slide='1 minute'); got {self.window!r}"
            )
        sort = self.window.sort
        if not registry.algorithms(self.kind, sort):
            others = [kind for kind in registry.kinds() if registry.algorithms(kind, sort)]
            raise QueryError(
                f"{self.kind} cannot be answered over a {type(self.window).__name__}, which is for "
                f"{', '.join(others)}; use a TimeWindow"
            )

    @property
    def _over(self) -> str:
        """What to add to a message about algorithms, if the window decides which there are."""
        sized = self.window.sort == "sized"
        return "" if sized else f" over a {type(self.window).__name__}"

    @classmethod
    def idle_options(cls, given: Mapping[str, Any]) -> tuple[str, ...]:
        """Options that do nothing for a query with the parameters ``given``; they are rejected."""
        return ()

    def answered_by(self, algorithm: str) -> bool:
        """Whether an algorithm of this kind of query can answer this one."""
        return True

    @property
    def variant(self) -> str:
        """What makes ``answered_by`` refuse an algorithm, for messages."""
        return ""

    def _check_settings(self) -> None:
        chosen = registry.choose(self)
        for name in self.settings:
            default = next(f.default for f in fields(self) if f.name == name)
            given = getattr(self, name) != default
            if given and not applies(type(self), self.algorithm, chosen, name):
                known = registry.algorithms(self.kind, self.window.sort)
                takers = [each for each in known if name in registry.takes(self.kind, each)]
                other = f", or use an algorithm that uses it: {', '.join(takers)}" if takers else ""
                raise QueryError(
                    f"{name}= does nothing for {chosen}{_why(self)}; leave it out{other}"
                )
        for name in self.options:
            has = registry.options(self.kind, chosen)
            if name not in has:
                known = registry.algorithms(self.kind, self.window.sort)
                takers = [each for each in known if name in registry.options(self.kind, each)]
                more = f"; it belongs to {', '.join(takers)}" if takers else ""
                raise QueryError(
                    f"{chosen}{_why(self)} has no option {name!r}{more}. The options of {chosen} "
                    f"are: {', '.join(has) or 'none'}"
                )
            if name in self.idle_options(vars(self)):
                raise QueryError(f"the option {name!r} does nothing for this query; leave it out")

    def _validate(self) -> None:
        """Check what is particular to this kind of query; raise QueryError if it is invalid."""

    # What engines need from any query ---------------------------------------------------------

    time: str | Mapping[str, str] | None = None

    @property
    def groups(self) -> tuple[str, ...]:
        """Columns that split the stream into groups, each answered separately."""
        return tuple(getattr(self, "by", ()))

    @property
    def kept(self) -> tuple[str, ...]:
        """Further columns of the rows in an answer, after all its other columns."""
        return tuple(getattr(self, "keep", ()))

    @property
    def key(self) -> tuple[str, ...]:
        """Answer columns that identify a row of the answer; empty if the whole row does."""
        name = getattr(self, "id", None)
        return () if name is None else (name,)

    @property
    def tied_by(self) -> str | None:
        """The answer column in which equal values share a rank; None if ranks are not shared."""
        return None

    @property
    def expressions(self) -> tuple[str, ...]:
        """Texts that name a column or, if there is no such column, describe how to compute one."""
        return ()

    def shown(self, seen: Sequence[str]) -> tuple[str | None, ...]:
        """Input columns that an answer shows, in order; ``seen`` are the source's columns."""
        return self.key

    def answer_names(self, seen: Sequence[str] = ()) -> tuple[str, ...]:
        """Names of an answer's columns, for use when their types are not known."""
        rank = RESERVED[2:] if self.ranked else ()
        shown = (*self.shown(seen), *self.extra_columns, *self.kept)
        names = (*RESERVED[:2], *self.groups, *rank, *shown)
        return tuple(dict.fromkeys(name for name in names if name is not None))

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources that a mapping may contain; empty if the query reads only one."""
        return ()

    @property
    def needs_mapping(self) -> bool:
        """Whether the query needs a mapping of sources rather than a single table."""
        return False

    def check_sources(
        self, names: Iterable[str] | None, whole: bool = True, example: str | None = None
    ) -> None:
        """Raise SchemaError if the query cannot read a mapping with these sources.

        ``names=None`` stands for a single source. ``whole`` means that no further sources can
        follow, so that missing ones are an error. ``example`` shows how to give several sources.
        """
        listed = ", ".join(self.sources)
        if names is None:
            if self.needs_mapping:
                mapping = ", ".join(f"{name!r}: ..." for name in self.sources)
                example = example or f"a mapping such as {{{mapping}}}"
                raise SchemaError(f"{self.kind} reads several streams; give {example}")
            return
        if not self.sources:
            raise SchemaError(
                f"{self.kind} over this window reads one source, not a mapping; give the source "
                "itself, and make a table of a dict of columns with pa.table(...)"
            )
        given = list(names)
        unknown = [name for name in given if name not in self.sources]
        if unknown:
            raise SchemaError(f"unknown source {unknown[0]!r}; the query reads {listed}")
        missing = [name for name in self.sources if name not in given]
        if whole and missing and (self.needs_mapping or not given):
            raise SchemaError(f"source {missing[0]!r} is missing; the query reads {listed}")

    def time_of(self, source: str | None) -> str | None:
        """The time column of a source."""
        if isinstance(self.time, Mapping):
            if source is None or source not in self.time:
                raise QueryError(f"time= has no column for source {source!r}; add one")
            return self.time[source]
        return self.time

    # Serialising a query ----------------------------------------------------------------------

    def spec(self) -> dict[str, Any]:
        """The query as plain JSON values; ``from_spec`` is the inverse."""
        found = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        values = {name: plain(name, v) for name, v in found.items() if name not in self._identities}
        functions = {
            name: {FUNCTION: name_of(found[name]), IDENTITY: identity}
            for name, identity in self._identities.items()
        }
        return {"kind": self.kind} | {name: (values | functions)[name] for name in found}

    @property
    def fingerprint(self) -> str:
        """A digest that equal queries share in every process.

        A function contributes its code, not its name.
        """
        found = {n: v[IDENTITY] if is_function(v) else v for n, v in self.spec().items()}
        for each in fields(self):
            if each.metadata.get("added") and getattr(self, each.name) == _default(each):
                del found[each.name]
        text = json.dumps(found, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def _default(field: Field[Any]) -> Any:
    made = field.default_factory
    return field.default if made is MISSING else made()


def applies(kind: type[Query], named: str | None, chosen: str, setting: str) -> bool:
    """Whether a setting has an effect on the algorithm that a query names, or that is chosen."""
    free = named is None and setting in kind.kept_anyway
    return free or setting in registry.takes(kind.kind, chosen)


def _why(query: Query) -> str:
    return ", the algorithm chosen for this query" if query.algorithm is None else ""


def check_query(query: object, on_bad: str = "raise") -> None:
    """Check the arguments that every engine takes."""
    if not isinstance(query, Query):
        raise QueryError(f"Skyband takes a query such as sb.TopK(...), not {query!r}")
    one_of("on_bad", on_bad, ("raise", "skip"))
