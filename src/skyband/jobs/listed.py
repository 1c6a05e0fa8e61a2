"""Files that Spark listed for a batch and that are gone before they were read.

Spark's file source writes down the files of a batch before it runs, and silently leaves out those
that have disappeared since, after a crash for instance. A job looks them up in its checkpoint:

    offsets/7     {"logOffset": 3}            the batch takes the listings up to number 3
    sources/0/3   {"path": "file:///…", …}    the files of listing 3 of source 0
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs

from skyband.data.letters import LETTERS
from skyband.spark.locations import open_location

__all__ = ["Listed"]

_GONE = "it was there when the folder was listed, and is gone now"


class Listed:
    """The files that a job's batches should read; ``sources`` are those of files, by number."""

    def __init__(self, checkpoint: str, sources: Mapping[int, str]) -> None:
        self.folder = None if "://" in checkpoint else Path(checkpoint)
        self.sources = sources

    def gone(self, batch: int) -> pa.Table:
        """A dead letter for each file of a batch that is not there any more."""
        rows = [
            {"source": name, "reason": _GONE, "file": unquote(uri)}
            for number, name in self.sources.items()
            for uri in _missing(list(self._files(number, batch)))
        ]
        return pa.Table.from_pylist(rows, schema=LETTERS)

    def _files(self, source: int, batch: int) -> Iterator[str]:
        if self.folder is None:
            return
        for number in range(self._upto(source, batch - 1) + 1, self._upto(source, batch) + 1):
            log = self.folder / "sources" / str(source)
            for path in (log / str(number), log / f"{number}.compact"):
                if path.exists():
                    entries = [json.loads(line) for line in path.read_text().splitlines()[1:]]
                    yield from (e["path"] for e in entries if e["batchId"] == number)
                    break

    def _upto(self, source: int, batch: int) -> int:
        """The last listing that a batch has taken; -1 if there is none."""
        assert self.folder is not None
        path = self.folder / "offsets" / str(batch)
        lines = path.read_text().splitlines()[2:] if path.exists() else []
        line = lines[source] if len(lines) > source else "-"
        told: Any = {} if line == "-" else json.loads(line)
        return int(told.get("logOffset", -1)) if isinstance(told, dict) else -1


def _missing(uris: list[str]) -> list[str]:
    """Of local files, those that are not there; other systems are asked by the workers only."""
    local = [uri for uri in uris if uri.startswith("file:")]
    if not local:
        return []
    system = pa.fs.LocalFileSystem()
    found = system.get_file_info([open_location(uri, {})[1] for uri in local])
    pairs = zip(local, found, strict=True)
    return [uri for uri, info in pairs if info.type == pa.fs.FileType.NotFound]
