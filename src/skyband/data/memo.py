"""What has been computed from a column of the current batch, so that it is computed once.

The queries of a board read the same columns. Within ``one_batch``, the times, the hashes and the
masks of bad values of a column are computed for the first query that needs them and kept for the
others. A column is recognised by its buffers, which stay alive until the batch is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import pyarrow as pa

T = TypeVar("T")
_kept: ContextVar[dict[Any, Any] | None] = ContextVar("kept", default=None)


@contextmanager
def one_batch() -> Iterator[None]:
    """Keep what ``once`` computes until the end of this block."""
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def sharing() -> bool:
    """Whether what is computed now is kept for other queries."""
    return _kept.get() is not None


def once(what: str, column: pa.Array, compute: Callable[[], T]) -> T:
    """``compute()``, or its earlier result for the same column; results must not be changed."""
    kept = _kept.get()
    if kept is None or pa.types.is_nested(column.type) or pa.types.is_dictionary(column.type):
        return compute()
    buffers = tuple(0 if each is None else each.address for each in column.buffers())
    key = what, str(column.type), column.offset, len(column), buffers
    if key not in kept:
        # The column is kept too: its buffers cannot be freed, so no other column gets their place.
        kept[key] = column, compute()
    found: T = kept[key][1]
    return found
