"""What the oracle says about a stream, kept for the next algorithm that is compared with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import oracle
from oracle.driver import ONLY_FOR_ALGORITHMS

_MOST = 256
"""Answers that are kept: a few for each setting and pattern of one kind of query."""
_kept: dict[str, Truth] = {}


class Truth(NamedTuple):
    run: oracle.Run
    peeks: list[oracle.Answer | None]


def truth(
    kind: str,
    window: Any,
    rows: Sequence[Any],
    settings: Mapping[str, Any],
    lasts: Sequence[int | None] = (),
) -> Truth:
    """The oracle's answers, and its peeks after each push if there are ``lasts``."""
    asked = {n: v for n, v in sorted(settings.items()) if n not in ONLY_FOR_ALGORITHMS}
    # All that matters is in the text of the question, except what a user's function does.
    question = repr((kind, window, asked, lasts, rows))
    found = _kept.pop(question, None)
    if found is None:
        run = oracle.answers(kind, window, rows, **asked)
        found = Truth(run, oracle.peeks(kind, window, rows, lasts, run, **asked))
    if not any(callable(value) for value in asked.values()):
        _kept[question] = found
        if len(_kept) > _MOST:
            del _kept[next(iter(_kept))]
    return found
