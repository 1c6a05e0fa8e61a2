"""Finds the line of a job file that a problem is about."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["Lines"]

_HEADER = re.compile(r"\s*\[+\s*([^\[\]]+?)\s*\]+\s*(#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'')


class Lines:
    """The lines of the tables and keys of a TOML file."""

    def __init__(self, text: str) -> None:
        self.places: dict[str, int] = {}
        """The first line of each table and key, by its dotted name."""
        for line, path in _paths(text):
            self.places.setdefault(path, line)

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


def _paths(text: str) -> Iterator[tuple[int, str]]:
    """The line and the dotted name of each table and key, in the order of the file."""
    table, fence = "", ""
    for number, line in enumerate(text.splitlines(), 1):
        if fence:  # inside of a text of several lines
            fence = "" if fence in line else fence
            continue
        header = _HEADER.match(line)
        if header is not None:
            table = _plain(header[1])
            yield from ((number, path) for path in _parents(table))
            continue
        key = _KEY.match(line)
        if key is None:
            continue
        path = f"{table}.{_plain(key[1])}" if table else _plain(key[1])
        yield from ((number, each) for each in _parents(path))
        value = line[key.end() :]
        fence = next((f for f in ('"""', "'''") if value.count(f) == 1), "")
        yield from ((number, f"{path}.{inner}") for inner in _inner(value))


def _inner(value: str) -> Iterator[str]:
    """The keys of an inline table."""
    bare = _TEXT.sub('""', value).partition("#")[0].strip()
    if bare.startswith("{"):
        yield from re.findall(r"[{,]\s*([\w-]+)\s*=", bare)


def _parents(path: str) -> Iterator[str]:
    parts = path.split(".")
    for i in range(len(parts)):
        yield ".".join(parts[: i + 1])


def _plain(path: str) -> str:
    return re.sub(r"\s*\.\s*", ".", path.strip()).replace('"', "").replace("'", "")
