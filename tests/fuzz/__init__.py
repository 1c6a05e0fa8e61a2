"""Random inputs, seeded: ``make fuzz``, or ``python -m fuzz`` in this folder's parent.

One input is one query over one stream, one file, one damaged snapshot, one spec that is accepted or
refused, or one run of the command line. The batches of a stream and the arguments of a command are
not counted separately. Whatever the input, these are failures:

    a crash            the process dies
    a hang             two minutes of CPU time, or twenty minutes of wall time, for one input
    a traceback        an exception that is not a SkybandError, or any from the command line
    a wrong answer     one that differs from the oracle's, or violates its own bounds

    values.py      names, types, times and columns, including odd ones
    queries.py     random queries of each kind
    streams.py     a random query with a stream that it can read
    answers.py     such a query compared with the oracle, through Monitor, rank and watch
    specs.py       settings and column types that may make no sense
    snapshots.py   damaged snapshots
    files.py       damaged files
    commands.py    the command line, in this process and in a separate one
    driver.py      runs many inputs, survives crashes and hangs, shows how to reproduce a failure
"""

from __future__ import annotations

import random
from collections.abc import Callable

from fuzz import answers, commands, files, snapshots, specs

Case = Callable[[random.Random], None]

CASES: dict[str, tuple[Case, int]] = {
    "answers": (answers.case, 600),
    "specs": (specs.case, 150),
    "snapshots": (snapshots.case, 100),
    "files": (files.case, 80),
    "commands": (commands.case, 69),
    "processes": (commands.process, 1),
}
"""Every kind of case, with its number per thousand inputs."""


def pick(seed: str) -> str:
    """The kind of case that a seed selects."""
    names = list(CASES)
    shares = [share for _, share in CASES.values()]
    return random.Random(f"pick:{seed}").choices(names, shares)[0]


def run(kind: str, seed: str) -> None:
    """Run one case; an exception is a failure."""
    CASES[kind][0](random.Random(f"{kind}:{seed}"))
