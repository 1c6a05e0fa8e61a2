"""What ``make dist`` checks: the contents of wheel and sdist, their size, and the workflow."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / ".ci" / "dist.py"

pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="only a checkout has this script")


@pytest.fixture(scope="module")
def dist() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dist_check", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_good_wheel_has_no_problems_and_a_bad_one_has(dist: Any) -> None:
    info = ["skyband-1.dist-info/METADATA", "skyband-1.dist-info/licenses/LICENSE"]
    good = [*dist.NEEDED_IN_WHEEL, *info]
    assert dist.wheel_problems(good, 900_000) == []
    bad = [*good[1:-1], "tests/test_x.py", "lab/bench/x.py", "skyband/__pycache__/x.pyc"]
    assert dist.wheel_problems(bad, 1_000_001) == [
        "the wheel holds tests/test_x.py, which is no part of the package",
        "the wheel holds lab/bench/x.py, which is no part of the package",
        "the wheel lacks skyband/__init__.py",
        "the wheel lacks its licence",
        "the wheel has 1,000,001 bytes, and may have 1,000,000",
        "the wheel holds skyband/__pycache__/x.pyc",
    ]


def test_an_sdist_holds_what_a_checkout_needs(dist: Any) -> None:
    good = [name + "x" if name.endswith("/") else name for name in dist.NEEDED_IN_SDIST]
    assert dist.sdist_problems(good) == []
    assert dist.sdist_problems(good[1:]) == [f"the sdist lacks {dist.NEEDED_IN_SDIST[0]}"]


def test_what_the_wheel_needs_is_in_the_package(dist: Any) -> None:
    for name in dist.NEEDED_IN_WHEEL:
        assert (ROOT / "src" / name).is_file()


def test_two_builds_are_the_same(
    dist: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("hatchling")
    monkeypatch.chdir(ROOT)
    monkeypatch.setitem(os.environ, "SOURCE_DATE_EPOCH", "1700000000")
    assert dist.built(tmp_path / "a") == dist.built(tmp_path / "b")
    assert dist.problems_of(tmp_path / "a") == []


def test_only_the_publishing_job_may_identify_itself() -> None:
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    assert "permissions" not in release["jobs"]["build"]
    publish = release["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"] == "pypi"
    assert publish["needs"] == "build"
    assert not any("password" in step.get("with", {}) for step in publish["steps"])
