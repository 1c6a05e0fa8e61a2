"""Writes the page on mutants: the share of them killed, by family and module, and the survivors."""

from __future__ import annotations

import argparse
import functools
from dataclasses import dataclass
from pathlib import Path

from mutation import runner
from mutation.changes import Change
from mutation.targets import FAMILIES, TARGETS, Target

PAGE = Path(__file__).parent.parent.parent / "docs" / "internals" / "mutation.md"
LOOKED_AT = Path(__file__).parent / "survivors.txt"
"""Survivors already examined: module, name of the change and explanation, separated by tabs."""


@dataclass(frozen=True)
class Result:
    target: Target
    change: Change
    fate: str
    all: int
    """Number of mutants that the module has."""

    @property
    def killed(self) -> bool:
        return self.fate not in runner.ALIVE


def summary(results: list[Result]) -> str:
    """One line per family."""
    rows = []
    for family in FAMILIES:
        mine = [result for result in results if result.target.family == family]
        if mine:
            rows.append(f"{family:<10} {_share(mine)}")
    return "\n".join([*rows, f"{'all':<10} {_share(results)}"]) if results else "nothing was tried"


def write(results: list[Result], given: argparse.Namespace) -> None:
    """Rewrite the page."""
    lines = [*_introduction(results, given), *_tables(results), "", *_survivors(results)]
    PAGE.write_text("\n".join(lines) + "\n")


def _introduction(results: list[Result], given: argparse.Namespace) -> list[str]:
    sample = given.sample
    asked = "" if sample is None else f"--sample {sample} --seed {given.seed} "
    asked += "" if given.cases == runner.CASES else f"--cases {given.cases}"
    words = f' MUTANT_ARGS="{asked.strip()}"' if asked else ""
    there = sum({result.target.module: result.all for result in results}.values())
    modules = len({result.target.module for result in results})
    how = "all" if len(results) == there else f"a random sample of {len(results):,}"
    return [
        "# Mutation tests",
        "",
        "Do the tests fail when a kernel is wrong? `make mutants` changes one comparison,",
        "operator, constant or truth value at a time, and runs the tests that execute the",
        f"changed line: for each module, {given.cases} random queries and some longer streams,",
        "whose answers are compared with the oracle while snapshots are restored, and the tests",
        "of the module itself. Kernels run uncompiled. A mutant is killed when a test fails or",
        "takes more than ten times as long as usual. Functions that only tests and statistics",
        "call are left out.",
        "",
        "A survivor is called equivalent if its answers are the same, as far as reading the",
        "code can tell: it differs in memory, in speed or in when work is done. Survivors that",
        "are known to be equivalent are not run again, unless `--again` is given. Tests were",
        "written for the survivors of the samples `--seed 0`, `1` and `2`, so the figures of",
        "these samples are too good; those of any other seed are fair.",
        "",
        f"This page was written by `make mutants{words}`. The {modules} modules have",
        f"{there:,} mutants; this run tried {how}.",
        "",
    ]


def _tables(results: list[Result]) -> list[str]:
    lines = [
        "| family | mutants tried | killed | | equivalent | of the others, killed |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for family in (*FAMILIES, "all"):
        mine = [r for r in results if family in (r.target.family, "all")]
        if mine:
            killed, same = sum(r.killed for r in mine), sum(map(_equivalent, mine))
            others = [r for r in mine if not _equivalent(r)]
            lines.append(
                f"| {family} | {len(mine):,} | {killed:,} | {_percent(mine)} | {same:,} | "
                f"{_percent(others)} |"
            )
    lines += ["", "| module | all mutants | tried | killed | equivalent |"]
    lines += ["|---|---:|---:|---:|---:|"]
    for module in dict.fromkeys(t.module for t in TARGETS):
        mine = [result for result in results if result.target.module == module]
        if mine:
            killed, same = sum(r.killed for r in mine), sum(map(_equivalent, mine))
            lines.append(
                f"| `{module}` | {mine[0].all:,} | {len(mine):,} | {killed:,} | {same:,} |"
            )
    return lines


def _equivalent(result: Result) -> bool:
    """Whether a survivor means the same as the code: no test can fail."""
    reason = looked_at().get((result.target.module, result.change.name), "")
    return not result.killed and reason.startswith("equivalent")


def _survivors(results: list[Result]) -> list[str]:
    reasons = looked_at()
    lines = ["## Survivors", "", "| where | change | why no test fails |", "|---|---|---|"]
    for result in results:
        if not result.killed:
            change, module = result.change, result.target.module
            reason = reasons.get((module, change.name), "not examined yet")
            text = f"`{change.before}` → `{change.after}`".replace("|", "\\|")
            lines.append(f"| `{module}`, `{change.function}` | {text} | {reason} |")
    return lines


@functools.cache
def looked_at() -> dict[tuple[str, str], str]:
    """The explanations of survivors that were examined."""
    known = {}
    for line in LOOKED_AT.read_text().splitlines():
        if line and not line.startswith("#"):
            module, name, reason = line.split("\t")
            known[module, name] = reason
    return known


def _share(results: list[Result]) -> str:
    killed = sum(result.killed for result in results)
    return f"{killed:>5,} of {len(results):>5,} killed, {_percent(results)}"


def _percent(results: list[Result]) -> str:
    killed = sum(result.killed for result in results)
    return f"{100 * killed / len(results):.0f} %"
