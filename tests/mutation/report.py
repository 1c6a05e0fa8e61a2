"""Writes docs/mutation.md: the share of mutants killed, by family and module, and the survivors."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from mutation import runner
from mutation.changes import Change
from mutation.targets import FAMILIES, Target

PAGE = Path(__file__).parent.parent.parent / "docs" / "mutation.md"
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
    reasons = looked_at()
    sample = given.sample
    asked = "" if sample is None else f"--sample {sample} --seed {given.seed} "
    asked += "" if given.cases == runner.CASES else f"--cases {given.cases}"
    words = f' MUTANT_ARGS="{asked.strip()}"' if asked else ""
    how = "every mutant" if sample is None else f"a random sample of at most {sample} mutants"
    lines = [
        "# Mutation tests",
        "",
        "Do the tests notice when a kernel is wrong? `make mutants` changes one comparison,",
        "operator, constant or truth value at a time and runs what covers the module: "
        f"{given.cases} random",
        "queries and some longer streams against the oracle, with snapshots restored, and for some",
        "modules their own tests. Kernels run uncompiled. A mutant is killed when a test fails, or",
        "when the tests take more than four times as long as usual. Functions that only tests and",
        "statistics call are left out.",
        "",
        f"This page was written by `make mutants{words}`: {how} of each module.",
        "",
        "| family | mutants tried | killed |",
        "|---|---:|---:|",
    ]
    for family in (*FAMILIES, "all"):
        mine = [r for r in results if family in (r.target.family, "all")]
        if mine:
            lines.append(f"| {family} | {len(mine):,} | {_percent(mine)} |")
    lines += ["", "| module | mutants there are | tried | killed |", "|---|---:|---:|---:|"]
    for module in sorted({result.target.module for result in results}):
        mine = [result for result in results if result.target.module == module]
        lines.append(f"| `{module}` | {mine[0].all:,} | {len(mine):,} | {_percent(mine)} |")
    survivors = [result for result in results if not result.killed]
    lines += ["", "## Survivors", ""]
    lines += ["Each is a missing test, dead code, or means the same (equivalent).", ""]
    lines += ["| where | change | what it is |", "|---|---|---|"]
    for result in survivors:
        change, module = result.change, result.target.module
        reason = reasons.get((module, change.name), "not looked at yet")
        text = f"`{change.before}` → `{change.after}`".replace("|", "\\|")
        lines.append(f"| `{module}`, `{change.function}` | {text} | {reason} |")
    PAGE.write_text("\n".join(lines) + "\n")


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
