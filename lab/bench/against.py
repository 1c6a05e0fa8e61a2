"""Compare this checkout with another revision: ``python -m lab.bench.against [REVISION]``.

Without a revision, that is the last release. What got more than a tenth slower is listed last.

Both run the same short workloads (``lab/bench/workloads.py``) in processes of their own that take
turns, after one process each that compiles. What counts is processor time, the least of all runs,
so that other work on the machine matters little; the ratio of wall times is for an idle machine. A
ratio of 0.5 means that this checkout takes half the time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from lab.bench.workloads import WORKLOADS

__all__ = ["checked_out", "compare", "last_release", "slower", "table_of"]

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("workloads.py")
BUILD = ROOT / "build" / "against"
SLOWER = 1.1
"""From here on a workload is marked in the table."""

Times = dict[str, dict[str, float]]


def checked_out(revision: str) -> Path:
    """The package's folder at ``revision``, below ``build/``, where its compiled kernels stay."""
    name = _git("rev-parse", "--short", f"{revision}^{{commit}}").decode().strip()
    folder = BUILD / name
    if not folder.exists():
        archive = folder.with_suffix(".tar")
        archive.parent.mkdir(parents=True, exist_ok=True)
        archive.write_bytes(_git("archive", name, "src"))
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        archive.unlink()
    return folder / "src"


def last_release() -> str:
    """The newest tag of a version or, without tags, the commit that set the version."""
    tags = _git("tag", "--list", "v*", "--sort=-v:refname")
    found = tags or _git("log", "-1", "--format=%h", "-G", "^version = ", "--", "pyproject.toml")
    return found.decode().split()[0]


def compare(sources: dict[str, Path], names: list[str], rounds: int) -> dict[str, Times]:
    """The least times of each workload by each of ``sources``, whose processes take turns."""
    for source in sources.values():
        _measured(source, names, 0)
    least: dict[str, Times] = {label: {} for label in sources}
    for _ in range(rounds):
        for label, source in sources.items():
            for name, times in _measured(source, names, 1).items():
                before = least[label].setdefault(name, times)
                least[label][name] = {kind: min(before[kind], times[kind]) for kind in times}
    return least


def table_of(new: Times, old: Times) -> str:
    """The times and their ratios as a Markdown table; what became slower is marked.

    >>> print(
    ...     table_of({"a": {"processor": 1.2, "wall": 1.0}}, {"a": {"processor": 1.0, "wall": 2.0}})
    ... )
    | workload | processor s | before | ratio | ratio of wall times |
    |---|---|---|---|---|
    | a | 1.2000 | 1.0000 | **1.20** | 0.50 |
    """
    lines = [
        "| workload | processor s | before | ratio | ratio of wall times |",
        "|---|---|---|---|---|",
    ]
    for name, times in new.items():
        ratio = times["processor"] / old[name]["processor"]
        shown = f"**{ratio:.2f}**" if ratio > SLOWER else f"{ratio:.2f}"
        wall = times["wall"] / old[name]["wall"]
        seconds = f"{times['processor']:.4f} | {old[name]['processor']:.4f}"
        lines.append(f"| {name} | {seconds} | {shown} | {wall:.2f} |")
    return "\n".join(lines)


def slower(new: Times, old: Times) -> list[str]:
    """What takes more than a tenth longer than before, the worst first.

    >>> slower({"a": {"processor": 1.2}, "b": {"processor": 1.0}}, {"a": {"processor": 1.0}})
    ['a takes 1.20 times as long']
    """
    ratios = {name: new[name]["processor"] / old[name]["processor"] for name in new if name in old}
    worst = sorted((ratio, name) for name, ratio in ratios.items() if ratio > SLOWER)
    return [f"{name} takes {ratio:.2f} times as long" for ratio, name in reversed(worst)]


def _measured(source: Path, names: list[str], repeat: int) -> Times:
    """What one process measured; with ``repeat`` 0 it only compiles."""
    done = subprocess.run(  # noqa: S603  our own script
        [sys.executable, str(SCRIPT), str(repeat), *names],
        env=os.environ | {"PYTHONPATH": str(source)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    return {line.pop("name"): line for line in lines}


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout  # noqa: S603, S607


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.against", description=__doc__)
    parser.add_argument("revision", nargs="?", help="a commit, a branch or a tag (last release)")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each (default 5)")
    parser.add_argument("--only", help="workloads whose names contain this text")
    given = parser.parse_args()
    names = [name for name in WORKLOADS if given.only is None or given.only in name]
    revision = given.revision or last_release()
    sources = {"old": checked_out(revision), "new": ROOT / "src"}
    least = compare(sources, names, given.rounds)
    print(table_of(least["new"], least["old"]))
    found = slower(least["new"], least["old"]) or ["nothing"]
    print(f"\nMore than 10 % slower than {revision}: " + "; ".join(found))


if __name__ == "__main__":
    main()
