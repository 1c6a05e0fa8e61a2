"""Shows errors to users: one red line, no traceback, exit code 2."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from skyband.errors import SkybandError

__all__ = ["MISTAKE", "as_options", "explained", "say"]

MISTAKE = 2
"""The exit code for a mistake in the command or in the data."""

_INTERRUPTED = 130
_KEYWORD = re.compile(r"\b([a-z_]+)=('[^']*'|\"[^\"]*\"|[\w.]+)?")


def as_options(message: str, names: Iterable[str]) -> str:
    """A message of the library with its parameters written as command-line options.

    >>> as_options("a TimeWindow needs time=, or on_bad='skip'", ["time", "on_bad"])
    'a TimeWindow needs --time, or --on-bad skip'
    """
    known = set(names)

    def written(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name not in known:
            return match.group()
        plain = value and re.fullmatch(r"'[\w.-]+'", value)
        shown = value.strip("'") if plain else value
        return f"--{name.replace('_', '-')}" + (f" {shown}" if shown else "")

    return _KEYWORD.sub(written, message)


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
            _complain(f"{problem.filename or 'output'}: {problem.strerror or problem}")
            raise typer.Exit(MISTAKE) from None
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None

    return run


def say(text: str, style: str = "dim") -> None:
    """Print a remark on the error stream, so that answers can be piped."""
    Console(stderr=True, highlight=False).print(Text(text, style=style), soft_wrap=True)


def _complain(message: str) -> None:
    line = " ".join(message.split())
    console = Console(stderr=True, highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), (line, "red")), soft_wrap=True)
