"""Reads a job file: every key is checked, and everything that is wrong can be listed at once."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from skyband.errors import QueryError, SchemaError, SkybandError, did_you_mean
from skyband.jobs.allowed_keys import (
    CARD,
    DEAD_LETTERS,
    ENGINES,
    JOB,
    METRICS,
    PATHS,
    SINKS,
    SOURCES,
    TRIGGER,
    KeyTypes,
    value_checks,
)
from skyband.jobs.checks import file_checks, job_checks, ready_checks
from skyband.jobs.job import CardView, Job, JobSection, source_table
from skyband.query import Query
from skyband.query.base import KINDS
from skyband.query.checks import one_of
from skyband.sql.statement import WHOLE, read_statement
from skyband.window import CountWindow, DecayWindow, LandmarkWindow, TimeWindow, Window

# Makes queries and windows from settings, and says everything that is wrong with them ------------
#
# A query refuses its settings with the first mistake it finds. To find the next one, the setting at
# fault is replaced by a harmless sample, or left out, and the query is made once more.


Problems = list[tuple[str, str]]
"""The table of each problem, such as ``source`` or ``queries.busiest``, and its text."""
_SAMPLES: Mapping[str, Any] = {
    **{name: name for name in ("score", "item", "id", "time", "probability", "value", "stream")},
    **{name: name for name in ("left", "right", "on")},
    "k": 1,
    "streams": ("one", "other"),
    "prefer": {"cost": "min", "gain": "max"},
}
_KINDS: dict[str, Any] = {"half_life": DecayWindow, "since": LandmarkWindow, "size": TimeWindow}


def read_query(table: str, fields_given: Mapping[str, Any], problems: Problems) -> Query | None:
    """The query of a table; None, with all its problems noted, if it is wrong."""
    if "sql" in fields_given:
        return _read_statement(table, fields_given, problems)
    faults: Problems = []
    kind = fields_given.get("kind", "")
    try:
        one_of(f"[{table}] kind", kind, tuple(KINDS))
    except QueryError as problem:
        problems.append((table, str(problem)))
        _windows(f"{table}.window", fields_given.get("window"), problems)
        return None
    cls = KINDS[kind]
    known = {each.name: each for each in fields(cls) if each.init}
    listed = ", ".join(sorted({*known, *CARD.known}))
    given = {name: value for name, value in fields_given.items() if name != "kind"}
    for name in [name for name in given if name not in known]:
        meant = did_you_mean(name, known)
        faults.append((table, f"[{table}] has no key {name!r}; {kind} has {listed}{meant}"))
        del given[name]
    for name, each in known.items():
        if name not in given and name != "window" and _required(each):
            faults.append((table, f"[{table}] needs {name!r}; {kind} has {listed}"))
            given[name] = _SAMPLES.get(name)
    window = _windows(f"{table}.window", given.get("window"), faults)
    given["window"] = window or TimeWindow("1 hour")
    samples = {**_SAMPLES, "window": given["window"]}
    query, more = _tried(lambda settings: cls(**settings), given, samples)
    faults += [(table, _about(table, text)) for text in more]
    problems += faults
    return None if faults else query


def _read_statement(table: str, settings: Mapping[str, Any], problems: Problems) -> Query | None:
    """The query of a table with a statement, whose answers have the query's own columns."""
    texts = [
        f"leave out {name!r}: sql defines the whole query" for name in settings if name != "sql"
    ]
    statement = None
    try:
        statement = read_statement(settings["sql"])
    except SkybandError as problem:
        texts.append(str(problem))
    if statement is not None:
        if statement.open:
            texts.append("sql: a job knows no columns before it runs; name them instead of *")
        if statement.query.time == WHOLE:
            texts.append("sql: a job has no end; write FROM LANDMARK(TABLE t, DESCRIPTOR(ts), ...)")
        texts += [
            f"sql: in a job, {name!r} is called {column!r}; write AS {column}"
            for column, name in statement.columns
            if column != name
        ]
    problems += [(table, f"[{table}] {text}") for text in texts]
    return None if texts or statement is None else statement.query


