"""A board: several queries by name, which stand wherever one query may."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from skyband.errors import QueryError, SkybandError
from skyband.query.base import Query, check_query

Board: TypeAlias = Mapping[str, Query]
"""Queries by name, answered together over one read of their sources."""


def board_of(given: object, on_bad: str = "raise") -> dict[str | None, Query]:
    """The queries by name; a query that stands alone has the name None.

    Raises QueryError if ``given`` is neither a query nor a board of queries.
    """
    if not isinstance(given, Mapping):
        check_query(given, on_bad)
        assert isinstance(given, Query)
        return {None: given}
    if not given:
        raise QueryError(
            "a board needs at least one query, for example {'busiest': sb.TopK(...)}; got {}"
        )
    for name, query in given.items():
        if not isinstance(name, str) or not name:
            raise QueryError(f"the name of a query on a board must be text, not {name!r}")
        if isinstance(query, Mapping):
            raise QueryError(
                f"{name!r} is a mapping; a board maps names to queries and holds no other boards"
            )
        if not isinstance(query, Query):
            raise QueryError(f"{name!r} must be a query such as sb.TopK(...), not {query!r}")
        check_query(query, on_bad)
    return dict(given)


@contextmanager
def named(name: str | None) -> Iterator[None]:
    """Begin the messages of errors with a query's name; a query that stands alone has none."""
    try:
        yield
    except SkybandError as error:
        if not name:
            raise
        raise type(error)(f"query {name!r}: {error}") from error
