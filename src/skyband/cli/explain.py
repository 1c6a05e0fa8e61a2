"""Errors as a person reads them: one red line, no traceback, exit code 2."""

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
"""Exit code of a mistake in what was asked or in the data."""

_INTERRUPTED = 130
_KEYWORD = re.compile(r"\b([a-z_]+)=('[^']*'|\"[^\"]*\"|[\w.]+)?")


def as_options(message: str, names: Iterable[str]) -> str:
    """A message of the library in the words of the command line.

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
    """A command whose mistakes are told in one line."""

    @functools.wraps(verb)
    def run(**given: Any) -> None:
        try:
            verb(**given)
        except SkybandError as problem:
            # A query's columns are named by options of the same name, so its messages can be too.
            _complain(as_options(str(problem), given))
            raise typer.Exit(MISTAKE) from None
        except BrokenPipeError:
            # Whoever read our output has seen enough; nothing can be written now, not even on exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except OSError as problem:
            _complain(f"{problem.filename or 'output'}: {problem.strerror or problem}")
            raise typer.Exit(MISTAKE) from None
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None

    return run


def say(text: str, style: str = "dim") -> None:
    """A remark on the error stream, so that answers can be piped on."""
    Console(stderr=True, highlight=False).print(Text(text, style=style), soft_wrap=True)


def _complain(message: str) -> None:
    line = " ".join(message.split())
    console = Console(stderr=True, highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), (line, "red")), soft_wrap=True)
