"""The errors that Skyband raises.

SkybandError            anything Skyband raises on purpose
├── QueryError          the query itself is invalid; raised when it is constructed
├── SchemaError         the query does not fit the columns of this source
├── DataError           some rows are bad or late; no row of their batch was applied
└── EngineError         this engine, state or machine cannot do what was asked

SkybandWarning          rows were left out because of ``on_bad="skip"``

Every message says what was found, what was expected and what to do about it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import TracebackType

_OWN = ("skyband", "pyarrow", "numba")
"""The packages whose lines tell a user nothing about a mistake."""


class SkybandError(Exception):
    """The base class of every error that Skyband raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the user's own lines, without those of Skyband and below."""
        shell = sys.modules["IPython"].get_ipython()
        steps, kept = [], None
        at = self.__traceback__
        while at is not None:
            steps.append(at)
            at = at.tb_next
        for step in reversed(steps):
            if step.tb_frame.f_globals.get("__name__", "").partition(".")[0] not in _OWN:
                kept = TracebackType(kept, step.tb_frame, step.tb_lasti, step.tb_lineno)
        chain = self.__cause__, self.__suppress_context__
        self.__cause__ = None  # which hides the context, too
        try:
            return list(shell.InteractiveTB.structured_traceback(type(self), self, kept))
        finally:
            self.__cause__, self.__suppress_context__ = chain


class SkybandWarning(UserWarning):
    """``rank`` left rows out because of ``on_bad="skip"``; the message says how many and why."""


class QueryError(SkybandError, ValueError):
    """A query or window is invalid; raised when it is constructed."""


class SchemaError(SkybandError, TypeError):
    """The query does not fit the columns of this source."""


class DataError(SkybandError, ValueError):
    """Some rows cannot be used; no row of their batch was applied."""


class EngineError(SkybandError, RuntimeError):
    """The engine, the snapshot or the machine cannot do what was asked."""


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """The end of a message about a name that is not known: the one that is meant, if it is clear.

    >>> did_you_mean("byts", ["ts", "bytes"])
    ". Did you mean 'bytes'?"
    """
    from difflib import get_close_matches  # which a program without mistakes never needs

    written = {str(each).lower(): str(each) for each in known}
    close = get_close_matches(str(name).lower(), list(written), 1)
    return f". Did you mean {written[close[0]]!r}?" if close else ""


def how_to_install(extra: str) -> str:
    """What to type for an optional part, for messages about a missing package.

    >>> how_to_install("plots")
    "pip install 'skyband[plots]' (in a checkout: pip install -e '.[plots]')"
    """
    return f"pip install 'skyband[{extra}]' (in a checkout: pip install -e '.[{extra}]')"
