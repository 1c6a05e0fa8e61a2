"""What a checkpoint holds: read by ``skyband state``, and checked before a job uses it."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import State
from skyband.data.durable import LOCK, clear, is_empty, write_whole
from skyband.data.packing import unpack
from skyband.errors import EngineError, SkybandError
from skyband.spark.bucket import pane_table
from skyband.spark.parcels import schema_of
from skyband.spark.plan import BoardPlan
from skyband.spark.requirements import first_line

__all__ = [
    "STATE_SCHEMA",
    "Claim",
    "read_heads",
    "read_state",
    "recorded_identity",
    "recorded_shards",
]

STATE_SCHEMA = schema_of(
    "bucket int, shard int, panes bigint, first_pane bigint, last_pane bigint, retained bigint, "
    "state_bytes bigint, rows_late bigint, rows_bad bigint, windows_out bigint, query string, "
    "algorithm string"
)
_MARK = "skyband.json"
_REMOTE = "skyband-run"


def read_heads(session: Any, checkpoint: str) -> list[tuple[Any, dict[str, Any], State]]:
    """The key and the head of every bucket and shard of a checkpoint, and the head's arrays."""
    reader = session.read.format("statestore").option("stateVarName", "head")
    try:
        rows = reader.load(checkpoint).collect()
    except Exception as problem:
        raise EngineError(
            f"{checkpoint!r} could not be read as the checkpoint of a Skyband query; give the "
            f"folder that was the query's checkpointLocation. Spark says: {first_line(problem)}"
        ) from problem
    return [(row["key"], *unpack(bytes(row["value"]["blob"]))) for row in rows]


def read_state(session: Any, checkpoint: str) -> pa.Table:
    """One row per query, bucket and shard of a checkpoint: panes, retained items, counts."""
    rows = [
        {"bucket": key["bucket"], "shard": key["shard"]} | row
        for key, head, arrays in read_heads(session, checkpoint)
        for row in _rows_of(head, arrays)
    ]
    rows.sort(key=lambda row: (row["bucket"], row["shard"]))
    return pa.Table.from_pylist(rows, schema=STATE_SCHEMA)


