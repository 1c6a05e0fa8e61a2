"""What docs/upgrading.md says of states that another version wrote."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import skyband as sb
from skyband.data import packing
from skyband.embedded import snapshots
from skyband.jobs.local import checkpoint

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "upgrading.md"
QUERY = sb.TopK(k=1, score="x", window=sb.CountWindow(2))


def snapshot() -> bytes:
    monitor = sb.Monitor(QUERY)
    monitor.push(pa.table({"x": [1, 2, 3]}))
    return monitor.snapshot()


def test_a_snapshot_of_a_later_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    later = max(snapshots.SNAPSHOT_VERSION, snapshots.BOARD_VERSION) + 1
    with monkeypatch.context() as changed:
        changed.setattr(snapshots, "SNAPSHOT_VERSION", later)
        blob = snapshot()
    with pytest.raises(sb.EngineError, match=f"the snapshot has version {later}"):
        sb.Monitor.restore(blob)


def test_a_snapshot_in_a_later_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    later = packing.FORMAT_VERSION + 1
    with monkeypatch.context() as changed:
        changed.setattr(packing, "FORMAT_VERSION", later)
        blob = snapshot()
    with pytest.raises(sb.EngineError, match="upgrade skyband to read it"):
        sb.Monitor.restore(blob)


def test_a_checkpoint_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skyband.jobs import parse_job, run_job

    (tmp_path / "in.csv").write_text("t,x\n1,5\n2,6\n")
    job = {
        "name": "small", "engine": "local", "checkpoint": str(tmp_path / "state"),
        "source": {"kind": "files", "path": str(tmp_path / "in.csv")},
        "query": {"kind": "TopK", "k": 1, "score": "x", "time": "t", "window": {"size": 2}},
        "sink": {"kind": "files", "path": str(tmp_path / "out")},
        "trigger": {"once": True},
    }  # fmt: skip
    run_job(parse_job(job))
    run_job(parse_job(job))  # the same version continues
    monkeypatch.setattr(checkpoint, "_VERSION", checkpoint._VERSION + 1)
    with pytest.raises(sb.EngineError, match="has version 1, but this Skyband reads version 2"):
        run_job(parse_job(job))


@pytest.mark.skipif(not PAGE.is_file(), reason="only a checkout has the page")
def test_the_page_names_the_versions_of_the_code_and_tests_that_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    from skyband.spark.plan import STATE_VERSION

    newest = max(snapshots.SNAPSHOT_VERSION, snapshots.BOARD_VERSION)
    assert f"snapshot version above {newest}, or format above {packing.FORMAT_VERSION}" in text
    assert f"(state version {STATE_VERSION})" in text
    assert f"checkpoint of a local job (version {checkpoint._VERSION})" in text
    named = set(re.findall(r"`(tests/[\w/.]+)`", text))
    assert len(named) > 5
    for path in named:
        assert (ROOT / path).exists(), path
