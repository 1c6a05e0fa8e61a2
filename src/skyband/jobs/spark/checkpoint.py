"""The checkpoint folder of a job on Spark: whose it is, whether it is whole, how a job is closed.

**Closing.** The last windows of a finite job are answered by one more batch, which reads nothing.
Spark plans a batch (a file under ``offsets``), runs it and commits it. A batch that is planned but
not committed is run by the next start, with the watermark that its plan names:

    offsets/6   {"batchWatermarkMs": 1995, ...}   {"logOffset": 4}     committed
    offsets/7   {"batchWatermarkMs": 2040, ...}   {"logOffset": 4}     nothing new, all windows due

So we write the plan of such a batch. Spark runs it as any other: the timers of all keys fire, the
answers reach the sinks once, and rows that come later for those windows are late.

**Damage.** Spark notices some damages late, in words that do not name them ("assertion failed"),
and one not at all: without the record of a batch that was done, it does that batch again and may
lose windows. So its logs are looked at before a query starts. What is wrong with the state itself
is found by Spark when it loads it.
"""

from __future__ import annotations

import json
import re
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.fs

from skyband.errors import EngineError, SkybandError
from skyband.jobs.world import LOCK, MACHINE, parsed
from skyband.spark.checkpoint import read_heads
from skyband.spark.locations import open_location
from skyband.spark.plan import BoardPlan, Closing
from skyband.spark.sessions import first_line

_MARK = "skyband.json"
_REMOTE = "skyband-run"


def recorded_shards(folder: str, session: Any = None) -> int | None:
    """The number of shards that a checkpoint was started with; None if it is new.

    Without a session, a remote checkpoint counts as new.
    """
    record = _record_of(folder, session)
    identity = record.get("identity") if isinstance(record, dict) else None
    boards = identity.get("board", {}) if isinstance(identity, dict) else {}
    shards = next((each.get("shards") for each in boards.values()), None)
    return shards if isinstance(shards, int) else None


class Claim:
    """Records which query and which run a job's checkpoint folder belongs to.

    A run is everything that happens from one checkpoint, across restarts; sinks use its id to know
    what they have already written. The folder is claimed once the first batch has been computed. If
    a first start fails before that, its leftovers do not keep another query from using the folder.
    """

    def __init__(
        self, folder: str, plan: BoardPlan, session: Any, sources: str = "", columns: Any = None
    ) -> None:
        """``columns`` is remembered beside the queries, if the caller gives it."""
        self.folder, self.plan, self.session = folder, plan, session
        self.sources = sources
        """Differs if the sources do: Spark notes what it will read before a batch is computed."""
        self.columns = columns
        self.columns_before: Any = None
        self.local = "://" not in folder
        self.mark = Path(folder) / _MARK
        self.run = uuid.uuid4().hex[:16]
        self.claimed = False
        self.new = True
        """Whether the folder was empty or missing before."""
        self.outdated = False
        """Whether queries or columns were added or taken away since the folder was claimed."""
        self.known: list[str] | None = None
        """The queries that the folder was used for; None if it is new, or has only one."""
        path = Path(folder)
        if self.local and path.is_dir() and not MACHINE.is_empty(path) and not self.mark.exists():
            raise EngineError(
                f"{folder!r} is not empty and is not the checkpoint of a Skyband job; give an "
                "empty folder as checkpoint, or the one this job was started with"
            )
        record = _record_of(folder, session)
        if record is not None:
            self._take(record if isinstance(record, dict) else {})

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
                MACHINE.clear(Path(self.folder), _MARK)
                (Path(self.folder) / LOCK).unlink(missing_ok=True)
                Path(self.folder).rmdir()

    def _take(self, record: dict[str, Any]) -> None:
        """Go on from what is recorded in the folder."""
        if self.local and not record.get("claimed", record.get("engine") == "local"):
            try:
                self.plan.check_identity(record.get("identity"))
                free = record.get("sources", self.sources) != self.sources
            except SkybandError:
                free = True
            if free and "run" in record:  # left by a first start that failed before a batch
                MACHINE.clear(Path(self.folder), _MARK)
                return
        if record.get("engine") == "local":
            raise EngineError(
                f"the checkpoint {self.folder!r} was written by a local job; give the job on Spark "
                "a folder of its own, or use engine = 'local'"
            )
        try:
            self.plan.check_identity(record.get("identity"))
        except SkybandError as problem:
            raise EngineError(f"checkpoint {self.folder!r}: {problem}") from None
        self.run, self.new = str(record["run"]), False
        self.claimed = bool(record.get("claimed"))
        self.columns_before = record.get("columns")
        now = self.plan.identity, self.columns
        self.outdated = (record["identity"], self.columns_before) != now
        if self.claimed and not self.plan.alone:
            self.known = list(record["identity"]["board"])

    def _write(self) -> None:
        record = {"run": self.run, "claimed": self.claimed, "sources": self.sources}
        record["identity"] = self.plan.identity
        record |= {} if self.columns is None else {"columns": self.columns}
        if not self.local:
            frame = self.session.createDataFrame([(json.dumps(record),)], "value string")
            frame.coalesce(1).write.text(f"{self.folder}/{_REMOTE}")
            return
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        MACHINE.write_whole(self.mark, json.dumps(record, indent=1).encode())


