"""The checkpoint of a local job: what it has read, and its state.

    skyband.json     which job this folder belongs to, and its run
    batches          one line per batch: where it begins and ends in each source
    snapshot         the state after some batch, and where that batch ended, in one file
    files-NAME       the files that a source has found, in the order in which they are read

A batch is entered in ``batches`` before its answers are written. After a crash, the job restores
the snapshot and reads the batches after it once more, from the same places; sinks know the ones
they have already written by their numbers. Snapshots are taken now and then; they shorten the list.

The folder is claimed when the first batch has been computed. What a start left that failed before
that does not keep another job from using it.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from skyband.data.packing import pack, unpack
from skyband.errors import EngineError
from skyband.jobs.durable import sync, write_whole, writing
from skyband.jobs.job import Columns, check_columns
from skyband.spark.checkpoint import clear

__all__ = ["Batch", "Checkpoint", "append_line", "read_lines"]

_MARK = "skyband.json"
_VERSION = 1


@dataclass(frozen=True)
class Batch:
    """A batch of a job: its number, and where it begins and ends in the sources it reads."""

    number: int
    begin: Mapping[str, Any] = field(default_factory=dict)
    end: Mapping[str, Any] = field(default_factory=dict)
    closing: bool = False
    """Whether this is the end of a finite job, at which the last windows are answered."""
    clock: float = field(default_factory=time.time)
    """When it was read, in seconds since 1970; it decides which times are too far ahead."""

    def line(self) -> dict[str, Any]:
        """What is written into the list of batches."""
        told = {"batch": self.number, "begin": self.begin, "end": self.end, "clock": self.clock}
        return {**told, "closing": True} if self.closing else told


class Checkpoint:
    """The folder of a job's checkpoint."""

    def __init__(
        self,
        folder: str,
        job: str,
        queries: Mapping[str, str],
        sources: str = "",
        columns: Columns | None = None,
    ) -> None:
        if "://" in folder:
            raise EngineError(
                f"checkpoint {folder!r} is not a local folder, which a local job needs; give a "
                "path, or use engine = 'spark'"
            )
        self.folder = Path(folder)
        self.identity: dict[str, Any] = {
            "engine": "local",
            "version": _VERSION,
            "job": job,
            "queries": queries,
            "sources": sources,
            "columns": columns or {},
        }
        self.run = uuid.uuid4().hex[:16]
        self.claimed = False
        self._open()

    # The folder ----------------------------------------------------------------------------------

    def _open(self) -> None:
        mark = self.folder / _MARK
        if not mark.exists():
            self._check_empty()
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write()
            return
        try:
            found = json.loads(mark.read_text(encoding="utf-8"))
        except (ValueError, OSError) as problem:
            raise EngineError(
                f"{mark} is damaged ({problem}); restore the checkpoint from a copy, or start "
                "from a new one"
            ) from problem
        if self._is_free(found):
            clear(self.folder)
            self._write()
            return
        self._check_identity(found)
        self.run, self.claimed = str(found["run"]), found.get("claimed", True)
        if any(found.get(name) != self.identity[name] for name in ("queries", "columns")):
            self._write()

    def _is_free(self, found: Any) -> bool:
        """Whether all that is there was left by a first start that failed.

        A batch that was entered is done again by the same job: its rows may not come twice.
        """
        if not isinstance(found, dict) or found.get("claimed", True):
            return False
        same = all(found.get(name) == value for name, value in self.identity.items())
        return not (same and self.batches(-1))

    def claim(self) -> None:
        """Claim the folder for this job: a batch has been computed."""
        if not self.claimed:
            self.claimed = True
            self._write()

    def _write(self) -> None:
        told = {"run": self.run, "claimed": self.claimed, **self.identity}
        write_whole(self.folder / _MARK, json.dumps(told, indent=1).encode())

    def _check_empty(self) -> None:
        if not self.folder.is_dir():
            return
        if any(each.suffix != ".part" for each in self.folder.iterdir()):  # what was cut off
            raise EngineError(
                f"{str(self.folder)!r} is not empty and is not the checkpoint of a Skyband job; "
                "give an empty folder as checkpoint, or the one this job was started with"
            )

    def _check_identity(self, found: Any) -> None:
        told = found if isinstance(found, dict) else {}
        if told.get("engine") != "local":
            raise EngineError(
                f"the checkpoint {str(self.folder)!r} was written on Spark; give the local job a "
                "folder of its own, or run the job with engine = 'spark'"
            )
        if told.get("version") != _VERSION:
            raise EngineError(
                f"the checkpoint {str(self.folder)!r} has version {told.get('version')}, but this "
                f"Skyband reads version {_VERSION}; use the Skyband version that wrote it"
            )
        there, here = told.get("queries", {}), self.identity["queries"]
        shared = sorted(set(there) & set(here))
        changed = [name for name in shared if there[name] != here[name]]
        if changed:
            raise EngineError(
                f"the checkpoint {str(self.folder)!r} belongs to other queries: "
                f"{', '.join(changed)} changed since; give a query that changed another name, or "
                "the job a new folder: it then reads its source from the start"
            )
        if not shared:
            raise EngineError(
                f"the checkpoint {str(self.folder)!r} belongs to other queries: it has none of "
                f"its queries in common with this job ({', '.join(there)}); give a new folder"
            )
        check_columns(str(self.folder), told.get("columns"), self.identity["columns"])

    # Batches and snapshots -----------------------------------------------------------------------

    def batches(self, after: int) -> list[Batch]:
        """The batches after this one that have begun."""
        found = [Batch(line.pop("batch"), **line) for line in read_lines(self.folder / "batches")]
        return [batch for batch in found if batch.number > after]

    def enter(self, batch: Batch) -> None:
        """Enter a batch, before its answers are written."""
        append_line(self.folder / "batches", batch.line())

    def save(self, batch: int, places: Mapping[str, Any], blob: bytes) -> None:
        """Write the state after a batch and where each source was read to, in one file."""
        header: dict[str, Any] = {"batch": batch, "places": dict(places)}
        state = {"state": np.frombuffer(blob, np.uint8)}
        write_whole(self.folder / "snapshot", pack(header, state))
        kept = "".join(json.dumps(each.line()) + "\n" for each in self.batches(batch))
        write_whole(self.folder / "batches", kept.encode())

    def load(self) -> tuple[int, dict[str, Any], bytes] | None:
        """The last snapshot: its batch, the places in the sources, and the state."""
        path = self.folder / "snapshot"
        if not path.exists():
            return None
        try:
            header: Any
            header, arrays = unpack(path.read_bytes())
            return header["batch"], header["places"], arrays["state"].tobytes()
        except Exception as problem:
            raise EngineError(
                f"{path} is damaged ({problem}); restore the checkpoint from a copy, or start from "
                "a new folder: the job then reads its source from the start"
            ) from problem


# Files --------------------------------------------------------------------------------------------


def append_line(path: Path, line: Any) -> None:
    """Add one JSON line to a file and force it to disk."""
    new = not path.exists()
    with writing(path), path.open("ab") as file:
        file.write(json.dumps(line).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    if new:
        sync(path.parent)


def read_lines(path: Path) -> list[Any]:
    """The lines of a file; one that a crash cut off is removed from it."""
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        with path.open("r+b") as file:
            file.truncate(len(whole))
    try:
        return [json.loads(line) for line in whole.splitlines()]
    except ValueError as problem:
        raise EngineError(
            f"{path} is damaged ({problem}); restore the checkpoint from a copy, or start from a "
            "new one"
        ) from problem