def _rows_of(head: dict[str, Any], arrays: State) -> list[dict[str, Any]]:
    """A row of each query; the readers of a fold share its size, so that shares add up to it."""
    rows = []
    for i, fold in enumerate(head["folds"]):
        panes = pane_table(i, arrays)
        parts = sum(size for *_, size in fold["parts"])
        sizes = (int(panes[:, 2].sum()) + parts, int(fold["retained"]))
        numbers, many = np.unique(panes[:, 0]).tolist(), len(fold["names"])
        for place, name in enumerate(fold["names"]):
            # The first reader also has what is left over.
            size, retained = (whole // many + (0 if place else whole % many) for whole in sizes)
            query = head["queries"][name]
            rows.append({
                "panes": len(numbers),
                "first_pane": min(numbers, default=None),
                "last_pane": max(numbers, default=None),
                "retained": retained,
                "state_bytes": size,
                **query["counts"],
                "query": query["identity"]["query"],
                "algorithm": query["identity"]["algorithm"],
            })  # fmt: skip
    return rows


def recorded_identity(folder: str, session: Any = None) -> dict[str, Any] | None:
    """What a job's checkpoint belongs to, as it was recorded; None if it is new.

    Without a session, a remote checkpoint counts as new.
    """
    if "://" in folder:
        found = None if session is None else _found_by_spark(folder, session)
    else:
        mark = Path(folder) / _MARK
        found = _parsed(mark, mark.read_text(encoding="utf-8")) if mark.exists() else None
    told = found.get("identity") if isinstance(found, dict) else None
    return told if isinstance(told, dict) else None


def recorded_shards(folder: str, session: Any = None) -> int | None:
    """The number of shards that a checkpoint was started with; None if it is new."""
    told = recorded_identity(folder, session)
    if told is None:
        return None
    boards: Any = told.get("board", {})
    shards = next((each.get("shards") for each in boards.values()), None)
    return shards if isinstance(shards, int) else None


class Claim:
    """Records which query and which run a job's checkpoint folder belongs to.

    A run is everything that happens from one checkpoint, across restarts; sinks use its id to know
    what they have already written. The folder is claimed once the first batch has been computed. If
    a first start fails before that, its leftovers do not keep another query from using the folder.
    """

    def __init__(
        self,
        folder: str,
        plan: BoardPlan,
        session: Any,
        sources: str = "",
        columns: Any = None,
    ) -> None:
        """``columns`` is remembered beside the queries, if the caller gives it."""
        self.folder = folder
        self.columns = columns
        self.columns_before: Any = None
        self.plan = plan
        self.sources = sources
        """Differs if the sources do: Spark notes what it will read before a batch is computed."""
        self.session = session
        self.local = "://" not in folder
        self.run = uuid.uuid4().hex[:16]
        self.claimed = False
        self.new = True
        """Whether the folder was empty or missing before."""
        self.outdated = False
        """Whether queries or columns were added or taken away since the folder was claimed."""
        self.known: list[str] | None = None
        """The queries that the folder was used for; None if it is new, or has only one."""
        found = self._found()
        if found is not None:
            self._take(found)

    @property
    def mark(self) -> Path:
        return Path(self.folder) / _MARK

    def prepare(self) -> None:
        """Record the run before the first batch begins."""
        if self.new:
            self._write()

    def confirm(self) -> None:
        """Claim the folder for this query: a batch has been computed."""
        if not self.claimed or self.outdated:
            self.claimed, self.outdated = True, False
            if self.local:
                self._write()

    def withdraw(self) -> None:
        """Remove a folder that this start created, because the start failed."""
        if self.new and self.local and not self.claimed:
            with suppress(OSError):  # what else is there stays
                clear(Path(self.folder), _MARK)
                (Path(self.folder) / LOCK).unlink(missing_ok=True)
                Path(self.folder).rmdir()

    def _found(self) -> Any:
        """The record in the folder; None if the folder is new."""
        if not self.local:
            return _found_by_spark(self.folder, self.session)
        path = Path(self.folder)
        if not path.is_dir() or is_empty(path):
            return None
        if not self.mark.exists():
            raise EngineError(
                f"{self.folder!r} is not empty and is not the checkpoint of a Skyband pipeline; "
                "give an empty folder as checkpoint, or the one this pipeline was started with"
            )
        return _parsed(self.mark, self.mark.read_text(encoding="utf-8"))

    def _take(self, found: Any) -> None:
        told = found if isinstance(found, dict) else {}
        if self.local and not told.get("claimed", told.get("engine") == "local"):
            try:
                self.plan.check_identity(told.get("identity"))
                free = told.get("sources", self.sources) != self.sources
            except SkybandError:
                free = True
            if free and "run" in told:  # left by a first start that failed before it wrote a batch
                clear(Path(self.folder), _MARK)
                return
        if told.get("engine") == "local":
            raise EngineError(
                f"the checkpoint {self.folder!r} was written by a local job; give the job on Spark "
                "a folder of its own, or use engine = 'local'"
            )
        try:
            self.plan.check_identity(told.get("identity"))
        except SkybandError as problem:
            raise EngineError(f"checkpoint {self.folder!r}: {problem}") from None
        self.run, self.new = str(found["run"]), False
        self.claimed = bool(found.get("claimed"))
        self.columns_before = found.get("columns")
        now = self.plan.identity, self.columns
        self.outdated = (found.get("identity"), self.columns_before) != now
        known = found["identity"]["board"]
        self.known = list(known) if self.claimed and not self.plan.alone else None

    def _write(self) -> None:
        told = {"run": self.run, "claimed": self.claimed, "sources": self.sources}
        told["identity"] = self.plan.identity
        told |= {} if self.columns is None else {"columns": self.columns}
        if not self.local:
            frame = self.session.createDataFrame([(json.dumps(told),)], "value string")
            frame.coalesce(1).write.text(f"{self.folder}/{_REMOTE}")
            return
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        write_whole(self.mark, json.dumps(told, indent=1).encode())


def _parsed(where: Path | str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as problem:
        raise EngineError(
            f"{where} is damaged ({problem}); restore the checkpoint from a copy, or start from a "
            "new one"
        ) from problem


def _found_by_spark(folder: str, session: Any) -> Any:
    """The record of a checkpoint on a file system that only Spark can read; None if it is new."""
    try:
        rows = session.read.text(f"{folder}/{_REMOTE}").collect()
    except Exception as problem:
        if "PATH_NOT_FOUND" in str(problem):
            return None
        raise EngineError(
            f"the checkpoint {folder!r} cannot be read: {first_line(problem)}"
        ) from problem
    return _parsed(folder, rows[0][0])
