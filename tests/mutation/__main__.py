"""``python -m mutation``: try mutants and write the page about them."""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from mutation import report, runner
from mutation.changes import Change, changes_of
from mutation.targets import FAMILIES, TARGETS, Target


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make mutants MUTANT_ARGS=...")
    parser.add_argument("--sample", type=int, help="number of mutants per module (default: all)")
    parser.add_argument("--seed", default="0", help="chooses the random sample")
    parser.add_argument("--family", choices=FAMILIES, help="only this family")
    parser.add_argument("--module", help="only this module, e.g. skyband.kernels.topk.select")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="time limit")
    parser.add_argument("--dry", action="store_true", help="do not write docs/mutation.md")
    parser.add_argument("--known", type=Path, help="only mutants in this file; all must die")
    parser.add_argument("--cases", type=int, default=runner.CASES, help="random queries per mutant")
    given = parser.parse_args(words)
    runner.cases = given.cases
    runner.prepare()
    if given.known:
        return known(given.known)
    chosen = [t for t in TARGETS if given.family in (None, t.family)]
    chosen = [t for t in chosen if given.module in (None, t.module)]
    # Alternate between the families, so that a run that is out of time has covered each of them.
    chosen.sort(key=lambda t: [other for other in TARGETS if other.family == t.family].index(t))
    results: list[report.Result] = []
    began = time.monotonic()
    for target in chosen:
        if time.monotonic() - began > given.seconds:
            print(f"out of time before {target.module}")
            break
        results += tried(target, given.sample, given.seed)
    print(report.summary(results))
    if not given.dry:
        report.write(results, given)
    return 0


def tried(target: Target, size: int | None, seed: str) -> list[report.Result]:
    """Try a module's mutants, or a sample of them."""
    changes = changes_of(runner.path_of(target.module))
    took = runner.baseline(target)
    picked = sample(changes, size, f"{seed}:{target.module}")
    found = []
    for change in picked:
        fate, _ = runner.try_one(target, change, 4 * took + 5)
        found.append(report.Result(target, change, fate, len(changes)))
        if fate == runner.SURVIVED:
            print(f"  survived: {target.module}:{change.line} {change.name}", flush=True)
    killed = sum(result.fate != runner.SURVIVED for result in found)
    print(f"{target.module}: {killed} of {len(found)} killed ({took:.1f} s per run)", flush=True)
    return found


def known(path: Path) -> int:
    """Try the mutants in a list, skipping those that no longer exist; returns 1 if any survives."""
    lines = [
        line.split("\t") for line in path.read_text().splitlines() if line[:1] not in ("", "#")
    ]
    killed, survived = 0, 0
    for target in TARGETS:
        names = {name for module, name in lines if module == target.module}
        for change in changes_of(runner.path_of(target.module)):
            if change.name not in names:
                continue
            fate, took = runner.try_one(target, change, 60, full=False)
            killed += fate != runner.SURVIVED
            survived += fate == runner.SURVIVED
            print(f"{fate} in {took:.1f} s: {target.module} {change.name}", flush=True)
    print(f"{killed} killed, {survived} survived")
    return 1 if survived else 0


def sample(changes: list[Change], size: int | None, seed: str) -> list[Change]:
    if size is None or size >= len(changes):
        return changes
    return sorted(random.Random(seed).sample(changes, size), key=lambda change: change.line)


if __name__ == "__main__":
    sys.exit(main())
