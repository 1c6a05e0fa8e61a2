"""Finds out that a checkpoint is damaged, and says what to do about it.

Spark notices some damages late, in words that do not name them ("assertion failed"), and one not at
all: without the record of a batch that was done, it does that batch again and may lose windows.
So its logs are looked at before a query starts. What is wrong with the state itself is found by
Spark when it loads it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from skyband.errors import EngineError

__all__ = ["check_logs", "damaged", "told_of_damage"]

_SIGNS = (
    *("CANNOT_LOAD_STATE_STORE", "CANNOT_READ_CHECKPOINT", "CHECKPOINT_FILE_CHECKSUM"),
    *("MALFORMED_LOG_FILE", "malformed", "Incomplete log file", "log file was malformed"),
    *("ChecksumException", "snapshot is damaged", "STATE_STORE_SCHEMA"),
)
"""What Spark, or a bucket, says about a checkpoint that cannot be read."""
_LOGS = ("offsets", "commits", "state/*/_metadata/v*")
_MOST_LINES = 1_000
"""Lines of a log that are read; a log of many files can be long."""


def damaged(folder: str, told: str) -> EngineError:
    """The error to raise for a checkpoint that cannot be used."""
    return EngineError(
        f"the checkpoint {folder!r} is damaged: {told}. Restore it from a copy, or give the job an "
        "empty folder: it then reads its source from the start"
    )


def told_of_damage(message: str) -> str | None:
    """The line in which Spark says that a checkpoint is damaged; None if it does not."""
    for line in message.splitlines():
        found = [at for sign in _SIGNS if (at := line.find(sign)) >= 0]
        if found:
            told = line[min(found) :]  # what comes before names the query and its runs
            return re.sub(r"^([A-Z_.]+)\]", r"\1:", told).strip()
    return None


def check_logs(folder: str, query: str = "answers") -> None:
    """Raise EngineError if the logs of a query in a checkpoint cannot be read, or are not whole.

    A checkpoint on a file system that only Spark can read is not looked at.
    """
    if "://" in folder or not (Path(folder) / query).is_dir():
        return
    inner = Path(folder) / query
    planned, done = _numbers(inner / "offsets"), _numbers(inner / "commits")
    if (planned or done) and not (inner / "metadata").exists():
        raise damaged(folder, "metadata is missing")
    logs = [path for log in _LOGS for each in inner.glob(log) for path in _files(each)]
    found = [_problem(path, inner) for path in [inner / "metadata", *logs] if path.exists()]
    for problem in filter(None, found):
        raise damaged(folder, problem)
    for path in inner.glob("state/*/_stateSchema/*/[0-9]*"):
        with path.open("rb") as schema:
            if not re.fullmatch(rb"\0\x02v\d", schema.read(4)):
                raise damaged(folder, f"{path.relative_to(inner)} is no schema of a state")
    # A batch is planned when the one before is done, and its number is that of both records.
    if done and max(done) not in planned:
        raise damaged(folder, f"offsets/{max(done)} is missing")
    if planned and max(planned) > 0 and not {max(planned), max(planned) - 1} & done:
        raise damaged(folder, f"commits/{max(planned) - 1} is missing")
    if planned and (wrong := _problem_of_files(inner, max(planned))):
        raise damaged(folder, wrong)


def _problem_of_files(inner: Path, batch: int) -> str | None:
    """What is wrong with the lists of files that a batch refers to. Other sources have none."""
    lines = (inner / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()[2:]
    for source, line in enumerate(lines):
        last = json.loads(line).get("logOffset", -1) if line.startswith("{") else -1
        if last < 0:
            continue
        lists = _files(inner / "sources" / str(source))
        if last not in {int(path.stem) for path in lists}:
            return f"sources/{source}/{last} is missing"
        for problem in filter(None, (_problem(path, inner) for path in lists)):
            return problem
    return None


def _files(folder: Path) -> list[Path]:
    """The entries of a log, without their checksums and drafts."""
    return sorted(path for path in folder.glob("[0-9]*") if re.fullmatch(r"\d+(\.\w+)?", path.name))


def _numbers(folder: Path) -> set[int]:
    return {int(path.name) for path in _files(folder) if path.name.isdigit()}


def _problem(path: Path, inner: Path) -> str | None:
    """Why a file of a log cannot be read; None if it can. It has a version, then lines of JSON."""
    told = path.relative_to(inner)
    with path.open(encoding="utf-8", errors="replace") as log:
        lines = [line.rstrip("\n") for _, line in zip(range(_MOST_LINES), log, strict=False)]
    if not lines:
        return f"{told} is empty"
    if path.name != "metadata":
        if not re.fullmatch(r"v\d+", lines[0]):
            return f"{told} is no log of Spark"
        lines = lines[1:]
    if not all(line in ("", "-") or _is_json(line) for line in lines):
        return f"{told} is cut off or overwritten"
    return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
