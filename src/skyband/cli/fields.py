"""Turns a query's fields into options of a command, and words of a command line into field values.

Everything follows from the type of the field, so a new field or query needs no code here:

    int, float, bool, str     one value                   --k 10   --no-largest
    tuple[str, ...]           repeated, or with commas     --by host,port
    Mapping                   name=value                   --prefer price=min,volume=max
    Mapping to several        name=value,value             --where service=web,dns
    or text                   a condition                  --where "bytes > 9 and host != 'a'"
    unions of those           any of their forms           --time ts   --time left=ts,right=at
    pairs                     low:high                     --bounds 0:1   --bounds r1=0:1,r2=0:5

A window may be given for each source, too:                --window 'trades=1 hour,risks=1 day'
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, Field, fields
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from skyband import registry
from skyband.cli.explain import in_flags
from skyband.errors import QueryError
from skyband.query import Query
from skyband.query.base import parameters_of
from skyband.query.expressions import has_constant, parse_condition
from skyband.window import CountWindow, DecayWindow, LandmarkWindow, TimeWindow, Window

COMMON = ("window", "algorithm", "options")
"""Fields that every query has; the verbs define their options by hand."""

HELP = {
    "where": "Count only these rows: \"bytes > 9 and host != 'a'\", or service=web,dns.",
    "combine": "How the values become a score: sum, mean, min, max, product, or r1=0.7,r2=0.3.",
}
"""Help of options that is not that of the query's parameter."""

_GIVE = (
    "give a window: either --window '10 minutes' (of time) or --count 100000 (of rows); "
    "--slide sets how often it is answered"
)
_UNSIZED = {
    "decay": "--half-life '30 minutes' for rows that decay",
    "landmark": "--since 2026-01-01 (or --since first) for all rows from then on",
}
_NUMBER = re.compile(r"[+-]?(\d+(_\d+)*)(\.\d*)?([eE][+-]?\d+)?|[+-]?\.\d+([eE][+-]?\d+)?")


def verb_of(kind: type[Query]) -> str:
    """The command of a query.

    >>> from skyband.query import HeavyHitters, TopK, UncertainTopK
    >>> [verb_of(kind) for kind in (TopK, HeavyHitters, UncertainTopK)]
    ['topk', 'heavy-hitters', 'uncertain']
    """
    name = kind.__name__.removesuffix("TopK") or "Topk"
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def field_parameters(kind: type[Query]) -> list[inspect.Parameter]:
    """The options for a query's own fields, required ones first."""
    hints = get_type_hints(kind)
    own = [f for f in fields(kind) if f.init and f.name not in COMMON]
    texts = parameters_of(kind.__doc__)
    order = [*texts, *(f.name for f in own)]
    ordered = sorted(own, key=lambda f: (not _required(f), order.index(f.name)))
    helps = {f.name: in_flags(texts.get(f.name, f"The query's {f.name}."), texts) for f in own}
    return [
        _parameter(f, hints[f.name], HELP.get(f.name) or helps[f.name].replace("`", ""))
        for f in ordered
    ]


def query_of(kind: type[Query], window: Any, given: Mapping[str, Any], **common: Any) -> Query:
    """The query that the options of a command describe."""
    hints = get_type_hints(kind)
    values = {}
    for each in fields(kind):
        value = given.get(each.name)
        if value is None or (value == [] and not _required(each)):
            continue
        words = isinstance(value, list)
        values[each.name] = _read(each.name, value, hints[each.name]) if words else value
    return kind(window=window, **values, **common)


def window_of(kind: type[Query], given: Mapping[str, Any]) -> Window | dict[str, TimeWindow]:
    """The window that the options of a command describe, or the window of each source."""
    size, count, half_life, since, zone, revise = (
        given[name] for name in ("window", "count", "half_life", "since", "zone", "revise")
    )
    lengths = {"--window": size, "--count": count, "--half-life": half_life, "--since": since}
    several = [flag for flag, length in lengths.items() if length is not None]
    if len(several) != 1:
        two = f"you gave two windows, {' and '.join(several[:2])}; " if several else ""
        more = [text for sort, text in _UNSIZED.items() if registry.algorithms(kind.kind, sort)]
        raise QueryError(two + _GIVE + (". Or give " + ", or ".join(more)) * bool(more))
    if zone is not None and size is None:
        raise QueryError("--zone works only with --window; leave it out")
    if revise is not None and size is None:
        raise QueryError("--revise works only with --window; leave it out")
    step: Any = None if given["slide"] is None else _duration(given["slide"])
    extras: dict[str, Any] = {
        n: _duration(given[n]) for n in ("lateness", "offset") if given[n] is not None
    }
    if count is not None:
        if extras:
            raise QueryError(
                "--lateness and --offset work only with --window; leave them out with --count"
            )
        with _named("--count"):
            return CountWindow(count, slide=step)
    if half_life is not None:
        with _named("--half-life"):
            return DecayWindow(_duration(half_life), slide=_slide(step), **extras)
    if since is not None:
        with _named("--since"):
            first = None if since == "first" else _duration(since)
            return LandmarkWindow(_slide(step), first, **extras)
    with _named("--window"):
        extras |= {"zone": zone, "revise": None if revise is None else _duration(revise)}
        if "=" not in size:
            return TimeWindow(_duration(size), slide=step, **extras)
        sizes = {name: str(each) for name, each in mapping_of("--window", size.split(",")).items()}
        return {n: TimeWindow(_duration(each), slide=step, **extras) for n, each in sizes.items()}


