"""``python -m crashes``: stops jobs at every step until so many crash points were tried."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from functools import partial
from typing import NamedTuple

from crashes.enumerate import HOWS, Enumeration, MismatchError
from crashes.faults import FAULTS, FaultyRuns
from crashes.scripts import Script


class Outcome(NamedTuple):
    """What came of one script."""

    seed: int
    points: int
    problems: list[str]


def every_point(
    seed: int, batches: int, step: int | None = None, how: str | None = None
) -> Outcome:
    """Stop a script at each of its steps, or at one of them, in each way, or in one."""
    made = Enumeration(Script(seed, batches))
    tried, problems = 0, list[str]()
    try:
        points = made.reference()
    except Exception as problem:  # noqa: BLE001  (reported with the seed)
        return Outcome(seed, 0, [f"seed {seed}, not stopped at all: {problem!r}"])
    for point in points:
        for each in HOWS:
            if step not in (None, point.number) or how not in (None, each):
                continue
            tried += 1
            try:
                made.crash_at(point, each)
            except MismatchError as problem:
                problems.append(str(problem))
    return Outcome(seed, tried, problems)


def every_fault(
    seed: int, batches: int, kind: str | None, step: int | None, stays: bool
) -> Outcome:
    """A fault at each step of a script, or one at one of them."""
    runs = FaultyRuns(Enumeration(Script(seed, batches)))
    tried, problems = 0, list[str]()
    for point in runs.points():
        if kind not in (None, point.kind) or step not in (None, point.call):
            continue
        if step is not None and point.stays != stays:
            continue
        tried += 1
        try:
            runs.run(point)
        except MismatchError as problem:
            problems.append(str(problem))
    return Outcome(seed, tried, problems)


def outcomes(
    points: int, first: int, processes: int, one: Callable[[int], Outcome]
) -> Iterator[Outcome]:
    """Scripts one after the other, until there were so many points."""
    done, seed = 0, first
    quiet = logging.disable  # of a process of its own
    with ProcessPoolExecutor(processes, None, quiet, (logging.CRITICAL,)) as pool:
        waiting: set[Future[Outcome]] = set()
        while done < points:
            while len(waiting) < 2 * processes:
                waiting.add(pool.submit(one, seed))
                seed += 1
            finished = next(as_completed(waiting))
            waiting.remove(finished)
            done += finished.result().points
            yield finished.result()
        for each in waiting:
            each.cancel()


def main() -> int:
    parser = argparse.ArgumentParser(prog="make crashes", description=__doc__)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--step", type=int, help="only the script of this seed, at this step")
    parser.add_argument("--how", choices=HOWS, help="with --step: only in this way")
    parser.add_argument("--faults", action="store_true", help="faults instead of crashes")
    parser.add_argument("--fault", choices=FAULTS, help="only faults of this kind")
    parser.add_argument("--stays", action="store_true", help="with --fault and --step: it stays")
    given = parser.parse_args()
    one: Callable[..., Outcome] = partial(
        every_point, batches=given.batches, step=given.step, how=given.how
    )
    if given.faults or given.fault:
        one = partial(
            every_fault,
            batches=given.batches,
            kind=given.fault,
            step=given.step,
            stays=given.stays,
        )
    if given.step is not None:
        logging.disable(logging.CRITICAL)
        outcome = one(given.seed)
        print(*outcome.problems, f"{outcome.points} points", sep="\n")
        return bool(outcome.problems)
    began, points, failed = time.monotonic(), 0, 0
    for outcome in outcomes(given.points, given.seed, given.processes, one):
        points += outcome.points
        failed += len(outcome.problems)
        for problem in outcome.problems[:2]:
            print(problem, flush=True)
    seconds = time.monotonic() - began
    print(f"{points:,} points in {seconds:.0f} s, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
