"""``python -m mutation``: try mutants and write the page about them."""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path
from typing import Any

from mutation import report, runner
from mutation.changes import Change, changes_of
from mutation.log import Log
from mutation.targets import FAMILIES, TARGETS, Target


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make mutants MUTANT_ARGS=...")
    parser.add_argument("--sample", type=int, help="number of mutants per module (default: all)")
    parser.add_argument("--seed", default="0", help="chooses the random sample")
    parser.add_argument("--family", choices=FAMILIES, help="only this family")
    parser.add_argument("--module", help="only this module, e.g. skyband.kernels.select")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="time limit")
    parser.add_argument("--dry", action="store_true", help="do not write the page")
    parser.add_argument("--known", type=Path, help="only mutants in this file; all must die")
    parser.add_argument("--cases", type=int, default=runner.CASES, help="random queries per module")
    parser.add_argument("--log", type=Path, help="write each result here, and skip those in it")
    parser.add_argument("--again", action="store_true", help="run equivalent survivors again too")
    given = parser.parse_args(words)
    if given.known:
        return known(given.known)
    chosen = [t for t in TARGETS if given.family in (None, t.family)]
    chosen = [t for t in chosen if given.module in (None, t.module)]
    # Alternate between the families, so that a run that is out of time has covered each of them.
    chosen.sort(key=lambda t: [other for other in TARGETS if other.family == t.family].index(t))
    return runner.with_tests(chosen, lambda items: run(chosen, items, given))


def run(chosen: list[Target], items: list[Any], given: argparse.Namespace) -> int:
    """Try the mutants of all targets until the time is up."""
    results: list[report.Result] = []
    until = time.monotonic() + given.seconds
    log = Log(given.log)
    for target in chosen:
        if time.monotonic() > until:
            print(f"out of time before {target.module}")
            break
        results += tried(target, items, given, log, until)
    print(report.summary(results))
    if not given.dry:
        report.write(results, given)
    return 0


def tried(
    target: Target, items: list[Any], given: argparse.Namespace, log: Log, until: float
) -> list[report.Result]:
    """Try a module's mutants, or a sample of them."""
    changes = changes_of(runner.path_of(target.module))
    picked = sample(changes, given.sample, f"{given.seed}:{target.module}")
    known = {} if given.again else report.looked_at()
    equivalent = {key for key, reason in known.items() if reason.startswith("equivalent")}
    bench: runner.Bench | None = None
    began = time.process_time()
    found = []
    for change in picked:
        fate = log.fate(target.module, change)
        if (target.module, change.name) in equivalent:
            fate = runner.SURVIVED
        if fate is None:
            if time.monotonic() > until:
                continue
            bench = bench or runner.Bench(target, items, given.cases)
            fate, _ = bench.fate(change)
            log.add(target.module, change, fate)
            if fate in runner.ALIVE:
                print(f"  {fate}: {target.module}:{change.line} {change.name}", flush=True)
        found.append(report.Result(target, change, fate, len(changes)))
    killed = sum(result.killed for result in found)
    said = f"{target.module}: {killed} of {len(found)} killed"
    if bench is not None:
        took = time.process_time() - began
        said += f" ({len(bench.checks)} checks of {bench.seconds:.1f} s, measured in {took:.1f} s)"
    print(said, flush=True)
    return found


def known(path: Path) -> int:
    """Try the mutants in a list, skipping those that no longer exist; returns 1 if any survives."""
    lines = [
        line.split("\t") for line in path.read_text().splitlines() if line[:1] not in ("", "#")
    ]
    killed, survived = 0, 0
    for target in TARGETS:
        names = {name for module, name in lines if module == target.module}
        changes = [c for c in changes_of(runner.path_of(target.module)) if c.name in names]
        if not changes:
            continue
        runner.load()
        bench = runner.Bench(target, None, cases=20)
        for change in changes:
            fate, noticed = bench.fate(change)
            killed += fate not in runner.ALIVE
            survived += fate in runner.ALIVE
            print(f"{fate} {noticed}: {target.module} {change.name}", flush=True)
    print(f"{killed} killed, {survived} survived")
    return 1 if survived else 0


def sample(changes: list[Change], size: int | None, seed: str) -> list[Change]:
    if size is None or size >= len(changes):
        return changes
    return sorted(random.Random(seed).sample(changes, size), key=lambda change: change.line)


if __name__ == "__main__":
    sys.exit(main())
