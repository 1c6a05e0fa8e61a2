"""``python -m crashes``: stops jobs at every step until so many crash points were tried."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import NamedTuple

from crashes.enumerate import HOWS, Enumeration, MismatchError
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
    logging.disable(logging.CRITICAL)
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


def outcomes(points: int, first: int, batches: int, processes: int) -> Iterator[Outcome]:
    """Scripts one after the other, until there were so many points."""
    done, seed = 0, first
    with ProcessPoolExecutor(processes) as pool:
        waiting: set[Future[Outcome]] = set()
        while done < points:
            while len(waiting) < 2 * processes:
                waiting.add(pool.submit(every_point, seed, batches))
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
    given = parser.parse_args()
    if given.step is not None:
        outcome = every_point(given.seed, given.batches, given.step, given.how)
        print(*outcome.problems, f"{outcome.points} crash points", sep="\n")
        return bool(outcome.problems)
    began, points, failed = time.monotonic(), 0, 0
    for outcome in outcomes(given.points, given.seed, given.batches, given.processes):
        points += outcome.points
        failed += len(outcome.problems)
        for problem in outcome.problems[:2]:
            print(problem, flush=True)
    seconds = time.monotonic() - began
    print(f"{points:,} crash points in {seconds:.0f} s, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
