"""Snapshots of released versions are restored, or refused with a message that names the version."""

from __future__ import annotations

from pathlib import Path

import pytest

import oracle
import skyband as sb
from skyband import registry
from support import make_snapshots

FILES = sorted(make_snapshots.FOLDER.glob("*/*.zip"))
SUMS = {"count", "score", "topk_probability"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_goes_on_from_a_snapshot_of_an_older_version(path: Path) -> None:
    blob, batches, wanted = make_snapshots.read(path)
    monitor = sb.Monitor.restore(blob)
    got = make_snapshots.answers(monitor, batches)
    assert len(got) == len(wanted) > 0
    for mine, theirs in zip(got, wanted, strict=True):
        for table, expected in zip(mine[:2], theirs[:2], strict=True):
            problem = oracle.difference(table, expected, SUMS)
            assert problem is None, problem
        assert mine[2:] == theirs[2:]
    monitor._check()


def test_every_algorithm_of_0_1_has_its_snapshots() -> None:
    files = (make_snapshots.FOLDER / "0.1.0").glob("*.zip")
    names = {path.stem.rpartition("-")[0] for path in files}
    registered = {
        f"{kind}-{name}" for kind in registry.kinds() for name in registry.algorithms(kind)
    }
    assert len(names) == 25  # all algorithms of version 0.1
    assert names <= registered