def _slide(step: int | str | None) -> int | str:
    if step is None:
        raise QueryError("give --slide; it sets how often the window is answered")
    return step


@contextmanager
def _named(size: str) -> Iterator[None]:
    """Replace parameter names by option names in the errors of a window."""
    try:
        yield
    except QueryError as problem:
        parts = {"size": size, "half_life": size, "since": size}
        parts |= {name: f"--{name}" for name in ("slide", "lateness", "offset", "zone", "revise")}
        said = re.sub(r"^(\w+)\b", lambda m: parts.get(m[1], m[1]), str(problem))
        raise QueryError(said) from None


def mapping_of(option: str, words: Sequence[str]) -> dict[str, Any]:
    """Parse ``name=value`` words as a mapping; numbers and booleans are converted."""
    values: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise QueryError(f"{option} must be written name=value, not {word!r}")
        values[name.strip()] = _scalar(value.strip(), _ANYTHING)
    return values


# From a field to an option ------------------------------------------------------------------------


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _parameter(field: Field[Any], hint: Any, text: str) -> inspect.Parameter:
    atoms = _atoms(hint)
    kind: Any
    if atoms == {bool}:
        kind = bool
    elif len(atoms) == 1 and atoms <= {int, float, str}:
        (kind,) = atoms
    else:
        kind = list[str]
    flags = [f"--{field.name.replace('_', '-')}"]
    if kind is bool:
        flags = [f"{flags[0]}/--no-{flags[0][2:]}"]
    elif len(field.name) == 1:
        flags.append(f"-{field.name}")
    default = None if kind is bool or field.default is MISSING else _written(field.default)
    info = typer.Option(
        *flags,
        help=text if default is None else f"{text} Default: {default}.",
        show_default=kind is bool,
        rich_help_panel="What to rank",
        metavar="WORDS" if kind == list[str] else None,
    )
    if _required(field):
        return inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, info]
        )
    plain = field.default if kind is bool else None
    optional = kind if kind is bool else (kind | None)
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=plain,
        annotation=Annotated[optional, info],
    )


