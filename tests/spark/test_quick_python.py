"""The interpreter of local workers: this one, with this path, without Spark's zips."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from skyband.spark import quick_python as module
from skyband.spark.quick_python import is_quick, quick_python

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a shell script")


def test_it_runs_this_interpreter_with_this_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, '/it\'s a "folder" $HOME'])
    command = quick_python()
    asked = "import json, sys; print(json.dumps([sys.executable, sys.path, sys.argv]))"
    done = subprocess.run(
        [command, "-c", asked, "two words"],
        env=os.environ | {"PYTHONPATH": "/opt/spark/python/lib/pyspark.zip"},
        capture_output=True,
        text=True,
        check=True,
    )
    executable, path, arguments = json.loads(done.stdout)
    assert executable == sys.executable
    assert set(filter(os.path.isabs, sys.path)) <= set(path)
    assert not [each for each in path if each.endswith("pyspark.zip")]
    assert arguments == ["-c", "two words"]
    assert quick_python() == command == module._made[0]
    assert is_quick(command)
    assert not is_quick(sys.executable)
