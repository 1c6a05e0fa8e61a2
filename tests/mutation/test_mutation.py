"""The short form of ``make mutants``: mutants known to be killed are still killed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mutation import report, runner
from mutation.changes import changed, changes_of
from mutation.targets import FAMILIES, TARGETS, WITHOUT_KERNELS

KNOWN = Path(runner.__file__).parent / "killed.txt"
LEAST = 10
"""How many known mutants must still exist; those of rewritten functions are skipped."""


def test_known_mutants_are_killed() -> None:
    # In a separate process, because nothing of Skyband may be imported before a mutant.
    words = [sys.executable, "-m", "mutation", "--known", str(KNOWN)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    killed = int(done.stdout.splitlines()[-1].split()[0])
    assert killed >= LEAST, done.stdout


def test_every_family_has_a_kernel_and_a_synopsis() -> None:
    for family in FAMILIES:
        modules = [target.module for target in TARGETS if target.family == family]
        kernels = any(".kernels." in module for module in modules)
        assert kernels != (family in WITHOUT_KERNELS), family
        assert any(".kernels." not in module for module in modules), family
        assert all(runner.path_of(module).exists() for module in modules)


def test_changes_are_of_one_place_each(tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text(
        '"""Text."""\n'
        "N = 1\n"
        "def f(x: int = 2) -> int:\n"
        '    """Text."""\n'
        "    assert x < 9\n"
        "    if x < 3 and not x == 4:\n"
        "        x += 5\n"
        '        raise ValueError(f"{x + 1}")\n'
        "    return -x * 2\n"
        "def _check(x):\n"
        "    return x < 1\n"
    )
    names = [change.name for change in changes_of(path)]
    assert names == [
        "f: 2 -> 3 #1",
        "f: x < 3 and (not x == 4) -> x < 3 or not x == 4 #1",
        "f: x < 3 -> x <= 3 #1",
        "f: x < 3 -> x >= 3 #1",
        "f: not x == 4 -> not not x == 4 #1",
        "f: 3 -> 4 #1",
        "f: x == 4 -> x != 4 #1",
        "f: 4 -> 5 #1",
        "f: x += 5 -> x -= 5 #1",
        "f: 5 -> 6 #1",
        "f: -x * 2 -> -x + 2 #1",
        "f: -x -> +x #1",
        "f: 2 -> 3 #2",
    ]
    texts = {compile_of(path, n) for n in range(len(names))}
    assert len(texts) == len(names)


def compile_of(path: Path, number: int) -> str:
    import ast

    return ast.unparse(changed(path, changes_of(path)[number]))


def test_survivors_that_were_looked_at_are_of_known_modules() -> None:
    modules = {target.module for target in TARGETS}
    for module, _ in report.looked_at():
        assert module in modules


def test_the_page_is_about_modules_that_are_tried() -> None:
    named = set(re.findall(r"`(skyband\.[\w.]+)`", report.PAGE.read_text()))
    assert named
    assert named <= {target.module for target in TARGETS}


def test_each_module_is_tried_once() -> None:
    assert len({target.module for target in TARGETS}) == len(TARGETS)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.module)
def test_every_target_has_mutants(target: object) -> None:
    assert changes_of(runner.path_of(target.module))  # type: ignore[attr-defined]
