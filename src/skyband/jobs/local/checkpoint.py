"""The checkpoint of a local job: the batches that it has entered, and its state.

    skyband.json     which job this folder belongs to, and its run
    lock             held while the job runs
    snapshot         the state after some batch, and where each source was read to, in one file
    journal-8        batches from number 8 on, entered one by one (``journal``)
    files-NAME       the files that a source has found, in the order in which they are read
    answers          the answers that a page shows, if the job is served

A batch is entered after it was applied in memory, and before anybody sees what came of it. Where
its rows can be read again, it says where they begin and end; posted rows stand in it themselves.
After a crash the job restores the snapshot and applies the batches after it once more; sinks know
the ones they have already written by their numbers. A snapshot makes the batches before it
superfluous, so each begins a new journal.

The folder is claimed once the first batch was applied, before it is entered. What a start left that
failed before that does not keep another job from using it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from skyband.data.packing import pack, unpack
from skyband.errors import EngineError
from skyband.jobs.job import Columns, check_columns
from skyband.jobs.local.journal import Journal, Record
from skyband.jobs.world import MACHINE, FolderLock, World, named, parsed

_MARK = "skyband.json"
_VERSION = 2
_NAME = "journal-"


@dataclass
class Batch:
    """A batch of a job, as it is entered: rows of one source."""

    number: int
    source: str | None = None
    """None for the end of a finite job, at which the last windows are answered."""
    begin: Any = None
    end: Any = None
    """The places in the source between which the rows are read."""
    clock: float = 0.0
    """When it was read, in seconds since 1970; it decides which times are too far ahead."""
    answers: int = 0
    """How many answers the job has given with it, since it began."""
    unread: list[dict[str, Any]] = field(default_factory=list)
    """Letters for records beside ``rows`` that could not be read."""
    request: dict[str, Any] | None = None
    """What is remembered of a request: its reply, its key and a digest, if it has a key."""
    rows: bytes | memoryview | None = None
    """The rows themselves as an Arrow stream, if the source cannot be read again."""

    def header(self) -> dict[str, Any]:
        """Everything but the number and the rows."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        del values["number"], values["rows"]
        return {name: value for name, value in values.items() if value not in (None, [])}