def _record_of(folder: str, session: Any) -> Any:
    """What was recorded in a folder; None if nothing was."""
    if "://" in folder:
        return None if session is None else _found_by_spark(folder, session)
    mark = Path(folder) / _MARK
    return parsed(mark, mark.read_text(encoding="utf-8")) if mark.exists() else None


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
    return parsed(folder, rows[0][0])


# Closing a finite job -----------------------------------------------------------------------------


_RECORD = "skyband-closing.json"
_WATERMARK = "batchWatermarkMs"


def plan_closing(session: Any, checkpoint: str, plan: BoardPlan) -> bool:
    """Plan the batch that answers the last windows; False if none are left.

    The query must have ended. ``checkpoint`` is the folder of the job; the query's is inside.
    """
    system, root = _opened(checkpoint)
    folder = f"{root}/answers"
    last = _last_batch(system, f"{folder}/offsets")
    if last is None:
        return False
    if last != _last_batch(system, f"{folder}/commits"):
        raise EngineError(
            f"the last batch of {checkpoint!r} was not finished, so the job cannot be closed; "
            "start it again"
        )
    closing = closing_of(plan, _latest(session, f"{checkpoint}/answers"))
    if closing is None or closing.watermark_ms <= _reached(system, folder, last):
        return False
    record = {"watermark": closing.watermark_ms, "ends": dict(closing.ends_ms)}
    _write(system, f"{root}/{_RECORD}", json.dumps(record))
    offsets = _lines(system, f"{folder}/offsets/{last}")
    metadata = json.loads(offsets[1]) | {_WATERMARK: closing.watermark_ms}
    planned = "\n".join([offsets[0], json.dumps(metadata, separators=(",", ":")), *offsets[2:]])
    _write(system, f"{folder}/offsets/{last + 1}", planned)
    return True


def next_watermark(checkpoint: str) -> int | None:
    """The watermark with which a job goes on; None if it has finished no batch."""
    system, root = _opened(checkpoint)
    last = _last_batch(system, f"{root}/answers/commits")
    return None if last is None else _reached(system, f"{root}/answers", last)


def _reached(system: Any, folder: str, batch: int) -> int:
    """The watermark after a batch."""
    planned = json.loads(_lines(system, f"{folder}/offsets/{batch}")[1])
    committed = json.loads(_lines(system, f"{folder}/commits/{batch}")[1])
    return int(max(planned[_WATERMARK], committed.get("nextBatchWatermarkMs", 0)))


