"""Random inputs, seeded: ``make fuzz``, or ``python -m fuzz`` in this folder's parent.

An input is one thing that is handed to the interface and whose outcome is checked:

    batches      a batch pushed to a Monitor: the answers that are due are the oracle's
    tables       a source given to rank or watch: all answers are the oracle's
    boards       a batch pushed to a board: each of its queries answers as it does alone
    specs        a query, window, column or batch that may make no sense: it works or is refused
    snapshots    a snapshot, damaged or not, given to restore
    files        a file, damaged or not, given to rank
    commands     a command line, run in this process
    processes    a command line, run as a process of its own
    jobs         a job file given to ``skyband pipeline``, in this process

A case draws something with a seed, for example a query and a stream, and makes several inputs of
it. Whatever the input, these are failures:

    a crash            the process dies
    a hang             two minutes of CPU time, or twenty minutes of wall time, for one input
    a traceback        an exception that is not a SkybandError, or any from the command line
    a wrong answer     one that differs from the oracle's, or violates its own bounds

With ``NUMBA_DISABLE_JIT=1`` arrays that nobody has written to are full of NaN and -1, so that
reading them gives a wrong answer. This is slower, and finds what compiled kernels hide.

    values.py      names, types, times and columns, including odd ones
    queries.py     random queries of each kind
    streams.py     a random query with a stream that it can read
    asks.py        what a query may ask besides: filters, kept columns, shared ranks
    answers.py     such a query through Monitor, rank and watch
    boards.py      several such queries over one stream
    checks.py      its answers compared with the oracle's
    specs.py       settings and column types that may make no sense
    snapshots.py   damaged snapshots
    files.py       damaged files
    commands.py    the command line, in this process and in a separate one
    jobs.py        job files, with mistakes or without
    driver.py      runs many inputs, survives crashes and hangs, shows how to reproduce a failure
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from fuzz import answers, boards, commands, files, jobs, snapshots, specs

Case = Callable[[random.Random], Iterator[str]]
"""Yields the kind of each input after its outcome was checked."""

CASES: dict[str, tuple[Case, int]] = {
    "answers": (answers.case, 1200),
    "boards": (boards.case, 60),
    "specs": (specs.case, 1100),
    "snapshots": (snapshots.case, 350),
    "files": (files.case, 250),
    "commands": (commands.case, 100),
    "processes": (commands.process, 1),
    "jobs": (jobs.case, 30),
}
"""Every kind of case, with its share of the cases."""

INPUTS = (
    *("batches", "tables", "boards", "specs", "snapshots", "files", "commands", "processes"),
    "jobs",
)
"""The kinds of input that cases make."""


def pick(seed: str) -> str:
    """The kind of case that a seed selects."""
    names = list(CASES)
    shares = [share for _, share in CASES.values()]
    return random.Random(f"pick:{seed}").choices(names, shares)[0]


def run(kind: str, seed: str) -> Iterator[str]:
    """Run one case, input by input; an exception is a failure."""
    return CASES[kind][0](random.Random(f"{kind}:{seed}"))
