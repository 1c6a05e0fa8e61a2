"""Queries rebuilt from their plain values, as snapshots and checkpoints hold them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from skyband.errors import EngineError
from skyband.query.base import KINDS, Query
from skyband.query.plain_values import FUNCTION, IDENTITY, is_function, window_of


def from_spec(spec: Mapping[str, Any], **given: Any) -> Query:
    """Rebuild a query from ``Query.spec``; ``given`` are the functions that a spec cannot hold."""
    values = dict(spec) | given
    for name, value in values.items():
        if is_function(value):
            raise EngineError(
                f"{name}= was a function of your own ({value[FUNCTION]}), which cannot be part of "
                f"a snapshot; give it again: Monitor.restore(blob, {name}=...)"
            )
    kind = KINDS[values.pop("kind")]
    values["window"] = window_of(values.pop("window"))
    unknown = [name for name in given if name not in spec]
    if unknown:
        raise EngineError(f"the snapshot's {kind.kind} has no {unknown[0]}=; leave it out")
    query = kind(**values)
    _check_given(query, spec, given)
    return query


def _check_given(query: Query, spec: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise EngineError if a given value differs from the one in the spec."""
    found = query.spec()
    for name in given:
        was, now = spec[name], found[name]
        if not is_function(was):
            if json.dumps(was, sort_keys=True) != json.dumps(now, sort_keys=True):
                raise EngineError(
                    f"the snapshot has {name}={was!r}, not {now!r}; a snapshot belongs to one "
                    "query, so start a new Monitor for a different one"
                )
        elif not is_function(now) or now[IDENTITY] != was[IDENTITY]:
            raise EngineError(
                f"{name}= is not the snapshot's function ({was[FUNCTION]}): its code differs. Pass "
                "the function that the snapshot was taken with, or start a new Monitor"
            )
