"""What the oracle says about one stream, kept where several algorithms are compared with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import oracle
from oracle.driver import ONLY_FOR_ALGORITHMS


class Truth(NamedTuple):
    """What the oracle says about one stream."""

    run: oracle.Run
    peeks: list[oracle.Answer | None]


def truth(
    kind: str,
    window: Any,
    rows: list[Any],
    settings: Mapping[str, Any],
    lasts: Sequence[int | None],
    known: dict[str, Truth] | None = None,
) -> Truth:
    """The oracle's answers and peeks, from ``known`` if it has them."""
    asked = {n: v for n, v in sorted(settings.items()) if n not in ONLY_FOR_ALGORITHMS}
    question = repr((kind, window, asked, lasts))
    if known is not None and question in known:
        return known[question]
    made = oracle.answers(kind, window, rows, **asked)
    found = Truth(made, oracle.peeks(kind, window, rows, lasts, made, **asked))
    if known is not None:
        known[question] = found
    return found
