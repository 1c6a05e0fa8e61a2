"""What all verbs share: choices of options, and errors as one red line, with exit code 2."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import typer
import typer.core
from rich.console import Console
from rich.text import Text

from skyband.answers.plain_text import plain
from skyband.errors import SkybandError

MISTAKE = 2
"""The exit code for a mistake in the command or in the data."""

_INTERRUPTED = 130
_LOOK, _SHOWN = 1 << 20, 8
"""The rows that are looked at for the values of a column, and how many values are shown."""
_SUBJECT = re.compile(r"^[a-z_]+(?= (?:must|names|needs)\b)")
_KEYWORD = re.compile(r"\b([a-z_]+)=('[^']*'|\"[^\"]*\"|[\w.]+)?")


class Engine(StrEnum):
    """Where a query runs."""

    local = "local"
    spark = "spark"


class Format(StrEnum):
    """How answers are written."""

    table = "table"
    json = "json"
    csv = "csv"
    parquet = "parquet"


class OnBad(StrEnum):
    """What happens to bad and late rows."""

    raise_ = "raise"
    skip = "skip"


def as_options(message: str, names: Iterable[str]) -> str:
    """A message of the library with its parameters written as command-line options.

    >>> as_options("a TimeWindow needs time=, or on_bad='skip'", ["time", "on_bad"])
    'a TimeWindow needs --time, or --on-bad skip'
    >>> as_options("min_rows must be above 0; leave out largest=False", ["largest", "min_rows"])
    '--min-rows must be above 0; leave out --no-largest'
    """
    known = set(names)

    def written(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name not in known:
            return match.group()
        if value in ("True", "False"):
            return f"--{'no-' * (value == 'False')}{name.replace('_', '-')}"
        plain = value and re.fullmatch(r"'[\w.-]+'", value)
        shown = value.strip("'") if plain else value
        return f"--{name.replace('_', '-')}" + (f" {shown}" if shown else "")

    message = _SUBJECT.sub(
        lambda m: f"--{m[0].replace('_', '-')}" if m[0] in known else m[0], message
    )
    return _KEYWORD.sub(written, message)


def in_flags(text: str, names: Iterable[str]) -> str:
    """A docstring of the library, whose parameters stand in two backticks, for a command's help.

    >>> in_flags('``k`` rows; ``ties="share"`` and ``returns=False``', ["k", "ties", "returns"])
    '`--k` rows; `--ties share` and `--no-returns`'
    """
    known = set(names)

    def written(match: re.Match[str]) -> str:
        words = match[1]
        if words in known:
            return f"`--{words.replace('_', '-')}`"
        if re.fullmatch(r"\"[\w-]+\"", words):
            return f"`{words[1:-1]}`"
        return f"`{as_options(words.replace(chr(34), chr(39)), known)}`"

    return re.sub(r"``([^`]+)``", written, text)


class VerbCommand(typer.core.TyperCommand):
    """A command whose flags have no type in its help: ``--watch``, not ``--watch <bool>``."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, that of the help too."""
        return _bare_flags(super().get_params(ctx))


class VerbGroup(typer.core.TyperGroup):
    """All commands; the flags before them are shown without a type, too."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, that of the help too."""
        return _bare_flags(super().get_params(ctx))


def _bare_flags(params: list[Any]) -> list[Any]:
    for each in params:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return params


def explained(verb: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that its errors are shown in one line."""

    @functools.wraps(verb)
    def run(**given: Any) -> None:
        try:
            verb(**given)
        except SkybandError as problem:
            # Options have the names of the query's parameters, so messages can refer to them.
            _complain(as_options(str(problem), given))
            raise typer.Exit(MISTAKE) from None
        except BrokenPipeError:
            # The reader of our output has closed it, so nothing can be written, not even on exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except OSError as problem:
            place = problem.filename or given.get("output") or "output"
            _complain(f"{place}: {problem.strerror or problem}")
            raise typer.Exit(MISTAKE) from None
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None

    return run


def say(text: str, style: str = "dim") -> None:
    """Print a remark on the error stream, so that answers can be piped."""
    Console(stderr=True, highlight=False).print(Text(text, style=style), soft_wrap=True)


def say_unmatched(where: Mapping[str, Sequence[Any]] | str, source: Any) -> None:
    """Say which values there are, after a ``--where`` that no row matched."""
    from skyband.cli.stdin import Stdin
    from skyband.data.row_filter import RowFilter
    from skyband.embedded.sources import ReadSettings, batches_of
    from skyband.query.expressions import conditions_of

    if isinstance(where, str):
        say(f"no row meets the condition: {where}", style="yellow")
        return

    shown = {n: f"--where {n}={','.join(map(str, values))}" for n, values in where.items()}
    counts = {name: Counter[Any]() for name in where}
    sources = [] if isinstance(source, Stdin) else [source]
    matched, rows = set[str](), 0
    for each in source.values() if isinstance(source, Mapping) else sources:
        reading = ReadSettings(lambda schema: [name for name in where if name in schema.names])
        for table in batches_of(each, reading):
            for name in set(where) & set(table.column_names):
                for found in table[name].value_counts().to_pylist():
                    counts[name][found["values"]] += found["counts"]
                wanted = RowFilter(conditions_of({name: where[name]}), table.schema)
                if any(wanted.mask(batch).any() for batch in table.to_batches()):
                    matched.add(name)
            rows += table.num_rows
            if rows >= _LOOK:
                break
    lines = []
    for name, found in counts.items():
        if found and name not in matched:
            order = sorted(found, key=lambda value: (-found[value], str(value)))
            more = f", and {len(order) - _SHOWN:,} more" if len(order) > _SHOWN else ""
            lines.append(f"{shown[name]}; {name} has {', '.join(map(plain, order[:_SHOWN]))}{more}")
    both = " together" if len(where) > 1 else ""
    for line in lines or [f"{' and '.join(shown.values())}{both}"]:
        say(f"no row has {line}", style="yellow")


def _complain(message: str) -> None:
    line = " ".join(message.split())
    console = Console(stderr=True, highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), (line, "red")), soft_wrap=True)