def _required(each: Field[Any]) -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def _about(table: str, text: str) -> str:
    """A problem that also says which of several queries it is about."""
    plain = text.startswith("[") or not table.startswith("queries.")
    return text if plain else f"[{table}] {text}"


def _tried(
    make: Callable[[dict[str, Any]], T], given: Mapping[str, Any], samples: Mapping[str, Any]
) -> tuple[T | None, list[str]]:
    """What can be made, with samples for settings at fault, and what was wrong with them."""
    left, texts = dict(given), list[str]()
    while True:
        text = _problem(make, left)
        if text is None:
            return make(left), texts
        if text in texts:
            return None, texts
        texts.append(text)
        words = f" {text.replace(chr(39), ' ')} "
        for name in sorted(left, key=lambda each: f" {each} " not in words):
            mended = _without(left, name, samples)
            if mended != left and _problem(make, mended) != text:
                left = mended
                break
        else:
            return None, texts


def _problem(make: Callable[[dict[str, Any]], Any], given: dict[str, Any]) -> str | None:
    try:
        make(given)
    except QueryError as problem:
        return str(problem)
    except TypeError as problem:  # a setting of a kind that nobody checks
        return str(problem).rsplit(") ", 1)[-1]
    return None


def _without(given: Mapping[str, Any], name: str, samples: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with a sample in place of one of them; without it, if there is none."""
    if name in samples:
        return {**given, name: samples[name]}
    return {each: value for each, value in given.items() if each != name}


# Windows ------------------------------------------------------------------------------------------


def _windows(
    table: str, given: Any, problems: Problems
) -> Window | Mapping[str, Window | None] | None:
    """A window, or a window per source: a table of tables."""
    if isinstance(given, Mapping) and given and all(isinstance(v, Mapping) for v in given.values()):
        windows = {n: _window(f"{table}.{n}", each, problems) for n, each in given.items()}
        return None if None in windows.values() else windows
    return _window(table, given, problems)


def _window(table: str, entry: Any, problems: Problems) -> Window | None:
    """A window with a size in time or rows, with a half-life, or since some moment."""
    where = f"[{table}]"
    if entry is None:
        problems.append((table, f"{where} is missing; give at least its size"))
        return None
    if not isinstance(entry, Mapping):
        plain = isinstance(entry, str | int) and not isinstance(entry, bool)
        size = json.dumps(entry if plain else "10 minutes")
        text = f"{where} must be a table, such as window = {{ size = {size} }}, not {entry!r}"
        problems.append((table, text))
        return None
    first = (
        "count" if "count" in entry else next((name for name in _KINDS if name in entry), "size")
    )
    names = [first, "slide"] if first == "count" else [first, "slide", "lateness", "offset"]
    names += ["zone", "revise"] * (first == "size")
    other = " (or count, half_life or since instead of size)" if first == "size" else ""
    listed = f"its keys are {', '.join(names)}{other}"
    texts = [f"{where} has no key {name!r}; {listed}" for name in entry if name not in names]
    needed = names[: 1 if first in ("size", "count") else 2]
    missing = [name for name in needed if name not in entry]
    texts += [f"{where} needs a {name}; {listed}" for name in missing]
    given = {
        n: None if n == "since" and v == "first" else v for n, v in entry.items() if n in names
    }
    if first == "count":
        given["size"] = given.pop("count")
    make: Any = CountWindow if first == "count" else _KINDS[first]
    window = None
    if not missing:
        whole = any(isinstance(value, int) for value in given.values())
        long = 1 << 40 if whole else "10000 days"
        samples = {"size": long, "half_life": long, "since": None}
        window, more = _tried(lambda settings: make(**settings), given, samples)
        texts += [_about(table, text) for text in more]
    problems += [(table, text) for text in texts]
    return None if texts else window


# Finds the line of a job file that a problem is about --------------------------------------------


_HEADER = re.compile(r"\s*\[+\s*([^\[\]]+?)\s*\]+\s*(#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'')


class LineIndex:
    """The lines of the tables and keys of a TOML file."""

    def __init__(self, text: str) -> None:
        self.places: dict[str, int] = {}
        """The first line of each table and key, by its dotted name."""
        table, fence = "", ""
        for number, line in enumerate(text.splitlines(), 1):
            if fence:  # inside of a text of several lines
                fence = "" if fence in line else fence
            elif header := _HEADER.match(line):
                table = _plain(header[1])
                self._note(table, number)
            elif key := _KEY.match(line):
                path = f"{table}.{_plain(key[1])}" if table else _plain(key[1])
                self._note(path, number)
                value = line[key.end() :]
                fence = next((f for f in ('"""', "'''") if value.count(f) == 1), "")
                bare = _TEXT.sub('""', value).partition("#")[0].strip()
                for inner in re.findall(r"[{,]\s*([\w-]+)\s*=", bare) if bare[:1] == "{" else ():
                    self._note(f"{path}.{inner}", number)

    def _note(self, path: str, line: int) -> None:
        """Note a table or key, and the tables around it."""
        parts = path.split(".")
        for i in range(len(parts)):
            self.places.setdefault(".".join(parts[: i + 1]), line)

    def find(self, table: str, problem: str) -> int:
        """The first line in a table with a key that a problem names, or else that of the table."""
        said = f" {problem.split(';', maxsplit=1)[0]} "
        prefix = f"{table}." if table else ""
        for path, line in self.places.items():
            key = path[len(prefix) :]
            plain = path.startswith(prefix) and "." not in key
            if plain and any(word in said for word in (f"'{key}'", f" {key} ", f" {key}: ")):
                return line
        while table and table not in self.places:
            table = table.rpartition(".")[0]
        return self.places.get(table, 1)


def _plain(path: str) -> str:
    return re.sub(r"\s*\.\s*", ".", path.strip()).replace('"', "").replace("'", "")


T = TypeVar("T")


@dataclass(frozen=True)
class JobProblem:
    """Something that is wrong with a job file."""

    line: int
    """Where to look, counted from 1; 1 if it is something that is missing."""
    text: str


def load_job(path: str | Path, engine: str | None = None, default: str | None = None) -> Job:
    """Load a job from a TOML file; relative paths in it start at the file's folder.

    ``engine`` overrides the engine that the file names, and ``default`` is used if it names none.
    """
    tables, _ = _read(Path(path))
    try:
        return parse_job(_with_engine(tables, engine, default), Path(path).parent)
    except QueryError as problem:
        raise QueryError(f"{path}: {problem}") from None


def parse_job(tables: Mapping[str, Any], folder: Path | None = None) -> Job:
    """Make a job from a mapping, such as the content of a TOML file."""
    parsing = _Parsing(folder)
    job = parsing.job(tables)
    if parsing.problems or job is None:
        raise QueryError(parsing.problems[0][1])
    return job


def load_board(path: str | Path) -> Job:
    """Load the sources and queries of a job file, which needs no sinks and no checkpoint for that.

    The queries become a board, even if there is only one.
    """
    tables, _ = _read(Path(path))
    name = str(tables.get("name", Path(path).stem))
    dropped = ("query", "sink", "dead_letters", "checkpoint", "trigger", "metrics")
    whole = {key: value for key, value in tables.items() if key not in dropped}
    whole |= {"name": name, "checkpoint": name, "engine": "local"}
    if "query" in tables:
        whole.setdefault("queries", {name: tables["query"]})
    try:
        return parse_job(whole, Path(path).parent)
    except QueryError as problem:
        raise QueryError(f"{path}: {problem}") from None


def problems_of(path: str | Path, engine: str | None = None) -> list[JobProblem]:
    """Everything that is wrong with a job file, in the order of its lines.

    That includes what this machine lacks to run it.
    """
    tables, text = _read(Path(path))
    parsing = _Parsing(Path(path).parent)
    parsing.job(_with_engine(tables, engine), ready=True)
    lines = LineIndex(text)
    problems = {
        JobProblem(lines.find(where, problem), problem) for where, problem in parsing.problems
    }
    return sorted(problems, key=lambda each: (each.line, each.text))


def _read(path: Path) -> tuple[dict[str, Any], str]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise QueryError(f"{path} cannot be read ({problem.strerror}); give a job file") from None
    except UnicodeDecodeError as problem:
        raise QueryError(f"{path} is not TOML: it is not UTF-8 text ({problem.reason})") from None
    try:
        return tomllib.loads(text), text
    except tomllib.TOMLDecodeError as problem:
        raise QueryError(f"{path} is not TOML: {problem}") from None


def _with_engine(
    tables: Mapping[str, Any], engine: str | None, default: str | None = None
) -> dict[str, Any]:
    chosen = engine or tables.get("engine", default)
    return dict(tables) if chosen is None else {**tables, "engine": chosen}


class _Parsing:
    """Makes a job and collects what is wrong with it."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.problems: Problems = []

    def job(self, tables: Mapping[str, Any], ready: bool = False) -> Job | None:
        """The job; None if it cannot be made.

        ``ready`` also notes what this machine lacks to run it. What is wrong in one place does not
        keep other places from being checked.
        """
        self._keys(JOB, "the job", "", tables)
        good = JOB.good(tables)
        sources = self._sources(tables)
        queries, sinks, cards = self._queries(tables)
        self._check_sources(tables, queries)
        trigger, metrics = tables.get("trigger", {}), tables.get("metrics", {})
        self._keys(TRIGGER, "[trigger]", "trigger", trigger)
        whole = "metrics" not in tables or self._keys(METRICS, "[metrics]", "metrics", metrics)
        letters = None
        if "dead_letters" in tables:
            letters = self._section("dead_letters", tables["dead_letters"], DEAD_LETTERS)
        read: dict[str, Any] = {
            "name": good.get("name", "job"),
            "checkpoint": _path(good.get("checkpoint", "checkpoint"), self.folder),
            "queries": queries,
            "sources": sources,
            "sinks": sinks,
            "cards": cards,
            "alone": "query" in tables,
            "trigger": TRIGGER.good(trigger),
            "metrics": metrics if whole else {},
            "dead_letters": letters,
            "spark": {name: str(value) for name, value in _flat(good.get("spark", {}))},
        }
        hidden = ("source", "query", "sink")
        job = Job(**({key: good[key] for key in good if key not in hidden} | read))
        checks = job_checks(job)
        if ready and job.engine in (None, *ENGINES):
            checks += [*ready_checks(job, serving=True), *file_checks(job)]
        for table, check in checks:
            self.attempt(table, check)
        return None if self.problems else job

    def attempt(self, table: str, check: Callable[[], Any]) -> None:
        """Note the problem if a check raises an error of ours."""
        try:
            check()
        except SkybandError as problem:
            if (table, str(problem)) not in self.problems:
                self.problems.append((table, str(problem)))

    def _keys(self, keys: KeyTypes, where: str, table: str, given: Any) -> bool:
        """Check the keys of a table and their values; whether nothing is wrong."""
        before = len(self.problems)
        self.problems += [(table, problem) for problem in keys.problems(where, given)]
        for check in value_checks(f"[{table}]" if table else "", keys.good(given)):
            self.attempt(table, check)
        return len(self.problems) == before

    def _sources(self, tables: Mapping[str, Any]) -> dict[str, JobSection]:
        if ("source" in tables) == ("sources" in tables):
            text = "give one [source], or several as [sources.NAME], but not both"
            self.problems.append(("source", text))
            return {}
        given = {"": tables["source"]} if "source" in tables else tables["sources"]
        sources = {}
        for name, each in given.items() if isinstance(given, Mapping) else ():
            table = source_table(name)
            section = self._section(table, each, SOURCES)
            if section is not None:
                sources[name] = section
        return sources

    def _check_sources(self, tables: Mapping[str, Any], queries: Mapping[str, Query]) -> None:
        """Note queries that cannot read the sources, and on this engine sources nobody reads."""
        given = tables.get("sources")
        if ("source" in tables) == (given is not None):
            return
        names = None if given is None else list(given) if isinstance(given, Mapping) else []
        local = tables.get("engine") == "local"
        for query in queries.values():
            own = names
            if names is not None and local and query.sources:  # a local query reads its own only
                own = [name for name in names if name in query.sources]
            example = " and ".join(f"[sources.{name}]" for name in query.sources)
            try:
                query.check_sources(own, example=example)
            except SchemaError as problem:
                text = f"the job's sources do not fit its query: {problem}"
                self.problems.append(("source", text))
        read = {name for query in queries.values() for name in query.sources}
        for name in names if names and local and read else ():
            if name not in read:
                known = ", ".join(sorted(read))
                text = f"no query reads [sources.{name}]; they read {known}"
                self.problems.append((f"sources.{name}", text))

    def _queries(
        self, tables: Mapping[str, Any]
    ) -> tuple[dict[str, Query], dict[str, JobSection], dict[str, CardView]]:
        """The queries of a job, their sinks, and how they are shown."""
        queries: dict[str, Query] = {}
        sinks: dict[str, JobSection] = {}
        cards: dict[str, CardView] = {}
        if ("query" in tables) == ("queries" in tables):
            text = "give one [query], or several as [queries.NAME], but not both"
            self.problems.append(("query", text))
            return queries, sinks, cards
        alone = "query" in tables
        given = {str(tables.get("name")): tables["query"]} if alone else tables["queries"]
        if not given:
            self.problems.append(("queries", "[queries] is empty; give one [queries.NAME]"))
        shared = tables.get("sink", {"kind": "console"})
        for name, each in given.items() if isinstance(given, Mapping) else ():
            table = "query" if alone else f"queries.{name}"
            if not isinstance(each, Mapping):
                text = f"[{table}] must be a table of settings, not {each!r}"
                self.problems.append((table, text))
                continue
            own = not alone and "sink" in each
            place, sink = (f"{table}.sink", each["sink"]) if own else ("sink", shared)
            section = self._section(place, sink, SINKS)
            shown = {key: each[key] for key in CARD.known if key in each}
            self._keys(CARD, f"[{table}]", table, shown)
            cards[name] = CardView(**CARD.good(shown))
            taken = set(shown) if alone else {*shown, "sink"}
            settings = {key: value for key, value in each.items() if key not in taken}
            query = read_query(table, settings, self.problems)
            if section is not None and query is not None:
                queries[name], sinks[name] = query, section
        return queries, sinks, cards

    def _section(self, table: str, given: Any, kinds: Mapping[str, KeyTypes]) -> JobSection | None:
        """A part of a job with a kind; None, with problems noted, if it is wrong."""
        where = f"[{table}]"
        if not isinstance(given, Mapping):
            self.problems.append((table, f"{where} must be a table of settings, not {given!r}"))
            return None
        kind = given.get("kind", "")
        try:
            one_of(f"{where} kind", kind, tuple(kinds))
        except QueryError as problem:
            self.problems.append((table, str(problem)))
            return None
        keys = kinds[kind]
        before = len(self.problems)
        self._keys(keys, where, table, {n: value for n, value in given.items() if n != "kind"})
        settings = keys.good(given)
        if keys.lacks(settings):
            return None
        for name in PATHS:
            if name in settings:
                settings[name] = _path(settings[name], self.folder)
        section = JobSection(kind, settings)
        for check in keys.checks:
            self.attempt(table, partial(check, where, section))
        return section if len(self.problems) == before else None


def _path(value: str, folder: Path | None) -> str:
    if "://" in value or folder is None or Path(value).is_absolute():
        return value
    return str(folder / value)


def _flat(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Join the keys of nested tables with dots: TOML reads a.b = 1 as a table in a table."""
    pairs = []
    for name, value in table.items():
        if isinstance(value, Mapping):
            pairs += _flat(value, f"{prefix}{name}.")
        else:
            shown = str(value).lower() if isinstance(value, bool) else value
            pairs.append((f"{prefix}{name}", shown))
    return pairs
