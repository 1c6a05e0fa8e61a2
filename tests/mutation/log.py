"""A file with the results so far, so that a run can be stopped and continued."""

from __future__ import annotations

import hashlib
from pathlib import Path

from mutation import runner
from mutation.changes import Change


class Log:
    """One line per mutant. Results of a module whose file has changed since do not count."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known: dict[tuple[str, str, str], str] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                module, text, name, fate = line.split("\t")
                self.known[module, text, name] = fate

    def fate(self, module: str, change: Change) -> str | None:
        return self.known.get((module, _digest(module), change.name))

    def add(self, module: str, change: Change, fate: str) -> None:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write("\t".join((module, _digest(module), change.name, fate)) + "\n")


def _digest(module: str) -> str:
    return hashlib.sha256(runner.path_of(module).read_bytes()).hexdigest()[:16]