def _written(value: Any) -> str | None:
    """A default value as it would be written on the command line."""
    if value is None or value == ():
        return None
    if isinstance(value, tuple):
        numbers = len(value) == 2 and all(isinstance(v, (int, float)) for v in value)
        return (":" if numbers else ",").join(f"{v:g}" if numbers else str(v) for v in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


# From words to a value ----------------------------------------------------------------------------

_ANYTHING: frozenset[Any] = frozenset({Any})
_ONE_VALUE: frozenset[Any] = frozenset({int, float, bool, str})


def _atoms(hint: Any) -> frozenset[Any]:
    """The types that a hint allows, except None: plain types, Mapping, Sequence, Any."""
    if hint is type(None):
        return frozenset()
    origin = get_origin(hint)
    if origin is Literal:
        return frozenset(map(type, get_args(hint)))
    if origin in (Union, UnionType):
        return frozenset().union(*(_atoms(part) for part in get_args(hint)))
    if origin is Annotated:
        return _atoms(get_args(hint)[0])
    if origin is not None and isinstance(origin, type):
        return frozenset({Mapping if issubclass(origin, Mapping) else origin})
    return frozenset({hint})


def _read(name: str, words: Sequence[str], hint: Any) -> Any:
    """Parse words as the value of a field: a mapping, several values or one value."""
    atoms = _atoms(hint)
    parts = [part.strip() for word in words for part in _at_commas(word) if part.strip()]
    option = f"--{name.replace('_', '-')}"
    if not parts:
        raise QueryError(f"{option} is empty; give it a value")
    if Mapping in atoms and Sequence in _inner(hint):
        others = [word for word in words if not _is_condition(word)]
        if not others:
            return words[0] if len(words) == 1 else " and ".join(map("({})".format, words))
        if len(others) < len(words):
            raise QueryError(f"{option} has a condition, so write {others[0]!r} as one, too")
        return _several(option, words)
    named = atoms & {Mapping, Any} and any("=" in part for part in parts)
    if named or atoms == {Mapping}:
        for part in parts:
            if "=" not in part:
                raise QueryError(f"{option} must be written name=value,name=value; got {part!r}")
        inner = _inner(hint)
        pairs = [part.split("=", 1) for part in parts]
        return {key.strip(): _scalar(value.strip(), inner) for key, value in pairs}
    several = atoms & {tuple, Sequence, list, Any}
    if len(parts) > 1 and not several:
        raise QueryError(f"{option} takes one value, not {len(parts)}: {', '.join(parts)}")
    values = tuple(_scalar(part, _elements(hint)) for part in parts)
    alone = len(values) == 1 and bool(atoms & {str, int, float, Any})
    return values[0] if alone else values


def _at_commas(word: str) -> list[str]:
    """The parts of a word between commas; those inside parentheses belong to an expression."""
    if word.count("(") != word.count(")"):
        return word.split(",")
    return re.findall(r"(?:\([^()]*(?:\([^()]*\)[^()]*)*\)|[^,])+", word)


_QUOTED = re.compile(r'(?:"[^"]*"|[^",])+')
"""A part of a list with commas; between double quotes a comma is part of the text."""


_ASSIGNMENT = re.compile(r"\s*[^\s=<>!'()]+\s*=")
"""How ``name=value`` begins."""
_SIGNS = re.compile(r"['<>!]|\b(and|or|not|in|is)\b", re.IGNORECASE)
"""What makes a word a condition; between double quotes it is plain text."""


def _is_condition(word: str) -> bool:
    """Whether a word is a condition, and not ``name=value,value``.

    ``title=war and peace`` has no constant, so it is none.
    """
    if not _SIGNS.search(re.sub(r'"[^"]*"', "", word)):
        return False
    if not _ASSIGNMENT.match(word):
        return True
    with suppress(QueryError):
        return has_constant(parse_condition(word))
    return False


def _several(option: str, words: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Parse ``name=value,value`` words as a mapping to values; a further name starts with ``=``."""
    found: dict[str, tuple[Any, ...]] = {}
    name = ""
    for word in words:
        for number, part in enumerate(_QUOTED.findall(word)):
            bare = re.sub(r'"[^"]*"', "", part)
            if "=" in bare:
                name, _, part = part.partition("=")  # noqa: PLW2901 - the rest is the value
            elif not number:
                raise QueryError(f"{option} must be written name=value,value; got {word!r}")
            text = part.strip()
            quoted = len(text) > 1 and text[0] == text[-1] == '"'
            value = text[1:-1] if quoted else _scalar(text, _ONE_VALUE)
            found[name.strip()] = (*found.get(name.strip(), ()), value)
    return found


def _inner(hint: Any) -> frozenset[Any]:
    """The types that a hint allows for the values of a mapping."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds = [get_args(p)[1] for p in parts if Mapping in _atoms(p) and get_args(p)]
    return frozenset().union(*map(_atoms, kinds)) if kinds else _ANYTHING


def _elements(hint: Any) -> frozenset[Any]:
    """The types that a hint allows for a single value, or for one of several."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds: frozenset[Any] = frozenset()
    for part in parts:
        origin = get_origin(part)
        if origin in (tuple, list) or (isinstance(origin, type) and issubclass(origin, Sequence)):
            kinds |= _atoms(get_args(part)[0])
        else:
            kinds |= _atoms(part)
    return kinds


def _scalar(text: str, atoms: frozenset[Any]) -> Any:
    anything = Any in atoms
    if (anything or atoms & {int, float}) and _NUMBER.fullmatch(text):
        whole = re.fullmatch(r"[+-]?[\d_]+", text) and (anything or int in atoms)
        return int(text) if whole else float(text)
    if anything:
        low, colon, high = text.partition(":")
        if colon and _NUMBER.fullmatch(low) and _NUMBER.fullmatch(high):
            return float(low), float(high)
    if (anything or bool in atoms) and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return text


def _duration(text: str) -> int | str:
    """A window's length: a duration, or a plain integer over an integer time column."""
    return int(text) if re.fullmatch(r"\s*[+-]?\d[\d_]*\s*", text) else text