class Checkpoint:
    """The folder of a job's checkpoint, locked until ``close``."""

    def __init__(
        self,
        folder: str,
        job: str,
        queries: Mapping[str, str],
        sources: str = "",
        columns: Columns | None = None,
        world: World = MACHINE,
    ) -> None:
        if "://" in folder:
            raise EngineError(
                f"checkpoint {folder!r} is not a local folder, which a local job needs; give a "
                "path, or use engine = 'spark'"
            )
        self.folder, self.world = Path(folder), world
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
        self.known: list[str] = list(queries)
        """The queries that the folder was used for before."""
        self.outdated = False
        """Whether the queries are others than before."""
        self._lock: FolderLock | None = None
        self._journal: Journal | None = None
        self._check_folder()
        self._lock = FolderLock(self.folder, world)
        try:
            with named(self.folder):
                self._open()
        except BaseException:
            self.close()
            raise

    # The folder ----------------------------------------------------------------------------------

    def _check_folder(self) -> None:
        """Raise EngineError for a folder of something else, before a lock is put into it."""
        if self.world.exists(self.folder / _MARK) or not self.world.is_folder(self.folder):
            return
        if not self.world.is_empty(self.folder):
            raise EngineError(
                f"{str(self.folder)!r} is not empty and is not the checkpoint of a Skyband job; "
                "give an empty folder as checkpoint, or the one this job was started with"
            )

    def _open(self) -> None:
        self.world.forget_drafts(self.folder)
        mark = self.folder / _MARK
        if not self.world.exists(mark):
            self._write()
            return
        record = parsed(mark, self.world.read(mark))
        if isinstance(record, dict) and not record.get("claimed", True):
            self.world.clear(self.folder, _MARK)  # left by a first start that failed
            self._write()
            return
        self._check_identity(record)
        self.run, self.claimed = str(record["run"]), True
        self.known = list(record["queries"])
        self.outdated = record["queries"] != self.identity["queries"]
        if any(record.get(name) != self.identity[name] for name in ("columns", "sources")):
            self._write(record["queries"])

    def _write(self, queries: Mapping[str, str] | None = None) -> None:
        record = {"run": self.run, "claimed": self.claimed, **self.identity}
        record["queries"] = queries or record["queries"]
        self.world.write_whole(self.folder / _MARK, json.dumps(record, indent=1).encode())

    def _check_identity(self, found: Any) -> None:
        record = found if isinstance(found, dict) else {}
        if record.get("engine") != "local":
            raise EngineError(
                f"the checkpoint {str(self.folder)!r} was written on Spark; give the local job a "
                "folder of its own, or run the job with engine = 'spark'"
            )
        if record.get("version") != _VERSION:
            raise EngineError(
                f"the checkpoint {str(self.folder)!r} has version {record.get('version')}, but "
                f"this Skyband reads version {_VERSION}; use the Skyband version that wrote it"
            )
        there, here = record.get("queries", {}), self.identity["queries"]
        shared = sorted(set(there) & set(here))
        changed = [name for name in shared if there[name] != here[name]]
        if changed:
            raise EngineError(
                f"the checkpoint {str(self.folder)!r} belongs to other queries: "
                f"{', '.join(changed)} changed since; give each query that changed a new name, or "
                "the job a new folder, and it reads its source from the start"
            )
        if not shared:
            raise EngineError(
                f"the checkpoint {str(self.folder)!r} belongs to other queries: it has none of "
                f"its queries in common with this job ({', '.join(there)}); give a new folder"
            )
        check_columns(str(self.folder), record.get("columns"), self.identity["columns"])

    def adopt(self) -> None:
        """Note the queries of this start, once a snapshot has them."""
        if self.claimed and self.outdated:
            self.outdated = False
            self._write()

    def close(self) -> None:
        """Let another process use the folder."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # Batches and snapshots -----------------------------------------------------------------------

    @property
    def journal_bytes(self) -> int:
        """Bytes of the batches since the last snapshot."""
        return 0 if self._journal is None else self._journal.size

    def batches(self, after: int) -> list[Batch]:
        """The batches after this one that were entered; afterwards more can be."""
        path, records = self._path(after + 1), list[Record]()
        if self.claimed:
            self._journal, records = Journal.opened(path, after + 1, self.world)
        else:
            self._journal = Journal.begun(path, 0, self.world)
        self._forget_others()
        return [Batch(number, **header, rows=rows or None) for number, header, rows in records]

    def enter(self, batches: Iterable[Batch]) -> None:
        """Enter batches, all with one sync, before anybody sees what came of them."""
        assert self._journal is not None, "batches() is called first"
        if not self.claimed:
            self.claimed = True
            self._write()
        for batch in batches:
            assert batch.number == self._journal.number + 1
            self._journal.append(batch.header(), batch.rows or b"")
        self._journal.sync()

    def save(self, batch: int, header: Mapping[str, Any], blob: bytes) -> None:
        """Write the state after a batch in one file, and begin a new journal."""
        if self._journal is None or self._journal.path != self._path(batch + 1):
            journal = Journal.begun(self._path(batch + 1), batch + 1, self.world)
            if self._journal is not None:
                self._journal.close()
            self._journal = journal
        state = {"state": np.frombuffer(blob, np.uint8)}
        content = pack({"batch": batch, **header}, state)
        self.world.write_whole(self.folder / "snapshot", content)
        self._forget_others()

    def load(self) -> tuple[dict[str, Any], bytes] | None:
        """The header and the state of the last snapshot."""
        path = self.folder / "snapshot"
        if not self.world.exists(path):
            return None
        content = self.world.read(path)
        try:
            header: Any
            header, arrays = unpack(content)
            return header, arrays["state"].tobytes()
        except Exception as problem:
            raise EngineError(
                f"{path} is damaged ({problem}); restore the checkpoint from a copy, or start from "
                "a new folder, and the job reads its source from the start"
            ) from problem

    def _path(self, first: int) -> Path:
        return self.folder / f"{_NAME}{first}"

    def _forget_others(self) -> None:
        """Remove journals that a snapshot has replaced, or that wait for one that was not taken."""
        assert self._journal is not None
        with named(self.folder):
            for name in self.world.names(self.folder):
                if name.startswith(_NAME) and name != self._journal.path.name:
                    self.world.remove(self.folder / name)
