"""What all queries share: checks, a serialisable spec, a fingerprint."""

from __future__ import annotations

import dis
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import date, timedelta
from functools import partial
from inspect import Signature, cleandoc, signature
from types import CodeType, FunctionType, ModuleType
from typing import Any, ClassVar, Literal

import numpy as np

from skyband import registry
from skyband.errors import EngineError, QueryError, SchemaError, did_you_mean
from skyband.query.checks import TIES, column, columns, conditions, counts, one_of, time_form
from skyband.query.expressions import Node, conditions_of
from skyband.window import (
    CountWindow,
    DecayWindow,
    LandmarkWindow,
    SideWindows,
    TimeWindow,
    Window,
    parse_duration,
)

# The identity of a user's function: what it computes, not its name or its place in a file --------
#
# Two queries are the same only if their functions are. A function is identified by its code:
# instructions, constants, names, defaults, and the values it reads from closures and globals. File
# names, line numbers and the function's own name are ignored. The identity is the same in every
# process of one Python version. A function that cannot be read in this way must be named by the
# user.


NAME = "__skyband_name__"
"""The attribute in which users name a function whose code cannot be read."""

_BEHAVIOUR = 0x04 | 0x08 | 0x20 | 0x80 | 0x200
"""Code flags that affect behaviour: varargs, keywords, generators, coroutines."""


def function_identity(what: str, function: Callable[..., Any]) -> str:
    """A digest of what a function computes; ``what`` is the parameter it was passed as.

    >>> one, two = (function_identity("combine", f) for f in (lambda v: v + 1, lambda v: v + 2))
    >>> one == two
    False
    """
    named = getattr(function, NAME, None)
    if named is not None:
        if not isinstance(named, str) or not named:
            raise QueryError(f"{NAME} of {what}= must be a non-empty string, not {named!r}")
        found: Any = ("named", named)
    elif isinstance(function, (FunctionType, partial)):
        found = _FunctionReader(what, _package(function)).value(function, "it")
    else:
        kind = type(function).__name__
        raise _refused(what, f"it is a {kind}, whose code cannot be read")
    return hashlib.sha256(repr(found).encode()).hexdigest()[:32]


def _refused(what: str, why: str) -> QueryError:
    return QueryError(
        f"{what}= cannot be distinguished from other functions: {why}. Use a function that reads "
        "only numbers, strings and modules, or give yours a name, and change the name whenever "
        f"the function changes: function.{NAME} = 'score-1'"
    )


class _FunctionReader:
    """Reads a function and everything it refers to into nested tuples of plain values."""

    def __init__(self, what: str, package: str) -> None:
        self.what = what
        self.package = package
        """The function's package. Objects of other packages are identified by their full name."""
        self.reading: list[FunctionType] = []

    def value(self, value: Any, where: str) -> Any:
        """One value that a function refers to."""
        if value is None or value is ... or isinstance(value, (bool, int, str, bytes)):
            return type(value).__name__, repr(value)
        if isinstance(value, float):
            return "float", value.hex()
        if isinstance(value, complex):
            return "complex", value.real.hex(), value.imag.hex()
        if isinstance(value, (tuple, list)):
            return type(value).__name__, *(self.value(item, where) for item in value)
        if isinstance(value, Set):
            return "set", *sorted(repr(self.value(item, where)) for item in value)
        if isinstance(value, Mapping):
            pairs = ((self.value(k, where), self.value(v, where)) for k, v in value.items())
            return "mapping", *sorted(map(repr, pairs))
        if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
            data = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            return "array", value.dtype.str, np.shape(value), data
        if isinstance(value, CodeType):
            return self.code(value)
        if isinstance(value, ModuleType):
            return "module", value.__name__
        return self._callable(value, where)

    def _callable(self, value: Any, where: str) -> Any:
        if isinstance(getattr(value, NAME, None), str):
            return "named", getattr(value, NAME)
        if isinstance(value, partial):
            parts = (value.func, value.args, value.keywords)
            return "partial", *(self.value(part, where) for part in parts)
        library = _library_name(value, self.package)
        if isinstance(value, FunctionType):
            try:
                return self._function(value)
            except QueryError:
                if library is None:
                    raise
        if library is None:
            kind = type(value).__name__
            raise _refused(self.what, f"{where} refers to an object of type {kind}")
        return "library", library

    def _function(self, function: FunctionType) -> Any:
        if function in self.reading:
            return "again", self.reading.index(function)
        self.reading.append(function)
        try:
            cells = [_content(cell) for cell in function.__closure__ or ()]
            names = function.__code__.co_freevars
            around = [self.value(v, f"{n!r}") for n, v in zip(names, cells, strict=True)]
            known = function.__globals__
            read = sorted(_global_names(function.__code__))
            around += [(n, self.value(known[n], f"{n!r}")) for n in read if n in known]
            defaults = self.value(function.__defaults__, "a default")
            keywords = self.value(function.__kwdefaults__, "a default")
            return "function", self.code(function.__code__), around, defaults, keywords
        finally:
            self.reading.pop()

    def code(self, code: CodeType) -> Any:
        """Code without its place in a file."""
        shape = (
            code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount,
            code.co_flags & _BEHAVIOUR, len(code.co_freevars), len(code.co_cellvars),
        )  # fmt: skip
        constants = self.value(code.co_consts, "a constant")
        return "code", shape, code.co_code, code.co_exceptiontable, code.co_names, constants


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return ("empty cell",)