def closing_of(plan: BoardPlan, latest_ms: int | None) -> Closing | None:
    """The watermark at which every query has answered its last window."""
    if latest_ms is None:
        return None
    ends = {name: each.last_end_ms(latest_ms) for name, each in plan.plans.items()}
    return Closing(max(end + plan.held_ms[name] for name, end in ends.items()), ends)


def read_closing(checkpoint: str) -> Closing | None:
    """How a job was last closed; None if it never was."""
    try:
        system, root = _opened(checkpoint)
        record = json.loads("\n".join(_lines(system, f"{root}/{_RECORD}")))
    except (OSError, ValueError):
        return None
    return Closing(int(record["watermark"]), record["ends"])


def _latest(session: Any, checkpoint: str) -> int | None:
    """The greatest time of all rows, bad and late ones too; None if there was no row."""
    heads = (head for _, head, _ in read_heads(session, checkpoint))
    times = [head["latest"] for head in heads if head.get("latest") is not None]
    return max(times, default=None)


# Files of a checkpoint ----------------------------------------------------------------------------


def _opened(checkpoint: str) -> tuple[Any, str]:
    if "://" in checkpoint:
        return open_location(checkpoint, {})
    return pyarrow.fs.LocalFileSystem(), checkpoint


def _last_batch(system: Any, folder: str) -> int | None:
    chosen = pyarrow.fs.FileSelector(folder, allow_not_found=True)
    names = [each.base_name for each in system.get_file_info(chosen)]
    return max((int(name) for name in names if name.isdigit()), default=None)


def _lines(system: Any, path: str) -> list[str]:
    with system.open_input_stream(path) as file:
        return list(file.read().decode().split("\n"))


def _write(system: Any, path: str, text: str) -> None:
    """Write a file whole: readers see all of it, or none."""
    folder, _, name = path.rpartition("/")
    draft = f"{folder}/.{name}.part"
    with system.open_output_stream(draft) as out:
        out.write(text.encode())
    system.move(draft, path)


# Damage -------------------------------------------------------------------------------------------


_SIGNS = (
    *("CANNOT_LOAD_STATE_STORE", "CANNOT_READ_CHECKPOINT", "CHECKPOINT_FILE_CHECKSUM"),
    *("MALFORMED_LOG_FILE", "malformed", "Incomplete log file", "log file was malformed"),
    *("ChecksumException", "snapshot is damaged", "STATE_STORE_SCHEMA"),
)
"""What Spark, or a bucket, says about a checkpoint that cannot be read."""
_LOGS = ("offsets", "commits", "state/*/_metadata/v*")
_MOST_LINES = 1_000
"""Lines of a log that are read; a log of many files can be long."""


def damaged(folder: str, reason: str) -> EngineError:
    """The error to raise for a checkpoint that cannot be used."""
    return EngineError(
        f"the checkpoint {folder!r} is damaged: {reason}. Restore it from a copy, or give the job "
        "an empty folder: it then reads its source from the start"
    )


def told_of_damage(message: str) -> str | None:
    """The line in which Spark says that a checkpoint is damaged; None if it does not."""
    for line in message.splitlines():
        places = [at for sign in _SIGNS if (at := line.find(sign)) >= 0]
        if places:
            text = line[min(places) :]  # what comes before names the query and its runs
            return re.sub(r"^([A-Z_.]+)\]", r"\1:", text).strip()
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
    problems = [_problem(path, inner) for path in [inner / "metadata", *logs] if path.exists()]
    for problem in filter(None, problems):
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
    name = path.relative_to(inner)
    with path.open(encoding="utf-8", errors="replace") as log:
        lines = [line.rstrip("\n") for _, line in zip(range(_MOST_LINES), log, strict=False)]
    if not lines:
        return f"{name} is empty"
    if path.name != "metadata":
        if not re.fullmatch(r"v\d+", lines[0]):
            return f"{name} is no log of Spark"
        lines = lines[1:]
    if not all(line in ("", "-") or _is_json(line) for line in lines):
        return f"{name} is cut off or overwritten"
    return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
