"""Where one id stands right now, over the panes that are sealed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband import registry
from skyband.answers.position import Position
from skyband.data.columns import output_type
from skyband.data.keys import hash_columns
from skyband.engine.fold import Fold
from skyband.engine.peek import nothing_sealed, sealed_windows
from skyband.errors import EngineError, QueryError

__all__ = ["position"]


def position(fold: Fold, id_: Any, group: Any) -> Position | None:
    """The position of an id in its group over the window that ``peek`` reads; None if not live."""
    _refuse(fold)
    nothing_sealed(fold)
    code = _group(fold, group)
    windows = sealed_windows(fold, fold.panes.size)
    if windows.group is not None:
        windows_of_group = np.flatnonzero(windows.group == code)
        if code < 0 or not len(windows_of_group):
            return None
        at = int(windows_of_group[0])
    elif code < 0 or not len(windows):
        return None
    else:
        at = 0
    if not fold.synopsis.ready:
        return None
    names = fold.query.key
    given = (id_,) if len(names) == 1 else id_
    key = _columns("id", names, given, fold)
    if any(column.null_count for column in key):
        return None
    first, end = int(windows.first[at]), int(windows.end[at])
    found = fold.synopsis.position(first, end, code, key)
    return None if found is None else Position(*found)


def _refuse(fold: Fold) -> None:
    if fold.synopsis.positions:
        return
    kind, name = fold.query.kind, registry.choose(fold.query)
    if kind == "TopK" and getattr(fold.query, "distinct", None) is not None:
        raise EngineError(f"{name} keeps no positions; use a TimeWindow or a CountWindow")
    if kind == "TopK":
        raise EngineError(
            f"{name} ranks rows, so an id has no position; use distinct='best' or distinct='latest'"
        )
    if kind == "HeavyHitters":
        raise EngineError(f"{name} does not know the count of every item; use algorithm='exact'")
    raise EngineError(
        f"{kind} does not know the position of every id; HeavyHitters(algorithm='exact') and "
        "TopK(distinct=...) do"
    )


def _group(fold: Fold, group: Any) -> int:
    """The code of a group; -1 if it is unknown."""
    names = fold.query.groups
    if not names:
        if group is not None and group != ():
            raise QueryError("the query has no groups; leave the group out")
        return 0
    if group == ():
        raise QueryError(f"the query has groups; pass the group too, by {', '.join(names)}")
    given = group if isinstance(group, tuple) else (group,)
    columns = _columns("group", names, given, fold)
    return int(fold.groups.index.find(hash_columns(columns))[0])


def _columns(role: str, names: Sequence[str], given: Any, fold: Fold) -> list[pa.Array]:
    """One row of columns with these values, in the types of the source."""
    if not isinstance(given, tuple) or len(given) != len(names):
        raise QueryError(f"the {role} must have {len(names)} values, for {', '.join(names)}")
    schema = next(iter(fold.synopsis.schemas.values()))
    found = []
    for name, value in zip(names, given, strict=True):
        kind = output_type(schema.field(name).type)
        try:
            found.append(pa.array([value], kind))
        except (pa.ArrowException, TypeError, OverflowError) as problem:
            raise QueryError(
                f"{value!r} cannot be a value of column {name!r}, which has type {kind}: {problem}"
            ) from problem
    return found