def _global_names(code: CodeType) -> set[str]:
    """Names that code, with the functions inside it, reads from its module."""
    found = {
        step.argval
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _global_names(constant)
    return found


def _package(function: Any) -> str:
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__module__", None) or "").partition(".")[0]


def _library_name(value: Any, package: str) -> str | None:
    """The full name of an object from a package other than ``package``; None if it has none."""
    module = getattr(value, "__module__", None) or type(value).__module__
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    place: Any = sys.modules.get(module)
    for part in name.split("."):
        place = getattr(place, part, None)
    own = module.partition(".")[0] == package and isinstance(value, (FunctionType, type))
    return None if own or place is not value else f"{module}.{name}"


# Settings as plain JSON values, and back ---------------------------------------------------------


WINDOWS: dict[str, Any] = {
    "time": TimeWindow,
    "count": CountWindow,
    "decay": DecayWindow,
    "landmark": LandmarkWindow,
}
"""Every kind of window, by its name in a serialised query."""
_NOT_GIVEN = (("zone", None), ("revise", None))
"""Not written, so that windows of states from before there were these are the same."""
_SIDES = "sides"
"""The name of a window per source in a serialised query."""
FUNCTION = "a function of your own"
"""The key of a function in a serialised query; its value is the function's name, for display."""
IDENTITY = "identity"
"""The key of a function's identity, next to its name."""


def plain(name: str, value: Any) -> Any:
    """A setting as plain values; raises QueryError if it has no such form."""
    if isinstance(value, CountWindow):
        return {"count": {"size": int(value.size), "slide": int(value.panes.slide)}}
    for kind, window in WINDOWS.items():
        if isinstance(value, window):
            given = {f.name: getattr(value, f.name) for f in fields(window) if f.init}
            return {kind: {n: plain(n, v) for n, v in given.items() if (n, v) not in _NOT_GIVEN}}
    if isinstance(value, SideWindows):
        return {_SIDES: {source: plain(name, window) for source, window in value.items()}}
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (timedelta, np.timedelta64)):
        return f"{parse_duration(value, name)} us"
    if isinstance(value, Mapping):
        return {str(key): plain(name, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(name, item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "item"):
        return value.item()
    raise QueryError(f"{name}={value!r} cannot be serialised; use plain numbers and strings")


def window_of(spec: Mapping[str, Any]) -> Window:
    """The window that ``plain`` wrote."""
    ((kind, settings),) = spec.items()
    if kind == _SIDES:
        sides: dict[str, Any] = {source: window_of(each) for source, each in settings.items()}
        return SideWindows(sides)
    window: Window = WINDOWS[kind](**settings)
    return window


def name_of(function: Any) -> str:
    """The name of a user's function, for display."""
    return str(getattr(function, "__qualname__", repr(type(function))))


def is_function(written: Any) -> bool:
    """Whether plain values stand for a user's function."""
    return isinstance(written, Mapping) and FUNCTION in written


Wanted = Any
"""A value that ``where`` asks for: text, a number, a boolean, a time."""
RESERVED = ("window_start", "window_end", "rank")
REVISION = "revision"
"""The column that says how often a window was corrected, where late rows may correct it."""
KINDS: dict[str, type[Query]] = {}
"""Every kind of query, by name."""


@dataclass(frozen=True, kw_only=True)
class Query:
    """A continuous query: what to rank and over which window.

    Args:
        window: A window, such as ``TimeWindow("10 minutes", slide="1 minute")``.
        time: Column with the event time.
        where: Which rows count: ``"bytes > 9 and host != 'a'"``, or a mapping of columns to values.
        time_format: How times in a text column are written: ``"%d.%m.%Y %H:%M"``, or ``"iso"``.
        time_unit: Unit of numeric times since 1970: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``.
        algorithm: Name of the algorithm; by default the fastest for the query.
        options: Further settings, which depend on the algorithm.

    If ``where`` is a mapping, a row must have one of the values in each column. Null never matches.
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
    where: Mapping[str, Wanted | Sequence[Wanted]] | str = field(default_factory=dict)
    time_format: str | None = None
    time_unit: Literal["s", "ms", "us", "ns"] | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        KINDS[cls.kind] = cls
        cls.__doc__ = _with_common_parameters(cls.__doc__)

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
        form = time_form(self.time, self.time_format, self.time_unit)
        for name, value in zip(("time", "time_format", "time_unit"), form, strict=True):
            object.__setattr__(self, name, value)
        for each in self.time.values() if isinstance(self.time, Mapping) else (self.time,):
            column("time", each, optional=True)
        if not isinstance(self.window, CountWindow) and self.time is None:
            name = type(self.window).__name__
            raise QueryError(f"a {name} needs time=, the name of the column with the event time")
        known = registry.algorithms(self.kind, self.window.sort)
        if self.algorithm is not None and self.algorithm not in known:
            raise QueryError(
                f"{self.kind} has no algorithm {self.algorithm!r}{self._over}; "
                f"choose one of {', '.join(known)} or None{did_you_mean(self.algorithm, known)}"
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
            if given and not self._applies(chosen, name):
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
                    f"are: {', '.join(has) or 'none'}{did_you_mean(name, has)}"
                )
            if name in self.idle_options(vars(self)):
                raise QueryError(f"the option {name!r} does nothing for this query; leave it out")

    def _applies(self, chosen: str, setting: str) -> bool:
        """Whether a setting has an effect on the algorithm that is named, or that was chosen."""
        free = self.algorithm is None and setting in self.kept_anyway
        return free or setting in registry.takes(self.kind, chosen)

    def _validate(self) -> None:
        """Check what is particular to this kind of query; raise QueryError if it is invalid."""

    def __dir__(self) -> list[str]:
        """What is of use to people; the rest is for engines."""
        return [*(f.name for f in fields(self) if f.init), "fingerprint", "kind", "spec"]

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
    def ranked_by(self) -> str | None:
        """The answer column by which rows are ranked; None if they are not."""
        if not self.ranked:
            return None
        return self.extra_columns[0] if self.extra_columns else getattr(self, "score", None)

    @property
    def tied_by(self) -> str | None:
        """The answer column in which equal values share a rank; None if ranks are not shared."""
        return None

    @property
    def most_rows(self) -> int | None:
        """How many rows an answer may have that also shows what ties with the k-th; else None."""
        if getattr(self, "ties", None) != "all":
            return None
        most: int | None = self.most  # type: ignore[attr-defined]
        return 10 * self.k if most is None else most  # type: ignore[attr-defined]

    def _validate_ties(self, *others: str) -> None:
        """Check ``ties`` and ``most``; ``others`` do not go together with all ties."""
        query: Any = self
        one_of("ties", query.ties, TIES)
        counts(self, "most", optional=True)
        if query.ties != "all":
            if query.most is not None:
                raise QueryError("most= does nothing without ties='all'; leave it out")
            return
        if query.most is not None and query.most < query.k:
            raise QueryError(f"most ({query.most}) must be at least k ({query.k})")
        if self.window.sort == "decay":
            raise QueryError(
                "over a DecayWindow values hardly ever tie, so ties='all' is refused; use "
                "ties='share'"
            )
        for name in others:
            if getattr(self, name) not in (None, False):
                raise QueryError(f"{name}= and ties='all' do not go together; leave out {name}=")

    @property
    def conditions(self) -> tuple[Node, ...]:
        """What must all hold for a row that counts."""
        return conditions_of(self.where)

    @property
    def expressions(self) -> tuple[str, ...]:
        """Texts that name a column or, if there is no such column, describe how to compute one."""
        return ()

    def shown(self, seen: Sequence[str]) -> tuple[str | None, ...]:
        """Input columns that an answer shows, in order; ``seen`` are the source's columns."""
        return self.key

    def shows(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of the input columns that an answer shows under their own names."""
        if not self.ranked:
            return tuple(names)
        shown = {*self.groups, *self.shown(names), *self.kept}
        return tuple(name for name in names if name in shown)

    @property
    def window_columns(self) -> tuple[str, ...]:
        """The columns that say of which window a row of an answer is; an answer begins with them.

        If late rows may correct the window, the last column tells its corrections apart.
        """
        revised = self.window.revise_ticks is not None
        return (*RESERVED[:2], *([REVISION] if revised else []))

    @property
    def reserved(self) -> tuple[str, ...]:
        """Names of answer columns that no input column may have."""
        return (*self.window_columns, RESERVED[2], *self.extra_columns)

    def answer_names(self, seen: Sequence[str] = ()) -> tuple[str, ...]:
        """Names of an answer's columns, for use when their types are not known."""
        rank = RESERVED[2:] if self.ranked else ()
        shown = (*self.shown(seen), *self.extra_columns, *self.kept)
        names = (*self.window_columns, *self.groups, *rank, *shown)
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
            meant = did_you_mean(unknown[0], self.sources)
            raise SchemaError(f"unknown source {unknown[0]!r}; the query reads {listed}{meant}")
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

        A function contributes its code, not its name. A setting at its default contributes
        nothing, so that a state still fits its query when queries get more settings.
        """
        values = {n: v[IDENTITY] if is_function(v) else v for n, v in self.spec().items()}
        for each in fields(self):
            if each.init and getattr(self, each.name) == _default(each):
                del values[each.name]
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def parameters_of(doc: str | None) -> dict[str, str]:
    """What the docstring of a query says of each parameter."""
    block = cleandoc(doc or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
    lines = (line.strip().partition(": ") for line in block.splitlines())
    return {name: text for name, _, text in lines}


def _with_common_parameters(doc: str | None) -> str | None:
    """The docstring of a query, with the parameters that all queries have after its own."""
    head, mark, rest = cleandoc(doc or "").partition("\nArgs:\n")
    if not mark:
        return doc
    own, gap, prose = rest.partition("\n\n")
    common = parameters_of(Query.__doc__)
    more = [f"    {n}: {text}" for n, text in common.items() if f"\n    {n}: " not in f"\n{own}"]
    return "\n".join([f"{head}{mark}{own}", *more]) + gap + prose


class _OrderedSignature:
    """The signature of a query's class, with its parameters in the order of the docstring."""

    def __get__(self, query: Any, kind: type[Query]) -> Signature:
        found = signature(kind.__init__)
        order = ["self", *parameters_of(kind.__doc__), *found.parameters]
        given = sorted(found.parameters.values(), key=lambda each: order.index(each.name))
        return found.replace(parameters=given[1:])


Query.__signature__ = _OrderedSignature()  # type: ignore[attr-defined]


def _default(field: Field[Any]) -> Any:
    made = field.default_factory
    return field.default if made is MISSING else made()


def _why(query: Query) -> str:
    return ", the algorithm chosen for this query" if query.algorithm is None else ""


def check_query(query: object, on_bad: str = "raise") -> None:
    """Check the arguments that every engine takes."""
    if not isinstance(query, Query):
        raise QueryError(f"Skyband takes a query such as sb.TopK(...), not {query!r}")
    one_of("on_bad", on_bad, ("raise", "skip"))


def from_spec(spec: Mapping[str, Any], **given: Any) -> Query:
    """Rebuild a query from ``Query.spec``; ``given`` are the functions that a spec cannot hold."""
    values = dict(spec) | given
    for name, value in values.items():
        if is_function(value):
            raise EngineError(
                f"{name}= was a function of your own ({value[FUNCTION]}), which cannot be part of "
                f"a snapshot; give it again: Monitor.restore(blob, {name}=...)"
            )
    kind = KINDS[values.pop("kind")]
    values["window"] = window_of(values.pop("window"))
    unknown = [name for name in given if name not in spec]
    if unknown:
        raise EngineError(f"the snapshot's {kind.kind} has no {unknown[0]}=; leave it out")
    query = kind(**values)
    _check_given(query, spec, given)
    return query


def _check_given(query: Query, spec: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise EngineError if a given value differs from the one in the spec."""
    found = query.spec()
    for name in given:
        was, now = spec[name], found[name]
        if not is_function(was):
            if json.dumps(was, sort_keys=True) != json.dumps(now, sort_keys=True):
                raise EngineError(
                    f"the snapshot has {name}={was!r}, not {now!r}; a snapshot belongs to one "
                    "query, so start a new Monitor for a different one"
                )
        elif not is_function(now) or now[IDENTITY] != was[IDENTITY]:
            raise EngineError(
                f"{name}= is not the snapshot's function ({was[FUNCTION]}): its code differs. Pass "
                "the function that the snapshot was taken with, or start a new Monitor"
            )
