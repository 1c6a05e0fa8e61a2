"""First runs of local jobs that fail: what they leave does no harm."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.jobs import parse_job, run_job
from skyband.jobs.local.checkpoint import Batch, Checkpoint
from skyband.jobs.local.local_job import run_local
from support.local_jobs import WINDOW, job, out, rows, wanted, written


class TestFirstRunsThatFail:
    """Until the first batch was computed, a checkpoint belongs to nobody."""

    def changed(self, tmp_path: Path, **more: Any) -> dict[str, Any]:
        told = job(tmp_path, **more)
        told["queries"]["busiest"]["k"] = 7
        return told

    def runs(self, tmp_path: Path, told: dict[str, Any]) -> None:
        run_job(parse_job(told))
        window = sb.TimeWindow(**WINDOW)
        spec = sb.TopK(k=7, score="bytes", id="flow", time="ts", window=window)
        assert out(tmp_path, "busiest") == sb.rank(tmp_path / "in", spec).to_pylist()

    def test_without_a_folder_to_read(self, tmp_path: Path) -> None:
        with pytest.raises(sb.SchemaError, match="no file matches"):
            run_local(parse_job(job(tmp_path)))
        written(tmp_path, rows(1))
        self.runs(tmp_path, self.changed(tmp_path))

    def test_with_a_file_that_cannot_be_read(self, tmp_path: Path) -> None:
        """The files it had found are looked for again, in the folder that the job then names."""
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "a.parquet").write_text("no Parquet")
        elsewhere = {"kind": "files", "path": str(tmp_path / "other")}
        with pytest.raises(sb.SchemaError, match=r"a\.parquet"):
            run_local(parse_job(job(tmp_path, source=elsewhere)))
        written(tmp_path, rows(1))
        self.runs(tmp_path, self.changed(tmp_path))

    def test_with_a_bad_row(self, tmp_path: Path) -> None:
        table = rows(1)[0]
        none = pa.array([None] * table.num_rows, pa.int64())
        written(tmp_path, [table.set_column(2, "bytes", none)])
        with pytest.raises(sb.DataError, match="bytes"):
            run_local(parse_job(job(tmp_path, on_bad="raise")))
        written(tmp_path, rows(1))
        self.runs(tmp_path, self.changed(tmp_path))

    def test_a_first_batch_that_was_cut_off_is_done_again(self, tmp_path: Path) -> None:
        """Rows of a topic, say, that were read from its end are not read from a later end."""
        with closing(Checkpoint(str(tmp_path / "state"), "network", {"busiest": "1"})) as first:
            assert first.batches(-1) == []
            first.enter([Batch(0, "", 3, 5)])
        with closing(Checkpoint(str(tmp_path / "state"), "network", {"busiest": "1"})) as again:
            assert again.run == first.run
            assert [(each.begin, each.end) for each in again.batches(-1)] == [(3, 5)]
        with pytest.raises(sb.EngineError, match="busiest changed since"):
            Checkpoint(str(tmp_path / "state"), "network", {"busiest": "2"})

    def test_what_a_server_keeps_there_stays(self, tmp_path: Path) -> None:
        Checkpoint(str(tmp_path / "state"), "network", {"busiest": "1"}).close()
        (tmp_path / "state" / "serve").mkdir()
        (tmp_path / "state" / "serve" / "answers").write_text("rows")
        Checkpoint(str(tmp_path / "state"), "network", {"busiest": "2"}).close()
        assert (tmp_path / "state" / "serve" / "answers").read_text() == "rows"

    def test_on_spark(self, tmp_path: Path) -> None:
        told = {"run": "x", "claimed": False, "identity": {}}
        (tmp_path / "state" / "answers").mkdir(parents=True)
        (tmp_path / "state" / "skyband.json").write_text(json.dumps(told))
        written(tmp_path, rows(1))
        self.runs(tmp_path, self.changed(tmp_path))
        assert not (tmp_path / "state" / "answers").exists()


def test_a_full_disk_is_named_and_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever write it meets: the error names the file, and the next start goes on."""
    written(tmp_path, rows(1, each=40))
    told = job(tmp_path)
    del told["queries"]["talkers"]
    named, to_disk = set(), {name: getattr(os, name) for name in ("fsync", "fdatasync")}
    for number in range(100):
        left = number

        def full(name: str, handle: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            to_disk[name](handle)

        for name in ("state", "out"):
            shutil.rmtree(tmp_path / name, ignore_errors=True)
        for name in to_disk:
            monkeypatch.setattr(os, name, partial(full, name))
        try:
            run_job(parse_job(told))
        except sb.EngineError as problem:
            text = r"(\S+) cannot be written \(No space left on device\); .*"
            told_of = re.sub(text, r"\1", str(problem))
            named.add(Path(told_of).name)
        else:
            break
        for name, real in to_disk.items():
            monkeypatch.setattr(os, name, real)
        run_job(parse_job(told))
        assert out(tmp_path, "busiest") == wanted(tmp_path, "busiest")
    assert {"skyband.json", "journal-0", "snapshot", "files-source"} <= named
    assert number > 10
