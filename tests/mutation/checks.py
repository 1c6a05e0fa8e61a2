"""What runs against a mutant: queries compared with the oracle, and the module's own tests.

Each check runs once on the unchanged module, to learn how long it takes and which lines of the
module it executes. A mutant then only runs the checks that execute the changed line. What the
oracle says is remembered: it does not depend on the module.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any

import oracle
from mutation.targets import Target

NEAR_LIMIT = 1.0
"""Seconds of CPU time that every check gets beyond a multiple of its usual time."""


@dataclass(eq=False)
class Check:
    """Something that raises an exception if a module is wrong."""

    name: str
    run: Callable[[], None]
    seconds: float = 0.0
    lines: frozenset[int] = frozenset()
    kills: int = 0
    remembers: bool = True
    """Whether what the oracle says is kept; the check must always ask the same."""
    said: list[Any] = field(default_factory=list)
    """What the oracle says when the check asks, in order."""

    @property
    def limit(self) -> float:
        """Seconds of CPU time after which the check counts as endless."""
        return 10 * self.seconds + NEAR_LIMIT

    @property
    def promise(self) -> float:
        """How soon the check is likely to notice something: those with more come first."""
        return (self.kills + 0.2) / (self.seconds + 0.01)

    def measure(self, path: str) -> None:
        """Run on the unchanged module at ``path``; the check must pass.

        Tracing makes the time longer than it will be, and the oracle's share is left out.
        """
        lines: set[int] = set()

        def inside(frame: FrameType, event: str, _: Any) -> Any:
            if event == "line":
                lines.add(frame.f_lineno)
            return inside

        def calls(frame: FrameType, event: str, _: Any) -> Any:
            return inside if frame.f_code.co_filename == path else None

        waited = 0.0

        def heard(ask: Callable[[], Any]) -> Any:
            nonlocal waited
            sys.settrace(None)
            asked = time.process_time()
            self.said.append(ask())
            waited += time.process_time() - asked
            sys.settrace(calls)
            return self.said[-1]

        began = time.process_time()

        with _oracle_says(heard if self.remembers else lambda ask: ask()):
            sys.settrace(calls)
            try:
                self.run()
            finally:
                sys.settrace(None)
        self.lines = frozenset(lines)
        self.seconds = time.process_time() - began - waited

    def again(self) -> None:
        """Run with what the oracle said the first time."""
        replies = iter(self.said)
        with _oracle_says(lambda ask: next(replies) if self.remembers else ask()):
            self.run()


@contextmanager
def _oracle_says(reply: Callable[[Callable[[], Any]], Any]) -> Iterator[None]:
    """Let ``reply`` answer instead of the oracle; it gets the question to ask."""
    real = {name: getattr(oracle, name) for name in ("answers", "peeks")}

    def stand_in(ask: Callable[..., Any], *given: Any, **settings: Any) -> Any:
        return reply(lambda: ask(*given, **settings))

    try:
        for name, ask in real.items():
            setattr(oracle, name, partial(stand_in, ask))
        yield
    finally:
        for name, ask in real.items():
            setattr(oracle, name, ask)


def queries_of(target: Target, cases: int) -> list[Check]:
    """Random queries of the target's algorithms, if it has any, and a few longer streams."""
    found = [
        Check(f"random query {number}", partial(_random_query, target, number))
        for number in range(cases if target.algorithms else 0)
    ]
    return found + list(_longer(target))


def _random_query(target: Target, number: int) -> None:
    import numpy as np

    import fuzz
    from fuzz import queries

    queries.CHOICES = dict(target.algorithms)
    with np.errstate(all="ignore"):
        list(fuzz.run("answers", f"mutant-{number}"))


def _longer(target: Target) -> Iterator[Check]:
    """Streams of a few hundred rows, in which synopses grow, shrink and merge."""
    from support import conformance, suites

    patterns = ("uniform", "falling", "crowded")
    windows = (oracle.TimeWindow(30, 7, lateness=5), oracle.CountWindow(40, 9))
    for kind, names in target.algorithms.items():
        many = sum(map(len, target.algorithms.values())) > 2
        few = range(len(conformance.SETTINGS[kind]))[: 2 if many else None]
        for algorithm in names:
            for number in few:
                settings = suites.settings_of(kind, algorithm, number)
                window = windows[number % 2]
                if conformance.fits(settings, window):
                    run = partial(_compare, kind, window, settings, patterns[number % 3], number)
                    name = f"{algorithm} over a long stream, settings {number}"
                    yield Check(name, run, remembers=False)  # support/truth.py remembers


def _compare(kind: str, window: Any, settings: Any, pattern: str, number: int) -> None:
    import numpy as np

    from support import conformance

    stream = conformance.long_stream(kind, settings, window, pattern)
    with np.errstate(all="ignore"):
        conformance.compare(kind, window, settings, stream, restarts=number == 0)


def tests_of(target: Target, items: list[Any]) -> list[Check]:
    """The target's own tests among those that pytest collected."""
    for path, word in target.own_tests:
        if not any(item.path.match(path) and word in item.name for item in items):
            raise LookupError(f"{path} has no test whose name contains {word!r}")
    return [
        Check(item.nodeid, partial(_run_item, item), remembers=False)
        for item in items
        if any(item.path.match(path) and word in item.name for path, word in target.own_tests)
    ]


def _run_item(item: Any) -> None:
    from _pytest.runner import runtestprotocol

    for report in runtestprotocol(item, log=False, nextitem=None):
        if report.failed:
            raise AssertionError(report.longreprtext)
